"""What stands in torch.distributed.checkpoint where FileSystemWriter and FileSystemReader stand."""
from .storage_read import StorageReader
from .storage_write import StorageWriter

__all__ = ["StorageReader", "StorageWriter"]
