#!/usr/bin/env python3
"""A SOURCE that is none: a mount, a data file, what a user may not enter or read, what lies beside it and does not answer."""
import shutil

from common import *

need_program()
CKPT, EXP = case("dcp/fsdp4")
W = tempfile.mkdtemp(prefix="sf-source-says-")
os.chmod(W, 0o755)
USER = dict(user=65534, group=65534, extra_groups=[])


def copy(name):
    shutil.copytree(CKPT, f"{W}/{name}")
    return f"{W}/{name}"


def mounts():
    if no_fuse():
        return skip("mounts as SOURCE", no_fuse())
    src = copy("src")
    with Mount(src) as m:
        want = f"shardfuse: '{m}' is a shardfuse mount of '{src}': give that\n"
        for args in (["info", m], ["export", m, f"{W}/x.pt"], ["ls", m]):
            r = run(*args)
            check(f"{args[0]} of a mount", r.returncode == 1 and r.stderr == want, r.stderr)
        os.mkdir(f"{W}/over")
        r = run(m, f"{W}/over")
        check("a mount of a mount", r.returncode == 1 and r.stderr == want and not mounted(f"{W}/over"), r.stderr)
        check("its shards/ are a checkpoint", run("info", f"{m}/shards").returncode == 0, run("info", f"{m}/shards").stderr)
    os.mkdir(f"{W}/run")
    shutil.copytree(CKPT, f"{W}/run/step7")
    os.mkdir(f"{W}/run/dead")
    os.mkdir(f"{W}/run/a")
    with Mount(src, dir=f"{W}/run/dead") as m:
        os.kill(daemon_of(m), signal.SIGKILL)
        for _ in range(200):
            try:
                os.listdir(m)
                time.sleep(0.02)
            except OSError:
                break
        r = run("info", f"{W}/run")
        check("a dead mount below is not the answer", r.returncode == 1 and f"name '{W}/run/step7'" in r.stderr and "not connected" not in r.stderr, r.stderr)


def files():
    for name, want in (("__0_0.distcp", "is a data file of a checkpoint; give its directory"), (".metadata", "is a checkpoint's metadata; give its directory")):
        r = run("info", f"{CKPT}/{name}")
        check(name, r.returncode == 1 and r.stderr == f"shardfuse: '{CKPT}/{name}' {want}\n", r.stderr)


def damage():
    bad = copy("bad")
    with open(f"{bad}/.metadata", "r+b") as f:
        f.truncate(300)
    for src in (bad, f"file://{bad}"):
        r = run("info", src)
        check("what does not load is named by its directory", r.returncode == 1 and r.stderr.startswith(f"shardfuse: '{bad}': dcp '.metadata': pickle: "), r.stderr)
    os.unlink(f"{bad}/.metadata")
    r = run("info", bad)
    check("… and once", r.returncode == 1 and r.stderr.count(bad) == 1, r.stderr)


