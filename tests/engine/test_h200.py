"""The plan for a GPU machine, without one: what is refused, how it goes on, its servers and blocks on a stand-in."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envsnap.reading import Json
from tests.benchmarks.planted.judge import METRIC
from tests.benchmarks.planted.trials import BASELINE
from tests.engine.fake import fake_kit
from tests.engine.h200 import __main__ as program
from tests.engine.h200 import blocks, looking, steps, waves
from tests.engine.h200 import lab as labs
from tests.engine.h200.__main__ import SECONDS
from tests.engine.h200.bench import NO_MULTICAST, H200Bench, Unsafe, refuse_multicast
from tests.engine.h200.fleet import Spec
from tests.engine.h200.lab import Lab, Step
from tests.engine.h200.place import CARD_BYTES, SPARE_BYTES, Place, Remembered
from tests.engine.h200.shapes import LOADS, TOKENS, write_models
from tests.engine.plants import H200, Lever, plants_of


def bench() -> H200Bench:
    return H200Bench(Path("/kit"), Path("/models"), LOADS[0])


# -- never multicast ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plant", plants_of(H200), ids=lambda p: p.id)
def test_every_planted_server_is_allowed(plant: Any) -> None:
    lever = plant.levers[H200]
    command = bench().command(30000, plant.ranks, lever)
    environment = {**bench().variables(plant.ranks, plant.simulated), **lever.environment}
    assert bench().allowed(command, environment) == command
    options = [word for word in command if word.startswith("--")]
    assert len(options) == len(set(options)), "an option that is given twice hides which one counts"
    assert ("SGLANG_SIMULATE_ACC_LEN" in environment) is plant.simulated


@pytest.mark.parametrize(
    "more",
    [
        "--enable-nccl-nvls",
        "--enable-symm-mem",
        "--enable-torch-symm-mem",
        "--enable-flashinfer-allreduce-fusion",
    ],  # fmt: skip,
)
def test_what_could_use_multicast_is_refused(more: str) -> None:
    command = bench().command(30000, 2, Lever(arguments=(more,)))
    with pytest.raises(Unsafe, match="not allowed"):
        bench().allowed(command, bench().variables(2, True))


@pytest.mark.parametrize("name", NO_MULTICAST)
def test_without_the_variables_nothing_starts(name: str) -> None:
    environment = {**bench().variables(2, True)}
    del environment[name]
    with pytest.raises(Unsafe, match=name):
        refuse_multicast(bench().command(30000, 2, Lever()), environment)


def test_without_the_options_nothing_starts() -> None:
    lever = Lever(without=("--disable-custom-all-reduce",))
    with pytest.raises(Unsafe, match="custom-all-reduce is missing"):
        refuse_multicast(bench().command(30000, 2, lever), NO_MULTICAST)


# -- steps within a deadline ----------------------------------------------------------------------------------------


def quiet(text: str) -> None:
    """Say nothing."""


class Clock:
    """Time that passes only when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def step(self, name: str, seconds: float, *, fails: int = 0) -> Step:
        left = [fails]

        def work() -> str:
            self.now += seconds
            if left[0]:
                left[0] -= 1
                raise RuntimeError("not this time")
            return name

        return Step(name, seconds, work)


def lab_of(folder: Path, seconds: float, clock: Clock) -> tuple[Lab, list[str]]:
    said: list[str] = []
    return Lab(folder, seconds, clock, say=said.append), said


def test_a_step_that_does_not_fit_is_left_for_the_next_call(tmp_path: Path) -> None:
    clock = Clock()
    made = [clock.step(name, 200) for name in "abc"]
    lab, said = lab_of(tmp_path, 570, clock)
    assert [s.id for s in lab.run(lambda: made)] == ["c"]
    assert "for the next call" in said[-1]
    again, _ = lab_of(tmp_path, 570, clock)
    assert again.run(lambda: made) == []
    assert [again.found(name) for name in "abc"] == ["a", "b", "c"]
    assert clock.now == 600, "nothing was done twice"


