from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

from envsnap.check import CheckResult, Finding, Severity, Status
from envsnap.report import check as report
from envsnap.report import check_ci
from envsnap.report.lines import paint
from envsnap.schema import violations

RESULT = CheckResult.of(
    [
        Finding("gpu_busy", Status.PASS, Severity.LOW, "not the case: busy."),
        Finding("acs", Status.NOT_APPLICABLE, Severity.LOW, "no GPU"),
        Finding("iommu", Status.UNKNOWN, Severity.MEDIUM, "not judged: denied", ("pci",), required=False),
        Finding("port_taken", Status.FAIL, Severity.LOW, "port 30000 is taken", ("ports.listening",), "ss -ltnp"),
        Finding("link_width", Status.WARNING, Severity.HIGH, "GPU 0: 8 of 16", ("gpu[0].pcie_width_lanes",)),
        Finding("policy.unknown", Status.UNKNOWN, Severity.HIGH, "x could not be read", ("cpu.model",)),
        Finding("policy.broken", Status.WAIVED, Severity.LOW, "y (waived)", ("cpu.turbo",)),
        Finding("policy.holds", Status.PASS, Severity.LOW, "3 requirements of the policy met"),
    ]
)
NASTY = CheckResult.of(
    [
        Finding(
            "policy.broken", Status.FAIL, Severity.HIGH, 'a <b> & "c" \x1b[31m, 100%: d\nnew::error::line', (), "]]> x"
        )
    ]
)


def test_text_leads_with_what_is_wrong_and_counts_what_is_not() -> None:
    assert paint(report.text(RESULT), colour=False).splitlines() == [
        "FAIL     low     port 30000 is taken  ss -ltnp  [port_taken]",
        "UNKNOWN          x could not be read",
        "UNKNOWN          not judged: denied  [iommu]",
        "WARNING  high    GPU 0: 8 of 16  [link_width]",
        "WAIVED           y (waived)",
        "PASS             3 requirements of the policy met",
        "PASS             1 built-in rule found nothing wrong",
        "N/A              1 built-in rule does not apply here",
        "fail: 1 requirement not met, 1 unknown, 2 warnings",
    ]
    everything = paint(report.text(RESULT, everything=True), colour=False)
    assert "N/A              no GPU  [acs]\n" in everything


def test_json_has_every_finding_and_where_to_go_on() -> None:
    document: Any = report.as_json(RESULT, "this machine", policy=["a.toml"])
    assert violations(json.loads(json.dumps(document))) == []
    assert (document["status"], len(document["findings"])) == ("fail", 8)
    assert document["next"] == [
        ["envsnap", "key", "cpu.model"],
        ["envsnap", "check", "--explain", "port_taken"],
        ["envsnap", "check", "--explain", "iommu"],
    ]


def test_junit_counts_failures_errors_and_what_was_skipped() -> None:
    suite = ElementTree.fromstring(check_ci.junit(RESULT))
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "8", "failures": "1", "errors": "1", "skipped": "2",
    }  # fmt: skip
    cases = {(c.get("classname"), c[0].tag if len(c) else "") for c in suite}
    assert ("envsnap.port_taken", "failure") in cases
    assert ("envsnap.policy.unknown", "error") in cases
    assert ("envsnap.link_width", "system-out") in cases
    assert ("envsnap.iommu", "system-out") in cases
    assert ("envsnap.gpu_busy", "") in cases


def test_github_annotates_what_needs_a_look() -> None:
    assert check_ci.github(RESULT).splitlines() == [
        "::error title=envsnap port_taken::port 30000 is taken. ss -ltnp",
        "::error title=envsnap policy.unknown::x could not be read",
        "::warning title=envsnap iommu::not judged: denied",
        "::warning title=envsnap link_width::GPU 0: 8 of 16",
        "::notice title=envsnap policy.broken::y (waived)",
        "fail: 1 requirement not met, 1 unknown, 2 warnings",
    ]


def test_foreign_text_breaks_out_of_no_format() -> None:
    (case,) = ElementTree.fromstring(check_ci.junit(NASTY))
    assert case.get("name") == 'a <b> & "c" \\x1b[31m, 100%: d\\nnew::error::line'
    assert check_ci.github(NASTY).splitlines()[0] == (
        '::error title=envsnap policy.broken::a <b> & "c" \\x1b[31m, 100%25: d\\nnew::error::line. ]]> x'
    )
    assert "\x1b" not in paint(report.text(NASTY), colour=False)


def test_the_worst_decides() -> None:
    def status(*findings: Finding) -> Status:
        return CheckResult.of(findings).status

    by_status = {f.status: f for f in RESULT.findings if f.required}
    assert status(*by_status.values()) is Status.FAIL
    assert status(by_status[Status.UNKNOWN], by_status[Status.WARNING]) is Status.UNKNOWN
    assert status(by_status[Status.WARNING], by_status[Status.PASS]) is Status.WARNING
    assert status(by_status[Status.WAIVED], by_status[Status.NOT_APPLICABLE]) is Status.PASS
    assert status() is Status.PASS
