#!/usr/bin/env python3
"""reshard, import, export --format dcp: what is written anew has the same keys, bytes, values and nesting, in bounded memory, whole or not at all."""
import shutil

from common import *

need_program()
import torch.distributed.checkpoint as dcp

TMP = tempfile.mkdtemp(prefix="sf-reshard-")
MIB = 1 << 20
FAMILIES = ["dcp/fsdp4", "dcp/nested", "dcp/dtypes", "dcp/columns", "dcp/hf_flat", "dcp/tied", "dcp/neg_ints", "dcp/evil_names", "dcp-2.14/tp_col4", "dcp/safetensors",
            "megatron/0.15.3-flat", "olmo/olmo_core", "rankfiles-2.13/sharded_3", "deepspeed-0.19/z2b", "composer-0.32/ep0-ba2", "lightning-2.6/fsdp"]


def path(name):
    return os.path.join(TMP, name)


def expect(name, r, code, err=None):
    return check(name, r.returncode == code and (err is None or err in r.stderr), f"exit {r.returncode}, {r.stdout[-300:]!r}, {r.stderr[-500:]!r}")


def nothing_left(name, *also):
    left = sorted(n for n in os.listdir(TMP) if n.startswith(name))
    return check(f"{name}: nothing is left", left == sorted(also), left)


def source_of(family):
    """The checkpoint of a case: its directory, or the first below it that is one."""
    for d, _, _ in sorted(os.walk(f"{DATA}/{family}")):
        if run("info", d).returncode == 0:
            return d
    return None


def same_keys(name, source, target):
    r = run("diff", "--values", source, target)
    check(f"{name}: the same keys and values", r.returncode == 0, r.stdout[-600:] + r.stderr)


def families():
    for family in FAMILIES:
        source = source_of(family)
        if not source:
            skip(family, "no such case, or this program cannot read it")
            continue
        want = reference(source)
        for ranks in (1, 3, 8):
            target = path(f"{family.replace('/', '-')}-{ranks}")
            with attempt(f"{family} to {ranks}"):
                if not expect(f"{family} to {ranks}", run("reshard", source, target, "--ranks", ranks), 0):
                    continue
                same_keys(f"{family} to {ranks}", source, target)
                if want is not None and ranks != 8 and "lightning" not in family:  # its meta.pt becomes keys
                    diff = same(want, reference(target), order=False)
                    check(f"{family} to {ranks}: dcp_to_torch_save makes the same", diff is None, diff)
                shards = [n for n in os.listdir(target) if n.endswith(".distcp")]
                check(f"{family} to {ranks}: a shard a rank", 1 <= len(shards) <= ranks, shards)
                nothing_left(os.path.basename(target), os.path.basename(target))


