#!/usr/bin/env python3
"""Hostile copies of a good case: a message and the right code, no crash, no hang, no memory; what is whole stays readable."""
import errno
import resource
import threading

from common import *

need_program()
import damage

FUSE = not no_fuse()
MEMORY = 2 << 30   # resident, more than any of these small checkpoints may take
TIMEOUT = 30


def limited():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def guarded(name, args):
    """Run a verb; checks that it ended by itself, in time, in bounds, and talks when it fails. (code, stdout, stderr) or None."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        p = subprocess.Popen([BIN, *args], stdout=out, stderr=err, stdin=subprocess.DEVNULL, preexec_fn=limited)
        timer = threading.Timer(TIMEOUT, p.kill)
        timer.start()
        began = time.monotonic()
        _, status, usage = os.wait4(p.pid, 0)
        timer.cancel()
        p.returncode = code = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        o, e = out.read().decode("utf-8", "replace"), err.read().decode("utf-8", "replace")
    what = f"{name}: {' '.join(a for a in args if not a.startswith('/'))}"
    if code == -9 and time.monotonic() - began >= TIMEOUT:
        check(f"{what} ends", False, f"still running after {TIMEOUT} s")
        return None
    check(f"{what} does not crash", code >= 0, f"signal {-code}: {e[-300:]}")
    check(f"{what} stays small", usage.ru_maxrss * 1024 < MEMORY, f"{usage.ru_maxrss >> 10} MiB resident")
    if code > 0 and args[0] != "verify":
        check(f"{what} says why", e.strip() != "", f"exit {code} without a word")
    return code, o, e


def whole_tensors(name, m, T, broken):
    for k, e in T.items():
        try:
            with open(f"{m}/state/{state_dir(k)}/tensor.raw", "rb") as f:
                data = f.read()
        except OSError as x:
            if k in broken:
                check(f"{name}: a broken tensor reads EIO", x.errno in (errno.EIO, errno.ENOENT), x)
            else:
                check(f"{name}: {k} is still readable", False, x)
            continue
        if k not in broken:
            check(f"{name}: {k} is still right", sha(data) == e["sha256"])


def ranges(name, m, T, broken, ref):
    """checkpoint.pt: whole tensors' ranges read, broken ones give EIO; nothing else does."""
    p = f"{m}/checkpoint.pt"
    if not os.path.exists(p):
        return
    bad = good = 0
    size = os.stat(p).st_size
    with open(p, "rb", buffering=0) as f:
        for off in range(0, size, 512):
            try:
                f.seek(off)
                good += len(f.read(512))
            except OSError as e:
                bad += 512
                if not check(f"{name}: a read of checkpoint.pt fails with EIO only", e.errno == errno.EIO, e):
                    return
    n = sum(math.prod(T[k]["shape"]) * getattr(torch, T[k]["dtype"]).itemsize + (128 << 10) for k in broken if k in T)
    check(f"{name}: EIO in the broken ranges alone", bad <= n, f"{bad} bytes unreadable of {size}, broken tensors have {n}")


def mounted_view(name, d, desc, T, ref):
    what = f"{name}: mount"
    try:
        with Mount(f"{d}/ckpt", preexec=limited, env={}) as m:
            if desc["expect"] == "any":  # what a flipped bit hits is not known: reading it must only end
                whole_tensors(name, m, T, T)
            else:
                whole_tensors(name, m, T, desc["broken"])
                ranges(name, m, T, desc["broken"], ref)
            pid = daemon_of(m)
            if pid:
                with open(f"/proc/{pid}/status") as f:
                    peak = next(int(x.split()[1]) for x in f if x.startswith("VmHWM"))
                check(f"{what}: the daemon stays small", peak << 10 < MEMORY, f"{peak >> 10} MiB")
            with open(f"{m}/info.json") as f:
                j = strict_json(f.read())
            if desc["broken"] and name in ("hole", "missing_item", "shard_missing", "shard_half", "shard_empty", "shard_less_one"):
                told = {w.get("key") for w in j["warnings"]}
                check(f"{what}: info.json names the broken keys", set(desc["broken"]) <= told or any(w["key"] is None for w in j["warnings"]), (sorted(set(desc["broken"]) - told)[:3], j["warnings"][:2]))
            if name == "overlap":
                check(f"{what}: an overlap is a warning", any("overlap" in w["code"] for w in j["warnings"]), j["warnings"])
    except subprocess.TimeoutExpired:
        check(what, False, "the mount hangs")
    except RuntimeError as e:
        check(f"{what}: refused with words, not by a crash", desc["expect"] in ("either", "any", "refuse") and "mount exit 1:" in str(e) and len(str(e)) > 20, e)


