#!/usr/bin/env python3
"""Checkpoints on a web server: every verb and every view as from the local directory."""
import email.utils
import http.server
import re
import threading
import urllib.parse

from common import *

need_program()


class Handler(http.server.BaseHTTPRequestHandler):
    """Files below DATA with ranges, ETag and If-Match; what the test breaks is in `server.broken`: a function of handler and path."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *a):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        path = DATA + urllib.parse.unquote(url.path)
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        if self.server.broken and self.server.broken(self, url.path):
            return
        if not os.path.isfile(path):
            return self.answer(404, b"not here\n")
        with open(path, "rb") as f:
            body = f.read()
        tag = '"%s"' % hashlib.md5(body).hexdigest()
        if self.headers.get("If-Match", tag) != tag:
            return self.answer(412)
        headers = {"ETag": tag, "Last_Modified": email.utils.formatdate(os.stat(path).st_mtime, usegmt=True)}
        m = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if self.command == "HEAD":
            self.send_response(200)
            for k, v in headers.items():
                self.send_header(k.replace("_", "-"), v)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
        elif m:
            a, b = int(m[1]), min(int(m[2]), len(body) - 1)
            self.answer(206, body[a:b + 1], Content_Range=f"bytes {a}-{b}/{len(body)}", **headers)
        else:
            self.answer(200, body, **headers)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    broken = None
    seen = []


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
URL = f"http://127.0.0.1:{server.server_port}"
for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
    os.environ.pop(name, None)

if "without libcurl" in run("info", URL).stderr:
    skip_all("this build has no libcurl")

CASES = ["dcp/fsdp4", "dcp/zstd", "dcp/safetensors", "dcp/nested", "dcp/evil_names", "dcp/file_per_item", "dcp/columns", "dcp/hf_consolidated", "dcp/accelerate",
         "dcp/threads3", "dcp/strides", "dcp/ranklocal"]


def same_text(name, a, b, url, path):
    """Equal but for the source's name, and the time that a local directory keeps to the nanosecond."""
    def plain(s):
        s = s.replace(url, "SOURCE").replace(os.path.realpath(path), "SOURCE").replace(path, "SOURCE")
        return re.sub(r'"?committed"?:? .*|"id": .*|^files .*', "", s, flags=re.M)
    check(name, plain(a) == plain(b), (plain(a)[-300:], plain(b)[-300:]))


def verbs(case, url, path):
    for args in (["keys"], ["keys", "-l"], ["verify"], ["verify", "--deep"], ["ls", "-R"], ["info", "--json"], ["info"]):
        a, b = run(args[0], url, *args[1:]), run(args[0], path, *args[1:])
        check(f"{case}: {' '.join(args)} exits as locally", a.returncode == b.returncode, (a.returncode, b.returncode, a.stderr))
        if args[0] in ("keys", "verify"):
            same_text(f"{case}: {' '.join(args)}", a.stdout, b.stdout, url, path)
    same_exports(case, url, path)


def mounts(case, url, path):
    with Mount(url) as far, Mount(path) as near:
        names, local = sorted(tree(far)), sorted(tree(near))
        # what metadata does not name cannot be found without a listing
        extra = [n for n in local if n not in names]
        check(f"{case}: the same files", not set(names) - set(local) and all(n.startswith(("shards/", "hf/")) for n in extra),
              (sorted(set(names) ^ set(local))[:10]))
        for n in names:
            if n in ("README", "info.json"):
                continue
            with open(f"{far}/{n}", "rb") as f, open(f"{near}/{n}", "rb") as g:
                check(f"{case}: {n}", f.read() == g.read())
        if os.path.exists(f"{far}/checkpoint.pt"):
            with attempt(f"{case}: torch.load"):
                a = torch.load(f"{far}/checkpoint.pt", mmap=True, weights_only=False)
                b = torch.load(f"{near}/checkpoint.pt", mmap=True, weights_only=False)
                check(f"{case}: torch.load has the same keys", list(a) == list(b))
                del a, b


def whole():
    fuse = no_fuse()
    if fuse:
        skip("mounts", fuse)
    for case in CASES:
        if not fnmatch.fnmatch(case, ONLY):
            continue
        path = f"{DATA}/{case}/ckpt"
        url = f"{URL}/{case}/ckpt"
        verbs(case, url, path)
        if not fuse:
            mounts(case, url, path)


