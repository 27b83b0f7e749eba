#!/usr/bin/env python3
"""warm fetches what is stored once and for all, and no more than asked; drop removes it again."""
from common import *
from file_server import server

need_program()
CASE = "dcp/fsdp4/ckpt"
CKPT = f"{DATA}/{CASE}"
URL = f"http://127.0.0.1:{server.server_port}/{CASE}"
OTHER = f"http://127.0.0.1:{server.server_port}/dcp/mesh2x2/ckpt"

if "without libcurl" in run("info", URL).stderr:
    skip_all("this build has no libcurl")



def cost(*args, code=0, **kw):
    before = server.bytes
    r = run(*args, **kw)
    check(f"{args[0]}: exit {code}", r.returncode == code, (r.returncode, r.stderr))
    return r, server.bytes - before


def kept(d):
    return sum(os.stat(f"{d}/{f}").st_blocks * 512 for f in os.listdir(d) if f.endswith(".data"))


def whole(d):
    c = ["--cache-dir", f"{d}/whole"]
    r, n = cost("warm", URL, *c)
    stored = sum(os.path.getsize(f"{CKPT}/{f}") for f in os.listdir(CKPT))
    check("all that is stored is fetched, once", stored <= n <= stored + 65536, (n, stored))
    check("it says how much", re.search(r"ckpt: [\d.]+ .?B, [\d.]+ .?B of it fetched \(.*/s\)\n", r.stdout), r.stdout)
    for verb in (["verify", "--deep"], ["cat"]):
        r, n = cost(*verb, URL, *(["model.safetensors"] if verb == ["cat"] else []), *c, text=False)
        check(f"{verb[0]} then fetches nothing", n == 0, n)
    r, n = cost("warm", URL, "--json", *c)
    p = json.loads(r.stdout)["paths"]
    check("nor does another warm", n == 0 and len(p) == 1 and p[0]["path"] == URL and p[0]["fetched_bytes"] == 0 and p[0]["bytes"] > 0, (n, p))
    r, n = cost("warm", URL, "--quiet", *c)
    check("--quiet says nothing", r.stdout == "", r.stdout)


def part(d):
    c = ["--cache-dir", f"{d}/part"]
    keys = [k["key"] for k in jrun("keys", CKPT)["keys"]]
    for key in (keys[0], keys[-1]):
        _, n = cost("warm", URL, "--key", key, *c)
        r, n = cost("get", URL, key, "-O", "-", *c, text=False)
        check(f"{key}: what was warmed is there", n == 0, n)
        check("and right", r.stdout == run("get", CKPT, key, "-O", "-", text=False).stdout)
    r, _ = cost("warm", URL, "--key", "no.such.key", *c, code=1)
    check("a key that is not there is an error", "no.such.key" in r.stderr, r.stderr)


def no_room(d):
    r, n = cost("warm", URL, "--cache-dir", f"{d}/small", "--cache-size", "1KB", code=1)
    check("what cannot stay is not fetched, with both numbers", "the cache keeps 1" in r.stderr and "--cache-size" in r.stderr, r.stderr)
    r, _ = cost("warm", URL, "--cache-size", "0", code=1)
    check("nor where nothing is kept", "nothing that is fetched is kept" in r.stderr, r.stderr)


def broken(d):
    server.refuses = "__1_0.distcp"
    r, _ = cost("warm", URL, "--cache-dir", f"{d}/broken", code=1)
    check("a file that cannot be had is named once", r.stderr.count("__1_0.distcp") == 1 and "1 file could not be read" in r.stderr, r.stderr)
    server.refuses = None
    _, n = cost("verify", "--deep", URL, "--cache-dir", f"{d}/broken")
    check("the others are there", n <= os.path.getsize(f"{CKPT}/__1_0.distcp") + 65536, n)
    r, _ = cost("warm", f"{d}/nowhere", URL, "--cache-dir", f"{d}/broken", code=1)
    check("one that fails is no other's end", "nowhere" in r.stderr and URL in r.stdout, (r.stdout, r.stderr))