def test_what_is_left_of_the_time_goes_to_the_worthiest_step_that_fits(tmp_path: Path) -> None:
    clock = Clock()
    lab, _ = lab_of(tmp_path, 300, clock)
    made = [clock.step("a", 200), clock.step("large", 150), clock.step("small", 50), clock.step("tiny", 10)]
    assert [s.id for s in lab.run(lambda: made)] == ["large"]
    assert list(lab.results) == ["a", "small", "tiny"]


def test_a_failed_step_is_tried_again_after_the_others_and_then_left_alone(tmp_path: Path) -> None:
    clock = Clock()
    lab, _ = lab_of(tmp_path, 10_000, clock)
    made = [clock.step("bad", 10, fails=5), clock.step("once", 10, fails=1), clock.step("good", 10)]
    assert lab.run(lambda: made) == []
    assert {name: (r["status"], r["tries"]) for name, r in lab.results.items()} == {
        "bad": ("failed", labs.TRIES), "once": ("ok", 2), "good": ("ok", 1),
    }  # fmt: skip
    assert "not this time" in lab.results["bad"]["reason"]


def test_results_are_kept_as_soon_as_they_are_there(tmp_path: Path) -> None:
    clock = Clock()

    def killed() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab_of(tmp_path, 1000, clock)[0].run(lambda: [clock.step("a", 10), Step("b", 10, killed)])
    assert list(lab_of(tmp_path, 1000, clock)[0].results) == ["a"]


def parted(lab: Lab, clock: Clock) -> list[Step]:
    """A step of two parts, before which it takes 100 seconds, if one of them is left."""

    def work() -> None:
        clock.now += 100
        for name in ("x", "y"):
            if not lab.is_done(name) and lab.left >= 50:
                lab.attempt(name, clock.step(name, 50).work)

    left = {name: 50.0 for name in ("x", "y") if not lab.is_done(name)}
    return [Step("both", 100, work, left)] if left else []


def test_a_part_that_does_not_fit_is_done_by_the_next_call_alone(tmp_path: Path) -> None:
    clock = Clock()
    lab, _ = lab_of(tmp_path, 180, clock)
    assert [s.id for s in lab.run(lambda: parted(lab, clock))] == ["both"]
    assert list(lab.results) == ["x"]
    again, _ = lab_of(tmp_path, 180, clock)
    assert again.run(lambda: parted(again, clock)) == []
    assert clock.now == 300


def test_a_step_that_leaves_nothing_is_not_begun_for_ever(tmp_path: Path) -> None:
    clock = Clock()
    lab, _ = lab_of(tmp_path, 10_000, clock)
    assert [s.id for s in lab.run(lambda: [Step("both", 10, lambda: None, {"x": 1.0})])] == ["both"]
    broken = Step("none", 10, lambda: 1 / 0, {"z": 1.0})
    assert lab.run(lambda: [broken]) == []
    assert "ZeroDivisionError" in lab.results["z"]["reason"]


def test_a_plan_is_printed_call_by_call(tmp_path: Path) -> None:
    clock = Clock()
    lab, _ = lab_of(tmp_path, 450, clock)
    lines = list(lab.rehearse(lambda: [*(clock.step(n, 200) for n in "abcde"), *parted(lab, clock)], 2))
    assert [line.split()[4] for line in lines if line.startswith("call")] == ["a", "b", "the", "c", "d", "the"]
    assert [line.split()[1] for line in lines if line.startswith("later")] == ["e", "both"]
    assert clock.now == 0
    assert not (tmp_path / "results.json").exists()


def test_what_servers_took_is_known_to_the_next_call(tmp_path: Path) -> None:
    lab_of(tmp_path, 100, Clock())[0].learn("start", 61.2)
    assert lab_of(tmp_path, 100, Clock())[0].learnt == {"start": 61.2}


def test_the_archive_is_written_while_steps_are_done(tmp_path: Path) -> None:
    clock, archive = Clock(), tmp_path / "out" / "lab.tar.gz"
    archive.parent.mkdir()
    lab = Lab(tmp_path / "lab", 1000, clock, archive, quiet)
    lab.attempt("a", clock.step("a", labs.PACKED_SECONDS / 2).work)
    assert not archive.exists()
    lab.attempt("b", clock.step("b", labs.PACKED_SECONDS).work)
    other = Lab(tmp_path / "other", 1000, clock, say=quiet)
    other.unpack(archive)
    assert list(other.results) == ["a", "b"]


