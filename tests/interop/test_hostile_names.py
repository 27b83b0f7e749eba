#!/usr/bin/env python3
"""Names that a shell, a Python prompt or a terminal would obey: everything that prints or completes them shows them, and nothing obeys."""
import pty
import re
import select
import shutil
import termios

from common import *

need_program()
import hostile
from handmade import HandMade, item_bytes
EVIL, EXP = case("dcp/evil_names")
KEYS = [*EXP["tensors"], *EXP["objects"]]
COMPLETIONS = os.path.join(HERE, "../../contrib/completions")
# what must not come out raw: each begins with a byte or a character that a terminal obeys
RAW = [b"\x1b[31mred", b"\x1b]0;title", b"\x1b[2J\x1b[H", b"\xc2\x9b", b"\x08over", b"\x0e", b"\xc2\x85", b"cr\rover", b"\x7f"]


class World:
    """A directory to run in: our program in PATH, its calls by the shells noted, every command in a name would leave a file."""

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="sf-hostile-")
        self.bin, self.log = f"{self.dir}/bin", f"{self.dir}/log"
        os.mkdir(self.bin)
        os.mkdir(f"{self.dir}/cwd")
        with open(f"{self.bin}/shardfuse", "w") as f:  # --complete is the program's; else the words that came are noted
            f.write(f"#!/bin/sh\n[ \"$1\" != --complete ] || exec '{os.path.abspath(BIN)}' \"$@\"\nprintf '%s\\0' \"$#\" \"$@\" >>'{self.log}'\n")
        os.chmod(f"{self.bin}/shardfuse", 0o755)
        self.env = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": f"{self.dir}/cwd", "LC_ALL": "C.UTF-8", "TERM": "dumb", "XDG_CONFIG_HOME": f"{self.dir}/cwd/.config"}
        return self

    def __exit__(self, *a):
        shutil.rmtree(self.dir, ignore_errors=True)

    def pwned(self):
        return [os.path.join(b, f) for b, _, fs in os.walk(self.dir) for f in fs if "PWNED" in f and not b.endswith(("/npy", "/out"))]

    def calls(self):
        """The words of each call so far."""
        if not os.path.exists(self.log):
            return []
        with open(self.log, encoding="utf-8", errors="surrogateescape", newline="") as f:
            words, got = f.read().split("\0")[:-1], []
        while words:
            n = int(words[0])
            got.append(words[1:1 + n])
            words = words[1 + n:]
        return got


