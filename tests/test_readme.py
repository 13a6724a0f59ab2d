"""The README shows what the program prints: every console block is run and compared.

ENVSNAP_UPDATE_GOLDEN=1 writes the output into the README.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"^```console\n\$ (?P<command>envsnap [^\n]*)\n(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = list(BLOCK.finditer(README.read_text()))


def _output(command: str) -> str:
    arguments = shlex.split(command)[1:]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-m", "envsnap", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("command", [block["command"] for block in BLOCKS])
def test_a_block_is_what_the_program_prints(command: str) -> None:
    printed = _output(command)
    if os.environ.get("ENVSNAP_UPDATE_GOLDEN") == "1":
        text = README.read_text()
        block = next(b for b in BLOCK.finditer(text) if b["command"] == command)
        README.write_text(text[: block.start("output")] + printed + text[block.end("output") :])
        return
    shown = next(block["output"] for block in BLOCKS if block["command"] == command)
    assert shown == printed


def test_every_verb_that_is_named_exists() -> None:
    from envsnap.cli import verbs

    named = set(re.findall(r"envsnap ([a-z]+)\b", README.read_text()))
    assert named & set(verbs()) >= {"capture", "diff", "explain", "check", "workers", "run", "share", "record"}


def test_headings_and_fences_stand_at_the_start_of_a_line() -> None:
    """A paragraph that was filled again must not have swallowed the section after it."""
    prose = BLOCK.sub("", README.read_text()).splitlines()
    swallowed = [line for line in prose if re.search(r"\S.*```|\S\s+##+(\s|$)", line)]
    assert swallowed == []
