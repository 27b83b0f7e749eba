#!/usr/bin/env python3
"""Checkpoints on real servers of other makers: Swift, Ceph's RGW, SeaweedFS, moto, rclone as S3; nginx over http and https. Only where SF_SERVERS names
them ("all", or some of real_servers.ALL, with commas): `contrib/check --servers`."""
import urllib.parse

from common import *
import common
import real_servers

need_program()
WANTED = os.environ.get("SF_SERVERS", "")
if not WANTED:
    skip_all("servers of other makers are tried by contrib/check --servers (SF_SERVERS=all)")
names = list(real_servers.ALL) if WANTED == "all" else WANTED.split(",")
for n in names:
    if n not in real_servers.ALL:
        skip_all(f"SF_SERVERS: there is no {n!r}, only {', '.join(real_servers.ALL)}")
for v in list(os.environ):
    if v.lower() in ("http_proxy", "https_proxy", "all_proxy") or v.startswith("AWS_"):
        os.environ.pop(v)
if "without libcurl" in run("info", "s3://bucket/x", "--endpoint-url", "http://127.0.0.1:1").stderr:
    skip_all("this build has no libcurl")
try:
    import boto3
    import botocore.exceptions
    from botocore.config import Config
except ImportError:
    boto3 = None

GOOD = f"{DATA}/dcp/fsdp4/ckpt"
PREFIXES = ["plain", "with space", "plus+", "equals=", "percent%20", "\u00e9\U0001f600", "a//b", "what?x", "and&", "#frag", "it's", "a/../b", "a/./b", "~*(x)", "a,b;c:d@e$!",
            '"<x>"', "back\\slash"]
NAMES = ["a b.safetensors", "plus+eq=.safetensors", "100%25 & #1?.safetensors", "\u00e9'.safetensors", "sub/x~(1)!.safetensors"]
FUSE = no_fuse()


def files_of(path):
    for root, _, files in os.walk(path):
        for f in files:
            p = os.path.join(root, f)
            yield os.path.relpath(p, path), p


def odd_names(d):
    """A Hugging Face checkpoint whose files have names that URLs and signatures trip over."""
    os.makedirs(d + "/sub")
    where = {}
    for i, name in enumerate(NAMES):
        safetensors.torch.save_file({f"w{i}": torch.arange(i, i + 1000, dtype=torch.int32)}, f"{d}/{name}", metadata={"format": "pt"})
        where[f"w{i}"] = name
    with open(d + "/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {"total_size": 4000 * len(NAMES)}, "weight_map": where}, f)


class Bucket:
    """What boto3, which is not ours, says of the server."""

    def __init__(self, server, name="ckpts"):
        self.name = name
        self.s3 = boto3.client("s3", endpoint_url=server.url, region_name=server.region, aws_access_key_id=server.key, aws_secret_access_key=server.secret,
                               config=Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required"))
        self.s3.create_bucket(Bucket=name)

    def put(self, path, prefix):
        """The reason why the server does not have these keys now; None: it has."""
        keys = {prefix + name: p for name, p in files_of(path)}
        try:
            for key, p in keys.items():
                with open(p, "rb") as f:
                    self.s3.put_object(Bucket=self.name, Key=key, Body=f.read())
            listed = {o["Key"] for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix) for o in page.get("Contents", ())}
        except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError) as e:
            return f"the server does not take such a key: {str(e)[:120]}"
        if not set(keys) <= listed:
            return f"the server lists other keys: {sorted(listed)[:2]} for {sorted(keys)[:2]}"
        return None


def same_everywhere(what, far, near, verbs=("keys", "verify"), **kw):
    for verb in verbs:
        args = ["--deep"] if verb == "verify" else ["-l"]
        a, b = run(verb, far, *args, timeout=300, **kw), run(verb, near, *args)
        check(f"{what}: {verb}", a.returncode == b.returncode == 0 and a.stdout.replace(str(far), str(near)) == b.stdout, (a.returncode, a.stdout[-200:], a.stderr))


def same_mount(what, far, near, **kw):
    if FUSE:
        skip("mounts", FUSE)
        return
    with attempt(f"{what}: mount"):
        with Mount(far, **kw) as a, Mount(near) as b:
            names = sorted(tree(a))
            check(f"{what}: the same files", names == sorted(tree(b)), set(names) ^ set(tree(b)))
            for n in names:
                if n not in ("README", "info.json"):
                    check(f"{what}: {n}", pathlib.Path(a, n).read_bytes() == pathlib.Path(b, n).read_bytes())


