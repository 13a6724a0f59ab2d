from __future__ import annotations

from typing import Any

import pytest

from envsnap.check import CheckResult, Severity, Status, check
from envsnap.report import check as report
from envsnap.report.lines import paint
from envsnap.snapshot import Snapshot
from tests.probe import absent, denied, section, snapshot

pytestmark = pytest.mark.usefixtures("probe_keys")


def outcome(result: CheckResult) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(f.code, f.status.value, f.evidence) for f in result.findings if f.status is not Status.PASS]


def test_a_snapshot_passes_against_itself() -> None:
    good = snapshot({"probe.model": "x", "probe.clock_mhz": 5})
    result = check(good, good)
    (finding,) = result.findings
    assert (finding.code, finding.status, finding.title) == (
        "baseline.holds",
        Status.PASS,
        "1 reading as in the baseline",
    )
    assert (result.failed, result.unknown) == ((), ())


def test_changed_identities_and_tunables_fail_once_for_all_instances_with_advice() -> None:
    good = snapshot({f"role[TP{i}].env[NCCL_PROTO]": "LL" for i in range(4)} | {"probe.limit_watts": 700})
    bad = snapshot({"probe.limit_watts": 600})
    result = check(bad, good)
    assert [(f.severity, f.title, f.advice) for f in result.failed] == [
        (Severity.HIGH, "role[TP0-3].env[NCCL_PROTO] is unset, the baseline has LL", "Set it alike everywhere."),
        (Severity.MEDIUM, "probe.limit_watts is 600 W, the baseline has 700 W", "Raise it."),
    ]
    assert result.failed[0].evidence == tuple(f"role[TP{i}].env[NCCL_PROTO]" for i in range(4))


def test_what_was_added_fails_too() -> None:
    assert outcome(check(snapshot({"role[TP0].env[NCCL_ALGO]": "Tree"}), snapshot())) == [
        ("baseline.changed", "fail", ("role[TP0].env[NCCL_ALGO]",))
    ]


@pytest.mark.parametrize(
    "moved", [{"probe.clock_mhz": 9}, {"probe.temperature_celsius": 90}, {"probe.serial": "other"}]
)
def test_what_moves_by_itself_is_not_required(moved: dict[str, Any]) -> None:
    good = snapshot({"probe.clock_mhz": 1, "probe.temperature_celsius": 40, "probe.serial": "s", "probe.model": "x"})
    assert not outcome(check(snapshot({**good.values, **moved}), good))


@pytest.mark.parametrize(
    ("now", "path"),
    [
        (snapshot(unavailable={"probe.model": denied()}), "probe.model"),
        (snapshot(errors={"probe.model": "boom"}), "probe.model"),
        (snapshot(complete=False, status="timeout"), "probe"),
        (snapshot(complete=False, status="unavailable", reason="absent: no driver"), "probe"),
        (Snapshot("2026-01-01T00:00:00.000+00:00", {}, "1"), "probe"),
    ],
)
def test_what_the_baseline_read_and_the_snapshot_could_not_is_unknown(now: Snapshot, path: str) -> None:
    assert outcome(check(now, snapshot({"probe.model": "x"}))) == [("baseline.unknown", "unknown", (path,))]


@pytest.mark.parametrize(
    ("now", "title"),
    [
        (snapshot(complete=False, status="timeout", reason="did not finish"), "timeout, did not finish"),
        (Snapshot("2026-01-01T00:00:00.000+00:00", {}, "1"), "it was not captured"),
        (snapshot(unavailable={"probe": denied("no")}), "unavailable (denied: no)"),
    ],
)
def test_the_title_says_why_something_is_unknown(now: Snapshot, title: str) -> None:
    (finding,) = check(now, snapshot({"probe.model": "x"})).unknown
    assert finding.title == f"probe could not be compared: {title}"


def test_what_the_baseline_says_is_unset_is_required_to_be_so() -> None:
    now = snapshot(unavailable={"role[TP0].env[NCCL_PROTO]": denied()})
    assert [f.severity for f in check(now, snapshot()).unknown] == [Severity.HIGH]


@pytest.mark.parametrize(
    ("good", "now"),
    [
        (snapshot(unavailable={"probe.model": denied()}), snapshot({"probe.model": "x"})),
        (snapshot(unavailable={"probe.model": absent()}), snapshot(unavailable={"probe.model": absent()})),
        (snapshot(unavailable={"probe.model": denied()}), snapshot(unavailable={"probe.model": denied()})),
        (snapshot(complete=False, status="partial"), snapshot({"probe.model": "x"})),
    ],
)
def test_what_the_baseline_could_not_read_is_not_required(good: Snapshot, now: Snapshot) -> None:
    assert not outcome(check(now, good))


def test_only_sections_of_the_baseline_are_required() -> None:
    good = snapshot({"probe.model": "x"})
    now = Snapshot(good.captured_at, {**good.sections, "other": section({"other.thing": 1})}, "1")
    assert not outcome(check(now, good))


def test_ignored_paths_are_not_required() -> None:
    good = snapshot({"card[0].driver": "1", "card[1].driver": "1", "probe.model": "x"})
    now = snapshot({"card[0].driver": "2", "probe.model": "y"}, unavailable={"card[1].driver": denied()})
    assert [e for *_, e in outcome(check(now, good, ignore=["card", "probe.mod*"]))] == []
    assert [e for *_, e in outcome(check(now, good, ignore=["card[0]"]))] == [("probe.model",), ("card[1].driver",)]


def test_one_line_per_finding_and_a_last_one_that_says_it_all() -> None:
    good = snapshot({"probe.limit_watts": 700, "probe.model": "x", "probe.enabled": True})
    now = snapshot({"probe.limit_watts": 600, "probe.enabled": True}, unavailable={"probe.model": denied("no")})
    text = paint(report.text(check(now, good)), colour=False)
    assert text.splitlines() == [
        "FAIL     medium  probe.limit_watts is 600 W, the baseline has 700 W  Raise it.",
        "UNKNOWN          probe.model could not be compared: unavailable (denied: no)",
        "PASS             1 reading as in the baseline",
        "fail: 1 requirement not met, 1 unknown",
    ]
    document: Any = report.as_json(check(now, good), "now", "good")
    assert (document["status"], document["next"][0]) == ("fail", ["envsnap", "key", "probe.limit_watts"])


def test_severity_follows_the_prior() -> None:
    assert [Severity.of(p) for p in (0.8, 0.5, 0.3, 0.2, 0.1, 0)] == [
        *[Severity.HIGH] * 2, *[Severity.MEDIUM] * 2, *[Severity.LOW] * 2,
    ]  # fmt: skip
