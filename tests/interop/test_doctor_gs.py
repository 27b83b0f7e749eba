#!/usr/bin/env python3
"""doctor gs://: what can be wrong with a bucket of Google's, whoever is signed in and the way there is told apart, with what to do about it; by a server whose
answers are scripted, and by fake-gcs-server where it is installed."""
import functools
import urllib.parse

import doctor_says
import gs_server
import scripted_server
from common import *

need_program()
for name in list(os.environ):
    if name.lower().endswith("_proxy") or name.startswith(("GOOGLE_", "CLOUDSDK_", "STORAGE_EMULATOR_", "GCE_", "GS_", "NO_GCE", "AWS_")) or \
            name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        os.environ.pop(name)
if "without libcurl" in run("info", "gs://bkt/x", "--endpoint-url", "http://127.0.0.1:1", "--no-sign-request").stderr:
    skip_all("this build has no libcurl")
ROOT = f"{DATA}/dcp/fsdp4/ckpt"
KEYS = sorted(["runs/step9000/" + n for n in os.listdir(ROOT)] + ["runs/step8000/x", "logs/a//b", "logs/y", "runs/config.json"])


def size_of(key):
    return os.path.getsize(f"{ROOT}/{key[14:]}") if key.startswith("runs/step9000/") else 1


class Handler(scripted_server.Handler):
    """A bucket bkt with the checkpoint at runs/step9000/, as JSON and as S3 has it, and whoever gives tokens; server.broken answers instead, if it wants."""

    def tell(self, status, reason, message):
        return self.answer(status, json.dumps({"error": {"code": status, "message": message, "errors": [{"reason": reason}]}}), Content_Type="application/json")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if not (self.server.broken and self.server.broken(self, "/token")):
            self.answer(200, '{"access_token": "ya29.HUSH", "expires_in": 3599}')

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        path, q = urllib.parse.unquote(url.path), dict(urllib.parse.parse_qsl(url.query))
        if self.server.broken and self.server.broken(self, path):
            return
        if path == "/storage/v1/b/bkt/o" or path.rstrip("/") == "/bkt":
            keys, dirs = [k for k in KEYS if k.startswith(q.get("prefix", ""))], set()
            for k in list(keys):
                cut = k.find("/", len(q.get("prefix", ""))) if q.get("delimiter") else -1
                if cut >= 0:
                    dirs.add(k[:cut + 1])
                    keys.remove(k)
            if path.startswith("/bkt"):
                return self.answer(200, "<ListBucketResult><IsTruncated>false</IsTruncated>" + "".join(
                    f'<Contents><Key>{k}</Key><ETag>"e"</ETag><Size>{size_of(k)}</Size></Contents>' for k in keys) + "".join(
                    f"<CommonPrefixes><Prefix>{d}</Prefix></CommonPrefixes>" for d in sorted(dirs)) + "</ListBucketResult>")
            return self.answer(200, json.dumps({"kind": "storage#objects", "prefixes": sorted(dirs), "items": [
                {"name": k, "size": str(size_of(k)), "generation": "7"} for k in keys]}))
        key = path.removeprefix("/bkt/").removeprefix("/storage/v1/b/bkt/o/")
        if key not in KEYS:
            return self.tell(404, "notFound", "No such object")
        body = b"1"
        if key.startswith("runs/step9000/"):
            with open(f"{ROOT}/{key[14:]}", "rb") as f:
                body = f.read()
        if q.get("alt") != "media" and not path.startswith("/bkt/"):
            return self.answer(200, json.dumps({"size": str(len(body)), "generation": "7"}))
        a, b = (int(x) for x in re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups())
        self.answer(206, body[a:b + 1], Content_Range=f"bytes {a}-{b}/{len(body)}", x_goog_generation="7", ETag='"e"')


server = scripted_server.serve(Handler)
ENV = {"STORAGE_EMULATOR_HOST": server.url, "HOME": "/nowhere", "NO_GCE_CHECK": "true"}
AT = ["--endpoint-url", server.url]
GOOD = "gs://bkt/runs/step9000"
wrong = functools.partial(doctor_says.wrong, env=ENV)
doctor = doctor_says.doctor


