from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from envsnap.integrations.reach import ranges
from tests.integrations.recording import QUICK, environment, records, run

needs_monitoring = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")

APP = """\
import sys, time
from envsnap.integrations import recorder

def early():
    return 1

def both(late):
    if late:
        return 2
    return 3

def never():
    return 4

def loop():
    for turn in range(2):
        if turn:
            both(True)
            continue
        early()
        both(False)
        ready()

def ready():
    recorder.ready("test", dict)

loop()
"""


def lines(found: dict[str, Any], window: str) -> set[int]:
    """Line numbers out of ranges."""
    return {line for first, last in found.get(window, []) for line in range(first, last + 1)}


def numbers(*starts: str) -> set[int]:
    """The numbers of the lines of APP that start so."""
    return {
        number
        for number, line in enumerate(APP.splitlines(), 1)
        if any(line.strip().startswith(start) for start in starts)
    }


@pytest.fixture
def app(tmp_path: Path) -> str:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.py").write_text(APP)
    return str(tmp_path / "app" / "main.py")


def reach(app: str, tmp_path: Path, **env: str) -> dict[str, Any]:
    directory = tmp_path / "records"
    named = {"ENVSNAP_RECORD_CODE": str(Path(app).parent)}
    named |= {"ENVSNAP_RECORD": str(directory), "ENVSNAP_RECORD_SETTLE_SECONDS": "60", **env}
    done = run(app, environment(**{name: value for name, value in named.items() if value}))
    assert done.stderr == ""
    found: dict[str, Any] = records(directory)[0]["reach"]
    return found


@needs_monitoring
def test_each_window_has_the_lines_that_ran_in_it_and_no_other(app: str, tmp_path: Path) -> None:
    found = reach(app, tmp_path)
    file = found["files"][app]
    assert lines(file, "start_up") >= numbers("import sys", "def ", "return 1", "return 3", "early()", "ready()")
    assert not lines(file, "start_up") & numbers("return 2", "return 4", "continue")
    # The loop had begun before and was still running: its further turns are seen too.
    assert lines(file, "serving") >= numbers("return 2", "if turn", "continue", "both(True)")
    assert not lines(file, "serving") & numbers("return 1", "return 3", "return 4", "import sys", "early()")


@needs_monitoring
def test_windows_follow_each_other_and_say_that_nothing_was_missed(app: str, tmp_path: Path) -> None:
    windows = reach(app, tmp_path)["windows"]
    assert list(windows) == ["start_up", "serving"]
    assert windows["start_up"]["from"] <= windows["start_up"]["to"] == windows["serving"]["from"]
    assert windows["serving"]["from"] <= windows["serving"]["to"]
    assert [window["complete"] for window in windows.values()] == [True, True]


@needs_monitoring
def test_a_window_that_began_after_code_was_loaded_says_so(app: str, tmp_path: Path) -> None:
    code = f"""
import runpy, sys, os
sys.path.insert(0, {str(Path(app).parent)!r})
import before
from envsnap.integrations import recorder
os.environ["ENVSNAP_RECORD"] = {str(tmp_path / "records")!r}
recorder.start(True)
before.function()
"""
    (Path(app).parent / "before.py").write_text("def function():\n    return 1\n")
    (Path(app).parent / "late.py").write_text(code)
    env = environment(str(Path(__file__).parents[2]), **QUICK, ENVSNAP_RECORD_CODE=str(Path(app).parent))
    assert run(str(Path(app).parent / "late.py"), env).stderr == ""
    found = records(tmp_path / "records")[0]["reach"]
    assert found["windows"]["start_up"]["complete"] is False
    assert lines(found["files"][str(Path(app).parent / "before.py")], "start_up") == {2}
    # The program itself was running when the watch began.
    assert len(code.splitlines()) in lines(found["files"][str(Path(app).parent / "late.py")], "start_up")


@needs_monitoring
def test_only_the_given_directories_are_watched(app: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    found = reach(app, tmp_path, ENVSNAP_RECORD_CODE=str(tmp_path / "other"))
    assert found["files"] == {}
    assert reach(app, tmp_path / "more", ENVSNAP_RECORD_CODE="off")["reason"] == "switched off"


@needs_monitoring
def test_by_itself_code_is_watched_only_where_it_costs_nothing(app: str, tmp_path: Path) -> None:
    found = reach(app, tmp_path, ENVSNAP_RECORD_CODE="")
    if sys.version_info < (3, 13):
        assert "ENVSNAP_RECORD_CODE" in found["reason"]
    else:
        assert app in found["files"]


@needs_monitoring
def test_functions_and_comprehensions_of_one_line_count_when_they_run(app: str, tmp_path: Path) -> None:
    more = """
def called(): return 5
def left(): return 6
ready()
called()
sum(turn for turn in range(3))
"""
    Path(app).write_text(APP + more)
    found = lines(reach(app, tmp_path)["files"][app], "serving")
    first = len(APP.splitlines())
    assert found & set(range(first + 1, first + 7)) == {first + 2, first + 5, first + 6}


@needs_monitoring
def test_saying_ready_again_moves_what_ran_before_into_start_up(app: str, tmp_path: Path) -> None:
    (Path(app)).write_text(APP + "early()\nready()\nboth(False)\n")
    file = reach(app, tmp_path)["files"][app]
    assert lines(file, "start_up") >= numbers("return 1", "return 2", "return 3")
    assert lines(file, "serving") & numbers("return ") == numbers("return 3")


@needs_monitoring
def test_other_tools_keep_their_numbers_and_events(tmp_path: Path, app: str) -> None:
    code = """
import sys
seen = []
sys.monitoring.use_tool_id(1, "coverage")
sys.monitoring.register_callback(1, sys.monitoring.events.PY_START, lambda code, offset: seen.append(code.co_name))
sys.monitoring.set_events(1, sys.monitoring.events.PY_START)
from envsnap.integrations.reach import Reach
from envsnap.integrations.trees import Trees
first, second, third = Reach(Trees("/app")), Reach(Trees("/app")), Reach(Trees("/app"))
for reach in (first, second, third):
    reach.start()
assert [first.reason, second.reason] == ["", ""], first.reason
assert "other tools" in third.reason
def mine(): pass
mine()
for reach in (first, second, third):
    reach.serving()
    reach.stop()
mine()
assert seen.count("mine") == 2
assert [sys.monitoring.get_tool(n) for n in range(6)] == [None, "coverage", None, None, None, None]
print("fine")
"""
    done = run(code, environment(str(Path(__file__).parents[2])))
    assert (done.stdout, done.stderr) == ("fine\n", "")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="for versions without sys.monitoring")
def test_older_pythons_say_why_and_still_name_the_files(app: str, tmp_path: Path) -> None:
    # NOTE: after its last line, Python takes the file's name from the main module.
    Path(app).write_text(APP + "import time; time.sleep(0.5)\n")
    found = reach(app, tmp_path, **QUICK)
    assert found == {"reason": "needs Python 3.12 or later", "windows": {}, "files": {}}
    code = records(tmp_path / "records")[0]["code"]
    assert app in code["files"]


def test_ranges() -> None:
    assert ranges({3, 1, 2, 7, 9, 8}) == [[1, 3], [7, 9]]
    assert ranges([]) == []
