"""What was asked: scripts behind interpreters, and the hashes of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from envsnap.runs.request import file_sha256, script_of, script_sha256


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["python3", "bench.py", "--port", "1"], True),
        (["/usr/bin/python3.11", "-u", "-X", "dev", "bench.py"], True),
        (["env", "-i", "A=1", "python", "bench.py"], True),
        (["bash", "-e", "bench.py"], True),
        (["bash", "-o", "pipefail", "bench.py"], True),
        (["./bench.py"], True),
        (["python", "-m", "bench", "bench.py"], False),
        (["python", "-Im", "bench", "bench.py"], False),
        (["python", "-c", "print()", "bench.py"], False),
        (["python", "missing.py"], False),
        (["python"], False),
        (["env"], False),
        (["bench.py"], False),
        (["true", "bench.py"], False),
        (["python", "x" * 5000], False),
        (["./data"], False),
    ],
)
def test_the_script_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], found: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bench.py").write_text("#!/usr/bin/env python\n")
    Path("data").write_text("no script")
    assert (script_of(words) is not None) is found
    expected = hashlib.sha256(Path("bench.py").read_bytes()).hexdigest() if found else ""
    assert script_sha256(words) == expected


def test_what_is_no_file_has_no_hash(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no such file"):
        file_sha256(tmp_path)
