"""The scoreboard of planted causes: its plan, a small board on a stand-in for the engine, and how rows are judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from envsnap.reading import Json
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.run import Run
from tests.benchmarks.attribution.snapshots import changed
from tests.benchmarks.planted import report, searches, trials
from tests.benchmarks.planted.bench import CpuBench
from tests.benchmarks.planted.innocent import AT_LEAST, innocents
from tests.benchmarks.planted.judge import METRIC, judged
from tests.benchmarks.planted.trials import BASELINE, Board, Task, groups_of, pairs, tasks
from tests.engine import server
from tests.engine.fake import fake_engine
from tests.engine.plants import BENCHES, CPU, H200, PLANTS, Plant, plants_of
from tests.engine.server import free_port


def plant(name: str) -> Plant:
    return next(p for p in PLANTS if p.id == name)


# -- the plan -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bench", BENCHES)
def test_a_block_holds_every_plant_once_and_the_usual_state(bench: str) -> None:
    groups = groups_of(bench)
    assert sorted(p.id for plants in groups.values() for p in plants) == sorted(p.id for p in plants_of(bench))
    for group, plants in groups.items():
        found = tasks(3, bench, group, plants)
        assert sorted(name for task in found for name in task.plants) == sorted([BASELINE, *(p.id for p in plants)])
        assert tasks(3, bench, group, plants) == found
        assert {task.ranks for task in found} == {p.ranks for p in plants}


def test_acceptance_by_merit_has_a_usual_state_of_its_own() -> None:
    groups = groups_of(H200)
    merit = {p.id for group, plants in groups.items() if not Task(0, group, ()).simulated for p in plants}
    assert merit == {"spec-steps", "topk", "eagle"}


def test_blocks_have_orders_of_their_own() -> None:
    orders = {tuple(t.plants[0] for t in tasks(block, CPU, "1", plants_of(CPU, 1))) for block in range(6)}
    assert len(orders) > 3


def test_what_only_the_client_does_is_measured_on_the_usual_server() -> None:
    shared = next(t for t in tasks(0, CPU, "1", plants_of(CPU, 1)) if len(t.plants) > 1)
    assert shared.plants[:2] == (BASELINE, "prefix-warm"), "the second repetition follows at once"
    assert set(shared.plants[2:]) == {"cpu-hog", "other-prompts"}


# -- a board on a stand-in ------------------------------------------------------------------------------------------


PLANTED = ((BASELINE, "prefix-warm"), ("slow-commit",), ("stale-server",), ("threads",))


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    """One block of a few plants, run once."""
    folder = tmp_path_factory.mktemp("planted")
    made = Board(folder / "board", CpuBench(fake_engine(folder)), free_port())
    for names in PLANTED:
        made.run(Task(0, "1", names))
    return made


def kept(board: Board, name: str) -> Run:
    return board.store.load(board.done[f"0/1/{name}"])


def test_every_run_is_kept_with_its_figures(board: Board) -> None:
    assert sorted(board.done) == sorted(f"0/1/{name}" for names in PLANTED for name in names)
    for name in board.done:
        run = kept(board, name.rpartition("/")[2])
        assert run.status == "ok"
        assert run.metrics[0].name == METRIC


def test_a_lever_is_pulled_for_its_own_run_alone(board: Board) -> None:
    states = {n: kept(board, n).snapshot.values for n in (BASELINE, "threads", "slow-commit")}
    heads = {n: v["repo[engine].head"] for n, v in states.items()}
    assert heads["slow-commit"] != heads[BASELINE] == heads["threads"]
    assert not any(v["repo[engine].dirty"] for v in states.values())
    threads = {n: v["worker[main].env[OMP_NUM_THREADS]"] for n, v in states.items()}
    assert threads.pop("threads") == "4"
    assert set(threads.values()) == {"1"}


def test_a_stale_server_is_older_than_the_checkout_that_it_is_compared_with(board: Board) -> None:
    stale = kept(board, "stale-server").snapshot.values
    assert stale["repo[engine].head"] == kept(board, BASELINE).snapshot.values["repo[engine].head"]
    assert kept(board, "slow-commit").snapshot.values["repo[engine].head"] != stale["repo[engine].head"]


def test_prompts_are_found_in_the_cache_only_the_second_time(board: Board) -> None:
    figures = json.loads((board.folder / "figures.json").read_text())
    assert {row["cached_tokens"] for row in figures["requests"]} == {0}, "the last run had a fresh server"
    first, again = kept(board, BASELINE), kept(board, "prefix-warm")
    started = [run.snapshot.values["worker[main].started_seconds"] for run in (first, again)]
    assert started[0] == pytest.approx(started[1], abs=1), "one server"


def test_a_run_that_is_done_is_not_repeated(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a server was started")

    monkeypatch.setattr("subprocess.Popen", refuse)
    again = Board(board.folder, board.bench, board.port)
    again.run(Task(0, "1", (BASELINE, "prefix-warm")))
    assert again.done == board.done


def test_nothing_of_the_servers_is_left(board: Board) -> None:
    assert not server.answers(f"http://127.0.0.1:{board.port}/health")


# -- judging --------------------------------------------------------------------------------------------------------


def runs(board: Board, speeds: Sequence[float], readings: dict[str, Json] | None = None) -> list[Run]:
    """Runs like the board's usual one, with these speeds and readings."""
    usual = kept(board, BASELINE)
    snapshots = {m: changed(s, readings or {}) for m, s in usual.snapshots.items()}
    return [
        replace(
            usual, id=f"r{i}", index=i, snapshots=snapshots,
            metrics=(Metric(METRIC, speed, "tok/s", Better.HIGHER, "test"),),
        )
        for i, speed in enumerate(speeds)
    ]  # fmt: skip


