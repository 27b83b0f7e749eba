#!/usr/bin/env python3
"""doctor SOURCE, of paths and of what is no URL: the remedy is one for what is wrong."""
import shutil

from common import *

need_program()
CKPT = f"{DATA}/dcp/fsdp4/ckpt"


def says(what, source, which, *texts, cwd=None, never="one level up"):
    r = run("doctor", "--json", source, cwd=cwd)
    with attempt(what):
        j = json.loads(r.stdout)
        bad = [c for c in j["checks"] if c["state"] == "wrong"]
        check(f"{what}: exit 1", r.returncode == 1 and not j["ready"], r.returncode)
        check(f"{what}: it is the {which}", [c["check"] for c in bad] == [which], bad)
        check(f"{what}: the remedy", all(t in bad[0]["remedy"] for t in texts) and never not in bad[0]["remedy"], bad)


def schemes():
    for source, meant in (("htp://h/y", "http://h/y"), ("htps://h", "https://h"), ("s3a://b/x", "s3://b/x"), ("gcs://b/x", "gs://b/x"), ("s3:/b/x", "s3://b/x"),
                          ("https//h/x", "https://h/x"), ("fil:///x", "file:///x"), ("htps://u:HUSH@h/x?k=HUSH", "https://h/x")):
        says(source, source, "source", meant, "meant?", never="HUSH")
    says("a scheme like none", "hdfs://h/x", "source", "s3://", "copied or mounted")


def paths(d):
    run_dir, step = d + "/runs", d + "/runs/step9000"
    shutil.copytree(CKPT, step)
    says("nothing there", d + "/quite/another", "source", f"nothing is called 'quite' in {d}")
    says("a misspelt name", d + "/runs/stpe9000/x", "source", f"near in {run_dir}: step9000")
    says("a misspelt name, file://", f"file://{d}/runs/step%39001", "source", f"near in {run_dir}: step9000")
    says("a misspelt name, relative", "runs/step900", "source", "near in runs: step9000", cwd=d)
    os.symlink(d + "/gone", d + "/link")
    says("a dangling link", d + "/link", "source", "readlink")
    says("a file of the checkpoint", step + "/.metadata", "source", f"SOURCE is the directory: {step}")
    says("a file of the checkpoint, there", ".metadata", "source", "SOURCE is the directory: .", cwd=step)
    says("a fifo", "/dev/null", "source", "a directory with a checkpoint's files")
    says("a run", run_dir, "checkpoint", "the one that is named")
    os.mkdir(d + "/empty")
    says("nothing in it", d + "/empty", "checkpoint", "one level up or down?", never="named")
    os.rename(step + "/.metadata", step + "/.metadata.tmp")
    says("not committed", step, "checkpoint", "wait for it")
    with open(step + "/.metadata", "wb") as f:
        f.write(b"torn")
    says("damaged", step, "checkpoint", "compare the files' sizes")
    os.mkdir(d + "/near")
    os.mkdir(d + "/near/step\x1b[31m1")
    r = run("doctor", d + "/near/step")
    check("names of others are data to a pipe", "step\x1b[31m1" in r.stdout, r.stdout)
    if shutil.which("script"):
        r = subprocess.run(["script", "-qec", f"{BIN} doctor {d}/near/step", "/dev/null"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        check("names of others are not obeyed by a terminal", "near in" in r.stdout and "\x1b[31m" not in r.stdout, r.stdout)
    else:
        skip("a terminal", "no script(1)")


def dead(d):
    if no_fuse():
        return skip("a mount whose program has ended", no_fuse())
    os.mkdir(d + "/m")
    with Mount(CKPT, dir=d + "/m"):
        pid = jrun("status", d + "/m")["mounts"][0]["pid"]
        os.kill(pid, signal.SIGKILL)
        for _ in range(100):
            if not os.path.exists(f"/proc/{pid}"):
                break
            time.sleep(0.05)
        says("a dead mount", d + "/m", "source", f"shardfuse umount {d}/m ", "fusermount3 -uz")
        says("below a dead mount", d + "/m/shards/x", "source", f"shardfuse umount {d}/m ", "fusermount3 -uz")
        r = run("umount", d + "/m")
        check("the remedy helps", r.returncode == 0 and not mounted(d + "/m"), r.stderr)


for part in (schemes, paths, dead):
    with attempt(part.__name__), tempfile.TemporaryDirectory() as directory:
        part(*([directory] if part is not schemes else []))
finish()
