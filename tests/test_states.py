"""States of runs: what they answer equals what the runs themselves would, from within the index too."""

from __future__ import annotations

from pathlib import Path

from envsnap.reading import Error, Json, Unavailable, Unset, Value, Why
from envsnap.snapshot import Section, Snapshot
from envsnap.states import UNSET, State, signature
from envsnap.store import Store
from tests.explain.pairs import run

DRIVER, CLOCK = "nvml.driver_version", "during.gpu[0].sm_clock_median_mhz"


def test_signatures() -> None:
    assert signature(Value("a")) == '"a"'
    assert signature(Value({"b": 1, "a": 2})) == signature(Value({"a": 2, "b": 1}))
    assert signature(Value("unset")) != signature(Unset()) == UNSET
    assert signature(Unavailable(Why.DENIED)) is None
    assert signature(Error("x")) is None
    long = signature(Value("x" * 1000))
    assert long is not None
    assert long.startswith("sha256:")
    assert len(long) < 100


def test_a_state_tells_unset_from_unknown() -> None:
    sections = {
        "kernel": Section("ok", True, 0.0, "m", values={"kernel.release": "6.8"},
                          unavailable={"kernel.parameter": Unavailable(Why.DENIED)}),
        "memory": Section("partial", False, 0.0, "m", values={"memory.swappiness": 60}),
    }  # fmt: skip
    state = State.of(Snapshot("2026", sections, "0"))
    assert state.signature("kernel.release") == '"6.8"'
    assert state.signature("kernel.clock_source") == UNSET
    assert state.signature("kernel.parameter[isolcpus]") is None
    assert state.signature("memory.total_bytes") is None
    assert state.signature("nvml.driver_version") is None
    assert state.paths() == {"kernel.release", "memory.swappiness"}


def test_what_cannot_be_compared_is_not_kept() -> None:
    state = State.of(run({"gpu[0].temperature_celsius": 40, "os.hostname": "a", DRIVER: "590", CLOCK: 1980.0}).snapshot)
    assert state.paths() == {DRIVER, CLOCK}


def test_the_store_answers_as_the_runs_do(tmp_path: Path) -> None:
    store = Store(tmp_path)
    common: dict[str, Json] = {f"package[p{i}].version": "1" for i in range(50)}
    runs = [run({**common, DRIVER: version, CLOCK: 1980.0}, "g", i) for i, version in enumerate(["590", "580", "590"])]
    runs.append(run({"package[p0].version": "2"}, "other"))  # so different that it becomes the next common state
    for each in runs:
        store.save(each)
    states = store.states()
    paths = [*common, DRIVER, CLOCK, "package[absent].version", "kernel.release"]
    for each in runs:
        assert [states[each.id].signature(p) for p in paths] == [signature(each.snapshot.reading(p)) for p in paths]
    store.remove("g-1")
    assert sorted(store.states()) == ["g-0", "g-2", "other-0"]


def test_a_lost_index_is_made_anew(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(run({DRIVER: "590"}))
    (store.folder / "index.sqlite").unlink()
    assert store.states()["a-0"].signature(DRIVER) == '"590"'


def test_no_store_has_no_states(tmp_path: Path) -> None:
    assert Store(tmp_path).states() == {}