USUAL = (100.0, 101.0, 99.5, 100.4)
SLOW = (70.0, 71.0, 69.5, 70.2)


def test_a_cause_is_one_where_the_pairs_show_it(board: Board) -> None:
    lever = {f"{root}env[PYTHONMALLOC]": "debug" for root in ("", "worker[main].")}
    row = judged(plant("debug-variable"), runs(board, USUAL), runs(board, SLOW, lever), None, draws=2)
    assert row.cause
    assert row.verdict == "different"
    assert row.ratio == pytest.approx(0.7, rel=0.01)
    assert row.low is not None
    assert row.high is not None
    assert row.low < row.ratio < row.high < 1
    assert row.shown
    assert all(d.position in (1, 2) for d in row.draws), "the stand-in tells nothing of itself: *outside* may lead"
    assert row.answered == sum(d.position == 1 for d in row.draws) / 2
    assert row.first_three == 1
    assert all(d.innocent >= AT_LEAST for d in row.draws)


def test_a_change_that_slows_nothing_is_an_innocent(board: Board) -> None:
    lever = {f"{root}env[PYTHONMALLOC]": "debug" for root in ("", "worker[main].")}
    row = judged(plant("debug-variable"), runs(board, USUAL), runs(board, USUAL[::-1], lever), None, draws=1)
    assert not row.cause
    assert row.answered == (row.leading in ("not_reproducible", "outside"))
    assert row.probability == pytest.approx(row.draws[0].none_probability)


def test_nothing_planted_must_not_differ(board: Board) -> None:
    assert not judged(plant("nothing"), runs(board, USUAL), runs(board, SLOW), None, draws=1).right
    assert judged(plant("nothing"), runs(board, USUAL), runs(board, USUAL[::-1]), None, draws=1).right


def test_innocent_changes_leave_alone_what_differs_by_itself(board: Board) -> None:
    fast, slow = kept(board, BASELINE).snapshot, kept(board, "threads").snapshot
    found = innocents(fast, slow, "seed", levers=True)
    assert len(found.deeds) >= AT_LEAST
    differing = {p for p in {*fast.values, *slow.values} if fast.values.get(p) != slow.values.get(p)}
    assert not {p for d in found.deeds for p in d.shows} & differing
    assert not any(d.typed or "OMP_" in d.name for d in found.deeds)
    over = [found.over([kept(board, BASELINE)], side)[0].snapshot.values for side in (0, 1)]
    moved = {p for p in {*over[0], *over[1]} if over[0].get(p) != over[1].get(p)}
    assert len(moved) >= AT_LEAST


