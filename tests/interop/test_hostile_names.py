#!/usr/bin/env python3
"""Names that a shell, a Python prompt or a terminal would obey: everything that prints or completes them shows them, and nothing obeys."""
import ast
import pty
import re
import select
import shlex
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
        return [os.path.join(b, f) for b, _, fs in os.walk(self.dir) for f in fs if f == "PWNED"]

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


def completes_mounts():
    """umount and status complete the mounts there are, whatever their directories are called."""
    if no_fuse():
        skip("completion of mounts", no_fuse())
        return
    for name, argv, setup in shells():
        with World() as w, attempt(f"{name}: completion of mounts"):
            where = f"{w.dir}/cwd/m $(>PWNED) it's"
            os.mkdir(where)
            r = run(EVIL, where)
            try:
                check("mounted", r.returncode == 0, r.stderr)
                start = f"{w.dir}/cwd/m"
                out = in_terminal(argv, w.env, f"{w.dir}/cwd", [setup, f"shardfuse umount {start}\t\r", f"shardfuse status {start}\t\r", "exit\r"])
                check(f"{name}: TAB gives the mount", w.calls() == [["umount", where], ["status", where]], (w.calls(), out[-300:]))
            finally:
                unmount(where)
            check(f"{name}: no mount's name ran", not w.pwned(), w.pwned())


def code_lines(text):
    """The indented lines of info or README that are Python or a shell's, MNT being the mountpoint."""
    return [x.strip() for x in text.splitlines() if re.match(r"\s+(torch|safetensors|numpy|AutoModel|ls \S*MNT/|shardfuse )", x)]


def literal_path(line):
    """The one call that a Python line is, and the path it names."""
    body = ast.parse(line).body
    if len(body) != 1 or not isinstance(body[0], ast.Expr) or not isinstance(body[0].value, ast.Call) or not isinstance(body[0].value.args[0], ast.Constant):
        raise ValueError(f"more than a call: {line!r}")
    return body[0].value.args[0].value


def words_of(line, cwd, env=None):
    """The words that a real shell makes of a line."""
    r = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, cwd=cwd, env=dict(os.environ, **(env or {})))
    return [os.fsdecode(x) for x in r.stdout.split(b"\0")[:-1]]


def pastes():
    """Every line of info and README that is made to be copied: one call with the literal name, or words that are the name."""
    groups = {f"MNT/{esc(g)}.{ext}" for g in hostile.GROUPS for ext in ("pt", "safetensors")} | {f"MNT/{g}.{ext}" for g in ("checkpoint", "model") for ext in ("pt", "safetensors")}
    with tempfile.TemporaryDirectory() as d:
        for what, text in (("info", run("info", EVIL, cwd=d).stdout), ("README", run("cat", EVIL, "README", cwd=d).stdout)):
            lines = [x for x in code_lines(text) if not x.startswith(("ls ", "shardfuse "))]
            with attempt(f"{what}: Python lines"):
                named = [literal_path(x) for x in lines]
                roots = {p for p in named if p.count("/") == 1 and p != "MNT/hf"}
                check(f"{what}: a line for each group's file, with its literal name", roots == groups, (sorted(roots ^ groups)))
                check(f"{what}: not a character that hides or obeys", all(c.isprintable() for x in code_lines(text) for c in x), text)
                check(f"{what}: weights_only=True and nothing else", all("weights_only=True" in x for x in lines if x.startswith("torch.load(")) and "weights_only=False" not in text, text)
        same_lines = code_lines(run("info", EVIL).stdout), [x for x in code_lines(run("cat", EVIL, "README").stdout) if not x.startswith("shardfuse ")]
        check("info and README say the same lines", same_lines[0] == same_lines[1], same_lines)
        for k in hostile.ALL:  # each as the example of one tensor
            for what, r in (("info", run("info", f"--key=model.{k}", "--", EVIL)), ("README", run("cat", f"--key=model.{k}", "--", EVIL, "README"))):
                with attempt(f"{what} of {k!r}"):
                    lines = code_lines(r.stdout)
                    npy = next(literal_path(x) for x in lines if x.startswith("numpy.load("))
                    listed = next(words_of(x, d) for x in lines if x.startswith("ls "))
                    globs = set("*?[") & set(k)
                    check(f"{what}: the literal of {k!r}", globs or npy == f"MNT/npy/{flat('model.' + k)}.npy", (npy, lines))
                    check(f"{what}: a shell's words of {k!r}", globs or listed == ["ls", f"MNT/state/{state_dir('model.' + k)}/"], (listed, lines))
                    if not any("$'" in x for x in lines):
                        check(f"{what}: shlex agrees about {k!r}", [shlex.split(x) for x in lines if x.startswith("ls ")] == [listed], lines)
        check("no line did a thing", os.listdir(d) == [], os.listdir(d))


