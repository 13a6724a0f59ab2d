"""No false alarm: the built-in rules on whole machines that are well."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.check import CheckResult, Status
from envsnap.check.learn import policy_from
from envsnap.check.policy_file import load as load_policy
from envsnap.check.run import Plan
from envsnap.check.wanted import read_command
from envsnap.host import LiveHost
from envsnap.recording import GOLDEN
from envsnap.snapshot import Section, Snapshot, load
from tests.check.made import TODAY

FOLDERS = sorted(p for p in (Path(__file__).parent.parent / "machines").iterdir() if p.is_dir())
H200 = Path(__file__).parent.parent / "machines" / "h200x2"
TP2 = "python -m sglang.launch_server --model-path m --load-format dummy --tp 2"


def checked(made: Snapshot, command: str = "") -> CheckResult:
    return Plan(wanted=read_command(command)).judge(made, TODAY)


def titles(result: CheckResult, status: Status) -> list[str]:
    return [f"{f.code}: {f.title}" for f in result.findings if f.status is status]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_nothing_fails_on_a_recorded_machine(folder: Path) -> None:
    result = checked(load(folder / GOLDEN))
    assert titles(result, Status.FAIL) == []
    assert [f.title for f in result.unknown] == []


def test_nothing_fails_here() -> None:
    plan = Plan()
    result = plan.judge(capture(host=LiveHost(), only=plan.sections()), TODAY)
    assert [t for t in titles(result, Status.FAIL) if not t.startswith(("gpu_busy", "gpu_memory", "gpu_proc"))] == []
    assert [f.title for f in result.unknown] == []


def test_two_idle_h200_are_fit_for_two_ranks() -> None:
    result = checked(load(H200 / GOLDEN), TP2)
    assert (titles(result, Status.FAIL), result.unknown) == ([], ())
    assert {f.code for f in result.warned} <= {"gpu_device_holders", "caches_cold", "model_files"}
    passed = {f.code for f in result.findings if f.status is Status.PASS}
    assert {"gpu_memory", "link_width", "nvlink_down", "fabric", "driver_versions", "clocks_held_down"} <= passed
    apart = {f.code: f.title for f in result.findings if f.status is Status.NOT_APPLICABLE}
    assert apart["link_generation"] == "the GPUs are idle, and the generation of an idle link means nothing"
    assert {"acs", "iommu"} <= set(apart), "a virtual machine has neither"


def changed(made: Snapshot, values: dict[str, Any], without: str = "") -> Snapshot:
    """A snapshot with other values, and without what begins with `without`."""
    sections: dict[str, Section] = {}
    for name, section in made.sections.items():
        kept = {p: v for p, v in section.values.items() if not without or not p.startswith(without)}
        sections[name] = replace(section, values={**kept, **{p: v for p, v in values.items() if p in section.values}})
    return replace(made, sections=sections)


@pytest.mark.parametrize(
    ("planted", "code"),
    [
        ({"gpu[0].memory_used_bytes": 90 << 30}, "gpu_memory"),
        ({"gpu[1].utilization_gpu_percent": 80}, "gpu_busy"),
        ({"gpu[0].compute_process_count": 1, "gpu[0].process_names": ["python3"]}, "gpu_processes"),
        ({"gpu[1].pcie_width_lanes": 4}, "link_width"),
        ({"gpu[0].nvlink_active_count": 17}, "nvlink_down"),
        ({"gpu[1].fabric_state": "in_progress"}, "fabric"),
        ({"gpu[0].remapped_rows_pending": True}, "gpu_health"),
        ({"gpu[0].clocks_event_reasons": ["hw_power_brake_slowdown"]}, "clocks_held_down"),
        ({"nvidia.module_version": "590.48.01"}, "driver_versions"),
        ({"memory.shm_size_bytes": 64 << 20}, "shared_memory"),
        ({"ports.listening": [30000]}, "port_taken"),
    ],
)
def test_one_planted_condition_is_the_one_that_is_found(planted: dict[str, Any], code: str) -> None:
    made = load(H200 / GOLDEN)
    if "ports.listening" in planted:
        ports = made.sections["ports"]
        made = replace(made, sections={**made.sections, "ports": replace(ports, values={"ports.listening": []})})
    result = checked(changed(made, planted), TP2)
    assert {f.code for f in result.failed} == {code}
    assert all(f.advice for f in result.failed)


def test_a_gpu_that_idles_in_generation_1_and_boards_without_nvlink_are_well() -> None:
    made = load(H200 / GOLDEN)
    slow = {f"gpu[{i}].{k}": v for i in (0, 1) for k, v in {"pcie_generation": 1, "performance_state": 8}.items()}
    assert titles(checked(changed(made, slow), TP2), Status.FAIL) == []
    bare = changed(made, {f"gpu[{i}].name": "NVIDIA L40S" for i in (0, 1)}, without="gpu[0].nvlink")
    assert "nvlink_down" not in {f.code for f in checked(changed(bare, {}, without="gpu[1].nvlink"), TP2).failed}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_recorded_machine_passes_the_policy_that_is_made_from_it(folder: Path, tmp_path: Path) -> None:
    made = load(folder / GOLDEN)
    (tmp_path / "p.toml").write_text(policy_from([made], 0.1), encoding="utf-8")
    result = Plan(policy=load_policy(tmp_path / "p.toml"), rules=False).judge(made, TODAY)
    assert {f.status for f in result.findings} <= {Status.PASS}