# -- the report -----------------------------------------------------------------------------------------------------


def test_the_board_says_what_was_not_run(board: Board) -> None:
    row = judged(plant("nothing"), runs(board, USUAL), runs(board, USUAL[::-1]), None, draws=1)
    made = report.Board(CPU, {"date": "2026-01-01"}, [row])
    text = "\n".join(report.lines(made))
    lines = {line.split()[0]: line for line in text.splitlines() if line}
    assert "not run" in lines["threads"]
    assert "not on this bench: there is no GPU" in lines["graphs-off"]
    assert lines["nothing"].endswith("not run"), "the search"
    document = report.as_json(made)
    assert set(document["plants"]) == {p.id for p in PLANTS}
    assert document["plants"]["threads"]["board"] == "not run"
    assert document["plants"]["nothing"]["board"]["n"] == 4
    json.dumps(document)


def test_a_board_that_is_measured_in_parts_keeps_the_earlier_ones(board: Board) -> None:
    row = judged(plant("nothing"), runs(board, USUAL), runs(board, USUAL[::-1]), None, draws=1)
    search = report.Search("confirmed", ["env:X"], 9, True)
    old = report.Board(CPU, {"date": "2026-01-01", "commit": "a"}, [row], {"threads": search})
    first = report.joined(old, report.as_json(report.Board(CPU, {}, [])))
    new = report.Board(CPU, {"date": "2026-01-02", "commit": "b"}, [replace(row, plant="threads", n=2)])
    both = report.joined(new, json.loads(json.dumps(report.as_json(first))))
    assert {r.plant: r.measured for r in both.rows} == {"nothing": "2026-01-01 a", "threads": "2026-01-02 b"}
    assert json.dumps(both.rows[1].as_json()) == json.dumps(first.rows[0].as_json())
    assert both.searches == {"threads": replace(search, measured="2026-01-01 a")}
    again = report.joined(replace(new, rows=[replace(row, n=3)]), report.as_json(both))
    assert {r.plant: r.n for r in again.rows} == {"nothing": 3, "threads": 2}, "what was measured anew is newer"
    costly = replace(old, about={**old.about, "cost": "1 %", "apart": {"a": 0.1}})
    told = report.joined(replace(new, about={**new.about, "apart": {}}), report.as_json(costly)).about
    assert told == {"date": "2026-01-02", "commit": "b", "cost": "1 %", "apart": {"a": 0.1}}


def test_searches_are_kept_by_plant(tmp_path: Path) -> None:
    assert searches.load(tmp_path) == {}
    found = report.Search("confirmed", ["env:X"], 9, True, "among 32 innocent changes")
    searches.keep(tmp_path, "threads", found)
    searches.keep(tmp_path, "nothing", replace(found, outcome="not_reproducible", culprits=[]))
    assert searches.load(tmp_path)["threads"] == found
    assert len(searches.load(tmp_path)) == 2


def test_pairs_are_of_blocks_in_which_both_were_run(board: Board) -> None:
    baseline, planted = pairs(board, plant("threads"))
    assert [len(baseline), len(planted)] == [1, 1]
    assert pairs(board, plant("nothing")) == ([], [])


def test_committed_boards_are_of_this_table() -> None:
    for path in sorted((Path(__file__).parent / "benchmarks" / "results").glob("planted-*.json")):
        told = json.loads(path.read_text())
        assert told["bench"] in (CPU, H200)
        assert set(told["plants"]) == {p.id for p in PLANTS}


def test_what_disturbs_a_server_is_at_work_before_it_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program that computes on the GPU takes seconds to come to that."""
    begun = tmp_path / "begun"
    slow = f"import time; time.sleep(0.5); open({str(begun)!r}, 'w').close(); print(1, flush=True); time.sleep(60)"
    monkeypatch.setattr(trials, "_BUSY_GPU", slow)
    with trials.hogs(2, gpu=True):
        assert begun.exists()
    monkeypatch.setattr(trials, "_BUSY_GPU", "raise SystemExit(1)")
    with pytest.raises(RuntimeError, match="did not come to work"), trials.hogs(0, gpu=True):
        pytest.fail("it was measured all the same")
