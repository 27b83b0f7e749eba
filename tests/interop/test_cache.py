#!/usr/bin/env python3
"""What was fetched from a web server is kept on disk: for other processes, without secrets, where nobody else can write."""
from common import *
from file_server import server

need_program()
CASE = "dcp/fsdp4/ckpt"
URL = f"http://127.0.0.1:{server.server_port}/{CASE}"

if "without libcurl" in run("info", URL).stderr:
    skip_all("this build has no libcurl")


def fetched(*args, text=True):
    before = server.bytes
    r = run(*args, text=text)
    check(f"{' '.join(args[:1])} succeeds", r.returncode == 0, r.stderr)
    return r.stdout, server.bytes - before


def shared(d):
    key = jrun("keys", f"{DATA}/{CASE}")["keys"][0]["key"]
    want = run("get", f"{DATA}/{CASE}", key, "-O", "-", text=False).stdout
    get = ["get", URL, key, "-O", "-", "--cache-dir", f"{d}/c"]
    out, cost = fetched(*get, text=False)
    check("the bytes are right, and were fetched", out == want and cost > 0, cost)
    out, cost = fetched(*get, text=False)
    check("another process fetches nothing", out == want and cost == 0, cost)
    for f in os.listdir(f"{d}/c"):
        if f.endswith(".data"):
            with open(f"{d}/c/{f}", "r+b") as g:
                g.seek(100)
                byte = g.read(1)
                g.seek(100)
                g.write(bytes([byte[0] ^ 1]))
    out, cost = fetched(*get, text=False)
    check("a changed byte is fetched again", out == want and cost > 0, cost)
    out, cost = fetched("verify", URL, "--deep", "--cache-dir", f"{d}/c")
    out, cost = fetched("verify", URL, "--deep", "--cache-dir", f"{d}/c", "--cache-size", "1GB")
    check("verify --deep a second time fetches nothing", cost == 0, cost)


def secrets(d):
    url = URL.replace("http://", "http://someone:geheim1@") + "?token=geheim2"
    fetched("verify", url, "--deep", "--cache-dir", f"{d}/s")
    found = b"".join(open(f"{d}/s/{f}", "rb").read() + f.encode() for f in os.listdir(f"{d}/s"))
    check("the URL is on disk, its secrets are not", URL.encode() in found and b"geheim" not in found and b"someone" not in found)
    check("for the user alone", os.stat(f"{d}/s").st_mode & 0o777 == 0o700 and all(os.stat(f"{d}/s/{f}").st_mode & 0o77 == 0 for f in os.listdir(f"{d}/s")))


def queries(d):
    for q in ("?rev=1", "?rev=2"):
        out, cost = fetched("verify", URL + q, "--deep", "--cache-dir", f"{d}/q")
        check(f"{q} is a place of its own", cost > 0, cost)
        out, cost = fetched("verify", URL + q, "--deep", "--cache-dir", f"{d}/q")
        check(f"{q} is kept", cost == 0, cost)


def refused(d):
    os.mkdir(f"{d}/open")
    os.chmod(f"{d}/open", 0o777)
    r = run("info", URL, "--cache-dir", f"{d}/open")
    check("a directory that others can write to", r.returncode == 1 and "others can write to it (mode 0777)" in r.stderr, r.stderr)
    os.symlink(f"{d}/elsewhere", f"{d}/open/link")
    r = run("info", URL, "--cache-dir", f"{d}/open/link")
    check("a link in such a one", r.returncode == 1 and "symbolic link" in r.stderr and not os.path.exists(f"{d}/elsewhere"), r.stderr)


def nothing(d):
    fetched("info", URL, "--cache-dir", f"{d}/none", "--cache-size", "0")
    check("--cache-size 0: no directory", not os.path.exists(f"{d}/none"))
    fetched("info", f"{DATA}/{CASE}", "--cache-dir", f"{d}/none")
    check("a local source needs none", not os.path.exists(f"{d}/none"))


