from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from envsnap.integrations import files


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_record_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files.write(str(tmp_path / "a" / "b"), "r.json", b"{}")
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "b" / "r.json").read_bytes() == b"{}"
    assert mode(tmp_path / "a" / "b") == 0o700
    assert mode(tmp_path / "a" / "b" / "r.json") == 0o600


def test_a_link_in_the_records_place_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    folder = tmp_path / "records"
    folder.mkdir(mode=0o700)
    (folder / "r.json").symlink_to(target)
    files.write(str(folder), "r.json", b"{}")
    assert target.read_text() == "mine"
    assert not (folder / "r.json").is_symlink()
    assert (folder / "r.json").read_bytes() == b"{}"


def test_a_link_in_the_temporary_files_place_is_not_written_through(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / "records").mkdir(mode=0o700)
    (tmp_path / "records" / ".r.json.tmp").symlink_to(target)
    files.write(str(tmp_path / "records"), "r.json", b"{}")
    assert target.read_text() == "mine"
    assert sorted(p.name for p in (tmp_path / "records").iterdir()) == ["r.json"]


def test_a_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(files.Refused, match="symbolic link"):
        files.write(str(tmp_path / "link"), "r.json", b"{}")
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.parametrize("bits", [0o777, 0o770, 0o702])
def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path, bits: int) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(bits)
    with pytest.raises(files.Refused, match="other users"):
        files.write(str(tmp_path / "open"), "r.json", b"{}")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user's directory")
def test_another_users_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", 12345, 12345)
    with pytest.raises(files.Refused, match="owned"):
        files.write(str(tmp_path / "theirs"), "r.json", b"{}")


def test_a_file_where_the_directory_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(files.Refused):
        files.write(str(tmp_path / "file"), "r.json", b"{}")


def test_a_record_without_bounds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(files.Refused, match="bytes"):
        files.write(str(tmp_path / "records"), "r.json", b"x" * (files.MAX_BYTES + 1))
    assert not (tmp_path / "records" / "r.json").exists()


def test_touching_renews_the_time_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    files.write(str(folder), "r.json", b"{}")
    os.utime(folder / "r.json", (1, 1))
    files.touch(str(folder), "r.json")
    assert (folder / "r.json").stat().st_mtime > 1_000_000
    assert (folder / "r.json").read_bytes() == b"{}"
