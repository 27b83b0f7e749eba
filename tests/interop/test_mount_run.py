#!/usr/bin/env python3
"""A run directory in a mount: complete steps are there, others are not, what comes and goes is followed."""
import errno
import shutil
import threading

from common import *

need_fuse()
CKPT, EXP = case("dcp/fsdp4")
KEY, WANT = next((k, e) for k, e in EXP["tensors"].items() if k.startswith("model.") and e["dtype"] == "float32")
NPY = f"npy/{KEY}.npy"


def step(d, name, below=""):
    """A step that appears whole, as a trainer's rename makes it."""
    shutil.copytree(CKPT, f"{d}/tmp-{name}/{below}")
    os.rename(f"{d}/tmp-{name}", f"{d}/{name}")


def follow(what, until, seconds=8):
    end = time.time() + seconds
    while not until() and time.time() < end:
        time.sleep(0.1)
    check(what, until())


def names(m):
    return set(os.listdir(m)) - {"README", "info.json", ".shardfuse"}


def listed():
    with tempfile.TemporaryDirectory() as d:
        for s, below in (("step9", ""), ("step10", "model_and_optim"), ("step20", "")):
            step(d, s, below)
        step(d, "step30")
        os.unlink(f"{d}/step30/.metadata")
        os.mkdir(f"{d}/step40")
        step(d, "step50")
        open(f"{d}/step50/.metadata", "wb").write(b"no pickle")
        step(d, "step60-tmp")
        with Mount(d) as m:
            check("complete steps are listed", names(m) == {"latest", "step9", "step10", "step20", "step50"}, names(m))
            check("latest is the newest", os.readlink(f"{m}/latest") == "step50", os.readlink(f"{m}/latest"))
            for s in ("step9", "step10", "step20"):
                check(f"{s}: a directory before it is loaded", os.path.isdir(f"{m}/{s}"))
                t = torch.load(f"{m}/{s}/model.pt", weights_only=True, mmap=True)
                check(f"{s}: model.pt", tensors_of(t) and all(agrees(x, EXP["tensors"].get("model." + k) or EXP["tensors"][k]) for k, x in tensors_of(t).items()))
                check(f"{s}: the directory's number stays", os.stat(f"{m}/{s}").st_ino == next(e for e in os.scandir(m) if e.name == s).inode())
            del t
            try:
                os.stat(f"{m}/step50/model.pt")
                check("a broken one cannot be looked into", False)
            except OSError as e:
                check("a broken one cannot be looked into", e.errno == errno.ENOENT, e)
            follow("and is not there from then on", lambda: "step50" not in names(m))
            check("the others are", os.listdir(f"{m}/step9") and np.load(f"{m}/step20/{NPY}").nbytes > 0)
            follow("latest goes back", lambda: os.readlink(f"{m}/latest") == "step20")
            j = json.load(open(f"{m}/info.json"))
            check("info.json has the complete ones", [c["name"] for c in j["checkpoints"]] == ["step9", "step10", "step20"] and j["latest"] == "step20", j)
            why = {c["name"]: c["why"] for c in j["incomplete"]}
            check("info.json says why", set(why) == {"step30", "step40", "step50"} and "not committed" in why["step30"] and "no files" in why["step40"] and ".metadata" in why["step50"], why)
            check("README", "3 complete checkpoints; 3 more" in open(f"{m}/README").read(), open(f"{m}/README").read())
            for f in ("README", "info.json"):
                check(f"{f} is as long as it says", os.stat(f"{m}/{f}").st_size == len(open(f"{m}/{f}", "rb").read()))
            try:
                os.stat(f"{m}/step30")
                check("an incomplete one has no name", False)
            except OSError as e:
                check("an incomplete one has no name", e.errno == errno.ENOENT, e)


def trackers():
    for tracker, text, steps, want in (("latest_checkpointed_iteration.txt", "10\n", ("iter_0000005", "iter_0000010", "iter_0000015"), "iter_0000010"),
                                       ("latest_checkpointed_iteration.txt", "release", ("iter_0000005", "release"), "release"),
                                       ("latest", "global_step5", ("global_step5", "global_step40"), "global_step5"),
                                       ("latest", "gone", ("global_step5", "global_step40"), "global_step40")):
        with tempfile.TemporaryDirectory() as d:
            for s in steps:
                step(d, s)
            open(f"{d}/{tracker}", "w").write(text)
            with Mount(d) as m:
                check(f"{tracker} {text!r}", os.readlink(f"{m}/latest") == want and set(steps) <= names(m), (os.readlink(f"{m}/latest"), names(m)))


