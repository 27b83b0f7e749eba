#!/usr/bin/env python3
"""Mount each case of tests/data; every view against expect.json, PyTorch, safetensors and numpy."""
import errno
import mmap
import os
import random

from common import *

need_fuse()


def find_tensors(m, exp):
    """{key in the mount: expectation}; a composite's keys are looked up in tensors.json by their ends."""
    if "composite" not in exp:
        return exp["tensors"], exp["objects"]
    shown = [t["key"] for t in tensors_json(m)]
    T, left = {}, set(shown)
    for child in exp["composite"].values():
        for k, e in child["tensors"].items():
            hits = [s for s in left if s == k or s.endswith("." + k)]
            hits = [h for h in hits if len(h) == min(map(len, hits))]
            if check(f"composite: {k} is shown once", len(hits) == 1, hits or shown[:5]):
                T[hits[0]] = e
                left.discard(hits[0])
    return T, {}


def tensors_json(m):
    with open(f"{m}/tensors.json") as f:
        j = strict_json(f.read())
    return j["tensors"] if isinstance(j, dict) else j


def test_json_files(case, m, T, exp):
    with attempt(f"{case}: info.json"):
        with open(f"{m}/info.json") as f:
            j = strict_json(f.read())
        check(f"{case}: info.json has schema 1", j["schema"] == 1, j.get("schema"))
        for k in ("format", "writer", "step", "groups", "warnings", "content_metadata"):
            check(f"{case}: info.json has {k}", k in j, list(j))
        check(f"{case}: info.json's format", j["format"] == "dcp" or "hf_" in case and j["format"] == "safetensors", j["format"])
        for g in j["groups"]:
            check(f"{case}: group fields", {"name", "role", "tensors", "objects", "bytes"} <= set(g), g)
        check(f"{case}: groups' tensors add up", sum(g["tensors"] for g in j["groups"]) == len(T), j["groups"])
    with attempt(f"{case}: tensors.json"):
        got = {t["key"]: t for t in tensors_json(m)}
        check(f"{case}: tensors.json lists every tensor", set(got) >= set(T), sorted(set(T) - set(got))[:4])
        for k, e in T.items():
            t = got.get(k)
            if t is None:
                continue
            n = math.prod(t["shape"])
            check(f"{case}: tensors.json {k!r}", t["shape"] == e["shape"] and t["dtype"].removeprefix("torch.") == e["dtype"], t)
            if not all(f in t for f in ("stored_name", "bytes", "group", "shards")):
                check(f"{case}: fields of {k!r}", False, list(t))
            check(f"{case}: bytes of {k!r}", n == 0 and t["bytes"] == 0 or t["bytes"] == n * getattr(torch, e["dtype"]).itemsize, t["bytes"])
            vol = sum(math.prod(s["extent"]) for s in t["shards"])
            check(f"{case}: shards of {k!r} cover it", vol == n, (vol, n))
            for s in t["shards"]:
                if not {"file", "offset", "length", "origin", "extent"} <= set(s):
                    check(f"{case}: shard fields of {k!r}", False, s)
    with attempt(f"{case}: README"):
        with open(f"{m}/README", encoding="utf-8", errors="replace") as f:
            check(f"{case}: README says torch.load", "torch.load" in f.read())