def lazy():
    """One tensor costs its bytes; the load reads metadata and asks for headers."""
    server.seen.clear()
    r = run("get", f"{URL}/dcp/columns/ckpt", jrun("keys", f"{DATA}/dcp/columns/ckpt")["keys"][0]["key"], "-O", "-", text=False)
    check("get: one tensor", r.returncode == 0, r.stderr)
    gets = [s for s in server.seen if s[0] == "GET"]
    check("every GET is a range of a pinned version", all("Range" in h and "If-Match" in h for _, _, h in gets), gets[:2])
    names = [p for c, p, _ in server.seen if c == "HEAD"]
    check("nothing is asked for twice", len(names) == len(set(names)), names)


def says(what, source, code, *texts, not_in=(), env=None, args=()):
    r = run("info", source, *args, env=env)
    check(f"{what}: exit {code}", r.returncode == code, (r.returncode, r.stderr))
    check(f"{what}: the message", all(t in r.stderr for t in texts), r.stderr)
    check(f"{what}: nothing secret", not any(t in r.stderr + r.stdout for t in not_in), r.stderr)


def bad_input():
    good = f"{URL}/dcp/fsdp4/ckpt"
    host = URL[7:]
    says("nothing there", f"{URL}/nowhere", 1, "is not a checkpoint", "does not list")
    says("no host", "http:///x", 1, "no host")
    says("a bad %", f"{URL}/%zz", 1, "two hex digits")
    says("another scheme", "ftp://u:SECRET@h/x", 1, "ftp:// sources are not supported", not_in=["SECRET"])
    says("refused", "http://127.0.0.1:1/x", 1, "127.0.0.1:1", args=["--timeout", "1"])
    says("no such host", "http://no-such-host.invalid/x", 1, "no-such-host.invalid", args=["--timeout", "1"])
    says("no certificate", f"https://{host}/x", 1, "https://", args=["--timeout", "1"])
    says("no such CA bundle", f"https://{host}/x", 1, args=["--timeout", "1", "--ca-bundle", "/no/such"])

    server.broken = lambda h, path: h.answer(200, b"<html>", Content_Type="text/html") or True
    says("a page", good, 1, "web page")
    server.broken = lambda h, path: not os.path.exists(DATA + path) and (h.answer(403) or True)
    r = run("verify", good)
    check("403 for what is not there, as of a bucket that does not list", r.returncode == 0, r.stderr)
    says("403 for all", f"{URL}/nowhere", 1, "403")
    server.broken = lambda h, path: h.answer(401) or True
    says("a password is wanted", good, 1, "401")
    server.broken = lambda h, path: h.answer(302, Location=h.path) or True
    says("redirects in a circle", good, 1, "redirect")
    server.seen.clear()
    server.broken = lambda h, path: h.answer(200, b"\0" * 64, Content_Type="application/octet-stream") or True
    says("a server that has whatever it is asked for", good, 1)
    check("a server that has whatever it is asked for is asked for few names", len(server.seen) < 200, len(server.seen))
    server.broken = lambda h, path: h.answer(503, Retry_After="60") or True
    says("a server that is down", good, 1, "503", args=["--timeout", "2"])
    server.broken = None

    # userinfo and query are sent, and shown nowhere
    server.seen.clear()
    r = run("info", f"http://user:SECRET@{host}/dcp/fsdp4/ckpt?token=TOKEN")
    sent = server.seen[0]
    check("userinfo is sent as Basic", sent[2].get("Authorization") == "Basic " + base64.b64encode(b"user:SECRET").decode(), sent)
    check("the query goes with every file", sent[1].endswith("?token=TOKEN"), sent)
    check("neither is shown", r.returncode == 0 and "SECRET" not in r.stdout + r.stderr and "TOKEN" not in r.stdout, r.stdout[:200])
    if not no_fuse():
        with Mount(f"http://user:SECRET@{host}/dcp/fsdp4/ckpt?token=TOKEN") as m:
            texts = [open("/proc/self/mountinfo").read()]
            texts += [open(f"{m}/{n}").read() for n in ("README", "info.json", "tensors.json", ".shardfuse/counters.json")]
            texts.append(os.getxattr(m, "user.shardfuse.source").decode())
            texts.append(run("status").stdout)
            check("a mount shows neither", not any("SECRET" in t or "TOKEN" in t for t in texts))