def fine(env):
    c = doctor("all is well", GOOD, ENV)
    check("all is well: every check", {k: v[0] for k, v in c.items()} == dict.fromkeys(("endpoint", "credentials", "listing", "reading", "checkpoint"), "ok"), c)
    check("all is well: whose endpoint", "STORAGE_EMULATOR_HOST" in c["endpoint"][1] and "STORAGE_EMULATOR_HOST" in c["credentials"][1], c)
    c = doctor("nobody", GOOD, {"HOME": "/nowhere"}, [*AT, "--no-sign-request"])
    check("nobody is signed in", "--no-sign-request" in c["credentials"][1] and c["checkpoint"][0] == "ok", c)
    c = doctor("somebody", GOOD, env, AT)
    check("somebody: which file", env["GOOGLE_APPLICATION_CREDENTIALS"] in c["credentials"][1] and "minutes more" in c["credentials"][1], c)
    check("somebody: all is well", c["checkpoint"][0] == "ok", c)
    c = doctor("who pays", GOOD, env, [*AT, "--user-project", "mine"])
    check("who pays", "project mine" in c["credentials"][1], c)


def refused(env):
    def everywhere(*what):
        return lambda h, path: path != "/token" and h.tell(*what)

    def of(listing, *what):
        return lambda h, path: path.startswith("/storage") and path.endswith("/o") == listing and h.tell(*what)

    try:
        for what, broken, which, *texts in (
                ("a wrong token", everywhere(401, "authError", "Invalid Credentials"), "credentials", "401", "gcloud auth application-default login"),
                ("no bucket", everywhere(404, "notFound", "The specified bucket does not exist."), "bucket", "no bucket 'bkt'", "gcloud storage ls"),
                ("no permission to list", of(True, 403, "forbidden", "x does not have storage.objects.list access"), "listing", "storage.objects.list",
                 "roles/storage.objectViewer"),
                ("no permission to read", of(False, 403, "forbidden", "x does not have storage.objects.get access"), "reading", "storage.objects.get access",
                 "needs storage.objects.get"),
                ("the reader pays", everywhere(400, "required", "Bucket is a requester pays bucket but no user project provided."), "who pays", "--user-project"),
                ("a project that is not ours", everywhere(403, "userProjectAccessDenied", "no serviceusage.services.use"), "who pays", "serviceUsageConsumer"),
                ("nobody's bill", everywhere(403, "accountDisabled", "The project to be billed is associated with an absent billing account."), "account", "billing"),
                ("it is deleted just now", of(False, 404, "notFound", "No such object"), "reading", "run it again"),
                ("no GCS", lambda h, path: path != "/token" and h.answer(404 if path.endswith("/o") else 200, "<html>"), "bucket", "gcloud storage ls"),
                ("a page", lambda h, path: path != "/token" and h.answer(200, "<html>hello</html>"), "server", "JSON API", "--endpoint-url")):
            server.broken = broken
            wrong(what, GOOD, which, *texts, env=env, args=AT)
        server.broken = everywhere(401, "required", "Anonymous caller does not have storage.objects.list access")
        wrong("a bucket that is not public", GOOD, "listing", "Anonymous caller", "without --no-sign-request", env={"HOME": "/nowhere"}, args=[*AT, "--no-sign-request"])
        server.broken, server.skew = None, 7200
        wrong("a clock two hours behind", GOOD, "clock", "s behind the server's", "set-ntp", env=env, args=AT, state="hint")
        server.broken = lambda h, path: path == "/token" and h.answer(400, '{"error": "invalid_grant", "error_description": "Check your iat and exp values"}')
        wrong("a clock for which no token is given", GOOD, "clock", "s behind the server's", "set-ntp", env=env, args=AT)
        server.skew = 0
        wrong("a key that was deleted", GOOD, "credentials", "invalid_grant", "another key of the service account", env=env, args=AT)
    finally:
        server.broken, server.skew = None, 0


def prefixes():
    wrong("a misspelt prefix", "gs://bkt/runs/step900", "prefix", "'step900' in runs/", "step9000/")
    wrong("a misspelt beginning", "gs://bkt/rnus/step9000", "prefix", "'rnus' in the bucket", "runs/")
    wrong("a prefix that is like nothing", "gs://bkt/quite/another", "prefix", "'quite' in the bucket", "gcloud storage ls")
    wrong("a file of the checkpoint", "gs://bkt/runs/step9000/.metadata", "prefix", "is an object", "lies in: gs://bkt/runs/step9000")
    wrong("a prefix without a checkpoint", "gs://bkt/logs", "checkpoint", "not a checkpoint")
    first = [True]

    def empty_first(h, path):
        was, first[0] = first[0], False
        return was and h.answer(200, '{"kind": "storage#objects", "nextPageToken": "t"}')
    server.broken = empty_first
    c = doctor("an empty page that is not the last", GOOD, ENV)
    check("an empty page that is not the last is not taken for all", c.get("checkpoint", ("",))[0] == "ok", c)
    server.broken = None