def test_each_tensor(case, m, T):
    for k, e in T.items():
        fn, d = flat(k), e["dtype"]
        with attempt(f"{case}: npy/{k!r}"):
            a = np.load(f"{m}/npy/{fn}.npy", allow_pickle=False)
            want = np.dtype(NUMPY.get(d, "|V1"))
            check(f"{case}: npy/{k!r}", sha(np.ascontiguousarray(a).tobytes()) == e["sha256"] and list(a.shape) == e["shape"] and a.dtype == want,
                  f"{a.dtype}{a.shape}, want {want}{e['shape']}")
            b = np.load(f"{m}/npy/{fn}.npy", allow_pickle=False, mmap_mode="r") if a.size and a.ndim else a
            check(f"{case}: npy/{k!r} mapped", b.tobytes() == a.tobytes())
            del b
        with attempt(f"{case}: pt/{k!r}"):
            t = torch.load(f"{m}/pt/{fn}.pt", weights_only=True)
            check(f"{case}: pt/{k!r}", agrees(t, e) and t.is_contiguous() and not t.requires_grad and t.device.type == "cpu", (getattr(t, "dtype", t), getattr(t, "shape", 0)))
            t = torch.load(mappable(f"{m}/pt/{fn}.pt"), weights_only=True, mmap=True)
            check(f"{case}: pt/{k!r} mapped", agrees(t, e))
            del t
        with attempt(f"{case}: safetensors/{k!r}"):
            p = f"{m}/safetensors/{fn}.safetensors"
            if not in_safetensors(k, d):
                check(f"{case}: safetensors/ has no {d} {k!r}", not os.path.exists(p))
            else:
                with safe_open(p, "pt") as f:
                    check(f"{case}: safetensors/{k!r}", list(f.keys()) == [k] and agrees(f.get_tensor(k), e), list(f.keys()))
                    check(f"{case}: __metadata__ of {k!r}", f.metadata() == {"format": "pt"}, f.metadata())
        s = f"{m}/state/{state_dir(k)}"
        with attempt(f"{case}: state/{k!r}"):
            with open(f"{s}/tensor.raw", "rb") as f:
                check(f"{case}: state/{k!r}/tensor.raw", sha(f.read()) == e["sha256"])
            for mine, other in (("tensor.npy", f"npy/{fn}.npy"), ("tensor.pt", f"pt/{fn}.pt"), ("tensor.safetensors", f"safetensors/{fn}.safetensors")):
                if not os.path.exists(f"{m}/{other}"):
                    continue
                with open(f"{s}/{mine}", "rb") as f, open(f"{m}/{other}", "rb") as g:
                    check(f"{case}: state/{k!r}/{mine} is {other}", f.read() == g.read())
            with open(f"{s}/info.json") as f:
                j = strict_json(f.read())
            check(f"{case}: state/{k!r}/info.json", j["key"] == k and j["shape"] == e["shape"], (j.get("key"), j.get("shape")))


def test_one_file_safetensors(case, m, T):
    with attempt(f"{case}: checkpoint.safetensors"):
        p = f"{m}/checkpoint.safetensors"
        n, head = st_header(p)
        check(f"{case}: data is 8-byte aligned", (8 + n) % 8 == 0, n)
        d = st_order(head)
        check(f"{case}: safetensors' own order", d is None, d)
        left_out = {k for k, e in T.items() if not in_safetensors(k, e["dtype"])}
        want = set(T) - left_out
        bad = []
        with safe_open(p, "pt") as f:
            keys = set(f.keys())
            # docs/decisions/0003: tensors inside objects are there too, under the path at which checkpoint.pt has them
            inside = {k: t for k, t in tensors_of(torch.load(f"{m}/checkpoint.pt", weights_only=False)).items() if k not in T} if keys - want else {}
            check(f"{case}: checkpoint.safetensors has every tensor it can", keys >= want and keys - want <= set(inside), sorted((want - keys) | (keys - want - set(inside)))[:4])
            check(f"{case}: checkpoint.safetensors: tensors inside objects", all(raw(f.get_tensor(k)) == raw(inside[k]) for k in keys - want if k in inside))
            bad = [k for k in keys & want if not agrees(f.get_tensor(k), T[k])]
            check(f"{case}: checkpoint.safetensors", not bad, bad[:4])
            meta = f.metadata()
        check(f"{case}: __metadata__ has format and skipped only", set(meta) <= {"format", "shardfuse.skipped"} and meta["format"] == "pt", meta)
        listed = {x["key"] for x in strict_json(meta.get("shardfuse.skipped", "[]"))}
        check(f"{case}: what was left out is told", left_out <= listed and not listed & want, (sorted(left_out - listed)[:3], sorted(listed & want)[:3]))
        if not left_out and want:
            from safetensors.torch import save
            with safe_open(p, "pt") as f:
                theirs = save({k: f.get_tensor(k).clone() for k in f.keys()})
            nt = int.from_bytes(theirs[:8], "little")
            with open(p, "rb") as f:
                f.seek(8 + n)
                check(f"{case}: the data is what safetensors' own writer writes", f.read() == theirs[8 + nt:])