def environment(server):
    return {"AWS_ACCESS_KEY_ID": server.key, "AWS_SECRET_ACCESS_KEY": server.secret, "AWS_ENDPOINT_URL_S3": server.url, "AWS_REGION": server.region,
            "AWS_EC2_METADATA_DISABLED": "true"}


def says(what, r, *texts):
    check(what, r.returncode in (1, 2) and all(t in r.stderr for t in texts), (r.returncode, r.stderr))


def s3(name, server):
    if not boto3:
        return skip(name, "no boto3")
    env, bucket = environment(server), Bucket(server)
    why = bucket.put(GOOD, "good/")
    if not check(f"{name}: an upload", not why, why):
        return
    if server.ignores_range:
        for verb in ("info", "verify"):
            says(f"{name}: {verb} of a server that ignores Range", run(verb, "s3://ckpts/good", env=env), "whole files only (it ignores Range)")
        return
    os.environ.update(env)
    try:
        same_everywhere(name, "s3://ckpts/good", GOOD)
        same_exports(name, "s3://ckpts/good", GOOD)
        same_mount(name, "s3://ckpts/good", GOOD)
        for prefix in PREFIXES:
            why = bucket.put(GOOD, f"odd/{prefix}/")
            if why:
                skip(f"{name}: prefix {prefix!r}", why)
            else:
                same_everywhere(f"{name}: prefix {prefix!r}", f"s3://ckpts/odd/{prefix}", GOOD)
        with tempfile.TemporaryDirectory() as d:
            odd_names(d)
            why = bucket.put(d, "names/")
            if why:
                skip(f"{name}: odd names", why)
            else:
                same_everywhere(f"{name}: odd names", "s3://ckpts/names", d)
                same_exports(f"{name}: odd names", "s3://ckpts/names", d)
        for i in range(1010):
            bucket.s3.put_object(Bucket="ckpts", Key=f"good/events.{i:04}", Body=b"1")
        same_everywhere(f"{name}: two pages", "s3://ckpts/good", GOOD, verbs=["keys"])
    finally:
        for v in env:
            os.environ.pop(v)
    refusals(name, server, env)
    if not FUSE:
        changed(name, bucket, env)
    if hasattr(server, "role"):
        assumed(name, server)


def refusals(name, server, env):
    good = "s3://ckpts/good"
    if server.checks_secret:
        says(f"{name}: another secret", run("info", good, env=dict(env, AWS_SECRET_ACCESS_KEY="no")), server.says_secret)
        says(f"{name}: another key", run("info", good, env=dict(env, AWS_ACCESS_KEY_ID="NOBODY")), server.says_key)
        says(f"{name}: nobody", run("info", good, "--no-sign-request", env=env), "nothing is signed")
    says(f"{name}: no bucket", run("info", "s3://no-such-bucket/x", env=env), "no-such-bucket")
    says(f"{name}: no prefix", run("info", "s3://ckpts/nowhere", env=env), "no objects below it")
    says(f"{name}: an object", run("info", good + "/.metadata", env=env), "is an object")
    r = run("info", good, "--region", "eu-west-3", env=env)
    check(f"{name}: another region is mended or does not matter", r.returncode == 0, r.stderr)


def changed(name, bucket, env):
    """Written anew under a mount: ESTALE, never mixed bytes."""
    bucket.put(GOOD, "changed/")
    with Mount("s3://ckpts/changed", env=env) as m:
        victim = sorted(n for n in os.listdir(m + "/shards") if n.endswith(".distcp"))[0]
        body = pathlib.Path(GOOD, victim).read_bytes()
        bucket.s3.put_object(Bucket="ckpts", Key="changed/" + victim, Body=bytes(b ^ 1 for b in body))
        try:
            pathlib.Path(m, "shards", victim).read_bytes()
            check(f"{name}: a changed object is an error", False, "it was read")
        except OSError as e:
            check(f"{name}: a changed object is ESTALE", e.errno == 116, e)
    bucket.put(GOOD, "gone/")
    with Mount("s3://ckpts/gone", env=env) as m:
        bucket.s3.delete_object(Bucket="ckpts", Key="gone/" + victim)
        try:
            pathlib.Path(m, "shards", victim).read_bytes()
            check(f"{name}: a deleted object is an error", False, "it was read")
        except OSError as e:
            check(f"{name}: a deleted object is ESTALE", e.errno == 116, e)


