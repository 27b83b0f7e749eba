"""contrib/python among ranks (gloo): DTensor and FSDP shards saved by our writer and loaded by torch's reader into other meshes, and the other way round.

The program starts itself anew as each rank: test_python_ranks.py RANK SIZE PORT FOLDER. Optional: SF_SIZES = "4 2", SF_PARTS = glob over the functions that
ranks run, SF_LIMIT = seconds until one that hangs is a failure.
"""
import threading

import common
from python_module import *

import torch.distributed as dist  # noqa: E402
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner  # noqa: E402
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict  # noqa: E402
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor  # noqa: E402

HOW = {"torch's": (dcp.FileSystemWriter, dcp.FileSystemReader), "ours": (shardfuse.StorageWriter, shardfuse.StorageReader)}
MESHES = {4: [((4,), [Shard(0)]), ((4,), [Shard(1)]), ((2, 2), [Replicate(), Shard(0)]), ((2, 2), [Shard(1), Shard(0)])],
          2: [((2,), [Shard(0)]), ((2,), [Replicate()])], 1: [((1,), [Shard(0)])]}


def whole(seed):
    """The state dict that all ranks have parts of, undivided: sizes that do not divide, one smaller than there are ranks."""
    g = torch.Generator().manual_seed(seed)
    r = lambda *shape: torch.randn(shape, generator=g)  # noqa: E731
    return {"model": {"w": r(37, 13), "norm": r(13, 2).to(torch.bfloat16), "small": r(3, 3), "layers": [{"w": r(8, 8)}, {"w": r(5, 7)}]},
            "optim": {"state": {"model.w": {"exp_avg": r(37, 13), "step": torch.tensor(float(seed))}}}, "step": seed, "names": ["a", ("b", None)]}


def divided(v, mesh, placements):
    """Its tensors of two dimensions as DTensors."""
    if isinstance(v, dict):
        return {k: divided(x, mesh, placements) for k, x in v.items()}
    if isinstance(v, list):
        return [divided(x, mesh, placements) for x in v]
    return distribute_tensor(v, mesh, placements, src_data_rank=None) if isinstance(v, torch.Tensor) and v.dim() == 2 else v


def undivided(v):
    if isinstance(v, dict):
        return {k: undivided(x) for k, x in v.items()}
    if isinstance(v, list):
        return [undivided(x) for x in v]
    return v.full_tensor() if isinstance(v, DTensor) else v


def zeroed(v):
    if isinstance(v, dict):
        return {k: zeroed(x) for k, x in v.items()}
    if isinstance(v, list):
        return [zeroed(x) for x in v]
    return torch.zeros_like(v) if isinstance(v, torch.Tensor) else None


def loads(name, path, want, how, shape, placements):
    state = zeroed(divided(want, init_device_mesh("cpu", shape), placements))
    dcp.load(state, storage_reader=HOW[how][1](path))
    why = same(want, undivided(state))
    check(f"{name}: {how} reader into {shape} {placements}", why is None, why)


# ---- what ranks do ----

def meshes(rank, size, folder):
    """From each mesh by either writer, to each by the other's reader."""
    for i, (shape, placements) in enumerate(MESHES[size]):
        want = whole(i)
        for writer, reader in (("ours", "torch's"), ("torch's", "ours")):
            path = f"{folder}/{reader[0]}{i}"
            name = f"{shape} {placements} by {writer}"
            with attempt(name):
                dcp.save(divided(want, init_device_mesh("cpu", shape), placements), storage_writer=HOW[writer][0](path))
                for to in MESHES[size]:
                    loads(name, path, want, reader, *to)
                if writer == "ours" and rank == 0:
                    boxes = [c for t in metadata(path).state_dict_metadata.values() if hasattr(t, "chunks") for c in t.chunks]
                    stored = metadata(path).storage_data
                    check(f"{name}: what is replicated is stored once", len(stored) == len(boxes) + 2 and len({(s.relative_path, s.offset) for s in stored.values()}) == len(stored),
                          (len(stored), len(boxes)))


def elsewhere(rank, size, folder):
    """What four ranks saved, by as many as we are."""
    for i, (shape, placements) in enumerate(MESHES[4]):
        for prefix in "to":
            for how in HOW:
                with attempt(f"{prefix}{i} by {how} reader"):
                    loads(f"4 ranks' {shape} {placements}", f"{folder}/{prefix}{i}", whole(i), how, *MESHES[size][0])


