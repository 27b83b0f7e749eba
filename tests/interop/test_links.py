#!/usr/bin/env python3
"""Paths that show the same bytes are one file: one inode with as many links as there are paths, one page cache."""
import shutil

from common import *

need_fuse()
SETS = [(), ("views=npy",), ("views=state",), ("views=npy:state",), ("views=pt:safetensors:hf",), ("views=groups:hf",), ("views=checkpoint:groups",), ("dtype=bf16",), ("objects=none",),
        ("max_shard_size=5K",), ("hf_name=other", "hf_strip=no")]


def files(top):
    """{path below top: stat} of the plain files, without .shardfuse."""
    out = {}
    for base, dirs, names in os.walk(top):
        dirs[:] = [d for d in dirs if d != ".shardfuse"]
        for n in names:
            p = os.path.join(base, n)
            st = os.lstat(p)
            if os.path.isfile(p) and not os.path.islink(p):
                out[os.path.relpath(p, top)] = st
    return out


def digest(path):
    with open(path, "rb", buffering=0) as f:
        return sha(b"".join(iter(lambda: f.read(1 << 20), b"")))


def by_inode(found):
    out = {}
    for p, st in found.items():
        out.setdefault(st.st_ino, []).append(p)
    return out


def many(p):
    """A file of many tensors, whose twin is found by its bytes."""
    return "/" not in p and p.endswith((".pt", ".safetensors")) or p.startswith("hf/") and p.endswith(".safetensors")


def test_every_case():
    for name, ckpt, exp in cases():
        for opts in SETS if name in ("dcp/fsdp4", "dcp/hf_flat", "dcp/torchtitan") else SETS[:1]:
            what = f"{name} {' '.join(opts)}"
            with attempt(what), Mount(ckpt, *opts) as m:
                found = files(m)
                inodes = by_inode(found)
                wrong = {p: st.st_nlink for p, st in found.items() if st.st_nlink != len(inodes[st.st_ino])}
                check(f"{what}: as many links as paths", not wrong, list(wrong.items())[:4])
                sums = {}
                for paths in inodes.values():
                    if len(paths) > 1:
                        sums[paths[0]] = {digest(f"{m}/{p}") for p in paths}
                check(f"{what}: an inode, one content", all(len(s) == 1 for s in sums.values()), sums)
                for key in exp["tensors"]:
                    for flat_name, leaf in ((f"npy/{flat(key)}.npy", "tensor.npy"), (f"pt/{flat(key)}.pt", "tensor.pt"), (f"safetensors/{flat(key)}.safetensors", "tensor.safetensors")):
                        here = [p for p in (flat_name, f"state/{state_dir(key)}/{leaf}") if p in found]
                        if len({found[p].st_ino for p in here}) > 1:
                            check(f"{what}: {key} is one file", False, here)
                twins = {}
                for p in found:
                    if many(p) and found[p].st_size < 1 << 22:
                        twins.setdefault(digest(f"{m}/{p}"), []).append(p)
                # groups that have no tensor, and whose objects are left out, are alike by chance
                apart = [
                    ps
                    for ps in twins.values()
                    if len({found[p].st_ino for p in ps}) > 1 and not all(p.endswith(".pt") and f"{p[:-3]}.safetensors" not in found for p in ps)
                ]
                check(f"{what}: files of many tensors with the same bytes are one file", not apart, apart)
                told = [e.path for base, _, _ in os.walk(m) for e in os.scandir(base) if e.inode() != e.stat(follow_symlinks=False).st_ino]
                check(f"{what}: readdir tells stat's inode", not told, told[:3])