def assumed(name, server):
    """A role's session token, which the server checks."""
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/credentials", "w") as f:
            f.write(f"[base]\naws_access_key_id = {server.key}\naws_secret_access_key = {server.secret}\n")
        with open(d + "/config", "w") as f:
            f.write(f"[profile r]\nrole_arn = {server.role}\nsource_profile = base\nregion = us-east-1\n")
        env = {"AWS_CONFIG_FILE": d + "/config", "AWS_SHARED_CREDENTIALS_FILE": d + "/credentials", "AWS_PROFILE": "r", "AWS_ENDPOINT_URL_S3": server.url,
               "AWS_ENDPOINT_URL_STS": server.url, "AWS_EC2_METADATA_DISABLED": "true"}
        same_everywhere(f"{name}: an assumed role", "s3://ckpts/good", GOOD, env=env)


def nginx(name, server):
    root = f"{server.dir}/root"
    for prefix in ["plain", "with space", "plus+", "equals=", "percent%20", "\u00e9\U0001f600", "what?x", "and&", "#frag", "it's", "~*(x)", "a,b;c:d@e$!", "a/deep/one"]:
        for n, p in files_of(GOOD):
            to = f"{root}/{prefix}/{n}"
            os.makedirs(os.path.dirname(to), exist_ok=True)
            with open(p, "rb") as f, open(to, "wb") as g:
                g.write(f.read())
        same_everywhere(f"{name}: {prefix!r}", f"{server.url}/{urllib.parse.quote(prefix)}", GOOD)
    odd_names(root + "/names")
    same_everywhere(f"{name}: odd names", server.url + "/names", root + "/names")
    same_exports(f"{name}: odd names", server.url + "/names", root + "/names")
    ca = ["--ca-bundle", server.ca]
    tls = server.tls + "/plain"
    for what, url, args in (("a slash too many", server.url + "//plain//", []), ("a redirect", server.url + "/_302/plain", []), ("up to https", server.url + "/_tls/plain", ca),
                            ("no ETag", server.url + "/_noetag/plain", []), ("a slow server", server.url + "/_slow/plain", []),
                            ("compression that nobody asked for", server.url + "/_gzip/plain", []), ("https", tls, ca)):
        r = run("verify", url, "--deep", *args)
        check(f"{name}: {what}", r.returncode == 0, r.stdout + r.stderr)
    same_exports(f"{name}: http", server.url + "/plain", GOOD)
    for word, *texts in (("_503", "503"), ("_444", "127.0.0.1"), ("_norange", "whole files only (it ignores Range)"), ("_auth", "401")):
        says(f"{name}: {word}", run("info", f"{server.url}/{word}/plain", "--timeout", "2"), *texts)
    says(f"{name}: https by nobody known", run("info", tls, "--timeout", "5"), "certificate")
    says(f"{name}: https by another CA", run("info", tls, "--ca-bundle", server.other_ca, "--timeout", "5"), "certificate")
    says(f"{name}: https to http", run("info", server.tls + "/_plain/plain", *ca, "--timeout", "5"), "127.0.0.1")
    user = urllib.parse.quote(server.user, safe=":")
    r = run("verify", server.url.replace("//", f"//{user}@") + "/_auth/plain", "--deep")
    check(f"{name}: a password", r.returncode == 0, r.stderr)
    check(f"{name}: the password is not shown", "p w" not in r.stdout + r.stderr and "p%20w" not in r.stdout + r.stderr, r.stdout + r.stderr)
    if not FUSE:
        with Mount(tls, f"ca_bundle={server.ca}") as m:
            victim = sorted(n for n in os.listdir(m + "/shards") if n.endswith(".distcp"))[0]
            body = pathlib.Path(GOOD, victim).read_bytes()
            check(f"{name}: a mount over https", pathlib.Path(m, "shards", victim).read_bytes() == body)
            time.sleep(1.1)  # its ETag is made of size and second
            pathlib.Path(root, "plain", victim).write_bytes(bytes(b ^ 1 for b in body))
            try:
                with open(f"{m}/shards/{victim}", "rb") as f:
                    os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    again = f.read()
                check(f"{name}: a changed file is an error, or what was there", again == body, "mixed bytes")
            except OSError as e:
                check(f"{name}: a changed file is ESTALE", e.errno == 116, e)


for n in names:
    began = time.monotonic()
    before = common.passed
    with tempfile.TemporaryDirectory(prefix=f"sf-{n}-", ignore_cleanup_errors=True) as d, attempt(n):
        try:
            with real_servers.ALL[n](d) as server:
                up = time.monotonic() - began
                (nginx if n == "nginx" else s3)(n, server)
                print(f"{n}: up after {up:.1f} s, {common.passed - before} checks passed in {time.monotonic() - began:.0f} s", flush=True)
        except real_servers.Missing as e:
            skip(n, e)
finish()
