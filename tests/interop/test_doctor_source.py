#!/usr/bin/env python3
"""doctor SOURCE: each thing that can be wrong with a bucket, a web server or the way there is told from the others, with what to do about it,
and nothing secret is said."""
import email.utils
import functools
import urllib.parse
from xml.sax.saxutils import escape

import doctor_says
import scripted_server
from common import *

need_program()
for name in list(os.environ):
    if name.lower().endswith("_proxy") or name.startswith(("AWS_", "HF_", "HUGGING")) or name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        os.environ.pop(name)
if "without libcurl" in run("info", "http://127.0.0.1:1").stderr:
    skip_all("this build has no libcurl")
ROOT = f"{DATA}/dcp/fsdp4/ckpt"
SECRET = "se/HUSH"


class Handler(scripted_server.Handler):
    """A bucket b with the checkpoint at runs/step9000/, and the same as files at /d/; server.broken answers instead, if it wants."""

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


server = scripted_server.serve(Handler)
URL = server.url
ENV = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE1234", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL_S3": URL, "AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nowhere",
       "AWS_REGION": "us-east-1"}
GOOD = "s3://b/runs/step9000"


def doctor(what, source, env=ENV, args=()):
    return doctor_says.doctor(what, source, env, args)


wrong = functools.partial(doctor_says.wrong, env=ENV)


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
    check("no directory", r.returncode == 1 and "wrong    source" in r.stdout, r.stdout)


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
    for slash in ("", "/"):
        wrong("a file of the checkpoint", "s3://b/runs/step9000/.metadata" + slash, "prefix", "is an object", "SOURCE is the directory that it lies in: s3://b/runs/step9000")
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
    doctor_says.ways(Handler, lambda url: (GOOD, {**ENV, "AWS_ENDPOINT_URL_S3": url}))
    doctor_says.ways(Handler, lambda url: (url + "/d", ENV))


def web():
    c = doctor("files", URL + "/d")
    check("files: every check", {k: v[0] for k, v in c.items()} == dict.fromkeys(("endpoint", "credentials", "server", "reading", "checkpoint"), "ok"), c)
    c = doctor("userinfo", f"http://u:HUSH@{URL[7:]}/d?x=HUSH")
    check("userinfo: it is told that there is one", c["credentials"][1] == "userinfo of the URL", c)
    c = doctor("a hub", URL + "/d", {"HF_ENDPOINT": URL, "HF_TOKEN": "hf_HUSH"})
    check("a hub: its token", "HF_TOKEN" in c["credentials"][1], c)
    wrong("a file of the checkpoint", URL + "/d/.metadata", "files", "named as a file", "without its last part")
    wrong("nothing there", URL + "/nowhere", "files", ".metadata", "resolve/REV")
    server.broken = lambda h, path: h.answer(401)
    wrong("a password is wanted", URL + "/d", "permission", "401", "HF_TOKEN")
    server.broken = lambda h, path: h.answer(403)
    wrong("forbidden", URL + "/d", "permission", "403")
    server.broken = lambda h, path: h.answer(200, "<html>", Content_Type="text/html")
    wrong("a page", URL + "/d", "server", "web page")
    server.broken = lambda h, path: h.command == "GET" and h.answer(200, b"x" * 100)
    wrong("no ranges", URL + "/d", "ranges", "ignores Range", "curl -s -r 0-0")
    server.broken = lambda h, path: h.answer(302, Location=h.path)
    wrong("redirects without end", URL + "/d", "endpoint", "redirect")
    server.broken = None


for part in (fine, refused, prefixes, credentials, ways, web):
    with attempt(part.__name__):
        part()
finish()
