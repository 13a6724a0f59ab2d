"""Collectors in a process of their own: the same answers, and nothing that a driver does holds the others."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.host import Host
from envsnap.redact import Redactor
from envsnap.snapshot import Snapshot
from tests.fakes import FakeHost
from tests.nvml_fixture import replies

SECTIONS = ("gpu", "gpu_pair", "kernel")


def take(host: Host, apart: bool, deadline: float = 10.0) -> Snapshot:
    return capture(host=host, only=SECTIONS, apart=apart, deadline=deadline)


def children() -> set[str]:
    own = str(os.getpid())
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[1] == own:
                found.add(entry.name)
    return found


def test_the_same_sections_come_back() -> None:
    here, there = (take(FakeHost(replies=replies()), apart) for apart in (False, True))
    for name in SECTIONS:
        assert replace(here.sections[name], seconds=0) == replace(there.sections[name], seconds=0)
    assert there.sections["gpu"].values["gpu[0].name"] == "NVIDIA H200"


def test_a_secret_that_comes_from_there_is_hidden_here() -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    host = FakeHost(replies=replies(nvmlDeviceGetVbiosVersion=token))
    snapshot = capture(host=host, only=("gpu",), apart=True, redactor=Redactor())
    assert token not in str(snapshot.as_json())
    assert snapshot.redaction["redacted"]


@pytest.mark.parametrize("act", [lambda *a: time.sleep(60), lambda *a: os._exit(3), lambda *a: os.kill(os.getpid(), 9)])
def test_a_driver_that_hangs_or_takes_its_process_along(act: Any) -> None:
    before = children()
    host = FakeHost({"/proc/cmdline": "quiet\n"}, replies={**replies(), ("nvml", "nvmlDeviceGetName"): act})
    began = time.monotonic()
    snapshot = take(host, apart=True, deadline=1.0)
    assert time.monotonic() - began < 5
    assert snapshot.sections["gpu"].status in ("timeout", "partial")
    assert not snapshot.sections["gpu"].complete
    assert snapshot.sections["kernel"].status == "ok"
    for _ in range(100):
        if children() <= before:
            break
        time.sleep(0.02)
    assert children() <= before
