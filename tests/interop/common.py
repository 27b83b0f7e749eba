"""What the interop tests share: the program, mounts, cases, escaped names, references made by PyTorch.

Environment: SHARDFUSE = the program, SF_TEST_DATA = tests/data. Optional: SF_CASES = glob over FOLDER/CASE.
"""
import base64
import filecmp
import fnmatch
import functools
import gc
import hashlib
import io
import json
import math
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.environ.get("SHARDFUSE", os.path.join(HERE, "../../shardfuse"))
DATA = os.environ.get("SF_TEST_DATA", os.path.join(HERE, "../data"))
GEN = os.path.join(HERE, "../../contrib/gen-fixtures")
ONLY = os.environ.get("SF_CASES", "*")
NEEDS_OPTION = {"complex64", "float8_e4m3fnuz", "float8_e5m2fnuz"}  # in .safetensors with st_dtypes=all only
NO_SAFETENSORS = {"complex128", "complex32"}
NUMPY = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "bfloat16": "|V2", "int64": "<i8", "int32": "<i4", "int16": "<i2", "int8": "|i1", "uint8": "|u1",
         "uint16": "<u2", "uint32": "<u4", "uint64": "<u8", "bool": "|b1", "complex64": "<c8", "complex128": "<c16", "complex32": "|V4"}  # the rest: |V1

passed = failed = skipped = 0
_skip_reasons = []


def skip_all(why):
    print(f"skipped: {why}")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(77)


try:
    import numpy as np
    import torch
    import torch.distributed.checkpoint  # noqa: F401
    warnings.filterwarnings("ignore")
    sys.modules.setdefault("pathlib._local", pathlib)  # metadata written on Python 3.13 names it
    sys.path.append(GEN)                               # sf_fixture_classes, for comparing what the pickles hold
except ImportError as e:
    skip_all(f"no {e.name} for {sys.executable}")
try:
    import safetensors
    from safetensors import safe_open
    import safetensors.torch
except ImportError:
    skip_all(f"no safetensors for {sys.executable}")


def in_safetensors(key, dtype):
    """Can a .safetensors file hold it? A name that is not Unicode makes the whole file unreadable: the reader's JSON is strict."""
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return dtype not in NO_SAFETENSORS | NEEDS_OPTION


# ---- counting ----

def check(name, ok, why=""):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print(f"FAIL {name}: {str(why)[:600]}", flush=True)
    return bool(ok)


def skip(name, why):
    global skipped
    skipped += 1
    line = f"skip {name}: {why}"
    if line not in _skip_reasons:
        _skip_reasons.append(line)
        print(line, flush=True)


class attempt:
    """with attempt("name"): an exception in it is a failure of that name, not the end of the test."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, kind, e, tb):
        if e is None or not isinstance(e, Exception):
            return False
        at = traceback.extract_tb(tb)[-1]
        check(self.name, False, f"{kind.__name__}: {e} ({os.path.basename(at.filename)}:{at.lineno})")
        return True


def finish():
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0 if passed else 77)


def need_program():
    if not os.access(BIN, os.X_OK):
        skip_all(f"no program at {BIN} (set SHARDFUSE)")


def no_fuse():
    """Why nothing can be mounted here; None when it can."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be opened"
    r = run("doctor")
    if r.returncode not in (0, 1) and "unknown" not in r.stderr:
        return f"doctor: {r.stderr.strip()}"
    return "built without libfuse" if "without libfuse" in r.stdout else None


def need_fuse():
    need_program()
    if no_fuse():
        skip_all(no_fuse())


# ---- running ----

def off_disk(args):
    """What a test asks of a server is kept nowhere, unless it says where."""
    args = [str(a) for a in args]
    far = any(re.match(r"(https?|s3|gs)://", a) for a in args) and args[0] != "doctor"
    return far and not any("cache-" in a or "cache_" in a for a in args)


def run(*args, timeout=120, text=True, env=None, cwd=None, **kw):
    e = dict(os.environ, **(env or {}))
    if off_disk(args):
        args = (args[0], "--cache-size=0", *args[1:])
    return subprocess.run([BIN, *map(str, args)], capture_output=True, timeout=timeout, env=e, cwd=cwd, stdin=subprocess.DEVNULL,
                          **({"text": True, "encoding": "utf-8", "errors": "surrogateescape"} if text else {}), **kw)


