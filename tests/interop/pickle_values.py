"""Values that are hard to pickle. Names of classes here are stored in tests/data/pickle, so they stay."""
import array, collections, datetime, decimal, enum, fractions, pathlib, re, types, uuid


class Plain:
    def __init__(self, **kw):
        self.__dict__.update(kw)

    def __eq__(self, other):
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None

    class Inner:
        class Deepest:
            def __init__(self, x=1):
                self.x = x

            def __eq__(self, other):
                return type(self) is type(other) and self.x == other.x

        def __eq__(self, other):
            return type(self) is type(other)


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __eq__(self, other):
        return type(self) is type(other) and (self.a, self.b) == (other.a, other.b)


class SlotsAndDict(Slots):
    def __init__(self, a, b, c):
        super().__init__(a, b)
        self.c = c

    def __eq__(self, other):
        return super().__eq__(other) and self.c == other.c


class MyList(list):
    pass


class MyDict(dict):
    pass


class MySet(set):
    pass


class MyInt(int):
    pass


class MyStr(str):
    pass


class NewArgs(tuple):
    def __new__(cls, a, b):
        return super().__new__(cls, (a, b))

    def __getnewargs__(self):
        return tuple(self)


class NewArgsEx:
    def __new__(cls, a, *, key=None):
        self = super().__new__(cls)
        self.a, self.key = a, key
        return self

    def __getnewargs_ex__(self):
        return (self.a,), {"key": self.key}

    def __eq__(self, other):
        return type(self) is type(other) and (self.a, self.key) == (other.a, other.key)


class State:
    def __init__(self, x):
        self.x = x

    def __getstate__(self):
        return ("state", self.x)

    def __setstate__(self, s):
        self.x = s[1]

    def __eq__(self, other):
        return type(self) is type(other) and self.x == other.x


class Node:
    """May hold itself; compared by its shape."""

    def __init__(self):
        self.next = None


class Color(enum.Enum):
    RED = 1
    BLUE = "b"


class Flag(enum.IntFlag):
    A = 1
    B = 2


Point = collections.namedtuple("Point", "x y")


def function(x):
    return x


