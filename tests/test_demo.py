from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envsnap.demo import PLANTED, DemoError, measure, stage
from tests.processes import Spawn


def start(spawn: Spawn, tmp: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "TMPDIR": str(tmp), "NCCL_PROTO": "LL"}
    command = [sys.executable, "-m", "envsnap", "demo", "--all"]
    return spawn(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=tmp.parent)


def still_running(tmp: Path) -> list[str]:
    """Processes whose working directory is, or was, below the folder; those that were killed get a moment to end."""
    for _ in range(100):
        if not (found := _below(tmp)):
            break
        time.sleep(0.05)
    return found


def _below(tmp: Path) -> list[str]:
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if os.readlink(link).startswith(str(tmp)):
                found.append(str(link))
        except OSError:  # gone, or another user's
            continue
    return found


def test_the_demo_finds_what_it_planted_and_leaves_nothing_behind(spawn: Spawn, tmp_path: Path) -> None:
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    process = start(spawn, tmp)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    fast, slow = (float(speed) for speed in re.findall(r"^  ([\d.]+) tok/s", out, re.MULTILINE))
    assert slow < 0.8 * fast
    assert re.search(r"^  worker\[rank0-1,.*\]\.env\[NCCL_PROTO\]\s+unset → Simple$", out, re.MULTILINE)
    assert "Monday → Tuesday" in out
    assert "repo[engine].changed[notes.txt].status" in out
    assert os.listdir(tmp) == []
    assert os.listdir(tmp_path) == ["tmp"]
    assert still_running(tmp) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(spawn: Spawn, tmp_path: Path, number: signal.Signals) -> None:
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    process = start(spawn, tmp)
    assert process.stdout is not None
    process.stdout.readline()  # it measures now
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert os.listdir(tmp) == []
    assert still_running(tmp) == []


def test_an_engine_that_does_not_start_is_told(tmp_path: Path) -> None:
    with stage() as folder:
        (folder / "engine.py").write_text("raise SystemExit(1)")
        with pytest.raises(DemoError, match="stopped by itself"):
            measure(folder, {}, PLANTED)
    assert not folder.exists()


def test_without_git_there_is_a_plain_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with stage() as folder:
        assert sorted(os.listdir(folder)) == ["README.md", "engine.py"]
