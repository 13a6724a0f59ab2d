"""The fixture that other tests rely on: whatever a program started is gone, also where it forked away."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.processes import Spawn, _left

AWAY = """
import os, sys, time
setsid = sys.argv[1] == "setsid"
if os.fork() == 0:
    if setsid:
        os.setsid()
    print("up", flush=True)
    time.sleep(600)
if setsid:
    time.sleep(600)
"""


@pytest.mark.parametrize("how", ["stays", "setsid"])
def test_nothing_outlives_its_test(how: str) -> None:
    spawn = Spawn()
    try:
        process = spawn([sys.executable, "-c", AWAY, how], stdout=subprocess.PIPE, text=True)
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        if how == "stays":
            process.wait()  # the child is nobody's now, and in the session still
        assert _left({process.pid})
    finally:
        spawn.end()
    assert not _left({process.pid})
    assert process.returncode is not None