def test_checkpoint_pt(case, m, ckpt, T):
    ref = reference(ckpt)
    if ref is None:
        with attempt(f"{case}: checkpoint.pt"):
            got = torch.load(f"{m}/checkpoint.pt", weights_only=False)
            have = {sha(raw(t)) + str(t.dtype) + str(list(t.shape)) for t in tensors_of(got).values()}
            missing = [k for k, e in T.items() if e["sha256"] + "torch." + e["dtype"] + str(e["shape"]) not in have]
            check(f"{case}: checkpoint.pt has every tensor", not missing, missing[:4])
        return
    for how in ({"weights_only": False}, {"weights_only": False, "mmap": True}):
        with attempt(f"{case}: checkpoint.pt {how}"):
            d = same(torch.load(f"{m}/checkpoint.pt", **how), ref)
            check(f"{case}: checkpoint.pt {how}", d is None, d)
    if loads_weights_only(ref):
        for mm in (False, True):
            with attempt(f"{case}: checkpoint.pt weights_only mmap={mm}"):
                d = same(torch.load(f"{m}/checkpoint.pt", weights_only=True, mmap=mm), ref)
                check(f"{case}: checkpoint.pt weights_only mmap={mm}", d is None, d)
    try:  # quantized tensors, for one, torch cannot put there
        b = io.BytesIO()
        torch.save(ref, b)
        b.seek(0)
        torch.load(b, weights_only=False, map_location="meta")
    except Exception:
        return
    with attempt(f"{case}: checkpoint.pt on the meta device"):
        got = tensors_of(torch.load(f"{m}/checkpoint.pt", weights_only=False, map_location="meta"))
        want = tensors_of(ref)
        check(f"{case}: checkpoint.pt on the meta device", {k: t.shape for k, t in got.items()} == {k: t.shape for k, t in want.items()})


def below(v, group, gs):
    """A group's part of the nested state dict, or None when it is not one subtree."""
    role, keys, strip = gs[group]
    if strip == 0:
        outside = {g for g, (_, _, s) in gs.items() if s}
        return {k: x for k, x in v.items() if k not in outside}
    nested = {g for g, (_, _, s) in gs.items() if s == 2}
    if strip == 2:
        return next(x for x in v.values() if isinstance(x, dict) and group in x)[group]
    x = v[group]  # of the root with groups below it: what is left beside them
    return {k: y for k, y in x.items() if k not in nested} if isinstance(x, dict) else x


def test_groups(case, m, ckpt, exp, T):
    gs, ref = groups(ckpt), reference(ckpt)
    if not gs or ref is None:
        return
    roles = {}
    for g, (role, keys, strip) in gs.items():
        roles.setdefault(role, []).append(g)
    for role in ("model", "optim"):
        if len(roles.get(role, [])) != 1:
            if role not in roles:
                check(f"{case}: no {role}.pt without the role", not os.path.exists(f"{m}/{role}.pt"))
            continue
        g = roles[role][0]
        with attempt(f"{case}: {role}.pt"):
            got = torch.load(f"{m}/{role}.pt", weights_only=False, mmap=True)
            d = same(got, below(ref, g, gs), order=False)
            check(f"{case}: {role}.pt is the group with its key stripped", d is None, d)
            with safe_open(f"{m}/{role}.safetensors", "pt") as f:
                st = {k: f.get_tensor(k) for k in f.keys()}
            keys = {".".join(str(x) for x in p[gs[g][2]:]) for k, p in (metadata(ckpt).planner_data or {k: (k,) for k in T}).items() if k in T}
            want = {k: t for k, t in tensors_of(got).items() if k in keys and in_safetensors(k, str(t.dtype).removeprefix("torch."))}
            inside = {k: t for k, t in tensors_of(got).items() if k not in keys and k in st}  # docs/decisions/0003
            check(f"{case}: {role}.safetensors has {role}.pt's tensors", set(st) == set(want) | set(inside) and all(raw(st[k]) == raw({**want, **inside}[k]) for k in st),
                  sorted(set(st) ^ set(want))[:4])
        if g and g != role:
            with attempt(f"{case}: {g}.pt"):
                check(f"{case}: {g}.pt is a symlink to {role}.pt", os.path.islink(f"{m}/{esc(g)}.pt") and os.path.realpath(f"{m}/{esc(g)}.pt") == f"{os.path.realpath(m)}/{role}.pt")
    for g in roles.get("other", []):
        stem = "checkpoint_" if g == "checkpoint" else esc(g, g, ".safetensors")
        if g and g not in ("hf", "state", "npy", "pt", "safetensors", "shards", "README", "model", "optim"):
            with attempt(f"{case}: {g!r}.pt"):
                d = same(torch.load(f"{m}/{stem}.pt", weights_only=False), below(ref, g, gs), order=False)
                check(f"{case}: {g!r}.pt", d is None, d)


WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}


def hf_names(ckpt):
    """{hf name: key} of the model role."""
    gs = groups(ckpt)
    model = [g for g, (role, _, _) in gs.items() if role == "model"] if gs else []
    if len(model) != 1:
        return None
    _, keys, strip = gs[model[0]]
    md = metadata(ckpt)
    out = {}
    for k in keys:
        if hasattr(md.state_dict_metadata[k], "size"):
            p = [str(x) for x in (md.planner_data[k][strip:] if md.planner_data else (k,))]
            out[".".join(c for c in ".".join(p).split(".") if c not in WRAPPERS)] = k
    if out and all(k.startswith("module.") for k in out):
        out = {k[7:]: v for k, v in out.items()}
    return out


def test_hf(case, m, ckpt, T):
    names = hf_names(ckpt)
    if not names:
        return
    with attempt(f"{case}: hf/"):
        want = {n: k for n, k in names.items() if in_safetensors(k, T[k]["dtype"]) and "_extra_state" not in n}
        if not want:
            return
        check(f"{case}: one hf file, no index", os.path.exists(f"{m}/hf/model.safetensors") and not os.path.exists(f"{m}/hf/model.safetensors.index.json"), os.listdir(f"{m}/hf"))
        with safe_open(f"{m}/hf/model.safetensors", "pt") as f:
            check(f"{case}: hf/ has the model's names", set(f.keys()) == set(want), sorted(set(f.keys()) ^ set(want))[:6])
            bad = [n for n in set(f.keys()) & set(want) if not agrees(f.get_tensor(n), T[want[n]])]
            check(f"{case}: hf/ tensors", not bad, bad[:4])
            check(f"{case}: hf/ metadata", f.metadata()["format"] == "pt", f.metadata())
        if os.path.exists(f"{ckpt}/config.json"):
            with open(f"{m}/hf/config.json", "rb") as a, open(f"{ckpt}/config.json", "rb") as b:
                check(f"{case}: hf/config.json is the checkpoint's", a.read() == b.read())
    total = sum(t["bytes"] for t in tensors_json(m) if t["key"] in want.values())
    if total < 4096:
        return
    with attempt(f"{case}: hf/ indexed"), Mount(ckpt, f"max_shard_size={total // 3}") as m2:
        files = sorted(f for f in os.listdir(f"{m2}/hf") if f.endswith(".safetensors"))
        n = len(files)
        check(f"{case}: hf/ file names", files == [f"model-{i + 1:05}-of-{n:05}.safetensors" for i in range(n)] and n >= 2, files)
        with open(f"{m2}/hf/model.safetensors.index.json") as f:
            j = strict_json(f.read())
        have = {}
        for fn in files:
            with safe_open(f"{m2}/hf/{fn}", "pt") as f:
                have |= dict.fromkeys(f.keys(), fn)
                bad = [k for k in f.keys() if not agrees(f.get_tensor(k), T[want[k]])]
                check(f"{case}: {fn}", not bad, bad[:4])
        check(f"{case}: the index maps every name", j["weight_map"] == have and set(have) == set(want), sorted(set(have) ^ set(want))[:4])
        check(f"{case}: total_size", j["metadata"]["total_size"] == total, (j["metadata"], total))


