"""A DCP checkpoint put together item by item, for layouts torch's own writer never makes.

The metadata classes and the items (torch.save) are torch's; only the arrangement is ours.
"""
import io
import os
import pickle

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex,
                                                   TensorProperties, TensorStorageMetadata)


def item_bytes(obj):
    b = io.BytesIO()
    torch.save(obj, b)
    return b.getvalue()


class HandMade:
    def __init__(self, path, flatten=True):
        os.makedirs(path, exist_ok=True)
        self.path, self.files = path, {}
        self.md, self.storage = {}, {}
        self.planner = {} if flatten else None

    def put(self, name, data):
        """Append bytes to a stored file; returns their offset."""
        f = self.files.get(name)
        if f is None:
            f = self.files[name] = open(os.path.join(self.path, name), "wb")
        off = f.tell()
        f.write(data)
        return off

    def index(self, fqn, offsets, n=None):
        return MetadataIndex(fqn, torch.Size(offsets) if offsets is not None else None, n)

    def _path(self, fqn, path):
        if self.planner is not None:
            self.planner[fqn] = tuple(path) if path is not None else tuple(fqn.split("."))

    def tensor(self, fqn, size, dtype, chunks, path=None):
        """chunks: (offsets, extent, file, item bytes or None to leave it out of storage_data)."""
        md = TensorStorageMetadata(TensorProperties(dtype=dtype), torch.Size(size), [])
        for n, (offsets, extent, name, data) in enumerate(chunks):
            md.chunks.append(ChunkStorageMetadata(torch.Size(offsets), torch.Size(extent)))
            if data is not None:
                self.storage[self.index(fqn, offsets, n)] = _StorageInfo(name, self.put(name, data), len(data))
        self.md[fqn] = md
        self._path(fqn, path)

    def object(self, fqn, obj, name="__0_0.distcp", path=None):
        data = item_bytes(obj)
        self.md[fqn] = BytesStorageMetadata()
        self.storage[self.index(fqn, None)] = _StorageInfo(name, self.put(name, data), len(data))
        self._path(fqn, path)

    def metadata(self):
        return Metadata(self.md, self.planner, self.storage)

    def commit(self, dump=pickle.dump):
        for f in self.files.values():
            f.close()
        tmp = os.path.join(self.path, ".metadata.tmp")
        with open(tmp, "wb") as f:
            dump(self.metadata(), f)
        os.rename(tmp, os.path.join(self.path, ".metadata"))
