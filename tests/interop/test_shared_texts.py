#!/usr/bin/env python3
"""Pickles that name one long text, number or class very often: a file of a megabyte costs megabytes and moments, and a message says what the limit is."""
import shutil
import struct
import zipfile

from common import *

need_program()
from handmade import HandMade, item_bytes

LONG = "a" * 1000000
PEAK = 400 << 20  # value.json may grow to 256 MiB before it is refused
TMP = tempfile.mkdtemp(prefix="sf-shared-")
P4 = b"\x80\x04"


def text(s):
    return b"X" + struct.pack("<I", len(s)) + s.encode()


def peak(*args):
    """(exit status, stderr, peak bytes) of a run."""
    with tempfile.TemporaryFile() as err, open(os.devnull, "wb") as out:
        p = subprocess.Popen([BIN, *args], stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        return p.returncode, err.read().decode("utf-8", "replace"), usage.ru_maxrss << 10


def refused(name, words, *args):
    code, err, most = peak(*args)
    check(f"{name}: refused", code in (1, 2) and all(w in err for w in words), f"exit {code}: {err}")
    check(f"{name}: memory", most < PEAK, f"{most >> 20} MiB")


def small(name, *args):
    code, err, most = peak(*args)
    check(f"{name}: works", code == 0, f"exit {code}: {err}")
    check(f"{name}: memory", most < PEAK, f"{most >> 20} MiB")


def keys(name, paths):
    """A checkpoint of tiny tensors with these planner paths."""
    d = f"{TMP}/{name}"
    h = HandMade(d)
    item = item_bytes(torch.arange(4.))
    for k, path in paths.items():
        h.tensor(k, (4,), torch.float32, [((0,), (4,), "__0_0.distcp", item)], path)
    h.commit()
    return d


def value(name, pickled):
    """A checkpoint with the object "extra.o", whose item holds this pickle."""
    d = f"{TMP}/{name}"
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w", zipfile.ZIP_STORED) as z:
        z.writestr("archive/data.pkl", pickled)
        z.writestr("archive/byteorder", "little")
        z.writestr("archive/version", "3\n")
    h = HandMade(d)
    h.object("extra.o", None)
    item = b.getvalue()
    at = h.index("extra.o", None)
    h.storage[at] = type(h.storage[at])("__0_0.distcp", h.put("__0_0.distcp", item), len(item))
    h.commit()
    return d


# ---- paths and keys ----

with attempt("paths of one long text"):
    d = keys("elements", {f"model.w{i}": (LONG,) * 500 for i in range(6)})
    refused("a long element", ["path", "1000000", "65536"], "verify", d)
    refused("a long element, info", ["path"], "info", d)
    d = keys("often", {f"model.w{i}": (LONG[:60000],) * 500 for i in range(6)})
    refused("an element shared often", ["paths", "limit"], "verify", d)
    d = keys("groups", {f"model.w{i}": (LONG, str(i)) for i in range(1500)})
    refused("a long group", ["path", "65536"], "cat", d, "tensors.json")
    d = keys("long", {LONG[:65536]: (LONG[:65536],)})
    small("a key of 64 KiB", "verify", d)
    d = keys("longer", {LONG[:65537]: (LONG[:65537],)})
    refused("a longer key", ["65537", "65536"], "verify", d)

with attempt("shards of a subclass"):
    # each has the key's name and a number: 1,100 of 65,000 bytes
    h = HandMade(f"{TMP}/shards")
    item = item_bytes(torch.eye(2).to_sparse())
    h.tensor(LONG[:65000], (2200, 2), torch.float32, [((2 * i, 0), (2, 2), "__0_0.distcp", item) for i in range(1100)])
    h.commit()
    refused("names of shards", ["shards", "limit"], "verify", f"{TMP}/shards")

# ---- classes and numbers in values ----

CLASSES = {
    "classes": P4 + text(LONG) + b"q\0" + b"0](" + b"h\0h\0\x93" * 3000 + b"e.",
    "instances": P4 + text(LONG) + b"q\0" + b"0](" + b"h\0h\0\x93)\x81" * 3000 + b"e.",
}
for name, p in CLASSES.items():
    with attempt(name):
        d = value(name, p)
        refused(f"{name}: value.json", ["global", "1000000", "4096"], "cat", d, "state/extra/o/value.json")
        refused(f"{name}: object.pt", ["global", "4096"], "get", d, "extra.o", "--format", "pt", "-O", f"{TMP}/x.pt")
        code, err, most = peak("ls", "-lR", d)
        check(f"{name}: ls", most < PEAK, f"{most >> 20} MiB")

with attempt("short names of classes"):
    d = value("short", P4 + text(LONG[:4096]) + b"q\0" + b"0](" + b"h\0h\0\x93" * 3000 + b"e.")
    small("a class that is shared", "get", d, "extra.o", "--format", "pt", "-O", f"{TMP}/y.pt")
    check("a class that is shared: written once", os.path.getsize(f"{TMP}/y.pt") < 100000, os.path.getsize(f"{TMP}/y.pt"))

with attempt("integers"):
    number = b"\x8b" + struct.pack("<i", 60000) + b"\xff" * 59999 + b"\x7f"
    d = value("integers", b"\x80\x02](" + number + b"q\0" + b"h\0" * 1500 + b"e.")
    refused("integers: value.json", ["decimal digits", "60000"], "cat", d, "state/extra/o/value.json")
    d = value("integer", b"\x80\x02" + number + b".")
    small("one such integer", "cat", d, "state/extra/o/value.json")

shutil.rmtree(TMP)
finish()
