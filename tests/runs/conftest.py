from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    def children() -> set[str]:
        return {
            entry.name
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and _parent(entry) == str(os.getpid())
        }

    before = children()
    yield
    assert children() <= before


def _parent(entry: Path) -> str:
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return ""
