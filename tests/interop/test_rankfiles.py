#!/usr/bin/env python3
"""Files of one torch.save per rank, written now by this torch: FSDP, HSDP, FSDP over tensor parallelism, ShardedTensor; uneven, tied, several groups.

SF_CASES = glob over the cases of contrib/gen-fixtures/gen_rankfiles.py."""
import shutil

from common import *

need_program()
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    skip_all("this torch has no gloo")
try:
    from torch.distributed.fsdp import fully_shard  # noqa: F401
except ImportError:
    skip_all(f"torch {torch.__version__} has no fully_shard")

out = tempfile.mkdtemp(prefix="sf-rankfiles-")
try:
    r = subprocess.run([sys.executable, os.path.join(GEN, "gen_rankfiles.py"), out, ONLY], capture_output=True, text=True, timeout=900)
    check("generator", r.returncode == 0, r.stderr[-2000:])
    for case in sorted(os.listdir(out)):
        with attempt(case):
            with open(f"{out}/{case}/expect.json") as f:
                want = json.load(f)["tensors"]
            one = f"{out}/{case}.safetensors"
            with open(one, "wb") as to:
                r = subprocess.run([BIN, "cat", f"{out}/{case}/ckpt", "checkpoint.safetensors"], stdout=to, stderr=subprocess.PIPE, text=True, timeout=120)
            if not check(f"{case}: cat", r.returncode == 0, r.stderr):
                continue
            with safe_open(one, "pt") as f:
                keys = set(f.keys())
                for k, e in want.items():
                    if not check(f"{case}: {k}", k in keys, "not there"):
                        continue
                    t = f.get_tensor(k).contiguous()
                    sha = hashlib.sha256(t.reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()
                    check(f"{case}: {k}", str(t.dtype) == "torch." + e["dtype"] and list(t.shape) == e["shape"] and sha == e["sha256"], "another value")
            r = subprocess.run([BIN, "verify", "--deep", f"{out}/{case}/ckpt"], capture_output=True, text=True, timeout=120)
            check(f"{case}: verify --deep", r.returncode == 0, r.stdout + r.stderr)
finally:
    shutil.rmtree(out, ignore_errors=True)
finish()
