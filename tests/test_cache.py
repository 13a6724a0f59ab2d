import json
import os
import resource
import stat
from pathlib import Path
from typing import Any

import pytest

from envsnap import cache
from envsnap.host import Host, LiveHost, RecordedHost, RecordingHost
from envsnap.scope import Scope

OLD = 1_600_000_000_000_000_000


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "envsnap"


def put(key: str, value: Any, host: Host | None = None, scope: Scope | None = None) -> None:
    with cache.opened(host or LiveHost(), scope or Scope(), "subject") as held:
        held.put(key, value)


def got(key: str, host: Host | None = None, scope: Scope | None = None) -> Any:
    with cache.opened(host or LiveHost(), scope or Scope(), "subject") as held:
        return held.get(key)


def test_it_holds_what_was_put_for_its_owner_alone(home: Path) -> None:
    put("key", {"version": "2.27.5"})
    assert got("key") == {"version": "2.27.5"}
    assert got("other") is None
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "subject.json").stat().st_mode) == 0o600
    assert [f.name for f in home.iterdir()] == ["subject.json"]


def test_subjects_are_apart(home: Path) -> None:
    put("key", 1)
    with cache.opened(LiveHost(), Scope(), "another") as held:
        assert held.get("key") is None


def test_reading_alone_writes_nothing(home: Path) -> None:
    put("key", 1)
    before = (home / "subject.json").stat().st_mtime_ns
    os.utime(home / "subject.json", ns=(OLD, OLD))
    assert got("key") == 1
    assert (home / "subject.json").stat().st_mtime_ns == OLD != before


def test_it_is_off_when_told_so(home: Path) -> None:
    put("key", 1, scope=Scope(cache=False))
    assert not home.exists()
    put("key", 1)
    assert got("key", scope=Scope(cache=False)) is None


@pytest.mark.parametrize("host", [RecordedHost({}), RecordingHost(LiveHost())], ids=["recorded", "recording"])
def test_only_the_live_machine_has_one(home: Path, host: Host) -> None:
    put("key", 1, host=host)
    assert not home.exists()
    put("key", 1)
    assert got("key", host=host) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"format": "other", "entries": {"key": 1}}',
        b'{"format": "envsnap.cache.1", "entries": [1]}',
        b"[" * 100_000,
        b'{"format": "envsnap.cache.1", "entries": {"key": 1}}' + b" " * cache.MAX_FILE_BYTES,
    ],
)
def test_garbage_counts_as_empty_and_is_replaced(home: Path, content: bytes) -> None:
    put("other", 1)
    (home / "subject.json").write_bytes(content)
    assert got("key") is None
    put("key", 2)
    assert got("key") == 2


def test_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    put("key", 1)
    target = tmp_path / "target.json"
    (home / "subject.json").rename(target)
    (home / "subject.json").symlink_to(target)
    assert got("key") is None
    put("key", 2)
    assert not (home / "subject.json").is_symlink()
    assert json.loads(target.read_text())["entries"] == {"key": 1}


def test_a_fifo_does_not_hang(home: Path) -> None:
    home.mkdir(parents=True, mode=0o700)
    os.mkfifo(home / "subject.json", 0o600)
    assert got("key") is None


def test_what_others_can_write_is_not_believed(home: Path) -> None:
    put("key", 1)
    (home / "subject.json").chmod(0o620)
    assert got("key") is None
    (home / "subject.json").chmod(0o600)
    assert got("key") == 1
    home.chmod(0o777)
    assert got("key") is None
    put("key", 2)
    home.chmod(0o700)
    assert got("key") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_what_another_user_owns_is_not_believed(home: Path) -> None:
    put("key", 1)
    os.chown(home / "subject.json", 12345, 12345)
    assert got("key") is None


def test_a_disk_that_takes_nothing_raises_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/full")
    put("key", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nothing")
    put("key", 1)
    assert got("key") is None


def test_a_disk_that_fills_up_leaves_the_old_file_whole(home: Path) -> None:
    put("key", 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        put("key", 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert got("key") == 1
    assert [f.name for f in home.iterdir()] == ["subject.json"]


def test_without_a_home_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "also-relative")
    put("key", 1)
    assert list(tmp_path.iterdir()) == []


def test_it_stays_small_and_drops_what_was_used_longest_ago(home: Path) -> None:
    block = "x" * 1000
    count = 2 * cache.MAX_FILE_BYTES // 1000
    with cache.opened(LiveHost(), Scope(), "subject") as held:
        held.put("first", block)
        for i in range(count):
            held.put(f"key {i}", block)
        assert held.get("first") == block
        held.put("huge", "x" * cache.MAX_ENTRY_BYTES)
    assert (home / "subject.json").stat().st_size <= cache.MAX_FILE_BYTES
    with cache.opened(LiveHost(), Scope(), "subject") as held:
        assert held.get("first") == block
        assert held.get(f"key {count - 1}") == block
        assert held.get("key 0") is None
        assert held.get("huge") is None


class Lookup:
    def __init__(self, answer: Any) -> None:
        self.calls = 0
        self.answer = answer

    def __call__(self) -> Any:
        self.calls += 1
        return self.answer


def file_of(path: Path) -> dict[str, Any]:
    return LiveHost().stat(str(path))


def aged(status: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """As if the file had not been touched for long; ctime cannot be set for real."""
    return {**status, "mtime_ns": OLD, "ctime_ns": OLD, **changed}


def test_a_file_is_looked_up_once_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_text("content")
    look_up = Lookup("2.27.5")
    status = aged(file_of(path))
    for same in (status, status, {**status, "mode": 0o600}):
        with cache.opened(LiveHost(), Scope(), "subject") as held:
            assert held.remembered("version", str(path), same, look_up) == "2.27.5"
    assert look_up.calls == 1
    for field in ("size", "inode", "mtime_ns", "ctime_ns", "device"):
        look_up = Lookup(f"another by {field}")
        with cache.opened(LiveHost(), Scope(), "subject") as held:
            changed = {**status, field: status[field] + 1}
            assert held.remembered("version", str(path), changed, look_up) == f"another by {field}"
        assert look_up.calls == 1
    with cache.opened(LiveHost(), Scope(), "subject") as held:
        assert held.remembered("another question", str(path), status, Lookup("x")) == "x"


def test_a_file_that_changed_just_now_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_text("content")
    look_up = Lookup("2.27.5")
    for _ in range(2):
        with cache.opened(LiveHost(), Scope(), "subject") as held:
            held.remembered("version", str(path), file_of(path), look_up)
    assert look_up.calls == 2


def test_a_look_up_that_failed_is_not_kept(tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError("no version in it")

    with cache.opened(LiveHost(), Scope(), "subject") as held:
        with pytest.raises(ValueError, match="no version"):
            held.remembered("version", "/lib.so", {"size": 1}, fail)
        assert held.remembered("version", "/lib.so", {"size": 1}, Lookup("x")) == "x"
