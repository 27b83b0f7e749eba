#!/usr/bin/env python3
"""What is fetched of a server for who reads a mounted view forward, who touches a page here and there, and who mounts. Counted, never timed."""
import http.server
import threading

from common import *

need_fuse()
TENSORS, ROWS, COLUMNS = 12, 1024, 1024  # 4 MiB each


class Handler(http.server.BaseHTTPRequestHandler):
    """Files below a directory, in ranges; each request is noted."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *a):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.server.root + self.path
        self.server.seen.append((self.command, self.path, self.headers.get("Range")))
        if not os.path.isfile(path):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        size = os.path.getsize(path)
        m = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        a, b = (int(m[1]), min(int(m[2]), size - 1)) if m else (0, size - 1)
        self.send_response(206 if m else 200)
        if m:
            self.send_header("Content-Range", f"bytes {a}-{b}/{size}")
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", str(b - a + 1))
        self.end_headers()
        if self.command == "GET":
            with open(path, "rb") as f:
                f.seek(a)
                try:
                    self.wfile.write(f.read(b - a + 1))
                except OSError:  # what was read ahead of a file that is closed
                    self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def readahead_kb(mount):
    with open(f"/sys/class/bdi/0:{os.minor(os.stat(mount).st_dev)}/read_ahead_kb") as f:
        return int(f.read())


def counters(mount):
    with open(f"{mount}/.shardfuse/counters.json") as f:
        return json.load(f)


def fetched(mount):
    return sum(counters(mount)["fetched_bytes"].values())


def same(a, b):
    with open(a, "rb") as f, open(b, "rb") as g:
        while True:
            x, y = f.read(1 << 20), g.read(1 << 20)
            if x != y or not x:
                return x == y


def kernel(url, path):
    if os.geteuid() != 0:
        return skip("the kernel's readahead", "root alone may set it")
    for name, source, options, want in (("of a server", url, [], 512), ("of local files", path, [], 1024),
                                        ("as said, of a server", url, ["readahead=256K"], 256),
                                        ("as said, of local files", path, ["readahead=64K"], 64)):
        with Mount(source, *options) as m:
            check(f"readahead {name}", readahead_kb(m) == want, readahead_kb(m))


def forward(url, path):
    for view in ("model.safetensors", "model.pt", "shards/__0_0.distcp"):
        with Mount(url) as far, Mount(path) as near:
            size, before = os.path.getsize(f"{far}/{view}"), fetched(far)
            check(f"{view}: the same bytes", same(f"{far}/{view}", f"{near}/{view}"))
            got, c = fetched(far) - before, counters(far)
            check(f"{view}, forward: each byte once", got <= 1.01 * size, (got, size))
            check(f"{view}, forward: most reads find their bytes there", c["parked"] * 4 <= c["read_requests"], c)


def together(url, path):
    """Many who read one file at once, as the ranks of a job do, cost what one does."""
    with Mount(url) as far:
        view = f"{far}/model.safetensors"
        size, before = os.path.getsize(view), fetched(far)
        code = f"import hashlib\nwith open({view!r}, 'rb') as f: print(hashlib.file_digest(f, 'md5').hexdigest() if hasattr(hashlib, 'file_digest') else hashlib.md5(f.read()).hexdigest())"
        readers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(6)]
        sums = {p.communicate(timeout=100)[0] for p in readers}
        got, c = fetched(far) - before, counters(far)
        check("together: the same bytes for all", len(sums) == 1 and sums != {""}, sums)
        check("together: each byte once", got <= 1.05 * size, (got, size))
        check("together: most reads find their bytes there", c["parked"] * 3 <= c["read_requests"], c)


def lazy(url, path):
    with Mount(url) as far:
        view = f"{far}/model.safetensors"
        size = os.path.getsize(view)
        header = 8 + int.from_bytes(pathlib.Path(view).open("rb").read(8), "little")
        before = fetched(far)
        # a page in the middle of each; by a process of its own: who waits for a page has Python's lock, which the server needs
        code = f"""
import mmap
with open({view!r}, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
    for i in range({TENSORS}):
        m[{header} + i * ({size} // {TENSORS}) + {size} // {TENSORS} // 2]
"""
        subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
        got = fetched(far) - before
        # what the kernel reads around it, and a header
        check("a page of each tensor costs no more than the kernel asks for", got <= (TENSORS + 1) * ((512 + 32) << 10), (got, TENSORS))
        check("and something", got >= TENSORS * 4096, got)


with tempfile.TemporaryDirectory() as d:
    torch.manual_seed(1)
    torch.distributed.checkpoint.save({"model": {f"w{i}": torch.rand(ROWS, COLUMNS) for i in range(TENSORS)}}, checkpoint_id=f"{d}/ck")
    server = Server(("127.0.0.1", 0), Handler)
    server.root, server.seen = d, []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        os.environ.pop(name, None)
    url = f"http://127.0.0.1:{server.server_port}/ck"
    if "without libcurl" in run("info", url).stderr:
        skip_all("this build has no libcurl")
    for part in (kernel, forward, together, lazy):
        with attempt(part.__name__):
            part(url, f"{d}/ck")
finish()
