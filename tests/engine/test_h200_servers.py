"""Servers side by side on a stand-in: what starts, what fails alone, what is left, and a block that is broken off."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envsnap.reading import Json
from tests.benchmarks.planted.bench import Asked
from tests.benchmarks.planted.trials import BASELINE, ROOT, Board
from tests.engine.checkout import BASE
from tests.engine.fake import fake_kit
from tests.engine.h200 import __main__ as program
from tests.engine.h200 import blocks, fleet, looking, proving, tree, waves
from tests.engine.h200.bench import NO_MULTICAST, Unsafe
from tests.engine.h200.fleet import Missing, Spec, side_by_side
from tests.engine.h200.lab import Lab
from tests.engine.h200.place import Place
from tests.engine.h200.shapes import TINY, Load
from tests.engine.plants import EDITS, Lever
from tests.engine.server import answers, in_session

SMALL = Load("small", TINY, Asked(words=10, tokens=8, count=3))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A machine of two cards, on which the stand-in is installed as the kit."""
    lab = Lab(tmp_path / "lab", 5000, say=lambda text: None)
    return Place(fake_kit(tmp_path), lab, 2, sys.executable, free=lambda: [1e12, 1e12])


def spec_of(place: Place, name: str, **more: Any) -> Spec:
    bench = place.bench(SMALL)
    usual: dict[str, Any] = {
        "command": lambda port: bench.command(port, 1, Lever()), "environment": lambda: place.served(SMALL, 1, (0,)),
    }  # fmt: skip
    return Spec(name, **{**usual, **more})


def program_of(place: Place, code: str) -> Callable[[int], list[str]]:
    """In place of a server: a program that is given the port and all of a server's options."""
    bench = place.bench(SMALL)
    return lambda port: [sys.executable, "-c", code, str(port), *bench.command(port, 1, Lever())[3:]]


# -- one fleet ------------------------------------------------------------------------------------------------------


def test_one_that_does_not_come_up_takes_no_other_with_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "GRACE_SECONDS", 1.0)
    specs = [
        spec_of(place, "a"),
        spec_of(place, "hangs", command=program_of(place, "import time; time.sleep(600)")),
        spec_of(place, "large", command=program_of(place, "raise SystemExit('torch: CUDA out of memory. Tried …')")),
        spec_of(place, "b"),
        spec_of(place, "c"),
    ]
    with side_by_side(specs, place.lab.folder, 60) as found:
        assert sorted(found.servers) == ["a", "b", "c"]
        assert "was not ready after" in found.failed["hangs"]
        assert "ended with 1: torch: CUDA out of memory" in found.failed["large"]
        assert found.short_of_memory == ["large"]
        assert len({server.url for server in found.servers.values()}) == 3
        assert all(answers(f"{server.url}/health") for server in found.servers.values())
        with pytest.raises(Missing, match="hangs did not come up: the server was not ready"):
            found.server("hangs")
        sessions = [found.process(spec.name).pid for spec in specs]
        assert not in_session(found.process("hangs").pid), "it disturbs the others no more"
        os.kill(found.servers["b"].pid, signal.SIGKILL)
        found.servers["b"].process.wait()
        with pytest.raises(Missing, match="b ended with -9"):
            found.server("b")
    assert [pid for pid in sessions if in_session(pid)] == []