def local(d):
    r, n = cost("warm", CKPT, "--cache-dir", f"{d}/none")
    check("a local one is read, and kept nowhere", "ckpt: " in r.stdout and not os.path.exists(f"{d}/none"), r.stdout)


def dropped(d):
    c = ["--cache-dir", f"{d}/drop"]
    r, _ = cost("drop", URL, *c)
    check("of nothing there is nothing to drop, and it is not made", "dropped 0 files" in r.stdout and not os.path.exists(f"{d}/drop"), r.stdout)
    cost("warm", URL, *c)
    cost("warm", OTHER, *c)
    all_of_it = kept(f"{d}/drop")
    r, n = cost("drop", URL + "/", *c)
    left = kept(f"{d}/drop")
    check("drop asks no server, and says where from", n == 0 and f"{d}/drop" in r.stdout, (n, r.stdout))
    check("what is of SOURCE goes, the rest stays", 0 < left < all_of_it, (left, all_of_it))
    _, n = cost("verify", "--deep", OTHER, *c)
    check("and is right", n == 0, n)
    _, n = cost("verify", "--deep", URL, *c)
    check("what went is fetched again", n > 0)
    open(f"{d}/drop/mine.map", "w").close()
    r = jrun("drop", "--all", *c)
    check("with --all all goes, and says how much", kept(f"{d}/drop") == 0 and r["files"] > 1 and r["bytes"] > 0, r)
    check("but what is not ours", os.path.exists(f"{d}/drop/mine.map"))
    r, _ = cost("drop", CKPT, *c, code=1)
    check("a local path is no source of it", "neither a mount nor a URL" in r.stderr, r.stderr)
    cost("warm", URL, *c)
    r, _ = cost("drop", URL[:-1], *c)
    check("half a name is another one", "dropped 0 files" in r.stdout, r.stdout)
    r, _ = cost("drop", URL.rsplit("/", 1)[0], *c)
    check("a directory of sources is all of them", kept(f"{d}/drop") == 0, r.stdout)


def mounts(d):
    why = no_fuse()
    if why:
        skip("mounts", why)
        return
    with Mount(URL, f"cache_dir={d}/m") as m:
        cost("warm", m)
        before = server.bytes
        same = open(f"{m}/checkpoint.safetensors", "rb").read() == run("cat", CKPT, "checkpoint.safetensors", text=False).stdout
        check("a mount is warmed by its stored files", same and server.bytes == before, server.bytes - before)
        r, _ = cost("drop", m, "--cache-dir", f"{d}/m")
        check("and dropped by its name", "dropped 0" not in r.stdout and kept(f"{d}/m") == 0, r.stdout)
        check("while it reads on", open(f"{m}/shards/.metadata", "rb").read() == open(f"{CKPT}/.metadata", "rb").read())
    with Mount(URL, f"cache_dir={d}/m2") as m:
        r, _ = cost("warm", f"{m}/model.safetensors", f"{m}/hf")
        check("so are files and directories in it", r.stdout.count("\n") == 2, r.stdout)
        before = server.bytes
        open(f"{m}/model.safetensors", "rb").read()
        check("which are there then", server.bytes == before, server.bytes - before)
        r, _ = cost("warm", f"{m}/no-such", code=1)
        check("one that is not there is an error", "no-such" in r.stderr, r.stderr)
        r, _ = cost("warm", f"{m}/model.pt", m, "--json")
        check("--json of two", [x["path"] for x in json.loads(r.stdout)["paths"]] == [f"{m}/model.pt", m], r.stdout)
    with Mount(URL, f"cache_dir={d}/m3", "views=pt") as m:
        r, _ = cost("warm", m, code=1)
        check("a mount without stored files says what to name", "no shards/" in r.stderr, r.stderr)


def until(what, seconds=30):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    return what()


