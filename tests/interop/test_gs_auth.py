#!/usr/bin/env python3
"""Who asks Google's storage: a server that judges tokens, its JWTs by google-auth; and google-auth's own requests, which it must take for the same. Credentials of every
kind read a checkpoint; wrong ones are refused with a message that has no secret."""
import datetime
import http.server
import threading
import urllib.parse

from common import *

need_program()
try:
    import google.auth
    import google.auth.jwt
    import google.auth.transport.requests
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
except ImportError as e:
    skip_all(f"no {e.name} for {sys.executable} (pip install google-auth[requests])")
for name in list(os.environ):
    if name.lower() in ("http_proxy", "https_proxy", "all_proxy") or name.startswith(("GOOGLE_", "CLOUDSDK_", "STORAGE_EMULATOR_", "GCE_", "GS_", "NO_GCE")):
        os.environ.pop(name)
if "without libcurl" in run("info", "gs://bucket/x", "--endpoint-url", "http://127.0.0.1:1", "--no-sign-request").stderr:
    skip_all("this build has no libcurl")

SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
EVERYTHING = "https://www.googleapis.com/auth/cloud-platform"
CKPT = f"{DATA}/dcp/fsdp4/ckpt"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM = KEY.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sa")])
NOW = datetime.datetime.now(datetime.timezone.utc)
CERT = (x509.CertificateBuilder().subject_name(NAME).issuer_name(NAME).public_key(KEY.public_key()).serial_number(1)
        .not_valid_before(NOW - datetime.timedelta(days=1)).not_valid_after(NOW + datetime.timedelta(days=1)).sign(KEY, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM))
SECRET, SUBJECT = "GOCSPX-secret", "subject-token"


class Google(http.server.BaseHTTPRequestHandler):
    """Token endpoints, a metadata server, and a bucket "ckpts" that is the directory CKPT below "run/"."""
    protocol_version = "HTTP/1.1"
    forms = []   # of /token and /sts
    known = {}   # token: how it was had
    asked = []   # project headers

    def log_message(self, *a):
        pass

    def tell(self, status, body, headers=()):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for k, v in headers:
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def give(self, how, iam=False):
        token = f"ya29.{how}-{len(self.known)}"
        self.known[token] = how
        until = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.tell(200, {"accessToken": token, "expireTime": until} if iam else {"access_token": token, "expires_in": 3599, "token_type": "Bearer"})

    def bearer(self):
        return self.known.get(self.headers.get("Authorization", "").removeprefix("Bearer "))

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/iam":
            ask = json.loads(body)
            if self.bearer() not in ("sts", "user") or ask["scope"] != [SCOPE]:
                return self.tell(403, {"error": {"code": 403, "message": f"not by {self.bearer()}: {ask}"}})
            return self.give("other", iam=True)
        form = dict(urllib.parse.parse_qsl(body, strict_parsing=True))
        self.forms.append(form)
        if self.path == "/sts":
            good = form["subject_token"] == SUBJECT and form["audience"] == "//iam/pool" and form["scope"] in (SCOPE, EVERYTHING)
        elif form["grant_type"] == "refresh_token":
            good = form["client_secret"] == SECRET and form["refresh_token"] == "1//r" and form["client_id"] == "id"
        else:
            try:
                claims = google.auth.jwt.decode(form["assertion"], certs={"kid1": CERT}, audience=[self.server.url + "/token", "https://oauth2.googleapis.com/token"])
                good = claims["iss"] == "sa@p.iam.gserviceaccount.com" and claims["scope"] == SCOPE and claims["exp"] - claims["iat"] == 3600
            except ValueError as e:
                return self.tell(400, {"error": "invalid_grant", "error_description": str(e)})
        if not good:
            return self.tell(400, {"error": "invalid_grant", "error_description": "Account has been deleted"})
        self.give("sts" if self.path == "/sts" else "user" if form["grant_type"] == "refresh_token" else "service")

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/idp":
            return self.tell(200 if self.headers["X-Who"] == "me" else 403, {"t": SUBJECT})
        if url.path == "/computeMetadata/v1/instance/service-accounts/default/token":
            return self.machine() if self.headers["Metadata-Flavor"] == "Google" else self.tell(403, b"")
        if not self.bearer():
            return self.tell(401, {"error": {"code": 401, "message": "Invalid Credentials", "errors": [{"reason": "authError"}]}})
        self.asked.append(self.headers["x-goog-user-project"])
        q = dict(urllib.parse.parse_qsl(url.query))
        names = {"run/" + n: f"{CKPT}/{n}" for n in os.listdir(CKPT)}
        if url.path == "/storage/v1/b/ckpts/o":
            items = [{"name": n, "size": str(os.path.getsize(p)), "generation": "11"} for n, p in sorted(names.items()) if n.startswith(q["prefix"])]
            return self.tell(200, {"kind": "storage#objects", "items": items})
        name = urllib.parse.unquote(url.path.removeprefix("/storage/v1/b/ckpts/o/"))
        if name not in names or q.get("alt") != "media" or q.get("generation") != "11":
            return self.tell(404, b"No such object")
        with open(names[name], "rb") as f:
            body = f.read()
        a, b = (int(x) for x in self.headers["Range"].removeprefix("bytes=").split("-"))
        self.tell(206, body[a:b + 1], [("Content-Range", f"bytes {a}-{b}/{len(body)}"), ("x-goog-generation", "11")])

    def machine(self):
        token = f"ya29.machine-{len(self.known)}"
        self.known[token] = "machine"
        self.tell(200, {"access_token": token, "expires_in": 3599}, [("Metadata-Flavor", "Google")])


