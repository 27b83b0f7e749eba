#!/usr/bin/env python3
"""What a server of S3 may answer, by one that is scripted: it checks each signature by code of its own, sends to another region, has another
clock, lets credentials expire, lists in circles, answers with web pages. The checkpoint is read right, or the message says what is wrong."""
import email.utils
import hmac
import urllib.parse
from xml.sax.saxutils import escape

import scripted_server
from common import *

need_program()
for name in list(os.environ):
    if name.lower() in ("http_proxy", "https_proxy", "all_proxy") or name.startswith("AWS_"):
        os.environ.pop(name)
ROOT = f"{DATA}/dcp/fsdp4/ckpt"
SECRETS = {"KEY": "sec/ret+=SECRET", "OLD": "oldSECRET"}


def h(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Handler(scripted_server.Handler):
    def signed(self):
        """The request's key id and scope, if all of its signature is right; else None and the complaint is sent."""
        auth = self.headers.get("Authorization", "")
        m = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})", auth)
        if not m:
            self.error(403, "AccessDenied")
            return None
        key, day, region, names, signature = m.groups()
        names = names.split(";")
        must = {"host"} | {n.lower() for n in self.headers if n.lower().startswith("x-amz-")}
        url = urllib.parse.urlsplit(self.path)
        # coded once, and nothing but what must be
        again = urllib.parse.quote(urllib.parse.unquote_to_bytes(url.path), safe="/-_.~")
        pairs = sorted(p.split("=", 1) for p in url.query.split("&")) if url.query else []
        query = "&".join(f"{k}={v}" for k, v in pairs)
        if not must <= set(names) or names != sorted(names) or again != url.path or query != url.query:
            self.error(400, "TestSaysBadRequest", f"<Detail>{escape(str((names, again, url.path, query)))}</Detail>")
            return None
        canonical = "\n".join([self.command, url.path, query, *(f"{n}:{' '.join(self.headers[n].split())}" for n in names), "", ";".join(names),
                               self.headers["x-amz-content-sha256"]])
        date = self.headers["x-amz-date"]
        to_sign = f"AWS4-HMAC-SHA256\n{date}\n{day}/{region}/s3/aws4_request\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        k = h(h(h(h(b"AWS4" + SECRETS.get(key, "?").encode(), day), region), "s3"), "aws4_request")
        if key not in SECRETS:
            self.error(403, "InvalidAccessKeyId")
        elif h(k, to_sign).hex() != signature:
            self.error(403, "SignatureDoesNotMatch")
        elif abs(email.utils.mktime_tz((*(int(date[a:b]) for a, b in ((0, 4), (4, 6), (6, 8), (9, 11), (11, 13), (13, 15))), 0, 0, 0, 0)) - time.time() -
                 self.server.skew) > 900:
            self.error(403, "RequestTimeTooSkewed")
        else:
            self.server.regions.append(region)
            return key
        return None

    def do_GET(self):
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        s = self.server
        key = self.signed() if s.signs else "anonymous"
        if key is None or (s.broken and s.broken(self, key)):
            return
        url = urllib.parse.urlsplit(self.path)
        if url.path in ("/b", "/b/") or not url.path.startswith("/b/"):
            return self.list(dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True)))
        path = ROOT + "/" + urllib.parse.unquote(url.path[3:]).removeprefix("run/")
        if not os.path.isfile(path):
            return self.error(404, "NoSuchKey")
        with open(path, "rb") as f:
            body = f.read()
        tag = '"%s"' % hashlib.md5(body).hexdigest()
        if self.headers.get("If-Match", tag) != tag:
            return self.error(412, "PreconditionFailed")
        m = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if self.command == "HEAD":
            return self.answer(200, Content_Length=str(len(body)), ETag=tag)
        if not m:
            return self.answer(200, body, ETag=tag)
        a, b = int(m[1]), min(int(m[2]), len(body) - 1)
        self.answer(206, body[a:b + 1], Content_Range=f"bytes {a}-{b}/{len(body)}", ETag=tag)

    def list(self, q):
        prefix = q.get("prefix", "")
        keys = sorted("run/" + n for n in os.listdir(ROOT) if ("run/" + n).startswith(prefix))
        start = int(q.get("continuation-token", "0 token").split()[0])
        out = ["<?xml version='1.0'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Name>b</Name><EncodingType>url</EncodingType>"]
        page = keys[start:start + 2]
        more = start + 2 < len(keys)
        out.append(f"<IsTruncated>{str(more).lower()}</IsTruncated>")
        if more:
            out.append(f"<NextContinuationToken>{self.server.token(start + 2)}</NextContinuationToken>")
        for k in page:
            with open(ROOT + "/" + k[4:], "rb") as f:
                body = f.read()
            out.append(f"<Contents><Key>{escape(urllib.parse.quote_plus(k))}</Key><LastModified>2024-01-02T03:04:05.000Z</LastModified>"
                       f"<ETag>&quot;{hashlib.md5(body).hexdigest()}&quot;</ETag><Size>{len(body)}</Size></Contents>")
        self.answer(200, "".join(out) + "</ListBucketResult>")