def jrun(*args, **kw):
    """Run a verb with --json; the parsed document."""
    r = run(*args, "--json", **kw)
    if r.returncode:
        raise RuntimeError(f"{' '.join(map(str, args))}: exit {r.returncode}: {r.stderr.strip()[-300:]}")
    return json.loads(r.stdout)


def mounted(d):
    d = os.path.realpath(d)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as f:
        return any(re.sub(r"\\([0-7]{3})", lambda o: chr(int(o[1], 8)), line.split()[4]) == d for line in f)


def unmount(d):
    gc.collect()
    for _ in range(30):
        if not mounted(d):
            return True
        r = subprocess.run(["fusermount3", "-u", d], capture_output=True)
        if r.returncode == 0:
            return True
        time.sleep(0.1)
    subprocess.run(["fusermount3", "-uz", d], capture_output=True)
    return False


class Mount:
    """with Mount(source, "opt=value", ...) as dir."""

    def __init__(self, src, *opts, dir=None, env=None, args=(), preexec=None):
        self.src, self.opts, self.own, self.env, self.args, self.preexec = src, opts, dir is None, env, args, preexec
        self.dir = tempfile.mkdtemp(prefix="sf-interop-") if dir is None else dir

    def __enter__(self):
        a = [BIN, str(self.src), self.dir, *self.args]
        for o in self.opts:
            a += ["-o", o]
        if off_disk(a[1:]):
            a += ["-o", "cache_size=0"]
        r = subprocess.run(a, capture_output=True, text=True, errors="replace", timeout=60, env=dict(os.environ, **(self.env or {})),
                           stdin=subprocess.DEVNULL, preexec_fn=self.preexec)
        self.stderr = r.stderr
        if r.returncode:
            self._rmdir()
            raise RuntimeError(f"mount exit {r.returncode}: {r.stderr.strip()[-400:]}")
        if not mounted(self.dir):
            raise RuntimeError("the parent exited 0 but nothing is mounted")
        return self.dir

    def _rmdir(self):
        if self.own:
            try:
                os.rmdir(self.dir)
            except OSError:
                pass

    def __exit__(self, *a):
        self.clean = unmount(self.dir)
        self._rmdir()

    def pid(self):
        return daemon_of(self.dir)


