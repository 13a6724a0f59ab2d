from __future__ import annotations

import gzip
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.jsonfile import MAX_FILE_BYTES, SnapshotError, load_json, write_atomically
from envsnap.reading import Error, Json, Unknown, Unset, Value
from envsnap.snapshot import VERSION, Section, Snapshot, dumps, from_json, load, write
from tests.probe import absent, denied, section, snapshot

GOOD = snapshot(
    {"probe.model": "x", "probe.arguments": {"a": [1, None]}},
    unavailable={"card[0]": denied("no")},
    errors={"probe.flags": "boom"},
)


def document() -> Any:
    return json.loads(dumps(GOOD))


# -- what a section answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "reading"),
    [
        ("probe.model", Value("x")),
        ("card[0]", denied("no")),
        ("card[0].link[3].speed_gts", denied("no")),
        ("card[01].driver", Unset()),
        ("probe.flags", Error("boom")),
        ("probe.ratio", Unset()),
    ],
)
def test_the_reading_at_a_path(path: str, reading: object) -> None:
    assert GOOD.sections["probe"].reading(path) == reading


def test_what_a_section_that_stopped_early_does_not_hold_is_unknown() -> None:
    assert section(complete=False).reading("probe.model") == Unknown()


@pytest.mark.usefixtures("probe_keys")
def test_a_snapshot_finds_the_section_of_a_path() -> None:
    assert GOOD.reading("card[0].driver") == denied("no")
    assert GOOD.reading("nobody.knows") == Unknown()


@pytest.mark.usefixtures("probe_keys")
def test_hashes_tell_content_and_configuration_apart() -> None:
    warm = snapshot({"probe.model": "x", "probe.temperature_celsius": 50})
    cold = snapshot({"probe.model": "x", "probe.temperature_celsius": 40})
    other = snapshot({"probe.model": "y", "probe.temperature_celsius": 40})
    assert warm.content_hash != cold.content_hash
    assert warm.configuration_hash == cold.configuration_hash != other.configuration_hash


# -- round trip -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_snapshot_comes_back_from_its_file_which_is_its_owner_s_alone(tmp_path: Path, name: str) -> None:
    write(GOOD, tmp_path / name)
    assert load(tmp_path / name) == GOOD
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") is name.endswith(".gz")
    assert os.listdir(tmp_path) == [name]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON_VALUES, st.text())
def test_any_value_round_trips(value: Json, note: str) -> None:
    taken = Snapshot(
        "2026-01-01T00:00:00.000+00:00", {"probe": section({"probe.arguments": {"x": value}})}, "1", note=note
    )
    assert from_json(json.loads(dumps(taken))) == taken


def test_bytes_that_were_no_utf_8_round_trip() -> None:
    taken = snapshot({"probe.model": b"\xff\x80".decode("utf-8", "surrogateescape")})
    assert from_json(json.loads(dumps(taken))) == taken


def test_numbers_that_json_does_not_have_are_never_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dumps(snapshot({"probe.arguments": {"x": float("nan")}}))


# -- bad input ----------------------------------------------------------------------------------------------------


def changed(**fields: Any) -> bytes:
    return json.dumps({**document(), **fields}).encode()


def with_section(**fields: Any) -> bytes:
    held = document()
    held["sections"]["probe"].update(fields)
    return json.dumps(held).encode()