def slices():
    """Each rank has the rows that torch.chunk gives it, in its own file; dcp.load reads them."""
    state = {"w": torch.arange(1001 * 64, dtype=torch.float32).reshape(1001, 64), "few": torch.arange(3 * 4096, dtype=torch.int64).reshape(3, 4096),
             "one": torch.arange(8192, dtype=torch.int16).reshape(1, 8192), "scalar": torch.tensor(2.5), "none": torch.zeros(0, 4), "nest": {"l": [torch.ones(2), {"x": 5}], "s": "t"}}
    dcp.save(state, checkpoint_id=path("slices"), no_dist=True)
    for ranks in (2, 8):
        target = path(f"slices-{ranks}")
        if not expect(f"slices to {ranks}", run("reshard", path("slices"), target, "--ranks", ranks), 0):
            continue
        m = metadata(target)
        got = sorted((c.offsets[0], c.sizes[0]) for c in m.state_dict_metadata["w"].chunks)
        want, at = [], 0
        for part in torch.chunk(torch.empty(1001), ranks):
            want.append((at, len(part)))
            at += len(part)
        check(f"slices to {ranks}: rows as torch.chunk cuts", got == want, got)
        files = {i.fqn: set() for i in m.storage_data}
        for i, s in m.storage_data.items():
            files[i.fqn].add(s.relative_path)
        check(f"slices to {ranks}: each in a file of its own", len(files["w"]) == ranks and len(files["few"]) == min(3, ranks) and len(files["one"]) == 1, files)
        load = {"w": torch.zeros(1001, 64), "few": torch.zeros(3, 4096, dtype=torch.int64), "one": torch.zeros(1, 8192, dtype=torch.int16)}
        dcp.load(load, checkpoint_id=target, no_dist=True)
        check(f"slices to {ranks}: dcp.load", all(torch.equal(load[k], state[k]) for k in load))
        diff = same(reference(path("slices")), reference(target), order=False)
        check(f"slices to {ranks}: nested as before", diff is None, diff)
    expect("slices, 8 to 2", run("reshard", path("slices-8"), path("slices-8-2"), "--ranks", 2), 0)
    same_keys("8 to 2", path("slices"), path("slices-8-2"))
    expect("slices, to 2 again", run("reshard", path("slices"), path("again"), "--ranks", 2), 0)
    names = sorted(os.listdir(path("again")))
    check("the same every time", names == sorted(os.listdir(path("slices-2"))) and all(filecmp.cmp(f"{path('slices-2')}/{n}", f"{path('again')}/{n}", False) for n in names if n.endswith(".distcp")))
    chosen = path("chosen")
    expect("--key and --map", run("reshard", path("slices"), chosen, "--ranks", 2, "--key", "w", "--map", "w=a.b"), 0)
    r = run("keys", chosen)
    check("--key and --map choose and name", r.stdout.split() == ["a.b"], r.stdout)


def imports():
    torch.save({"a": torch.arange(5), "b": {"c": 1, "w": torch.ones(300, 7)}}, path("x.pt"))
    safetensors.torch.save_file({"s": torch.arange(6.0)}, path("y.safetensors"))
    if expect("import of two files", run("import", path("x.pt"), path("y.safetensors"), path("two"), "--ranks", 3), 0):
        got = reference(path("two"))
        diff = same({**torch.load(path("x.pt")), "s": torch.arange(6.0)}, got, order=False)
        check("import of two files is read by torch", diff is None, diff)
    os.mkdir(path("np"))
    arrays = {"rows": np.arange(30000, dtype=np.float32).reshape(300, 100), "columns": np.asfortranarray(np.arange(6000, dtype=np.int16).reshape(20, 30, 10)),
              "scalar": np.array(7, np.int64), "none": np.zeros((0, 4), np.uint8), "bool.name": np.array([True, False]), "complex": np.array([1 + 2j, 3], np.complex64)}
    for k, a in arrays.items():
        np.save(path(f"np/{k}.npy"), a)
    np.lib.format.write_array(open(path("np/v3.npy"), "wb"), np.arange(4), version=(3, 0))
    arrays["v3"] = np.arange(4)
    if expect("import of .npy files", run("import", *(path(f"np/{k}.npy") for k in arrays), path("arrays"), "--ranks", 3), 0):
        diff = same({k: torch.from_numpy(np.ascontiguousarray(a).reshape(a.shape)) for k, a in arrays.items()}, reference(path("arrays")), order=False)
        check("import of .npy files is read by torch", diff is None, diff)
    for name, a in (("text", np.array(["x"])), ("big", np.arange(3, dtype=">f4"))):
        np.save(path(f"np/{name}.npy"), a)
        expect(f"import of a .npy of {name}", run("import", path(f"np/{name}.npy"), path("refused")), 1, err=f"{name}.npy")
    whole = open(path("np/rows.npy"), "rb").read()
    for name, data in (("short", whole[:-1]), ("headless", whole[:50]), ("empty", b""), ("noise", b"\x93NUMPY\1\0\x40\0" + b"{" * 64), ("huge", whole[:10] + whole[10:].replace(b"300,", b"9" * 30 + b",")[:9000])):
        with open(path("np/bad.npy"), "wb") as f:
            f.write(data)
        expect(f"a .npy that is {name}", run("import", path("np/bad.npy"), path("refused")), 1, err="bad.npy")
    nothing_left("refused")
    safetensors.torch.save_file({"a": torch.arange(6.0)}, path("z.safetensors"))
    expect("a key twice names both files", run("import", path("x.pt"), path("z.safetensors"), path("twice")), 1, err="key 'a' is in")
    nothing_left("twice")
    src = source_of("dcp/fsdp4")
    if expect("export --format dcp", run("export", src, path("exported"), "--format", "dcp"), 0):
        same_keys("export --format dcp", src, path("exported"))
    expect("export --format dcp --ranks", run("export", src, path("exported3"), "--format", "dcp", "--ranks", 3, "--no-optim"), 0)
    keys = run("keys", path("exported3")).stdout.split()
    check("--no-optim leaves the optimizer out", keys and not any(k.startswith("optim") for k in keys), keys[:5])
    if expect("--format olmo", run("reshard", src, path("olmo"), "--ranks", 2, "--format", "olmo"), 0):
        check("--format olmo: info", jrun("info", path("olmo"))["format"].startswith("olmo"))