def values():
    """name -> value; small ones, each of its own kind."""
    v = {}
    for i, x in enumerate([0, 1, -1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**63 - 1, 2**63,
                           -(2**63), -(2**63) - 1, 2**64, 10**40, -(10**40), 2**2030, -(2**2039), 2**2050, 127, 128, -128, -129,
                           -32768, -8388608, 2**39 - 1, 2**39, -(2**39)]):
        v[f"int{i:02}"] = x
    for i, x in enumerate([0.0, -0.0, 1.5, -1e300, 5e-324, float("inf"), float("-inf"), float("nan"), 0.1]):
        v[f"float{i}"] = x
    v["none"], v["true"], v["false"] = None, True, False
    v["ellipsis"], v["notimplemented"] = Ellipsis, NotImplemented
    for i, x in enumerate(["", "a", "é", "€", "\U0001f600", "\ud800", "\udcff\ud83d", "a\nb\\c\u1234'\"\x00\x1a\r", "x" * 300,
                           "\\u0041", "storage", "cpu"]):
        v[f"str{i:02}"] = x
    for i, x in enumerate([b"", b"a", bytes(range(256)), b"\xff" * 300, b"\x80\x02."]):
        v[f"bytes{i}"] = x
    v["bytearray0"], v["bytearray1"] = bytearray(), bytearray(range(256))
    v["tuples"] = [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), tuple(range(300)), ((), ((),), (((),),))]
    v["list0"], v["list1"], v["list1000"], v["list2001"] = [], [[]], list(range(1000)), list(range(2001))
    v["dict0"], v["dict1"], v["dict1001"] = {}, {"a": 1}, {str(i): i for i in range(1001)}
    v["dict_keys"] = {1: 1, "1": 2, (1, 2): 3, None: 4, 1.5: 5, b"k": 6, frozenset([1]): 7, True and 2: 8, 2**70: 9}
    v["set0"], v["set1"], v["set9"] = set(), {1}, set(range(9))
    v["frozenset0"], v["frozenset1"] = frozenset(), frozenset([1, "a", (2,)])
    v["complex"], v["range"], v["slice"] = 1 - 2j, range(1, 9, 2), [1j]
    shared = [1]
    v["shared"] = [shared, shared, {"a": shared, "b": (shared, (shared,))}]
    s = "spelt once " * 3
    v["shared_str"] = [s, s, {s: s}]
    t = ()
    for _ in range(60):
        t = (t, t)
    v["doubling"] = t
    d = {}
    for i in range(60):
        d = {"l": d, "r": d}
    v["doubling_dict"] = d
    deep = []
    for _ in range(150):
        deep = [deep]
    v["deep"] = deep
    self_list = []
    self_list.append(self_list)
    v["self_list"] = self_list
    self_dict = {}
    self_dict["me"] = self_dict
    v["self_dict"] = self_dict
    inner = []
    v["self_tuple"] = (inner, 1)
    inner.append(v["self_tuple"])
    inner = []
    v["self_tuple5"] = (inner, 1, 2, 3, inner)
    inner.append(v["self_tuple5"])
    n = Node()
    n.next = n
    v["self_object"] = n
    a, b = Node(), Node()
    a.next, b.next = [b], (a,)
    v["object_cycle"] = a
    n = Node()
    n.next = {n}
    v["set_cycle"] = n.next
    n = Node()
    n.next = frozenset([n])
    v["frozenset_cycle"] = n.next
    v["ordered"] = collections.OrderedDict([("b", 1), ("a", collections.OrderedDict())])
    od = collections.OrderedDict(w=1)
    od._metadata = collections.OrderedDict([("", {"version": 1})])
    v["ordered_metadata"] = od
    v["defaultdict"] = collections.defaultdict(list, {"a": [1]})
    v["counter"] = collections.Counter("hello")
    v["deque"] = collections.deque([1, 2, 3], maxlen=5)
    v["chainmap"] = collections.ChainMap({"a": 1}, {"b": 2})
    v["point"] = Point(1, (2, 3))
    v["namespace"] = types.SimpleNamespace(a=1, b=[2])
    v["plain"] = Plain(a=1, b=Plain(c=[2]))
    v["plain_shared"] = [v["plain"], v["plain"]]
    v["nested_class"] = [Plain.Inner(), Plain.Inner.Deepest(3), Plain.Inner.Deepest, Plain.Inner]
    v["slots"], v["slots_dict"] = Slots(1, "x"), SlotsAndDict(1, 2, 3)
    v["my_list"], v["my_dict"], v["my_set"] = MyList([1, 2]), MyDict(a=1), MySet([1, 2])
    v["my_int"], v["my_str"] = MyInt(7), MyStr("s")
    v["my_list_attr"] = MyList(range(3))
    v["my_list_attr"].extra = "e"
    v["newargs"], v["newargs_ex"] = NewArgs(1, [2]), NewArgsEx(1, key="k")
    v["state"] = State([1])
    v["enum"], v["flag"] = [Color.RED, Color.BLUE, Color.RED], Flag.A | Flag.B
    v["function"], v["class"], v["builtin"] = function, Plain, len
    v["type"], v["exception"] = [int, dict, type(None), ValueError], [OSError]
    v["datetime"] = datetime.datetime(2024, 2, 29, 1, 2, 3, 456, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    v["date"], v["timedelta"] = datetime.date(1999, 12, 31), datetime.timedelta(days=-1, microseconds=1)
    v["decimal"], v["fraction"] = decimal.Decimal("1.10"), fractions.Fraction(3, 7)
    v["path"], v["uuid"] = pathlib.PurePosixPath("/a/b"), uuid.UUID(int=5)
    v["array"], v["regex"] = array.array("d", [1.5, 2.5]), re.compile("a+", re.I)
    v["mixed"] = {"step": 3, "betas": (0.9, 0.999), "flags": {"a", "b"}, "blob": b"\x00\xff", "none": [None, True, False]}
    return v


def same(a, b, seen=None):
    """Equal, of equal types all the way down, sharing included."""
    seen = {} if seen is None else seen
    if id(a) in seen:
        return seen[id(a)] == id(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, dict, tuple, set, frozenset, Node)) or hasattr(a, "__dict__") and not isinstance(a, (type, enum.Enum)):
        seen[id(a)] = id(b)
    if isinstance(a, float):
        return repr(a) == repr(b)
    if isinstance(a, Node):
        return same(a.next, b.next, seen)
    if isinstance(a, dict):
        if getattr(a, "__dict__", None) != getattr(b, "__dict__", None):
            return False
        return len(a) == len(b) and all(same(x, y, seen) for x, y in zip(a.items(), b.items()) for x, y in zip(x, y))
    if isinstance(a, (list, tuple, collections.deque)):
        if getattr(a, "__dict__", None) != getattr(b, "__dict__", None):
            return False
        return len(a) == len(b) and all(same(x, y, seen) for x, y in zip(a, b))
    if isinstance(a, (set, frozenset)):
        if any(isinstance(x, Node) for x in a):
            return len(a) == len(b) and all(same(x, y, seen) for x, y in zip(a, b))
        return a == b
    return a == b
