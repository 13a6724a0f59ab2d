"""vLLM collect_env.

Seen: public reports of 0.3 to 0.8, in torch's form, and of 0.9 to 0.23, under banners. Its parts of lscpu and of
`nvidia-smi topo -m` are read as theirs.

Untested: reports of ROCm, TPU and CPU builds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.importers import _collect_env
from envsnap.importers._collect_env import SAYS_NOTHING
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of

_START = re.compile(r"\s*(?:System Info|PyTorch version\s*: .*)\Z")
_VLLM = re.compile(r"\s*vLLM Version\s*: ")
_VARIABLE = re.compile(r"\s*([A-Z][A-Z0-9_]{2,80})=(.*)\Z")


def recognise(text: Text) -> Iterator[range]:
    """Stretches of the form that name vLLM's version."""
    done = 0
    for start, line in enumerate(text.lines):
        if start < done or not _START.match(line):
            continue
        lines = _collect_env.stretch(text, start, len(text.lines))
        if any(_VLLM.match(text.lines[n]) for n in lines):
            done = lines.stop
            rule = start and set(text.lines[start - 1].strip()) == {"="}
            yield _collect_env.with_greeting(text, range(start - 1, lines.stop) if rule else lines)


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of torch, vLLM, the system, GPUs, packages and variables."""
    _collect_env.read(text, lines, sheet)
    sheet.version = str(sheet.values().get("package[vllm].version", ""))
    after = next((n for n in lines if _VLLM.match(text.lines[n])), lines.stop)
    for number in range(after + 1, lines.stop):
        if match := _VARIABLE.match(text.lines[number]):
            if match[0].strip() == SAYS_NOTHING:
                sheet.drop(number)
            else:
                sheet.value(number, path_of("env[]", match[1]), match[2].rstrip())
