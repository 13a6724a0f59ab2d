"""env.

Seen: coreutils 9.1 on this kind of machine.

Untested: `export -p`, `set`, values of several lines (their first line alone is read), `env -0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.importers import vllm_collect_env
from envsnap.importers._collect_env import SAYS_NOTHING
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of

_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,120})=(?!=)(.*)\Z")
_USUAL = re.compile(
    r"(?:PATH|HOME|PWD|SHELL|USER|SHLVL|LANG|TERM|HOSTNAME|LD_LIBRARY_PATH"
    r"|(?:NCCL|CUDA|NVIDIA|VLLM|SGLANG|SGL|TORCH|PYTORCH|HF|OMP)_\w+)="
)
ENOUGH = 3


def recognise(text: Text) -> Iterator[range]:
    """Assignments in a row, some of them of usual names; those in a report of vLLM's are read there."""
    start = 0
    count = usual = 0
    elsewhere = list(vllm_collect_env.recognise(text))
    for number, line in enumerate([*text.lines, "end"]):
        if "=" in line and _VARIABLE.match(line):
            start = start if count else number
            count += 1
            usual += bool(_USUAL.match(line))
            continue
        if count >= ENOUGH and usual and not any(start in lines for lines in elsewhere):
            yield range(start, number)
        count = usual = 0


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `env[]`."""
    for number in lines:
        if text.lines[number].strip() == SAYS_NOTHING:
            sheet.drop(number)
        elif match := _VARIABLE.match(text.lines[number]):
            sheet.value(number, path_of("env[]", match[1]), match[2])