def test_expected_twins():
    ckpt, _ = case("dcp/hf_flat")
    with Mount(ckpt) as m:
        same = lambda *ps: len({os.stat(f"{m}/{p}").st_ino for p in ps}) == 1
        check("a flat checkpoint's model is all of it", same("checkpoint.pt", "model.pt") and same("checkpoint.safetensors", "model.safetensors", "hf/model.safetensors"))
        check("three links", os.stat(f"{m}/hf/model.safetensors").st_nlink == 3)
    ckpt, exp = case("dcp/fsdp4")
    key = next(iter(exp["tensors"]))
    with Mount(ckpt) as m:
        a, b = f"{m}/npy/{flat(key)}.npy", f"{m}/state/{state_dir(key)}/tensor.npy"
        check("npy/KEY.npy and state/…/tensor.npy", os.path.samefile(a, b) and os.stat(a).st_nlink == 2)
        check("model.safetensors and hf/model.safetensors", os.path.samefile(f"{m}/model.safetensors", f"{m}/hf/model.safetensors"))
        check("model.pt is no other", os.stat(f"{m}/model.pt").st_nlink == 1)
        first = open(a, "rb").read()
        before = counters(m)["read_requests"]
        with open(b, "rb") as f:
            again = f.read()
        check("read by one name, cached by the other", again == first and counters(m)["read_requests"] == before, (before, counters(m)["read_requests"]))
    with Mount(ckpt, "dtype=bf16") as m:
        check("a cast model is not the checkpoint", not os.path.samefile(f"{m}/checkpoint.safetensors", f"{m}/model.safetensors"))


def test_programs():
    """What goes through trees with links: each name is there, each file once."""
    ckpt, _ = case("dcp/hf_flat")
    with Mount(ckpt) as m, tempfile.TemporaryDirectory() as d:
        found = files(m)
        inodes = by_inode(found)
        tool = lambda *a, **kw: subprocess.run(a, capture_output=True, text=True, timeout=300, **kw)
        once = sum(found[ps[0]].st_size for ps in inodes.values())
        r = tool("du", "-sb", "--exclude=.shardfuse", m)
        check("du counts a file once", r.returncode == 0 and int(r.stdout.split()[0]) == once, (r.stdout, once, r.stderr))
        r = tool("find", m, "-type", "f", "-links", "+1", "-not", "-path", "*/.shardfuse/*")
        check("find -links", sorted(r.stdout.split("\n")[:-1]) == sorted(f"{m}/{p}" for p, st in found.items() if st.st_nlink > 1), r.stdout[:300])
        r = tool("find", m, "-samefile", f"{m}/model.safetensors")
        check("find -samefile", sorted(r.stdout.split()) == sorted(f"{m}/{p}" for p in ("checkpoint.safetensors", "model.safetensors", "hf/model.safetensors")), r.stdout)
        sums = {p: digest(f"{m}/{p}") for p in found}

        def copied(what, to):
            got = files(to)
            check(f"{what}: every name, the same bytes", {p: digest(f"{to}/{p}") for p in got} == sums, sorted(set(sums) ^ set(got))[:5])
            return by_inode(got)

        os.makedirs(f"{d}/tar")
        with open(f"{d}/t.tar", "wb") as f:
            r = subprocess.run(["tar", "-c", "--exclude=./.shardfuse", "-C", m, "."], stdout=f, stderr=subprocess.PIPE, text=True, timeout=300)
        x = tool("tar", "-x", "-C", f"{d}/tar", "-f", f"{d}/t.tar")
        check("tar", r.returncode == 0 and x.returncode == 0, r.stderr + x.stderr)
        check("tar keeps links", len(copied("tar", f"{d}/tar")) == len(inodes))
        r = tool("cp", "-a", m, f"{d}/cp")
        check("cp -a", r.returncode == 0, r.stderr)
        shutil.rmtree(f"{d}/cp/.shardfuse")
        check("cp -a keeps links", len(copied("cp -a", f"{d}/cp")) == len(inodes))
        r = tool("cp", "-r", m, f"{d}/cpr")
        shutil.rmtree(f"{d}/cpr/.shardfuse")
        copied("cp -r", f"{d}/cpr")
        if not shutil.which("rsync"):
            return skip("rsync", "no rsync")
        for flags in ("-a", "-aH"):
            r = tool("rsync", flags, "--exclude=/.shardfuse", f"{m}/", f"{d}/rsync{flags}/")
            check(f"rsync {flags}", r.returncode == 0, r.stderr)
            got = copied(f"rsync {flags}", f"{d}/rsync{flags}")
            check(f"rsync {flags}: links", len(got) == (len(inodes) if "H" in flags else len(found)), (len(got), len(inodes), len(found)))


ALL = [v for k, v in list(globals().items()) if k.startswith("test_") and callable(v)]
for t in ALL:
    with attempt(t.__name__):
        t()
finish()