def test_objects(case, m, ckpt, objects):
    md = metadata(ckpt)
    planner_ref = {}
    if md is not None:
        for i, s in md.storage_data.items():
            if i.offset is None and not getattr(s, "transform_descriptors", None):
                with open(os.path.join(ckpt, s.relative_path), "rb") as f:
                    f.seek(s.offset)
                    data = f.read(s.length)
                try:
                    planner_ref[i.fqn] = torch.load(io.BytesIO(data), weights_only=False)
                except Exception:
                    pass
    for k, rep in objects.items():
        d = f"{m}/state/{state_dir(k)}"
        with attempt(f"{case}: value.json of {k!r}"):
            with open(f"{d}/value.json", encoding="utf-8") as f:
                got = strict_json(f.read())
            if k in planner_ref:
                want = value_json(planner_ref[k])
                check(f"{case}: value.json of {k!r}", json_agrees(want, got), f"{json.dumps(got)[:200]} want {json.dumps(want)[:200]}")
            elif rep in ("None", "True", "False"):
                check(f"{case}: value.json of {k!r}", got is {"None": None, "True": True, "False": False}[rep], got)
        with attempt(f"{case}: value.pt of {k!r}"):
            if k in planner_ref:
                diff = same(torch.load(f"{d}/value.pt", weights_only=False), planner_ref[k])
                check(f"{case}: value.pt of {k!r}", diff is None, diff)
                if loads_weights_only(planner_ref[k]):
                    torch.load(f"{d}/value.pt", weights_only=True)
                    check(f"{case}: value.pt of {k!r} under weights_only", True)


