#!/usr/bin/env python3
"""What a mount says when it answers, and what it refuses: damage, hidden files, SOURCE under the mountpoint, no FUSE, whose it is."""
import contextlib
import shutil

from common import *

need_fuse()
CKPT, EXP = case("dcp/fsdp4")
W = tempfile.mkdtemp(prefix="sf-mount-says-")
os.chmod(W, 0o755)
NOTE = "shardfuse: note: hf/ has no config.json: add -o hf_files=DIR for from_pretrained"


def copy(name, *gone):
    shutil.copytree(CKPT, f"{W}/{name}")
    for f in gone:
        os.unlink(f"{W}/{name}/{f}")
    return f"{W}/{name}"


def mount(src, *args, at="m", **kw):
    """What a mount said, and whether it was there; it is not any more."""
    os.makedirs(f"{W}/{at}", exist_ok=True)
    r = run(src, f"{W}/{at}", *args, **kw)
    there = mounted(f"{W}/{at}")
    if there:
        unmount(f"{W}/{at}")
    check(f"mounted if and only if exit 0: {' '.join(map(str, args))}", there == (r.returncode == 0), r.stderr)
    return r


def damage():
    whole, one = copy("whole"), copy("one", "__3_0.distcp")
    r = mount(whole)
    check("a whole checkpoint: the note on hf/ alone", r.stderr == NOTE + "\n", r.stderr)
    folded = run("info", one).stdout.split("warnings\n")[1].splitlines()[0].strip()
    r = mount(one, "--log-file", f"{W}/log")
    check("a damaged one: info's line, and what lists all", r.stderr.splitlines() == [f"shardfuse: warning: {folded} (shardfuse verify {one})", NOTE], r.stderr)
    log = open(f"{W}/log").read().splitlines()
    check("the log has it too", len(log) == 1 and log[0].endswith(f"shardfuse: warning: {folded} (shardfuse verify {one})"), log)
    check("--quiet: nothing", mount(one, "--quiet").stderr == "")
    many = f"{W}/many"
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    torch.distributed.checkpoint.save({f"m.w{i}": torch.ones(3) for i in range(9)}, storage_writer=FileSystemWriter(many, single_file_per_rank=False), no_dist=True)
    for f in os.listdir(many):
        if f.endswith(".distcp"):
            os.unlink(f"{many}/{f}")
    lines = [x for x in mount(many).stderr.splitlines() if "warning" in x]
    check("three lines at most", len(lines) == 3 and lines[2] == f"shardfuse: warning: 7 more like these (shardfuse verify {many})", lines)
    r = mount(one, "-o", "complete")
    check("what is refused gets no note", r.returncode == 1 and "note:" not in r.stderr, r.stderr)


def places():
    c = copy("c")
    r = run(c, c)
    check("SOURCE itself as mountpoint is refused", r.returncode == 1 and "is SOURCE itself" in r.stderr and "-o nonempty" in r.stderr and not mounted(c), r.stderr)
    os.symlink(c, f"{W}/link")
    check("through a link too", run(f"file://{W}/link", f"{W}/c/.").returncode == 1 and not mounted(c))
    os.makedirs(f"{W}/up/down")
    shutil.copytree(CKPT, f"{W}/up/down/ckpt")
    r = run(f"{W}/up/down/ckpt", f"{W}/up")
    check("a directory above it is refused", r.returncode == 1 and "above SOURCE" in r.stderr and not mounted(f"{W}/up"), r.stderr)
    os.makedirs(f"{W}/up/down/ck")
    check("a name that SOURCE's begins with is none", mount(f"{W}/up/down/ckpt", at="up/down/ck").returncode == 0)
    r = mount(c, "-o", "nonempty", at="c")
    check("-o nonempty: over SOURCE", r.returncode == 0 and "warning" not in r.stderr, r.stderr)
    os.makedirs(f"{W}/full")
    open(f"{W}/full/x", "w").close()
    r = mount(c, at="full")
    check("a directory with files: a warning", r.returncode == 0 and f"shardfuse: warning: mountpoint '{W}/full' is not empty" in r.stderr, r.stderr)
    r = mount(c, "-o", "nonempty", at="full")
    check("-o nonempty: none", r.returncode == 0 and "warning" not in r.stderr, r.stderr)
    with Mount(c) as m:
        os.kill(daemon_of(m), signal.SIGKILL)
        for _ in range(100):
            try:
                os.listdir(m)
                time.sleep(0.05)
            except OSError:
                break
        r = run(c, m)
        check("a dead mountpoint is mounted on without a warning", r.returncode == 0 and "warning" not in r.stderr, r.stderr)
        r = run(c, m)
        check("what ends a mount can be copied", r.returncode == 1 and r.stderr.endswith(f"to end it: shardfuse umount {m}\n"), r.stderr)


