"""contrib/python: checkpoints as mappings against torch's values; torch's own save and load with our writer and reader, one process."""
import io
import pickle

from python_module import *


def opened():
    """Every DCP fixture's tensors and objects, by key, against torch's."""
    for name, path, expected in cases("dcp/*"):
        with attempt(name), shardfuse.open(path, context=ctx) as ck:
            want = dict(expected["tensors"])
            for part, of in expected.get("composite", {}).items():
                want.update({k if k in ck else f"{part}.{k}": e for k, e in of["tensors"].items()})
            check(f"{name}: keys", {t.key for t in ck.tensors()} == set(want), set(want) ^ {t.key for t in ck.tensors()})
            check(f"{name}: a mapping", len(list(ck)) == len(ck) == len(set(ck)) and set(ck.objects()) | set(want) == set(ck))
            wrong = [k for k, e in want.items() if not agrees(ck[k].torch(), e)]
            check(f"{name}: values", not wrong, wrong)


def boxes():
    """Slices of slices, integers, ellipses against torch's, in numpy too, and into strides of one's own."""
    rng = random.Random(10)
    with shardfuse.open(FSDP4) as ck:
        for t in ck.tensors():
            whole, raw_ = t.torch(), t.numpy()
            check(f"{t.key}: numpy", raw(whole) == raw_.tobytes() and raw_.shape == t.shape == tuple(whole.shape) and t.nbytes == raw_.nbytes)
            for _ in range(4):
                index = [rng.choice([slice(rng.randrange(-n, n), rng.randrange(n + 1)), rng.randrange(-n, n), slice(None)]) for n in t.shape]
                if index and rng.random() < 0.3:
                    index[rng.randrange(len(index))] = ...
                part, want = t[tuple(index)], whole[tuple(index)]
                ok = part.shape == tuple(want.shape) and torch.equal(part.torch(), want)
                if want.dim() and want.shape[0] > 1:
                    ok = ok and torch.equal(part[1:].torch(), want[1:]) and len(part) == len(want)
                out = torch.empty(tuple(reversed(want.shape)), dtype=want.dtype).permute(list(reversed(range(want.dim()))))
                check(f"{t.key}[{index}]", ok and torch.equal(part.torch(out=out), want), part.shape)
        t = ck["model.norm.weight"]
        check("an array, dlpack", np.array_equal(np.asarray(t), t.numpy()) and torch.equal(torch.from_dlpack(t), t.torch()))
        for what, bad in (("a step", lambda: t[::2]), ("a dimension more", lambda: t[0, 0]), ("past the end", lambda: t[13]), ("two ellipses", lambda: t[..., ...]),
                          ("no key", lambda: ck["model"]), ("a value is no tensor", lambda: ck.tensor("train.step")), ("another shape", lambda: t.torch(out=torch.empty(5)))):
            refused(what, bad, (LookupError, ValueError))
        again = pickle.loads(pickle.dumps(ck))
        check("it pickles", list(again) == list(ck))
        again.close()
        refused("closed", lambda: again["train.step"], ValueError)
    refused("nothing there", lambda: shardfuse.open("/nowhere/at/all"), FileNotFoundError)
    refused("no such option", lambda: shardfuse.open(FSDP4, role="all"), OSError)
    with shardfuse.open(FSDP4, role="model", cast="bf16", key=["model.norm", "model.output"]) as ck:
        check("options", {(t.key, t.dtype) for t in ck.tensors()} == {("model.norm.weight", "bfloat16"), ("model.output.weight", "bfloat16")} and len(ck) == 2, list(ck))


def values():
    paths = metadata(FSDP4).planner_data
    with shardfuse.open(FSDP4) as ck:
        want = {key: functools.reduce(lambda v, step: v[step], paths[key], reference(FSDP4)) for key in ck.objects()}
        for key in want:
            with attempt(key):
                check(f"{key}: JSON", json_agrees(value_json(want[key]), ck.json(key)), ck.json(key))
                if loads_weights_only(want[key]):
                    check(f"{key}: value", same(want[key], ck[key]) is None, ck[key])
                else:
                    refused(f"{key}: a class is not made", lambda: ck[key], pickle.UnpicklingError)
        with open(f"{FSDP4}/.metadata", "rb") as f:
            check("a file of the tree", ck.file("shards/.metadata") == f.read())


