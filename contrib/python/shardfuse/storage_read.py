"""torch.distributed.checkpoint's reader, through the library: any source and format that it opens."""
from __future__ import annotations

import io
import itertools
import os
import pickle
from typing import Any, Dict, List, Optional, Tuple, Union

import torch
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, StorageMeta, TensorProperties, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader as TorchReader
from torch.futures import Future

from .reading import Checkpoint, Context, Tensor, open as open_checkpoint

_TOGETHER = 256 << 20  # bytes of tensors that are read beside their place and copied there


class StorageReader(TorchReader):
    """For dcp.load(state, storage_reader=StorageReader(source)): a directory's path or a URL, of any format that shardfuse opens.

    Boxes of many tensors are read side by side, straight into the memory of tensors on the CPU. A tensor is one chunk to the planner,
    whatever the shards: planning takes no longer for a checkpoint of 1,000 ranks, and resharding is the library's. Options are those of
    shardfuse.open.
    """

    def __init__(self, path: Union[str, os.PathLike], *, context: Optional[Context] = None, **options: Any) -> None:
        super().__init__()
        self.path, self._context, self._options = path, context, options
        self._open: Optional[Checkpoint] = None

    @property
    def checkpoint_id(self) -> Union[str, os.PathLike]:
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Union[str, os.PathLike]) -> bool:
        return True  # what cannot be opened is said when it is

    def reset(self, checkpoint_id: Union[str, os.PathLike, None] = None) -> None:
        if checkpoint_id:
            self.path = checkpoint_id
        self._open = None

    def read_metadata(self) -> Metadata:
        # opened anew for each load: what is at the path may be another checkpoint by now
        self._open = c = open_checkpoint(self.path, context=self._context, **self._options)
        entries: Dict[str, Any] = {}
        for t in c.tensors():
            whole = ChunkStorageMetadata(offsets=torch.Size([0] * t.ndim), sizes=torch.Size(t.shape))
            entries[t.key] = TensorStorageMetadata(TensorProperties(dtype=getattr(torch, t.dtype)), torch.Size(t.shape), [whole])
        for key in c.objects():
            entries[key] = BytesStorageMetadata()
        return _Metadata(c, {key: entries[key] for key in c}, self.path)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: List[LoadPlan]) -> List[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        if self._open is None:
            raise RuntimeError("read_data comes after read_metadata")
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(self._open.archive(item.storage_index.fqn)))
        self._read_tensors([i for i in plan.items if i.type != LoadItemType.BYTE_IO], planner)
        self._open = None
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _read_tensors(self, items: List[ReadItem], planner: LoadPlanner) -> None:
        reads: List[Tuple[Tensor, torch.Tensor]] = []
        moves: List[Tuple[ReadItem, torch.Tensor, Optional[torch.Tensor]]] = []
        beside = 0
        for item in items:
            box = self._open.tensor(item.storage_index.fqn)[tuple(slice(o, o + n) for o, n in zip(item.storage_offsets, item.lengths))]
            target = planner.resolve_tensor(item).detach()
            if tuple(target.shape) != box.shape:
                raise ValueError(f"tensor {box.key!r}: a box of {list(box.shape)} does not go into {list(target.shape)}")
            buffer = None if _takes(target, box) else torch.empty(box.shape, dtype=getattr(torch, box.dtype))
            reads.append((box, target if buffer is None else buffer))
            moves.append((item, target, buffer))
            beside += 0 if buffer is None else box.nbytes
            if beside >= _TOGETHER:
                self._finish_reads(reads, moves, planner)
                reads, moves, beside = [], [], 0
        self._finish_reads(reads, moves, planner)

    def _finish_reads(self, reads: List[Tuple[Tensor, torch.Tensor]], moves: List[Tuple[ReadItem, torch.Tensor, Optional[torch.Tensor]]],
                      planner: LoadPlanner) -> None:
        self._open.read([(box, t.data_ptr(), [s * t.element_size() for s in t.stride()]) for box, t in reads])
        for item, target, buffer in moves:
            if buffer is not None:
                target.copy_(buffer)
            planner.commit_tensor(item, target)


def _takes(t: torch.Tensor, box: Tensor) -> bool:
    """Can the box's bytes be put at the tensor's elements?"""
    plain = type(t) in (torch.Tensor, torch.nn.Parameter) and t.device.type == "cpu" and t.layout == torch.strided
    if not plain or str(t.dtype) != f"torch.{box.dtype}" or t.is_conj() or t.is_neg():
        return False
    return not any(n > 1 and s == 0 for n, s in zip(t.shape, t.stride()))  # elements that lie on each other


class _Metadata(Metadata):
    """planner_data, which few planners ask for, is read when it is: it is in the .metadata of DCP alone, among all of its chunks."""

    def __init__(self, of: Checkpoint, entries: Dict[str, Any], path: Union[str, os.PathLike]) -> None:
        self._of: Optional[Checkpoint] = of
        self._paths: Optional[Dict[str, Tuple[Any, ...]]] = None
        super().__init__(state_dict_metadata=entries, storage_meta=StorageMeta(checkpoint_id=path))

    @property
    def planner_data(self) -> Optional[Dict[str, Tuple[Any, ...]]]:
        if self._of is not None:
            self._paths, self._of = _paths(self._of, self.state_dict_metadata), None
        return self._paths

    @planner_data.setter
    def planner_data(self, paths: Any) -> None:
        if paths is not None:
            self._paths, self._of = paths, None

    def __reduce__(self) -> Any:
        return (Metadata, (self.state_dict_metadata, self.planner_data, self.storage_data, self.storage_meta, self.version))


def _paths(of: Checkpoint, entries: Dict[str, Any]) -> Optional[Dict[str, Tuple[Any, ...]]]:
    """Where each key stands in the nested state dict: as DCP's planner left it, else the key itself."""
    stored: Dict[str, Tuple[Any, ...]] = {}
    names = iter([".metadata"] if of.has_file("shards/.metadata") else (f"__{rank}.metadata" for rank in itertools.count()))
    for name in itertools.takewhile(lambda n: of.has_file("shards/" + n), names):
        found = getattr(_Unpickler(io.BytesIO(of.file("shards/" + name))).load(), "planner_data", None)
        stored.update(found if isinstance(found, dict) else {})
    return {key: stored.get(key, (key,)) for key in entries}


class _Unpickler(pickle.Unpickler):
    """Makes what a DCP's .metadata is made of; runs nothing else. What else a planner left there is a stand-in."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("torch.distributed._shard.checkpoint", "torch.distributed.checkpoint")  # before torch 2.1
        known = (module, name) in (("collections", "OrderedDict"), ("torch", "Size"))
        if known or module in ("torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem"):
            return super().find_class(module, name)
        if module == "torch" and isinstance(getattr(torch, name, None), (torch.dtype, torch.layout)):
            return getattr(torch, name)
        if (module, name) == ("torch.serialization", "_get_layout"):
            return super().find_class(module, name)
        return _Unknown


class _Unknown:
    def __new__(cls, *args: Any, **kwargs: Any) -> "_Unknown":
        return object.__new__(cls)

    def __setstate__(self, state: Any) -> None:
        pass
