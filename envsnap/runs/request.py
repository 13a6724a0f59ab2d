"""What was asked of the server: the client is state too, and two runs that asked for different work say nothing."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

_INTERPRETER = re.compile(r"(?:python|pypy)[0-9.]*\Z|(?:ba|z|da)?sh\Z|perl\Z|ruby\Z|node\Z")
_TAKES_VALUE = ("-X", "-W", "-o", "--check-hash-based-pycs")
"""Options of interpreters whose value is the next word."""
MAX_SCRIPT_BYTES = 16 << 20


def script_of(argv: Sequence[str]) -> Path | None:
    """The script that a command runs: `python X.py`, `bash X.sh`, `./X`; None for a program or a module."""
    words = list(argv)
    if os.path.basename(words[0]) == "env":
        words = words[1:]
        while words and ("=" in words[0] or words[0].startswith("-")):
            words.pop(0)
    if not words:
        return None
    if not _INTERPRETER.match(os.path.basename(words[0])):
        return Path(words[0]) if "/" in words[0] and _is_script(words[0]) else None
    rest = iter(words[1:])
    for word in rest:
        if word in _TAKES_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return Path(word) if os.path.isfile(word) else None
        elif word[1:2] != "-" and word[-1] in "cm":  # -c CODE and -m MODULE, also behind others: -Im
            return None
    return None


def _is_script(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def script_sha256(argv: Sequence[str]) -> str:
    """The hash of the script that a command runs; empty where there is none, or none that can be read."""
    path = script_of(argv)
    try:
        return file_sha256(path) if path and path.stat().st_size <= MAX_SCRIPT_BYTES else ""
    except OSError:
        return ""


def file_sha256(path: Path) -> str:
    """The hash of a file of any size. Raises: OSError, also for what is no regular file."""
    if not path.is_file():
        raise FileNotFoundError(2, "There is no such file", str(path))
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
