"""A communicator of ranks that reach each other through torch.distributed's store: any backend has it."""
from __future__ import annotations

import collections
import ctypes as C
import errno
import traceback
from datetime import timedelta
from typing import Any, DefaultDict, Tuple

from ._library import RECV, SEND, Comm, Error

_PART = 4 << 20  # TCPStore takes values of up to 8 MiB
_libc = C.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = C.c_void_p, [C.c_size_t]


class StoreCommunicator:
    """Of one save. @prefix is of that save alone and the same on all ranks: messages are keys below it, which who receives removes.

    comm is the struct for the library, as long as this lives.
    """

    def __init__(self, store: Any, prefix: str, rank: int, size: int) -> None:
        # while one thread waits for a key no other may use that connection: training goes on with its own
        self._store = store.clone() if hasattr(store, "clone") else store
        self._prefix, self._rank = prefix, rank
        self._sent: DefaultDict[Tuple[int, int], int] = collections.defaultdict(int)
        self._received: DefaultDict[Tuple[int, int], int] = collections.defaultdict(int)
        self._send, self._recv = SEND(self._on_send), RECV(self._on_recv)  # ctypes does not keep them
        self.comm = Comm(rank=rank, size=size, send=self._send, recv=self._recv)

    def _key(self, tag: int, from_: int, to: int, n: int) -> str:
        return f"{self._prefix}/{tag}/{from_}/{to}/{n}"

    def send(self, to: int, tag: int, message: bytes) -> None:
        key = self._key(tag, self._rank, to, self._sent[to, tag])
        parts = [message[i:i + _PART] for i in range(0, len(message), _PART)] or [b""]
        for i, part in enumerate(parts[1:], 1):
            self._store.set(f"{key}/{i}", part)
        self._store.set(key, b"%d " % len(parts) + parts[0])  # last: who sees it finds the others
        self._sent[to, tag] += 1

    def recv(self, from_: int, tag: int, timeout_ms: int) -> Any:
        """None: there was none."""
        key = self._key(tag, from_, self._rank, self._received[from_, tag])
        if not self._there(key, timeout_ms):
            return None
        count, _, message = self._take(key).partition(b" ")
        message = b"".join([message] + [self._take(f"{key}/{i}") for i in range(1, int(count))])
        self._received[from_, tag] += 1
        return message

    def _take(self, key: str) -> bytes:
        value = bytes(self._store.get(key))
        self._store.delete_key(key)
        return value

    def _there(self, key: str, timeout_ms: int) -> bool:
        if self._store.check([key]):
            return True
        if timeout_ms:
            try:
                self._store.wait([key], timedelta(milliseconds=timeout_ms))
                return True
            except RuntimeError:  # of a timeout, and of a store that is gone, which check() tells apart
                return bool(self._store.check([key]))
        return False

    # ---- as the library calls it ----

    def _on_send(self, arg: Any, to: int, tag: int, at: int, size: int, err: Any) -> int:
        try:
            self.send(to, tag, C.string_at(at, size) if size else b"")
            return 0
        except BaseException as e:
            return failed(err, f"to rank {to}", e)

    def _on_recv(self, arg: Any, from_: int, tag: int, ret: Any, ret_size: Any, timeout_ms: int, err: Any) -> int:
        try:
            message = self.recv(from_, tag, timeout_ms)
            if message is None:
                return -errno.EAGAIN
            at = _libc.malloc(len(message) or 1)
            if not at:
                raise MemoryError(f"a message of {len(message)} bytes")
            C.memmove(at, message, len(message))
            ret[0], ret_size[0] = at, len(message)
            return 0
        except BaseException as e:
            return failed(err, f"from rank {from_}", e)


def failed(err: Any, what: str, e: BaseException) -> int:
    """What a callback returns in place of raising: C cannot."""
    if err:
        err[0].tell(f"{what}: {said(e)}")
    return -(getattr(e, "errno", None) or errno.EIO)


def said(e: BaseException) -> str:
    return traceback.format_exception_only(type(e), e)[-1].strip()
