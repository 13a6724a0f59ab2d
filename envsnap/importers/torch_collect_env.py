"""torch collect_env.

Seen: torch 2.11 on a machine with two H200, 2.13 without GPUs; public reports of 2.2 to 2.7. The parts of lscpu in it
are read as lscpu's.

Untested: reports of Windows and macOS, of ROCm and XPU builds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.importers import _collect_env
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text

_START = re.compile(r"\s*PyTorch version: ")
_VLLM = re.compile(r"\s*vLLM Version\s*: ")


def recognise(text: Text) -> Iterator[range]:
    """From its first line to the last of its form, unless it is vLLM's."""
    starts = [n for n, line in enumerate(text.lines) if _START.match(line)]
    for start, limit in zip(starts, [*starts[1:], len(text.lines)]):
        lines = _collect_env.stretch(text, start, limit)
        if not any(_VLLM.match(text.lines[n]) for n in lines):
            yield _collect_env.with_greeting(text, lines)


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of torch, the system, GPUs and packages."""
    _collect_env.read(text, lines, sheet)
    sheet.version = str(sheet.values().get("library[torch].version", ""))
