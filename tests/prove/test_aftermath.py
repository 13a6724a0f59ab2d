"""After a trial: processes end, GPU memory comes back or is complained of, files in /dev/shm go where they are ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envsnap.host import LiveHost
from envsnap.prove import aftermath
from envsnap.prove.aftermath import MARK, Unclean, look, room, settle, sweep, tidy
from tests.fakes import FakeHost, Reply, missing

SHM = Path("/dev/shm")


def say(text: str, passing: bool = False) -> None:
    """Nobody listens."""


class Gpus(FakeHost):
    """A machine whose GPUs use what `used` says, one list of bytes a look; the last one stays."""

    def __init__(self, *used: list[int]) -> None:
        self.used = list(used)

        def memory(function: str, *arguments: Any) -> Any:
            gpu = int(str(arguments[0]).removeprefix("gpu:"))
            if gpu == 0 and len(self.used) > 1:
                self.now = self.used.pop(0)
            elif gpu == 0:
                self.now = self.used[0]
            return {"used": self.now[gpu]}

        replies: dict[tuple[Any, ...], Reply] = {
            ("nvml", "nvmlDeviceGetCount"): len(used[0]),
            ("nvml", "nvmlDeviceGetMemoryInfo"): memory,
            ("holders",): {"holders": [], "complete": True},
        }
        super().__init__(replies=replies)


def test_a_trial_is_over_once_gpu_memory_is_back() -> None:
    host = Gpus([1 << 30, 0], [40 << 30, 0], [20 << 30, 0], [(1 << 30) + 1024, 0])
    before = look(host)
    assert before.gpus == {0: 1 << 30, 1: 0}
    assert before.unchecked == ""
    settle(host, before, "none", say, seconds=60)
    assert host.used == [[(1 << 30) + 1024, 0]]


def test_gpu_memory_that_stays_is_trouble() -> None:
    host = Gpus([0, 0], [0, 12 << 30])
    with pytest.raises(Unclean, match=r"GPU 1 holds 12\.0 GiB more than before the trial"):
        settle(host, look(host), "none", say, seconds=0.05)


def test_who_has_come_to_a_gpu_meanwhile_is_named() -> None:
    host = Gpus([0, 0], [0, 12 << 30])
    for gpu, processes in (("gpu:0", []), ("gpu:1", [{"pid": 4321}])):
        host.replies["nvml", "nvmlDeviceGetComputeRunningProcesses", gpu] = processes
    host.files["/proc/4321/comm"] = "sglang::schedul\n"
    with pytest.raises(Unclean, match=r"s after it ended: it is used by sglang::schedul$"):
        settle(host, look(host), "none", say, seconds=0.05)


def test_without_nvml_it_is_said_that_nobody_looked() -> None:
    before = look(FakeHost(replies={("nvml",): missing("absent", "NVML: no library")}))
    assert before.gpus == {}
    assert "no library" in before.unchecked


WIPE = """
import ctypes, os, time
for name, value in list(os.environ.items()):
    os.environ[name] = value
fields = open('/proc/self/stat').read().rpartition(')')[2].split()
start, end = int(fields[47]), int(fields[48])
ctypes.memset(start, 0, end - start)
"""
"""What a worker that retitles itself does: variables are kept elsewhere, and their old place is overwritten."""
WAIT = "import time; print('up', flush=True); time.sleep(60)"


def test_what_a_killed_search_left_running_is_ended_and_nothing_else() -> None:
    own, other = uuid.uuid4().hex, uuid.uuid4().hex
    programs = ((own, WAIT), (own, WIPE + WAIT), (other, WAIT))
    started = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True,
                         env={**os.environ, MARK: mark})
        for mark, program in programs
    ]  # fmt: skip
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        assert MARK.encode() not in Path(f"/proc/{started[1].pid}/environ").read_bytes()
        assert sweep(LiveHost(), [own], say) == 2
        assert [process.wait(10) for process in started[:2]] == [-9, -9]
        assert started[2].poll() is None
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_no_trial_begins_on_a_disk_that_is_nearly_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=12 << 20))
    with pytest.raises(Unclean, match="only 12 MiB are left"):
        room(tmp_path)


@pytest.fixture
def name(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Of a file that engines leave in /dev/shm; of no real one, since some may be at work beside the tests."""
    path = SHM / f"envsnap_test_{os.getpid()}"
    monkeypatch.setattr(aftermath, "_LEFT", (path.name,))
    path.unlink(missing_ok=True)
    yield path.name
    path.unlink(missing_ok=True)


@pytest.mark.skipif(not os.access(SHM, os.W_OK), reason="there is no /dev/shm to write to")
def test_what_engines_leave_in_shared_memory_is_removed_unless_it_was_there_or_is_held(name: str) -> None:
    other = SHM / f"dataset_{os.getpid()}_test"
    before = os.listdir(SHM)
    (SHM / name).write_text("left")
    other.write_text("of a user")
    try:
        assert tidy(LiveHost(), [*before, name]) == []
        # NOTE: this process does not count among those that hold files, another one does.
        with (SHM / name).open() as file:
            holding = subprocess.Popen(["sleep", "60"], stdin=file)
        try:
            assert tidy(LiveHost(), before) == []
        finally:
            holding.kill()
            holding.wait()
        assert tidy(LiveHost(), before) == [name]
        assert other.exists()
    finally:
        other.unlink()
