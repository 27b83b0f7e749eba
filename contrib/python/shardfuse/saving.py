"""A save: what one rank adds, and the commit of all."""
from __future__ import annotations

import ctypes as C
import json as json_module
import os
import weakref
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple, Union

from ._library import PROVIDE, SAVE_LOG, SIZE, U64, P, SaveObject, SaveOptions, SaveTensor, Step, call, function, key_bytes, strings, text
from .communicator import StoreCommunicator, failed

Path = Optional[Sequence[Union[str, int]]]


class Keep:
    """What saves share: staging memory and the plan, from one to the next."""

    def __init__(self) -> None:
        self.handle = P()
        call("save_keep_new", C.byref(self.handle))
        weakref.finalize(self, function("save_keep_free"), self.handle)


class Save:
    """A save of @target, a directory's path, by this rank of @comm (None: the only one). A context manager: leaving it by an exception
    tells the other ranks, and nothing is left; leaving it otherwise commits, unless commit() was called.

    Options are the members of struct shardfuse_save_options. variables: of a template target. log: called with a line of JSON by any
    thread.
    """

    def __init__(self, target: Union[str, os.PathLike], comm: Optional[StoreCommunicator] = None, *, keep: Optional[Keep] = None,
                 log: Optional[Callable[[str], None]] = None, variables: Optional[Mapping[str, Any]] = None, **options: Any) -> None:
        members = {k: text(v) if isinstance(v, (str, os.PathLike)) else v for k, v in options.items()}
        names = strings([s for k, v in (variables or {}).items() for s in (k, str(v))])
        said = SAVE_LOG(lambda arg, line: log(line.decode("utf-8", "surrogateescape"))) if log else SAVE_LOG()
        opt = SaveOptions(log=said, variable=names, nvariable=len(names) // 2, keep=keep.handle if keep else None, **members)
        self._handle: Optional[P] = P()
        self._kept: List[Any] = [comm, keep, said]  # what the library points to until the end
        call("save_begin", text(target), C.byref(opt), C.byref(comm.comm) if comm else None, C.byref(self._handle))

    def tensor(self, key: str, dtype: str, shape: Sequence[int], at: int = 0, *, offset: Optional[Sequence[int]] = None,
               extent: Optional[Sequence[int]] = None, stride: Optional[Sequence[int]] = None, path: Path = None,
               requires_grad: bool = False, provide: Optional[Callable[[], Tuple[int, int, Any]]] = None, keep: Any = None) -> None:
        """Add a box of a tensor: @at is the address of its first element, which stays until the commit, with @keep if that is its owner.
        Offset, extent and stride are elements, of a box that is all of the tensor and dense where they are None.

        Or provide: it is called when the box is written, by another thread, and gives address and number of its dense bytes, and their owner.
        """
        n = len(shape)
        numbers = lambda of: None if of is None else (U64 * n)(*of)  # noqa: E731
        giver = _provider(provide) if provide else PROVIDE()
        steps, nsteps = _steps(path)
        name = key_bytes(key)
        t = SaveTensor(key=name, key_len=len(name), path=steps, npath=nsteps, dtype=text(dtype), ndim=n, shape=numbers(shape),
                       offset=numbers(offset), extent=numbers(extent), stride=numbers(stride), at=at or None,
                       requires_grad=requires_grad, provide=giver)
        self._kept += [giver, keep]
        call("save_add_tensor", self._h, C.byref(t))

    def archive(self, key: str, at: bytes, *, path: Path = None) -> None:
        """Add what torch.save wrote."""
        steps, nsteps = _steps(path)
        name = key_bytes(key)
        o = SaveObject(key=name, key_len=len(name), path=steps, npath=nsteps, at=C.cast(C.c_char_p(at), P), len=len(at))
        call("save_add_object", self._h, C.byref(o))

    def json(self, key: str, value: Any, *, path: Path = None) -> None:
        """Add a value that JSON has: it is pickled as it was, but for tuples, which are lists."""
        steps, nsteps = _steps(path)
        name = key_bytes(key)
        o = SaveObject(key=name, key_len=len(name), path=steps, npath=nsteps, json=json_module.dumps(value).encode())
        call("save_add_object", self._h, C.byref(o))

    def file(self, name: str, at: bytes) -> None:
        """Add a file beside the shards."""
        call("save_add_file", self._h, text(name), C.c_char_p(at), SIZE(len(at)))

    def commit(self) -> None:
        """All ranks: the checkpoint is there, or all of them raise the same and nothing is."""
        try:
            call("save_commit", self._h)
        finally:
            self._free()

    def abort(self, why: str) -> None:
        """Instead of commit: the others' commit fails with @why."""
        try:
            call("save_abort", self._h, why.encode("utf-8", "surrogateescape"))
        finally:
            self._free()

    def __enter__(self) -> "Save":
        return self

    def __exit__(self, kind: Any, e: Optional[BaseException], tb: Any) -> None:
        if self._handle is None:
            return
        if e is None:
            self.commit()
            return
        try:
            self.abort(f"{kind.__name__}: {e}")
        except OSError:
            pass  # what went wrong first is raised

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._free()

    @property
    def _h(self) -> P:
        if self._handle is None:
            raise ValueError("the save is over")
        return self._handle

    def _free(self) -> None:
        function("save_free")(self._handle)
        self._handle, self._kept = None, []


def _steps(path: Path) -> Tuple[Any, int]:
    """Where a key stands in the nested state dict; none: under its own name."""
    if not path:
        return None, 0
    made = (Step * len(path))()
    for step, p in zip(made, path):
        if isinstance(p, int):
            step.index = p
        else:
            step.name = key_bytes(p)
    return made, len(path)


def _provider(provide: Callable[[], Tuple[int, int, Any]]) -> Any:
    """The library asks for the bytes in pieces, in order: they are made at the first and go after the last."""
    made: List[Any] = []

    def give(arg: Any, off: int, to: int, size: int, err: Any) -> int:
        try:
            if not made:
                made.extend(provide())
            C.memmove(to, made[0] + off, size)
            if off + size == made[1]:
                made.clear()
            return 0
        except BaseException as e:
            return failed(err, "its bytes", e)

    return PROVIDE(give)