def changed():
    """A file replaced on the server: an error, never mixed bytes."""
    if no_fuse():
        return
    def other(h, path):
        if h.command == "GET" and path.endswith("__1_0.distcp"):
            h.answer(412)
            return True
    with Mount(f"{URL}/dcp/fsdp4/ckpt", "timeout=5") as m:
        server.broken = other
        try:
            with open(f"{m}/checkpoint.pt", "rb") as f:
                f.read()
            check("a changed file is an error", False)
        except OSError as e:
            check("a changed file is ESTALE", e.errno == 116, e)
        server.broken = None


def hub():
    """A hub sends on to another host for the large files: the token stays with the hub."""
    def send_on(h, path):
        if path.startswith("/org/repo/resolve/main/"):
            if h.headers.get("Authorization") != "Bearer hf_SECRET":
                h.answer(401)
            else:
                h.answer(302, Location=f"http://localhost:{server.server_port}/dcp/hf_consolidated/ckpt/{path.rsplit('main/')[1]}?signed=yes")
            return True
    server.broken = send_on
    source = f"{URL}/org/repo/resolve/main"
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/token", "w") as f:
            f.write("hf_SECRET\n")
        for env in ({"HF_TOKEN": "hf_SECRET"}, {"HF_TOKEN": "", "HF_TOKEN_PATH": f"{d}/token"}, {"HF_TOKEN": "", "HF_HOME": d}):
            server.seen.clear()
            e = {"HF_ENDPOINT": URL, **env}
            a, b = run("verify", source, "--deep", env=e), run("verify", f"{DATA}/dcp/hf_consolidated/ckpt", "--deep")
            check("hub: verify --deep as locally", a.returncode == 0 and a.stdout.splitlines()[1:] == b.stdout.splitlines()[1:], (a.stdout, a.stderr, b.stdout))
            check("hub: the token is shown to the hub alone", all(("Authorization" in h) == p.startswith("/org/") for _, p, h in server.seen), server.seen[:3])
            check("hub: nothing secret", "SECRET" not in a.stdout + a.stderr)
        says("hub: no token for another host", source, 1, "401", env={"HF_TOKEN": "hf_SECRET"})
        check("hub: it was not sent", not any("Authorization" in h for _, _, h in server.seen[-12:]))
        says("hub: no token", source, 1, "401", env={"HF_ENDPOINT": URL, "HF_TOKEN": "hf_SECRET", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"})
        check("hub: an HF_ENDPOINT that is no URL is nobody's", run("info", f"{URL}/dcp/fsdp4/ckpt", env={"HF_ENDPOINT": "mirror"}).returncode == 0)
        says("hub: no token at all", source, 1, "no token", env={"HF_ENDPOINT": URL, "HF_TOKEN": "two words"}, not_in=["two words"])
    server.broken = None


def far_archives():
    """verify --deep reads archives in pieces of a few bytes: not a request for each."""
    server.seen.clear()
    r = run("verify", "--deep", f"{URL}/dcp/fsdp4/ckpt")
    check("verify --deep", r.returncode == 0, r.stderr)
    check("verify --deep asks a few times for each item", len(server.seen) < 700, len(server.seen))


def stalls():
    """A server that stops in the middle costs the deadline, not the reader's life."""
    if no_fuse():
        return
    with Mount(f"{URL}/dcp/columns/ckpt", "timeout=2") as m:
        server.broken = lambda h, path: h.command == "GET" and (time.sleep(20) or True)
        start = time.monotonic()
        try:
            with open(f"{m}/checkpoint.pt", "rb") as f:
                f.read()
            check("a stalled server is an error", False)
        except OSError as e:
            check("a stalled server is EIO", e.errno == 5, e)
        check("by the deadline", time.monotonic() - start < 15, time.monotonic() - start)
        server.broken = None
        with open(f"{m}/checkpoint.pt", "rb") as f:
            check("and then it is read", len(f.read()) == os.stat(f"{m}/checkpoint.pt").st_size)


whole()
lazy()
stalls()
hub()
far_archives()
bad_input()
changed()
finish()