def nothing_is_written(d):
    """Where every directory that may be written to is watched: a tmpfs over each, none of which has a file after."""
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        skip("an empty machine", "needs root and a mount namespace")
        return
    inside = """
        for d in /var /tmp /root /home /run; do [ -d $d ] && mount -t tmpfs none $d; done
        export HOME=/root
        "$@" >/dev/null || exit 3
        find /var /tmp /root /home /run -type f 2>/dev/null
    """

    def left(*args):
        r = subprocess.run(["unshare", "-m", "sh", "-c", inside, "sh", BIN, *args], capture_output=True, text=True, timeout=120)
        check(f"{args[-1]}: it succeeds", r.returncode == 0, r.stderr)
        return r.stdout.split()

    found = left("verify", "--deep", URL)
    check("what is fetched is kept, in the user's directory alone", found and all(f.startswith("/var/cache/shardfuse/") for f in found), found)
    found = left("verify", "--deep", URL, "--cache-size=0")
    check("--cache-size 0 leaves nothing anywhere", not found, found)
    found = left("verify", "--deep", f"{DATA}/{CASE}")
    check("nor does a local source", not found, found)

    readonly = 'mount -t tmpfs -o ro none /var/cache && "$@"'
    r = subprocess.run(["unshare", "-m", "sh", "-c", readonly, "sh", BIN, "verify", URL], capture_output=True, text=True, timeout=120)
    check("where the user's directory cannot be made it is said, and goes on", r.returncode == 0 and "what is fetched is not kept" in r.stderr, r.stderr)
    r = subprocess.run(["unshare", "-m", "sh", "-c", readonly, "sh", BIN, "verify", URL, "--cache-size=1GB"], capture_output=True, text=True, timeout=120)
    check("one that was asked for is an error", r.returncode == 2 and "'/var/cache/shardfuse'" in r.stderr, r.stderr)


def in_a_mount(d):
    why = no_fuse()
    if why:
        skip("mounts", why)
        return
    with Mount(URL, f"cache_dir={d}/m") as m:
        check("a mount reads right", open(f"{m}/shards/.metadata", "rb").read() == open(f"{DATA}/{CASE}/.metadata", "rb").read())
        c = counters(m)["cache"]
        check("counters.json has the cache", c["misses"] > 0 and c["fetched_bytes"] > 0, c)
        r = run("status", m)
        check("status says it", re.search(r"^cache +.*B asked, .*B of it kept here \(\d+ hits, \d+ misses\), .*B fetched in \d+ requests$", r.stdout, re.M), r.stdout)
    with Mount(URL, f"cache_dir={d}/m") as m:
        open(f"{m}/shards/.metadata", "rb").read()
        c = counters(m)["cache"]
        check("the next mount finds it", c["hits"] > 0 and c["misses"] == 0, c)
        want = run("cat", f"{DATA}/{CASE}", "checkpoint.safetensors", text=False).stdout
        first = open(f"{m}/checkpoint.safetensors", "rb").read()
    before = server.bytes
    with Mount(URL, f"cache_dir={d}/m") as m:
        check("and the one after that all of it", open(f"{m}/checkpoint.safetensors", "rb").read() == first == want and server.bytes == before)
        c = counters(m)
        check("which it says was asked and kept, and not fetched",
              c["cache"]["asked_bytes"] == c["cache"]["hit_bytes"] > 0 and c["cache"]["fetched_bytes"] == 0 and not any(c["fetched_bytes"].values()) and
              not any(c["fetched_requests"].values()), c)
        text = open(f"{m}/.shardfuse/metrics").read()
        check("metrics too", 'fetched_bytes_total{kind="tensor"} 0\n' in text and f"shardfuse_cache_asked_bytes_total {c['cache']['asked_bytes']}\n" in text, text)
        r = run("status", m)
        check("and status", re.search(r"^cache .* 0 B fetched in 0 requests$", r.stdout, re.M) and re.search(r"^fetched .*tensor 0 \(0 B\)", r.stdout, re.M), r.stdout)
    with Mount(f"{DATA}/{CASE}") as m:
        check("a local one has no cache", "cache" not in counters(m))


with tempfile.TemporaryDirectory() as work:
    for part in (shared, secrets, queries, refused, nothing, nothing_is_written, in_a_mount):
        part(work)
finish()
