"""The files below tests/data from a web server in this process, which counts what it sends."""
import hashlib
import http.server
import os
import re
import threading
import urllib.parse

from common import DATA


class Handler(http.server.BaseHTTPRequestHandler):
    """Files below DATA with ranges and an ETag."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *a):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = DATA + urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        body = open(path, "rb").read() if os.path.isfile(path) else None
        if self.command == "GET" and self.server.refuses and path.endswith(self.server.refuses):
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        first, last = 0, len(body or b"") - 1
        m = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if m and body is not None:
            first, last = int(m[1]), min(int(m[2]), last)
        part = (body or b"")[first:last + 1]
        self.server.bytes += len(part) if self.command == "GET" else 0
        self.send_response(404 if body is None else 206 if m else 200)
        if body is not None:
            self.send_header("ETag", '"%s"' % hashlib.md5(body).hexdigest())
        if m and body is not None:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(part)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    bytes = 0       # of bodies that were sent
    refuses = None  # bodies of paths that end so


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
    os.environ.pop(name, None)