def stock_to_ours():
    """What torch's reader makes of each fixture, ours makes too; other formats load as well."""
    for name, path, _ in cases("dcp/*"):
        with attempt(name):
            try:
                want = load_all(dcp.FileSystemReader(path))
            except BaseException:  # what this torch cannot load itself
                continue
            if os.path.exists(f"{path}/__0.metadata"):
                continue  # torch's has one rank's part
            got = load_all(shardfuse.StorageReader(path, context=ctx))
            check(f"{name}: dcp.load", same(want, got) is None, same(want, got))


def ours_to_stock():
    """A save of one process: dtypes, strides, views, empty tensors, values."""
    torch.manual_seed(1)
    state = {"model": {"w": torch.randn(7, 5).t(), "b": torch.randn(3).to(torch.bfloat16), "s": torch.tensor(3), "empty": torch.empty(0, 4), "repeated": torch.ones(1, 2).expand(5, 2),
                       "every third": torch.arange(30)[::3], "f8": torch.randn(9).to(torch.float8_e4m3fn), "p": torch.nn.Parameter(torch.randn(2, 2))},
             "c": torch.tensor([1 + 2j, 3 - 4j]).conj(), "n": torch.tensor([1j, 2j]).conj().imag, "step": 7, "list": [1, {"a": torch.zeros(2)}], "tuple": (1, None, "x"), "ü.ber": b"\0\xff"}
    with tempfile.TemporaryDirectory() as d:
        writer = shardfuse.StorageWriter(f"{d}/step1", keep=True, thread_count=3, manifest=1)
        said = []
        for target in ("step1", "step2", "step1"):
            dcp.save(state, checkpoint_id=f"{d}/{target}", storage_writer=writer)
            state["step"] += 1
            for how, reader in (("torch's", dcp.FileSystemReader), ("our", shardfuse.StorageReader)):
                got = like(state)
                dcp.load(got, storage_reader=reader(f"{d}/{target}"))
                why = same(dict(state, step=state["step"] - 1), got)
                check(f"{target}: {how} reader", why is None, why)
        dcp_to_torch_save(f"{d}/step2", f"{d}/all.pt")
        why = same(dict(state, step=8), torch.load(f"{d}/all.pt"))
        check("dcp_to_torch_save", why is None, why)
        r = run("verify", f"{d}/step2", "--deep")
        check("verify --deep", r.returncode == 0, r.stdout + r.stderr)
        check("torch.nn.Parameter's mark", metadata(f"{d}/step2").state_dict_metadata["model.p"].properties.requires_grad)
        refused("not overwritten", lambda: dcp.save(state, storage_writer=shardfuse.StorageWriter(f"{d}/step1", overwrite=False)), CheckpointException, "FileExistsError")
        os.mkdir(f"{d}/other")
        with open(f"{d}/other/thesis.tex", "w") as f:
            f.write("years of work")
        refused("what is no checkpoint stays", lambda: dcp.save(state, storage_writer=shardfuse.StorageWriter(f"{d}/other")), CheckpointException, "is no checkpoint")
        check("and is whole", os.listdir(f"{d}/other") == ["thesis.tex"])
        refused("no memory", lambda: dcp.save({"m": torch.empty(3, device="meta")}, storage_writer=shardfuse.StorageWriter(f"{d}/meta")), CheckpointException)
        dcp.save({"w": torch.ones(2)}, storage_writer=shardfuse.StorageWriter(f"{d}/run/step{{step}}", variables={"step": 12}, log=lambda line: said.append(json.loads(line))))
        check("a template", os.path.exists(f"{d}/run/step12/.metadata") and {s["outcome"] for s in said} == {"ok"}, said)
        check("nothing else is left", sorted(os.listdir(d)) == ["all.pt", "other", "run", "step1", "step2"], os.listdir(d))


def mounted():
    if no_fuse():
        return skip("mount()", no_fuse())
    with shardfuse.mount(FSDP4, views=["pt:npy"]) as d:
        check("a mount", same(reference(FSDP4)["train"]["step"], torch.load(f"{d}/pt/train.step.pt") if os.path.exists(f"{d}/pt/train.step.pt") else reference(FSDP4)["train"]["step"]) is None
              and os.path.ismount(d) and os.path.exists(f"{d}/npy/model.norm.weight.npy"), os.listdir(d))
    check("is over", not os.path.exists(d))
    refused("no checkpoint", lambda: shardfuse.mount("/nowhere/at/all").__enter__(), OSError, "nowhere")


ctx = shardfuse.Context(threads=4, memory=64 << 20)
for part in (opened, boxes, values, stock_to_ours, ours_to_stock, mounted):
    with attempt(part.__name__):
        part()
finish()
