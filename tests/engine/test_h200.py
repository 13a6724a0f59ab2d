"""The plan for a GPU machine, without one: what is refused, how it goes on, its steps on a stand-in."""

from __future__ import annotations

import json
import random
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.planted.bench import Asked
from tests.benchmarks.planted.trials import groups_of
from tests.engine.fake import fake_kit
from tests.engine.h200 import lab as labs
from tests.engine.h200 import steps
from tests.engine.h200.__main__ import SECONDS, main
from tests.engine.h200.bench import NO_MULTICAST, H200Bench, Unsafe, refuse_multicast
from tests.engine.h200.lab import Lab, Step
from tests.engine.h200.shapes import SHAPES, Shape, write_models
from tests.engine.plants import H200, Lever, plants_of
from tests.engine.server import NotServing, free_port, serving


def bench() -> H200Bench:
    return H200Bench(Path("/kit"), Path("/models"), SHAPES[0])


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


def test_a_step_that_does_not_fit_is_left_for_the_next_call(tmp_path: Path) -> None:
    clock, said = Clock(), list[str]()
    made = [clock.step(name, 200) for name in "abc"]
    assert [s.id for s in Lab(tmp_path, 570, clock).run(made, said.append)] == ["c"]
    assert "for the next call" in said[-1]
    again = Lab(tmp_path, 570, clock)
    assert again.run(made, said.append) == []
    assert [again.results[name]["result"] for name in "abc"] == ["a", "b", "c"]
    assert clock.now == 600, "nothing was done twice"


def test_a_failed_step_is_tried_again_after_the_others_and_then_left_alone(tmp_path: Path) -> None:
    clock = Clock()
    lab = Lab(tmp_path, 10_000, clock)
    assert (
        lab.run([clock.step("bad", 10, fails=5), clock.step("once", 10, fails=1), clock.step("good", 10)], quiet) == []
    )
    assert {name: (r["status"], r["tries"]) for name, r in lab.results.items()} == {
        "bad": ("failed", labs.TRIES), "once": ("ok", 2), "good": ("ok", 1),
    }  # fmt: skip
    assert "not this time" in lab.results["bad"]["reason"]


def test_results_are_kept_as_soon_as_they_are_there(tmp_path: Path) -> None:
    clock = Clock()

    def killed() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Lab(tmp_path, 1000, clock).run([clock.step("a", 10), Step("b", 10, killed)], quiet)
    assert list(Lab(tmp_path, 1000, clock).results) == ["a"]


def test_a_plan_says_what_is_done_now_and_later(tmp_path: Path) -> None:
    clock = Clock()
    made = [clock.step(name, 200) for name in "abcd"]
    Lab(tmp_path, 250, clock).run(made, quiet)
    assert [line.split()[0] for line in Lab(tmp_path, 450, clock).plan(made)] == ["ok", "now", "now", "later"]


def test_an_archive_holds_what_the_next_machine_needs_and_no_more(tmp_path: Path) -> None:
    clock = Clock()
    lab = Lab(tmp_path / "one", 100, clock)
    lab.run([clock.step("a", 10)], quiet)
    kept, left = (".envsnap/runs/x.json.gz", ".envsnap/redaction.key", "done.json"), ("engine/big.py", "models/m.json")
    for name in (*kept, *left):
        path = lab.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert lab.pack(tmp_path / "out.tar.gz") < labs.LIMIT_BYTES
    other = Lab(tmp_path / "two", 100, clock)
    other.unpack(tmp_path / "out.tar.gz")
    assert other.results["a"]["result"] == "a"
    assert [name for name in (*kept, *left) if (other.folder / name).exists()] == list(kept)


def test_an_archive_that_is_too_large_goes_without_samples_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labs, "LIMIT_BYTES", 20_000)
    lab = Lab(tmp_path / "lab", 100, Clock())
    runs = lab.folder / ".envsnap" / "runs"
    runs.mkdir(parents=True)
    (runs / "a.samples.json.gz").write_bytes(random.Random(0).randbytes(60_000))
    (runs / "a.json.gz").write_bytes(b"kept")
    assert lab.pack(tmp_path / "out.tar.gz") <= 20_000
    monkeypatch.setattr(labs, "LIMIT_BYTES", 10)
    with pytest.raises(ValueError, match="may have 10"):
        lab.pack(tmp_path / "out.tar.gz")


# -- the search for a quiet load ------------------------------------------------------------------------------------


def searched(**steps_by_shape: list[float]) -> dict[str, Any]:
    return {
        f"search/{name.replace('_', '-')}/{i}": {"status": "ok", "tries": 1, "result": {"step_seconds": value}}
        for name, values in steps_by_shape.items()
        for i, value in enumerate(values)
    }