def prefetched(d):
    if no_fuse():
        return
    done = lambda m: (p := counters(m).get("prefetch")) and p["bytes"] == p["total"]
    want = run("cat", CKPT, "checkpoint.safetensors", text=False).stdout
    with Mount(URL, f"cache_dir={d}/p", "prefetch=files") as m:
        check("prefetch=files fetches in the background", until(lambda: done(m)), counters(m))
        before = server.bytes
        check("what is read then is there", open(f"{m}/checkpoint.safetensors", "rb").read() == want and server.bytes == before, server.bytes - before)
        check("status says how far it is", re.search(r"^prefetch +(.*) of \1$", run("status", m).stdout, re.M), run("status", m).stdout)
    with Mount(URL, f"cache_dir={d}/p1", "prefetch=files", "key=" + jrun("keys", CKPT)["keys"][0]["key"]) as m:
        check("of the keys that are shown", until(lambda: done(m)) and 0 < counters(m)["prefetch"]["total"] < sum(os.path.getsize(f"{CKPT}/{f}") for f in os.listdir(CKPT)), counters(m))
    log = f"{d}/log"
    with Mount(URL, f"cache_dir={d}/p2", "cache_size=1KB", "prefetch=files", f"log_file={log}") as m:
        check("what does not fit is not begun, which the log says", until(lambda: "the cache keeps 1000" in open(log).read()) and "prefetch" not in counters(m), open(log).read())
    server.refuses = "__1_0.distcp"
    nothing = f"{d}/nothing.log"
    with Mount(URL, "cache_size=0", "prefetch=files", f"log_file={nothing}") as m:
        check("without a cache nothing is fetched ahead, which the log says", until(lambda: os.path.exists(nothing) and "nothing that is fetched is kept" in open(nothing).read()) and "prefetch" not in counters(m), "no such line")
        check("and the mount serves", "model.pt" in os.listdir(m), os.listdir(m))
    with Mount(URL, f"cache_dir={d}/p3", "prefetch=files", f"log_file={log}") as m:
        check("a file that cannot be had is logged, once", until(lambda: "could not be" in open(log).read() or open(log).read().count("__1_0.distcp") >= 1) and open(log).read().count("__1_0.distcp") == 1,
              open(log).read())
    server.refuses = None
    with Mount(URL, f"cache_dir={d}/p4", "prefetch=none") as m:
        check("none is none", "prefetch" not in counters(m))
    with Mount(CKPT, "prefetch=files") as m:
        check("of a local checkpoint too", until(lambda: done(m)), counters(m))
    with Mount(URL, f"cache_dir={d}/a", "prefetch=auto", "readahead=4K") as m:
        with open(f"{m}/shards/.metadata", "rb") as f:
            f.read()
        time.sleep(2.5)  # two looks
        check("auto fetches nothing for who reads little", "prefetch" not in counters(m), counters(m))
        with open(max((f"{m}/shards/{f}" for f in os.listdir(f"{m}/shards") if f.endswith(".distcp")), key=os.path.getsize), "rb") as f:
            f.read()
        check("and the rest for who reads an eighth of it", until(lambda: done(m)), counters(m))
        before = server.bytes
        check("which is there then", open(f"{m}/checkpoint.safetensors", "rb").read() == want and server.bytes == before, server.bytes - before)
    with Mount(URL, f"cache_dir={d}/a2", "cache_size=100KB", "prefetch=auto", f"log_file={log}.a") as m:
        check("auto still reads right where it does not fit", open(f"{m}/checkpoint.safetensors", "rb").read() == want)
        check("and says why nothing is fetched, once", until(lambda: os.path.exists(f"{log}.a") and "the cache keeps 100000" in open(f"{log}.a").read()) and "prefetch" not in counters(m), open(f"{log}.a").read())
    with Mount(CKPT, "prefetch=auto") as m:
        open(f"{m}/checkpoint.safetensors", "rb").read()
        time.sleep(1.5)
        check("of a local checkpoint auto is none", "prefetch" not in counters(m))
    r = run(URL, d, "-o", "prefetch=all,cache_size=0")
    check("another word is refused", r.returncode == 2 and "'all' is not one of files, none, auto" in r.stderr, r.stderr)


with tempfile.TemporaryDirectory() as work:
    for p in (whole, part, no_room, broken, local, dropped, mounts, prefetched):
        p(work)
finish()
