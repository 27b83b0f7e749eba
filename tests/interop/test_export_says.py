#!/usr/bin/env python3
"""export and get: TARGET's last slash, what was left out, a name and a format that contradict, a place that cannot be written."""
import shutil

from common import *

need_program()
CKPT, EXP = case("dcp/fsdp4")
W = tempfile.mkdtemp(prefix="sf-export-says-")


def left(*args):
    r = run("export", CKPT, *args)
    check(f"export {' '.join(map(os.path.basename, args))}", r.returncode == 0, r.stderr)
    return [x.partition("left out: ")[2] for x in r.stderr.splitlines() if "left out" in x]


def slashes():
    os.mkdir(f"{W}/in")
    src = os.path.abspath(CKPT)
    r = run("export", src, "../exp/", "--format", "pt", cwd=f"{W}/in")
    check("export to ../exp/ makes it", r.returncode == 0 and set(os.listdir(f"{W}/exp")) == {"model.pt", "optim.pt"} and "//" not in r.stdout, (r.stdout, r.stderr))
    r = run("get", src, "model.norm.weight", "-O", "../got//", cwd=f"{W}/in")
    check("get -O ../got// makes it", r.returncode == 0 and os.listdir(f"{W}/got") == ["model.norm.weight.npy"] and "//" not in r.stdout, (r.stdout, r.stderr))
    r = run("export", src, "x.pt/", "--format", "pt", cwd=f"{W}/in")
    check("x.pt/ is a directory", r.returncode == 0 and set(os.listdir(f"{W}/in/x.pt")) == {"model.pt", "optim.pt"}, (r.stdout, r.stderr))
    r = run("export", src, "../no/such/", "--format", "pt", cwd=f"{W}/in")
    check("but not the ones above it", r.returncode == 1 and "'../no'" in r.stderr and not os.path.exists(f"{W}/no"), r.stderr)


def left_out():
    check("x.pt has everything", left(f"{W}/x.pt") == [])
    check("x.safetensors is the model", left(f"{W}/x.safetensors") == ["optim (use --optim), train"])
    check("with --optim all of it", left(f"{W}/y.safetensors", "--optim") == [])
    check("a directory of pt", left(f"{W}/dir", "--format", "pt") == ["train"])
    check("--no-optim is known", left(f"{W}/dir2", "--format", "pt", "--no-optim") == ["train"])
    check("hf has no optimizer", left(f"{W}/hf", "--format", "hf") == ["optim, train"])
    check("--quiet", left(f"{W}/q.safetensors", "--quiet") == [])
    check("what --key does not show is not told", left(f"{W}/k.safetensors", "--key", "model") == [])
    check("--model-only", left(f"{W}/mo.pt", "--model-only") == [])
    torch.distributed.checkpoint.save({"model": {"w": torch.ones(4)}, **{f"k{i}": i for i in range(12)}}, checkpoint_id=f"{W}/flat", no_dist=True)
    r = run("export", f"{W}/flat", f"{W}/flat.safetensors")
    check("keys of no group by name, eight at most", r.stderr == "shardfuse: left out: k0, k1, k10, k11, k2, k3, k4, k5 and 4 more\n" or
          re.fullmatch(r"shardfuse: left out: (k\d+, ){7}k\d+ and 4 more\n", r.stderr), r.stderr)
    h = run("export", "--help").stdout
    check("--help says what goes where", "*.pt gets everything, *.safetensors the model" in h and "default for pt one_file, not for others" in h, h)


def refused():
    r = run("export", CKPT, f"{W}/z.safetensors", "--format", "pt")
    check("a name and a format that contradict", r.returncode == 2 and f"'{W}/z.safetensors' is not the name of a file of --format pt" in r.stderr and not os.path.exists(f"{W}/z.safetensors"), r.stderr)
    r = run("export", CKPT, f"{W}/z.pt", "--format", "hf")
    check("hf too", r.returncode == 2 and "--format hf" in r.stderr, r.stderr)
    os.mkdir(f"{W}/there.pt")
    check("a directory that is there may be called so", run("export", CKPT, f"{W}/there.pt", "--format", "safetensors").returncode == 0 and os.listdir(f"{W}/there.pt") == ["model.safetensors"])
    r = run("export", CKPT, f"{W}/j.pt", "-j", "0")
    check("-j 0", r.returncode == 2 and "at least 1" in r.stderr and not os.path.exists(f"{W}/j.pt"), r.stderr)
    r = run("export", CKPT, f"{W}/both.pt", "--optim", "--no-optim")
    check("--optim with --no-optim is usage, and makes nothing", r.returncode == 2 and "exclude each other" in r.stderr and not os.path.exists(f"{W}/both.pt"), r.stderr)
    check("-j of no number", run("export", CKPT, f"{W}/j.pt", "-j", "x").returncode == 2)
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        return skip("a read-only file system", "needs root and unshare -m")
    os.mkdir(f"{W}/ro")
    for target, fmt in ((f"{W}/ro/x.pt", "pt"), (f"{W}/ro", "hf"), (f"{W}/ro/new", "safetensors")):
        r = subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o ro x {W}/ro && exec {BIN} export {os.path.abspath(CKPT)} {target} --format {fmt}"], capture_output=True, text=True)
        check(f"a read-only file system is called that: {os.path.basename(target)}", r.returncode == 1 and f"'{W}/ro' is on a read-only file system" in r.stderr, r.stderr)


for part in (slashes, left_out, refused):
    with attempt(part.__name__):
        part()
shutil.rmtree(W, ignore_errors=True)
finish()