def fsdp(rank, size, folder):
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(5)
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicate", "shard")) if size > 2 else init_device_mesh("cpu", (size,))

    def made():
        model = torch.nn.Sequential(torch.nn.Linear(7, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        for layer in (model[0], model[2], model):
            fully_shard(layer, mesh=mesh)
        return model, torch.optim.AdamW(model.parameters(), lr=1e-2)

    def trained(model, optim, seed):
        torch.manual_seed(seed)
        for _ in range(2):
            model(torch.randn(4, 7)).square().mean().backward()
            optim.step()
            optim.zero_grad()
        return undivided(get_both(model, optim))

    def get_both(model, optim):
        m, o = get_state_dict(model, optim)
        return {"model": m, "optim": o}

    first = made()
    want = trained(*first, 6)
    dcp.save(get_both(*first), storage_writer=shardfuse.StorageWriter(f"{folder}/fsdp"))
    for how in HOW:
        second = made()
        state = get_both(*second)
        dcp.load(state, storage_reader=HOW[how][1](f"{folder}/fsdp"))
        set_state_dict(*second, model_state_dict=state["model"], optim_state_dict=state["optim"])
        why = same(want, undivided(get_both(*second)))
        check(f"FSDP: {how} reader", why is None, why)
    after = trained(*first, 7)
    check("FSDP: and training goes on alike", same(after, trained(*second, 7)) is None, same(after, trained(*second, 7)))


def asynchronous(rank, size, folder):
    """Two saves by one writer, in a thread, while the state changes."""
    mesh = init_device_mesh("cpu", (size,))
    writer = shardfuse.StorageWriter(f"{folder}/async", keep=True)
    for i in range(3):
        want = whole(20 + i)
        state = divided(want, mesh, [Shard(0)])
        future = dcp.async_save(state, checkpoint_id=f"{folder}/async{i % 2}", storage_writer=writer)
        for t in (state["model"]["w"], state["model"]["layers"][0]["w"]):
            t.to_local().zero_()
        future.result()
        for how in HOW:
            loads(f"async_save {i}", f"{folder}/async{i % 2}", want, how, (size,), [Shard(1)])


def by_process(rank, size, folder):
    want = whole(30)
    try:
        future = dcp.async_save(divided(want, init_device_mesh("cpu", (size,)), [Shard(0)]), storage_writer=shardfuse.StorageWriter(f"{folder}/process"),
                                async_checkpointer_type=AsyncCheckpointerType.PROCESS)
        future.result()
    except Exception as e:
        if any(word in str(e) for word in ("resolve", "getaddrinfo", "address")):
            return skip("async_save by a process", "this machine's own name has no address")
        raise
    loads("async_save by a process", f"{folder}/process", want, "torch's", (size,), [Shard(0)])


class Failing(DefaultSavePlanner):
    def resolve_data(self, item):
        if item.index.fqn == "model.w" and dist.get_rank() == dist.get_world_size() - 1:
            raise ZeroDivisionError("a planner that fails")
        return super().resolve_data(item)


def failing(rank, size, folder):
    """A rank that fails fails all of them, with its message; nothing is left, and what was there stays; the next save succeeds."""
    mesh, path = init_device_mesh("cpu", (size,)), f"{folder}/failing"
    writer = shardfuse.StorageWriter(path)
    for i in range(3):
        state = divided(whole(i), mesh, [Shard(0)])
        try:
            dcp.save(state, storage_writer=writer, planner=Failing())
            check(f"failure {i}: on all ranks", False)
        except CheckpointException as e:
            told = {r: str(why[0]) for r, why in e.failures.items()}
            check(f"failure {i}: on all ranks", set(told) == set(range(size)) and all("a planner that fails" in t for t in told.values()), told)
            check(f"failure {i}: the rank is named", all(f"rank {size - 1}" in t for r, t in told.items() if r != size - 1), told)
        dist.barrier()
        left = [f for f in os.listdir(folder) if f.startswith("failing")]
        check(f"failure {i}: what is left", left == ["failing"] * (i > 0), left)
        if i:
            loads(f"failure {i}: what was there", path, whole(i - 1), "torch's", (size,), [Shard(1)])
        dist.barrier()
        dcp.save(state, storage_writer=writer)
        loads(f"failure {i}: the next", path, whole(i), "torch's", (size,), [Shard(1)])
        dist.barrier()
    refused("not overwritten", lambda: dcp.save(state, storage_writer=shardfuse.StorageWriter(path, overwrite=False)), CheckpointException, "FileExistsError")
    refused("without collectives", lambda: dcp.save(state, storage_writer=shardfuse.StorageWriter(path), use_collectives=False), ValueError, "use_collectives")
    dist.barrier()


def planners(rank, size, folder):
    """torch's planner keeps plans from save to save: what ranks say of a save goes past it. Balanced or to the lowest rank."""
    mesh = init_device_mesh("cpu", (size,))
    planner = DefaultSavePlanner(enable_plan_caching=True)
    for i in range(4):
        want = whole(40 + i)
        if i == 2:  # another plan
            del want["model"]["small"]
        dcp.save(divided(want, mesh, [Shard(0)]), storage_writer=shardfuse.StorageWriter(f"{folder}/cached{i}"), planner=planner)
        loads(f"plans that are kept, {i}", f"{folder}/cached{i}", want, "torch's", (size,), [Shard(0)])
    want = whole(50)
    dcp.save(divided(want, mesh, [Replicate()]), storage_writer=shardfuse.StorageWriter(f"{folder}/lowest"), planner=DefaultSavePlanner(dedup_save_to_lowest_rank=True))
    dcp.save(want["model"], storage_writer=shardfuse.StorageWriter(f"{folder}/flat"), planner=DefaultSavePlanner(flatten_state_dict=False))
    if rank == 0:
        why = same(want, load_all(dcp.FileSystemReader(f"{folder}/lowest")))
        check("the lowest rank writes it", why is None and {s.relative_path for s in metadata(f"{folder}/lowest").storage_data.values()} == {"__0_0.distcp"}, why)
        check("not flattened", set(metadata(f"{folder}/flat").state_dict_metadata) == set(want["model"]))


def groups_of_ranks(rank, size, folder):
    """Two halves save at the same time, one of them led by its second rank; then each rank alone."""
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    made = [dist.new_group(h, backend="gloo") for h in halves]
    mine = rank >= size // 2
    want = whole(60 + mine)
    dcp.save(want, storage_writer=shardfuse.StorageWriter(f"{folder}/half{int(mine)}"), process_group=made[mine])
    dcp.save({"rank": rank, "w": torch.full((3,), float(rank))}, storage_writer=shardfuse.StorageWriter(f"{folder}/alone{rank}"), no_dist=True)
    got = zeroed(want)
    dcp.load(got, storage_reader=shardfuse.StorageReader(f"{folder}/half{int(mine)}"), no_dist=True)
    check("half of the ranks", same(want, got) is None, same(want, got))
    got = load_all(dcp.FileSystemReader(f"{folder}/alone{rank}"))
    check("a rank alone", got["rank"] == rank and got["w"].tolist() == [rank] * 3, got)
    dist.barrier()


def messages(rank, size, folder):
    """The communicator: order, empty and long ones, none yet, nothing left in the store."""
    from shardfuse.communicator import StoreCommunicator
    store = dist.distributed_c10d._get_default_store()
    before = store.num_keys()
    dist.barrier()
    comm = StoreCommunicator(store, "test/messages", rank, size)
    to, from_ = (rank + 1) % size, (rank - 1) % size
    sent = [b"", b"1 2", os.urandom(10 << 20), b"last"]
    check("none yet", comm.recv(from_, 9, 0) is None and comm.recv(from_, 9, 20) is None)
    for m in sent:
        comm.send(to, 3, m)
    comm.send(to, 4, b"%d" % rank)
    check("by tag", comm.recv(from_, 4, 60000) == b"%d" % from_)
    got = [comm.recv(from_, 3, 60000) for _ in sent]
    check("in order", [len(m) for m in got] == [len(m) for m in sent] and got[:2] == sent[:2] and got[3] == b"last")
    dist.barrier()
    check("nothing is left in the store", abs(store.num_keys() - before) < 64 and not store.check([f"test/messages/3/{from_}/{rank}/0"]), (before, store.num_keys()))
    dist.barrier()


PARTS = {4: [meshes, fsdp, asynchronous, failing, planners, groups_of_ranks, messages], 2: [elsewhere, meshes, by_process, fsdp], 1: [elsewhere, meshes, asynchronous]}


def as_rank(rank, size, port, folder):
    torch.set_num_threads(1)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(3)), daemon=True).start()  # the parent is gone
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    mine = os.path.join(folder, f"by{size}")
    for part in PARTS[size]:
        if fnmatch.fnmatch(part.__name__, os.environ.get("SF_PARTS", "*")):
            with attempt(part.__name__):
                part(rank, size, os.path.join(folder, "by4") if part is elsewhere else mine)
    dist.barrier()
    dist.destroy_process_group()
    finish()


