"""Who holds the GPU device files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.host import LiveHost
from envsnap.reading import Why
from envsnap.snapshot import Section
from tests.fakes import FakeHost

DEVICES = {f"/dev/{name}": "" for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap1")}
HOLDERS = [
    {"pid": 90, "comm": "python3", "files": ["/dev/nvidia0", "/dev/nvidiactl"]},
    {"pid": 41, "comm": "nvidia-persiste", "files": ["/dev/nvidia0", "/dev/nvidiactl"]},
    {"pid": 91, "comm": "python3", "files": ["/dev/nvidiactl", "/dev/nvidia-caps/nvidia-cap1"]},
]


def section(**holders: Any) -> Section:
    answer = {"holders": HOLDERS, "looked": 200, "denied": 0, "complete": True, **holders}
    host = FakeHost(files=DEVICES, replies={("holders",): answer})
    return capture(host=host, only=["gpu_device"]).sections["gpu_device"]


def test_holders_by_device_and_name() -> None:
    found = section()
    assert (found.status, found.errors, found.unavailable) == ("ok", {}, {})
    assert found.values == {
        "gpu_device[nvidia-uvm].holders": [],
        "gpu_device[nvidia-uvm].holder_count": 0,
        "gpu_device[nvidia0].holders": ["nvidia-persiste", "python3"],
        "gpu_device[nvidia0].holder_count": 2,
        "gpu_device[nvidia1].holders": [],
        "gpu_device[nvidia1].holder_count": 0,
        "gpu_device[nvidiactl].holders": ["nvidia-persiste", "python3", "python3"],
        "gpu_device[nvidiactl].holder_count": 3,
    }


@pytest.mark.parametrize(("answer", "why"), [({"denied": 150}, Why.DENIED), ({"complete": False}, Why.TOO_LARGE)])
def test_nobody_seen_is_not_nobody_where_not_all_could_be_seen(answer: dict[str, Any], why: Why) -> None:
    found = section(**answer)
    assert found.status == "partial"
    assert found.unavailable["gpu_device[nvidia1].holders"].why is why
    assert found.unavailable["gpu_device[nvidia0].holder_count"].why is why
    assert found.values["gpu_device[nvidia0].holders"] == ["nvidia-persiste", "python3"]


def test_the_empty_machine_is_not_searched() -> None:
    host = FakeHost()
    found = capture(host=host, only=["gpu_device"]).sections["gpu_device"]
    assert (found.status, found.errors) == ("unavailable", {})
    assert [request[0] for request in host.asked] == ["glob"]


def test_a_real_process_that_holds_a_file_is_found_and_the_searcher_is_not(tmp_path: Path) -> None:
    held, other = tmp_path / "dev0", tmp_path / "devctl"
    held.touch()
    other.touch()
    with held.open() as file, subprocess.Popen(["sleep", "60"], pass_fds=[file.fileno()]) as child:
        try:
            found = LiveHost().one("holders", str(tmp_path / "dev"))
        finally:
            child.kill()
    assert found["holders"] == [{"pid": child.pid, "comm": "sleep", "files": [str(held)]}]
    assert found["complete"] is True
    assert os.getpid() not in [holder["pid"] for holder in found["holders"]]


def test_the_search_is_bounded(tmp_path: Path) -> None:
    found = LiveHost().one("holders", str(tmp_path), 4096, 0.0)
    assert found == {"holders": [], "looked": 0, "denied": 0, "complete": False}
