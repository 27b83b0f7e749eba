#!/usr/bin/env python3
"""What Lightning's FSDP and ModelParallel strategies leave (DCP and meta.pt): gen_lightning.py OUT. Wants lightning beside torch.

The strategies want a GPU; so a Trainer runs on the CPU, its own dump_checkpoint() makes the dict, and that is saved as
FSDPStrategy.save_checkpoint() does it: weights and optimizers through torch.distributed.checkpoint, the rest by torch.save to meta.pt.
"""
import os
import sys
import warnings

import lightning as L
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint._nested_dict import flatten_state_dict

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixture import expectation, fresh, object_repr, write_expect

warnings.filterwarnings("ignore")


class Model(L.LightningModule):
    def __init__(self, width=6, lr=1e-3, betas=(0.9, 0.95)):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 3))

    def training_step(self, batch, _):
        return self.net(batch[0]).sum()

    def configure_optimizers(self):
        o = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, betas=self.hparams.betas)
        return [o], [torch.optim.lr_scheduler.StepLR(o, 1)]


def main(out):
    d = fresh(os.path.abspath(os.path.join(out, "lightning")))
    torch.manual_seed(1)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(6, 4)), batch_size=2)
    t = L.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
    m = Model()
    t.fit(m, data)
    ckpt = t._checkpoint_connector.dump_checkpoint(weights_only=False)
    state = {"model": ckpt.pop("state_dict")}
    state |= {f"optimizer_{i}": s for i, s in enumerate(ckpt.pop("optimizer_states"))}
    dcp.save(state, checkpoint_id=d + "/ckpt", no_dist=True)
    torch.save(ckpt, d + "/ckpt/meta.pt")
    flat = flatten_state_dict(state)[0]
    exp = expectation(flat, world=1, lightning=L.__version__, note="EMULATED strategy: Lightning's own checkpoint dict, saved as FSDPStrategy.save_checkpoint does")
    exp["meta"] = {k: object_repr(v) for k, v in ckpt.items()}
    exp["objects"] |= {"meta." + k: r for k, r in exp["meta"].items()}
    write_expect(d, exp)
    print({k: object_repr(v)[:60] for k, v in ckpt.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
