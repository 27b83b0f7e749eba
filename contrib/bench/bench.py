#!/usr/bin/env python3
"""Speed against a peer, interleaved in one run: bench.py save|metadata|save_metadata|plan|seq|mmap|loaders|export|all [--bin shardfuse] [--helpers DIR] …

Prints a Markdown table; --json FILE keeps every sample. See README.md here.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../gen-fixtures"))
TICK = os.sysconf("SC_CLK_TCK")
GIB = 1 << 30
LAYOUTS = ("rows4", "rows64", "cols4", "cols64")

P = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
P.add_argument("work", choices=("save", "metadata", "save_metadata", "plan", "seq", "mmap", "loaders", "export", "all"))
P.add_argument("--bin", default=os.environ.get("SHARDFUSE", "./shardfuse"), help="the program")
P.add_argument("--helpers", default="contrib/bench", help="where onefile_server and load_metadata were built")
P.add_argument("--data", default="/dev/shm/shardfuse-bench", help="where data is made and kept")
P.add_argument("--gib", type=float, default=1.0, help="bytes per checkpoint")
P.add_argument("--rounds", type=int, default=5)
P.add_argument("--layouts", default=",".join(LAYOUTS))
P.add_argument("--chunks", type=int, nargs=2, default=(1000, 1000), metavar=("TENSORS", "RANKS"), help="of the metadata bench")
P.add_argument("--plan-tensors", type=int, default=1024)
P.add_argument("--save-tensors", type=int, default=32, help="of 16 MiB a rank, 4 ranks")
P.add_argument("--plan-ranks", type=int, nargs="+", default=(64, 256), help="of the plan bench: the peer takes minutes from 1,024 on")
P.add_argument("--opt", action="append", default=[], help="a mount option for shardfuse")
P.add_argument("--json")
P.add_argument("--clean", action="store_true", help="remove the data afterwards")
A = P.parse_args() if __name__ == "__main__" else P.parse_args(["all"])
SAMPLES, TABLE = [], []


def say(*a):
    print(*a, file=sys.stderr, flush=True)


def med(x):
    return statistics.median(x)


def row(work, what, peer, ours, unit, ratio, note=""):
    """One line of the table: medians of both, the median of the rounds' ratios."""
    TABLE.append((work, what, f"{peer:.3g} {unit}" if peer is not None else "", f"{ours:.3g} {unit}", f"{ratio:.2f}" if ratio is not None else "", note))
    say("  ", *TABLE[-1])


def keep(work, **kw):
    SAMPLES.append({"work": work, **kw})


# ---- data ----

