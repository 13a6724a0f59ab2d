from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from envsnap.check import Finding, Status
from envsnap.check.policy import PolicyError
from envsnap.check.policy_file import load
from envsnap.check.requirements import judge
from envsnap.check.wanted import read_command
from envsnap.reading import Json, Unavailable, Why
from envsnap.snapshot import Snapshot
from tests.check.made import ABSENT, DENIED, SGLANG, TODAY, gpus, snapshot

GONE = {"gpu": ("unavailable", "absent: no NVIDIA driver library")}
HANGS = {"gpu": ("timeout", "did not finish within 10.0 s")}


@pytest.fixture
def required(tmp_path: Path) -> Any:
    """Judge a snapshot by the `[require]` lines of a policy."""

    def judged(
        lines: str, made: Snapshot, *, command: str = "", baseline: Snapshot | None = None, late: int = 0
    ) -> list[Finding]:
        (tmp_path / "p.toml").write_text(f"[require]\n{lines}\n")
        policy = load(tmp_path / "p.toml")
        return judge(made, policy.requirements, read_command(command), baseline, TODAY + timedelta(days=late))

    return judged


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(f.status.value, f.title) for f in findings]


@pytest.mark.parametrize(
    ("test", "value", "holds"),
    [
        ("{ equals = 700 }", 700.0, True),
        ("{ equals = 700 }", 650.0, False),
        ("{ equals = 700, tolerance = 0.1 }", 650.0, True),
        ("{ one_of = [500, 700] }", 700.0, True),
        ("{ one_of = [500, 600] }", 700.0, False),
        ("{ at_least = 690 }", 700.0, True),
        ("{ at_least = 700.5 }", 700.0, False),
        ("{ at_most = 700 }", 700.0, True),
        ("{ at_most = 699 }", 700.0, False),
        ("{ range = [600, 800] }", 700.0, True),
        ("{ range = [701, 800] }", 700.0, False),
        ("{ at_least = 600, at_most = 650 }", 700.0, False),
        ("{ present = true }", 700.0, True),
        ("{ absent = true }", 700.0, False),
    ],
)
def test_numbers(required: Any, test: str, value: float, holds: bool) -> None:
    found = required(f"'gpu[0].power_limit_watts' = {test}", snapshot(gpus(1, power_limit_watts=value)))
    assert [f.status for f in found] == [Status.PASS if holds else Status.FAIL]


@pytest.mark.parametrize(
    ("specifier", "version", "holds"),
    [
        (">=2.27,<3", "2.28.9", True),
        (">=2.29", "2.28.9", False),
        ("==580.*", "580.159.04", True),
        (">=2.9", "2.9.1+cu128", True),
        (">=2", "no version", False),
        ("<2.9.1", "2.9.1.dev3", False),
        (">=2.9", "2.10.0.dev3", True),
    ],
)
def test_versions(required: Any, specifier: str, version: str, holds: bool) -> None:
    (found,) = required(f"'library[torch].version' = {{ version = '{specifier}' }}",
                        snapshot({"library[torch].version": version}))  # fmt: skip
    assert found.status is (Status.PASS if holds else Status.FAIL)


def test_a_failure_says_what_is_and_what_should_be_and_why(required: Any) -> None:
    made = snapshot(gpus(4, power_limit_watts=(700.0, 700.0, 500.0, 500.0)))
    (found,) = required("'gpu[].power_limit_watts' = { at_least = 690, reason = 'As published.' }", made)
    assert told([found]) == [("fail", "gpu[2-3].power_limit_watts is 500.0 W, required at least 690 W (As published.)")]
    assert (found.code, found.evidence) == ("policy.broken", ("gpu[2].power_limit_watts", "gpu[3].power_limit_watts"))
    assert found.advice == "nvidia-smi -i GPU -pl WATTS"


def test_a_warning_is_one(required: Any) -> None:
    (found,) = required("'cpu.turbo' = { equals = true, severity = 'warning' }", snapshot({"cpu.turbo": False}))
    assert (found.status, found.title) == (Status.WARNING, "cpu.turbo is false, required true")


