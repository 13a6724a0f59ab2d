"""Where time goes, in a real process that records itself."""

from __future__ import annotations

from pathlib import Path

from tests.integrations.recording import QUICK, environment, records, run

APP = """\
import time
from envsnap.integrations import recorder

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))

def wait(seconds):
    time.sleep(seconds)

def work():
    for _ in range(90):
        spin(0.03)
        wait(0.03)

spin(0.5)
recorder.ready("test", dict)
work()
"""


def numbers(start: str) -> set[str]:
    return {str(n) for n, line in enumerate(APP.splitlines(), 1) if line.strip().startswith(start)}


def test_each_line_has_its_share_of_the_looks_while_serving(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP)
    env = environment(ENVSNAP_RECORD=str(tmp_path / "records"), **QUICK)
    done = run(str(app), env)
    assert done.returncode == 0, done.stderr
    [record] = records(tmp_path / "records")
    looks, lines = record["stacks"]["looks"], record["stacks"]["files"][str(app)]
    assert looks >= 20

    def share(start: str, which: int) -> float:
        return float(sum(lines.get(line, (0, 0))[which] for line in numbers(start)) / looks)

    inside, at = lines[numbers("work()").pop()]
    assert inside >= looks - 3, "in it all the time, but before its begin and after its end"
    assert at == 0, "never at it, since what it calls is the innermost"
    assert share("time.sleep", 1) > 0.06
    assert share("spin(0.03)", 0) > 0.06
    assert share("spin(0.03)", 1) < 0.1, "what it calls is the innermost"
    assert share("spin(0.5)", 0) == 0, "it ran before"


def test_nothing_is_looked_at_where_no_code_is_recorded(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP)
    env = environment(ENVSNAP_RECORD=str(tmp_path / "records"), ENVSNAP_RECORD_CODE="off", **QUICK)
    assert run(str(app), env).returncode == 0
    assert [r["stacks"] for r in records(tmp_path / "records")] == [{"looks": 0, "files": {}}]