def ends():
    with Mount(CKPT) as m:
        with open(f"{m}/model.safetensors", "rb"):
            r = run("umount", m)
            if os.geteuid() == 0:
                check("a mount in use says what to do", r.returncode == 1 and r.stderr == f"shardfuse: '{m}': in use: close the files and shells in it, or use -z (lazy)\n", r.stderr)
            check("and stays", r.returncode == 1 and mounted(m) and os.listdir(m), r.stderr)
        check("then it ends", run("umount", m).returncode == 0 and not mounted(m))
        r = run("umount", m)
        check("and is none any more", r.returncode == 1 and m in r.stderr, r.stderr)
    with Mount(CKPT) as m:
        pid = daemon_of(m)
        with contextlib.suppress(OSError), open(f"{m}/model.safetensors", "rb") as f:  # its end: the mount is gone
            f.read(100)
            os.kill(pid, signal.SIGTERM)
            for _ in range(400):
                if not os.path.exists(f"/proc/{pid}"):
                    break
                time.sleep(0.05)
            check("a daemon that is told to end does, whatever is open", not os.path.exists(f"/proc/{pid}"), pid)


def words():
    r = mount(CKPT, "-o", "views=hf,npy")
    check("a list's comma", r.returncode == 2 and "colons" in r.stderr and "views=hf:npy" in r.stderr, r.stderr)
    r = mount(CKPT, "-o", "views=hf,nyp")
    check("a word that is no view is unknown as ever", r.returncode == 2 and "colons" not in r.stderr, r.stderr)


def others():
    if os.geteuid() != 0 or not shutil.which("setpriv") or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        return skip("other users", "needs root, setpriv and unshare -m")
    os.makedirs(f"{W}/m", exist_ok=True)
    r = subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs x /dev && exec {BIN} {os.path.abspath(CKPT)} {W}/m"], capture_output=True, text=True)
    check("without /dev/fuse: doctor", r.returncode == 1 and r.stderr.endswith("(shardfuse doctor says how to fix it)\n"), r.stderr)
    prog = f"{W}/shardfuse"
    shutil.copy(BIN, prog)
    os.chmod(prog, 0o755)
    user = dict(user=65534, group=65534, extra_groups=[])
    with Mount(CKPT, "allow_other", dir=f"{W}/m") as m:
        r = subprocess.run([prog, "umount", m], capture_output=True, text=True, **user)
        check("a user cannot end root's mount, and is told who can", r.returncode == 1 and r.stderr == f"shardfuse: '{m}': root mounted it; only root can unmount it\n" and mounted(m), r.stderr)
    os.makedirs(f"{W}/theirs")
    os.chown(f"{W}/theirs", 65534, 65534)
    conf = open("/etc/fuse.conf").read() if os.path.exists("/etc/fuse.conf") else ""
    allowed = any(line.startswith("user_allow_other") for line in conf.splitlines())
    if not allowed:
        r = subprocess.run([prog, os.path.abspath(CKPT), f"{W}/theirs", "-o", "allow_root"], capture_output=True, text=True, **user)
        check("allow_root is called so", r.returncode == 1 and "allow_root needs" in r.stderr, r.stderr)


for part in (damage, places, ends, words, others):
    with attempt(part.__name__):
        part()
shutil.rmtree(W, ignore_errors=True)
finish()