def key_file(d, name, what):
    path = f"{d}/{name}.json"
    with open(path, "w") as f:
        json.dump(what, f)
    return path


def kinds(d, url):
    with open(f"{d}/subject", "w") as f:
        f.write(SUBJECT)
    user = {"type": "authorized_user", "client_id": "id", "client_secret": SECRET, "refresh_token": "1//r", "token_uri": url + "/token"}
    external = {"type": "external_account", "audience": "//iam/pool", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": url + "/sts"}
    by_url = {"url": url + "/idp", "headers": {"X-Who": "me"}, "format": {"type": "json", "subject_token_field_name": "t"}}
    return {
        "service": {"type": "service_account", "client_email": "sa@p.iam.gserviceaccount.com", "private_key_id": "kid1", "private_key": PEM,
                    "token_uri": url + "/token", "project_id": "p"},
        "user": user,
        "external by file": {**external, "credential_source": {"file": f"{d}/subject"}},
        "external by URL": {**external, "credential_source": by_url},
        "external for another": {**external, "credential_source": by_url, "service_account_impersonation_url": url + "/iam"},
        "another": {"type": "impersonated_service_account", "source_credentials": user, "service_account_impersonation_url": url + "/iam"},
    }


def theirs(path):
    """What google-auth asks with the same file."""
    Google.forms.clear()
    c, _ = google.auth.load_credentials_from_file(path, scopes=[SCOPE])
    c.refresh(google.auth.transport.requests.Request())
    return list(Google.forms)


with tempfile.TemporaryDirectory(prefix="sf-gs-auth-") as d:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Google)
    server.url = url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ.update(HOME=d, XDG_CACHE_HOME=d + "/cache", NO_GCE_CHECK="true")
    args = ["gs://ckpts/run", "--endpoint-url", url, "--cache-size", "0"]
    near = run("keys", CKPT).stdout
    for kind, what in kinds(d, url).items():
        path = key_file(d, kind.replace(" ", "_"), what)
        Google.forms.clear()
        a = run("keys", *args, env={"GOOGLE_APPLICATION_CREDENTIALS": path})
        check(f"{kind}: the same keys", a.returncode == 0 and a.stdout == near, a.stderr)
        a = run("verify", "--deep", *args, env={"GOOGLE_APPLICATION_CREDENTIALS": path})
        check(f"{kind}: all is read", a.returncode == 0, a.stderr)
        ours = [dict(f) for f in Google.forms]
        check(f"{kind}: one token a run", len(ours) == 2, ours)
        if kind not in ("service", "external by file", "external by URL"):
            continue  # for the others its library insists on Google's own hosts
        with attempt(f"{kind}: google-auth"):
            for f in (own := theirs(path)) + ours:
                f.pop("assertion", None)  # judged above; times and letters differ
            check(f"{kind}: the form is google-auth's", own and own[0] == ours[0], (own, ours[0]))
    # where they are looked for
    os.makedirs(d + "/.config/gcloud")
    os.rename(f"{d}/user.json", f"{d}/.config/gcloud/application_default_credentials.json")
    a = run("keys", *args)
    check("gcloud's file", a.returncode == 0 and a.stdout == near, a.stderr)
    a = run("keys", *args, env={"CLOUDSDK_CONFIG": d, "NO_GCE_CHECK": "", "GCE_METADATA_HOST": url.removeprefix("http://")})
    check("the machine", a.returncode == 0 and a.stdout == near, a.stderr)
    Google.asked.clear()
    run("keys", *args, env={"GOOGLE_CLOUD_QUOTA_PROJECT": "pays"})
    check("who pays is told", set(Google.asked) == {"pays"}, Google.asked)
    # what goes wrong
    bad = {**kinds(d, url)["user"], "client_secret": SECRET + "x"}
    for what, env, texts in (
            ("a wrong secret", {"GOOGLE_APPLICATION_CREDENTIALS": key_file(d, "bad", bad)}, ["answers 400 invalid_grant: Account has been deleted", "bad.json"]),
            ("nobody", {"CLOUDSDK_CONFIG": d}, ["no Google credentials", "gcloud auth application-default login", "--no-sign-request"]),
            ("no such file", {"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere"}, ["GOOGLE_APPLICATION_CREDENTIALS '/nowhere'"])):
        r = run("info", *args, env=env)
        check(f"{what}: exit 1", r.returncode == 1, r.stderr)
        check(f"{what}: the message", all(t in r.stderr for t in texts), r.stderr)
        check(f"{what}: nothing secret", SECRET not in r.stdout + r.stderr, r.stderr)
    r = run("info", *args, "--no-sign-request")
    check("anonymous", r.returncode == 1 and "401: Invalid Credentials (nobody is signed in)" in r.stderr, r.stderr)
    if why := no_fuse():
        skip("a mount", why)
    else:
        with Mount("gs://ckpts/run", f"endpoint_url={url}", "cache_size=0") as m:
            texts = [open(f"{m}/{n}").read() for n in ("README", "info.json", "tensors.json", ".shardfuse/counters.json")]
            with open(f"/proc/{daemon_of(m)}/cmdline", "rb") as f:
                texts.append(f.read().decode())
            check("a mount shows no secret", not any(SECRET in t or "ya29." in t or "1//r" in t for t in texts))
    server.shutdown()
finish()
