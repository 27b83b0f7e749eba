#!/usr/bin/env python3
"""The log of a mount whose reads fail by the thousand: a first line of each file and cause, and how many more there were."""
import errno
import re

from common import *

need_fuse()
import fixture
from handmade import HandMade, item_bytes

CUTS, READS = 4, 1500
MORE = re.compile(r" \(and (\d+) more like this in 5 s\)")


def pread_fails(path, off):
    """The errno of a read past the page cache, or 0."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        os.pread(fd, 4096, off)
        return 0
    except OSError as e:
        return e.errno
    finally:
        os.close(fd)


def test_failing_reads_are_counted():
    with tempfile.TemporaryDirectory() as d:
        h = HandMade(f"{d}/c")
        t = fixture.values(64 * CUTS, 1024, seed=3)  # 256 KiB a shard
        for name in ("model.w", "model.v"):
            items = [item_bytes(t[i * 64:i * 64 + 64].clone()) for i in range(CUTS)]
            items[2] = b"\0" * len(items[2])  # no archive at all
            h.tensor(name, t.shape, t.dtype, [((i * 64, 0), (64, 1024), f"__{i}_0.distcp", x) for i, x in enumerate(items)])
        h.commit()
        os.unlink(f"{d}/c/__3_0.distcp")
        log = f"{d}/log"
        mount = Mount(f"{d}/c", f"log-file={log}")
        with mount as m:
            pid = mount.pid()
            paths = [f"{m}/state/model/{k}/tensor.raw" for k in "wv"]
            check("a whole shard is read", pread_fails(paths[0], 4096) == 0)
            before = counters(m)["errors"]
            with open(f"{d}/c/__0_0.distcp", "r+b") as f:
                f.write(b"new")
            got = {i: {pread_fails(p, i * (256 << 10) + 4096 * (n % 60)) for n in range(READS) for p in paths} for i in (0, 2, 3)}
            check("a changed file is ESTALE", got[0] == {errno.ESTALE}, got)
            check("a broken item and a missing file are EIO", got[2] == got[3] == {errno.EIO}, got)
            check("another shard is read all the same", pread_fails(paths[1], (256 << 10) + 4096) == 0)
            failed = counters(m)["errors"] - before
            check("counters.json counts every one", failed == 3 * 2 * READS, failed)
            with open(log, errors="replace") as f:
                now = f.read().splitlines()
        while os.path.exists(f"/proc/{pid}"):  # it tells what is left when it ends
            time.sleep(0.01)
        with open(log, errors="replace") as f:
            lines = f.read().splitlines()
        for i, name in ((0, "changed"), (2, "broken"), (3, "missing")):
            mine = [x for x in lines if f"__{i}_0.distcp" in x and ": error: " in x]
            told = sum(int(more[1]) if (more := MORE.search(x)) else 1 for x in mine)
            check(f"{name}: the first line is there at once", any(f"__{i}_0.distcp" in x and not MORE.search(x) for x in now), now[:5])
            check(f"{name}: lines and counts make all failures", told == 2 * READS, (told, mine[:5]))
            check(f"{name}: few lines", 2 <= len(mine) <= 40, len(mine))
        check("no other lines", len(lines) <= 120, lines[:10])



with attempt("failing reads"):
    test_failing_reads_are_counted()
finish()