def reset():
    server.broken, server.signs, server.skew, server.seen, server.regions = None, True, 0, [], []
    server.token = lambda n: f"{n} /+=token"


server = scripted_server.serve(Handler)
reset()
URL = server.url
ENV = {"AWS_ENDPOINT_URL_S3": URL, "AWS_ACCESS_KEY_ID": "KEY", "AWS_SECRET_ACCESS_KEY": SECRETS["KEY"], "AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nowhere"}
if "without libcurl" in run("info", "s3://b/run", env=ENV).stderr:
    skip_all("this build has no libcurl")
LOCAL = run("keys", "-l", ROOT).stdout


def works(what, *args, env=ENV):
    r = run("keys", "-l", "s3://b/run", *args, env=env)
    check(f"{what}: all keys", r.returncode == 0 and r.stdout == LOCAL, (r.returncode, r.stderr))
    check(f"{what}: nothing secret", "SECRET" not in r.stdout + r.stderr, r.stderr)
    r = run("verify", "--deep", "s3://b/run", *args, env=env)
    check(f"{what}: all bytes", r.returncode == 0, r.stdout[-300:] + r.stderr)


def says(what, *texts, args=(), env=ENV):
    r = run("info", "s3://b/run", *args, "--timeout", "4", env=env)
    check(f"{what}: fails", r.returncode == 1, (r.returncode, r.stderr))
    check(f"{what}: the message", all(t in r.stderr for t in texts), r.stderr)
    check(f"{what}: nothing secret", "SECRET" not in r.stdout + r.stderr, r.stderr)


# all is well: pages of two keys; every GET is of the version that was listed
works("all is well")
gets = [s for s in server.seen if s[0] == "GET" and s[1].startswith("/b/")]
check("a listed object costs no HEAD", not [s for s in server.seen if s[0] == "HEAD"], server.seen[:3])
check("every range is pinned", gets and all("If-Match" in s[2] and "Range" in s[2] for s in gets))
reset()
works("requester pays", "--request-payer")
check("requester pays: each request says so", all(s[2].get("x-amz-request-payer") == "requester" for s in server.seen), server.seen[:2])
reset()
server.signs = False
works("without credentials", "--no-sign-request")
check("without credentials: nothing is signed", not any("Authorization" in s[2] for s in server.seen))
reset()

