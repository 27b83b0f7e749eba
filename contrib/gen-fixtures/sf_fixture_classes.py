"""Classes that occur in the pickles of tests/data: a reader must never need to import this."""
import collections
import dataclasses
import enum


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 7


class Flags(enum.IntFlag):
    A = 1
    B = 2


@dataclasses.dataclass
class Config:
    lr: float = 0.1
    name: str = "cfg"
    sub: object = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int = 1


Point = collections.namedtuple("Point", "x y")


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a=1, b=2):
        self.a, self.b = a, b

    def __eq__(self, o):
        return type(o) is Slots and (self.a, self.b) == (o.a, o.b)


class StrDict(dict):
    pass


class MyList(list):
    pass


class MyInt(int):
    pass


class MyStr(str):
    pass


class GetState:
    def __init__(self, v=3):
        self.v = v

    def __getstate__(self):
        return ("tuple state", self.v)

    def __setstate__(self, s):
        self.v = s[1]

    def __eq__(self, o):
        return type(o) is GetState and self.v == o.v


class Reduced:
    def __init__(self, *a):
        self.a = a

    def __reduce__(self):
        return (Reduced, self.a)

    def __eq__(self, o):
        return type(o) is Reduced and self.a == o.a


class NewArgsEx:
    def __new__(cls, a, *, k=None):
        o = object.__new__(cls)
        o.a, o.k = a, k
        return o

    def __getnewargs_ex__(self):
        return (self.a,), {"k": self.k}

    def __eq__(self, o):
        return type(o) is NewArgsEx and (self.a, self.k) == (o.a, o.k)


class Empty:
    def __eq__(self, o):
        return type(o) is Empty
