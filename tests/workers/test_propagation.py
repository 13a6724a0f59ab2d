"""From the shell to the workers: which process has what, and who set it there."""

from __future__ import annotations

from typing import Any

from envsnap.reading import Unavailable, Why
from envsnap.report import workers as report
from envsnap.report.lines import paint
from envsnap.snapshot import Section, Snapshot
from envsnap.workers.engine_writes import writer
from envsnap.workers.propagation import Propagation, Row, State, propagation

PARENTS = {"main": "shell", "scheduler_TP0": "main", "scheduler_TP1": "main", "detokenizer": "main"}
CLOBBERED = Unavailable(Why.CLOBBERED, "retitled")


def snapshot(
    environments: dict[str, dict[str, str]],
    conf: dict[str, str] | None = None,
    unavailable: dict[str, Unavailable] | None = None,
    extra: dict[str, Any] | None = None,
) -> Snapshot:
    values: dict[str, Any] = {f"worker[{p}].parent": q for p, q in PARENTS.items() if p in environments}
    for process, variables in environments.items():
        values |= {f"worker[{process}].env[{n}]": v for n, v in variables.items()}
        values.setdefault(f"worker[{process}].umask", "0022")
    values |= extra or {}
    held = {f"worker[{p}].env_at_exec": CLOBBERED for p in environments if p not in ("shell", "main")}
    sections = {
        "worker": Section("ok", True, 0.0, "", values=values, unavailable={**held, **(unavailable or {})}),
        "nccl": Section("ok", True, 0.0, "", values={f"nccl.conf[user].set[{n}]": v for n, v in (conf or {}).items()}),
    }
    return Snapshot("2026-01-01T00:00:00Z", sections, "0")


def rows(found: Propagation) -> dict[str, Row]:
    return {row.name: row for row in found.variables}


def server() -> Propagation:
    """The question of the original investigation: five variables, five fates."""
    shell = {"EXPORTED": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "1", "LOST": "x"}
    main = {"EXPORTED": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "8", "LAUNCHER": "1", "LOST": "x"}
    worker = {"EXPORTED": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "8", "LAUNCHER": "1", "NCCL_PROTO": "Simple"}
    environments = {
        "shell": shell,
        "main": main,
        "scheduler_TP0": worker,
        "scheduler_TP1": {**worker, "NCCL_ALGO": "Tree"},
        "detokenizer": {n: v for n, v in worker.items() if n != "NCCL_PROTO"},
    }
    added = {"worker[main].env_added": ["LAUNCHER"], "worker[main].env_at_exec[CUDA_DEVICE_MAX_CONNECTIONS]": "1"}
    return propagation(snapshot(environments, {"NCCL_PROTO": "Simple"}, extra=added))


def test_processes_stand_in_the_order_of_their_descent() -> None:
    assert server().processes == ("shell", "main", "detokenizer", "scheduler_TP0", "scheduler_TP1")


def test_exported_and_arrived() -> None:
    cells = rows(server())["EXPORTED"].cells
    assert cells["shell"].by == "exported in the shell"
    assert {cells[p].state for p in ("main", "scheduler_TP0", "scheduler_TP1")} == {State.SAME}


def test_overwritten_by_the_engine() -> None:
    cells = rows(server())["CUDA_DEVICE_MAX_CONNECTIONS"].cells
    assert cells["main"].state is State.CHANGED
    assert cells["main"].by == "SGLang's launcher: always 8, whatever was exported"
    assert cells["scheduler_TP1"].state is State.SAME


def test_set_by_the_launcher_by_nccl_conf_and_in_one_rank() -> None:
    found = rows(server())
    assert found["LAUNCHER"].cells["main"].by == "the process itself, after its start"
    assert found["NCCL_PROTO"].cells["scheduler_TP0"].by == "nccl.conf (user)"
    assert found["NCCL_PROTO"].odd == ()
    alone = found["NCCL_ALGO"]
    assert set(alone.odd) == {"scheduler_TP0", "scheduler_TP1"}
    assert alone.cells["scheduler_TP1"].by == "the process itself, or given to it alone at its start"
    assert alone.cells["scheduler_TP0"].state is State.UNSET


def test_lost_on_the_way() -> None:
    cells = rows(server())["LOST"].cells
    assert cells["scheduler_TP0"].state is State.MISSING
    assert cells["main"].state is State.SAME


def test_what_needs_a_look_comes_first() -> None:
    names = [row.name for row in server().variables]
    assert names[0] == "NCCL_ALGO"
    assert set(names[1:3]) == {"CUDA_DEVICE_MAX_CONNECTIONS", "LOST"}


def test_denied_is_unknown_and_not_unset() -> None:
    denied = Unavailable(Why.DENIED, "another user's process")
    base = snapshot({"shell": {"A": "1"}, "main": {"A": "1"}, "scheduler_TP0": {}, "scheduler_TP1": {"A": "1"}},
                    unavailable={"worker[scheduler_TP0].env": denied})  # fmt: skip
    row = rows(propagation(base))["A"]
    assert row.cells["scheduler_TP0"].state is State.UNKNOWN
    assert "another user" in row.cells["scheduler_TP0"].why
    assert row.odd == ("scheduler_TP0", "scheduler_TP1")
    assert not row.uniform


def test_the_majority_of_ranks_is_right() -> None:
    environments = {"main": {"X": "1"}, **{f"scheduler_TP{i}": {"X": "2" if i == 3 else "1"} for i in range(8)}}
    assert rows(propagation(snapshot(environments)))["X"].odd == ("scheduler_TP3",)


def test_a_rank_s_own_variables_do_not_stand_out() -> None:
    environments = {f"rank{i}": {"LOCAL_RANK": str(i), "CUDA_VISIBLE_DEVICES": str(i)} for i in range(4)}
    assert all(row.odd == () for row in propagation(snapshot(environments)).variables)


def test_a_deprecated_name_is_named_as_the_source() -> None:
    environments = {"shell": {"SGL_X": "1"}, "main": {"SGL_X": "1", "SGLANG_X": "1"}}
    assert rows(propagation(snapshot(environments)))["SGLANG_X"].cells["main"].by == "copied from the deprecated SGL_X"


def test_documented_writes_hold_for_their_processes_alone() -> None:
    assert writer("CUDA_DEVICE_MAX_CONNECTIONS", "30000/main", "8") is not None
    assert writer("CUDA_DEVICE_MAX_CONNECTIONS", "scheduler_TP0", "8") is None
    assert writer("CUDA_DEVICE_MAX_CONNECTIONS", "main", "4") is None


def test_no_processes() -> None:
    found = propagation(Snapshot("", {}, "0"))
    assert found.processes == ()
    assert "capture with --pid or --match" in paint(report.text(found, (), 100), False)


def test_the_table_in_words() -> None:
    text = paint(report.text(server(), (), 120), False)
    assert "NCCL_ALGO ← differs between siblings" in text
    assert "SGLang's launcher: always 8, whatever was exported" in text
    assert "EXPORTED" not in text  # it arrived, and was not asked for
    assert "EXPORTED" in paint(report.text(server(), ("EXP*",), 120), False)
    markdown = report.markdown(server(), ("NCCL_PROTO",))
    assert markdown.splitlines()[0] == "| variable | shell | main | detokenizer | scheduler_TP0 | scheduler_TP1 | by |"


def test_an_empty_variable_is_a_value_too() -> None:
    found = rows(propagation(snapshot({"shell": {}, "main": {"EMPTY": ""}})))["EMPTY"]
    assert (found.cells["main"].state, found.cells["main"].value) == (State.SET, "")
