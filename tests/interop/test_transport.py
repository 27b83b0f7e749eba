#!/usr/bin/env python3
"""The way to a server: through a proxy or past it, trusting whom a user's variables name, to a bucket that is part of the host's name; and what ps shows."""
import hmac
import http.server
import select
import shutil
import socket
import ssl
import threading
import urllib.parse
from xml.sax.saxutils import escape

from common import *

need_program()
for name in list(os.environ):
    if name.lower().endswith("_proxy") or name.startswith("AWS_") or name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        os.environ.pop(name)
if "without libcurl" in run("info", "http://127.0.0.1:1").stderr:
    skip_all("this build has no libcurl")
ROOT = f"{DATA}/dcp/fsdp4/ckpt"
LOCAL = run("keys", "-l", ROOT).stdout
KEY, SECRET = "KEY", "se/SECRET"


class Handler(http.server.BaseHTTPRequestHandler):
    """The checkpoint: at /d/ as files, at /b/run/ or b.localhost/run/ as a bucket; and a machine's metadata."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *a):
        pass

    def answer(self, status, body=b"", **headers):
        body = body.encode() if isinstance(body, str) else body
        self.send_response_only(status)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_PUT(self):
        self.server.seen.append((self.command, self.path, self.headers["Host"]))
        self.answer(200, "token")

    def signed(self, path, query):
        m = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=(\w+)/(\d{8})/([^/]+)/s3/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})",
                         self.headers.get("Authorization", ""))
        if not m:
            return False
        names = m[4].split(";")
        canonical = "\n".join([self.command, path, query, *(f"{n}:{self.headers[n]}" for n in names), "", m[4], self.headers["x-amz-content-sha256"]])
        text = f"AWS4-HMAC-SHA256\n{self.headers['x-amz-date']}\n{m[2]}/{m[3]}/s3/aws4_request\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        k = ("AWS4" + SECRET).encode()
        for part in (m[2], m[3], "s3", "aws4_request"):
            k = hmac.new(k, part.encode(), hashlib.sha256).digest()
        return "host" in names and hmac.new(k, text.encode(), hashlib.sha256).hexdigest() == m[5]

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        self.server.seen.append((self.command, self.path, self.headers["Host"]))
        path = urllib.parse.unquote(url.path)
        if path.startswith("/latest/meta-data/"):
            return self.answer(200, "role" if path.endswith("credentials/") else
                               json.dumps({"Code": "Success", "AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": "T", "Expiration": "2199-01-01T00:00:00Z"}))
        if path.startswith("/d/"):
            return self.file(path[3:])
        if not self.signed(url.path, url.query):
            return self.answer(403, "<Error><Code>SignatureDoesNotMatch</Code></Error>")
        key = path[1:] if self.headers["Host"].startswith("b.") else path.removeprefix("/b").removeprefix("/")
        if key:
            return self.file(key.removeprefix("run/"))
        prefix = dict(urllib.parse.parse_qsl(url.query)).get("prefix", "")
        out = "<ListBucketResult><IsTruncated>false</IsTruncated>"
        for n in sorted(os.listdir(ROOT)):
            if ("run/" + n).startswith(prefix):
                size, tag = os.path.getsize(f"{ROOT}/{n}"), escape(self.tag(n))
                out += f"<Contents><Key>run/{escape(n)}</Key><LastModified>2024-01-02T03:04:05.000Z</LastModified><ETag>{tag}</ETag><Size>{size}</Size></Contents>"
        self.answer(200, out + "</ListBucketResult>")

    def tag(self, name):
        with open(f"{ROOT}/{name}", "rb") as f:
            return '"%s"' % hashlib.md5(f.read()).hexdigest()

    def file(self, name):
        if not os.path.isfile(f"{ROOT}/{name}"):
            return self.answer(404)
        with open(f"{ROOT}/{name}", "rb") as f:
            body = f.read()
        m = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if self.command == "HEAD":
            return self.answer(200, Content_Length=str(len(body)), ETag=self.tag(name))
        if not m:
            return self.answer(200, body, ETag=self.tag(name))
        a, b = int(m[1]), min(int(m[2]), len(body) - 1)
        self.answer(206, body[a:b + 1], Content_Range=f"bytes {a}-{b}/{len(body)}", ETag=self.tag(name))


class Proxy(Handler):
    """Sends whatever is asked for to the server of this test, whoever it is asked of."""

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        self.server.through.append((self.command, self.path, self.headers["Host"]))
        self.path = urllib.parse.urlunsplit(("", "", url.path, url.query, ""))
        if self.server.refuses:
            return self.answer(403, "no")
        return super().do_GET()

    def do_CONNECT(self):
        self.server.through.append((self.command, self.path, self.headers["Host"]))
        if self.server.refuses:
            return self.answer(403, "no")
        self.send_response_only(200)
        self.end_headers()
        with socket.create_connection(("127.0.0.1", int(self.path.rsplit(":", 1)[1]))) as to:
            ends = {self.connection: to, to: self.connection}
            while True:
                for s in select.select(list(ends), [], [])[0]:
                    part = s.recv(65536)
                    if not part:
                        self.close_connection = True
                        return
                    ends[s].sendall(part)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    refuses = False

    def handle_error(self, request, address):  # a client that does not trust us hangs up
        pass


def serve(handler, tls=None):
    s = Server(("127.0.0.1", 0), handler)
    s.seen, s.through = [], []
    if tls:
        s.socket = tls.wrap_socket(s.socket, server_side=True)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s


def works(what, source, *args, env=None):
    r = run("keys", "-l", source, *args, env=env)
    check(f"{what}: works", r.returncode == 0 and r.stdout == LOCAL, (r.returncode, r.stderr))


def fails(what, source, *texts, args=(), env=None):
    r = run("info", source, "--timeout", "5", *args, env=env)
    check(f"{what}: fails", r.returncode == 1, r.stderr)
    check(f"{what}: the message", all(t in r.stderr for t in texts), r.stderr)
    check(f"{what}: nothing secret", "SECRET" not in r.stderr, r.stderr)


data, proxy = serve(Handler), serve(Proxy)
URL, THROUGH = f"http://127.0.0.1:{data.server_port}", f"http://u:SECRET@127.0.0.1:{proxy.server_port}"


def proxies():
    # a name that only the proxy would know
    works("a proxy", "http://data.invalid/d", env={"http_proxy": THROUGH})
    check("a proxy: it saw all", proxy.through and all(s[1].startswith("http://data.invalid/d/") for s in proxy.through), proxy.through[:3])
    works("all_proxy", "http://data.invalid/d", env={"all_proxy": THROUGH})
    proxy.through.clear()
    for name in ("no_proxy", "NO_PROXY"):
        works(name, f"{URL}/d", env={"http_proxy": THROUGH, name: "elsewhere,127.0.0.1"})
    works("HTTP_PROXY, which is not looked at", f"{URL}/d", env={"HTTP_PROXY": THROUGH})
    check("past the proxy: it saw nothing", proxy.through == [], proxy.through[:3])
    # a machine's own server is asked without it, a bucket through it
    env = {"http_proxy": THROUGH, "HOME": "/nowhere", "AWS_EC2_METADATA_SERVICE_ENDPOINT": URL, "AWS_ENDPOINT_URL_S3": "http://s3.invalid"}
    data.seen.clear()
    works("a bucket through a proxy", "s3://b/run", env=env)
    check("metadata past the proxy", any(s[0] == "PUT" for s in data.seen) and not any("latest" in s[1] for s in proxy.through), proxy.through[:3])
    check("the bucket through it", all(s[1].startswith("http://s3.invalid/b") for s in proxy.through) and proxy.through, proxy.through[:3])
    env.update(AWS_CONTAINER_CREDENTIALS_FULL_URI=URL + "/latest/meta-data/x")
    proxy.through.clear()
    works("a container's server", "s3://b/run", env=env)
    check("a container's server past the proxy", not any("latest" in s[1] for s in proxy.through), proxy.through[:3])
    fails("a proxy that is not there", "http://data.invalid/d", "127.0.0.1", env={"http_proxy": "http://u:SECRET@127.0.0.1:1"})


def trust():
    if not shutil.which("openssl"):
        return skip("certificates", "no openssl")
    with tempfile.TemporaryDirectory() as d:
        cert, bad = f"{d}/cert.pem", f"{d}/none.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{d}/key.pem", "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost,DNS:b.localhost"], check=True, capture_output=True)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(cert, f"{d}/key.pem")
        far = serve(Handler, tls)
        url = f"https://localhost:{far.server_port}"
        fails("an unknown certificate", f"{url}/d", "certificate")
        for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
            works(name, f"{url}/d", env={name: cert})
        works("--ca-bundle", f"{url}/d", "--ca-bundle", cert)
        works("--ca-bundle goes first", f"{url}/d", "--ca-bundle", cert, env={"CURL_CA_BUNDLE": bad})
        works("CURL_CA_BUNDLE goes before SSL_CERT_FILE", f"{url}/d", env={"CURL_CA_BUNDLE": cert, "SSL_CERT_FILE": bad, "REQUESTS_CA_BUNDLE": bad})
        works("SSL_CERT_FILE goes before REQUESTS_CA_BUNDLE", f"{url}/d", env={"SSL_CERT_FILE": cert, "REQUESTS_CA_BUNDLE": bad})
        works("an empty variable is none", f"{url}/d", env={"CURL_CA_BUNDLE": "", "SSL_CERT_FILE": cert})
        fails("a bundle that is not there", f"{url}/d", bad, env={"CURL_CA_BUNDLE": bad})
        fails("Amazon's variable is for Amazon's language", f"{url}/d", "certificate", env={"AWS_CA_BUNDLE": cert})
        s3 = {"HOME": d, "AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL_S3": url}
        works("AWS_CA_BUNDLE", "s3://b/run", env={**s3, "AWS_CA_BUNDLE": cert, "CURL_CA_BUNDLE": bad})
        works("s3: SSL_CERT_FILE", "s3://b/run", env={**s3, "SSL_CERT_FILE": cert})
        with open(f"{d}/config", "w") as f:
            f.write(f"[default]\nca_bundle = {cert}\n")
        works("s3: a profile's ca_bundle", "s3://b/run", env={**s3, "AWS_CONFIG_FILE": f"{d}/config"})
        fails("s3: AWS_CA_BUNDLE goes before the profile's", "s3://b/run", bad, env={**s3, "AWS_CONFIG_FILE": f"{d}/config", "AWS_CA_BUNDLE": bad})
        proxy.through.clear()
        works("https through a proxy", f"{url}/d", env={"https_proxy": THROUGH, "CURL_CA_BUNDLE": cert})
        check("it saw the host's name alone", {s[:2] for s in proxy.through} == {("CONNECT", url[8:])}, proxy.through[:3])
        proxy.refuses = True
        fails("a proxy that refuses", f"{url}/d", "403", args=["--timeout", "2"], env={"https_proxy": THROUGH, "CURL_CA_BUNDLE": cert})
        proxy.refuses = False


def virtual_hosts():
    env = {"HOME": "/nowhere", "AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
           "AWS_ENDPOINT_URL_S3": f"http://localhost:{data.server_port}"}
    data.seen.clear()
    works("a bucket in the host's name", "s3://b/run", "--addressing", "virtual", env=env)
    check("the host and the path are the bucket's", {s[2] for s in data.seen} == {f"b.localhost:{data.server_port}"} and
          all(s[1].startswith(("/?", "/run/")) for s in data.seen), data.seen[:4])
    data.seen.clear()
    works("a bucket in the path", "s3://b/run", env=env)
    check("the path has the bucket", {s[2] for s in data.seen} == {f"localhost:{data.server_port}"} and all(s[1].startswith("/b") for s in data.seen), data.seen[:4])


def arguments():
    if no_fuse():
        return skip("a mount's arguments", no_fuse())
    with Mount(f"http://user:SECRET@127.0.0.1:{data.server_port}/d?token=SECRET") as m:
        with open(f"/proc/{daemon_of(m)}/cmdline", "rb") as f:
            line = f.read()
        check("ps shows the URL without userinfo and query", b"SECRET" not in line and b"/d?" in line, line)


for part in (proxies, trust, virtual_hosts, arguments):
    with attempt(part.__name__):
        part()
finish()