def in_terminal(argv, env, cwd, steps, timeout=120):
    """What a program shows on a terminal of its own. A step is text to type, or a pair of text and what must be shown before the next one."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe(argv[0], argv, env)
    termios.tcsetwinsize(fd, (50, 200))
    out, end, seen = b"", time.monotonic() + timeout, 0
    steps = [(x, None) if isinstance(x, str) else x for x in steps]
    typed, until = b"", None
    while time.monotonic() < end:
        if not typed and steps and (until is None or until.encode() in out[seen:]):
            typed, until, seen = steps[0][0].encode(), steps[0][1], len(out)
            del steps[0]
        r, w, _ = select.select([fd], [fd] if typed else [], [], 1)
        if w:
            typed = typed[os.write(fd, typed[:256]):]
        if r:
            try:
                b = os.read(fd, 65536)
            except OSError:
                b = b""
            if not b:
                break
            out += b
    else:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(fd)
    return out


SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], f"bind 'set completion-query-items 0' 'set page-completions off' 'set bell-style none'; PS1='$ '; . '{COMPLETIONS}/shardfuse'\n"),
    "zsh": (["zsh", "-f", "-i"], f"fpath=('{COMPLETIONS}' $fpath); autoload -Uz compinit; compinit -D -u; LISTMAX=10000; unsetopt beep; PS1='$ '\n"),
    "fish": (["fish", "--no-config", "-i"], f"function fish_prompt; echo '$ '; end; set -g fish_greeting; set -g fish_autosuggestion_enabled 0; source '{COMPLETIONS}/shardfuse.fish'\r"),
}


def shells():
    for name, (argv, setup) in SHELLS.items():
        if shutil.which(name):
            yield name, argv, setup
        else:
            skip(f"completion in {name}", f"no {name} here")


def one_key_each(w):
    """A checkpoint for each name, of that key alone: a TAB completes it whole. Returns [(directory, key)]."""
    made = []
    for n, k in enumerate(hostile.ALL):
        if k.startswith("-"):
            continue  # offered behind -- only: the next test
        h = HandMade(f"{w.dir}/cwd/{n:03}")
        h.tensor(k, (1,), torch.float32, [((0,), (1,), "__0_0.distcp", item_bytes(torch.ones(1)))], path=(k,))
        h.commit()
        made.append((f"{n:03}", k))
    return made


def completes_whole():
    """In a real terminal of each shell: TAB, Enter, and the program gets the key, nothing ran, nothing raw was shown."""
    for name, argv, setup in shells():
        with World() as w, attempt(f"{name}: completion of whole keys"):
            made = one_key_each(w)
            out = in_terminal(argv, w.env, f"{w.dir}/cwd", [setup, *(f"shardfuse info {d} \t\r" for d, _ in made), "exit\r"])
            got = {c[1]: c[2:] for c in w.calls() if len(c) > 1}
            for d, k in made:
                if name == "fish" and re.search("[\n\t\x80-\xa0\u2028\u3000]|^~", k):
                    check(f"{name}: not offered: {k!r}", got.get(d) == [], got.get(d))
                else:
                    check(f"{name}: TAB gives the key {k!r}", got.get(d) == [k], (got.get(d), out[-300:]))
            check(f"{name}: nothing ran", not w.pwned(), w.pwned())
            check(f"{name}: nothing raw on the terminal", not [r for r in RAW if r in out], [r for r in RAW if r in out])


def lists_all():
    """The whole fixture listed by TAB TAB, in each shell."""
    for name, argv, setup in shells():
        with World() as w, attempt(f"{name}: a list of hostile keys"):
            shutil.copytree(EVIL, f"{w.dir}/cwd/ckpt")
            lines = ["shardfuse info ckpt ", "shardfuse get ckpt model.", "shardfuse cat ckpt npy/", "shardfuse ls ckpt state/model/"]
            steps = [step for line in lines for step in ((f"{line}\t\t", "émile"), "\r\r")]
            out = in_terminal(argv, w.env | ({"TERM": "xterm"} if name == "fish" else {}), f"{w.dir}/cwd", [(setup, "$ "), *steps, "exit\r"], timeout=60)
            check(f"{name}: the list is there", out.count("émile".encode()) >= len(lines), out[-500:])
            check(f"{name}: listing runs nothing", not w.pwned(), w.pwned())
            check(f"{name}: nothing raw in the list", not [r for r in RAW if r in out], [r for r in RAW if r in out])


PARTIAL = ["model.a b.x", "model.it's", "$(>PWNED)", "a=b.c:d", "new\nline.w", "\x1b[31mred", "say \"hi\"`>PWNED`\\", "-rf", "wow!", "~x"]
# what is typed before TAB, and the words that come: each shell's own quoting, open or closed, in the middle of a word
TYPED = [
    ("info ck model.a\\ ", ["info", "ck", "model.a b.x"]), ("info ck 'model.a b", ["info", "ck", "model.a b.x"]), ("info ck \"model.a b", ["info", "ck", "model.a b.x"]),
    ("info ck model.i", ["info", "ck", "model.it's"]), ("info ck \"model.it'", ["info", "ck", "model.it's"]), ("info ck \\$", ["info", "ck", "$(>PWNED)"]),
    ("info ck '$", ["info", "ck", "$(>PWNED)"]), ("info ck \"\\$", ["info", "ck", "$(>PWNED)"]), ("info ck a=", ["info", "ck", "a=b.c:d"]), ("info ck a=b.c:", ["info", "ck", "a=b.c:d"]),
    ("info ck say\\ \\\"", ["info", "ck", "say \"hi\"`>PWNED`\\"]), ("info ck 'say ", ["info", "ck", "say \"hi\"`>PWNED`\\"]), ("info ck \"say \\\"h", ["info", "ck", "say \"hi\"`>PWNED`\\"]),
    ("keys ck -- -", ["keys", "ck", "--", "-rf"]), ("info ck wo", ["info", "ck", "wow!"]),
    ("get ck w --form", ["get", "ck", "w", "--format"]), ("get ck w --format j", ["get", "ck", "w", "--format", "json"]), ("get ck w --format=saf", ["get", "ck", "w", "--format=safetensors"]),
    ("ck m -o allow_other,npy", ["ck", "m", "-o", "allow_other,npy_bf16="]), ("ck m -o allow_other,dtype=b", ["ck", "m", "-o", "allow_other,dtype=bf16"]),
    ("ck m -o views=npy:sha", ["ck", "m", "-o", "views=npy:shards"]), ("ls ck --views npy,sta", ["ls", "ck", "--views", "npy,state"]),
    ("verify ck --strict raise_a", ["verify", "ck", "--strict", "raise_all"]), ("cat ck READ", ["cat", "ck", "README"]), ("cat ck npy/model.a\\ ", ["cat", "ck", "npy/model.a b.x.npy"]),
    ("hel", ["help"]), ("help inf", ["help", "info"]), ("info odd\\ ", ["info", "odd dir $(>PWNED)/"]),
]
BASH = [("info ck $'\\E[3", ["info", "ck", "\x1b[31mred"]), ("info ck $'new\\nl", ["info", "ck", "new\nline.w"]), ("info ck ne", ["info", "ck", "new\nline.w"]), ("info ~/ck model.i", None),
        ("info $HOME/ck model.i", None), ("info ck 'model'.i", ["info", "ck", "model.it's"])]


def completes_part():
    """A word that was begun, in any quoting: what comes is the word whole."""
    for name, argv, setup in shells():
        with World() as w, attempt(f"{name}: completion of part of a word"):
            h = HandMade(f"{w.dir}/cwd/ck")
            for k in PARTIAL:
                h.tensor(k, (1,), torch.float32, [((0,), (1,), "__0_0.distcp", item_bytes(torch.ones(1)))], path=(k,))
            h.commit()
            os.mkdir(f"{w.dir}/cwd/odd dir $(>PWNED)")
            lines = TYPED + (BASH if name == "bash" else [])
            out = in_terminal(argv, w.env, f"{w.dir}/cwd", [setup, *(f"shardfuse {line}\t\r" for line, _ in lines), "exit\r"])
            calls = w.calls()
            check(f"{name}: every line ran", len(calls) == len(lines), (len(calls), out[-1500:]))
            for (line, want), got in zip(lines, calls):
                want = want or ["info", f"{w.dir}/cwd/ck", "model.it's"]
                # (zsh takes a directory's slash off again)
                check(f"{name}: {line!r}", [x.rstrip("/") for x in got] == [x.rstrip("/") for x in want], (got, out[-300:]))
            check(f"{name}: nothing ran of a part", not w.pwned(), w.pwned())


for part in (completes_whole, lists_all, completes_part):
    with attempt(part.__name__):
        part()
finish()
