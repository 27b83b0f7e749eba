"""libshardfuse driven through ctypes: every fixture's tensors, boxes into torch's own strides, objects and files against torch's values."""
import ctypes as C
import random

from common import *

LIB = os.path.join(os.path.dirname(os.path.abspath(BIN)), ".libs/libshardfuse.so")
if not os.path.exists(LIB):
    skip_all(f"no library at {LIB}")
lib = C.CDLL(LIB)
P, U64, I64 = C.c_void_p, C.c_uint64, C.c_int64


class Error(C.Structure):
    _fields_ = [("msg", C.c_char * 1024)]


class Sized(C.Structure):
    """A struct of shardfuse.h: its first member is its size."""

    def __init__(self, **kw):
        super().__init__(C.sizeof(self), **kw)


class ContextOptions(Sized):
    _fields_ = [("struct_size", C.c_size_t), ("memory", U64), ("threads", C.c_uint), ("timeout_ms", C.c_uint), ("open_files", C.c_uint),
                ("log", P), ("log_arg", P), ("log_level", C.c_int)]


class OpenOptions(Sized):
    _fields_ = [("struct_size", C.c_size_t), ("source_format", C.c_char_p), ("key", C.POINTER(C.c_char_p)), ("ignore", C.POINTER(C.c_char_p)),
                ("map", C.POINTER(C.c_char_p)), ("nkey", C.c_size_t), ("nignore", C.c_size_t), ("nmap", C.c_size_t), ("cast", C.c_char_p),
                ("hf_files", C.c_char_p), ("model_only", C.c_int), ("complete", C.c_int), ("role", C.c_char_p)]


class Info(Sized):
    _fields_ = [("struct_size", C.c_size_t), ("source", C.c_char_p), ("format", C.c_char_p), ("writer", C.c_char_p), ("step", I64), ("mtime_ns", I64),
                ("tensors", U64), ("objects", U64), ("groups", U64), ("warnings", U64), ("chunks", U64), ("bytes", U64), ("ranks", C.c_uint)]


class Tensor(Sized):
    _fields_ = [("struct_size", C.c_size_t), ("key", P), ("key_len", C.c_size_t), ("dtype", C.c_char_p), ("elem_bytes", C.c_uint), ("ndim", C.c_uint),
                ("shape", C.POINTER(U64)), ("bytes", U64), ("chunks", U64), ("group", U64), ("order", U64)]


class Object(Sized):
    _fields_ = [("struct_size", C.c_size_t), ("key", P), ("key_len", C.c_size_t), ("group", U64), ("order", U64)]


class Read(Sized):
    _fields_ = [("struct_size", C.c_size_t), ("tensor", U64), ("origin", C.POINTER(U64)), ("extent", C.POINTER(U64)), ("stride", C.POINTER(I64)),
                ("off", U64), ("len", U64), ("buf", P), ("err", C.POINTER(Error)), ("result", C.c_int)]


DONE = C.CFUNCTYPE(None, P, C.c_int)
EACH = C.CFUNCTYPE(C.c_int, P, C.c_char_p, C.c_int)
lib.shardfuse_context_free.restype = lib.shardfuse_close.restype = lib.shardfuse_free.restype = lib.shardfuse_file_close.restype = None
lib.shardfuse_file_size.restype = U64
lib.shardfuse_file_pread.restype = lib.shardfuse_tensor_find.restype = I64


class Failed(Exception):
    pass


def call(name, *args):
    """A function of the library whose last argument is the error."""
    err = Error()
    r = getattr(lib, name)(*args, C.byref(err))
    if r < 0:
        raise Failed(f"{name}: {r}: {err.msg.decode(errors='surrogateescape')}")
    return r


def name_of(info):
    return C.string_at(info.key, info.key_len).decode("utf-8", "surrogateescape")