def ranks(size, folder):
    os.mkdir(os.path.join(folder, f"by{size}"))
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    env = dict(os.environ, GLOO_SOCKET_IFNAME=os.environ.get("GLOO_SOCKET_IFNAME", "lo"), OMP_NUM_THREADS="1")
    run_ = [subprocess.Popen([sys.executable, __file__, str(r), str(size), str(server.port), folder], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace") for r in range(size)]
    said = [None] * size

    def hear(r):
        said[r] = run_[r].stdout.read()

    ears = [threading.Thread(target=hear, args=(r,)) for r in range(size)]
    for t in ears:
        t.start()
    end = time.monotonic() + float(os.environ.get('SF_LIMIT', 900))
    for t in ears:
        t.join(max(1, end - time.monotonic()))
    for p in run_:
        p.kill()  # one that hangs; for others it is too late
        p.wait()
        p.stdin.close()
    for t in ears:
        t.join()
    for r, text in enumerate(said):
        last = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", text or "", re.M)
        if last:
            common.passed, common.failed, common.skipped = common.passed + int(last[1]), common.failed + int(last[2]), common.skipped + int(last[3]) * (r == 0)
            print("".join(f"rank {r} of {size}: {line}\n" if line.startswith("FAIL") else f"{line}\n" for line in text.split("\n") if line.startswith(("FAIL", "skip "))), end="")
        else:
            check(f"rank {r} of {size}", False, f"exit {run_[r].returncode}: {(text or '')[-3000:]}")


if __name__ == "__main__" and len(sys.argv) > 1:  # async_save by a process imports this file, too
    as_rank(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as d:
        for n in map(int, os.environ.get("SF_SIZES", "4 2 1").split()):
            ranks(n, d)
    finish()