def credentials(d, env):
    nobody = {"HOME": d, "NO_GCE_CHECK": "true"}
    wrong("no credentials", GOOD, "credentials", "no Google credentials", "gcloud auth application-default login", env=nobody, args=AT)
    wrong("a file that is not there", GOOD, "credentials", "GOOGLE_APPLICATION_CREDENTIALS '/no/such'", "mend it or unset it",
          env={**nobody, "GOOGLE_APPLICATION_CREDENTIALS": "/no/such"}, args=AT)
    with open(d + "/torn", "w") as f:
        f.write('{"type": "authorized_user", "refresh_token": "HUSH"')
    wrong("a file that is torn", GOOD, "credentials", "no JSON", "print-access-token", env={**nobody, "GOOGLE_APPLICATION_CREDENTIALS": d + "/torn"}, args=AT)
    with open(d + "/gone", "w") as f:
        json.dump({"type": "authorized_user", "client_id": "i", "client_secret": "HUSH", "refresh_token": "HUSH", "token_uri": "http://127.0.0.1:1/token"}, f)
    wrong("nobody gives tokens", GOOD, "endpoint", "127.0.0.1", "nothing answers there", env={**nobody, "GOOGLE_APPLICATION_CREDENTIALS": d + "/gone"}, args=AT)
    wrong("an endpoint that anybody hears", GOOD, "source", "no credentials are sent", env=nobody, args=["--endpoint-url", "http://gcs.example"])
    hmac = {**nobody, "GS_ACCESS_KEY_ID": "GOOG1EXAMPLE1234", "GS_SECRET_ACCESS_KEY": "se/HUSH"}
    c = doctor("keys of HMAC", GOOD, hmac, AT)
    check("keys of HMAC: which", c["credentials"][1].startswith("GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY (key id ****1234") and c["checkpoint"][0] == "ok", c)
    for code, which, *texts in (("SignatureDoesNotMatch", "secret key", "GS_SECRET_ACCESS_KEY", "Interoperability"), ("InvalidSecurity", "access key", "GS_ACCESS_KEY_ID"),
                                ("AccessDenied", "listing", "storage.objects.list"), ("NoSuchBucket", "bucket", "gcloud storage ls")):
        server.broken = lambda h, path: h.error(403, code)
        c = wrong(f"HMAC: {code}", GOOD, which, *texts, env=hmac, args=AT)
        check(f"HMAC: {code}: nothing of Amazon", "aws " not in str(c) and "AWS" not in str(c) and "s3:" not in str(c), c)
    server.broken = None


def real():
    if not gs_server.program():
        return skip("fake-gcs-server", f"none for {sys.executable}")
    with gs_server.Server() as s:
        s.bucket("bkt")
        s.upload("bkt", ROOT, "runs/step9000/")
        env = {**ENV, "STORAGE_EMULATOR_HOST": s.host}
        c = doctor("fake-gcs", GOOD, env)
        check("fake-gcs: all is well", all(v[0] == "ok" for v in c.values()) and "checkpoint" in c, c)
        wrong("fake-gcs: no bucket", "gs://nobucket/x", "bucket", "'nobucket'", env=env)
        wrong("fake-gcs: no prefix", "gs://bkt/runs/step900", "prefix", "step9000/", env=env)


with tempfile.TemporaryDirectory() as directory:
    with open(directory + "/user.json", "w") as out:
        json.dump({"type": "authorized_user", "client_id": "i", "client_secret": "HUSH", "refresh_token": "HUSH", "token_uri": server.url + "/token"}, out)
    user = {"HOME": "/nowhere", "GOOGLE_APPLICATION_CREDENTIALS": directory + "/user.json"}
    for part, *what in ((fine, user), (refused, user), (prefixes,), (credentials, directory, user), (doctor_says.ways, Handler, lambda url: (
            GOOD, {**ENV, "STORAGE_EMULATOR_HOST": url})), (real,)):
        with attempt(part.__name__):
            part(*what)
finish()
