#!/usr/bin/env python3
"""A stored file of a server that is here whole is read by the kernel itself (FUSE passthrough), as one of this machine is."""
from common import *
from file_server import server

need_program()
CASE = "dcp/fsdp4/ckpt"
CKPT = f"{DATA}/{CASE}"
URL = f"http://127.0.0.1:{server.server_port}/{CASE}"
SHARD = max((f for f in os.listdir(CKPT) if f.endswith(".distcp")), key=lambda f: os.path.getsize(f"{CKPT}/{f}"))
WANT = open(f"{CKPT}/{SHARD}", "rb").read()

if "without libcurl" in run("info", URL).stderr:
    skip_all("this build has no libcurl")
if no_fuse():
    skip_all(no_fuse())


def read(m):
    """The bytes, and how many reads our daemon was asked for."""
    before = counters(m)["read_requests"]
    with open(f"{m}/shards/{SHARD}", "rb") as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        data = f.read()
    return data, counters(m)["read_requests"] - before


def until_closed(m):
    """The kernel releases a file a little after its close: until then it stays as it was opened."""
    for _ in range(100):
        data, n = read(m)
        if not n:
            break
        time.sleep(0.05)
    return data, n


with Mount(CKPT) as m:
    data, n = read(m)
    check("a local one: the bytes are right", data == WANT)
    if n:
        skip_all(f"the kernel ({os.uname().release}) or the user (uid {os.geteuid()}) has no passthrough: not even a local file is read without us")

with tempfile.TemporaryDirectory() as work:
    with Mount(URL, f"cache_dir={work}/c") as m:
        data, n = read(m)
        check("what is not here is read through us", data == WANT and n > 0, n)
        data, n = until_closed(m)
        before = server.bytes
        check("once it is here whole the kernel reads it", data == WANT and n == 0, n)
        with open(f"{m}/shards/{SHARD}", "rb") as f, open(f"{m}/shards/{SHARD}", "rb") as g:
            f.seek(1000)
            check("from anywhere, by two at once", f.read(1000) == WANT[1000:2000] and g.read(10) == WANT[:10])
            run("drop", m)
            check("what is dropped is read on by who has it open", f.read() == WANT[2000:])
        check("no server was asked", server.bytes == before, server.bytes - before)
        data, n = read(m)
        check("after that it is fetched anew", data == WANT and server.bytes > before)
    with Mount(URL, f"cache_dir={work}/c") as m:
        before = server.bytes
        data, n = read(m)
        check("another mount checks it first", data == WANT and n > 0, n)
        data, n = until_closed(m)
        check("and then does not read it either", data == WANT and n == 0 and server.bytes == before, (n, server.bytes - before))
    with Mount(URL) as m:
        read(m)
        data, n = read(m)
        check("where nothing is kept nothing is passed through", data == WANT and n > 0, n)
finish()
