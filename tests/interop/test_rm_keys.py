#!/usr/bin/env python3
"""rm-keys: what is left is what torch had without those keys; files that held nothing else are gone; nothing is changed without --force."""
import shutil

from common import *  # noqa: F403
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader

need_program()


def loaded(path):
    """All of it by torch, flat."""
    md = FileSystemReader(path).read_metadata()
    sd = {}
    for k, v in md.state_dict_metadata.items():
        sd[k] = torch.empty(v.size, dtype=v.properties.dtype) if hasattr(v, "size") else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(sd, checkpoint_id=path, no_dist=True, planner=dcp.DefaultLoadPlanner(flatten_state_dict=False))
    return sd


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a.view(torch.uint8) if a.dim() else a, b.view(torch.uint8) if b.dim() else b)
    return type(a) is type(b)


def listing(path):
    return {f: os.stat(os.path.join(path, f)).st_size for f in os.listdir(path)}


def case(name, d):
    path = f"{d}/{name.replace('/', '-')}"
    shutil.copytree(f"{DATA}/{name}/ckpt", path)
    before, files = loaded(path), listing(path)
    prefix = next((k.split(".")[0] for k in before if k.startswith("optim")), sorted(before)[0])
    gone = {k for k in before if k == prefix or k.startswith(prefix + ".")}
    r = run("rm-keys", path, prefix)
    check(f"{name}: nothing without --force", r.returncode == 2 and listing(path) == files and "--force" in r.stderr, r.stdout + r.stderr)
    r = run("rm-keys", path, prefix, "--force")
    check(f"{name}: exit 0", r.returncode == 0 and f"removed {len(gone)} key" in r.stdout, r.stdout + r.stderr)
    after = loaded(path)
    check(f"{name}: torch has the others", set(after) == set(before) - gone, sorted(set(before) ^ set(after))[:5])
    bad = [k for k in after if not same(before[k], after[k])]
    check(f"{name}: as they were", not bad, bad[:5])
    r = run("verify", "--deep", path)
    check(f"{name}: verify", r.returncode == 0, r.stdout + r.stderr)
    left = {s.relative_path for s in FileSystemReader(path).read_metadata().storage_data.values()}
    check(f"{name}: no file that nothing names", {f for f in listing(path) if f.endswith((".distcp", ".safetensors"))} <= left | set(), sorted(listing(path)))


def mistakes(d):
    path = f"{d}/mistakes"
    shutil.copytree(f"{DATA}/dcp-2.14/fsdp4/ckpt", path)
    files = listing(path)
    r = run("rm-keys", path, "no.such", "--force")
    check("a key that is none", r.returncode == 1 and "no.such" in r.stderr and listing(path) == files, r.stderr)
    r = run("rm-keys", "s3://bucket/x", "a", "--force")
    check("of a server", r.returncode == 1 and "path" in r.stderr, r.stderr)
    r = run("rm-keys", f"{d}/nowhere", "a", "--force")
    check("nothing there", r.returncode == 1 and "nowhere" in r.stderr, r.stderr)
    os.chmod(path, 0o555)
    if os.geteuid() != 0:
        r = run("rm-keys", path, "optim", "--force")
        check("a directory that may not be written", r.returncode == 1 and listing(path) == files, r.stderr)
    os.chmod(path, 0o755)


with tempfile.TemporaryDirectory(prefix="sf-interop-") as d:
    for name in ("dcp-2.14/fsdp4", "dcp-2.14/zstd4", "dcp-2.14/threads3", "dcp-2.6/fsdp4", "dcp-2.14/noflatten"):
        with attempt(name):
            case(name, d)
    with attempt("mistakes"):
        mistakes(d)
finish()
