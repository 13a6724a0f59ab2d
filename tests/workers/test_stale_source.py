"""Files on this disk that change under workers that said what they had loaded of them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Value, Why
from envsnap.workers import stale_source
from envsnap.workers.record_file import Record


def blob(text: str) -> str:
    return hashlib.sha1(b"blob %d\0" % len(text) + text.encode()).hexdigest()


def worker(started: object, files: dict[str, str], root: str = "") -> Record:
    return Record("scheduler", "arrived", content={"watched_since": started, "code": {"files": files}}, root=root)


def test_what_holds_something_else_now_and_what_was_only_touched(tmp_path: Path) -> None:
    names = ("changed.py", "touched.py", "same.py", "before.py", "gone.py", "fifo.py")
    files = {str(tmp_path / name): blob(f"x = '{name}'\n") for name in names}
    for name in names[:4]:
        (tmp_path / name).write_text(f"x = '{name}'\n")
    os.mkfifo(tmp_path / "fifo.py")
    (tmp_path / "changed.py").write_text("x = 2\n")
    (tmp_path / "before.py").write_text("x = 3\n")
    for name, moment in (("changed.py", 200), ("touched.py", 200), ("same.py", 50), ("before.py", 150)):
        os.utime(tmp_path / name, (moment, moment))
    early, late = worker(100.0, files), worker(160.0, files)
    assert stale_source.changed(LiveHost(), [early, late]) == [
        Value([str(tmp_path / "before.py"), str(tmp_path / "changed.py")]),
        Value([str(tmp_path / "changed.py")]),
    ]


def test_a_container_is_looked_into_below_its_root(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/a.py").write_text("x = 2\n")
    assert stale_source.changed(LiveHost(), [worker(100.0, {"/app/a.py": blob("x = 1\n")}, str(tmp_path))]) == [
        Value(["/app/a.py"])
    ]
    same = worker(100.0, {"/app/a.py": blob("x = 2\n")}, str(tmp_path))
    assert stale_source.changed(LiveHost(), [same]) == [Value([])]


def test_what_cannot_be_looked_at_is_not_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is seen to have changed, all must have been looked at."""
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    held = {str(tmp_path / name): blob("x = 1\n") for name in ("a.py", "b.py", "gone.py")}
    assert stale_source.changed(LiveHost(), [worker(100.0, held)]) == [Value([])]
    elsewhere = worker(100.0, {"/no/such/a.py": blob("x = 1\n")})
    [unknown] = stale_source.changed(LiveHost(), [elsewhere])
    assert isinstance(unknown, Unavailable)
    assert unknown.why is Why.ABSENT
    monkeypatch.setattr(stale_source, "MAX_REREAD", 1)
    [unknown] = stale_source.changed(LiveHost(), [worker(100.0, held)])
    assert isinstance(unknown, Unavailable)
    assert "1 of 3 loaded files" in unknown.detail


def test_garbage_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 2\n")
    held = {str(tmp_path / "a.py"): blob("x = 1\n")}
    odd = Record("main", "arrived", content={"watched_since": 1.0, "code": {"files": [held]}})
    nothing = Record("main", "missing", "it does not exist")
    for records in ([worker("then", held)], [odd], [nothing], [], [worker(1.0, {str(tmp_path / "a.py"): 5})]):  # type: ignore[dict-item]
        told = stale_source.changed(LiveHost(), records)
        assert not any(isinstance(found, Value) and found.value for found in told)