def daemon_of(d):
    """The process serving the mount at d: the one of our program with the mountpoint among its words."""
    name, d = os.path.basename(os.path.realpath(BIN)), os.path.realpath(d)
    found = []
    for p in os.listdir("/proc"):
        if not p.isdigit() or int(p) == os.getpid():
            continue
        try:
            with open(f"/proc/{p}/comm") as f:
                if f.read() == "sf-auto-unmount\n":
                    continue
            with open(f"/proc/{p}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
            if name.encode() in b" ".join(words[:2]) and os.fsencode(d) in words:
                found.append(int(p))
        except OSError:
            continue
    return found[0] if found else None


def counters(d):
    with open(f"{d}/.shardfuse/counters.json") as f:
        return json.load(f)


# ---- values ----

def raw(t):
    t = t.detach().resolve_conj().resolve_neg().contiguous()
    return t.clone().reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def sha(b):
    return hashlib.sha256(b).hexdigest()


def agrees(t, e):
    """Is tensor t what expect.json's entry e says?"""
    return isinstance(t, torch.Tensor) and str(t.dtype) == "torch." + e["dtype"] and list(t.shape) == e["shape"] and sha(raw(t)) == e["sha256"]


def same(a, b, path="", order=True, seen=None):
    """None when two values are deeply equal, else where they differ."""
    seen = {} if seen is None else seen
    if seen.get(id(a)) == id(b) and isinstance(a, (list, dict, tuple)):
        return None
    seen[id(a)] = id(b)
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
            return f"{path}: {type(a)} and {type(b)}"
        if a.layout != b.layout or a.is_quantized != b.is_quantized:
            return f"{path}: layout"
        if a.layout != torch.strided:
            return same((a.to_dense()), (b.to_dense()), path + ".dense")
        if a.is_quantized:
            return same(a.int_repr(), b.int_repr(), path + ".int")
        ok = a.dtype == b.dtype and a.shape == b.shape and raw(a) == raw(b)
        return None if ok else f"{path}: tensor {a.dtype}{tuple(a.shape)} and {b.dtype}{tuple(b.shape)}"
    if type(a) is not type(b):
        return f"{path}: {type(a)} and {type(b)}"
    if isinstance(a, dict):
        if order and list(a) != list(b) or set(map(repr, a)) != set(map(repr, b)):
            return f"{path}: keys {list(a)[:8]} and {list(b)[:8]}"
        for (k, x), y in zip(a.items(), b.values()) if order else ((kv, b[kv[0]]) for kv in a.items()):
            d = same(x, y, f"{path}.{k}", order, seen)
            if d:
                return d
        return None
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return f"{path}: {len(a)} and {len(b)} elements"
        return next((d for i, (x, y) in enumerate(zip(a, b)) if (d := same(x, y, f"{path}[{i}]", order, seen))), None)
    if isinstance(a, np.ndarray):
        if a.dtype == object:
            return same(a.tolist(), b.tolist(), path)
        return None if a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() else f"{path}: ndarray"
    if isinstance(a, io.BytesIO):
        return None if a.getvalue() == b.getvalue() else f"{path}: BytesIO"
    if isinstance(a, (torch.UntypedStorage,)):
        return None if bytes(a) == bytes(b) else f"{path}: storage"
    try:
        if a == b or a != a and b != b or repr(a) == repr(b):
            return None
    except Exception:
        pass
    da, db = getattr(a, "__dict__", None), getattr(b, "__dict__", None)
    if da and db and type(a).__module__ != "builtins":
        return same(dict(da), dict(db), path + ".__dict__", order, seen)
    return f"{path}: {a!r} and {b!r}"


def leaves(v, path=()):
    """(path, leaf) of a nested dict/list."""
    if isinstance(v, dict):
        for k, x in v.items():
            yield from leaves(x, (*path, str(k)))
    elif isinstance(v, list):
        for i, x in enumerate(v):
            yield from leaves(x, (*path, str(i)))
    else:
        yield path, v


def tensors_of(v):
    return {".".join(p): t for p, t in leaves(v) if isinstance(t, torch.Tensor)}


ANY = {"$any": True}  # in an expected JSON value: strict JSON, form not fixed by the contract


def value_json(v, above=()):
    """value.json as the contract fixes it; ANY where it does not (a value inside itself, for one)."""
    if id(v) in above:
        return ANY
    r = lambda x: value_json(x, (*above, id(v)) if isinstance(v, (list, tuple, dict)) else above)
    if v is None or isinstance(v, bool) or type(v) is str:
        return v
    if type(v) is int:
        return v if abs(v) <= 2**53 else {"$int": str(v)}
    if type(v) is float:
        return {"$float": "nan"} if v != v else {"$float": "inf" if v > 0 else "-inf"} if math.isinf(v) else v
    if type(v) is bytes:
        return {"$bytes": base64.b64encode(v).decode()}
    if type(v) in (list, tuple):
        return [r(x) for x in v]
    if type(v) is dict:
        if all(type(k) is str for k in v):
            return {k: r(x) for k, x in v.items()} if not any(k.startswith("$") for k in v) else ANY
        return {"$dict": [[r(k), r(x)] for k, x in v.items()]}
    if isinstance(v, torch.dtype):
        return {"$type": "torch.dtype", "value": ANY}
    if isinstance(v, torch.Size):
        return {"$type": "torch.Size", "value": ANY}
    if isinstance(v, torch.device):
        return {"$type": "torch.device", "value": ANY}
    if type(v) is set:
        return {"$type": "set", "value": ANY}
    if type(v) is torch.Tensor and v.layout == torch.strided and not v.is_quantized:
        return {"$tensor": {"dtype": ANY, "shape": list(v.shape)}}
    return ANY


def json_agrees(want, got):
    if isinstance(want, dict) and want.get("$any") is True:
        return True
    if isinstance(want, dict):
        return isinstance(got, dict) and set(want) <= set(got) and all(json_agrees(x, got[k]) for k, x in want.items()) and (
            len(want) == len(got) or any(k.startswith("$") for k in want))
    if isinstance(want, list):
        return isinstance(got, list) and len(want) == len(got) and all(map(json_agrees, want, got))
    if isinstance(want, float) and isinstance(got, (int, float)) and not isinstance(got, bool):
        return want == got and math.copysign(1, want) == math.copysign(1, got)
    return type(want) is type(got) and want == got


def strict_json(text):
    def refuse(x):
        raise ValueError(f"{x} is not strict JSON")
    return json.loads(text, parse_constant=refuse)


# ---- names (design, section 3) ----

def esc(part, key=None, suffix=""):
    if part == "":
        return "%"
    units = [{"%": "%25", "/": "%2F", "\0": "%00"}.get(c, c) for c in part]
    size = lambda s: len(s.encode("utf-8", "surrogateescape"))
    if sum(map(size, units)) + len(suffix) <= 255:
        return "".join(units)
    room, out = 255 - len(suffix) - 17, ""
    for u in units:
        room -= size(u)
        if room < 0:
            break
        out += u
    return out + "~" + hashlib.sha256((part if key is None else key).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def mappable(path):
    """A path for torch.load(mmap=True), which takes none that is not UTF-8: a link to such a one."""
    try:
        path.encode("utf-8")
        return path
    except UnicodeEncodeError:
        link = os.path.join(tempfile.mkdtemp(prefix="sf-interop-"), "link" + os.path.splitext(path)[1])
        os.symlink(path, link)
        return link


def flat(key):
    return esc(key, key, ".safetensors")


def state_dir(key):
    return "/".join(esc(c, key) for c in key.split("."))


# ---- cases ----

@functools.lru_cache(None)
def lacks_zstd():
    r = run("doctor", "--json")
    return r.returncode in (0, 1) and any(c["check"] == "zstd" and c["state"] != "ok" for c in json.loads(r.stdout)["checks"])


# What their expect.json says has other names than the keys, or is not all of them: tests of their own compare them.
OTHER_FAMILIES = ("deepspeed-*/*", "megatron/*", "olmo/*", "rankfiles-*/*", "composer-*/mono", "composer-*/packed")


def cases(glob="*", others=False):
    """(name, ckpt path, expect.json) of every case of DCP's kind that this build can read; of the other families' too."""
    for folder in sorted(os.listdir(DATA)):
        base = os.path.join(DATA, folder)
        for c in sorted(os.listdir(base)) if os.path.isdir(base) else []:
            name, d = f"{folder}/{c}", os.path.join(base, c)
            if not others and any(fnmatch.fnmatch(name, g) for g in OTHER_FAMILIES):
                continue
            if os.path.exists(f"{d}/expect.json") and fnmatch.fnmatch(name, glob) and fnmatch.fnmatch(name, ONLY):
                if "zstd" in c and lacks_zstd():
                    skip(name, "built without libzstd")
                    continue
                with open(f"{d}/expect.json") as f:
                    yield name, f"{d}/ckpt", json.load(f)


def case(name):
    for n, ckpt, exp in cases(name, others=True):
        return ckpt, exp
    skip_all(f"no case {name} in {DATA}")


def metadata(ckpt):
    for n in (".metadata", "__0.metadata"):
        p = os.path.join(ckpt, n)
        if os.path.exists(p):
            alias_old_modules()
            with open(p, "rb") as f:
                return pickle.load(f)
    return None


def alias_old_modules():
    """What 1.13 called its modules: torch's own alias imports them twice, and then knows its classes no more."""
    import torch.distributed.checkpoint.filesystem as fs
    import torch.distributed.checkpoint.metadata as md
    old = "torch.distributed._shard.checkpoint"
    sys.modules[old] = torch.distributed.checkpoint
    sys.modules[old + ".metadata"], sys.modules[old + ".filesystem"] = md, fs


_references = {}


def reference(ckpt):
    """What torch's own dcp_to_torch_save makes of the directory, or None when it cannot read it."""
    if ckpt not in _references:
        ref = None
        if os.path.exists(f"{ckpt}/.metadata"):
            from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
            alias_old_modules()
            with tempfile.TemporaryDirectory() as d:
                try:
                    dcp_to_torch_save(ckpt, d + "/x.pt")
                    ref = torch.load(d + "/x.pt", weights_only=False)
                except BaseException as e:
                    if isinstance(e, KeyboardInterrupt):
                        raise
        _references[ckpt] = ref
    return _references[ckpt]


def loads_weights_only(v):
    try:
        b = io.BytesIO()
        torch.save(v, b)
        b.seek(0)
        torch.load(b, weights_only=True)
        return True
    except Exception:
        return False


MODEL_NAMES = ("model", "module", "model_state_dict", "state_dict")
OPTIM_NAMES = ("optim", "optimizer", "optimizers", "optimizer_state_dict")


def groups(ckpt):
    """{group: (role, [keys], path elements stripped)} by the rules of design section 3, from the metadata itself."""
    md = metadata(ckpt)
    if md is None:
        return None
    keys, paths = list(md.state_dict_metadata), md.planner_data
    if paths is None:
        return {"": ("model", keys, 0)}
    is_tensor = lambda k: hasattr(md.state_dict_metadata[k], "size")
    roots = {paths[k][0] for k in keys if is_tensor(k) and (len(paths[k]) == 1 or paths[k][0] != "rng")}
    root = None
    if len(roots) == 1:
        one = next(iter(roots))
        below = {paths[k][1] for k in keys if paths[k][0] == one and len(paths[k]) > 2}
        if all(len(paths[k]) > 1 for k in keys if is_tensor(k)) and below & {*MODEL_NAMES, *OPTIM_NAMES}:
            root = one
    out, strips = {}, {}
    for k in keys:
        p = paths[k]
        level = 1 if p[0] == root and len(p) > 2 else 0
        g = str(p[level]) if len(p) > 1 else ""
        out.setdefault(g, []).append(k)
        strips[g] = level + 1 if len(p) > 1 else 0
    some = lambda g: any(map(is_tensor, out[g]))
    named = any(g in MODEL_NAMES and some(g) for g in out) or "" in out and not some("") and any(map(some, out))
    role = lambda g: "model" if g in MODEL_NAMES or g == "" and not named else "optim" if g in OPTIM_NAMES else "other"
    return {g: (role(g), ks, strips[g]) for g, ks in out.items()}


def st_header(path):
    with open(path, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        return n, json.loads(f.read(n))


def st_order(header):
    """Is the header in safetensors' own order: dtype descending, then name bytes ascending, offsets without holes?"""
    rank = ["BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16", "U16", "F16", "BF16", "I32", "U32", "F32",
            "C64", "F64", "I64", "U64"]
    t = [(k, v) for k, v in header.items() if k != "__metadata__"]
    want = sorted(t, key=lambda kv: (-rank.index(kv[1]["dtype"]), kv[0].encode("utf-8", "surrogateescape")))
    end = 0
    for k, v in t:
        if v["data_offsets"][0] != end:
            return f"{k}: begins at {v['data_offsets'][0]}, not {end}"
        end = v["data_offsets"][1]
    return None if [k for k, _ in t] == [k for k, _ in want] else f"order {[k for k, _ in t][:5]}, not {[k for k, _ in want][:5]}"


def sigterm_all():
    signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))


def tree(d):
    """The files of a mount, but what is live."""
    for root, dirs, files in os.walk(d):
        dirs[:] = [x for x in dirs if x != ".shardfuse"]
        for f in files:
            yield os.path.relpath(os.path.join(root, f), d)


def same_exports(case, url, path):
    """A checkpoint on a server and the same on disk: exports of both are equal."""
    with tempfile.TemporaryDirectory() as d:
        for where, source in (("far", url), ("near", path)):
            os.mkdir(f"{d}/{where}")
            r = run("export", source, f"{d}/{where}/all.pt")
            check(f"{case}: export from {where}", r.returncode == 0, r.stderr)
        check(f"{case}: exports are equal", filecmp.cmp(f"{d}/far/all.pt", f"{d}/near/all.pt", shallow=False))
