"""The store: names, the index, texts kept once, writers side by side and writers that die."""

from __future__ import annotations

import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest

from envsnap.jsonfile import SnapshotError
from envsnap.runs.columns import Columns
from envsnap.runs.metrics import Better, Metric
from envsnap.runs.run import Run, load_samples
from envsnap.snapshot import Section, Snapshot
from envsnap.store import Store
from envsnap.texts import load_document

PATCH = "+ a line\n" * 5000


def make_run(run_id: str, group: str, label: str = "", started: str = "2026-01-01T00:00:00.000+00:00") -> Run:
    section = Section("ok", True, 0.0, "made up", values={"kernel.release": "6.1", "kernel.command_line": PATCH})
    snapshot = Snapshot(captured_at=started, sections={"kernel": section}, envsnap="0", moment="before")
    return Run(
        id=run_id, group=group, label=label, started_at=started, seconds=2.0, status="ok", command=("bench", "-n", "3"),
        exit_code=0, snapshots={"before": snapshot}, window=(0.5, 1.5), added={"ENVSNAP_RECORD": "x"},
        metrics=(Metric("speed", 94.0, "tok/s", Better.HIGHER, "test", (93.0, 95.0)),), request={"n": 3},
    )  # fmt: skip


def _three_groups(store: Store) -> None:
    for day, (group, label) in enumerate([("g1", "fast"), ("g2", "slow"), ("g3", "fast")], 1):
        for index in range(2):
            store.save(make_run(f"{group}-{index}", group, label, f"2026-01-0{day}T00:00:0{index}.000+00:00"))


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = make_run("a-000", "a")
    samples = Columns([0.0, 1.0], {"x": [1, None]})
    path = store.save(run, samples)
    assert store.load("a-000") == run
    assert load_samples(path) == samples
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_long_text_is_kept_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(make_run("a-000", "a"))
    store.save(make_run("a-001", "a"))
    assert len(list((tmp_path / ".envsnap" / "texts").iterdir())) == 1
    assert store.load("a-001").snapshots["before"].values["kernel.command_line"] == PATCH
    next((tmp_path / ".envsnap" / "texts").iterdir()).unlink()
    with pytest.raises(SnapshotError, match="missing"):
        store.load("a-001")


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("fast", ["g3-0", "g3-1"]),
        ("fast@1", ["g3-0", "g3-1"]),
        ("fast@2", ["g1-0", "g1-1"]),
        ("last", ["g3-0", "g3-1"]),
        ("last~1", ["g2-0", "g2-1"]),
        ("store:slow", ["g2-0", "g2-1"]),
        ("g1", ["g1-0", "g1-1"]),
        ("g2-1", ["g2-1"]),
    ],
)
def test_names(tmp_path: Path, name: str, ids: list[str]) -> None:
    store = Store(tmp_path)
    _three_groups(store)
    assert [r.id for r in store.group(name)] == ids


@pytest.mark.parametrize("name", ["nothing", "fast@3", "fast@0", "fast@x", "last~9", "", "@", "last~-1"])
def test_names_of_nothing(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path)
    _three_groups(store)
    with pytest.raises(SnapshotError, match="labels: fast, slow"):
        store.group(name)


def test_an_empty_folder_has_no_runs_and_is_not_made(tmp_path: Path) -> None:
    assert Store(tmp_path).entries() == []
    assert list(tmp_path.iterdir()) == []


def test_the_index_heals(tmp_path: Path) -> None:
    store = Store(tmp_path)
    _three_groups(store)
    (store.runs / "g1-0.json.gz").unlink()
    index = store.folder / "index.sqlite"
    index.unlink()
    assert [e.id for e in store.entries()] == ["g3-1", "g3-0", "g2-1", "g2-0", "g1-1"]
    index.write_bytes(b"no database" * 500)
    assert len(store.entries()) == 5
    (store.runs / "g2-0.json.gz").write_bytes(b"damaged")
    index.unlink()
    assert len(store.entries()) == 4


def test_remove(tmp_path: Path) -> None:
    store = Store(tmp_path)
    _three_groups(store)
    (store.runs / "g1-0").mkdir()
    (store.runs / "g1-0" / "server.log").write_text("log")
    assert sorted(store.remove("fast@2")) == ["g1-0", "g1-1"]
    assert not (store.runs / "g1-0").exists()
    assert {e.group for e in store.entries()} == {"g2", "g3"}


def _save_many(root: str, number: int) -> None:
    store = Store(Path(root))
    for index in range(20):
        store.save(make_run(f"w{number}-{index:03d}", f"w{number}"))


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_save_many, args=(str(tmp_path), n)) for n in (1, 2)]
    for writer in writers:
        writer.start()
    try:
        for writer in writers:
            writer.join(60)
            assert writer.exitcode == 0
    finally:
        for writer in writers:
            writer.kill()
            writer.join()
    assert len(Store(tmp_path).entries()) == 40


def test_what_the_index_knows(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(replace(make_run("a-000b", "a", "x"), arm="b", metrics=(), status="failed"))
    (entry,) = store.entries()
    assert (entry.arm, entry.metrics, entry.status, entry.command) == ("b", (), "failed", '["bench", "-n", "3"]')


def test_history_is_of_the_same_configuration_and_command(tmp_path: Path) -> None:
    store = Store(tmp_path)
    _three_groups(store)
    store.save(replace(make_run("other", "other"), command=("another",)))
    store.save(replace(make_run("bad", "bad"), status="failed"))
    past = store.history(store.group("slow"))["speed"]
    assert past.sessions == ((94.0, 94.0), (94.0, 94.0))


def test_a_run_is_kept_where_the_index_cannot_be_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.prepare()
    index = store.folder / "index.sqlite"
    index.mkdir()
    store.save(make_run("a-000", "a"))
    index.rmdir()
    assert [e.id for e in store.entries()] == ["a-000"]


def test_the_folder_is_listed_again_when_it_changed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(make_run("a-000", "a"))
    os.utime(store.runs, (1e9, 1e9))  # long ago, so that the listing is trusted from now on
    assert len(store.entries()) == 1
    (store.runs / "a-000.json.gz").unlink()
    os.utime(store.runs, (1e9, 1e9))
    assert len(store.entries()) == 1  # nobody could know
    os.utime(store.runs, (1e9 + 1, 1e9 + 1))
    assert store.entries() == []


def test_long_commands_are_told_apart_and_stay_json(tmp_path: Path) -> None:
    store = Store(tmp_path)
    long = ("bench", *["--word"] * 1000)
    store.save(replace(make_run("a-000", "a"), command=(*long, "1")))
    store.save(replace(make_run("b-000", "b"), command=(*long, "2")))
    one, two = (json.loads(e.command) for e in store.entries())
    assert one != two


def test_a_run_is_found_as_a_file_with_its_long_texts(tmp_path: Path) -> None:
    path = Store(tmp_path).save(make_run("a-000", "a"))
    document = load_document(path)
    assert document["snapshots"]["before"]["sections"]["kernel"]["values"]["kernel.command_line"] == PATCH
    next((tmp_path / ".envsnap" / "texts").iterdir()).write_bytes(b"damaged")
    with pytest.raises(SnapshotError, match="damaged"):
        load_document(path)


def test_what_the_index_makes_anew_is_what_the_runs_hold(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(make_run("a-000", "a"))
    there = store.states()["a-000"]
    (store.folder / "index.sqlite").unlink()
    anew = store.states()["a-000"]
    assert anew.signature("kernel.command_line") == there.signature("kernel.command_line")