def come_and_go():
    with tempfile.TemporaryDirectory() as d:
        step(d, "step1")
        step(d, "step2")
        with Mount(d, "refresh=1") as m:
            check("two", names(m) == {"latest", "step1", "step2"}, names(m))
            keep = open(f"{m}/step1/{NPY}", "rb", buffering=0)
            head = keep.read(64)
            step(d, "step3")
            follow("a new step comes", lambda: "step3" in names(m))
            check("and can be read", np.load(f"{m}/step3/{NPY}").nbytes > 0)
            follow("latest follows", lambda: os.readlink(f"{m}/latest") == "step3")
            step(d, "half")
            os.rename(f"{d}/half/.metadata", f"{d}/meta")
            os.rename(f"{d}/half", f"{d}/step4")
            time.sleep(2)
            check("one that is being written is not there", "step4" not in names(m), names(m))
            os.rename(f"{d}/meta", f"{d}/step4/.metadata")
            follow("until it is complete", lambda: "step4" in names(m))
            shutil.rmtree(f"{d}/step1")
            follow("a deleted one goes", lambda: "step1" not in names(m))
            time.sleep(1.1)
            for path in ("step1", f"step1/{NPY}"):
                try:
                    open(f"{m}/{path}", "rb")
                    check(f"a new open of {path}", False)
                except OSError as e:
                    check(f"a new open of {path}", e.errno == errno.ENOENT, e)
            try:
                os.preadv(keep.fileno(), [bytearray(4096)], 1 << 12)
                keep.seek(0)
                again = keep.read(64)
                check("an open file has its old bytes, or is stale", again == head, again)
            except OSError as e:
                check("an open file has its old bytes, or is stale", e.errno == errno.ESTALE, e)
            keep.close()
            shutil.rmtree(f"{d}/step2")
            step(d, "step2")
            follow("one that was written anew is there", lambda: os.path.exists(f"{m}/step2/{NPY}"))
            check("and can be read", np.load(f"{m}/step2/{NPY}").nbytes > 0)
        with Mount(d, "refresh=0") as m:
            before = names(m)
            step(d, "step7")
            time.sleep(2)
            check("refresh=0 looks once", names(m) == before, names(m))


def many():
    """More steps than stay loaded, with files open in all of them."""
    with tempfile.TemporaryDirectory() as d:
        for i in range(1, 31):
            step(d, f"step{i}")
        with Mount(d) as m:
            files = [open(f"{m}/step{i}/{NPY}", "rb") for i in range(1, 31)]
            want = np.load(f"{m}/step1/{NPY}").tobytes()
            bad = []

            def look(k):
                for i in range(1, 31):
                    s = (i * 7 + k * 11) % 30 + 1
                    try:
                        if np.load(f"{m}/step{s}/{NPY}").tobytes() != want or not os.listdir(f"{m}/step{s}/state"):
                            bad.append(s)
                    except OSError as e:
                        bad.append((s, str(e)))
            threads = [threading.Thread(target=look, args=(k,)) for k in range(4)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            check("all can be read by several at once", not bad, bad[:4])
            check("open files outlive what is given back", all(np.frombuffer(f.read()[-len(want):], np.uint8).tobytes() == want for f in files))
            [f.close() for f in files]


def thousand():
    with tempfile.TemporaryDirectory() as d:
        for i in range(1000):
            os.makedirs(f"{d}/step{i}")
            for f in os.listdir(CKPT):
                os.link(f"{CKPT}/{f}", f"{d}/step{i}/{f}") if os.stat(CKPT).st_dev == os.stat(d).st_dev else shutil.copy(f"{CKPT}/{f}", f"{d}/step{i}/{f}")
        with Mount(d) as m:
            t = time.time()
            check("a thousand", len(names(m)) == 1001)
            r = subprocess.run(["ls", "-l", m], capture_output=True, text=True)
            check("ls -l loads none of them", r.returncode == 0 and time.time() - t < 2, (r.stderr, time.time() - t))
            check("one of them", np.load(f"{m}/step777/{NPY}").nbytes > 0)


def parts():
    """A step that is several checkpoints: a directory each."""
    ranks = f"{DATA}/rankfiles-2.13/tp_3x2/ckpt"
    with tempfile.TemporaryDirectory() as d:
        for s in (5, 40):
            for p in ("actor", "critic"):
                shutil.copytree(ranks, f"{d}/global_step_{s}/{p}")
        os.makedirs(f"{d}/global_step_50/actor")
        shutil.copy(f"{ranks}/model_world_size_6_rank_1.pt", f"{d}/global_step_50/actor")
        with Mount(d) as m:
            check("steps of parts", names(m) == {"latest", "global_step_5", "global_step_40"} and os.readlink(f"{m}/latest") == "global_step_40", names(m))
            check("why", "rank 0 is missing" in open(f"{m}/info.json").read(), open(f"{m}/info.json").read())
            check("parts", set(os.listdir(f"{m}/latest")) >= {"actor", "critic", "README"} and not os.path.lexists(f"{m}/latest/latest"), os.listdir(f"{m}/latest"))
            a = torch.load(f"{m}/global_step_5/actor/model.pt", weights_only=True)
            b = torch.load(f"{m}/latest/critic/model.pt", weights_only=True)
            check("their checkpoints", tensors_of(a) and same(a, b) is None)
        with Mount(f"{d}/global_step_40") as m:
            check("a step of parts alone", names(m) == {"actor", "critic"} and os.path.exists(f"{m}/actor/model.pt"), names(m))


for part in (listed, parts, trackers, come_and_go, many, thousand):
    with attempt(part.__name__):
        part()
finish()