def test_a_folder_that_is_there_is_newer_than_an_archive(tmp_path: Path) -> None:
    clock, archive = Clock(), tmp_path / "lab.tar.gz"
    lab = Lab(tmp_path / "lab", 1000, clock, say=quiet)
    lab.attempt("a", clock.step("a", 1).work)
    lab.pack(archive)
    lab.attempt("b", clock.step("b", 1).work)
    again = Lab(tmp_path / "lab", 1000, clock, say=quiet)
    again.unpack(archive)
    assert list(again.results) == ["a", "b"]


def test_an_archive_holds_what_the_next_machine_needs_and_no_more(tmp_path: Path) -> None:
    clock = Clock()
    lab = Lab(tmp_path / "one", 100, clock, say=quiet)
    lab.run(lambda: [clock.step("a", 10)])
    kept = (
        ".envsnap/runs/x.json.gz", ".envsnap/redaction.key", "done.json", "prove/.envsnap/prove/x.json",
        "prove/port.txt", "prove/report.md", "logs/server-a.log",
    )  # fmt: skip
    left = ("engine/big.py", "models/m/config.json", ".envsnap/index.sqlite", ".envsnap/runs/x/records/1.json")
    for name in (*kept, *left):
        path = lab.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert lab.pack(tmp_path / "out.tar.gz") < labs.LIMIT_BYTES
    other = Lab(tmp_path / "two", 100, clock, say=quiet)
    other.unpack(tmp_path / "out.tar.gz")
    assert other.results["a"]["result"] == "a"
    assert [name for name in (*kept, *left) if (other.folder / name).exists()] == list(kept)


def test_a_large_archive_has_volumes_and_goes_without_samples_before_it_has_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labs, "LIMIT_BYTES", 20_000)
    lab = Lab(tmp_path / "lab", 100, Clock(), say=quiet)
    lab.attempt("a", lambda: "kept")
    runs = lab.folder / ".envsnap" / "runs"
    runs.mkdir(parents=True)
    draw = random.Random(0)
    for number in range(3):
        (runs / f"{number}.json.gz").write_bytes(draw.randbytes(15_000))
    lab.pack(tmp_path / "out.tar.gz")
    assert sorted(p.name for p in tmp_path.glob("out*")) == ["out-2.tar.gz", "out-3.tar.gz", "out.tar.gz"]
    other = Lab(tmp_path / "other", 100, Clock(), say=quiet)
    other.unpack(tmp_path / "out.tar.gz")
    assert other.found("a") == "kept"
    assert len(list((other.folder / ".envsnap" / "runs").iterdir())) == 3
    (runs / "0.samples.json.gz").write_bytes(draw.randbytes(120_000))
    monkeypatch.setattr(labs, "VOLUMES", 3)
    (tmp_path / "out-4.tar.gz").write_text("of an earlier call, which had more")
    lab.pack(tmp_path / "out.tar.gz")
    lean = Lab(tmp_path / "lean", 100, Clock(), say=quiet)
    lean.unpack(tmp_path / "out.tar.gz")
    assert sorted(p.name for p in (lean.folder / ".envsnap" / "runs").iterdir()) == [f"{n}.json.gz" for n in range(3)]
    monkeypatch.setattr(labs, "VOLUMES", 2)
    with pytest.raises(ValueError, match="may have 2"):
        lab.pack(tmp_path / "out.tar.gz")


# -- the plan -------------------------------------------------------------------------------------------------------


def place_of(folder: Path, gpus: int = 2, seconds: float = SECONDS, **more: Any) -> Place:
    more = {"free": lambda: [float(CARD_BYTES)] * gpus, **more}
    return Place(folder / "kit", Lab(folder / "lab", seconds, say=quiet), gpus, sys.executable, **more)


def results(**found: Json) -> dict[str, Json]:
    return {name: {"status": "ok", "tries": 1, "seconds": 1.0, "result": value} for name, value in found.items()}


