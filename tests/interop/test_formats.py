#!/usr/bin/env python3
"""What lies around a DCP checkpoint: Lightning's meta.pt, Composer's containers, other files, other formats."""
import shutil

from common import *

need_fuse()


def test_lightning():
    ckpt, exp = case("lightning-2.6/fsdp")
    j = jrun("info", ckpt)
    check("step from meta.pt", j["step"] == 6, j["step"])
    check("writer", "Lightning 2.6.6" in j["writer"], j["writer"])
    check("meta.pt is read", not j["warnings"], j["warnings"])
    check("KEY of a member", json.loads(run("get", ckpt, "meta.hyper_parameters").stdout) == {"width": 6, "lr": 1e-3, "betas": [0.9, 0.95]})
    check("info KEY names the member", run("info", ckpt, "meta.epoch", "--json").stdout.find('"member": "epoch"') > 0)
    with Mount(ckpt) as m:
        own = torch.load(f"{ckpt}/meta.pt", weights_only=False)
        d = same(torch.load(f"{m}/meta.pt", weights_only=False), own)
        check("the mount's meta.pt is the stored one", d is None, d)
        for k, v in own.items():
            d = same(torch.load(f"{m}/state/meta/{k}/value.pt", weights_only=False), v)
            check(f"state/meta/{k}/value.pt", d is None, d)
        d = same(torch.load(f"{m}/checkpoint.pt", weights_only=False), reference(ckpt))
        check("checkpoint.pt is what dcp_to_torch_save writes, without it", d is None, d)
    with tempfile.TemporaryDirectory() as d:
        r = run("export", ckpt, f"{d}/out.pt")
        check("export", r.returncode == 0 and same(torch.load(f"{d}/out.pt", weights_only=False), reference(ckpt)) is None, r.stderr)


def test_broken_meta():
    """A meta.pt that is no such dict is named, the checkpoint is whole."""
    ckpt, _ = case("lightning-2.6/fsdp")
    for name, make in {"text": lambda p: open(p, "w").write("hello"), "cut": lambda p: os.truncate(p, 2000), "list": lambda p: torch.save([1, 2], p),
                       "empty": lambda p: torch.save({}, p), "int keys": lambda p: torch.save({1: 2}, p)}.items():
        with tempfile.TemporaryDirectory() as d:
            shutil.copytree(ckpt, d + "/c")
            make(d + "/c/meta.pt")
            j = jrun("info", d + "/c")
            codes = {w["code"] for w in j["warnings"] if "meta.pt" in w["text"]}
            check(f"meta.pt: {name}", ("unreadable-file" if name == "cut" else "unread-files") in codes, j["warnings"])
            check(f"meta.pt: {name}: step", j["step"] is None, j["step"])
            check(f"meta.pt: {name}: verify", run("verify", "--deep", d + "/c").returncode == (name == "cut"))


def test_files_beside():
    ckpt, _ = case("dcp/nested")
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(ckpt, d + "/c")
        os.mkdir(d + "/c/train")
        for f in ("train/rank0.pt", "scheduler.bin"):
            open(f"{d}/c/{f}", "w").write("x")
        j = jrun("info", d + "/c")
        check("files beside are in info.json", [w["code"] for w in j["warnings"]] == ["unread-files"], j["warnings"])
        out = run("info", d + "/c").stdout
        check("and in info, as a note", "notes\n" in out and "train/rank0.pt" in out and "scheduler.bin" in out and "warnings\n" not in out, out)
        check("they are no damage", run("verify", d + "/c").returncode == 0 and run("info", d + "/c", "--complete").returncode == 0)


def test_refused():
    r = run("info", DATA, "--source-format", "zip")
    check("an unknown word", r.returncode != 0 and "unknown source format" in r.stderr, r.stderr)


for f in (test_lightning, test_broken_meta, test_files_beside, test_refused):
    with attempt(f.__name__):
        f()
finish()