def names_source():
    """SOURCE absolutely, as one word, whatever the directory is called."""
    with tempfile.TemporaryDirectory() as d:
        for name in ("$(>PWNED)", "it's a dir", "new\nline", "\x1b[31mred", "plain"):
            os.mkdir(f"{d}/{name}")
            shutil.copytree(case("dcp/file_per_item")[0], f"{d}/{name}/ckpt")
            with attempt(f"README of {name!r}"):
                r = run("cat", "ckpt", "README", cwd=f"{d}/{name}")
                words = next(words_of(x, d) for x in code_lines(r.stdout) if x.startswith("shardfuse export "))
                check(f"README: a line that exports from {name!r}", words[2] == f"{os.path.realpath(d)}/{name}/ckpt", (words, r.stdout))
                check(f"README: the source's name is absolute: {name!r}", f"Source: {os.path.realpath(d)}/" in r.stdout and "\x1b" not in r.stdout, r.stdout[:300])
        if no_fuse():
            skip("user.shardfuse.source", no_fuse())
        else:
            with tempfile.TemporaryDirectory() as m:
                r = subprocess.run([os.path.abspath(BIN), "ckpt", m], cwd=f"{d}/plain", capture_output=True, text=True)
                try:
                    check("the attribute is absolute too", os.getxattr(f"{m}/README", "user.shardfuse.source").decode() == f"{os.path.realpath(d)}/plain/ckpt", r.stderr)
                finally:
                    unmount(m)
        check("no directory's name ran", [f for b, _, fs in os.walk(d) for f in fs if f == "PWNED"] == [])


class Evil:
    def __reduce__(self):
        return (os.system, (">PWNED",))


def advice():
    """A checkpoint whose object runs a command when it is unpickled: what info and README advise works, and runs nothing."""
    with tempfile.TemporaryDirectory() as d:
        h = HandMade(f"{d}/ckpt")
        h.tensor("model.w", (2,), torch.float32, [((0,), (2,), "__0_0.distcp", item_bytes(torch.ones(2)))])
        h.object("model.hook\n\x1b[31m", Evil(), path=("model", "hook\n\x1b[31m"))
        h.object("train.step", 7)
        h.commit()
        for what, args in (("info", ["info", f"{d}/ckpt"]), ("README", ["cat", f"{d}/ckpt", "README"])):
            text = run(*args).stdout
            model = next(x for x in code_lines(text) if "MNT/model.pt" in x)
            train = next(x for x in code_lines(text) if "MNT/train.pt" in x)
            check(f"{what}: the safe way stands in the line", "weights_only=True)" in model and "-o objects=plain" in model and ".system" in model and "#" not in train, (model, train))
            check(f"{what}: weights_only=False only for those who trust", all("only if you trust" in x for x in text.splitlines() if "weights_only=False" in x) and "weights_only=False" in text, text)
            check(f"{what}: names in comments are one line and shown", all(c.isprintable() for c in model), model)
            for more in (["--objects", "plain"], ["--objects", "none"]):
                text = run(*args, *more).stdout
                check(f"{what} {more[1]}: nothing is left to warn of", "weights_only=True)\n" in text and "weights_only=False" not in text and "posix" not in text, text)
        if no_fuse():
            skip("the lines of info, run", no_fuse())
            return
        for src, opts in ((f"{d}/ckpt", ["objects=plain"]), (EVIL, [])):
            with Mount(src, *opts) as m, attempt("the lines of info load"):
                os.mkdir(f"{d}/cwd-{len(opts)}")
                lines = [x for x in code_lines(run("info", src).stdout) if x.startswith(("torch.", "safetensors.", "numpy."))]
                script = f"import os, torch, safetensors, numpy\nos.symlink({m!r}, 'MNT')\n" + "".join(f"x = {x}\n" for x in lines) + "del x\nos.unlink('MNT')\n"
                r = subprocess.run([sys.executable, "-c", script], cwd=f"{d}/cwd-{len(opts)}", capture_output=True, text=True, timeout=120)
                check(f"every line of info, pasted into Python: {os.path.basename(src)}", r.returncode == 0 and len(lines) > 5, r.stderr[-600:])
                check("and nothing ran", os.listdir(f"{d}/cwd-{len(opts)}") == [], os.listdir(f"{d}/cwd-{len(opts)}"))
        with attempt("export --objects plain"):
            r = run("export", f"{d}/ckpt", f"{d}/x.pt", "--objects", "plain")
            check("export --objects plain loads with weights_only=True", torch.load(f"{d}/x.pt", weights_only=True)["train"]["step"] == 7, r.stderr)


