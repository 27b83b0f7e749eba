"""What tests of contrib/python share: the module over the library beside the program; a state dict to load into; refusals."""
import logging
import random  # noqa: F401

from common import *

LIB = os.path.join(os.path.dirname(os.path.abspath(BIN)), ".libs/libshardfuse.so")
if not os.path.exists(LIB):
    skip_all(f"no library at {LIB}")
os.environ.update(SHARDFUSE_LIBRARY=LIB, SHARDFUSE_PROGRAM=BIN)
sys.path.insert(0, os.path.join(HERE, "../../contrib/python"))

import shardfuse  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.checkpoint.api import CheckpointException  # noqa: E402, F401
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner  # noqa: E402
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save  # noqa: E402, F401
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict  # noqa: E402

logging.disable(logging.WARNING)  # of loads that are to fail
FSDP4 = os.path.join(DATA, "dcp/fsdp4/ckpt")


def load_all(reader):
    """As dcp_to_torch_save does."""
    state = {}
    _load_state_dict(state, storage_reader=reader, planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return state


def like(v):
    """A state dict of the same structure, with other values."""
    if isinstance(v, dict):
        return {k: like(x) for k, x in v.items()}
    if isinstance(v, list):
        return [like(x) for x in v]
    if isinstance(v, torch.Tensor):
        return torch.zeros(v.shape, dtype=v.dtype)
    return None


def refused(name, do, kinds, word=""):
    try:
        do()
        check(f"{name}: refused", False)
    except kinds as e:
        check(f"{name}: refused", word in str(e), e)