@pytest.mark.parametrize(
    ("line", "made", "status", "part"),
    [
        ("'cpu.model' = 'x'", snapshot(), Status.FAIL, "cpu.model is unset, required x"),
        ("'cpu.model' = { present = true }", snapshot(), Status.FAIL, "cpu.model is unset, required a value"),
        ("'cpu.model' = { absent = true }", snapshot(), Status.PASS, "1 requirement of the policy met"),
        ("'cpu.model' = 'x'", snapshot(unavailable={"cpu.model": DENIED}), Status.UNKNOWN,
         "cpu.model could not be read, required x: unavailable (denied: not for you)"),
        ("'cpu.model' = { absent = true }", snapshot(unavailable={"cpu.model": DENIED}), Status.UNKNOWN, "not for you"),
        ("'cpu.model' = { absent = true }", snapshot(unavailable={"cpu.model": ABSENT}), Status.PASS, "met"),
        ("'gpu[0].name' = 'x'", snapshot(sections=HANGS), Status.UNKNOWN, "gpu[0].name could not be read, required x"),
        ("'gpu[].name' = 'x'", snapshot(sections=HANGS), Status.UNKNOWN,
         "gpu[].name could not be read: gpu: timeout: did not finish within 10.0 s"),
        ("'gpu[].name' = 'x'", snapshot(sections=GONE), Status.UNKNOWN, "gpu[].name could not be read: gpu: no NVIDIA"),
        ("'gpu[].name' = 'x'", snapshot(), Status.FAIL, "nothing here has gpu[].name"),
        ("'gpu[].name' = { absent = true }", snapshot(sections=GONE), Status.PASS, "met"),
        ("'gpu[].name' = { absent = true }", snapshot(sections=HANGS), Status.UNKNOWN, "could not be read"),
    ],
)  # fmt: skip
def test_what_is_not_there(required: Any, line: str, made: Snapshot, status: Status, part: str) -> None:
    (found,) = required(line, made)
    assert (found.status, part in found.title) == (status, True), found.title


def test_an_unknown_that_would_be_a_warning_is_not_required(required: Any) -> None:
    (found,) = required("'cpu.model' = { equals = 'x', severity = 'warning' }",
                        snapshot(unavailable={"cpu.model": DENIED}))  # fmt: skip
    assert (found.status, found.required) == (Status.UNKNOWN, False)


def test_every_instance_is_asked_for_what_one_of_them_has(required: Any) -> None:
    values = {
        "worker[scheduler_TP0].env[NCCL_ALGO]": "Ring",
        "worker[scheduler_TP1].argv": ["python"],
        "worker[shell].argv": ["bash"],
    }
    line = "'worker[scheduler_*].env[NCCL_ALGO]' = 'Ring'"
    assert told(required(line, snapshot(values))) == [
        ("fail", "worker[scheduler_TP1].env[NCCL_ALGO] is unset, required Ring")
    ]


def test_the_same_across_gpus_and_ranks(required: Any) -> None:
    line = "'gpu[].vbios_version' = { same_across = 'gpus' }"
    assert required(line, snapshot(gpus(2, vbios_version="a")))[0].status is Status.PASS
    assert told(required(line, snapshot(gpus(3, vbios_version=("a", "a", "b"))))) == [
        ("fail", "gpu[0-1].vbios_version is a, gpu[2].vbios_version is b; required alike for all gpus")
    ]
    line = "'worker[].env[NCCL_ALGO]' = { same_across = 'ranks' }"
    ranks = {"worker[r0].env[NCCL_ALGO]": "Ring", "worker[r1].argv": ["x"], "worker[shell].env[NCCL_ALGO]": "Tree"}
    assert told(required(line, snapshot(ranks))) == [
        ("fail", "worker[r0].env[NCCL_ALGO] is Ring, worker[r1].env[NCCL_ALGO] is unset; required alike for all ranks")
    ]
    blind = snapshot(gpus(1, vbios_version="a") | {"gpu[1].name": "x"}, {"gpu[1].vbios_version": DENIED})
    assert [f.status for f in required("'gpu[].vbios_version' = { same_across = 'gpus' }", blind)] == [Status.UNKNOWN]


def test_the_same_as_the_baseline(required: Any) -> None:
    line = "'memory.total_bytes' = { same_as_baseline = true, tolerance = 0.05 }"
    good = snapshot({"memory.total_bytes": 1000})

    def status(now: Mapping[str, Json], then: Snapshot | None = good, **gap: Unavailable) -> Status:
        (found,) = required(line, snapshot(now, {p.replace("__", "."): u for p, u in gap.items()}), baseline=then)
        result: Status = found.status
        return result

    assert status({"memory.total_bytes": 960}) is Status.PASS
    assert status({"memory.total_bytes": 900}) is Status.FAIL
    assert status({}) is Status.FAIL
    assert status({}, memory__total_bytes=DENIED) is Status.UNKNOWN
    assert status({"memory.total_bytes": 1000}, None) is Status.UNKNOWN
    assert status({"memory.total_bytes": 1000}, snapshot(unavailable={"memory.total_bytes": DENIED})) is Status.UNKNOWN
    assert status({}, snapshot()) is Status.PASS