def usage():
    src = source_of("dcp/fsdp4")
    for args, err in ((("reshard", src, path("u")), "--ranks"), (("reshard", src, path("u"), "--ranks", 0), "--ranks"), (("reshard", src, path("u"), "--ranks", 1025), "1024"),
                      (("reshard", src, path("u"), "--ranks", "x"), "x"), (("reshard", src), "TARGET"), (("import", src), "TARGET"), (("import", src, path("u"), "--format", "tar"), "tar"),
                      (("reshard", src, "s3://bucket/u", "--ranks", 2, "--force"), "not replaced"), (("import", src, "s3://me:secret@bucket/u"), "s3://"), (("import", src, "https://me:secret@host/u"), "https://host/u"),
                      (("export", src, path("u"), "--ranks", 2, "--format", "pt"), "--ranks"), (("export", src, path("u"), "--format", "dcp", "--strategy", "chunks"), "--strategy"),
                      (("reshard", src, path("u"), "--ranks", 1024, "--memory", "64M"), "--memory"), (("reshard", src, path("u"), "--ranks", 2, "--objects", "plain"), "plain")):
        r = run(*args)
        expect(f"usage: {' '.join(map(str, args[2:]))}", r, 2, err=err)
        check("no secret is shown", "secret" not in r.stderr, r.stderr)
    expect("no such source", run("reshard", path("nowhere"), path("u"), "--ranks", 2), 1, err="nowhere")
    expect("no such directory", run("reshard", src, path("no/such/dir"), "--ranks", 2), 1, err="no/such")
    expect("no key", run("reshard", src, path("u"), "--ranks", 2, "--key", "no.such.key"), 1, err="no.such.key")
    nothing_left("u")


def overwrite():
    src = source_of("dcp/fsdp4")
    target = path("over")
    shutil.copytree(src, target)
    os.chmod(target, 0o755)
    expect("what is there is not replaced", run("reshard", src, target, "--ranks", 2), 1, err="not empty")
    same_keys("what was there is whole", src, target)
    expect("--force replaces a checkpoint", run("reshard", src, target, "--ranks", 2, "--force"), 0)
    same_keys("what replaced it is whole", src, target)
    nothing_left("over", "over")
    os.mkdir(path("mine"))
    with open(path("mine/letter"), "w", encoding="utf-8") as f:
        f.write("dear")
    expect("--force replaces nothing else", run("reshard", src, path("mine"), "--ranks", 2, "--force"), 1, err="no checkpoint")
    check("it is as it was", os.listdir(path("mine")) == ["letter"])
    expect("itself", run("reshard", target, target, "--ranks", 3, "--force"), 1, err="is what is read")
    expect("within the source", run("reshard", target, f"{target}/in", "--ranks", 3), 1, err="within")
    shutil.copytree(target, path("outer"))
    shutil.copytree(target, path("outer/inner"))
    expect("around the source", run("reshard", path("outer/inner"), path("outer"), "--ranks", 3, "--force"), 1, err="within")
    os.symlink(path("outer"), path("link"))
    expect("by way of a link", run("reshard", path("link/inner"), path("outer"), "--ranks", 3, "--force"), 1, err="within")
    os.rename(path("outer/inner"), path("over2-tmp"))
    expect("what a save of the target would remove", run("reshard", path("over2-tmp"), path("over2"), "--ranks", 3), 1, err="which goes")
    os.mkdir(path("hub"))  # files that are links into another checkpoint
    for n in os.listdir(target):
        os.symlink(f"{target}/{n}", f"{path('hub')}/{n}")
    expect("files of the source by way of links", run("reshard", path("hub"), target, "--ranks", 3, "--force"), 1, err="is a file of the checkpoint")
    same_keys("all of it is whole", src, target)


