#!/usr/bin/env python3
"""A cache on a disk that is nearly full, full or read-only: every byte is right, what is wrong is said once, and status and doctor show it."""
from common import *
from file_server import server

need_program()
CASE = "dcp/fsdp4/ckpt"
CKPT = f"{DATA}/{CASE}"
URL = f"http://127.0.0.1:{server.server_port}/{CASE}"
WHOLE = "checkpoint.safetensors"
SIZE = 8 << 20

if "without libcurl" in run("info", URL).stderr:
    skip_all("this build has no libcurl")
if no_fuse():
    skip_all(no_fuse())


class Disk:
    """A small file system of its own."""

    def __init__(self, work):
        self.dir = tempfile.mkdtemp(dir=work)

    def __enter__(self):
        r = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "tmpfs", self.dir], capture_output=True, text=True)
        if r.returncode:
            skip_all(f"no file system can be mounted here: {r.stderr.strip()}")
        return self

    def fill(self, but):
        """Somebody else's bytes, all but so many, or all that goes in."""
        with open(f"{self.dir}/other", "wb", buffering=0) as f:
            try:
                while f.tell() < SIZE - but:
                    f.write(bytes(4096))
            except OSError:
                pass

    def read_only(self):
        subprocess.run(["mount", "-o", "remount,ro", self.dir], check=True)

    def __exit__(self, *a):
        for _ in range(100):  # the daemon is still ending
            if subprocess.run(["umount", self.dir], capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        subprocess.run(["umount", "-l", self.dir])
        check("the disk is given back", False)


WANT = run("cat", CKPT, WHOLE, text=False).stdout


def read_twice(name, m, log):
    for _ in range(2):
        with open(f"{m}/{WHOLE}", "rb") as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            check(f"{name}: the bytes are right", f.read() == WANT)
    return open(log).read()


def shown(name, m, d, why):
    s = run("status", m).stdout
    check(f"{name}: status says so", f"nothing more is kept there: {why}" in s or re.search(f"nothing more is kept there: .*{why}", s), s)
    check(f"{name}: and where that is", d in s, s)
    doc = {c["check"]: c for c in json.loads(run("doctor", "--json", "--cache-dir", d).stdout)["checks"]}["cache"]
    check(f"{name}: doctor too, with a remedy", doc["state"] == "hint" and why in doc["found"] and "--cache-dir" in doc["remedy"], doc)


def nearly_full(work):
    with Disk(work) as disk:
        disk.fill(SIZE // 40)
        log = f"{work}/floor.log"
        mount = Mount(URL, f"cache_dir={disk.dir}", f"log_file={log}")
        with mount as m:
            said = read_twice("below the floor", m, log)
            check("below the floor: said once", said.count("that stay so: nothing more is kept until there is room") == 1, said)
            shown("below the floor", m, disk.dir, "MB that stay so")
        check("the cache has nothing", not [f for f in os.listdir(disk.dir) if f.endswith(".data") and os.stat(f"{disk.dir}/{f}").st_blocks])


def full(work):
    with Disk(work) as disk:
        log = f"{work}/full.log"
        with Mount(URL, f"cache_dir={disk.dir}", f"log_file={log}") as m:
            disk.fill(0)  # after it has looked
            said = read_twice("full", m, log)
            check("full: said once", said.count("cache directory") == 1 and "No space left" in said, said)
            shown("full", m, disk.dir, "")


def read_only(work):
    with Disk(work) as disk:
        with Mount(URL, f"cache_dir={disk.dir}") as m:
            pass  # the directory is a cache
        disk.read_only()
        log = f"{work}/ro.log"
        with Mount(URL, f"cache_dir={disk.dir}", f"log_file={log}") as m:
            said = read_twice("read-only", m, log)
            check("read-only: said once", said.count("read-only: nothing more is kept") == 1, said)
            shown("read-only", m, disk.dir, "read-only")


def fine(work):
    with Disk(work) as disk, Mount(URL, f"cache_dir={disk.dir}") as m:
        read_twice("with room", m, "/dev/null")
        s = run("status", m).stdout
        check("with room: status says where and how much", re.search(rf"^kept +[\d.]+ \wB of 10 GB in {disk.dir}$", s, re.M) and "nothing more" not in s, s)
        doc = {c["check"]: c for c in json.loads(run("doctor", "--json", "--cache-dir", disk.dir).stdout)["checks"]}["cache"]
        check("with room: doctor is content", doc["state"] == "ok" and "10 GB at most" in doc["found"], doc)
    doc = {c["check"]: c for c in json.loads(run("doctor", "--json", "--cache-dir", f"{work}/not/there").stdout)["checks"]}["cache"]
    check("what is not there is looked at where it would be, and not made", doc["state"] == "ok" and not os.path.exists(f"{work}/not"), doc)


with tempfile.TemporaryDirectory() as work:
    for p in (nearly_full, full, read_only, fine):
        p(work)
finish()
