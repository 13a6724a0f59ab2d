"""The table of planted causes, and the commits that it makes, without the engine."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.engine.checkout import BASE, Checkout, Edit, Moved
from tests.engine.environment import COMPLETE, Engine, find
from tests.engine.fake import fake_engine
from tests.engine.plants import BENCHES, CPU, EDITS, H200, PLANTS, Lever, Plant, plants_of


def test_there_are_as_many_as_were_asked_for() -> None:
    planted = [p for p in PLANTS if not p.id.startswith("nothing")]
    assert len(planted) >= 17
    assert len({p.id for p in PLANTS}) == len(PLANTS)
    assert len([p for p in PLANTS if p.id.startswith("nothing")]) >= 3
    assert len(plants_of(CPU)) >= 12
    assert len(plants_of(H200)) >= 17


@pytest.mark.parametrize("plant", PLANTS, ids=lambda p: p.id)
def test_a_plant_is_whole(plant: Plant) -> None:
    assert set(plant.levers) <= set(BENCHES)
    assert plant.levers
    assert plant.absent or set(plant.levers) == set(BENCHES), "why is it not on the other bench?"
    nothing = plant.id.startswith("nothing")
    assert bool(plant.shows) is not nothing
    for pattern in plant.shows:
        re.compile(pattern)
    for lever in plant.levers.values():
        assert (lever == Lever()) is nothing
        assert not lever.edit or lever.edit in EDITS
        assert not lever.stale or lever.stale in EDITS
        # An option that is replaced has to be taken out of the usual command first.
        assert all(word.startswith("--") for word in lever.without)


@pytest.mark.parametrize(
    ("plant", "place"),
    [
        ("threads", "worker[scheduler].env[OMP_NUM_THREADS]"),
        ("threads", "record[scheduler].torch.num_threads"),
        ("argument", "server[0].argument[chunked_prefill_size]"),
        ("argument", "--chunked_prefill_size"),
        ("slow-commit", "repo[engine].head"),
        ("rank-affinity", "worker[scheduler_TP1].cpus"),
        ("graphs-off", "record[scheduler_TP0].argument[cuda_graph_config.decode.backend]"),
        ("p2p-disable", "nccl.rank[0].set[NCCL_P2P_DISABLE]"),
    ],
)
def test_a_plant_is_known_by_its_changes(plant: str, place: str) -> None:
    tells = [p.id for p in PLANTS if p.tells(place)]
    assert plant in tells
    assert not next(p for p in PLANTS if p.id == plant).tells("package[numpy].version")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    folder = tmp_path_factory.mktemp("checkout")
    return Checkout(folder / "engine", fake_engine(folder).package, EDITS)


def git(checkout: Checkout, *arguments: str) -> str:
    command = ["git", "-C", str(checkout.folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_a_commit_or_a_local_patch(checkout: Checkout, name: str) -> None:
    edit = EDITS[name]
    base = git(checkout, "rev-parse", BASE)
    checkout.put(name)
    assert edit.new in (checkout.path / edit.file).read_text()
    moved = git(checkout, "rev-parse", "HEAD") != base
    dirty = bool(git(checkout, "status", "--porcelain"))
    assert (moved, dirty) == ((True, False) if edit.committed else (False, True))
    checkout.put()
    assert git(checkout, "rev-parse", "HEAD") == base
    assert not git(checkout, "status", "--porcelain")
    assert edit.new not in (checkout.path / edit.file).read_text()


def test_what_the_engine_no_longer_holds_is_said(tmp_path: Path) -> None:
    package = fake_engine(tmp_path).package
    with pytest.raises(Moved, match="holds 0 times"):
        Checkout(tmp_path / "engine", package, {"x": Edit("x", "sglang/launch_server.py", "not there", "new")})


def test_an_installed_package_is_only_read(tmp_path: Path) -> None:
    package = fake_engine(tmp_path).package
    before = {p: p.stat().st_mtime_ns for p in package.rglob("*")}
    Checkout(tmp_path / "engine", package, EDITS).put("slow-decode")
    assert {p: p.stat().st_mtime_ns for p in package.rglob("*")} == before


def test_without_an_environment_the_reason_is_told(tmp_path: Path) -> None:
    assert "bash .ci/engine" in str(find(""))
    assert "no complete environment" in str(find(str(tmp_path)))
    package = tmp_path / "venv/lib/python3.11/site-packages/sglang"
    package.mkdir(parents=True)
    (tmp_path / COMPLETE).touch()
    found = find(str(tmp_path))
    assert isinstance(found, Engine)
    assert found.package == package


def test_a_command_names_what_it_serves(tmp_path: Path) -> None:
    command = Engine("python", tmp_path, tmp_path).command(4000, 2, "--random-seed", "1")
    assert command[-2:] == ["--random-seed", "1"]
    assert command[command.index("--tp") + 1] == "2"
    assert "127.0.0.1" in command


@pytest.mark.engine
def test_the_edits_fit_the_installed_engine(engine: Engine, tmp_path: Path) -> None:
    made = Checkout(tmp_path / "engine", engine.package, EDITS)
    for name, edit in EDITS.items():
        made.put(name)
        compile((made.path / edit.file).read_text(), edit.file, "exec")
    assert os.path.isdir(made.path / "sglang")
