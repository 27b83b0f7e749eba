#!/usr/bin/env python3
"""What stands at the edge: JSON on a terminal, NULs in names, claims of short items, odd files in a checkpoint's place, /dev/full."""
import pty
import shutil
import struct

from common import *

need_program()
from handmade import HandMade, item_bytes
import hostile
TMP = tempfile.mkdtemp(prefix="sf-odd-")
ITEM = item_bytes(torch.arange(4.))


def made(name, keys, size=4):
    h = HandMade(f"{TMP}/{name}")
    for k in keys:
        h.tensor(k, (size,), torch.float32, [((0,), (size,), "__0_0.distcp", ITEM)])
    h.commit()
    return h.path


def on_terminal(*args):
    """(exit status, all that came) of a run whose stdin, stdout and stderr are a terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(BIN, [BIN, *args])
    out = b""
    while True:
        try:
            b = os.read(fd, 65536)
        except OSError:
            break
        if not b:
            break
        out += b
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), out.replace(b"\r\n", b"\n")


def obeyed(out):
    """Characters that a terminal would obey, or that hide or turn what is beside them."""
    return sorted({hex(ord(c)) for c in out.decode("utf-8", "surrogateescape")
                   if c != "\n" and (ord(c) < 32 or 0x7f <= ord(c) < 0xa0 or 0x200b <= ord(c) <= 0x200f or 0x2028 <= ord(c) <= 0x202e or 0x2066 <= ord(c) <= 0x2069
                                     or ord(c) == 0xfeff or 0xdc80 <= ord(c) <= 0xdcff or 0xe0000 <= ord(c) < 0xe0080)})


# ---- JSON on a terminal ----

CHARS = ["\x7f", "\x80", "\x9b31m", "\x85", "\u2028", "\u2029", "\u202e", "\u2066", "\u200b", "\ufeff", "\U000e0041", "é中\U0001f600"]
with attempt("JSON"):
    keys = [f"model.a{c}b" for c in CHARS] + [f"model.{c}" for c in hostile.CONTROL]
    d = made("json", keys)
    for args in (["keys", "--json", d], ["info", "--json", d], ["ls", "--json", d], ["verify", "--json", d], ["cat", d, "tensors.json"], ["cat", d, "info.json"]):
        code, out = on_terminal(*args)
        check(f"{args[:2]}: runs", code == 0, out[-300:])
        check(f"{args[:2]}: nothing is obeyed", not obeyed(out), obeyed(out))
    _, out = on_terminal("keys", "--json", d)
    names = [k["key"] for k in json.loads(out)["keys"]]
    check("JSON: names are the same", sorted(names) == sorted(keys), names[:3])
    check("JSON: letters stay letters", "é中\U0001f600".encode() in out, out[-300:])

with attempt("JSON of others"):
    # content_metadata goes into info.json as it is
    d = f"{TMP}/others"
    os.mkdir(d)
    theirs = '{"format": "pt", "a\u009bb": ["\u202e\\"\\\\", "\u2028"], "é": 1}'
    head = json.dumps({"__metadata__": json.loads(theirs) | {"a\u009bb": "\u202ex"} | {"é": "1"}, "w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}, ensure_ascii=False).encode()
    with open(f"{d}/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + bytes(16))
    code, out = on_terminal("cat", d, "info.json")
    check("JSON of others: nothing is obeyed", code == 1 or not obeyed(out), obeyed(out))

# ---- keys -0 ----

with attempt("keys -0"):
    d = made("plain", ["model.a", "model.b\x1b[31m"])
    code, out = on_terminal("keys", "-0", d)
    check("keys -0: refused on a terminal", code == 1 and b"terminal" in out and b"\x1b" not in out and b"\0" not in out, out)
    r = run("keys", "-0", d, text=False)
    check("keys -0: into a pipe", r.returncode == 0 and r.stdout.split(b"\0")[:-1] == [b"model.a", b"model.b\x1b[31m"], r.stdout)
    d = made("nul", ["model.a\0b", "model.c"])
    r = run("keys", "-0", d, text=False)
    check("keys -0: a NUL in a name", r.returncode == 1 and r.stdout == b"" and b"model.a%00b" in r.stderr and b"NUL" in r.stderr, (r.stdout, r.stderr))
    check("keys -0: of the others", run("keys", "-0", d, "model.c").stdout == "model.c\0")

# ---- verify ----

with attempt("verify"):
    d = made("short", ["model.w", "model.v"], size=4000)
    r = run("verify", d)
    check("verify: a short item", r.returncode == 1 and "short-item: model.w" in r.stdout and "16000" in r.stdout and str(len(ITEM)) in r.stdout, r.stdout + r.stderr)
    check("verify: the other one too", "short-item: model.v" in r.stdout, r.stdout)
    j = json.loads(run("verify", "--json", d).stdout)
    check("verify --json: a short item", not j["ok"] and [x["code"] for x in j["defects"]] == ["short-item"] * 2, j)
    h = HandMade(f"{TMP}/stride")
    h.tensor("model.w", (4000,), torch.float32, [((0,), (4000,), "__0_0.distcp", item_bytes(torch.zeros(1).expand(4000)))])
    h.commit()
    r = run("verify", h.path)
    check("verify: a stride of 0 is none", r.returncode == 0, r.stdout + r.stderr)

# ---- no regular file ----


ODD = {"a fifo": os.mkfifo, "a directory": os.mkdir, "a device": lambda p: os.symlink("/dev/null", p), "a link": lambda p: os.symlink(os.path.basename(p), p)}
for what, make in ODD.items():
    with attempt(what):
        d = made(f"odd-{what}", ["model.w"])
        os.remove(f"{d}/.metadata")
        make(f"{d}/.metadata")
        r = run("verify", d, timeout=20)
        check(f".metadata: {what}", r.returncode == 2 and what in r.stderr and "not a regular file" in r.stderr and "not committed" not in r.stderr, r.stderr)
        d = made(f"odd-shard-{what}", ["model.w"])
        os.remove(f"{d}/__0_0.distcp")
        make(f"{d}/__0_0.distcp")
        r = run("verify", d, timeout=20)
        called = "a symbolic link that leads back to itself" if what == "a link" else what
        check(f"a shard: {what}", r.returncode == 1 and called in r.stdout and "not a regular file" in r.stdout, r.stdout + r.stderr)

# ---- --config and stdout ----

with attempt("--config"):
    d = made("config", ["model.w"])
    big = f"{TMP}/big"
    with open(big, "w") as f:
        f.write("# x\n" * (1 << 18))
    check("--config: 1 MiB", run("keys", d, "--config", big).returncode == 0)
    with open(big, "a") as f:
        f.write("#")
    r = run("keys", d, "--config", big)
    check("--config: more", r.returncode == 2 and "1048576" in r.stderr and big in r.stderr, r.stderr)
    r = run("keys", d, "--config", "/dev/zero", timeout=20)
    check("--config: without end", r.returncode == 2 and "1048576" in r.stderr, r.stderr)
    r = run("keys", d, "--config", TMP)
    check("--config: a directory", r.returncode == 2 and "irectory" in r.stderr, r.stderr)
    with open(big, "w") as f:
        f.write("\n  # a comment\n memory = 1G \nviews=state")
    check("--config: lines", run("ls", d, "--config", big).returncode == 0)
    with open(big, "a") as f:
        f.write("\nbad=1\n")
    r = run("ls", d, "--config", big)
    check("--config: the line is named", r.returncode == 2 and "line 5" in r.stderr, r.stderr)

for args in (["--help"], ["help"], ["help", "keys"], ["keys", "--help"], ["keys", "--help-all"], ["--version"]):
    with open("/dev/full", "w") as full:
        r = subprocess.run([BIN, *args], stdout=full, stderr=subprocess.PIPE, text=True)
    check(f"{args} > /dev/full", r.returncode == 1 and "stdout" in r.stderr, f"{r.returncode} {r.stderr}")

shutil.rmtree(TMP)
finish()
