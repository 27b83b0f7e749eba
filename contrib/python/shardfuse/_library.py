"""libshardfuse by ctypes: its structs and functions as src/shardfuse.h and src/shardfuse_save.h declare them.

The library is the file that SHARDFUSE_LIBRARY names, else what the system's loader finds. A call through CDLL holds no GIL, so
Python's other threads run while bytes move.
"""
from __future__ import annotations

import ctypes as C
import os
from typing import Any, Callable, Dict

U64, I64, SIZE, INT, UINT, STR, P = C.c_uint64, C.c_int64, C.c_size_t, C.c_int, C.c_uint, C.c_char_p, C.c_void_p


class Error(C.Structure):
    _fields_ = [("msg", C.c_char * 1024)]

    def tell(self, text: str) -> None:
        """Of a callback: what the library will say."""
        self.msg = text.encode("utf-8", "surrogateescape").replace(b"\0", b"?")[:1023]


class Sized(C.Structure):
    """A struct that begins with its size, so that old callers and new libraries understand each other."""

    def __init__(self, **members: Any) -> None:
        unknown = sorted(set(members) - {f[0] for f in self._fields_})
        if unknown:
            raise TypeError(f"{unknown[0]!r} is no option: there are {', '.join(f[0] for f in self._fields_[1:])}")
        super().__init__(C.sizeof(self), **members)


LOG = C.CFUNCTYPE(None, P, INT, STR)
SAVE_LOG = C.CFUNCTYPE(None, P, STR)
SEND = C.CFUNCTYPE(INT, P, C.c_uint32, C.c_uint32, P, SIZE, C.POINTER(Error))
RECV = C.CFUNCTYPE(INT, P, C.c_uint32, C.c_uint32, C.POINTER(P), C.POINTER(SIZE), UINT, C.POINTER(Error))
PROVIDE = C.CFUNCTYPE(INT, P, U64, P, SIZE, C.POINTER(Error))


class ContextOptions(Sized):
    _fields_ = [("struct_size", SIZE), ("memory", U64), ("threads", UINT), ("timeout_ms", UINT), ("open_files", UINT), ("log", LOG),
                ("log_arg", P), ("log_level", INT), ("ca_bundle", STR), ("endpoint_url", STR), ("region", STR), ("profile", STR),
                ("addressing", STR), ("no_sign_request", INT), ("request_payer", INT), ("cache_dir", STR), ("cache_size", U64),
                ("user_project", STR)]


class OpenOptions(Sized):
    _fields_ = [("struct_size", SIZE), ("source_format", STR), ("key", C.POINTER(STR)), ("ignore", C.POINTER(STR)),
                ("map", C.POINTER(STR)), ("nkey", SIZE), ("nignore", SIZE), ("nmap", SIZE), ("cast", STR), ("hf_files", STR),
                ("model_only", INT), ("complete", INT), ("role", STR)]


class Info(Sized):
    _fields_ = [("struct_size", SIZE), ("source", STR), ("format", STR), ("writer", STR), ("step", I64), ("mtime_ns", I64),
                ("tensors", U64), ("objects", U64), ("groups", U64), ("warnings", U64), ("chunks", U64), ("bytes", U64), ("ranks", UINT)]


class TensorInfo(Sized):
    _fields_ = [("struct_size", SIZE), ("key", P), ("key_len", SIZE), ("dtype", STR), ("elem_bytes", UINT), ("ndim", UINT),
                ("shape", C.POINTER(U64)), ("bytes", U64), ("chunks", U64), ("group", U64), ("order", U64)]


class ObjectInfo(Sized):
    _fields_ = [("struct_size", SIZE), ("key", P), ("key_len", SIZE), ("group", U64), ("order", U64)]


class Read(Sized):
    _fields_ = [("struct_size", SIZE), ("tensor", U64), ("origin", C.POINTER(U64)), ("extent", C.POINTER(U64)),
                ("stride", C.POINTER(I64)), ("off", U64), ("len", U64), ("buf", P), ("err", C.POINTER(Error)), ("result", INT)]


class Comm(Sized):
    _fields_ = [("struct_size", SIZE), ("arg", P), ("rank", C.c_uint32), ("size", C.c_uint32), ("send", SEND), ("recv", RECV),
                ("threads", INT), ("free", P), ("tag", P), ("flush", P)]


class SaveOptions(Sized):
    _fields_ = [("struct_size", SIZE), ("format", STR), ("overwrite", INT), ("dedup", INT), ("files_per_rank", UINT), ("staging", U64),
                ("timeout_ms", UINT), ("write_timeout_ms", UINT), ("no_fsync", INT), ("zstd", INT), ("manifest", INT),
                ("refuse_busy", INT), ("keep", P), ("log", SAVE_LOG), ("log_arg", P), ("variable", C.POINTER(STR)), ("nvariable", SIZE),
                ("format_metadata", STR)]


class Step(C.Structure):
    _fields_ = [("name", STR), ("index", U64)]


class SaveTensor(Sized):
    _fields_ = [("struct_size", SIZE), ("key", STR), ("key_len", SIZE), ("path", C.POINTER(Step)), ("npath", SIZE), ("dtype", STR),
                ("ndim", UINT), ("shape", C.POINTER(U64)), ("offset", C.POINTER(U64)), ("extent", C.POINTER(U64)),
                ("stride", C.POINTER(U64)), ("at", P), ("device", INT), ("stream", P), ("requires_grad", INT), ("provide", PROVIDE),
                ("provide_arg", P)]


class SaveObject(Sized):
    _fields_ = [("struct_size", SIZE), ("key", STR), ("key_len", SIZE), ("path", C.POINTER(Step)), ("npath", SIZE), ("value", P),
                ("json", STR), ("at", P), ("len", SIZE)]


def _load() -> C.CDLL:
    name = os.environ.get("SHARDFUSE_LIBRARY") or "libshardfuse.so.1"
    try:
        return C.CDLL(name)
    except OSError as e:
        raise ImportError(f"shardfuse: its C library is not there: {e}. Install it, or name the file in SHARDFUSE_LIBRARY") from None


_lib = _load()
# Those that do not return int, and those whose last argument is no error. Every pointer argument is given as one (byref, array or
# c_void_p) and every number by its type, where it is not an int.
_RESULT: Dict[str, Any] = {"context_free": None, "close": None, "free": None, "file_close": None, "tensor_find": I64, "file_size": U64,
                           "file_pread": I64, "save_free": None, "save_keep_free": None}


def function(name: str) -> Callable[..., Any]:
    """The function as it is, for what cannot fail."""
    f = getattr(_lib, "shardfuse_" + name)
    f.restype = _RESULT.get(name, INT)
    return f


def call(name: str, *args: Any) -> int:
    """A function whose last argument is the error, which is raised: OSError with errno, or the subclass that Python has for it."""
    err = Error()
    r = function(name)(*args, C.byref(err))
    if r < 0:
        raise OSError(-r, err.msg.decode("utf-8", "surrogateescape"))
    return r


def text(s: Any) -> Any:
    """As the library wants a string; None stays NULL."""
    return None if s is None else os.fsencode(s)


def strings(of: Any) -> Any:
    """An array of strings."""
    of = [os.fsencode(s) for s in of]
    return (STR * len(of))(*of)


def key_of(info: Any) -> str:
    """Keys may hold any byte: those that are not UTF-8 are lone surrogates, as in names of files."""
    return C.string_at(info.key, info.key_len).decode("utf-8", "surrogateescape")


def key_bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")
