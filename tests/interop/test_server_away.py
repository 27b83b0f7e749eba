#!/usr/bin/env python3
"""A mount whose server is away for a while: what waits, what status says of it, what the log says, and how it ends."""
import errno
import shutil
import threading

import file_server
from common import *
from file_server import server

need_fuse()
CKPT, EXP = case("dcp/fsdp4")
OBJECTS, _ = case("composer-0.32/ep0-ba2")
VALUE = "state/rng/0/numpy/value.json"  # of it: its size is known when the object was read
URL, URL_OBJECTS = (f"http://127.0.0.1:{server.server_address[1]}/{os.path.relpath(d, DATA)}/" for d in (CKPT, OBJECTS))
back = threading.Event()  # the server is, for those that it keeps waiting
silent = threading.Event()  # it keeps somebody waiting


class Away(file_server.Handler):
    mode = None  # None: it answers; "close": it ends the connection; "silent": it says nothing

    def do_GET(self):
        if Away.mode == "silent" and self.command == "GET":
            silent.set()
            back.wait(300)
            self.close_connection = True
            return
        elif Away.mode == "close":
            self.close_connection = True
            return
        super().do_GET()


server.RequestHandlerClass = Away
server.handle_error = lambda *a: None  # clients of ours go away


def until(what, seconds=100):
    """Polls; a bound for what would be a hang."""
    for _ in range(seconds * 10):
        got = what()
        if got:
            return got
        time.sleep(0.1)
    return None


def sums(d):
    return {name: sha(open(f"{d}/shards/{name}", "rb").read()) for name in sorted(os.listdir(f"{d}/shards")) if os.path.isfile(f"{d}/shards/{name}")}


def waits():
    """Reads wait while the server is away, and it is told: once in the log, in status, counters and metrics; then they have their bytes."""
    with tempfile.TemporaryDirectory() as t, Mount(URL, "timeout=300", args=("--log-file", f"{t}/log")) as m:
        got = {}
        Away.mode = "close"
        reader = threading.Thread(target=lambda: got.update(sums(m)))
        reader.start()
        away = until(lambda: counters(m).get("away"))
        check("counters.json has the server that is away", away and away[0]["server"] == re.match("[^/]*//[^/]*", URL)[0] and away[0]["waiting"] > 0 and away[0]["error"] and away[0]["for_s"] >= 2, away)
        metrics = open(f"{m}/.shardfuse/metrics").read()
        check("metrics, too", "\nshardfuse_servers_away 1\n" in metrics and re.search(r"\nshardfuse_requests_waiting [1-9]", metrics), metrics)
        one, all = run("status", m).stdout, run("status").stdout
        check("status MOUNTPOINT says what it waits for", re.search(r"^waiting +http://127\.0\.0\.1:\d+ does not answer, for \d+ s; \d+ requests wait: .", one, re.M), one)
        check("status of all says so, too", re.search(rf"^{re.escape(m)}: +http://127\.0\.0\.1:\d+ does not answer", all, re.M), all)
        check("nobody was told anything wrong meanwhile", reader.is_alive() and not got, got)
        Away.mode = None
        reader.join(120)
        check("when it is back the reads have their bytes", got == {k: sha(open(f"{CKPT}/{k}", "rb").read()) for k in got} and len(got) > 3, got)
        c = counters(m)
        check("then it is not away, and what was made again is counted", "away" not in c and c["retried"] > 0 and c["errors"] == 0, c)
        check("status has the count", re.search(r"^errors +0, .*; [1-9]\d* requests were made again$", run("status", m).stdout, re.M), run("status", m).stdout)
        log = open(f"{t}/log").read().splitlines()
        said = [line for line in log if "127.0.0.1" in line]
        check("the log has a line for each", len(said) == 2 and "does not answer, waiting for it" in said[0] and re.search(r"answers again, after \d+ s", said[1]), log)


def ends():
    """Nobody waits for a size, or for bytes, when the mount is to end, however long the deadline is."""
    for what, url, path in (("a size", URL_OBJECTS, VALUE), ("bytes", URL, "model.pt")):
        with tempfile.TemporaryDirectory() as t, Mount(url, "timeout=600", args=("--log-file", f"{t}/log")) as m:
            pid, said = daemon_of(m), []
            back.clear()
            silent.clear()
            Away.mode = "silent"

            def ask():
                try:
                    with open(f"{m}/{path}", "rb") as f:
                        f.read()
                except OSError as e:
                    said.append(e.errno)

            client = threading.Thread(target=ask)
            client.start()
            check(f"{what}: the server keeps somebody waiting", silent.wait(60))
            os.kill(pid, signal.SIGTERM)
            gone = until(lambda: not os.path.exists(f"/proc/{pid}"), 60)
            check(f"{what}: SIGTERM ends the mount", gone, "it waits for the server")
            client.join(60)
            check(f"{what}: and who waited is told", not client.is_alive() and said, said)
            Away.mode = None
            back.set()
            check(f"{what}: nothing of it is an error for the log", "canceled" not in (open(f"{t}/log").read() if os.path.exists(f"{t}/log") else ""), "")


def stale():
    """A file that changed before a view of it was sized is told as stale, by the counters too."""
    with tempfile.TemporaryDirectory() as t:
        shutil.copytree(OBJECTS, f"{t}/c")
        with Mount(f"{t}/c") as m:
            for name in os.listdir(f"{t}/c"):
                if name.endswith(".distcp"):
                    with open(f"{t}/c/{name}", "ab") as f:
                        f.write(b"more")
            e = None
            try:
                os.stat(f"{m}/{VALUE}")
            except OSError as x:
                e = x.errno
            check("what cannot be sized is stale", e == errno.ESTALE, e)
            c = counters(m)
            check("and counted", c["stale"] >= 1 and c["errors"] == c["stale"], c)  # the kernel asks for what is stale twice


waits()
ends()
stale()
finish()