def test_secrets_of_other_keys_cannot_be_compared(required: Any) -> None:
    old, new = ("<redacted k=%s h=9f86d081884c7d65>" % k for k in ("1a2b3c4d", "aaaaaaaa"))
    found = required("'env[HF_TOKEN]' = { same_as_baseline = true }", snapshot({"env[HF_TOKEN]": new}),
                     baseline=snapshot({"env[HF_TOKEN]": old}))  # fmt: skip
    assert [f.status for f in found] == [Status.UNKNOWN]


@pytest.mark.parametrize(
    ("condition", "command", "status"),
    [
        ("gpu = '*H200*'", "", Status.FAIL),
        ("gpu = ['*A100*', 'NVIDIA H*']", "", Status.FAIL),
        ("gpu = '*A100*'", "", Status.NOT_APPLICABLE),
        ("tensor_parallel = 4", f"{SGLANG} --tp 4", Status.FAIL),
        ("tensor_parallel = { at_least = 8 }", f"{SGLANG} --tp 4", Status.NOT_APPLICABLE),
        ("tensor_parallel = { at_least = 2, at_most = 4 }", f"{SGLANG} --tp 4", Status.FAIL),
        ("tensor_parallel = 4", "", Status.UNKNOWN),
        ("model = 'meta/*'", SGLANG, Status.FAIL),
        ("model = 'model'", SGLANG, Status.FAIL),
        ("model = 'qwen/*'", SGLANG, Status.NOT_APPLICABLE),
        ("model = 'meta/*'", "", Status.UNKNOWN),
        ("model = 'meta/*', gpu = '*A100*'", "", Status.NOT_APPLICABLE),
    ],
)
def test_when_a_requirement_applies(required: Any, condition: str, command: str, status: Status) -> None:
    line = f"'cpu.model' = {{ equals = 'x', applies_when = {{ {condition} }} }}"
    (found,) = required(line, snapshot({**gpus(4), "cpu.model": "y"}), command=command)
    assert found.status is status


def test_where_the_gpu_cannot_be_read_it_is_not_known_whether_a_requirement_applies(required: Any) -> None:
    line = "'cpu.model' = { equals = 'x', applies_when = { gpu = '*H200*' } }"
    assert [f.status for f in required(line, snapshot(sections=HANGS))] == [Status.UNKNOWN]
    assert [f.status for f in required(line, snapshot(sections=GONE))] == [Status.NOT_APPLICABLE]


def test_more_conditions_win_and_equal_ones_contradict(required: Any) -> None:
    general, on_h200 = "{ equals = 'a' }", "{ equals = 'b', applies_when = { gpu = '*H200*' } }"
    made = snapshot({**gpus(1), "cpu.model": "b"})
    assert [f.status for f in required(f"'cpu.model' = [{general}, {on_h200}]", made)] == [Status.PASS]
    nvidia = on_h200.replace("'b'", "'c'").replace("*H200*", "NVIDIA*")
    with pytest.raises(PolicyError, match=r"cpu\.model and cpu\.model contradict each other"):
        required(f"'cpu.model' = [{general}, {on_h200}, {nvidia}]", made)


def test_a_waiver_holds_until_its_last_day(required: Any) -> None:
    line = "'cpu.turbo' = { equals = true, waiver = { note = 'BIOS', owner = 'ann', until = 2026-12-03 } }"
    made = snapshot({"cpu.turbo": False})
    assert told(required(line, made, late=2)) == [
        ("waived", "cpu.turbo is false, required true (waived until 2026-12-03 by ann: BIOS)")
    ]
    assert told(required(line, made, late=3)) == [
        ("fail", "cpu.turbo is false, required true (the waiver of ann expired on 2026-12-03)")
    ]
    assert required(line, snapshot({"cpu.turbo": True}), late=9)[0].status is Status.PASS
    blind = snapshot(unavailable={"cpu.turbo": Unavailable(Why.DENIED)})
    assert required(line, blind)[0].status is Status.UNKNOWN


def test_a_name_pattern_means_several_keys(required: Any) -> None:
    made = snapshot(gpus(1, ecc_mode=True, ecc_mode_pending=False))
    assert told(required("'gpu[].ecc_mode*' = true", made)) == [
        ("fail", "gpu[0].ecc_mode_pending is false, required true")
    ]
