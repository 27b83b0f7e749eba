"""A mount, by the program."""
from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from typing import Any, Iterator, Optional, Union


def program() -> str:
    """The file that SHARDFUSE_PROGRAM names, else what PATH has."""
    found = os.environ.get("SHARDFUSE_PROGRAM") or shutil.which("shardfuse")
    if not found:
        raise FileNotFoundError("shardfuse is not in PATH: install it, or name the program in SHARDFUSE_PROGRAM")
    return found


def _run(*args: str) -> None:
    r = subprocess.run([program(), *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="surrogateescape")
    if r.returncode:
        raise OSError(f"{' '.join(('shardfuse',) + args[:1])}: exit {r.returncode}: {r.stderr.strip()}")


@contextlib.contextmanager
def mount(source: Union[str, os.PathLike], mountpoint: Union[str, os.PathLike, None] = None, **options: Any) -> Iterator[str]:
    """with mount("s3://runs/r1/step9000", hf_files="/models/base") as d: torch.load(f"{d}/model.pt", mmap=True)

    Options are shardfuse(1)'s -o: name=value; True for one without a value; a list for one that repeats. Without a mountpoint it is a
    directory made for it, and removed. What is open in it when the block ends stays readable until it is closed.
    """
    with contextlib.ExitStack() as stack:
        where = os.fspath(mountpoint) if mountpoint is not None else stack.enter_context(_directory())
        args = []
        for name, value in options.items():
            for v in value if isinstance(value, (list, tuple)) else [value]:
                if v is not None and v is not False:
                    args += ["-o", name if v is True else f"{name}={os.fspath(v) if isinstance(v, os.PathLike) else v}".replace(",", "\\,")]
        _run("mount", os.fspath(source), where, *args)
        stack.callback(_run, "umount", "--lazy", where)
        yield where


@contextlib.contextmanager
def _directory() -> Iterator[str]:
    made: Optional[str] = tempfile.mkdtemp(prefix="shardfuse-")
    try:
        yield made
    finally:
        os.rmdir(made)  # never what is below a mount that would not end