def test_tree(case, m, ckpt, T, objects):
    """Names in the directories are the escaped keys, no more and no less; sizes are what a read gives."""
    with attempt(f"{case}: directories"):
        check(f"{case}: npy/ lists the tensors", set(os.listdir(f"{m}/npy")) == {flat(k) + ".npy" for k in T}, sorted(set(os.listdir(f"{m}/npy")) ^ {flat(k) + ".npy" for k in T})[:4])
        pts = {flat(k) + ".pt" for k in T}
        check(f"{case}: pt/ lists the tensors", pts <= set(os.listdir(f"{m}/pt")), sorted(pts - set(os.listdir(f"{m}/pt")))[:4])
        raws = values = 0
        for _, _, files in os.walk(f"{m}/state"):
            raws += "tensor.raw" in files
            values += "value.json" in files
        check(f"{case}: state/ has every tensor once", raws == len(T), (raws, len(T)))
        if objects:
            check(f"{case}: state/ has every object once", values == len(objects), (values, len(objects)))
        for b, _, files in os.walk(ckpt):
            for f in files:
                p = os.path.join(b, f)
                with open(p, "rb") as x, open(f"{m}/shards/{os.path.relpath(p, ckpt)}", "rb") as y:
                    check(f"{case}: shards/{f}", x.read() == y.read())
    r = random.Random(case)
    seen = 0
    for base, dirs, files in os.walk(m):
        if "/.shardfuse" in base[len(m):]:
            continue
        for f in files if base == m else r.sample(files, min(2, len(files))):
            p = os.path.join(base, f)
            if os.path.islink(p) or (seen := seen + 1) > 150:
                continue
            with attempt(f"{case}: read {p[len(m):]!r}"):
                st = os.stat(p)
                fd = os.open(p, os.O_RDONLY)
                try:
                    data = b""
                    while part := os.read(fd, 1 << 20):
                        data += part
                    check(f"{case}: size of {p[len(m):]!r}", len(data) == st.st_size and st.st_blocks == (st.st_size + 511) // 512, (len(data), st.st_size, st.st_blocks))
                    for _ in range(6):
                        o, n = r.randrange(len(data) + 5), r.choice([1, 7, 63, 4095, 4097, 70001])
                        if os.pread(fd, n, o) != data[o:o + n]:
                            check(f"{case}: pread {p[len(m):]!r}", False, (o, n))
                    if data:
                        with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as mm:
                            check(f"{case}: mmap of {p[len(m):]!r}", mm[:] == data)
                finally:
                    os.close(fd)


def test_xattrs(case, m, T):
    for k in list(T)[:3]:
        with attempt(f"{case}: xattrs of {k!r}"):
            p = f"{m}/npy/{flat(k)}.npy"
            check(f"{case}: user.shardfuse.fqn", os.getxattr(p, "user.shardfuse.fqn") == k.encode("utf-8", "surrogateescape"), os.getxattr(p, "user.shardfuse.fqn"))
            check(f"{case}: user.shardfuse.dtype", T[k]["dtype"].encode() in os.getxattr(p, "user.shardfuse.dtype"), os.getxattr(p, "user.shardfuse.dtype"))
            check(f"{case}: xattrs are listed", "user.shardfuse.fqn" in os.listxattr(p), os.listxattr(p))


def test_read_only(case, m):
    for what, fn in (("create", lambda: open(f"{m}/new", "w")), ("write", lambda: os.open(f"{m}/README", os.O_WRONLY)), ("mkdir", lambda: os.mkdir(f"{m}/d")),
                     ("unlink", lambda: os.unlink(f"{m}/README")), ("rename", lambda: os.rename(f"{m}/README", f"{m}/x")), ("chmod", lambda: os.chmod(f"{m}/README", 0o777)),
                     ("truncate", lambda: os.truncate(f"{m}/README", 0)), ("symlink", lambda: os.symlink("a", f"{m}/l")), ("utime", lambda: os.utime(f"{m}/README", (0, 0)))):
        try:
            fn()
            check(f"{case}: {what} is refused", False, "it worked")
        except OSError as e:
            check(f"{case}: {what} gets EROFS", e.errno == errno.EROFS, e)


def one(case, ckpt, exp):
    with Mount(ckpt) as m:
        T, O = find_tensors(m, exp)
        test_json_files(case, m, T, exp)
        test_each_tensor(case, m, T)
        test_one_file_safetensors(case, m, T)
        test_checkpoint_pt(case, m, ckpt, T)
        test_groups(case, m, ckpt, exp, T)
        test_hf(case, m, ckpt, T)
        test_objects(case, m, ckpt, O)
        test_tree(case, m, ckpt, T, O)
        test_xattrs(case, m, T)
        test_read_only(case, m)


def options():
    """View options that change bytes: dtype, st_dtypes, npy_bf16, views, hf_name, hf_strip, objects, slices."""
    ckpt, exp = case("dcp/dtypes")
    T = exp["tensors"]
    with attempt("st_dtypes=all"), Mount(ckpt, "st_dtypes=all") as m, safe_open(f"{m}/checkpoint.safetensors", "pt") as f:
        want = {k for k, e in T.items() if e["dtype"] not in NO_SAFETENSORS}
        check("st_dtypes=all: complex64 and fnuz are in", set(f.keys()) == want, sorted(set(f.keys()) ^ want)[:4])
        bad = [k for k in set(f.keys()) & want if not agrees(f.get_tensor(k), T[k])]
        check("st_dtypes=all: values", not bad, bad)
    for opt, kind in (("u2", "<u2"), ("f4", "<f4")):
        with attempt(f"npy_bf16={opt}"), Mount(ckpt, f"npy_bf16={opt}") as m:
            a = np.load(f"{m}/npy/plain.bfloat16.npy")
            t = torch.load(f"{m}/pt/plain.bfloat16.pt")
            ok = a.dtype == np.dtype(kind) and (a.tobytes() == raw(t) if opt == "u2" else np.array_equal(a, t.float().numpy()))
            check(f"npy_bf16={opt}", ok, a.dtype)
    ckpt, exp = case("dcp/hf_flat")
    for name, td in (("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)):
        with attempt(f"dtype={name}"), Mount(ckpt, f"dtype={name}") as m, Mount(ckpt) as plain:
            with safe_open(f"{m}/hf/model.safetensors", "pt") as f, safe_open(f"{plain}/hf/model.safetensors", "pt") as g:
                bad = [k for k in g.keys() if raw(f.get_tensor(k)) != raw(g.get_tensor(k).to(td))]
                check(f"dtype={name}: hf/ is cast, nearest even", not bad, bad[:3])
            with open(f"{m}/hf/config.json") as f:
                j = json.load(f)
                said = j.get("dtype", j.get("torch_dtype"))
                check(f"dtype={name}: config.json follows", said == str(td).removeprefix("torch."), said)
            with open(f"{m}/checkpoint.pt", "rb") as f, open(f"{plain}/checkpoint.pt", "rb") as g:
                check(f"dtype={name}: checkpoint.pt is not cast", f.read() == g.read())
    with attempt("views="), Mount(ckpt, "views=npy:pt") as m:
        names = set(os.listdir(m))
        check("views=npy:pt shows these two", {"npy", "pt"} <= names and not names & {"state", "hf", "safetensors", "shards"}, sorted(names))
    with attempt("hf_name="), Mount(ckpt, "hf_name=adapter_model") as m:
        check("hf_name=adapter_model", os.path.exists(f"{m}/hf/adapter_model.safetensors"), os.listdir(f"{m}/hf"))
    orig, _ = case("dcp/orig_mod")
    with attempt("hf_strip=no"), Mount(orig, "hf_strip=no") as m, safe_open(f"{m}/hf/model.safetensors", "pt") as f:
        check("hf_strip=no keeps the wrappers' names", all(k.startswith("module._orig_mod.") for k in f.keys()), list(f.keys())[:3])
    with attempt("hf_group="), Mount(case("dcp/app")[0], "hf_group=optim") as m, safe_open(f"{m}/hf/model.safetensors", "pt") as f:
        check("hf_group=optim", any("exp_avg" in k for k in f.keys()), list(f.keys())[:3])
    objs, _ = case("dcp/objects300")
    with attempt("objects=plain"), Mount(objs, "objects=plain") as m:
        v = torch.load(f"{m}/checkpoint.pt", weights_only=True)
        check("objects=plain loads with weights_only and keeps plain values", v["obj"]["lr"] == 3e-4 and "np_array5" not in v["obj"])
    with attempt("objects=none"), Mount(objs, "objects=none") as m:
        v = torch.load(f"{m}/checkpoint.pt", weights_only=True)
        check("objects=none keeps tensors alone", set(tensors_of(v)) == {"model.w"} and not any(True for p, x in leaves(v) if not isinstance(x, torch.Tensor)))
    with attempt("hf_files="), tempfile.TemporaryDirectory() as d:
        with open(f"{d}/config.json", "w") as f:
            f.write('{"model_type": "x"}')
        with open(f"{d}/tokenizer.json", "w") as f:
            f.write("{}")
        with Mount(case("dcp/fsdp4")[0], f"hf_files={d}") as m:
            check("hf_files= brings its companions", {"config.json", "tokenizer.json", "model.safetensors"} <= set(os.listdir(f"{m}/hf")), os.listdir(f"{m}/hf"))
    if "slice" not in run("mount", "--help").stdout:
        skip("slice=tp:4", "this program has no such option")
        return
    with attempt("slice="), Mount(case("dcp/fsdp4")[0], "slice=tp:4") as m:
        check("slice=tp:4 has four ranks", sorted(os.listdir(f"{m}/slices/tp4")) == [f"rank{i}" for i in range(4)])


for name, ckpt, exp in cases():
    try:
        one(name, ckpt, exp)
    except Exception as e:
        check(f"{name}: mount", False, f"{type(e).__name__}: {e}")
if ONLY == "*":
    options()
finish()
