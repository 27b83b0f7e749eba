"""300 Python values, each saved as one bytes item: every kind that optimizer, RNG and trainer state has been seen to hold."""
import array
import collections
import datetime
import decimal
import fractions
import functools
import pathlib
import random
import uuid

import numpy as np
import torch

import sf_fixture_classes as C


def shared_tensors():
    a = torch.arange(12.0)
    return (a, a[3:9], a.view(3, 4).t(), {"again": a})


def recursive_list():
    x = [1, 2]
    x.append(x)
    return (x,)


def recursive_dict():
    d = {"k": 1}
    d["self"] = d
    return (d,)


def shared_values():
    s, t = ["shared"], ("cpu", "storage", "0")
    return (s, s, {"a": s, "b": t}, t)


def rng_states():
    random.seed(1234)
    np.random.seed(99)
    g = torch.Generator().manual_seed(5)
    return {"python": (random.getstate(),), "numpy": (np.random.get_state(),), "torch": (g.get_state(),),
            "pcg": (np.random.default_rng(3).bit_generator.state,)}


def explicit():
    D = collections.OrderedDict
    v = {}
    v["none"], v["true"], v["false"] = None, True, False
    for i, n in enumerate([0, 1, -1, 127, 128, 255, 256, 65535, 65536, -128, -129, -32768, -32769, 2**31 - 1, 2**31, -2**31, -2**31 - 1,
                           2**32, 2**53 - 1, 2**53, 2**53 + 1, -2**53, -2**53 - 1, 2**63 - 1, 2**63, -2**63, 2**64, 2**64 - 1, 2**100, -2**100,
                           10**50, -10**50, 2**2039]):
        v[f"int{i}"] = n
    for i, f in enumerate([0.0, -0.0, 1.5, -2.5e-310, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"), float("nan"), 0.1, 1 / 3,
                           1e16, 1e22, 123456789.123456789, 1e-7, 3.0, 2.0**53, 2.0**70]):
        v[f"float{i}"] = f
    for i, s in enumerate(["", "a", "é中", "\U0001F600 non-BMP", "quote\"back\\slash", "nul\0inside", "newline\nand\ttab\r\x1b[31m", "\udcff\udc80 lone",
                           "x" * 255, "y" * 256, "z" * 3000, "<class 'os.system'>", "\u2028\u2029", "\x7f\x80\x9f", "cpu", "storage", "0", "torch"]):
        v[f"str{i}"] = s
    for i, b in enumerate([b"", b"abc", bytes(range(256)), b"\x80" * 300]):
        v[f"bytes{i}"] = b
    v["bytearray"], v["bytearray0"] = bytearray(b"\x00\xffxyz"), bytearray()
    v["complex"], v["complex_nan"] = 1 + 2j, complex(float("nan"), float("-inf"))
    v["set"], v["set0"], v["frozenset"], v["set_mixed"] = {1, 2, 3}, set(), frozenset(["a"]), {None, (1, 2)}
    v["tuple0"], v["tuple1"], v["tuple3"], v["tuple4"], v["tuple_nested"] = (), (1,), (1, 2, 3), (1, 2, 3, 4), ((), ((),), [()])
    v["list0"], v["list"], v["list_mixed"], v["list1001"] = [], [1, 2.5, "x", None, True], [[], [[]], (1,)], list(range(1001))
    v["slice"], v["range"], v["ellipsis"], v["notimpl"] = slice(1, 10, 2), range(0, 9, 3), (...,), (NotImplemented,)
    v["dict0"], v["dict"], v["dict_int"] = ({},), ({"a": 1, "b": [2]},), ({0: "zero", 1: {"x": 2}},)
    v["dict_mixed"] = ({None: 1, True: 2, (1, 2): 3, 1.5: 4, "s": 5, b"b": 6},)
    v["dict_nan"], v["dict1001"] = ({"v": float("nan"), "w": [float("inf")]},), ({f"k{i}": i for i in range(1001)},)
    v["dict_dollar"] = ({"$int": "5", "$type": 1, "$class": None},)
    v["dict_order"] = ({"z": 1, "a": 2, "m": 3},)
    v["ordered"], v["ordered0"] = (D(b=1, a=2),), (D(),)
    v["counter"] = (collections.Counter("hello"),)
    v["defaultdict"], v["defaultdict_none"] = (collections.defaultdict(list, {"a": [1]}),), (collections.defaultdict(None, {1: 2}),)
    v["deque"], v["deque_max"] = collections.deque([1, 2, 3]), collections.deque([1], maxlen=4)
    v["enum"], v["enum_str"], v["intenum"], v["flags"] = C.Colour.RED, C.Colour.BLUE, C.Level.HIGH, C.Flags.A | C.Flags.B
    v["dataclass"], v["frozen"], v["point"] = C.Config(0.5, "n", C.Config()), C.Frozen(3), C.Point(1, [2])
    v["slots"], v["strdict"], v["mylist"] = C.Slots(5, "b"), (C.StrDict(a=1),), C.MyList([1, 2])
    v["myint"], v["mystr"] = C.MyInt(7), C.MyStr("seven")
    v["getstate"], v["reduced"], v["newargsex"], v["empty"] = C.GetState(9), C.Reduced(1, "two"), C.NewArgsEx(1, k=[2]), C.Empty()
    v["class_itself"], v["function"], v["builtin"] = C.Config, functools.reduce, len
    v["partial"] = functools.partial(int, base=2)
    v["posixpath"], v["purepath"] = pathlib.PurePosixPath("/a/b c/d"), pathlib.PurePosixPath("rel")
    v["datetime"], v["date"], v["timedelta"] = datetime.datetime(2026, 1, 2, 3, 4, 5, 6), datetime.date(2026, 1, 2), datetime.timedelta(days=1, seconds=2)
    v["utc"] = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
    v["uuid"], v["decimal"], v["fraction"] = uuid.UUID(int=5), decimal.Decimal("1.10"), fractions.Fraction(1, 3)
    v["array"] = array.array("d", [1.0, 2.0])
    for i, d in enumerate(["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]):
        v[f"np_scalar{i}"] = np.dtype(d).type(1)
        v[f"np_array{i}"] = np.arange(6).reshape(2, 3).astype(d)
        v[f"np_dtype{i}"] = np.dtype(d)
    v["np_fortran"], v["np_0d"], v["np_empty"] = np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array(5), np.zeros((0, 3))
    v["np_big_endian"], v["np_str"], v["np_bytes"] = np.arange(4, dtype=">i4"), np.array(["a", "béé"]), np.array([b"x", b"yz"])
    v["np_object"] = np.array([1, "two", None], dtype=object)
    v["np_struct"] = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
    v["np_datetime"] = np.datetime64("2026-01-01")
    v["np_nan"] = np.float64("nan")
    for i, d in enumerate([torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn, torch.complex64]):
        v[f"dtype{i}"] = d
    v["size"], v["size0"] = torch.Size([2, 3]), torch.Size([])
    v["device"], v["device_cuda"] = torch.device("cpu"), torch.device("cuda", 3)
    v["layout"], v["qscheme"] = (torch.strided,), (torch.per_tensor_affine,)
    v["tensor_tuple"] = (torch.arange(3), "x")
    v["tensor_in_dict"] = ({"w": torch.ones(2, 2), "n": 1},)
    v["tensor_shared"], v["tensor_twice"] = shared_tensors(), (lambda t: (t, t))(torch.ones(3))
    v["tensor_0d"], v["tensor_empty"] = (torch.tensor(5),), (torch.zeros(0, 4),)
    v["tensor_conj"] = (torch.randn(3, dtype=torch.complex64, generator=torch.Generator().manual_seed(1)).conj(),)
    v["tensor_param"], v["tensor_grad"] = (torch.nn.Parameter(torch.ones(2)),), (torch.ones(2, requires_grad=True),)
    v["tensor_uint16"], v["tensor_bf16"] = (torch.arange(3).to(torch.uint16),), (torch.ones(3, dtype=torch.bfloat16),)
    v["tensor_many"] = tuple(torch.full((2,), float(i)) for i in range(12))
    v["tensor_quant"] = (torch.quantize_per_tensor(torch.arange(4.0), 0.5, 1, torch.quint8),)
    v["tensor_sparse"] = (torch.eye(3).to_sparse(),)
    v["tensor_offset"] = (torch.arange(10.0)[4:7],)
    v["storage"] = (torch.arange(4.0).untyped_storage(),)
    v["module_sd"] = (torch.nn.Linear(2, 2).requires_grad_(False).state_dict(),)
    v["recursive_list"], v["recursive_dict"], v["shared"] = recursive_list(), recursive_dict(), shared_values()
    for k, s in rng_states().items():
        v[f"rng_{k}"] = s
    deep = []
    for _ in range(60):
        deep = [deep]
    v["deep"] = deep
    v["betas"], v["params"], v["lr"] = (0.9, 0.95), [0, 1, 2, 3], 3e-4
    v["scheduler"] = ({"base_lrs": [0.1], "last_epoch": 3, "_step_count": 4, "lr_lambdas": [None], "verbose": False},)
    return v


def some_value(r, depth=0):
    """A random plain value."""
    k = r.randrange(12 if depth < 3 else 7)
    if k == 0:
        return r.choice([None, True, False])
    if k == 1:
        return r.randrange(-2**r.randrange(1, 70), 2**r.randrange(1, 70))
    if k == 2:
        return r.uniform(-10, 10)
    if k in (3, 4):
        return "".join(r.choice("abcé中%/ .") for _ in range(r.randrange(8)))
    if k == 5:
        return r.randbytes(r.randrange(10))
    if k == 6:
        return torch.Size([r.randrange(5) for _ in range(r.randrange(3))])
    if k in (7, 8):
        return [some_value(r, depth + 1) for _ in range(r.randrange(4))]
    if k == 9:
        return tuple(some_value(r, depth + 1) for _ in range(r.randrange(4)))
    if k == 10:
        return {r.randrange(100): some_value(r, depth + 1) for _ in range(r.randrange(4))}
    return {f"k{i}": some_value(r, depth + 1) for i in range(r.randrange(4))}


def all_objects(n=300):
    v = explicit()
    r = random.Random(2026)
    i = 0
    while len(v) < n:  # in a tuple, so that the saver keeps the value whole
        v[f"random{i}"] = (some_value(r, 0), some_value(r, 0))
        i += 1
    return v