def on_a_terminal():
    """All verbs that show names, on a terminal of their own."""
    k = hostile.ALL.index("\x1b[31mred")
    with World() as w, attempt("verbs on a terminal"):
        shutil.copytree(EVIL, f"{w.dir}/cwd/ckpt")
        hand = HandMade(f"{w.dir}/cwd/odd")  # damage, and stored files with such names
        for n, name in enumerate(["\x1b[31mred.distcp", "new\nline.distcp", "\xc2\x9b31m".encode("latin-1").decode() + ".distcp"]):
            hand.tensor(f"model.{hostile.ALL[k + n]}", (2,), torch.float32, [((0,), (2,), name, item_bytes(torch.ones(2)))], path=("model", hostile.ALL[k + n]))
        hand.commit()
        os.unlink(f"{w.dir}/cwd/odd/new\nline.distcp")
        os.truncate(f"{w.dir}/cwd/odd/\x1b[31mred.distcp", 5)
        for args in (["info", "ckpt"], ["info", "ckpt", "model"], ["info", "ckpt", "\x1b[31mred"], ["keys", "ckpt"], ["keys", "-l", "ckpt"], ["ls", "ckpt"], ["ls", "-l", "ckpt", "npy"], ["ls", "-R", "ckpt"],
                     ["cat", "ckpt", "README"], ["verify", "ckpt"], ["get", "ckpt", "model", "-O", "out"], ["get", "ckpt", "no\x1b[31mred"], ["get", "ckpt", "new\nline.o"],
                     ["export", "ckpt", "out/x", "--format", "npy", "--strategy", "one_file_per_tensor"], ["info", "ckpt", "--key", "no\x1b[31mred"], ["info", "no\x1b[31mred"],
                     ["info", "odd"], ["verify", "odd"], ["info", "odd", "model"], ["cat", "odd", "README"], ["cat", "odd", "model.pt"], ["verify", "--deep", "odd"], ["ls", "odd", "shards"],
                     ["verify", "ckpt", "--expect", "no\x1b[31mred"], ["cat", "ckpt", "no\x1b[31mred"], ["info", "ckpt", "--views", "no\x1b[31mred"], ["info", "ckpt", "--no\x1b[31mred"]):
            out = in_terminal([os.path.abspath(BIN), *args], os.environ | w.env, f"{w.dir}/cwd", [])
            check(f"nothing raw of {' '.join(args)!r}", out and not [r for r in RAW if r in out], ([r for r in RAW if r in out], out[:300]))
        check("no verb ran a name", not w.pwned(), w.pwned())


for part in (completes_whole, lists_all, completes_part, completes_mounts, pastes, names_source, advice, on_a_terminal):
    with attempt(part.__name__):
        part()
finish()
