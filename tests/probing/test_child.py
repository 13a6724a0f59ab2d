from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envsnap.probe.child import Child, Ended
from tests.probing import stand_in
from tests.processes import Spawn

PLACE = {"device": 0, "nvml": 0, "gpus": [0], "store": "/nonexistent/store", "multicast": False}


def soon(seconds: float = 60.0) -> float:
    return time.monotonic() + seconds


def gone(pid: int) -> bool:
    """Whether a process has ended; waits for it a while."""
    until = soon(20)
    while time.monotonic() < until:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] in "ZX":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def test_a_worker_answers_and_leaves() -> None:
    child = Child(os.environ, 60)
    assert child.line(soon()) == {"ready": True, "torch": ""}
    child.ask("cpu")
    said = child.line(soon())
    assert said["figure"] == "cpu.single_thread_milliseconds"
    assert len(said["values"]) >= 3
    assert child.line(soon()) == {"done": True}
    assert child.end()
    assert gone(child._process.pid)


def test_an_unknown_probe_is_a_reason_and_the_worker_goes_on() -> None:
    child = Child(os.environ, 60)
    child.line(soon())
    child.ask("weather")
    assert "weather" in child.line(soon())["unavailable"]
    assert child.line(soon()) == {"done": True}
    assert child.end()


def test_a_worker_that_is_late_is_killed_with_what_it_started(tmp_path: Path) -> None:
    # A torch that starts a process of its own and hangs while it is imported.
    (tmp_path / "torch.py").write_text(
        "import subprocess, time\n"
        f"started = subprocess.Popen(['sleep', '1000'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(started.pid))\n"
        "time.sleep(1000)\n"
    )
    child = Child({**os.environ, "PYTHONPATH": str(tmp_path)}, 600, PLACE)
    until = soon()
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()) and time.monotonic() < until:
        time.sleep(0.02)
    with pytest.raises(Ended, match="it took too long and was ended"):
        child.line(soon(0.1))
    with pytest.raises(Ended, match="it took too long and was ended"):
        child.ask("matmul")
    assert child.end()
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_worker_that_dies_leaves_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os\nprint('cuda: out of luck', flush=True)\nos._exit(7)\n")
    child = Child({**os.environ, "PYTHONPATH": str(tmp_path)}, 60, PLACE)
    with pytest.raises(Ended, match=r"its process ended \(exit code 7\): cuda: out of luck"):
        child.line(soon())
    assert child.end()


def test_a_worker_that_is_killed_says_by_which_signal() -> None:
    child = Child(os.environ, 60)
    child.line(soon())
    os.kill(child._process.pid, signal.SIGSEGV)
    with pytest.raises(Ended, match="signal 11"):
        child.line(soon())
    assert child.end()


@pytest.mark.parametrize(
    ("torch", "reason"),
    [
        ("", "torch is not installed for this Python"),
        ("class version: cuda = None\n__version__ = '9'\n", "torch 9 is built without CUDA"),
        ("raise ImportError('libcudart.so.13: no such file')\n", "ImportError: libcudart.so.13: no such file"),
    ],
)
def test_without_a_torch_that_works_there_is_a_reason(tmp_path: Path, torch: str, reason: str) -> None:
    if torch:
        (tmp_path / "torch.py").write_text(torch)
    elif subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        pytest.skip("this Python has a torch")
    child = Child({**os.environ, "PYTHONPATH": str(tmp_path)}, 60, PLACE)
    assert child.line(soon()) == {"unavailable": reason}
    assert child.end()


def test_the_current_directory_is_no_place_for_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "hashlib", "envsnap"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    child = Child(os.environ, 60)
    assert child.line(soon()) == {"ready": True, "torch": ""}
    child.ask("cpu")
    assert "values" in child.line(soon())
    assert child.end()


def test_a_device_that_cuda_does_not_show_is_a_reason(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(stand_in.write(tmp_path / "lib")), "CUDA_VISIBLE_DEVICES": "a"}
    child = Child(environment, 60, {**PLACE, "device": 1})
    assert child.line(soon()) == {"unavailable": "CUDA shows 1 of the GPUs that were asked for"}
    assert child.end()


def test_a_worker_ends_when_its_parent_is_killed(spawn: Spawn) -> None:
    code = (
        "import os, time\nfrom envsnap.probe.child import Child\n"
        "child = Child(os.environ, 600)\nchild.line(time.monotonic() + 60)\n"
        "print(child._process.pid, flush=True)\ntime.sleep(1000)\n"
    )
    parent = spawn([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    assert gone(pid)


def test_a_worker_ends_by_itself_when_its_time_is_over() -> None:
    child = Child(os.environ, 1)
    child.line(soon())
    with pytest.raises(Ended, match=f"signal {int(signal.SIGALRM)}"):
        child.line(soon())
    assert child.end()
