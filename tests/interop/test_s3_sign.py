#!/usr/bin/env python3
"""botocore signs the same requests: path, query and signature are equal, for keys and parameters with odd characters too."""
import calendar, os, subprocess, sys, time
from urllib.parse import urlsplit

TOOL = os.path.join(os.path.dirname(os.environ.get("SHARDFUSE", "./shardfuse")), "tests/tool_s3_sign")
passed, failed = 0, 0


def check(what, ok, why=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAIL: {what} {why}")


def skip(why):
    print(f"SKIP: {why}\n0 passed, 0 failed, 1 skipped")
    sys.exit(77)


try:
    import botocore.session
    from botocore.awsrequest import AWSRequest, AWSResponse
    from botocore.auth import SigV4Auth
    from botocore.config import Config
    from botocore.credentials import Credentials
except ImportError:
    skip(f"no botocore for {sys.executable}")
if not os.access(TOOL, os.X_OK):
    skip(f"{TOOL} is not built")

OWN = {"host", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"}
SECRETS = [("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None), ("ASIA", "s+/=: x", "to/ken+=" * 40)]
KEYS = ["plain", "a/b/c", "with space", "plus+equals=", "percent%20%", "\u00e9\u20ac\U0001f600", "a//b", "/lead", "q?x=1&y", "#frag", "it's", "~tilde", "star*(paren)",
        "!@$,;:[]{}|^`\"<>\\", "a/../b/./c", "tab\there", "x" * 900, "__0_0.distcp", ".metadata"]


def ours(req, key, query, region, service, cred):
    """What tool_s3_sign makes of the same, with the headers and the time that botocore signed."""
    auth = req.headers["Authorization"]
    auth = auth.decode() if isinstance(auth, bytes) else auth
    text = {k.lower(): v.decode() if isinstance(v, bytes) else v for k, v in req.headers.items()}
    signed = auth.split("SignedHeaders=")[1].split(",")[0].split(";")
    fields = ["m" + req.method, "h" + urlsplit(req.url).netloc, "k" + key, "r" + region, "s" + service, "I" + cred[0], "S" + cred[1]]
    fields += ["T" + cred[2]] if cred[2] else []
    fields += [f"q{k}={v}" for k, v in query]
    fields += [f"H{h}: {text[h]}" for h in signed if h not in OWN]
    fields += ["p" + text.get("x-amz-content-sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")]
    fields += [f"t{calendar.timegm(time.strptime(text['x-amz-date'], '%Y%m%dT%H%M%SZ'))}"]
    r = subprocess.run([TOOL], input="".join(f + "\0" for f in fields).encode(), capture_output=True)
    if r.returncode:
        return auth, None, None, r.stderr.decode()
    lines = r.stdout.decode().split("\n")
    return auth, lines[0], lines[1], next(x for x in lines if x.startswith("Authorization: "))[len("Authorization: "):]


def compare(what, req, key, query, region, service, cred):
    theirs, path, qs, mine = ours(req, key, query, region, service, cred)
    parts = urlsplit(req.url)
    check(f"{what}: path", path == parts.path, f"{path!r}, botocore {parts.path!r}")
    check(f"{what}: query", qs is not None and sorted(qs.split("&")) == sorted(parts.query.split("&")), f"{qs!r}, botocore {parts.query!r}")
    check(f"{what}: signature", mine == theirs, f"\n  {mine}\n  {theirs}")


# the requests that a client of S3 sends, caught before they go out
for cred in SECRETS:
    for region in ("us-east-1", "eu-central-1"):
        client = botocore.session.Session().create_client(
            "s3", region_name=region, endpoint_url="http://127.0.0.1:9", aws_access_key_id=cred[0], aws_secret_access_key=cred[1], aws_session_token=cred[2],
            config=Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required", response_checksum_validation="when_required"))
        caught = []

        def catch(request, **kw):
            caught.append(request)
            return AWSResponse(request.url, 200, {}, type("Raw", (), {"stream": lambda self, **kw: iter([b""]), "read": lambda self, *a: b""})())
        client.meta.events.register("before-send.s3", catch)

        def last(call, **kw):
            try:
                call(**kw)
            except Exception:
                if not caught:
                    raise
            return caught.pop()
        for key in KEYS:
            compare(f"GET {key[:40]!r} {region}", last(client.get_object, Bucket="bucket", Key=key, Range="bytes=0-9", RequestPayer="requester"), "bucket/" + key, [],
                    region, "s3", cred)
            compare(f"list below {key[:40]!r}", last(client.list_objects_v2, Bucket="bucket", Prefix=key, Delimiter="/", EncodingType="url", MaxKeys=1000, ContinuationToken="1/+= x"),
                    "bucket", [("list-type", "2"), ("prefix", key), ("delimiter", "/"), ("encoding-type", "url"), ("max-keys", "1000"), ("continuation-token", "1/+= x")],
                    region, "s3", cred)
        compare("HEAD", last(client.head_object, Bucket="bucket", Key="k"), "bucket/k", [], region, "s3", cred)

# another service, with headers whose names and blanks are odd
for cred in SECRETS:
    for headers in ({}, {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}, {"x-amz-meta-a-b": "1", "x-amz-meta-a": "  two   blanks ", "X-Amz-B": "C"}):
        req = AWSRequest("POST", "https://sts.eu-west-1.amazonaws.com/", headers=headers, data=b"")
        SigV4Auth(Credentials(*cred), "sts", "eu-west-1").add_auth(req)
        compare(f"sts {sorted(headers)}", req, "", [], "eu-west-1", "sts", cred)

print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