# another region: told by a header, by the body, by a redirect
for what, send in (("the header of a 301", lambda x: x.error(301, "PermanentRedirect", x_amz_bucket_region="eu-west-1")),
                   ("the body of a 400", lambda x: x.error(400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>")),
                   ("a 307", lambda x: x.error(307, "TemporaryRedirect", x_amz_bucket_region="eu-west-1", Location="http://127.0.0.1:1/"))):
    reset()
    server.broken = lambda x, key, send=send: x.server.regions[-1] != "eu-west-1" and send(x)
    works(f"another region by {what}")
    check(f"another region by {what}: asked wrongly once a run", server.regions.count("us-east-1") == 2, server.regions[:6])
reset()
server.broken = lambda x, key: x.error(301, "PermanentRedirect", x_amz_bucket_region="eu-west-%d" % (len(x.server.seen) % 2))
says("regions in a circle", "region")

# another clock
for skew in (3600, -86400):
    reset()
    server.skew = skew
    works(f"a clock {skew} s off")

# credentials that have expired: fetched again once
with tempfile.TemporaryDirectory() as d:
    os.mkdir(d + "/.aws")
    with open(d + "/.aws/config", "w") as f:
        f.write(f"[default]\ncredential_process = n=$(cat {d}/n); if [ $n = 0 ]; then k=OLD s={SECRETS['OLD']}; else k=KEY s={SECRETS['KEY']}; fi; echo $((n+1)) >{d}/n; "
                "echo \"{\\\"Version\\\":1,\\\"AccessKeyId\\\":\\\"$k\\\",\\\"SecretAccessKey\\\":\\\"$s\\\"}\"\n")
    env = {"AWS_ENDPOINT_URL_S3": URL, "AWS_EC2_METADATA_DISABLED": "true", "HOME": d}

    def runs(n=None):
        if n is not None:
            with open(d + "/n", "w") as f:
                f.write(str(n))
        with open(d + "/n") as f:
            return int(f.read())
    reset()
    server.broken = lambda x, key: key == "OLD" and x.error(400, "ExpiredToken")
    runs(0)
    r = run("keys", "-l", "s3://b/run", env=env)
    check("expired: fetched again", r.returncode == 0 and r.stdout == LOCAL, r.stderr)
    check("expired: once", runs() == 2, runs())
    reset()  # while it is read
    server.broken = lambda x, key: x.path.startswith("/b/") and key == "OLD" and x.error(403, "ExpiredToken")
    runs(0)
    r = run("verify", "--deep", "s3://b/run", env=env)
    check("expired while it is read: all bytes", r.returncode == 0, r.stdout[-300:] + r.stderr)
    check("expired while it is read: once", runs() == 2, runs())
    reset()
    server.broken = lambda x, key: x.error(403, "ExpiredToken")
    runs(1)
    says("expired for good", "ExpiredToken", "credential_process of profile default", env=env)
    server.broken = lambda x, key: x.path.startswith("/b/") and x.error(403, "ExpiredToken")
    says("expired for good while it is read", "ExpiredToken", "credential_process of profile default", env=env)

# answers that are none
reset()
for what, send, *texts in (
        ("a web page", lambda x: x.answer(200, "<html><body>hello</body></html>"), "not an S3 listing"),
        ("a web page with 404", lambda x: x.answer(404, "<html>"), "404", "without an S3 error document (region", "environment variables"),
        ("no answer in it", lambda x: x.answer(200, ""), "XML"),
        ("an error in a 200", lambda x: x.error(200, "InternalError"), "InternalError"),
        ("a DTD", lambda x: x.answer(200, "<!DOCTYPE a [<!ENTITY a 'b'>]><ListBucketResult>&a;</ListBucketResult>"), "DTD"),
        ("a listing without end", lambda x: x.answer(200, "<ListBucketResult>" + " " * (17 << 20)), "s3://b/run"),
        ("a listing of another prefix", lambda x: x.answer(200, "<ListBucketResult><Contents><Key>../x</Key><Size>1</Size></Contents></ListBucketResult>"), "does not begin"),
        ("no permission", lambda x: x.error(403, "AccessDenied"), "AccessDenied", "environment variables", "127.0.0.1"),
        ("no bucket", lambda x: x.error(404, "NoSuchBucket"), "no bucket 'b'"),
        ("a server that is down", lambda x: x.error(503, "SlowDown"), "503"),
        ("an archive", lambda x: x.error(403, "InvalidObjectState"), "restored"),
):
    server.broken = lambda x, key, send=send: send(x) or True
    says(what, *texts)
reset()
server.token = lambda n: "0 again"
says("a page again and again", "repeats itself")
reset()
real_list = Handler.list


def shifted(x, q):  # each page begins with the last key of the one before, by tokens of its own: nothing of it came before but that
    first = int(q.get("continuation-token", "0").split()[0])
    return real_list(x, {**q, "continuation-token": str(max(first - 1, 0))} if first else q)


Handler.list = shifted
server.token = lambda n: f"{n} of {len(server.seen)}"
says("keys that come twice", "repeats itself", "was sent twice")
Handler.list = real_list
reset()
real_answer = Handler.answer
Handler.answer = lambda x, status, body=b"", **h: real_answer(x, status, re.sub("<Contents>.*?</Contents>", "", body, count=1).replace(
    "</Name>", "</Name><KeyCount>2</KeyCount>") if isinstance(body, str) and "<ListBucketResult" in body else body, **h)
says("a page that lacks a key", "says that it has 2 keys, and has 1")
Handler.answer = lambda x, status, body=b"", **h: real_answer(x, status, re.sub("<Contents>.*</Contents>", "", body).replace(
    "</Name>", "</Name><KeyCount>2</KeyCount>") if isinstance(body, str) and "<ListBucketResult" in body else body, **h)
says("a page that lacks all keys", "says that it has 2 keys, and has 0")
Handler.answer = real_answer
reset()
server.broken = lambda x, key: "continuation-token" in x.path and x.error(500, "InternalError")
says("a listing that fails in its middle", "500")

# trouble that passes
reset()
turn = [0]


def sometimes(x, key):
    turn[0] += 1
    return turn[0] % 3 == 0 and x.error(503, "SlowDown")


server.broken = sometimes
works("a server that is slowed down")

# while it is mounted: the object is another one
if no_fuse():
    skip("a mount", no_fuse())
else:
    reset()
    with Mount("s3://b/run", env=ENV) as m:
        victim = sorted(n for n in os.listdir(m + "/shards") if n.endswith(".distcp"))[0]
        for status, code, want in ((412, "PreconditionFailed", 116), (404, "NoSuchKey", 116)):
            server.broken = lambda x, key: victim in x.path and x.error(status, code)
            try:
                with open(f"{m}/shards/{victim}", "rb") as f:
                    f.read()
                check(f"{code}: an error", False, "it was read")
            except OSError as e:
                check(f"{code}: ESTALE", e.errno == want, e)
finish()