def judge(name, d, desc, T, ref):
    src, expect = f"{d}/ckpt", desc["expect"]
    r = guarded(name, ["info", "--json", src])
    if r is None:
        return
    loads = r[0] == 0
    if expect == "refuse":
        check(f"{name}: refused", r[0] == 1, f"exit {r[0]}")
        check(f"{name}: the message names the place", src in r[2] or ".metadata" in r[2], r[2][-200:])
    elif expect == "partial":
        check(f"{name}: still loads", loads, r[2][-300:])
    if loads:
        with attempt(f"{name}: info --json is JSON"):
            strict_json(r[1])
    for verb in (["keys", src], ["verify", src]):
        guarded(name, verb)
    v = guarded(name, ["verify", "--deep", src])
    if v and desc["defect"]:
        check(f"{name}: verify --deep finds it", v[0] in (1, 2), f"exit {v[0]}: {v[1][-200:]}")
        check(f"{name}: verify --deep names it", (v[1] + v[2]).strip() != "")
    if loads and expect == "partial" and name != "item_crc":
        k = next((k for k in T if k not in desc["broken"]), None)
        g = guarded(name, ["get", src, k, "--format", "raw", "-O", f"{d}/out"])
        check(f"{name}: get of a whole key", g and g[0] == 0, g)
        if desc["broken"] and desc["broken"][0] in T:
            g = guarded(name, ["get", src, desc["broken"][0], "--format", "raw", "-O", f"{d}/out2"])
            if g and "bomb" not in name and not (name.startswith("dcp/safetensors") and name.endswith(("half", "one"))):  # there the list is of what may be broken
                check(f"{name}: get of the broken key fails", g[0] == 1, g)
        x = guarded(name, ["export", src, f"{d}/x.pt"])
        if x and desc["broken"] and name != "object_deflate_bomb":  # that one may be within the limits
            check(f"{name}: export fails and leaves nothing", x[0] == 1 and not [f for f in os.listdir(d) if f.startswith("x.pt")], (x[0], os.listdir(d)))
    if FUSE and loads:
        mounted_view(name, d, desc, T, ref)
    if FUSE and name == "hole":
        with attempt("-o complete"):
            try:
                with Mount(src, "complete"):
                    check("-o complete refuses a checkpoint with a hole", False)
            except RuntimeError as e:
                check("-o complete refuses a checkpoint with a hole", "exit 1" in str(e), e)
    check(f"{name}: nothing ran", not os.path.exists(f"{src}/PWNED"), "a pickle was executed")
    if name.startswith("path_"):
        r = subprocess.run([BIN, "get", src, desc["broken"][0], "--format", "raw", "-O", "-"], capture_output=True, timeout=TIMEOUT)
        check(f"{name}: nothing outside is read", b"outside" not in r.stdout and b"root:" not in r.stdout)


def main():
    glob = os.environ.get("SF_DAMAGE", "*")
    for source in ("dcp/fsdp4",) if glob != "*" else ("dcp/fsdp4", "dcp/zstd", "dcp/safetensors"):
        if "zstd" in source and lacks_zstd():
            skip(f"{source}, damaged", "built without libzstd")
            continue
        ckpt, exp = case(source)
        own = glob if source == "dcp/fsdp4" else "shard_*" if source == "dcp/zstd" else "shard_[hlmez]*"
        with tempfile.TemporaryDirectory(prefix="sf-bad-") as tmp:
            for name, d, desc in damage.make(os.path.dirname(ckpt), tmp, own):
                with attempt(f"{source} {name}"):
                    judge(name if source == "dcp/fsdp4" else f"{source} {name}", d, desc, exp["tensors"], None)
                subprocess.run(["rm", "-rf", d])


main()
with tempfile.TemporaryDirectory(prefix="sf-bad-") as tmp:  # files that are no DCP at all
    for name, data in {"empty": b"", "short": b"\x08\0\0", "length past the end": b"\xff" * 8 + b"{}", "not JSON": b"\x04\0\0\0\0\0\0\0nope", "deep JSON": (200000).to_bytes(8, "little") + b"[" * 200000,
                       "offsets wrong": (lambda h: len(h).to_bytes(8, "little") + h + b"\0" * 8)(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,80]}}'),
                       "offsets far": (lambda h: len(h).to_bytes(8, "little") + h + b"\0" * 8)(b'{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,18446744073709551615]}}')}.items():
        d = f"{tmp}/{name.replace(' ', '_')}"
        os.mkdir(d)
        with open(f"{d}/model.safetensors", "wb") as f:
            f.write(data)
        r = guarded(f"safetensors {name}", ["info", d])
        check(f"safetensors {name}: refused", r and r[0] == 1, r)
        guarded(f"safetensors {name}", ["verify", "--deep", d])
with tempfile.TemporaryDirectory(prefix="sf-interop-") as d, attempt("universal DeepSpeed that lost a file"):
    import glob
    import shutil
    shutil.copytree(f"{DATA}/deepspeed-0.19/z3uc/ckpt/uc", f"{d}/uc")
    check("universal: whole", run("verify", f"{d}/uc").returncode == 0)
    lost = sorted(glob.glob(f"{d}/uc/zero/*/exp_avg.pt"))[0]
    os.remove(lost)
    r = run("verify", f"{d}/uc")
    check("universal: a state is missing", r.returncode == 1 and os.path.basename(os.path.dirname(lost)) in r.stdout, r.stdout + r.stderr)
    for f in glob.glob(f"{d}/uc/*model_states.pt"):
        os.remove(f)
with tempfile.TemporaryDirectory(prefix="sf-interop-") as d, attempt("DeepSpeed without its model states"):
    shutil.copytree(f"{DATA}/deepspeed-0.19/z2b/ckpt", f"{d}/c")
    for f in glob.glob(f"{d}/c/*/*model_states.pt"):
        os.remove(f)
    step = next(s for s in os.listdir(f"{d}/c") if s.startswith("global_step"))
    r = run("info", f"{d}/c/{step}")
    check("DeepSpeed: partitions alone are refused", r.returncode == 1 and "no model states" in r.stderr, r.stdout + r.stderr)
    r = run("find", f"{d}/c")
    check("DeepSpeed: find says why", "no model states" in r.stdout + r.stderr and run("latest", f"{d}/c").returncode == 1, r.stdout + r.stderr)
finish()
