"""torch.distributed.checkpoint's writer, through the library."""
from __future__ import annotations

import hashlib
import io
import json
import os
import uuid
from datetime import timedelta
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import StorageWriter as TorchWriter, WriteResult
from torch.futures import Future

from .communicator import StoreCommunicator
from .saving import Keep, Save

_BEGUN_S = 60  # the coordinator's word is in the store before any rank looks; this is for a store that is slow


class StorageWriter(TorchWriter):
    """For dcp.save and dcp.async_save(state, storage_writer=StorageWriter(path)), on any backend and mesh.

    Ranks write their shards and .metadata below PATH-tmp, which then becomes PATH: the checkpoint is there whole or not at all. A rank
    that fails is an exception on all of them, and leaves nothing. Ranks meet through torch.distributed's default store.

    A path may be s3://BUCKET/PREFIX or gs://BUCKET/PREFIX: shards go up while they are written, .metadata last.

    overwrite: replace a checkpoint at the path; anything else there is refused all the same. None: yes, but for a URL, where nothing is. sync_files: what is saved is durable.
    thread_count: files of a rank, a thread each. keep: staging memory and the plan stay for this writer's next save. Others, as struct
    shardfuse_save_options has them: timeout_ms, write_timeout_ms, staging, dedup, zstd, manifest, log, variables of a template path.
    """

    def __init__(self, path: Union[str, os.PathLike], *, overwrite: Optional[bool] = None, sync_files: bool = True, thread_count: int = 1,
                 keep: bool = False, log: Optional[Callable[[str], None]] = None, variables: Optional[Mapping[str, Any]] = None,
                 **options: Any) -> None:
        super().__init__()
        self.path = path
        self._overwrite = overwrite
        self._options = dict(options, no_fsync=int(not sync_files), files_per_rank=thread_count, log=log, variables=variables)
        self._keeps, self._keep = keep, None
        self.reset()

    def reset(self, checkpoint_id: Union[str, os.PathLike, None] = None) -> None:
        if checkpoint_id:
            self.path = checkpoint_id
        self.save_id = uuid.uuid4().hex
        self._begun: Optional[Dict[str, Any]] = None  # what the coordinator says of this save
        self._rank, self._is_coordinator = 0, False

    def __getstate__(self) -> Dict[str, Any]:
        return dict(self.__dict__, _keep=None)  # async_save of AsyncCheckpointerType.PROCESS

    @property
    def checkpoint_id(self) -> Union[str, os.PathLike]:
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Union[str, os.PathLike]) -> bool:
        return _is_bucket(checkpoint_id) or "://" not in os.fspath(checkpoint_id)

    def storage_meta(self) -> StorageMeta:
        return StorageMeta(checkpoint_id=self.path, save_id=self.save_id)

    # ---- planning: torch's; ranks learn which save this is ----

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if not kwargs.get("use_collectives", True):
            raise ValueError("shardfuse.StorageWriter: use_collectives=False is not possible: the ranks make one checkpoint, together")
        rank = kwargs.get("rank")
        if rank is None:  # before torch 2.8
            rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
        self._rank, self._is_coordinator, self._begun = rank, is_coordinator, None

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: List[SavePlan]) -> List[SavePlan]:
        # Not in the plans' storage_data: a planner that keeps plans gives write_data those of the save before.
        self._begun = {"id": uuid.uuid4().hex, "size": len(plans)}
        if len(plans) > 1:
            store = _store()
            store.set(self._key(), json.dumps(self._begun))
            store.get(self._key())  # set() does not wait for the server; now whoever asks finds it
        return plans

    def _key(self) -> str:
        return "shardfuse/save/" + hashlib.sha256(os.fsencode(self.path)).hexdigest()

    def _communicator(self) -> Optional[StoreCommunicator]:
        begun = self._begun
        if begun is None:
            store = _store()
            try:
                store.wait([self._key()], timedelta(seconds=_BEGUN_S))
            except RuntimeError as e:
                raise RuntimeError(f"rank {self._rank}: the coordinator saves no {os.fspath(self.path)!r}: is the path the same on all ranks? ({e})") from None
            begun = json.loads(store.get(self._key()))
        if begun["size"] == 1:
            return None
        return StoreCommunicator(_store(), "shardfuse/" + begun["id"], self._rank, begun["size"])

    # ---- writing ----

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[List[WriteResult]]:
        if self._keeps and self._keep is None:
            self._keep = Keep()
        # the planner's paths of what this rank has: where dcp.load and dcp_to_torch_save put a key
        paths = plan.planner_data if isinstance(plan.planner_data, dict) else {}
        results = []
        overwrite = not _is_bucket(self.path) if self._overwrite is None else self._overwrite
        with Save(self.path, self._communicator(), keep=self._keep, overwrite=int(overwrite), **self._options) as save:
            for item in plan.items:
                results.append(WriteResult(item.index, _add(save, item, planner, paths.get(item.index.fqn)), None))
        done: Future[List[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: List[List[WriteResult]]) -> None:
        """.metadata was written by the ranks, before the checkpoint got its name. Is it here, too?"""
        metadata.storage_meta = self.storage_meta()
        if self._begun is not None and self._begun["size"] > 1:
            _store().delete_key(self._key())
        if not self._options["variables"] and not _is_bucket(self.path) and "{" not in os.fspath(self.path) and not os.path.isdir(self.path):
            raise FileNotFoundError(f"{os.fspath(self.path)!r} was saved, but this node does not see it: do all nodes share the file system?")


def _is_bucket(path: Union[str, os.PathLike]) -> bool:
    return os.fsdecode(os.fspath(path)).startswith(("s3://", "gs://"))


def _store() -> Any:
    return dist.distributed_c10d._get_default_store()


def _add(save: Save, item: WriteItem, planner: SavePlanner, path: Any) -> int:
    key = item.index.fqn
    if item.type == WriteItemType.BYTE_IO:
        data = planner.resolve_data(item)
        archive = data.getvalue() if isinstance(data, io.BytesIO) else bytes(data)
        save.archive(key, archive, path=path)
        return len(archive)
    data = item.tensor_data
    box = {"offset": data.chunk.offsets, "extent": data.chunk.sizes, "path": path, "requires_grad": data.properties.requires_grad}
    t = planner.resolve_data(item).detach()
    if tuple(t.shape) != tuple(data.chunk.sizes):
        raise ValueError(f"tensor {key!r}: the plan has a box of {list(data.chunk.sizes)}, the state dict {list(t.shape)}")
    if t.layout != torch.strided:
        raise TypeError(f"tensor {key!r} is {t.layout}: only strided ones can be saved")
    dtype = str(t.dtype).partition(".")[2]
    if t.is_conj() or t.is_neg() or t.device.type != "cpu":
        save.tensor(key, dtype, data.size, provide=lambda: _dense(t), **box)
    else:
        if t.numel() and not _addressable(t):
            raise TypeError(f"tensor {key!r} is a {type(t).__name__}, which has no memory of its own: save what it is made of")
        save.tensor(key, dtype, data.size, t.data_ptr(), stride=t.stride(), keep=t, **box)
    return t.numel() * t.element_size()


def _dense(t: torch.Tensor) -> Any:
    """When it is written: at no time are all of a device's tensors on the host."""
    t = t.cpu().resolve_conj().resolve_neg().contiguous()
    return t.data_ptr(), t.numel() * t.element_size(), t


def _addressable(t: torch.Tensor) -> bool:
    try:
        return t.data_ptr() != 0
    except RuntimeError:
        return False