class Checkpoint:
    def __init__(self, path, ctx=None, **opt):
        self.h = P()
        call("shardfuse_open", ctx, os.fsencode(path), C.byref(OpenOptions(**opt)), C.byref(self.h))
        self.info = Info()
        call("shardfuse_info", self.h, C.byref(self.info))
        self.tensors = {}
        for i in range(self.info.tensors):
            t = Tensor()
            call("shardfuse_tensor_info", self.h, U64(i), C.byref(t))
            self.tensors[name_of(t)] = (i, t)

    def close(self):
        lib.shardfuse_close(self.h)

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.close()


def read_of(number, dest, origin, extent):
    """A read of a box into torch tensor @dest, by its own strides."""
    n = dest.dim()
    rd = Read(tensor=number, buf=dest.data_ptr())
    rd.origin, rd.extent = (U64 * n)(*origin), (U64 * n)(*extent)
    rd.stride = (I64 * n)(*(s * dest.element_size() for s in dest.stride()))
    return rd


def empty_like_permuted(t, rng):
    """As @t, with its dimensions in another order in memory, and gaps."""
    order = list(range(t.dim()))
    rng.shuffle(order)
    room = torch.empty([t.shape[d] + rng.randrange(3) for d in order], dtype=t.dtype)
    for k, d in enumerate(order):
        room = room.narrow(k, 0, t.shape[d])
    return room.permute([order.index(d) for d in range(t.dim())])


def bytes_of(t):
    """Its bytes in order; a copy of one element keeps odd strides."""
    return raw(t.clone(memory_format=torch.contiguous_format))


def run_reads(ck, reads, asynchronous):
    array = (Read * len(reads))(*reads)
    for k, rd in enumerate(reads):  # what they point to lives as long as they
        array[k].struct_size = C.sizeof(Read)
    if not asynchronous:
        call("shardfuse_read", ck.h, array, C.c_size_t(len(reads)))
        return
    told = []
    done = DONE(lambda arg, r: told.append(r))
    req = P()
    call("shardfuse_read_start", ck.h, array, C.c_size_t(len(reads)), done, None, C.byref(req))
    r = lib.shardfuse_request_finish(req)
    if r < 0 or told != [r]:
        raise Failed(f"request: {r}, told {told}")


def compare(name, path, want):
    """All tensors in one call, then a box of each into places in any order, waiting and not."""
    rng = random.Random(name)
    with Checkpoint(path, ctx) as ck:
        for part, of in want.get("composite", {}).items():  # a checkpoint a part: shown under the part's name unless they begin with it
            for key, e in of["tensors"].items():
                want["tensors"][key if key in ck.tensors else f"{part}.{key}"] = e
        want = want["tensors"]
        check(f"{name}: its tensors are torch's", set(ck.tensors) == set(want), set(ck.tensors) ^ set(want))
        whole = {k: torch.empty(list(t.shape[:t.ndim]), dtype=getattr(torch, t.dtype.decode())) for k, (_, t) in ck.tensors.items()}
        run_reads(ck, [read_of(ck.tensors[k][0], t, [0] * t.dim(), t.shape) for k, t in whole.items()], False)
        wrong = [k for k, t in whole.items() if k in want and not agrees(t, want[k])]
        check(f"{name}: whole", not wrong, wrong)
        for mode in ("boxes", "boxes, not waited for"):
            reads, pairs = [], []
            for key, t in whole.items():
                origin = [rng.randrange(n + 1) for n in t.shape]
                extent = [rng.randrange(n - o + 1) for n, o in zip(t.shape, origin)]
                part = t[tuple(slice(o, o + e) for o, e in zip(origin, extent))]
                dest = empty_like_permuted(part, rng)
                reads.append(read_of(ck.tensors[key][0], dest, origin, extent))
                pairs.append((key, part, dest))
            run_reads(ck, reads, mode != "boxes")
            wrong = [k for k, t, d in pairs if bytes_of(t) != bytes_of(d)]
            check(f"{name}: {mode}", not wrong, wrong)


