"""Law 3: every recorded machine replays to its golden snapshot, which is a valid one.

`ENVSNAP_UPDATE_GOLDEN=1` writes the golden files anew: look at the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envsnap.recording import GOLDEN, replay
from envsnap.schema import violations
from envsnap.snapshot import dumps, load, write

FOLDERS = sorted(p for p in (Path(__file__).parent / "machines").iterdir() if p.is_dir())
MAX_BYTES = 1_500_000


def test_there_are_machines() -> None:
    assert {"empty", "vm-2cpu"} <= {folder.name for folder in FOLDERS}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_law_a_machine_replays_to_its_golden_snapshot(folder: Path) -> None:
    replayed = replay(folder)
    if os.environ.get("ENVSNAP_UPDATE_GOLDEN") == "1":
        write(replayed, folder / GOLDEN)
    assert dumps(replayed) == (folder / GOLDEN).read_text("ascii")
    assert dumps(load(folder / GOLDEN)) == dumps(replayed)
    assert violations(replayed.as_json()) == []
    assert not {name: s.reason for name, s in replayed.sections.items() if s.status in ("error", "timeout")}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_machine_is_small(folder: Path) -> None:
    assert sum(p.stat().st_size for p in folder.iterdir()) < MAX_BYTES
