"""shardfuse: sharded checkpoints read and saved through libshardfuse, without a compiler.

    with shardfuse.open("s3://runs/r1/step9000") as ckpt:
        w = ckpt["model.layers.0.wq.weight"][:128].torch()

    dcp.save(state, storage_writer=shardfuse.StorageWriter("runs/r1/step100"))
    dcp.load(state, storage_reader=shardfuse.StorageReader("s3://runs/r1/step100"))

Nothing here has logic of its own: src/shardfuse.h and src/shardfuse_save.h are the manual of what the words mean. What the library
fails at is an OSError, or the subclass that Python has for its errno (FileNotFoundError, FileExistsError, TimeoutError), with its message.
"""
from typing import TYPE_CHECKING, Any

from .mounting import mount
from .reading import Checkpoint, Context, Tensor, open

if TYPE_CHECKING:
    from .storage import StorageReader, StorageWriter

__all__ = ["Checkpoint", "Context", "StorageReader", "StorageWriter", "Tensor", "mount", "open"]


def __getattr__(name: str) -> Any:
    if name in ("StorageReader", "StorageWriter"):  # torch is needed for these alone
        from . import storage
        return getattr(storage, name)
    raise AttributeError(f"module 'shardfuse' has no attribute {name!r}")
