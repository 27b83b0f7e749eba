#!/usr/bin/env python3
"""Until a mount answers it is its command's: ended with it by any signal, and alone at its mountpoint."""
import shutil
import struct

from common import *

need_fuse()
sigterm_all()
TMP = tempfile.mkdtemp(prefix="sf-start-")
MP = f"{TMP}/m"
os.mkdir(MP)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL)

# a header that takes a while to read
SRC = f"{TMP}/many"
os.mkdir(SRC)
head = json.dumps({f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(150000)}).encode()
with open(f"{SRC}/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(head)) + head)


def start(src=SRC):
    return subprocess.Popen([BIN, src, MP], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
                            preexec_fn=lambda: [signal.signal(s, signal.SIG_DFL) for s in SIGNALS if s != signal.SIGKILL])


def child_of(p):
    """The daemon, from its fork on; None: the command ended before."""
    while p.poll() is None:
        try:
            with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
                for pid in map(int, f.read().split()):
                    with open(f"/proc/{pid}/stat") as s:  # its own session: setsid() is behind it
                        if int(s.read().rsplit(")", 1)[1].split()[3]) == pid:
                            return pid
        except (OSError, ValueError):
            pass
    return None


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def wait_for(what, seconds=20):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return what()


def targets():
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as f:
        return sum(line.split()[4] == os.path.realpath(MP) for line in f)


def clean():
    while targets():
        subprocess.run(["fusermount3", "-uz", MP], capture_output=True)


def interrupt(name, sig, delay, stop):
    """Ends the command @delay s after its daemon was forked; @stop: which stands still until the command is gone."""
    p = start()
    pid = child_of(p)
    if pid and stop:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(delay)
    if not pid or p.poll() is not None:
        p.communicate()
        unmount(MP)
        return False
    p.send_signal(sig)
    code = p.wait(timeout=20)
    if pid and stop:
        os.kill(pid, signal.SIGCONT)
    check(f"{name}: the command ends by it", code == -sig, f"{code}")
    check(f"{name}: the daemon ends", wait_for(lambda: gone(pid), 10), "it lives on")
    check(f"{name}: nothing is mounted", not targets(), f"{targets()} mounts")
    p.stderr.close()
    clean()
    return True


for sig in SIGNALS:
    with attempt(sig.name):
        if not interrupt(f"{sig.name}, first thing", sig, 0.0, True):
            check(sig.name, False, "the command ended before its daemon could be stopped")
        hit = sum(interrupt(f"{sig.name} after {d} s", sig, d, False) for d in (0.02, 0.1, 0.25, 0.5))
        check(f"{sig.name}: came in time at least once", hit, "the mount was always faster")

with attempt("afterwards"):
    with Mount(SRC, dir=MP):
        check("a mount outlives its command", targets() == 1, targets())

for turn in range(4):
    with attempt(f"race {turn}"):
        racers = [start(DATA + "/dcp/app/ckpt") for _ in range(6)]
        said = [p.communicate(timeout=60)[1].decode() for p in racers]
        codes = [p.returncode for p in racers]
        check(f"race {turn}: one mounts", codes.count(0) == 1 and targets() == 1, f"{codes}, {targets()} mounts")
        check(f"race {turn}: the others say why", all("mountpoint" in s and "mounted there" in s or "already" in s for s, c in zip(said, codes) if c), said)
        clean()
        wait_for(lambda: daemon_of(MP) is None)

with attempt("after the lock"):
    with Mount(SRC, dir=MP) as d:
        r = run(SRC, d)
        check("mounted: a second is refused", r.returncode == 1 and "already" in r.stderr, r.stderr)
    with Mount(SRC, dir=MP):
        check("unmounted: it can be mounted again", targets() == 1, targets())

# the daemon leaves the directory that it was started in
with attempt("paths that are relative"):
    os.mkdir(f"{TMP}/hf")
    with open(f"{TMP}/hf/config.json", "w") as f:
        f.write('{"model_type": "llama"}')
    r = run(SRC, MP, "-o", "hf_files=hf", cwd=TMP)
    try:
        check("it mounts", r.returncode == 0, r.stderr)
        with open(f"{MP}/hf/config.json") as f:
            check("hf_files is found from there", "llama" in f.read())
    finally:
        unmount(MP)

shutil.rmtree(TMP)
finish()
