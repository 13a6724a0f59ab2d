from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from envsnap.integrations import environment
from envsnap.integrations.secrets import Cleaner

SHOW = """
import ctypes, json, os
from envsnap.integrations.environment import views
libc = ctypes.CDLL(None)
{code}
python, libc_view = views()
print(json.dumps([python, libc_view]))
"""


def views(code: str, **env: str) -> tuple[dict[str, str], Any]:
    done = subprocess.run(
        [sys.executable, "-c", SHOW.format(code=code)],
        env={"PYTHONPATH": ":".join(sys.path), "A": "1", **env}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    python, libc = json.loads(done.stdout)
    return python, libc


def test_the_views_agree_where_only_python_writes() -> None:
    python, libc = views("os.environ['B'] = '2'; del os.environ['A']; os.environ['C='[:1]] = 'x=y'")
    assert python == libc
    assert (libc["B"], libc["C"]) == ("2", "x=y")
    assert "A" not in libc


def test_what_c_code_sets_and_removes_is_seen_in_libcs_view_alone() -> None:
    python, libc = views(
        "libc.setenv(b'NCCL_ALGO', b'Ring', 1); libc.unsetenv(b'A'); libc.setenv(b'B', b'c', 1)", B="b"
    )
    assert "NCCL_ALGO" not in python
    assert libc["NCCL_ALGO"] == "Ring"
    assert python["A"] == "1"
    assert "A" not in libc
    assert (python["B"], libc["B"]) == ("b", "c")


def test_long_values_and_bytes_that_are_not_text() -> None:
    code = (
        "os.environb[b'RAW'] = b'\\xff\\x00'[:1]; libc.setenv(b'LONG', b'v' * 70001, 1); libc.setenv(b'EMPTY', b'', 1)"
    )
    python, libc = views(code)
    assert libc["LONG"] == "v" * 70001
    assert libc["EMPTY"] == ""
    assert libc["RAW"] == python["RAW"] == "\udcff"


def test_thousands_of_variables_are_all_found() -> None:
    _, libc = views("for i in range(3000): os.environ['V%d' % i] = str(i) * 50")
    assert sum(name.startswith("V") for name in libc) == 3000
    assert libc["V2999"] == "2999" * 50


def test_memory_that_cannot_be_read_costs_the_view_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setenv("A", "1")
    monkeypatch.setattr(os, "pread", refuse)
    python, libc = environment.views()
    assert python["A"] == "1"
    assert libc == "OSError: [Errno 5] Input/output error"


def test_an_environment_that_was_cleared_from_c_is_empty() -> None:
    _, libc = views("libc.clearenv()")
    assert libc == {}


def test_only_differences_are_listed_and_a_missing_side_is_missing(tmp_path: Any) -> None:
    found = Cleaner(str(tmp_path)).environment(({"SAME": "1", "B": "b", "PY": "1"}, {"SAME": "1", "B": "c", "C": "1"}))
    assert found["differs"] == {
        "B": {"os_environ": "b", "libc": "c"},
        "C": {"libc": "1"},
        "PY": {"os_environ": "1"},
    }
    assert found["values"] == {"B": "c", "C": "1", "SAME": "1"}


def test_without_libcs_view_it_says_why(tmp_path: Any) -> None:
    found = Cleaner(str(tmp_path)).environment(({"A": "1"}, "OSError: no"))
    assert found == {"values": {"A": "1"}, "libc": "OSError: no", "differs": {}}