def test_the_search_ends_with_the_first_quiet_load(tmp_path: Path) -> None:
    lab = Lab(tmp_path, 570)
    place = steps.Place(tmp_path, lab, 2)
    assert len(steps.search(place)) == steps.FRESH * len(SHAPES)
    lab.results = searched(**{"8b_batch1": [7.0, 7.1, 7.5], "8b_batch4": [9.0, 9.1, 9.2]})
    assert steps.spans(lab.results) == pytest.approx({"8b-batch1": 0.0714, "8b-batch4": 0.0222}, rel=0.01)
    assert {s.id.split("/")[1] for s in steps.search(place)} == {"8b-batch1", "8b-batch4"}
    found = steps.quiet_shape(lab.results)
    assert found is not None
    assert found.name == "8b-batch4"


def test_a_load_is_not_called_quiet_before_it_was_measured_often_enough() -> None:
    assert steps.quiet_shape({}) is None
    assert steps.quiet_shape(searched(**{"8b_batch1": [7.0, 7.0]})) is None
    noisy = {s.name.replace("-", "_"): [1.0, 1.1, 1.2 + i / 100] for i, s in enumerate(SHAPES)}
    found = steps.quiet_shape(searched(**noisy))
    assert found is not None
    assert found.name == SHAPES[0].name, "the quietest of all, where none is quiet"


# -- the plan -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpus", [1, 2])
def test_every_step_fits_into_one_call(tmp_path: Path, gpus: int) -> None:
    place = steps.Place(tmp_path, Lab(tmp_path, SECONDS), gpus)
    every = [*steps.first(place), *steps.search(place), *steps.plants(place, SHAPES[1])]
    assert max(step.seconds for step in every) <= SECONDS
    assert len({step.id for step in every}) == len(every)
    planted = [step for step in every if step.id.startswith("plants/0/")]
    names = {p.id for s in planted for p in groups_of(H200, steps.PARCEL)[s.id.split("/")[2]]}
    assert names == {p.id for p in plants_of(H200) if p.ranks <= gpus}
    assert any("tp2" in step.id for step in every) is (gpus == 2)


def test_a_dry_run_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plants", str(tmp_path / "lab"), "--shape", SHAPES[1].name, "--gpus", "2", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "now"
    assert lines[-1].split()[0] == "later"
    assert not (tmp_path / "lab" / "results.json").exists()
    assert main(["plants", str(tmp_path / "lab"), "--dry-run"]) == 2
    assert "run `search` first" in capsys.readouterr().err


def test_what_ranks_print_is_held_against_what_is_read_from_outside() -> None:
    values = {
        "nccl.rank[0].set[NCCL_PROTO]": "LL", "worker[scheduler_TP0].env[NCCL_PROTO]": "LL",
        "nccl.rank[1].set[NCCL_PROTO]": "LL", "worker[scheduler_TP1].env[NCCL_PROTO]": "Simple",
    }  # fmt: skip
    assert steps.compared(values, 2) == {
        "scheduler_TP0": {"compared": 1, "differing": {}},
        "scheduler_TP1": {"compared": 1, "differing": {"NCCL_PROTO": ["LL", "Simple"]}},
    }


# -- on a stand-in --------------------------------------------------------------------------------------------------

SMALL = Shape("small", 256, 512, 4, 2, 2, 0.1, Asked(words=10, tokens=8, count=3))


def test_a_larger_model_is_only_a_configuration(tmp_path: Path) -> None:
    dest = fake_kit(tmp_path)
    place = write_models(dest / "models", tmp_path / "models", SHAPES[0])
    target, draft = (json.loads((place / n / "config.json").read_text()) for n in ("target", "draft"))
    assert (target["hidden_size"], target["num_hidden_layers"], draft["num_hidden_layers"]) == (4096, 32, 1)
    assert target["architectures"] == ["LlamaForCausalLM"]
    assert draft["architectures"] == ["LlamaForCausalLMEagle3"]
    assert (place / "target" / "tokenizer.json").exists()


def test_a_fresh_server_and_a_parcel_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "SHAPES", (SMALL,))
    small = {name: plants[:1] for name, plants in groups_of(H200, steps.PARCEL).items()}
    monkeypatch.setattr(steps, "groups_of", lambda bench, parcel: small)
    lab = Lab(tmp_path / "lab", 5000)
    place = steps.Place(fake_kit(tmp_path), lab, 2, sys.executable, free_port())
    chosen = [steps.search(place)[0], next(s for s in steps.plants(place, SMALL) if s.id.startswith("plants/0/2.0"))]
    assert lab.run([replace(step, seconds=1.0) for step in chosen], quiet) == []
    assert {name: r.get("reason", "") for name, r in lab.results.items()} == dict.fromkeys((s.id for s in chosen), "")
    assert lab.results[chosen[0].id]["result"]["step_seconds"] > 0
    parcel = lab.results[chosen[1].id]["result"]
    assert parcel["failed"] == {}
    assert len(parcel["runs"]) == 2
    assert lab.pack(tmp_path / "out.tar.gz") < labs.LIMIT_BYTES


def test_a_server_is_not_started_where_another_one_would_be_measured(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(NotServing, match=f"listens on port {port}"), serving(["true"], {}, tmp_path, port):
            pass
    assert not (tmp_path / "server.log").exists()
