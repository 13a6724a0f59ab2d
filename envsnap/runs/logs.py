"""Logs that a server and a benchmark left beside a run: kept as they are, but for secrets."""

from __future__ import annotations

import os
from pathlib import Path

from envsnap.jsonfile import write_atomically
from envsnap.redact import Redactor
from envsnap.wording import clip, printable

PIECE_BYTES = 32 << 20
TAIL_BYTES = 16 << 10
WORDS = 200
"""Characters of a log's last line that are quoted."""


def clean(path: Path, redactor: Redactor) -> None:
    """Replace the secrets in a log. One that cannot be written again is removed rather than kept with a secret."""
    try:
        before = path.read_bytes()
    except OSError:
        return  # there is none
    after = b"".join(_cleaned(piece, redactor) for piece in _pieces(before))
    if after == before:
        return
    try:
        write_atomically(path, after)
    except OSError:
        path.unlink(missing_ok=True)


def last_words(path: Path) -> str:
    """The last line of a cleaned log that says something, cut short; empty where none does."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).decode(errors="replace").split("\n")
    except OSError:
        return ""
    said = [line.strip() for line in lines if line.strip()]
    return clip(printable(said[-1]), WORDS) if said else ""


def _cleaned(piece: bytes, redactor: Redactor) -> bytes:
    return redactor.clean_text(piece.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _pieces(data: bytes) -> list[bytes]:
    """The data in pieces of whole lines."""
    found, start = [], 0
    while start < len(data):
        end = min(len(data), start + PIECE_BYTES)
        if end < len(data):
            end = max(data.rfind(b"\n", start, end) + 1, start + 1) if b"\n" in data[start:end] else end
        found.append(data[start:end])
        start = end
    return found