def test_a_port_that_is_taken_is_the_failure_of_one_server(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        bench = place.bench(SMALL)
        specs = [spec_of(place, "a"), spec_of(place, "b", command=lambda port: bench.command(taken, 1, Lever()))]
        with side_by_side(specs, place.lab.folder, 60) as found:
            assert list(found.servers) == ["a"]
            assert "Address already in use" in found.failed["b"]


def test_what_could_use_multicast_is_not_started(place: Place) -> None:
    bench = place.bench(SMALL)
    unsafe: list[dict[str, Any]] = [
        {"command": lambda port: [*bench.command(port, 1, Lever()), "--enable-nccl-nvls"]},
        {"environment": lambda: {**place.served(SMALL, 1, (0,)), "NCCL_NVLS_ENABLE": "1"}},
    ]
    for more in unsafe:
        with pytest.raises(Unsafe), side_by_side([spec_of(place, "a", **more)], place.lab.folder, 60):
            pass
    assert not (place.lab.folder / "logs").exists(), "no log was begun"


def test_servers_end_with_the_process_that_started_them(place: Place, tmp_path: Path) -> None:
    code = f"""
import sys, os
from pathlib import Path
from tests.engine.test_h200_servers import *
place = Place(Path({str(place.dest)!r}), Lab(Path({str(tmp_path / "other")!r}), 100), 1, sys.executable)
with side_by_side([spec_of(place, "a")], place.lab.folder, 60) as found:
    print(found.servers["a"].pid, flush=True)
    os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    pid = int(done.stdout.split()[-1])
    until = time.monotonic() + 10
    while in_session(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not in_session(pid)


def test_servers_of_other_code_start_when_those_before_have_read_theirs(place: Place) -> None:
    told: list[str] = []
    reads = "import sys, time; time.sleep(0.5); print('max_total_num_tokens=1', flush=True); time.sleep(600)"

    def environment() -> dict[str, str]:
        told.append("start")
        return place.served(SMALL, 1, (0,))

    specs = [
        spec_of(place, "base", environment=environment),
        spec_of(place, "more", environment=environment),
        spec_of(place, "changed", code="slow-verify", environment=environment, command=program_of(place, reads)),
    ]
    with side_by_side(specs, place.lab.folder, 3, stand=told.append) as found:
        assert told == ["slow-verify", "start", BASE, "start", "start"]
        assert sorted(found.servers) == ["base", "more"]
        assert found.code_seconds > 0.5
    told.clear()
    with side_by_side(specs[:2], place.lab.folder, 60, pioneer=True, stand=told.append) as found:
        assert told == [BASE, "start", BASE, "start"], "the first one compiles for all"


# -- waves ----------------------------------------------------------------------------------------------------------


def part_of(place: Place, name: str, work: Callable[..., Json], *servers: str, seconds: float = 1.0) -> waves.Part:
    standing = tuple(waves.Standing(spec_of(place, n), (0,), 1e9) for n in servers)
    return waves.Part(name, seconds, standing, work)


def test_a_part_that_does_not_fit_and_one_that_fails_leave_the_others(place: Place) -> None:
    parts = [
        part_of(place, "fails", lambda fleet: 1 / 0, "a"),
        part_of(place, "long", lambda fleet: "done", "a", seconds=10_000),
        part_of(place, "good", lambda fleet: sorted(fleet.servers), "a", "b"),
    ]
    (step,) = waves.wave(place, "wave", parts)
    step.work()
    assert place.lab.found("good") == ["a", "b"]
    assert place.lab.results["fails"]["status"] == "failed"
    assert "long" not in place.lab.results
    assert "start" not in place.lab.learnt, "two say nothing of a dozen"
    assert list(waves.wave(place, "wave", parts)[0].parts) == ["fails", "long"]


def test_lack_of_memory_is_said_and_fewer_stand_side_by_side(place: Place) -> None:
    said: list[str] = []
    place.lab.say = said.append
    broken = spec_of(place, "b", command=program_of(place, "raise SystemExit('no GPU memory for the KV cache')"))
    good, bad = part_of(place, "good", lambda fleet: "done", "a"), waves.Standing(broken, (0,), 1e9)
    waves.wave(place, "wave", [good, waves.Part("bad", 1.0, (bad,), lambda fleet: fleet.server("b").url)])[0].work()
    assert place.lab.found("good") == "done"
    assert "no GPU memory" in place.lab.results["bad"]["reason"]
    assert any("memory did not suffice for b: fewer side by side" in text for text in said)
    assert place.lab.learnt["size"] == waves.GROWS


def test_the_first_server_on_a_machine_compiles_for_the_others(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not place.is_cold, "without a cache's folder there is nothing to be known"
    (place.dest / "cache" / "triton").mkdir(parents=True)
    assert place.is_cold
    alone: list[bool] = []
    honest = side_by_side

    def watched(*arguments: Any, **more: Any) -> Any:
        alone.append(more["pioneer"])
        return honest(*arguments, **more)

    monkeypatch.setattr(waves, "side_by_side", watched)
    for name in ("first", "second"):
        (step,) = waves.wave(place, "wave", [part_of(place, name, lambda fleet: None, "a", "b")])
        step.work()
    assert alone == [True, False]
    elsewhere = replace(place, lab=Lab(place.lab.folder.parent / "other", 100))
    assert elsewhere.is_cold, "what is compiled is found by the place of its sources"


def test_a_wave_of_several_says_how_long_the_next_one_takes(place: Place) -> None:
    (step,) = waves.wave(place, "wave", [part_of(place, "x", lambda fleet: None, *"abcd")])
    assert step.seconds == waves.START + waves.CHECKOUT + waves.STOP
    step.work()
    assert 0 < place.lab.learnt["start"] < 60
    (step,) = waves.wave(place, "wave", [part_of(place, "y", lambda fleet: None, *"abcd")])
    assert step.seconds == place.lab.learnt["start"] + waves.STOP


# -- a block --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small load, and few plants: one of each kind."""
    monkeypatch.setattr(blocks, "LOADS", (SMALL,))
    monkeypatch.setattr(looking, "LOADS", (SMALL,))
    monkeypatch.setattr(looking, "_SHORT", SMALL.asked)
    monkeypatch.setattr(blocks, "ONE_RANK", ("slow-commit", "stale-server", "prefix-warm"))
    monkeypatch.setattr(blocks, "TWO_RANKS", ())


@pytest.mark.usefixtures("small")
def test_a_block_is_measured_side_by_side(place: Place) -> None:
    (step,) = blocks.blocks(place, [0])
    step.work()
    assert place.lab.results["plants/1/0"].get("reason", "") == ""
    told = place.lab.found("plants/1/0")
    assert sorted(told["runs"]) == sorted(f"0/1/{n}" for n in (*blocks.ONE_RANK, BASELINE))
    assert (told["failed"], told["no_room"], told["load"]) == ({}, [], "small")
    board = Board(place.lab.folder, place.bench(SMALL))
    values = {name.rpartition("/")[2]: board.store.load(run).snapshot.values for name, run in told["runs"].items()}
    heads = {name: v["repo[engine].head"] for name, v in values.items()}
    assert heads["slow-commit"] != heads[BASELINE] == heads["stale-server"] == heads["prefix-warm"]
    assert not any(v["repo[engine].dirty"] for v in values.values())
    commands = {name.rpartition("/")[2]: board.store.load(run).command for name, run in told["runs"].items()}
    ports = {name: command[command.index("--port") + 1] for name, command in commands.items()}
    assert ports[BASELINE] == ports["prefix-warm"]
    assert len({*ports.values()}) == 3, "three servers, of which one is the usual state's"
    assert {v["worker[main].env[CUDA_VISIBLE_DEVICES]"] for v in values.values()} == {"0"}
    for name, value in NO_MULTICAST.items():
        assert {v[f"worker[main].env[{name}]"] for v in values.values()} == {value}


@pytest.mark.usefixtures("small")
def test_a_block_that_is_broken_off_is_measured_anew(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    honest = Board.take

    def killed(board: Board, task: Any, server: Any) -> None:
        if len(taken) == 1:
            raise KeyboardInterrupt
        taken.append(task.names[0])
        honest(board, task, server)

    monkeypatch.setattr(Board, "take", killed)
    (step,) = blocks.blocks(place, [0])
    with pytest.raises(KeyboardInterrupt):
        step.work()
    assert place.lab.results == {}
    board = Board(place.lab.folder, place.bench(SMALL))
    assert board.done, "what was measured is kept, and not counted on"
    place.lab.pack(place.lab.folder.parent / "lab.tar.gz")
    monkeypatch.setattr(Board, "take", honest)
    other = replace(place, lab=Lab(place.lab.folder.parent / "other", 5000, say=lambda text: None))
    other.lab.unpack(place.lab.folder.parent / "lab.tar.gz")
    (step,) = blocks.blocks(other, [0])
    step.work()
    again = other.lab.found("plants/1/0")["runs"]
    assert len(again) == 4
    assert not set(again.values()) & set(board.done.values())


@pytest.mark.usefixtures("small")
def test_without_time_the_usual_state_is_measured_at_least(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, ...]] = []

    def take(board: Board, task: Any, server: Any) -> None:
        seen.append(task.plants)
        for name in task.names:
            board.done[name] = "run"
        if len(seen) == 1:
            place.lab.seconds = 0.0

    monkeypatch.setattr(Board, "take", take)
    (step,) = blocks.blocks(place, [0])
    step.work()
    told = place.lab.found("plants/1/0")
    assert "0/1/baseline" in told["runs"]
    assert set(told["failed"].values()) == {blocks.NO_TIME}
    assert set(blocks.missed(place).values()) == {blocks.NO_TIME}


@pytest.mark.usefixtures("small")
def test_a_run_that_breaks_takes_no_other_with_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def take(board: Board, task: Any, server: Any) -> None:
        if task.plants == ("slow-commit",):
            raise OSError("the server hangs")
        board.done |= dict.fromkeys(task.names, "run")

    monkeypatch.setattr(Board, "take", take)
    (step,) = blocks.blocks(place, [0])
    step.work()
    told = place.lab.found("plants/1/0")
    assert told["failed"] == {"slow-commit": "OSError: the server hangs"}
    assert sorted(told["runs"]) == ["0/1/baseline", "0/1/prefix-warm", "0/1/stale-server"]
    assert "measure" not in place.lab.learnt
    assert blocks.missed(place) == {"slow-commit": "its run failed"}


def test_a_checkout_looks_as_old_as_it_was_but_where_a_server_is_older_than_its_code(place: Place) -> None:
    checkout = place.checkout
    file = checkout.path / EDITS["slow-verify"].file
    before = time.time()
    tree.stand(checkout, "slow-verify")
    assert EDITS["slow-verify"].new in file.read_text()
    assert file.stat().st_mtime == tree._SETTLED
    tree.stand(checkout, BASE, moved="slow-verify")
    assert EDITS["slow-verify"].new not in file.read_text()
    assert file.stat().st_mtime >= before - 1
    tree.stand(checkout, BASE)
    assert file.stat().st_mtime == tree._SETTLED


@pytest.mark.usefixtures("small")
def test_without_git_the_commits_are_left_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "has_git", lambda: False)
    monkeypatch.setattr(blocks, "has_git", lambda: False)
    (step,) = blocks.blocks(place, [0])
    step.work()
    told = place.lab.found("plants/1/0")
    assert sorted(told["runs"]) == ["0/1/baseline", "0/1/prefix-warm"]
    assert not (place.lab.folder / "engine").exists()