def nested(depth: int) -> Json:
    value: Json = {}
    for _ in range(depth):
        value = {"x": value}
    return value


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "blank": (b" \n", "is empty"),
    "not JSON": (b"hello", "is not JSON, or is cut short"),
    "binary": (bytes(range(256)), "byte 128 is not UTF-8"),
    "cut short": (dumps(GOOD).encode()[:200], "is not JSON, or is cut short"),
    "not UTF-8": (b'{"format": "\xff"}', "byte 12 is not UTF-8"),
    "a list": (b"[]", "is not an envsnap snapshot"),
    "another format": (b'{"format": "envsnap.diff", "version": 1}', "is not an envsnap snapshot"),
    "no version": (changed(version=None), "has no valid version number"),
    "a version that is true": (changed(version=True), "has no valid version number"),
    "version 0": (changed(version=0), "has no valid version number"),
    "newer version": (changed(version=VERSION + 1), f"has snapshot version {VERSION + 1}, this envsnap reads"),
    "no sections": (changed(sections=None), "is malformed: expected dict, found NoneType"),
    "lacks a field": (b'{"format": "envsnap.snapshot", "version": 1}', "lacks the field 'captured_at'"),
    "a section that is a list": (changed(sections={"x": []}), "is malformed"),
    "an unknown status": (with_section(status="fine"), "a section has no status 'fine'"),
    "a status that is a list": (with_section(status=[]), "a section has no status []"),
    "complete that is a string": (with_section(complete="yes"), "expected bool, found str"),
    "seconds that are text": (with_section(seconds="nan"), "expected int or float, found str"),
    "an unknown reason": (with_section(unavailable={"a.b": {"why": "bored", "detail": ""}}), "not a valid Why"),
    "an error that is a number": (with_section(errors={"a.b": 1}), "expected str, found int"),
    "a path that is none": (with_section(values={"a[\x1b]": 1}), "'a[\\x1b]' is not a path"),
    "deep nesting": (b"[" * 1_000_000, "is nested too deeply"),
    "a deep value": (with_section(values={"a.b": nested(70)}), "a value is nested too deeply"),
    "NaN": (dumps(GOOD).replace('"x"', "NaN").encode(), "NaN is no JSON number"),
    "infinity by exponent": (dumps(GOOD).replace('"x"', "1e999").encode(), "1e999 is too large a number"),
    "a name twice": (b'{"format": 1, "format": "envsnap.snapshot"}', "the name 'format' stands twice in one object"),
    "gzip cut short": (gzip.compress(dumps(GOOD).encode())[:-12], "is a gzip file that is cut short"),
    "gzip broken": (b"\x1f\x8b" + bytes(40), "is not a whole gzip file"),
    "gzip bomb": (gzip.compress(bytes(MAX_FILE_BYTES + 1), 1), "is larger than 64 MiB"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "sentence"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_in_one_sentence(tmp_path: Path, data: bytes, sentence: str) -> None:
    file = tmp_path / "bad"
    file.write_bytes(data)
    with pytest.raises(SnapshotError) as raised:
        load(file)
    text = str(raised.value)
    assert text.startswith(str(file))
    assert sentence in text
    assert text.endswith(".")
    assert "\n" not in text
    assert len(text) < len(str(file)) + 250


def test_a_huge_sparse_file_is_refused_without_being_read(tmp_path: Path) -> None:
    file = tmp_path / "huge.json"
    with open(file, "wb") as f:
        f.truncate(2 << 30)
    tracemalloc.start()
    with pytest.raises(SnapshotError, match="larger than 64 MiB"):
        load(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "/dev/tty", "/", "/proc/self/task"])
def test_devices_and_directories_are_refused_unopened(name: str) -> None:
    with pytest.raises(SnapshotError, match="is not a regular file"):
        load(name)


def test_a_fifo_that_nobody_writes_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(SnapshotError, match="is not a regular file"):
        load(tmp_path / "fifo")


@pytest.mark.parametrize(
    ("name", "sentence"), [("none.json", "No such file"), ("a\0b", "not a valid file name"), ("x" * 300, "too long")]
)
def test_what_cannot_be_opened(tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(SnapshotError, match=sentence):
        load(f"{tmp_path}/{name}")


def test_every_older_version_loads() -> None:
    for version in range(1, VERSION + 1):
        assert from_json({**document(), "version": version}) == GOOD


def test_any_json_document_is_loaded_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "x"

    @given(JSON_VALUES, st.sampled_from(["sections", "scope", "note", "captured_at", "hash"]))
    def check(value: Json, field: str) -> None:
        file.write_bytes(changed(**{field: value}))
        assert isinstance(load_json(file), dict)
        with suppress(SnapshotError):
            assert isinstance(load(file), Snapshot)

    check()


# -- writing ------------------------------------------------------------------------------------------------------


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "latest.json").symlink_to("sub/real.json")
    write(GOOD, tmp_path / "latest.json")
    assert (tmp_path / "latest.json").is_symlink()
    assert load(tmp_path / "sub" / "real.json") == GOOD


@pytest.mark.parametrize("name", ["/dev/null", "/dev", "/proc/self/mem"])
def test_nothing_but_a_file_is_ever_replaced(name: str) -> None:
    mode = os.stat(name).st_mode
    with pytest.raises(OSError):
        write(GOOD, name)
    assert os.stat(name).st_mode == mode


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write(GOOD, tmp_path / "a.json")
    program = """
        import resource, signal, sys
        from pathlib import Path
        from envsnap.jsonfile import write_atomically
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        write_atomically(Path(sys.argv[1]), b"x" * 100_000)
    """
    done = run(program, tmp_path / "a.json")
    assert "File too large" in done.stderr
    assert load(tmp_path / "a.json") == GOOD
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_kill_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    write(GOOD, tmp_path / "a.json")
    program = """
        import os, signal, sys
        from pathlib import Path
        from envsnap import jsonfile
        jsonfile.os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)
        jsonfile.write_atomically(Path(sys.argv[1]), b"x" * 100_000)
    """
    assert run(program, tmp_path / "a.json").returncode == -signal.SIGKILL
    assert load(tmp_path / "a.json") == GOOD


def test_a_file_in_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "no" / "a.json", b"x")


def test_a_section_says_what_was_unavailable_in_its_json() -> None:
    assert section(unavailable={"card[0]": absent("gone")}).as_json()["unavailable"] == {
        "card[0]": {"why": "absent", "detail": "gone"}
    }
    assert Section("ok", True, 0.123456, "m").as_json()["seconds"] == 0.1235