def stuck():
    """Storage that does not answer: nobody can end such an open(2), but it is said."""
    if no_fuse():
        return skip("storage that does not answer", no_fuse())
    with Mount(copy("below")) as m:
        pid = daemon_of(m)
        os.kill(pid, signal.SIGSTOP)
        p = None
        try:
            p = subprocess.Popen([BIN, "info", f"{m}/shards", "--timeout", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            line = p.stderr.readline()
            check("it is said", line == f"shardfuse: warning: '{m}/shards': still opening after 1 s: is its storage slow, or does it not answer?\n", line)
        finally:
            os.kill(pid, signal.SIGCONT)
        check("and goes on when it answers", p.wait(60) == 0)
        p.stderr.close()


def names():
    real = copy("real")
    os.symlink("real", f"{W}/latest")
    os.mkdir(f"{W}/d")
    for src, cwd in ((f"{W}/d/..//real/.", None), (f"{W}/latest/", None), ("../latest", f"{W}/d"), (f"file://{W}/./latest", None)):
        with attempt(f"SOURCE {src}"):
            check(f"{src} is shown by its real path", re.search(r"^source +(.*)$", run("info", src, cwd=cwd).stdout, re.M)[1] == os.path.realpath(real), run("info", src, cwd=cwd).stdout[:200])
    for views, zip_tools in (("npy:hf", False), ("npy:safetensors", False), ("npy:pt", True), ("checkpoint", True), ("state", True)):
        text = run("cat", real, "README", "--views", views).stdout
        check(f"README of {views}: on .pt files if there are some", ("Zip tools" in text) == zip_tools and (".pt" in text) == zip_tools, text)


def denied():
    if os.geteuid() != 0:
        return skip("what another user may not read", "needs root")
    prog = f"{W}/shardfuse"
    shutil.copy(BIN, prog)
    os.chmod(prog, 0o755)
    as_user = lambda *a: subprocess.run([prog, *a], capture_output=True, text=True, **USER)
    os.makedirs(f"{W}/closed/in")
    ckpt = copy("closed/in/ckpt")
    os.chmod(f"{W}/closed", 0o700)
    r = as_user("info", ckpt)
    check("the directory that denies is named", r.returncode == 1 and r.stderr == f"shardfuse: '{ckpt}': permission denied by directory '{W}/closed'\n", r.stderr)
    if not no_fuse():
        r = as_user(os.path.abspath(CKPT), f"{W}/closed/in")
        check("of a mountpoint too", r.returncode == 1 and f"permission denied by directory '{W}/closed'" in r.stderr, r.stderr)
    os.chmod(f"{W}/closed", 0o755)
    os.chmod(ckpt, 0o700)
    r = as_user("info", ckpt)
    check("or SOURCE itself", r.returncode == 1 and f"denied by directory '{ckpt}'" in r.stderr, r.stderr)
    os.chmod(ckpt, 0o755)
    for f in os.listdir(ckpt):
        os.chmod(f"{ckpt}/{f}", 0o644)
    os.chmod(f"{ckpt}/__2_0.distcp", 0o600)
    check("verify by who may read it", run("verify", ckpt).returncode == 0)
    r = as_user("verify", ckpt)
    check("verify of a file that may not be read: could not tell", r.returncode == 2 and r.stdout.splitlines() == ["could not tell: __2_0.distcp: Permission denied", "32 tensors, 19 objects, 4 files: could not tell"], r.stdout)
    r = as_user("verify", "--json", ckpt)
    j = json.loads(r.stdout)
    check("the same as JSON", r.returncode == 2 and j["unreadable"] == [{"file": "__2_0.distcp", "text": "Permission denied"}] and not j["ok"], r.stdout)
    r = as_user("verify", "--deep", ckpt)
    check("--deep too", r.returncode == 2 and "could not tell: __2_0.distcp" in r.stdout, r.stdout[-300:])


def deep():
    ckpt = copy("deep")
    os.unlink(f"{ckpt}/__1_0.distcp")
    key = next(e for e in jrun("keys", CKPT)["keys"] if e.get("object") and e["shards"][0]["file"] != "__1_0.distcp")
    with open(f"{ckpt}/{key['shards'][0]['file']}", "r+b") as f:
        f.seek(key["shards"][0]["offset"])
        f.write(bytes(key["shards"][0]["length"]))
    r = run("verify", "--deep", ckpt)
    lines = [p for x in r.stdout.split("\n\n")[1].splitlines()[:-1] if len(p := x.split(": ", 2)) == 3]  # else of no key
    check("verify --deep: a key stands once in a line", r.returncode == 1 and lines and all(x[1] not in x[2] for x in lines), [x for x in lines if x[1] in x[2]][:2])
    keys = [x[1] for x in lines]
    check("and has one line", len(keys) == len(set(keys)) and key["key"] in keys, [k for k in keys if keys.count(k) > 1])


for part in (mounts, files, damage, stuck, names, denied, deep):
    with attempt(part.__name__):
        part()
shutil.rmtree(W, ignore_errors=True)
finish()
