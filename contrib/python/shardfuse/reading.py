"""Checkpoints as mappings of lazy tensors and values."""
from __future__ import annotations

import ctypes as C
import io
import json
import os
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ._library import I64, LOG, P, SIZE, U64, ContextOptions, Info, ObjectInfo, OpenOptions, Read, TensorInfo, call, function, key_bytes, key_of, strings, text


# numpy's word for each of torch's; what it has none for is as the mount's .npy files have it: void of the element's size.
_NUMPY = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "int64": "<i8", "int32": "<i4", "int16": "<i2", "int8": "|i1", "uint64": "<u8",
          "uint32": "<u4", "uint16": "<u2", "uint8": "|u1", "bool": "|b1", "complex64": "<c8", "complex128": "<c16"}


class Context:
    """What checkpoints share: threads, one memory budget, the cache, the log, options of servers.

    Options are the members of struct shardfuse_context_options: memory, threads, timeout_ms, open_files, ca_bundle, endpoint_url,
    region, profile, addressing, no_sign_request, request_payer, cache_dir, cache_size, user_project, log_level. log: called with
    (level, line) by any thread.
    """

    def __init__(self, log: Optional[Callable[[int, str], None]] = None, **options: Any) -> None:
        members = {k: text(v) if isinstance(v, (str, os.PathLike)) else v for k, v in options.items()}
        said = LOG(lambda arg, level, line: log(level, line.decode("utf-8", "surrogateescape"))) if log else LOG()
        opt = ContextOptions(log=said, **members)
        self._handle = P()
        call("context_new", C.byref(opt), C.byref(self._handle))
        # the library keeps what the options point to until the context is freed
        weakref.finalize(self, _end, "context_free", self._handle, os.getpid(), opt, said)


def _end(name: str, handle: P, pid: int, *kept: Any) -> None:
    if os.getpid() == pid:  # threads of the library are not in a child: nothing may be called there
        function(name)(handle)


class Tensor:
    """A tensor that was not read yet, or a box of one: t[3:7, 0] is another, numpy() and torch() read it, and nothing else.

    What is read are the stored pieces under the box. All functions may be called by several threads at once.
    """

    __slots__ = ("key", "dtype", "elem_bytes", "_of", "_number", "_origin", "_extent", "_dims")

    def __init__(self, of: "Checkpoint", number: int, info: TensorInfo) -> None:
        self.key = key_of(info)
        self.dtype: str = info.dtype.decode()  #: torch's word: "bfloat16"
        self.elem_bytes: int = info.elem_bytes
        self._of, self._number = of, number
        self._origin, self._extent = [0] * info.ndim, info.shape[:info.ndim]
        self._dims = range(info.ndim)  # those that an integer index did not take away

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(self._extent[d] for d in self._dims)

    @property
    def ndim(self) -> int:
        return len(self._dims)

    @property
    def nbytes(self) -> int:
        n = self.elem_bytes
        for e in self._extent:
            n *= e
        return n

    def __len__(self) -> int:
        if not self._dims:
            raise TypeError(f"tensor {self.key!r} has no dimensions, so no length")
        return self._extent[self._dims[0]]

    def __repr__(self) -> str:
        return f"<shardfuse.Tensor {self.key!r} {self.dtype} {list(self.shape)}>"

    def __getitem__(self, index: Any) -> "Tensor":
        index = index if isinstance(index, tuple) else (index,)
        given = sum(i is not Ellipsis for i in index)
        if given > self.ndim or len(index) - given > 1:
            raise IndexError(f"tensor {self.key!r} has {self.ndim} dimensions, not those of {index!r}")
        at = index.index(Ellipsis) if given < len(index) else len(index)
        index = index[:at] + (slice(None),) * (self.ndim - given) + index[at + 1:]

        box = object.__new__(Tensor)
        for name in ("key", "dtype", "elem_bytes", "_of", "_number"):
            setattr(box, name, getattr(self, name))
        box._origin, box._extent, box._dims = list(self._origin), list(self._extent), []
        for d, i in zip(self._dims, index):
            n = self._extent[d]
            if isinstance(i, slice):
                start, stop, step = i.indices(n)
                if step != 1:
                    raise IndexError(f"tensor {self.key!r}: boxes are read, not every {step}-th element of a dimension")
                box._extent[d] = max(0, stop - start)
                box._dims.append(d)
            else:
                start = i.__index__()
                if not -n <= start < n:
                    raise IndexError(f"tensor {self.key!r}: index {start} of a dimension of {n}")
                start, box._extent[d] = start % n, 1
            box._origin[d] += start
        return box

    def numpy(self) -> Any:
        """As a numpy array. What numpy has no dtype for (bfloat16, float8) is void of that size: .view() it as what you like."""
        import numpy
        a = numpy.empty(self.shape, _NUMPY.get(self.dtype, f"V{self.elem_bytes}"))
        self._of.read([(self, a.ctypes.data, None)])
        return a

    def torch(self, out: Any = None) -> Any:
        """As a torch tensor of the CPU, or into @out: one of the same shape and dtype, of any strides."""
        import torch
        dtype = getattr(torch, self.dtype)
        if out is None:
            out = torch.empty(self.shape, dtype=dtype)
        elif tuple(out.shape) != self.shape or out.dtype != dtype or out.device.type != "cpu":
            raise ValueError(f"tensor {self.key!r}: {dtype} {list(self.shape)} does not go into {out.dtype} {list(out.shape)} on {out.device}")
        self._of.read([(self, out.data_ptr(), [s * self.elem_bytes for s in out.stride()])])
        return out

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        a = self.numpy()
        return a if dtype is None else a.astype(dtype)

    def __dlpack__(self, **asked: Any) -> Any:
        return self.torch().__dlpack__(**asked)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (1, 0)  # the CPU