@pytest.mark.parametrize("gpus", [1, 2])
def test_the_worthiest_comes_first_and_all_of_it_fits_into_calls(tmp_path: Path, gpus: int) -> None:
    place = place_of(tmp_path, gpus)
    lines = list(place.lab.rehearse(steps.plan_of("all", place), 12))
    begun = [line.split()[4] for line in lines if line.startswith("call")]
    assert begun[:3] == ["first/idle", "wave/look", "first/probe"]
    assert not [line for line in lines if line.startswith("later")], "every step fits into a call"
    searched = next(i for i, name in enumerate(begun) if name == "prove/run-08")
    block = [i for i, name in enumerate(begun) if name.startswith("wave/plants/1/")]
    assert sum(i < searched for i in block) >= (2 if gpus == 2 else 3), "three blocks, two of them at once on two cards"
    assert any(name.startswith("wave/plants/2/") for name in begun) is (gpus == 2)


def test_three_calls_hold_three_blocks_and_a_search_if_servers_start_as_they_should(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    place.lab.learnt = {"start": 65.0, "code": 40.0, "alone": 52.0, "measure": 8.5}
    list(place.lab.rehearse(steps.plan_of("all", place), program.CALLS))
    done = {name for name in place.lab.results if place.lab.is_done(name)}
    assert {"first/sampler", "first/probe", "plants/1/0", "plants/1/1", "plants/1/2", "prove/run-08"} <= done


def test_a_dry_run_starts_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["all", str(tmp_path / "lab"), "--gpus", "2", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["call", "1", "0", "s", "first/idle", "15", "s"]
    assert list((tmp_path / "lab").iterdir()) == []


def test_a_quiet_load_ends_the_search_for_one(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    named = [f"quiet/{offered.name}" for offered in LOADS]
    place.lab.results = results(**{named[0]: {f"span_{METRIC}": 0.07}, named[1]: {f"span_{METRIC}": 0.02}})
    (wave,) = looking.look(place)
    assert not [name for name in wave.parts if name.startswith("quiet/")]
    assert blocks.load_of(place) == LOADS[1]


def test_without_a_quiet_load_the_quietest_is_taken_and_kept(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    assert blocks.load_of(place) == LOADS[0]
    place.lab.results = results(**{f"quiet/{o.name}": {f"span_{METRIC}": 0.09 - i / 100} for i, o in enumerate(LOADS)})
    assert blocks.load_of(place) == LOADS[-1]
    place.lab.results |= results(**{"plants/1/0": {"load": LOADS[2].name}})
    assert blocks.load_of(place) == LOADS[2], "blocks of one board have one load"
    assert blocks.load_of(replace(place, load=LOADS[1])) == LOADS[1]


def test_servers_are_apart_by_their_medians() -> None:
    assert looking.span([[7.0, 9.0, 7.0], [7.1, 7.2, 7.0], [7.5, 7.5, 1.0]]) == pytest.approx(7.5 / 7.0 - 1)


def test_what_ranks_print_is_held_against_what_is_read_from_outside() -> None:
    values = {
        "nccl.rank[0].set[NCCL_PROTO]": "LL", "worker[scheduler_TP0].env[NCCL_PROTO]": "LL",
        "nccl.rank[1].set[NCCL_PROTO]": "LL", "worker[scheduler_TP1].env[NCCL_PROTO]": "Simple",
    }  # fmt: skip
    assert looking.compared(values, 2) == {
        "scheduler_TP0": {"compared": 1, "differing": {}},
        "scheduler_TP1": {"compared": 1, "differing": {"NCCL_PROTO": ["LL", "Simple"]}},
    }


# -- blocks: which servers, where -----------------------------------------------------------------------------------


def test_a_block_stands_on_one_card_and_the_next_one_on_the_other(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    first, second = (blocks.block_of(place, LOADS[0], n, 1, place.room()) for n in (0, 1))
    assert set(first.cards.values()) == {(0,)}
    assert set(second.cards.values()) == {(1,)}
    assert first.left_out == second.left_out == ()
    names = [plant for task in first.tasks for plant in task.plants]
    assert sorted(names) == sorted([*blocks.ONE_RANK, BASELINE, BASELINE]), "one usual state simulated, one by merit"
    assert [t.names for t in first.tasks] != [t.names for t in second.tasks]
    (wave,) = steps.plants(place, range(2))
    assert list(wave.parts) == ["plants/1/0", "plants/1/1"]


def test_ranks_that_are_two_have_both_cards(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    block = blocks.block_of(place, LOADS[0], 1, 2, place.room())
    assert block.cards == {"2": (0, 1)}
    assert {p for t in block.tasks for p in t.plants} == {*blocks.TWO_RANKS, BASELINE}
    assert blocks.blocks(place_of(tmp_path / "one", 1), [0], 2) == []


def test_where_memory_is_short_the_least_worthy_are_left_out_and_said(tmp_path: Path) -> None:
    small = 6.5 * LOADS[0].shape.bytes(1)
    place = place_of(tmp_path, 1, free=lambda: [small + 5e9])
    block = blocks.block_of(place, LOADS[0], 0, 1, place.room())
    servers = sum(len({t.plants[0]}) for t in block.tasks)
    assert servers == 6
    own = [p for t in block.tasks for p in t.plants if p != BASELINE]
    assert set(own) | {*block.left_out} == {*blocks.ONE_RANK}
    assert {"nothing", "nothing-again", "graphs-off", "slow-commit"} <= {*own}
    assert {"spec-steps", "topk"} <= {*block.left_out}


def test_servers_that_were_larger_than_reckoned_are_fewer_the_next_time(tmp_path: Path) -> None:
    place = place_of(tmp_path, 1)
    before = blocks.block_of(place, LOADS[0], 0, 1, place.room())
    place.lab.learnt["size"] = 1.6
    after = blocks.block_of(place, LOADS[0], 0, 1, place.room())
    assert len(after.tasks) < len(before.tasks)
    assert after.left_out


def test_a_part_that_finds_no_room_beside_the_others_waits(tmp_path: Path) -> None:
    spec = Spec("x", lambda port: [], dict)
    parts = [
        waves.Part(name, 1.0, (waves.Standing(replace(spec, name=name), (0,), size * 1e9),), lambda fleet: None)
        for name, size in (("a", 100), ("b", 80), ("c", 30))
    ]
    assert [p.name for p in waves.fitting(place_of(tmp_path), parts)] == ["a", "c"]
    with pytest.raises(ValueError, match="200 GB needed"):
        waves.fitting(place_of(tmp_path), [replace(parts[0], servers=(replace(parts[0].servers[0], bytes=2e11),))])


def test_what_is_free_is_not_asked_for_all_the_time() -> None:
    read = iter(([1.0], [2.0]))
    free = Remembered(lambda: next(read), seconds=1000)
    assert [free(), free()] == [[1.0], [1.0]]
    free.seconds = -1
    assert free() == [2.0]


def test_where_nothing_tells_what_is_free_that_is_said(tmp_path: Path) -> None:
    def fails() -> list[float]:
        raise OSError("no nvidia-smi")

    said: list[str] = []
    place = place_of(tmp_path, 2, free=fails)
    place.lab.say = said.append
    assert place.room() == [CARD_BYTES - SPARE_BYTES] * 2
    assert said == ["what is free on the cards is not known (no nvidia-smi): they are taken to be empty"]


def test_the_shapes_take_the_memory_of_their_weights() -> None:
    eight = next(offered.shape for offered in LOADS if offered.shape.name == "8b")
    weights = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) * 2
    assert weights < eight.bytes(1) < 1.4 * weights
    assert eight.bytes(2) < 0.7 * eight.bytes(1)
    longest = max(offered.asked.words for offered in LOADS) * 2  # one plant asks for twice as much
    assert 4 * longest < TOKENS


def test_a_larger_model_is_only_a_configuration(tmp_path: Path) -> None:
    dest = fake_kit(tmp_path)
    place = write_models(dest / "models", tmp_path / "models", LOADS[0].shape)
    target, draft = (json.loads((place / n / "config.json").read_text()) for n in ("target", "draft"))
    assert (target["hidden_size"], target["num_hidden_layers"], draft["num_hidden_layers"]) == (4096, 20, 1)
    assert target["architectures"] == ["LlamaForCausalLM"]
    assert draft["architectures"] == ["LlamaForCausalLMEagle3"]
    assert (place / "target" / "tokenizer.json").exists()
