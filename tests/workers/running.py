"""Real processes for tests: started, waited for until they say that they are ready, and ended."""

from __future__ import annotations

import atexit
import contextlib
import functools
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"
PLAIN = {"PATH": os.environ.get("PATH", ""), "CHANGED": "before", "REMOVED": "once", "REMOVED_BY_C": "once"}
"""The environment that test programs are started with."""


@contextlib.contextmanager
def running(
    argv: Sequence[str], env: Mapping[str, str] | None = None, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, killed with all its children at the end."""
    process = subprocess.Popen(
        list(argv),
        env=dict(PLAIN if env is None else env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        errors="surrogateescape",
        start_new_session=True,
        **options,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def said(process: subprocess.Popen[str]) -> list[str]:
    """The lines that a C program prints before it waits."""
    assert process.stdout
    lines = []
    while (line := process.stdout.readline()) != "\n":
        assert line, "the program ended before it was ready"
        lines.append(line.rstrip("\n"))
    return lines


def reported(process: subprocess.Popen[str], count: int = 1) -> list[dict[str, Any]]:
    """What `count` processes of the Python program report, in order of their tags."""
    assert process.stdout
    lines = [process.stdout.readline() for _ in range(count)]
    assert all(lines), "the program ended before it was ready"
    return sorted(map(json.loads, lines), key=lambda report: str(report["tag"]))


@functools.cache
def compiled(*options: str, compiler: str = "gcc", source: str = "environ.c") -> str:
    """Path of the C program, compiled with these options. Skips where that is not possible here."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    folder = tempfile.mkdtemp(prefix="envsnap-test-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = os.path.join(folder, "program")
    result = subprocess.run(
        [compiler, "-O1", *options, "-o", target, str(PROGRAMS / source)], capture_output=True, text=True, check=False
    )
    if result.returncode:
        pytest.skip(f"{compiler} {' '.join(options)}: {result.stderr.strip().splitlines()[-1:]}")
    return target


def python_program(interpreter: str, *arguments: str) -> list[str]:
    """Command line of the Python program."""
    return [interpreter, str(PROGRAMS / "environ.py"), *arguments]


@functools.cache
def interpreters() -> list[str]:
    """Pythons of this machine, one for each version and build: the distribution's, pyenv's, this one."""
    candidates = [sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"]
    candidates += glob.glob(os.path.expanduser("~/.pyenv/versions/3.1[0-9]*/bin/python3"))
    candidates += [path for minor in range(10, 15) if (path := shutil.which(f"python3.{minor}"))]
    found: dict[str, str] = {}
    for path in candidates:
        if os.path.exists(path) and os.path.basename(os.path.dirname(path)) != "shims":
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())
