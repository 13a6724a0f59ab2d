"""The journal: what is written is read again, one search at a time."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from envsnap.jsonfile import SnapshotError
from envsnap.prove.belief import Spread
from envsnap.prove.journal import NOT_BUILT, Busy, Journal, Record, locked, machine_locked
from envsnap.prove.search import Problem, Trial
from envsnap.prove.start import ready_address
from envsnap.prove.trials import search_of

PROBLEM = Problem({"a": 0.4, "b": 0.3}, 0.3, Spread(0.02, 4.0), 0.4, {"a": 1.0, "b": 2.0})


def record(*reverted: str, status: str = "ok", cost: float | None = 1.0) -> Record:
    return Record(reverted, "gate", "", "r-000", status, "", 2.7, cost, 30.0)


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "x.json", PROBLEM, "step_seconds", {"only": []}, [record("a", "b")], {"b": "why"})
    journal.save()
    assert Journal.load(tmp_path / "x.json") == journal
    assert journal.counted() == [Trial(frozenset("ab"), "gate", "", 1.0)]


@pytest.mark.parametrize("text", ["{}", "[]", '{"format": "envsnap.search", "version": 9}', "nonsense"])
def test_another_file_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(SnapshotError):
        Journal.load(tmp_path / "x.json")


def test_what_did_not_take_effect_is_left_out_of_the_search_and_still_a_run(tmp_path: Path) -> None:
    journal = Journal(
        tmp_path / "x.json", PROBLEM, records=[record("a", "b", status="without_effect"), record("a", "b")]
    )
    journal.dropped["b"] = "rank0 does not have B"
    search = search_of(journal, 10)
    assert search.problem.prior == {"a": pytest.approx(0.7)}
    assert [t.reverted for t in search.trials] == [{"a"}]
    assert search.budget == 9


def test_one_search_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(Busy), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_one_search_at_a_time_on_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with machine_locked(), pytest.raises(Busy, match="on this machine"), machine_locked():
        pass
    with machine_locked():
        pass


def test_what_could_not_be_built_is_no_run_and_is_not_tried_without_end(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "x.json", PROBLEM, records=[record("a", "b"), record(), record("a", cost=None)])
    journal.records[2] = replace(journal.records[2], status=NOT_BUILT, run="")
    assert journal.runs == 2
    search = search_of(journal, 10)
    assert search.budget - len(search.trials) == 8
    journal.records += [journal.records[2]] * 120
    search = search_of(journal, 10)
    assert search.budget <= len(search.trials)


def test_where_a_server_tells_that_it_is_ready() -> None:
    assert ready_address(["serve", "--port", "30000"], ()) == "http://127.0.0.1:30000/health"
    assert ready_address(["serve", "--port=30000"], ()) == "http://127.0.0.1:30000/health"
    assert ready_address(["serve"], ()) == ""
