"""A web server in this process whose answers a test scripts."""
import email.utils
import http.server
import shutil
import ssl
import subprocess
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    """do_GET is the test's. server.skew: seconds that its clock is ahead."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *a):
        pass

    def answer(self, status, body=b"", **headers):
        body = body.encode() if isinstance(body, str) else body
        self.send_response_only(status)
        headers.setdefault("Date", email.utils.formatdate(time.time() + self.server.skew, usegmt=True))
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        return True

    def error(self, status, code, more="", **headers):
        """As S3 says it."""
        return self.answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>of {code}</Message>{more}<RequestId>R1</RequestId></Error>", **headers)

    def do_HEAD(self):
        self.do_GET()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    broken, skew = None, 0  # broken: what answers instead, if it wants; asked by the test's do_GET

    def handle_error(self, *a):  # whoever asked has gone
        pass


def serve(handler, tls=None):
    """.url: where it listens."""
    s = Server(("127.0.0.1", 0), handler)
    if tls:
        s.socket = tls.wrap_socket(s.socket, server_side=True)
    s.url = f"{'https' if tls else 'http'}://127.0.0.1:{s.server_port}"
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s


def certificate(d):
    """Of localhost, made in directory d: (its file, what a server needs to show it). None: no openssl."""
    if not shutil.which("openssl"):
        return None
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", d + "/k", "-out", d + "/c", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(d + "/c", d + "/k")
    return d + "/c", tls