def test_blocks_of_chosen_plants(place: Place) -> None:
    """By their worth, each with the usual state of its group; those of two ranks have blocks of their own."""
    chosen = replace(place, gpus=2, only=("graphs-off", "p2p-disable", "nothing"))
    assert {g: [p.id for p in ps] for g, ps in blocks.groups(1, chosen.only).items()} == {
        "1": ["graphs-off", "nothing"]
    }
    assert {g: [p.id for p in ps] for g, ps in blocks.groups(2, chosen.only).items()} == {"2": ["p2p-disable"]}
    assert blocks.blocks(replace(chosen, only=("nothing",)), [0], ranks=2) == []


def test_without_room_for_the_usual_state_that_is_said(place: Place) -> None:
    small = replace(place, free=lambda: [6e9])
    small.lab.run(lambda: blocks.blocks(small, [0]))
    assert "does not suffice for one usual state" in place.lab.results["plants/1/0"]["reason"]


# -- everything, in calls -------------------------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, str]]]:
    """A machine with one card and hardly any plants; the environments of what is started on it."""
    told = tmp_path / "bin" / "nvidia-smi"
    told.parent.mkdir()
    told.write_text('#!/bin/sh\ncase "$*" in *memory.free*) echo 140000 ;; esac\n')
    told.chmod(0o755)
    monkeypatch.setenv("PATH", f"{told.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a search holds a lock there, for the whole machine
    for name in NO_MULTICAST:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(looking, "FRESH", 2)
    monkeypatch.setattr(looking, "ROUNDS", 1)
    monkeypatch.setattr(looking, "PAIRS", 2)
    monkeypatch.setattr(blocks, "ONE_RANK", ("nothing",))
    monkeypatch.setattr(proving, "BUDGET", 1)
    monkeypatch.setattr(proving, "LOAD", SMALL)
    seen: list[dict[str, str]] = []
    start = subprocess.Popen.__init__

    def watched(self: Any, *arguments: Any, **more: Any) -> None:
        seen.append(dict(os.environ if more.get("env") is None else more["env"]))
        start(self, *arguments, **more)

    monkeypatch.setattr(subprocess.Popen, "__init__", watched)
    yield seen
    for name in NO_MULTICAST:
        os.environ.pop(name, None)


@pytest.mark.usefixtures("small")
def test_all_of_it_on_one_card_in_two_calls(
    tmp_path: Path, machine: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(blocks, "ONE_RANK", ("nothing",))
    kit, archive = fake_kit(tmp_path), tmp_path / "lab.tar.gz"
    machine.clear()
    usual = ["--dest", str(kit), "--archive", str(archive), "--resume", str(archive), "--blocks", "2"]
    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "learnt.json").write_text(json.dumps({"start": 5.0, "alone": 5.0, "measure": 2.0}))
    assert program.main(["first", str(lab), *usual]) == 0
    first = json.loads((lab / "results.json").read_text())
    assert {name: r.get("reason", "") for name, r in first.items()} == {
        "first/idle": "", "first/tp1-graphs": "", "first/tp1-no-graphs": "", "quiet/small": "", "first/sampler": "",
        "first/probe": first["first/probe"].get("reason", ""),
    }  # fmt: skip
    assert len(first["first/tp1-graphs"]["result"]["runs"]) == 5
    assert first["first/sampler"]["result"]["pairs"] == 2
    lab.rename(tmp_path / "gone")  # another machine
    assert program.main(["all", str(lab), *usual]) == 0
    told = json.loads((lab / "results.json").read_text())
    assert {"plants/1/0", "plants/1/1", "prove/fast", "prove/slow", "prove/run-01"} <= told.keys()
    assert {n: r["status"] for n, r in told.items() if n.startswith(("plants", "prove"))} == dict.fromkeys(
        (n for n in told if n.startswith(("plants", "prove"))), "ok"
    )
    missing = [e for e in machine if any(e.get(name) != value for name, value in NO_MULTICAST.items())]
    assert len(machine) > 30
    assert missing == [], "NVLink multicast is off in everything that was started"
    capsys.readouterr()
    monkeypatch.setattr(program, "RESULTS", tmp_path / "results")
    assert program.main(["report", str(lab), "--dest", str(tmp_path / "no-kit")]) == 0
    shown = capsys.readouterr().out
    assert "step sampled / not: ×" in shown
    assert "'idle': [" in shown
    assert "nothing             2  ×" in shown
    assert "graphs-off         not run" in shown
