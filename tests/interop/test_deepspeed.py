#!/usr/bin/env python3
"""DeepSpeed checkpoints, written now by the DeepSpeed that is installed: fp32 equals its zero_to_fp32, module the live weights.

SF_CASES = glob over the cases of contrib/gen-fixtures/gen_deepspeed.py. DEEPSPEED_PYTHON: an interpreter that has deepspeed, else this one."""
import shutil

from common import *

need_program()
PYTHON = os.environ.get("DEEPSPEED_PYTHON", sys.executable)
if subprocess.run([PYTHON, "-c", "import importlib.util as u, sys; sys.exit(not u.find_spec('deepspeed'))"], capture_output=True).returncode:
    skip_all(f"no deepspeed for {PYTHON} (DEEPSPEED_PYTHON names another)")

out = tempfile.mkdtemp(prefix="sf-deepspeed-")
try:
    r = subprocess.run([PYTHON, os.path.join(GEN, "gen_deepspeed.py"), out, ONLY], capture_output=True, text=True, timeout=1800)
    check("generator", r.returncode == 0, r.stderr[-2000:])
    for case in sorted(d for d in os.listdir(out) if os.path.exists(f"{out}/{d}/expect.json")):
        with attempt(case):
            with open(f"{out}/{case}/expect.json") as f:
                exp = json.load(f)
            want = {"fp32." + k: v for k, v in exp["tensors"].items()} | {"module." + k: v for k, v in exp["module"].items()}
            src, one = f"{out}/{case}/ckpt/{exp['main']}", f"{out}/{case}.safetensors"
            with open(one, "wb") as to:
                r = subprocess.run([BIN, "cat", src, "checkpoint.safetensors"], stdout=to, stderr=subprocess.PIPE, text=True, timeout=120)
            if not check(f"{case}: cat", r.returncode == 0, r.stderr):
                continue
            with safe_open(one, "pt") as f:
                keys = set(f.keys())
                for k, e in want.items():
                    if not check(f"{case}: {k}", k in keys, "not there"):
                        continue
                    t = f.get_tensor(k).contiguous()
                    raw = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
                    check(f"{case}: {k}", str(t.dtype) == "torch." + e["dtype"] and list(t.shape) == e["shape"] and hashlib.sha256(raw).hexdigest() == e["sha256"], f"another value, {t.dtype} {list(t.shape)}")
                moments = [k for k in keys if k.startswith("optim.state.")]
                check(f"{case}: states by name", moments and not any(k.split(".")[2].isdigit() for k in moments), moments[:3])
            r = subprocess.run([BIN, "verify", "--deep", src], capture_output=True, text=True, timeout=120)
            check(f"{case}: verify --deep", r.returncode == 0, r.stdout + r.stderr)
finally:
    shutil.rmtree(out, ignore_errors=True)
finish()