def large():
    """A tensor of 200 MB and others: written in 64 MB; interrupted, killed, and done again."""
    rng = np.random.default_rng(1)
    state = {"big": torch.from_numpy(rng.integers(0, 1 << 31, 50 << 20, dtype=np.int32)), "m": {f"w{i}": torch.full((512, 1024), float(i)) for i in range(50)}}
    dcp.save(state, checkpoint_id=path("large"), no_dist=True)
    del state
    if shutil.disk_usage(TMP).free < 2 << 30:
        return skip("large", "less than 2 GB of disk")
    args = [BIN, "reshard", path("large"), path("large-8"), "--ranks", "8", "--memory", "64M", "-q"]

    def start():
        return subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def stopped():
        """One that is stopped while it writes; None: it was too fast."""
        p = start()
        while p.poll() is None and not os.path.exists(path("large-8-tmp")):
            time.sleep(0.001)
        p.send_signal(signal.SIGSTOP)
        if p.poll() is not None or os.path.exists(path("large-8")):
            p.send_signal(signal.SIGCONT)
            p.communicate(timeout=100)
            shutil.rmtree(path("large-8"), ignore_errors=True)
            return None
        return p

    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        p = next((p for _ in range(10) if (p := stopped())), None)
        if not p:
            skip(f"signal {sig}", "it was done before it could be told")
            continue
        check(f"signal {sig}: nothing looks complete", run("info", path("large-8")).returncode != 0)
        p.send_signal(sig)
        p.send_signal(signal.SIGCONT)
        p.communicate(timeout=100)
        check(f"signal {sig}: it ended of it", p.returncode == -sig, p.returncode)
        if os.path.exists(path("large-8")) and sig != signal.SIGKILL:  # told when all was written
            same_keys("signal at the end", path("large"), path("large-8"))
            shutil.rmtree(path("large-8"))
        check(f"signal {sig}: no target", not os.path.exists(path("large-8")))
        if sig != signal.SIGKILL:
            nothing_left("large-8")
    most = 0
    p = start()
    while p.poll() is None:
        with open(f"/proc/{p.pid}/status", encoding="utf-8") as f:
            most = max([most] + [int(line.split()[1]) << 10 for line in f if line.startswith("RssAnon:")])
        time.sleep(0.002)
    check("large: it succeeds", p.returncode == 0, p.communicate()[1])
    print(f"large: RssAnon {most / MIB:.0f} MiB at most")
    if not os.environ.get("SF_SANITIZED"):
        check("large: memory is bounded", most < 96 * MIB, most)
    nothing_left("large-8", "large-8")
    same_keys("large", path("large"), path("large-8"))
    r = run("verify", "--deep", path("large-8"))
    check("large: verify --deep", r.returncode == 0, r.stdout + r.stderr)


try:
    for part in (imports, slices, usage, overwrite, families, large):
        with attempt(part.__name__):
            part()
finally:
    shutil.rmtree(TMP, ignore_errors=True)
finish()