ctx = P()
call("shardfuse_context_new", C.byref(ContextOptions(threads=4, memory=64 << 20)), C.byref(ctx))
check("version", lib.shardfuse_version() == 3, lib.shardfuse_version())

for name, path, expected in cases("dcp/*"):
    with attempt(name):
        compare(name, path, expected)

# objects, files, casts of one of them
path = os.path.join(DATA, "dcp/fsdp4/ckpt")
want = reference(path)
flat_values = {".".join(map(str, p)): v for p, v in leaves(want)}
with Checkpoint(path, ctx) as ck:
    seen = 0
    for i in range(ck.info.objects):
        o = Object()
        call("shardfuse_object_info", ck.h, U64(i), C.byref(o))
        key = name_of(o)
        if key not in flat_values:
            continue
        seen += 1
        text, blob, size = C.c_char_p(), P(), C.c_size_t()
        call("shardfuse_object_json", ck.h, U64(i), C.byref(text))
        check(f"{key}: as JSON", json_agrees(value_json(flat_values[key]), json.loads(text.value)), text.value[:200])
        lib.shardfuse_free(text)
        call("shardfuse_object_pt", ck.h, U64(i), C.byref(blob), C.byref(size))
        got = torch.load(io.BytesIO(C.string_at(blob, size.value)), weights_only=False)
        lib.shardfuse_free(blob)
        check(f"{key}: pickled", same(flat_values[key], got) is None, same(flat_values[key], got))
    check("there are objects", seen > 0)

    names = []
    each = EACH(lambda arg, n, kind: names.append((n.decode(), kind)) or 0)
    call("shardfuse_list", ck.h, b"", each, None)
    check("the root is listed", ("checkpoint.pt", 0) in names and ("npy", 1) in names, names)
    f = P()
    call("shardfuse_file_open", ck.h, b"checkpoint.pt", C.byref(f))
    size = lib.shardfuse_file_size(f)
    buf = C.create_string_buffer(size)
    got = call("shardfuse_file_pread", f, buf, C.c_size_t(size), U64(0))
    lib.shardfuse_file_close(f)
    check("checkpoint.pt is torch's", got == size and same(want, torch.load(io.BytesIO(buf.raw), weights_only=False)) is None)

with Checkpoint(path, ctx, cast=b"bf16", model_only=1) as ck:
    reads, pairs = [], []
    for key, (number, info) in ck.tensors.items():
        t = flat_values[key]
        t = t.to(torch.bfloat16) if t.is_floating_point() else t
        check(f"{key}: the cast's dtype", f"torch.{info.dtype.decode()}" == str(t.dtype), info.dtype)
        dest = empty_like_permuted(t, random.Random(key))
        reads.append(read_of(number, dest, [0] * t.dim(), t.shape))
        pairs.append((key, t, dest))
    run_reads(ck, reads, False)
    wrong = [k for k, t, d in pairs if bytes_of(t) != bytes_of(d)]
    check("cast boxes are torch's", pairs and not wrong, wrong)

for role in (b"model", b"optim", b"other"):
    with Checkpoint(path, ctx, role=role) as ck:
        check(f"role {role}", {k.split(".")[0] for k in ck.tensors} <= {role.decode()} if role != b"other" else not any(k.startswith(("model.", "optim.")) for k in ck.tensors), list(ck.tensors))
        check(f"role {role} is not empty", bool(ck.tensors) or role == b"other")
for args, word in ((dict(cast=b"int4"), "int4"), (dict(role=b"all"), "model, optim, other"), (dict(role=b"optim", model_only=1), "--model-only"), (dict(source_format=b"none"), "none")):
    try:
        Checkpoint(path, ctx, **args)
        check(f"{args}: refused", False)
    except Failed as e:
        check(f"{args}: refused", word in str(e), e)
lib.shardfuse_context_free(ctx)
finish()
