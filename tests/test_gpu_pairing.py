"""GPUs are paired by the rank that held them: the same machine on GPUs 0 to 3 and 4 to 7 differs in nothing else."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from envsnap.diff import diff
from envsnap.gpu_pairing import aligned
from envsnap.keys import Kind
from envsnap.reading import Unavailable, Value, Why
from envsnap.snapshot import Section, Snapshot, from_json

RANKS = [f"scheduler_TP{n}" for n in range(4)]
FIRST, LAST = [0, 1, 2, 3], [4, 5, 6, 7]


def machine(
    held: list[int],
    visible: str | None = None,
    records: bool = True,
    weak: int | None = None,
    moment: str = "during",
    **more: Any,
) -> Snapshot:
    """Eight GPUs, four ranks on those that are `held`; the GPU `weak` has a lower power limit."""
    gpus: dict[str, Any] = {"nvml.gpu_count": 8}
    for n in range(8):
        gpus[f"gpu[{n}].name"] = "NVIDIA H200"
        gpus[f"gpu[{n}].uuid"] = f"GPU-{n:08x}-0000"
        gpus[f"gpu[{n}].power_limit_watts"] = 500.0 if n == weak else 700.0
        gpus[f"gpu[{n}].compute_process_count"] = held.count(n)
        gpus[f"gpu[{n}].nvlink[0].active"] = n != weak
    pairs = {
        f"gpu_pair[{i}/{j}].topology": "single" if i // 4 == j // 4 else "node" for j in range(8) for i in range(j)
    }
    pci = {f"pci[gpu{n}].link_width_lanes": 8 if n == weak else 16 for n in range(8)}
    workers: dict[str, Any] = {}
    record: dict[str, Any] = {"record[main].torch.device_index": 0}
    for number, role in enumerate(RANKS):
        workers[f"worker[{role}].env[PATH]"] = "/bin"
        if visible is not None:
            workers[f"worker[{role}].env[CUDA_VISIBLE_DEVICES]"] = visible
        record[f"record[{role}].rank[tp_rank]"] = number
        record[f"record[{role}].torch.device_index"] = number if visible is not None else [*held, 0, 0, 0, 0][number]
    during = {f"during.gpu[{n}].power_median_watts": 480.0 if n == weak else 650.0 for n in held}
    sections = {"gpu": gpus, "gpu_pair": pairs, "pci": pci, "worker": workers, "during": during, **more}
    if records:
        sections["worker_record"] = record
    return Snapshot(
        captured_at="2026-01-01T00:00:00.000+00:00",
        envsnap="0",
        moment=moment,
        sections={name: Section("ok", True, 0.0, "made up", values=values) for name, values in sections.items()},
    )


def paths(a: Snapshot, b: Snapshot) -> set[str]:
    return {c.path for c in diff(a, b).changes}


def of_gpus(found: set[str]) -> set[str]:
    return {p for p in found if "gpu" in p.partition("[")[0] or p.startswith("pci")}


@pytest.mark.parametrize("records", [True, False], ids=["by rank", "by use"])
def test_other_gpus_of_the_same_machine_are_no_change(records: bool) -> None:
    a, b = machine(FIRST, records=records), machine(LAST, records=records)
    assert paths(a, b) == set()
    (note,) = (n for n in diff(a, b).notes if "paired" in n)
    assert "A's 0 with B's 4" in note
    assert ("the rank that held them" in note) is records


def test_a_weak_gpu_is_told_against_the_one_of_the_same_rank() -> None:
    a, b = machine(FIRST), machine(LAST, weak=6)
    assert of_gpus(paths(a, b)) == {
        "gpu[2].power_limit_watts",
        "gpu[2].nvlink[0].active",
        "pci[gpu2].link_width_lanes",
        "during.gpu[2].power_median_watts",
    }
    change = next(c for c in diff(a, b).changes if c.path == "gpu[2].power_limit_watts")
    assert (change.before, change.after) == (Value(700.0), Value(500.0))
    # Held by nobody on either side, it is still told, as the GPU that took its place.
    assert of_gpus(paths(machine(FIRST), machine(LAST, weak=1))) >= {"gpu[5].power_limit_watts"}


def test_the_other_way_round_the_same_is_told() -> None:
    a, b = machine(FIRST), machine(LAST, weak=6)
    there, back = diff(a, b), diff(b, a)
    numbers = {0: 4, 1: 5, 2: 6, 3: 7}
    assert {c.path.replace("2", str(numbers[2])) for c in there.changes} == {c.path for c in back.changes}
    readings = {(str(c.before), str(c.after)) for c in there.changes}
    assert readings == {(str(c.after), str(c.before)) for c in back.changes}
    assert there.equal == back.equal


def test_visible_devices_say_which_gpu_a_rank_counts_as_its_first() -> None:
    a, b = machine(FIRST, visible="0,1,2,3"), machine(LAST, visible="4,5,6,7", weak=7)
    found = paths(a, b)
    assert "gpu[3].power_limit_watts" in found
    assert "gpu[7].power_limit_watts" not in found
    assert f"worker[{RANKS[0]}].env[CUDA_VISIBLE_DEVICES]" in found  # what was set is told as it was set
    uuids = ",".join(f"GPU-{n:08x}" for n in LAST)
    assert of_gpus(paths(a, machine(LAST, visible=uuids, weak=7))) == of_gpus(found)


def test_ranks_that_swapped_their_gpus_are_paired_as_ranks() -> None:
    a, b = machine(FIRST, weak=0), machine([1, 0, 2, 3], weak=1)
    assert of_gpus(paths(a, b)) == set()
    assert "A's 0 with B's 1" in " ".join(diff(a, b).notes)
    assert "gpu_pair" not in " ".join(paths(a, b))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (machine(FIRST), machine(FIRST)),
        (machine(FIRST), machine([*FIRST[:3], 0])),  # ranks that share a GPU
        (machine(FIRST, records=False), machine(LAST[:2], records=False)),
        (machine(FIRST, visible="GPU-no-such"), machine(FIRST, visible="0,1,2,3")),
        (machine([], records=False), machine([], records=False)),
    ],
    ids=["the same", "shared", "other counts", "unknown", "idle"],
)
def test_where_it_is_not_known_numbers_stay(a: Snapshot, b: Snapshot) -> None:
    assert aligned(a, b) == (b, "")


def test_gpus_of_unlike_models_are_not_counted_by_guess() -> None:
    a, b = machine(FIRST), machine(LAST)
    for snapshot in (a, b):
        snapshot.sections["gpu"].values["gpu[0].name"] = "NVIDIA L4"
    assert "by the rank" not in aligned(a, b)[1]


def test_what_is_unavailable_moves_along() -> None:
    a, b = machine(FIRST), machine(LAST)
    denied = Unavailable(Why.DENIED, "no")
    del b.sections["gpu"].values["gpu[5].power_limit_watts"]
    b.sections["gpu"].unavailable["gpu[5].power_limit_watts"] = denied
    (gap,) = diff(a, b).not_compared
    assert (gap.path, gap.after) == ("gpu[1].power_limit_watts", denied)


def test_a_container_with_other_numbers_keeps_all_gpus_apart() -> None:
    """Eight GPUs there, four here: none is dropped, none stands for two."""
    a, b = machine(FIRST), machine(LAST)
    for n in (4, 5, 6, 7):
        for path in [p for p in a.sections["gpu"].values if p.startswith(f"gpu[{n}]")]:
            del a.sections["gpu"].values[path]
    moved, _ = aligned(a, b)
    assert len(moved.values) == len(b.values)


def test_real_runs_on_the_same_gpus_stay_as_they_are() -> None:
    folder = Path(__file__).parents[1] / "examples" / "eagle3"
    sides = []
    for name in ("with-graphs", "without-graphs"):
        run = json.loads(gzip.decompress((folder / name / "0.json.gz").read_bytes()))
        sides.append(from_json(run["snapshots"]["during"], name))
    assert aligned(*sides) == (sides[1], "")
    # The same run, had it been on two other GPUs.
    elsewhere = json.loads(json.dumps(sides[1].as_json()).replace("gpu[0]", "gpu[4]").replace("gpu[1]", "gpu[5]"))
    found, note = aligned(sides[0], from_json(elsewhere, "elsewhere"))
    assert found.values == sides[1].values
    assert "A's 0 with B's 4, A's 1 with B's 5" in note
    assert {c.path for c in diff(sides[0], from_json(elsewhere, "x"), also=[Kind.VOLATILE]).changes} == {
        c.path for c in diff(*sides, also=[Kind.VOLATILE]).changes
    }
