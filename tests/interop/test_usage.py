#!/usr/bin/env python3
"""What a wrong command line is answered with: the word that is missing, the option that was meant, a directory that is none."""
import shutil

from common import *

need_program()
CKPT, EXP = case("dcp/fsdp4")
W = tempfile.mkdtemp(prefix="sf-usage-")
FUSE = "without libfuse" not in run("mount", CKPT, W, "-o", "nonsense").stderr


def says(name, want, *args, code=2):
    r = run(*args)
    check(name, r.returncode == code and want in r.stderr, (r.returncode, r.stderr))


def missing():
    for args, want in ((["export"], "SOURCE and TARGET are missing"), (["export", CKPT], "export: TARGET is missing"), (["get", CKPT], "get: KEY is missing"),
                       (["cat", CKPT], "cat: PATH is missing"), (["ls", "-l"], "ls: SOURCE is missing"), (["info"], "info: SOURCE is missing")):
        says(f"{' '.join(args)}: which argument", want, *args)
    if FUSE:
        says("mount: MOUNTPOINT", "mount: MOUNTPOINT is missing", "mount", CKPT)
        says("umount: MOUNTPOINT", "umount: MOUNTPOINT is missing", "umount", "-z")


def meant():
    for typed, want in (("--verison", "--version"), ("--hepl", "--help"), ("--helpall", "--help-all")):
        says(typed, f"unknown option '{typed}': did you mean {want}?", typed)
    says("get -o FILE", "did you mean -O?", "get", CKPT, "model.norm.weight", "-o", "x")
    for value in (["-o", "objects=plain"], ["-oobjects=plain"]):
        says(f"export {value}", "only mount has it; here it is --objects", "export", CKPT, f"{W}/x.pt", *value)
    says("a letter that is none", "unknown option '-y' in '-y'", "export", CKPT, f"{W}/x.pt", "-y")


def help_all():
    r = run("--help-all")
    options = set(re.findall(r"^  (?:-., |    )--([a-z-]+)", r.stdout, re.M))
    every = set()
    for verb in re.findall(r"^  ([a-z]+) ", r.stdout.split("verbs:")[1].split("\n\n")[0], re.M):
        every |= set(re.findall(r"^  (?:-., |    )--([a-z-]+)", run(verb, "--help-all").stdout, re.M))
    check("--help-all has every option of every verb", len(every) > 30 and every == options, every ^ options)
    check("--help has not, and lists help", "--memory" not in run("--help").stdout and re.search(r"^  help ", run("--help").stdout, re.M))


def hf_files():
    open(f"{W}/file", "w").close()
    says("hf-files that is not there", f"'{W}/none': No such file", "export", CKPT, f"{W}/hf", "--format", "hf", "--hf-files", f"{W}/none")
    says("hf-files that is a file", f"'{W}/file' is not a directory", "ls", CKPT, "--hf-files", f"{W}/file")
    check("nothing was written", not os.path.exists(f"{W}/hf"))
    if FUSE:
        os.mkdir(f"{W}/m")
        says("hf_files of a mount", f"'{W}/none': No such file", CKPT, f"{W}/m", "-o", f"hf_files={W}/none")


for part in (missing, meant, help_all, hf_files):
    with attempt(part.__name__):
        part()
shutil.rmtree(W, ignore_errors=True)
finish()