class Checkpoint(Mapping[str, Any]):
    """An open checkpoint: keys to Tensor, or to the value of what is no tensor, in the order of the nested state dict.

    A context manager; without it, it is closed when nothing refers to it any more. Not for use in a child after fork(): open it there
    (it pickles, as the URL and options that it was opened with).
    """

    def __init__(self, source: Union[str, os.PathLike], context: Optional[Context], options: Dict[str, Any]) -> None:
        self._made_of = (source, context, options)
        self._handle: Optional[P] = P()
        self._pid = os.getpid()
        self._object_of: Optional[Dict[str, Tuple[int, int]]] = None
        self._keys: Optional[List[str]] = None
        members: Dict[str, Any] = {}
        for name, v in options.items():
            if name in ("key", "ignore", "map"):
                v = [v] if isinstance(v, str) else list(v)
                members.update({name: strings(v), "n" + name: len(v)})
            else:
                members[name] = text(v) if isinstance(v, (str, os.PathLike)) else v
        opt = OpenOptions(**members)
        call("open", context._handle if context else None, text(source), C.byref(opt), C.byref(self._handle))
        self._closes = weakref.finalize(self, _end, "close", self._handle, self._pid, context)
        info = Info()
        call("info", self._handle, C.byref(info))
        self.source, self.format = info.source.decode("utf-8", "surrogateescape"), info.format.decode()
        self.step: Optional[int] = None if info.step < 0 else info.step
        self.ntensors, self.nobjects, self.nbytes = int(info.tensors), int(info.objects), int(info.bytes)

    def close(self) -> None:
        """No read may be under way."""
        self._closes()
        self._handle = None

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        source, context, options = self._made_of
        if context:
            raise TypeError("a checkpoint with a context of its own does not pickle")
        return (Checkpoint, (source, None, options))

    def __repr__(self) -> str:
        return f"<shardfuse.Checkpoint {self.source!r} {self.format}: {self.ntensors} tensors, {self.nobjects} objects, {self.nbytes} bytes>"

    @property
    def _h(self) -> P:
        if self._handle is None:
            raise ValueError("the checkpoint is closed")
        if os.getpid() != self._pid:
            raise RuntimeError("a checkpoint is not used in a child of the process that opened it: open it there")
        return self._handle

    # ---- a mapping ----

    def __len__(self) -> int:
        return self.ntensors + self.nobjects

    def __iter__(self) -> Iterator[str]:
        if self._keys is None:
            tensor, order = TensorInfo(), []
            for i in range(self.ntensors):
                call("tensor_info", self._h, U64(i), C.byref(tensor))
                order.append((tensor.order, key_of(tensor)))
            order += [(place, key) for key, (_, place) in self._objects().items()]
            order.sort()
            self._keys = [key for _, key in order]
        return iter(self._keys)

    def __getitem__(self, key: str) -> Any:
        t = self._find(key)
        return self.value(key) if t is None else t

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and (self._find(key) is not None or key in self._objects())

    def tensor(self, key: str) -> Tensor:
        """KeyError for what is no tensor."""
        t = self._find(key)
        if t is None:
            raise KeyError(key)
        return t

    def tensors(self) -> Iterator[Tensor]:
        """In stored order."""
        for i in range(self.ntensors):
            info = TensorInfo()
            call("tensor_info", self._h, U64(i), C.byref(info))
            yield Tensor(self, i, info)

    def objects(self) -> Iterable[str]:
        """Keys of what is no tensor."""
        return self._objects().keys()

    def value(self, key: str) -> Any:
        """What is no tensor, by torch.load(weights_only=True); by JSON where there is no torch. Classes are not made: json() shows them."""
        try:
            import torch
        except ImportError:
            return self.json(key)
        return torch.load(io.BytesIO(self.archive(key)), map_location="cpu", weights_only=True)

    def json(self, key: str) -> Any:
        """The same as value.json in a mount: plain values, the rest as {"$type": ...}."""
        at = P()
        call("object_json", self._h, U64(self._object(key)), C.byref(at))
        try:
            return json.loads(C.string_at(at))
        finally:
            function("free")(at)

    def archive(self, key: str) -> bytes:
        """The same as a file of torch.save."""
        at, size = P(), SIZE()
        call("object_pt", self._h, U64(self._object(key)), C.byref(at), C.byref(size))
        try:
            return C.string_at(at, size.value)
        finally:
            function("free")(at)

    def file(self, path: str) -> bytes:
        """A file of the mount's tree, whole: "shards/.metadata", "hf/config.json"."""
        f = P()
        call("file_open", self._h, text(path), C.byref(f))
        try:
            buf = bytearray(function("file_size")(f))
            at = (C.c_char * len(buf)).from_buffer(buf)
            n = call("file_pread", f, at, SIZE(len(buf)), U64(0))
        finally:
            function("file_close")(f)
        return bytes(buf[:n])

    def has_file(self, path: str) -> bool:
        f = P()
        try:
            call("file_open", self._h, text(path), C.byref(f))
        except (FileNotFoundError, IsADirectoryError):
            return False
        function("file_close")(f)
        return True

    # ---- reads ----

    def read(self, boxes: Sequence[Tuple[Tensor, int, Optional[Sequence[int]]]]) -> None:
        """Many boxes side by side: each a tensor (or a box of one), the address of its first element, and the distance in bytes
        between elements of each of its dimensions (None: it is dense). The first failure is raised; the others are read."""
        reads, kept = (Read * len(boxes))(), []
        for r, (t, at, stride) in zip(reads, boxes):
            n = len(t._extent)
            full = None
            if stride is not None:
                full = (I64 * n)()
                for d, s in zip(t._dims, stride):
                    full[d] = s
            origin, extent = (U64 * n)(*t._origin), (U64 * n)(*t._extent)
            kept.append((origin, extent, full))
            r.__init__(tensor=t._number, origin=origin, extent=extent, stride=full, buf=at)
        call("read", self._h, reads, SIZE(len(boxes)))

    # ---- looking up ----

    def _find(self, key: str) -> Optional[Tensor]:
        name, info = key_bytes(key), TensorInfo()
        number = function("tensor_find")(self._h, name, SIZE(len(name)), None)
        if number < 0:
            return None
        call("tensor_info", self._h, U64(number), C.byref(info))
        return Tensor(self, number, info)

    def _objects(self) -> Dict[str, Tuple[int, int]]:
        """{key: (number, order)}: the library finds tensors by name, not objects."""
        if self._object_of is None:
            found, info = {}, ObjectInfo()
            for i in range(self.nobjects):
                call("object_info", self._h, U64(i), C.byref(info))
                found[key_of(info)] = (i, int(info.order))
            self._object_of = found
        return self._object_of

    def _object(self, key: str) -> int:
        return self._objects()[key][0]


def open(source: Union[str, os.PathLike], *, context: Optional[Context] = None, **options: Any) -> Checkpoint:
    """Open a checkpoint: a directory's or a file's path, file://, http://, https://, s3:// or gs://. Reads metadata alone.

    Options are the members of struct shardfuse_open_options: source_format, key, ignore, map (a string or several), cast ("bf16"),
    hf_files, model_only, complete, role ("model").
    """
    return Checkpoint(source, context, options)
