#!/usr/bin/env python3
"""A branch of a Hugging Face hub that moves while it is read: all that is read is of the commit that it was at first."""
import urllib.parse

import doctor_says
import scripted_server
from common import *

need_program()
for name in list(os.environ):
    if name.lower().endswith("_proxy") or name.startswith(("HF_", "HUGGING")):
        os.environ.pop(name)
if "without libcurl" in run("info", "http://127.0.0.1:1").stderr:
    skip_all("this build has no libcurl")
CKPT = f"{DATA}/dcp/hf_consolidated/ckpt"
A, B = "a" * 40, "b" * 40
OLD = {n: open(f"{CKPT}/{n}", "rb").read() for n in os.listdir(CKPT) if os.path.isfile(f"{CKPT}/{n}")}
# the other commit: the same names and lengths, other values
NEW = {n: b if n.endswith(".json") else b[:-8] + bytes(x ^ 0x55 for x in b[-8:]) for n, b in OLD.items()}
NEW["config.json"] = OLD["config.json"] = b"{}"


class Handler(scripted_server.Handler):
    """main is A for the first server.moves requests, then B. Large files are redirected, as by a hub, and the other host says nothing of commits."""

    def do_GET(self):
        s = self.server
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        with s.lock:
            s.seen.append((self.command, path))
            now = A if len(s.seen) <= s.moves else B
        if s.broken and s.broken(self, path):
            return
        if path.startswith("/cdn/"):
            commit, name = path[5:].split("/", 1)
            return self.file((OLD if commit == A else NEW)[name], '"cdn-%s"' % hashlib.md5((OLD if commit == A else NEW)[name]).hexdigest())
        m = re.fullmatch(r"/(?:datasets/)?org/repo/resolve/([^/]+)/(.+)", urllib.parse.urlsplit(self.path).path)
        if not m:
            return self.answer(404)
        commit = {A: A, B: B, "main": now, "refs%2Fpr%2F1": now}.get(m[1])
        files = OLD if commit == A else NEW
        says = {"X-Repo-Commit": s.says or commit} if s.tells else {}
        if m[2] not in files:
            return self.answer(404, X_Error_Code="EntryNotFound", **(says if s.tells != "not of what is not there" else {}))
        if m[2].endswith(".safetensors"):
            return self.answer(302, Location=f"http://localhost:{s.server_port}/cdn/{commit}/{m[2]}", ETag='"lfs"', **says)
        self.file(files[m[2]], '"%s"' % hashlib.md5(files[m[2]]).hexdigest(), **says)

    def file(self, body, etag, **headers):
        if self.headers.get("If-Match", etag) != etag:
            return self.answer(412)
        if self.command == "HEAD":
            return self.answer(200, Content_Length=str(len(body)), ETag=etag, **headers)
        m = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not m:
            return self.answer(200, body, ETag=etag, **headers)
        a, b = int(m[1]), min(int(m[2]), len(body) - 1)
        self.answer(206, body[a:b + 1], Content_Range=f"bytes {a}-{b}/{len(body)}", ETag=etag, **headers)


server = scripted_server.serve(Handler)
server.lock = scripted_server.threading.Lock()
SOURCE = f"{server.url}/org/repo/resolve/main"


def reset(moves=10**9, tells=True, says=None):
    server.seen, server.moves, server.tells, server.says, server.broken = [], moves, tells, says, None


def values(source):
    with tempfile.TemporaryDirectory() as d:
        r = run("export", source, d + "/x.safetensors")
        if r.returncode:
            return r.stderr
        with open(d + "/x.safetensors", "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()


reset()
WANT, OTHER = values(f"{server.url}/org/repo/resolve/{A}"), values(f"{server.url}/org/repo/resolve/{B}")
check("the commits are two", WANT != OTHER and len(WANT) == len(OTHER) == 64, (WANT, OTHER))
check("of a commit nothing is asked", not any("gitattributes" in p for _, p in server.seen) and all(A in p or B in p for _, p in server.seen), server.seen[:3])
REQUESTS = len(server.seen) // 2
for moves in range(1, REQUESTS + 2, 3):
    reset(moves)
    check(f"it moves after {moves} requests: the first commit", values(SOURCE) == WANT, server.seen)
    check(f"it moves after {moves} requests: one was of the branch", sum("/main/" in p for _, p in server.seen) == 1, server.seen)
for layout in ("datasets/org/repo/resolve/main", "org/repo/resolve/refs%2Fpr%2F1"):
    reset(2)
    check(f"{layout}: the first commit", values(f"{server.url}/{layout}") == WANT, server.seen[:4])
reset(3, "not of what is not there")
check("a hub that is silent of what is not there", values(SOURCE) in (WANT, OTHER), server.seen)
for what, says in (("a path", "../../other"), ("a word", "main"), ("a longer one", A + "0"), ("blanks", " " * 40)):
    reset(says=says)
    check(f"{what} is no commit", values(SOURCE) == WANT and not any("other" in p for _, p in server.seen), server.seen[:3])
reset(tells=False)
check("a server that tells of none", values(SOURCE) == WANT, server.seen[:3])
c = doctor_says.wrong("a server that tells of none", SOURCE, "revision", "which commit main is", "name a commit", env={}, state="hint")
reset()
c = doctor_says.doctor("which commit", SOURCE, {})
check("which commit: is told", c.get("revision") == ("ok", f"main is commit {A}", ""), c)
reset()
times = []


def trouble(h, path):
    times.append(path)
    return len(times) < 3 and h.answer(503, Retry_After="0")


server.broken = trouble
check("trouble that passes", values(SOURCE) == WANT and len(times) > 3, times[:5])
reset()
server.broken = lambda h, path: "/main/" in path and h.answer(503, Retry_After="0")
r = run("info", SOURCE, "--timeout", "2")
check("trouble that stays is an error: nothing is read of a commit that nobody knows", r.returncode == 1 and "503" in r.stderr and
      all(p.endswith(server.seen[0][1]) for _, p in server.seen), (r.stderr, server.seen[-3:]))
server.broken = lambda h, path: h.answer(401)
r = run("info", SOURCE, "--timeout", "2")
check("who may not is told so", r.returncode == 1 and "401" in r.stderr, r.stderr)
if no_fuse():
    skip("a mount", no_fuse())
else:
    reset()
    with Mount(SOURCE) as m:
        server.moves = len(server.seen)  # from now on main is the other one
        got = b""
        for n in sorted(x for x in OLD if x.endswith(".safetensors")):
            with open(f"{m}/shards/{n}", "rb") as f:
                check(f"a mount stays with its commit: {n}", f.read() == OLD[n])
finish()
