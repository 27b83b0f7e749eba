#!/usr/bin/env python3
"""doctor SOURCE: each thing that can be wrong with a bucket, a web server or the way there is told from the others, with what to do about it,
and nothing secret is said."""
import email.utils
import http.server
import shutil
import ssl
import threading
import urllib.parse
from xml.sax.saxutils import escape

from common import *

need_program()
for name in list(os.environ):
    if name.lower().endswith("_proxy") or name.startswith(("AWS_", "HF_", "HUGGING")) or name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        os.environ.pop(name)
if "without libcurl" in run("info", "http://127.0.0.1:1").stderr:
    skip_all("this build has no libcurl")
ROOT = f"{DATA}/dcp/fsdp4/ckpt"
SECRET = "se/HUSH"


class Handler(http.server.BaseHTTPRequestHandler):
    """A bucket b with the checkpoint at runs/step9000/, and the same as files at /d/; server.broken answers instead, if it wants."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *a):
        pass

    def answer(self, status, body=b"", **headers):
        body = body.encode() if isinstance(body, str) else body
        self.send_response_only(status)
        self.send_header("Date", email.utils.formatdate(time.time() + self.server.skew, usegmt=True))
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        return True

    def error(self, status, code, more="", **headers):
        return self.answer(status, f"<Error><Code>{code}</Code><Message>of {code}</Message>{more}</Error>", **headers)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        if self.server.broken and self.server.broken(self, path):
            return
        if path.startswith("/d/"):
            return self.file(path[3:])
        if path == "/b/logs/y":
            return self.answer(206, b"1", Content_Range="bytes 0-0/1", ETag='"y"')
        if path not in ("/b", "/b/"):
            return self.file(path.removeprefix("/b/runs/step9000/"))
        q = dict(urllib.parse.parse_qsl(url.query))
        prefix, delimiter, out, dirs = q.get("prefix", ""), q.get("delimiter"), "", set()
        for k in sorted(["runs/step9000/" + n for n in os.listdir(ROOT)] + ["runs/step8000/x", "logs/y", "runs/config.json"]):
            if not k.startswith(prefix):
                continue
            cut = k.find("/", len(prefix)) if delimiter else -1
            if cut >= 0:
                dirs.add(k[:cut + 1])
                continue
            n = k.rsplit("/", 1)[1]
            size = os.path.getsize(f"{ROOT}/{n}") if k.startswith("runs/step9000/") else 1
            out += f"<Contents><Key>{escape(k)}</Key><LastModified>2024-01-02T03:04:05.000Z</LastModified><ETag>&quot;{n}&quot;</ETag><Size>{size}</Size></Contents>"
        out += "".join(f"<CommonPrefixes><Prefix>{d}</Prefix></CommonPrefixes>" for d in sorted(dirs))
        self.answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{out}</ListBucketResult>")

    def file(self, name):
        if not os.path.isfile(f"{ROOT}/{name}"):
            return self.error(404, "NoSuchKey")
        with open(f"{ROOT}/{name}", "rb") as f:
            body = f.read()
        m = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if self.command == "HEAD":
            return self.answer(200, Content_Length=str(len(body)), ETag=f'"{name}"')
        if not m:
            return self.answer(200, body, ETag=f'"{name}"')
        a, b = int(m[1]), min(int(m[2]), len(body) - 1)
        self.answer(206, body[a:b + 1], Content_Range=f"bytes {a}-{b}/{len(body)}", ETag=f'"{name}"')


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    broken, skew = None, 0

    def handle_error(self, request, address):
        pass


def serve(tls=None):
    s = Server(("127.0.0.1", 0), Handler)
    if tls:
        s.socket = tls.wrap_socket(s.socket, server_side=True)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s


server = serve()
URL = f"http://127.0.0.1:{server.server_port}"
ENV = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE1234", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL_S3": URL, "AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nowhere",
       "AWS_REGION": "us-east-1"}
GOOD = "s3://b/runs/step9000"


def doctor(what, source, env=ENV, args=()):
    """{check: (state, found, remedy)} of one run; nothing secret in it, and the verdict is that of the checks."""
    r = run("doctor", "--json", source, "--timeout", "4", *args, env=env)
    check(f"{what}: nothing secret", "HUSH" not in r.stdout + r.stderr, r.stdout + r.stderr)
    with attempt(what):
        j = json.loads(r.stdout)
        bad = [c for c in j["checks"] if c["state"] == "wrong"]
        check(f"{what}: the verdict", j["ready"] == (not bad) == (r.returncode == 0) and len(bad) <= 1, j)
        check(f"{what}: remedies", all(bool(c["remedy"]) == (c["state"] != "ok") for c in j["checks"]), j)
        return {c["check"]: (c["state"], c["found"], c["remedy"] or "") for c in j["checks"]}
    return {}


def wrong(what, source, which, *texts, env=ENV, args=(), state="wrong"):
    c = doctor(what, source, env, args)
    check(f"{what}: it is the {which}", c.get(which, ("",))[0] == state, c)
    check(f"{what}: what is said", all(t in " ".join(c.get(which, ("", "", ""))[1:]) for t in texts), c.get(which))
    return c


def fine():
    c = doctor("all is well", GOOD)
    check("all is well: every check", {k: v[0] for k, v in c.items()} ==
          dict.fromkeys(("endpoint", "region", "credentials", "listing", "reading", "checkpoint"), "ok"), c)
    check("all is well: whom it is signed as", c["credentials"][1].startswith("environment variables (key id ****1234"), c["credentials"])
    r = run("doctor", GOOD, env=ENV)
    check("for people", r.returncode == 0 and r.stdout.endswith("\nit can be read\n") and "ok       checkpoint" in r.stdout, r.stdout)
    c = doctor("nobody in particular", GOOD, args=["--no-sign-request"])
    check("nobody in particular", "nothing is signed" in c["credentials"][1], c)
    r = run("doctor", ROOT)
    check("a directory", r.returncode == 0 and "checkpoint" in r.stdout, r.stdout)
    r = run("doctor", "/no/such")
    check("no directory", r.returncode == 1 and "wrong    checkpoint" in r.stdout, r.stdout)


def refused():
    def everywhere(status, code, more="", **headers):
        return lambda h, path: h.error(status, code, more, **headers)

    def of(listing, status, code):
        return lambda h, path: (path in ("/b", "/b/")) == listing and h.error(status, code)

    for what, broken, which, *texts in (
            ("a wrong key", everywhere(403, "InvalidAccessKeyId"), "access key", "environment variables", "another provider"),
            ("a wrong secret", everywhere(403, "SignatureDoesNotMatch"), "secret key", "environment variables"),
            ("an old token", everywhere(400, "ExpiredToken"), "session token", "log in again"),
            ("no bucket", everywhere(404, "NoSuchBucket"), "bucket", "'b'", "aws s3 ls"),
            ("no permission to list", of(True, 403, "AccessDenied"), "listing", "s3:ListBucket"),
            ("no permission to read", of(False, 403, "AccessDenied"), "reading", "s3:GetObject"),
            ("an archive", of(False, 403, "InvalidObjectState"), "archive", "restore-object"),
            ("no S3", lambda h, path: h.answer(404, "<html>hello</html>"), "server", "--endpoint-url"),
            ("a clock that cannot be told", everywhere(403, "RequestTimeTooSkewed"), "clock", "set-ntp")):
        server.broken = broken
        wrong(what, GOOD, which, *texts)
    # what requests mend by themselves is a hint
    server.broken = lambda h, path: "/eu-west-1/s3/" not in h.headers["Authorization"] and h.error(301, "PermanentRedirect", x_amz_bucket_region="eu-west-1")
    wrong("another region", GOOD, "region", "the bucket is in eu-west-1", "--region eu-west-1", state="hint")
    server.broken = lambda h, path: h.error(301, "PermanentRedirect", x_amz_bucket_region=f"eu-west-{time.monotonic_ns() % 1000}")
    doctor("regions without end", GOOD)
    server.skew = 7200
    server.broken = lambda h, path: abs(time.time() + 7200 - email.utils.mktime_tz((*(int(h.headers["x-amz-date"][a:b]) for a, b in (
        (0, 4), (4, 6), (6, 8), (9, 11), (11, 13), (13, 15))), 0, 0, 0, 0))) > 900 and h.error(403, "RequestTimeTooSkewed")
    wrong("a clock two hours behind", GOOD, "clock", "s behind the server's", "set-ntp", state="hint")
    server.broken, server.skew = None, 0


def prefixes():
    wrong("a misspelt prefix", "s3://b/runs/step900", "prefix", "'step900' in runs/", "step9000/")
    wrong("a misspelt beginning", "s3://b/rnus/step9000", "prefix", "'rnus' in the bucket", "runs/")
    wrong("a prefix that is like nothing", "s3://b/quite/another", "prefix", "'quite' in the bucket", "aws s3 ls")
    wrong("a prefix without a checkpoint", "s3://b/logs", "checkpoint", "not a checkpoint")


def credentials():
    nobody = {k: v for k, v in ENV.items() if "KEY" not in k}
    wrong("no credentials", GOOD, "credentials", "no AWS credentials", "aws configure", env=nobody)
    wrong("half of them", GOOD, "credentials", "AWS_SECRET_ACCESS_KEY is not", env={**nobody, "AWS_ACCESS_KEY_ID": "x"})
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/c", "w") as f:
            f.write(f"[default]\naws_access_key_id = PROFILEKEY99\naws_secret_access_key = {SECRET}\n"
                    "[m]\nrole_arn = r\nsource_profile = default\nmfa_serial = x\n[f]\ncredential_process = echo HUSH; exit 3\n")
        env = {**nobody, "AWS_SHARED_CREDENTIALS_FILE": d + "/c"}
        c = doctor("a profile", GOOD, env)
        check("a profile: its name", "profile default in the credentials file (key id ****EY99" in c["credentials"][1], c)
        wrong("a profile with MFA", GOOD, "credentials", "mfa_serial wants a code", "export-credentials --profile 'm'", env={**env, "AWS_PROFILE": "m"})
        wrong("a program that fails", GOOD, "credentials", "exit status 3", "get-caller-identity", env={**env, "AWS_PROFILE": "f"})
        wrong("no such profile", GOOD, "source", "'nobody'", env=env, args=["--profile", "nobody"])


def ways():
    for of in (lambda url: (GOOD, {**ENV, "AWS_ENDPOINT_URL_S3": url}), lambda url: (url + "/d", ENV)):
        for what, url, which, more, *texts in (
                ("nobody listens", "http://127.0.0.1:1", "endpoint", {}, "127.0.0.1", "nothing answers there"),
                ("no such host", "http://no-such-host.invalid", "name of the host", {}, "no-such-host.invalid", "DNS"),
                ("TLS where there is none", "https://" + URL[7:], "endpoint", {}, "http:// instead of https://"),
                ("a proxy that is not there", "http://data.invalid", "proxy", {"http_proxy": "http://u:HUSH@127.0.0.1:1"}, "http_proxy", "no_proxy"),
                ("a proxy of https", "https://data.invalid", "proxy", {"https_proxy": "http://127.0.0.1:1"}, "https_proxy")):
            source, env = of(url)
            wrong(f"{what}: {source[:2]}", source, which, *texts, env={**env, **more})
        if not shutil.which("openssl"):
            skip("certificates", "no openssl")
            continue
        with tempfile.TemporaryDirectory() as d:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", d + "/k", "-out", d + "/c", "-days", "2", "-subj", "/CN=localhost",
                            "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(d + "/c", d + "/k")
            port = serve(tls).server_port
            source, env = of(f"https://localhost:{port}")
            wrong(f"a certificate: {source[:2]}", source, "certificate", "certificate", "--ca-bundle", env=env)
            c = doctor(f"a certificate that is known: {source[:2]}", source, {**env, "SSL_CERT_FILE": d + "/c"})
            check(f"a certificate that is known: {source[:2]}", "SSL_CERT_FILE" in c["certificates"][1] and c["checkpoint"][0] == "ok", c)
            source, env = of(f"https://127.0.0.1:{port}")
            wrong(f"a certificate of another host: {source[:2]}", source, "certificate", "127.0.0.1", env={**env, "SSL_CERT_FILE": d + "/c"})


def web():
    c = doctor("files", URL + "/d")
    check("files: every check", {k: v[0] for k, v in c.items()} == dict.fromkeys(("endpoint", "credentials", "server", "reading", "checkpoint"), "ok"), c)
    c = doctor("userinfo", f"http://u:HUSH@{URL[7:]}/d?x=HUSH")
    check("userinfo: it is told that there is one", c["credentials"][1] == "userinfo of the URL", c)
    c = doctor("a hub", URL + "/d", {"HF_ENDPOINT": URL, "HF_TOKEN": "hf_HUSH"})
    check("a hub: its token", "HF_TOKEN" in c["credentials"][1], c)
    wrong("nothing there", URL + "/nowhere", "files", ".metadata", "resolve/REV")
    server.broken = lambda h, path: h.answer(401)
    wrong("a password is wanted", URL + "/d", "permission", "401", "HF_TOKEN")
    server.broken = lambda h, path: h.answer(403)
    wrong("forbidden", URL + "/d", "permission", "403")
    server.broken = lambda h, path: h.answer(200, "<html>", Content_Type="text/html")
    wrong("a page", URL + "/d", "server", "web page")
    server.broken = lambda h, path: h.command == "GET" and h.answer(200, b"x" * 100)
    wrong("no ranges", URL + "/d", "server", "Range")
    server.broken = lambda h, path: h.answer(302, Location=h.path)
    wrong("redirects without end", URL + "/d", "endpoint", "redirect")
    server.broken = None


for part in (fine, refused, prefixes, credentials, ways, web):
    with attempt(part.__name__):
        part()
finish()