def make_ckpt(layout):
    """A checkpoint of float32 tensors cut in N along rows or columns, a file a rank, N items in each; returns its directory."""
    import torch
    from handmade import HandMade, item_bytes
    path = os.path.join(A.data, f"{layout}-{A.gib:g}")
    if os.path.exists(f"{path}/.metadata"):
        return path
    say(f"making {path}")
    shutil.rmtree(path, ignore_errors=True)
    n, cols = int(layout[4:]), layout.startswith("cols")
    shape = (4096, 2048)
    count = max(1, round(A.gib * GIB / (shape[0] * shape[1] * 4)))
    h = HandMade(path)
    g = torch.Generator().manual_seed(1)
    for i in range(count):
        t = torch.randn(shape, generator=g)
        chunks = []
        for r in range(n):
            a, b = (shape[1] * r // n, shape[1] * (r + 1) // n) if cols else (shape[0] * r // n, shape[0] * (r + 1) // n)
            part = t[:, a:b] if cols else t[a:b]
            chunks.append(((0, a) if cols else (a, 0), tuple(part.shape), f"__{r}_0.distcp", item_bytes(part.clone())))
        name = f"model.layers.{i}.weight"
        h.tensor(name, shape, t.dtype, chunks, path=("model", name[6:]))
    h.object("step", 1)
    h.commit()
    return path


def real_copy(view, name):
    """The view's bytes as a real local file."""
    path = os.path.join(A.data, name)
    if not os.path.exists(path) or os.path.getsize(path) != os.path.getsize(view):
        say(f"copying {view} to {path}")
        shutil.copyfile(view, path + ".tmp")
        os.rename(path + ".tmp", path)
    return path


# ---- mounts ----

def daemon_of(words):
    for p in os.listdir("/proc"):
        if p.isdigit() and int(p) != os.getpid():
            try:
                with open(f"/proc/{p}/cmdline", "rb") as f:
                    have = f.read().split(b"\0")
                if all(os.fsencode(w) in have for w in words):
                    return int(p)
            except OSError:
                pass
    raise RuntimeError(f"no process with {words}")


def cpu(pid):
    """utime + stime of a process, seconds."""
    with open(f"/proc/{pid}/stat") as f:
        v = f.read().rsplit(") ", 1)[1].split()
    return (int(v[11]) + int(v[12])) / TICK


class Mount:
    def __init__(self, args, source):
        self.dir = tempfile.mkdtemp(prefix="sf-bench-")
        r = subprocess.run([*args, source, self.dir], capture_output=True, text=True)
        if r.returncode:
            raise RuntimeError(f"{args[0]}: {r.stderr.strip()}")
        for _ in range(100):
            if os.path.ismount(self.dir):
                break
            time.sleep(0.05)
        self.pid = daemon_of([source, self.dir])
        self.readahead()

    def readahead(self):
        """1 MiB for both sides alike; the kernel's default is 128 KiB and only root may raise it."""
        st = os.stat(self.dir)
        p = f"/sys/class/bdi/{os.major(st.st_dev)}:{os.minor(st.st_dev)}/read_ahead_kb"
        try:
            with open(p, "w") as f:
                f.write("1024")
        except OSError as e:
            say(f"readahead stays as it is: {e}")

    def __enter__(self):
        return self

    def __exit__(self, *a):
        for _ in range(50):
            if subprocess.run(["fusermount3", "-u", self.dir], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        os.rmdir(self.dir)


def peer(real):
    m = Mount([os.path.join(A.helpers, "onefile_server")], real)
    m.file = f"{m.dir}/file"
    return m


def ours(ckpt, view):
    m = Mount([A.bin, *(x for o in A.opt for x in ("-o", o))], ckpt)
    m.file = f"{m.dir}/{view}"
    return m


def cold(path):
    """Throw the file's pages out of the page cache (of the FUSE mount; on tmpfs it does nothing)."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


# ---- seq, mmap ----

def read_seq(path):
    buf = bytearray(1 << 20)
    n = 0
    with open(path, "rb", buffering=0) as f:
        while k := f.readinto(buf):
            n += k
    return n


def read_mmap(path):
    import numpy as np
    m = np.memmap(path, np.uint8, "r")
    out = np.empty(1 << 22, np.uint8)
    for o in range(0, m.size, out.size):
        part = m[o:o + out.size]
        out[:part.size] = part
    n = m.size
    del m
    return n


def timed(m, fn):
    cold(m.file)
    c0, t0 = cpu(m.pid), time.monotonic()
    n = fn(m.file)
    t1, c1 = time.monotonic(), cpu(m.pid)
    return n / (t1 - t0) / 1e9, (c1 - c0) / (n / GIB)


def bench_reads(work, fn):
    for layout in A.layouts.split(","):
        ckpt = make_ckpt(layout)
        with ours(ckpt, "model.safetensors") as us:
            real = real_copy(us.file, f"real-{layout}-{A.gib:g}.safetensors")
            if subprocess.run(["cmp", us.file, real]).returncode:
                raise RuntimeError(f"{layout}: the view and its copy differ")
            with peer(real) as p:
                rates, cpus = {"peer": [], "us": []}, {"peer": [], "us": []}
                for i in range(A.rounds + 1):
                    for who, m in (("peer", p), ("us", us)) if i % 2 else (("us", us), ("peer", p)):
                        r, c = timed(m, fn)
                        if i:  # the first round warms both
                            rates[who].append(r)
                            cpus[who].append(c)
                            keep(work, layout=layout, who=who, gb_s=r, cpu_s_per_gib=c)
                ratio = med([u / q for u, q in zip(rates["us"], rates["peer"])])
                row(work, layout, med(rates["peer"]), med(rates["us"]), "GB/s", ratio,
                    f"daemon CPU-s/GiB {med(cpus['peer']):.3f} and {med(cpus['us']):.3f} ({med(cpus['us']) / max(med(cpus['peer']), 1e-9):.2f}x)")


# ---- loaders ----

LOADERS = {
    "safetensors": ("model.safetensors", """
from safetensors.torch import load_file
n = sum(t.clone().numel() * t.element_size() for t in load_file(P).values())"""),
    "safe_open": ("model.safetensors", """
from safetensors import safe_open
n = 0
with safe_open(P, "pt") as f:
    for k in f.keys():
        n += f.get_tensor(k).clone().numel() * 4"""),
    "torch.load(mmap)": ("model.pt", """
n = sum(t.clone().numel() * t.element_size() for t in torch.load(P, mmap=True, weights_only=True).values())"""),
    "torch.load": ("model.pt", """
n = sum(t.numel() * t.element_size() for t in torch.load(P, weights_only=True).values())"""),
    "fastsafetensors": ("model.safetensors", """
from fastsafetensors import SafeTensorsFileLoader, SingleGroup
l = SafeTensorsFileLoader(SingleGroup(), torch.device("cpu"), nogds=True)
l.add_filenames({0: [P]})
b = l.copy_files_to_device()
n = sum(b.get_tensor(k).numel() * 4 for k in l.get_keys())"""),
    "runai streamer": ("model.safetensors", """
from runai_model_streamer import SafetensorsStreamer
n = 0
with SafetensorsStreamer() as s:
    s.stream_file(P)
    for k, t in s.get_tensors():
        n += t.numel() * 4"""),
}
NEEDS = {"fastsafetensors": "fastsafetensors", "runai streamer": "runai_model_streamer"}


def load_with(code, path):
    """Seconds a fresh process needs, without its imports."""
    prog = f"import time, torch\nP = {path!r}\nimport safetensors.torch\nstart = time.monotonic()\n{code}\nprint('\\nRESULT', time.monotonic() - start, n)"
    r = subprocess.run([sys.executable, "-c", prog], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(r.stderr.strip()[-400:])
    s, n = next(x for x in r.stdout.splitlines() if x.startswith("RESULT")).split()[1:]
    return int(n) / float(s) / 1e9


def bench_loaders():
    import importlib.util
    for layout in (x for x in A.layouts.split(",") if x in ("rows4", "cols4")):
        ckpt = make_ckpt(layout)
        for name, (view, code) in LOADERS.items():
            if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
                say(f"{name}: not installed, left out")
                continue
            with ours(ckpt, view) as us:
                real = real_copy(us.file, f"real-{layout}-{A.gib:g}.{view.split('.')[1]}")
                with peer(real) as p:
                    rates = {"peer": [], "us": [], "local": []}
                    for i in range(A.rounds + 1):
                        for who, path in (("peer", p.file), ("us", us.file), ("local", real)):
                            if who != "local":
                                cold(path)
                            r = load_with(code, path)
                            if i:
                                rates[who].append(r)
                                keep("loaders", loader=name, layout=layout, who=who, gb_s=r)
                    ratio = med([u / q for u, q in zip(rates["us"], rates["peer"])])
                    row("loaders", f"{name}, {layout}", med(rates["peer"]), med(rates["us"]), "GB/s", ratio, f"real local file {med(rates['local']):.3g} GB/s")


# ---- export ----

def floor_write(path, size, jobs):
    """Parallel pwrite of as many bytes: what any export must at least do."""
    block = bytes(os.urandom(1 << 20)) * 8
    fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    t = time.monotonic()
    os.ftruncate(fd, size)

    def part(k):
        for off in range(k * len(block), size, jobs * len(block)):
            os.pwrite(fd, block[:min(len(block), size - off)] if size - off < len(block) else block, off)

    with concurrent.futures.ThreadPoolExecutor(jobs) as ex:
        list(ex.map(part, range(jobs)))
    os.close(fd)
    return time.monotonic() - t


def run_sampled(args):
    """(seconds, CPU seconds, peak RssAnon in bytes) of a command, its memory sampled every 2 ms."""
    peak, done = [0], threading.Event()
    t = time.monotonic()
    p = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def watch():
        while not done.is_set():
            try:
                with open(f"/proc/{p.pid}/status") as f:
                    for line in f:
                        if line.startswith("RssAnon"):
                            peak[0] = max(peak[0], int(line.split()[1]) << 10)
                            break
            except OSError:
                return
            done.wait(0.002)

    w = threading.Thread(target=watch)
    w.start()
    err = p.stderr.read()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    s = time.monotonic() - t
    done.set()
    w.join()
    if p.returncode:
        raise RuntimeError(f"{args[:2]}: exit {p.returncode}: {err.strip()[-300:]}")
    return s, usage.ru_utime + usage.ru_stime, peak[0]


TORCH_EXPORT = """
import time, torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
t = time.monotonic()
dcp_to_torch_save({src!r}, {dst!r})
print(time.monotonic() - t)"""

HF_CONSOLIDATE = """
import time, torch
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
t = time.monotonic()
consolidate_safetensors_files({src!r}, {dst!r}, {{k: 1 for k in {keys!r}}}, num_threads={jobs})
print(time.monotonic() - t)"""


def python_seconds(prog):
    """The seconds the program prints: its own work without the imports."""
    r = subprocess.run([sys.executable, "-W", "ignore", "-c", prog], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(r.stderr.strip()[-600:])
    return float(r.stdout.split()[-1])


def make_hf_sharded(ckpt, layout):
    """The same values as HuggingFaceStorageWriter's shards: what its consolidation starts from."""
    import torch
    from safetensors.torch import save_file
    from torch.distributed.checkpoint import FileSystemReader
    path = os.path.join(A.data, f"hf-{layout}-{A.gib:g}")
    md = FileSystemReader(ckpt).read_metadata()
    keys = [k for k, v in md.state_dict_metadata.items() if hasattr(v, "size")]
    if not os.path.exists(path):
        import io
        say(f"making {path}")
        os.makedirs(path + ".tmp", exist_ok=True)
        files = {}
        for i, s in md.storage_data.items():
            if i.offset is not None:
                files.setdefault(s.relative_path, []).append((i, s))
        for n, (f, items) in enumerate(sorted(files.items())):
            with open(os.path.join(ckpt, f), "rb") as fh:
                t = {}
                for i, s in items:
                    fh.seek(s.offset)
                    t[i.fqn] = torch.load(io.BytesIO(fh.read(s.length)))
            info = {i.fqn: {"saved_offsets": list(i.offset)} for i, _ in items}
            save_file(t, f"{path}.tmp/shard-{n + 1:05}-model-00001-of-00001.safetensors", metadata={"DCP_SHARDING_INFO": json.dumps(info), "DCP_VERSION": "1.0", "format": "pt"})
        os.rename(path + ".tmp", path)
    return path, keys


def bench_export():
    jobs = os.cpu_count()
    for layout in (x for x in A.layouts.split(",") if x in ("rows4", "cols64")):
        ckpt = make_ckpt(layout)
        out = os.path.join(A.data, "out")
        for fmt in ("pt", "safetensors"):
            if fmt == "safetensors":
                hf, keys = make_hf_sharded(ckpt, layout)
            t = {"peer": [], "us": [], "floor": []}
            size, anon, cpus = 0, [], []
            for i in range(A.rounds + 1):
                for f in os.listdir(A.data):
                    if f.startswith("out"):
                        p = os.path.join(A.data, f)
                        shutil.rmtree(p) if os.path.isdir(p) else os.unlink(p)
                s, c, a = run_sampled([A.bin, "export", ckpt, f"{out}.{fmt}", "--quiet"])
                size = os.path.getsize(f"{out}.{fmt}")
                os.unlink(f"{out}.{fmt}")
                fl = floor_write(f"{out}.floor", size, jobs)
                os.unlink(f"{out}.floor")
                pe = None
                if not 1 <= i <= 3:  # the peer is slow and steady
                    pass
                elif fmt == "pt":
                    pe = python_seconds(TORCH_EXPORT.format(src=ckpt, dst=f"{out}.peer"))
                    os.unlink(f"{out}.peer")
                else:
                    os.makedirs(f"{out}.hf")
                    pe = python_seconds(HF_CONSOLIDATE.format(src=hf, dst=f"{out}.hf", keys=keys, jobs=jobs))
                    shutil.rmtree(f"{out}.hf")
                if i:
                    for who, x in (("peer", pe), ("us", s), ("floor", fl)):
                        if x is None:
                            continue
                        t[who].append(x)
                        keep("export", format=fmt, layout=layout, who=who, seconds=x)
                    anon.append(a)
                    cpus.append(c)
            over_floor = med([u / f for u, f in zip(t["us"], t["floor"])])
            row("export", f".{fmt}, {layout}", med(t["peer"]), med(t["us"]), "s", med([q / u for u, q in zip(t["us"], t["peer"])]),
                f"floor {med(t['floor']):.3g} s, {over_floor:.2f}x of it; RssAnon {max(anon) >> 20} MiB; {med(cpus) / (size / GIB):.2f} CPU-s/GiB")


# ---- metadata ----

READ_METADATA = """
import gc, time, torch
from torch.distributed.checkpoint import FileSystemReader
{gc}
t = time.monotonic()
m = FileSystemReader({src!r}).read_metadata()
print(time.monotonic() - t)"""


def make_metadata():
    n, ranks = A.chunks
    path = os.path.join(A.data, f"metadata-{n}x{ranks}")
    if not os.path.exists(f"{path}/.metadata"):
        say(f"making {path}")
        subprocess.run([sys.executable, os.path.join(HERE, "make_metadata.py"), path, str(n), str(ranks)], check=True, stdout=sys.stderr)
    return path


def bench_metadata():
    path = make_metadata()
    t = {"gc on": [], "gc off": [], "us": []}
    info = {}
    for i in range(A.rounds + 1):
        r = subprocess.run([os.path.join(A.helpers, "load_metadata"), path], capture_output=True, text=True)
        if r.returncode:
            raise RuntimeError(r.stderr)
        info = json.loads(r.stdout)
        keep("metadata", who="us", **info)
        if i:
            t["us"].append(info["seconds"])
            if i <= 3:  # slow and steady
                t["gc on"].append(python_seconds(READ_METADATA.format(src=path, gc="")))
                t["gc off"].append(python_seconds(READ_METADATA.format(src=path, gc="gc.disable()")))
    size = os.path.getsize(f"{path}/.metadata")
    note = (f"{info['chunks']} chunks, {size} bytes; resident {info['resident_per_chunk']} B a chunk, peak with the file {info['peak_per_chunk']} B a chunk")
    for g in ("gc on", "gc off"):
        row("metadata", f"read_metadata, {g}", med(t[g]), med(t["us"]), "s", med(t[g]) / med(t["us"]), note)
        keep("metadata", who=g, seconds=t[g])


# ---- metadata of a save ----

# The object as the coordinator has it, with the strings and sizes that each rank's results brought; FileSystemWriter.finish() dumps it so.
DUMP_METADATA = """
import gc, json, os, pickle, sys, time, torch
gc.disable()
with open({src!r}, "rb") as f:
    m = pickle.load(f)
times = {{}}
for name, switch in (("gc off", gc.disable), ("gc on", gc.enable)):
    switch()
    t, cpu = time.monotonic(), time.process_time()
    with open({to!r}, "wb") as f:
        pickle.dump(m, f)
    times[name], times[name + " cpu"] = time.monotonic() - t, time.process_time() - cpu
print(json.dumps({{"bytes": os.path.getsize({to!r}), **times}}))"""


def bench_save_metadata():
    """The pickle alone, into a file in memory."""
    path = make_metadata()
    to, ours = os.path.join(A.data, "dumped"), os.path.join(A.data, "written")
    os.makedirs(ours, exist_ok=True)
    t = {"gc on": [], "gc off": [], "us": []}
    for i in range(A.rounds + 1):
        info = json.loads(subprocess.run([os.path.join(A.helpers, "save_metadata"), f"{ours}/.metadata", *map(str, A.chunks)], check=True, capture_output=True).stdout)
        keep("save_metadata", who="us", **info)
        if i:
            t["us"].append(info["seconds"])
            if i <= 3:  # slow and steady
                peer = json.loads(subprocess.run([sys.executable, "-c", DUMP_METADATA.format(src=f"{path}/.metadata", to=to)], check=True, capture_output=True).stdout)
                keep("save_metadata", who="torch", **peer)
                for g in ("gc on", "gc off"):
                    t[g].append(peer[g])
    loads = python_seconds(READ_METADATA.format(src=ours, gc="gc.disable()")), python_seconds(READ_METADATA.format(src=path, gc="gc.disable()"))
    note = f"{info['chunks']} chunks; {info['bytes']} bytes, torch's {peer['bytes']}; torch reads ours in {loads[0]:.1f} s, its own in {loads[1]:.1f} s (gc off)"
    for g in ("gc on", "gc off"):
        cpu = f"CPU {peer[g + ' cpu']:.1f} s and {info['cpu']:.2f} s in the last round; "
        row("save_metadata", f"pickle.dump, {g}", med(t[g]), med(t["us"]), "s", med(t[g]) / med(t["us"]), cpu + note)


# ---- plan of a save ----

def bench_plan():
    def run(*args):
        r = subprocess.run(args, capture_output=True, text=True)
        if r.returncode:
            raise RuntimeError(r.stderr)
        return json.loads(r.stdout)

    for ranks in A.plan_ranks:
        size = (str(A.plan_tensors), str(ranks))
        info = None
        t = {"gc on": [], "gc off": [], "us": []}
        for i in range(A.rounds):
            info = run(os.path.join(A.helpers, "save_plan"), *size)
            t["us"].append(info["plan_s"] + info["layout_s"])
            keep("plan", who="us", ranks=ranks, **info)
            if i < (3 if ranks <= 256 else 1):  # slow and steady
                peer = run(sys.executable, os.path.join(HERE, "plan_torch.py"), *size)
                if peer["chunks"] != info["chunks"]:
                    raise RuntimeError(f"torch plans {peer['chunks']} chunks, we {info['chunks']}")
                for g in ("gc on", "gc off"):
                    t[g].append(peer[g])
                keep("plan", who="torch", ranks=ranks, **peer)
        note = f"{info['chunks']} chunks, records of {info['record_bytes'] >> 20} MiB, peak {info['peak_bytes'] / (1 << 20):.0f} MiB beside them; a rank encodes in {info['encode_s'] * 1e3:.2f} ms"
        for g in ("gc on", "gc off"):
            row("plan", f"DefaultSavePlanner, {A.plan_tensors} tensors x {ranks} ranks, {g}", med(t[g]), med(t["us"]), "s", med(t[g]) / med(t["us"]), note)


def bench_save():
    """Saves of 4 ranks to tmpfs: seconds, what the caller waits for in the background, memory beside the state."""
    size = (str(A.save_tensors), "4")
    gib = A.save_tensors * 4 * (16 << 20) / (1 << 30)
    ours = lambda *a: fresh(os.path.join(A.helpers, "save_ranks"), *a)
    peers = {"dcp.save, thread_count 1": ("save", 1), "dcp.save, thread_count 2": ("save", 2), "dcp.async_save": ("async", 1)}

    def fresh(*argv):
        where = os.path.join(A.data, "save")
        shutil.rmtree(where, ignore_errors=True)
        os.makedirs(where)
        argv = [argv[0], *((argv[1], where) if argv[1].endswith(".py") else (where,)), *argv[2 if argv[1].endswith(".py") else 1:]]
        r = run(*argv)
        shutil.rmtree(where)
        return r

    t = {}
    for _ in range(A.rounds):
        for who, (mode, threads) in peers.items():
            t.setdefault(who, []).append(fresh(sys.executable, os.path.join(HERE, "save_torch.py"), *size, mode, str(threads)))
        for mode in ("save", "async", "write", "write-crc", "memcpy"):
            t.setdefault(mode, []).append(ours(*size, mode))
            keep("save", who=mode, **t[mode][-1])
    m = lambda who, what: med([x[what] for x in t[who]])
    note = f"{gib:.1f} GiB over 4 ranks; memory beside the state {m('save', 'rss_bytes') / (1 << 20):.0f} MiB"
    for who in ("dcp.save, thread_count 1", "dcp.save, thread_count 2"):
        row("save", f"{who}: second save", m(who, "second_s"), m("save", "second_s"), "s", m(who, "second_s") / m("save", "second_s"), note)
    row("save", "each rank write(2)s its bytes", m("write", "second_s"), m("save", "second_s"), "s", m("write", "second_s") / m("save", "second_s"), note)
    row("save", "the same with CRC-32", m("write-crc", "second_s"), m("save", "second_s"), "s", m("write-crc", "second_s") / m("save", "second_s"), note)
    for which, what in (("save_s", "stall_s"), ("second_s", "second_stall_s")):
        n = f"{'first' if which == 'save_s' else 'second'} save; memory beside the state {m('async', 'rss_bytes') / (1 << 20):.0f} MiB"
        row("save", "stall: memcpy of the same bytes", m("memcpy", which), m("async", what), "s", m("memcpy", which) / m("async", what), n)
        row("save", "stall: dcp.async_save", m("dcp.async_save", what), m("async", what), "s", m("dcp.async_save", what) / m("async", what), n)


WORKS = {"save": bench_save, "metadata": bench_metadata, "save_metadata": bench_save_metadata, "plan": bench_plan, "seq": lambda: bench_reads("seq", read_seq), "mmap": lambda: bench_reads("mmap", read_mmap), "loaders": bench_loaders, "export": bench_export}


def main():
    os.makedirs(A.data, exist_ok=True)
    code = 0
    for name in WORKS if A.work == "all" else (A.work,):
        say(name)
        try:
            WORKS[name]()
        except (RuntimeError, OSError, subprocess.SubprocessError) as e:
            say(f"{name}: {e}")
            code = 1
    print("| work | what | peer | shardfuse | ratio | |\n|---|---|---|---|---|---|")
    for r in TABLE:
        print("| " + " | ".join(r) + " |")
    if A.json:
        with open(A.json, "w") as f:
            json.dump({"host": os.uname().release, "cpus": os.cpu_count(), "samples": SAMPLES}, f, indent=1)
    if A.clean:
        shutil.rmtree(A.data)
    return code


if __name__ == "__main__":
    sys.exit(main())
