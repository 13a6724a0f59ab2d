"""Laws over all built-in rules. A failure names the rule that breaks one."""

from __future__ import annotations

import ast
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from envsnap.check import Status, builtin, rules
from envsnap.check.builtin import Setting
from envsnap.check.facts import ERROR, WARNING, Facts, Index
from envsnap.check.waivers import Waiver
from envsnap.check.wanted import Wanted, read_command
from envsnap.collectors import keys, section_of
from envsnap.reading import Unavailable, Why
from tests.check import test_rules_after, test_rules_gpu, test_rules_host, test_rules_software
from tests.check.made import TODAY, Case, judge, snapshot

CASES = [c for module in (test_rules_gpu, test_rules_host, test_rules_software, test_rules_after) for c in module.CASES]
FOLDER = Path(rules.__file__).parent
HANGS = ("timeout", "did not finish within 10.0 s")
GONE = ("unavailable", "absent: none here")


@pytest.mark.parametrize("code", rules.codes())
def test_law_a_rule_has_what_it_needs(code: str) -> None:
    rule = rules.rule(code)
    first, blank, *rest = (rule.__doc__ or "").strip().split("\n")
    assert first.endswith("."), "the docstring's first line says what is wrong"
    assert not blank
    assert any(line.strip() for line in rest), "and the rest why, and how it is mended"
    assert "Fix" in (rule.__doc__ or ""), "and the rest why, and how it is mended"
    assert code == rule.CODE, "its code is its module's name"
    assert rule.SEVERITY in (ERROR, WARNING)
    assert rule.NEEDS
    assert [p for p in (*rule.NEEDS, *rules.uses(rule)) if p not in keys()] == [], "keys that no collector declares"
    assert not set(rule.NEEDS) & set(rules.uses(rule))


@pytest.mark.parametrize("code", rules.codes())
def test_law_a_rule_has_a_firing_and_a_silent_case(code: str) -> None:
    statuses = Counter(case.status for case in CASES if case.code == code)
    assert statuses[Status.FAIL] + statuses[Status.WARNING], "no case in which it fires"
    assert statuses[Status.PASS], "no case in which it is silent"


@pytest.mark.parametrize("code", rules.codes())
def test_law_what_could_not_be_read_is_unknown_and_never_a_pass(code: str) -> None:
    rule = rules.rule(code)
    hanging = snapshot(sections={section_of(pattern): HANGS for pattern in rule.NEEDS})
    denied = snapshot(unavailable={p.partition("[]")[0]: Unavailable(Why.DENIED, "no") for p in rule.NEEDS})
    for made in (hanging, denied):
        found = judge(code, made)
        assert Status.UNKNOWN in {f.status for f in found}
        assert not {Status.PASS, Status.NOT_APPLICABLE} & {f.status for f in found}
        unknown = next(f for f in found if f.status is Status.UNKNOWN)
        assert unknown.required == (rule.SEVERITY == ERROR)
        assert "the rule itself failed" not in unknown.title


@pytest.mark.parametrize("code", rules.codes())
def test_law_without_its_subject_a_rule_does_not_apply(code: str) -> None:
    rule = rules.rule(code)
    made = snapshot(sections={section_of(pattern): GONE for pattern in rule.NEEDS})
    statuses = {f.status for f in judge(code, made)}
    assert Status.UNKNOWN not in statuses
    if not rules.absence_is_judged(rule):
        assert statuses == {Status.NOT_APPLICABLE}


@pytest.mark.parametrize("case", [case for case in CASES if case.says], ids=str)
def test_law_a_problem_can_be_made_a_warning_or_waived_by_the_policy(case: Case) -> None:
    rule, made, wanted = rules.rule(case.code), snapshot(case.values, case.unavailable), read_command(case.command)
    for setting, expected in (
        (Setting(WARNING), Status.WARNING),
        (Setting(ERROR), Status.FAIL),
        (Setting("", Waiver("n", "o", TODAY)), Status.WAIVED),
        (Setting("", Waiver("n", "o", TODAY - timedelta(days=1))), Status.FAIL),
    ):
        found = builtin.judge(made, [rule], wanted, {case.code: setting}, TODAY)
        assert {f.status for f in found} == {expected}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_law_rules_are_functions_of_values(path: Path) -> None:
    forbidden = {"os", "subprocess", "socket", "psutil", "time", "pynvml", "envsnap.host", "envsnap.machine"}
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    assert not imported & forbidden


def test_a_rule_that_trips_over_what_it_is_given_has_not_passed() -> None:
    (finding,) = judge("shared_memory", snapshot({"memory.shm_size_bytes": "many"}))
    assert (finding.status, finding.required) == (Status.UNKNOWN, True)
    assert "the rule itself failed: TypeError" in finding.title


def test_a_rule_cannot_look_at_what_it_did_not_declare() -> None:
    facts = Facts(Index(snapshot({"memory.total_bytes": 1})), Wanted(), ("numa.nodes",))
    with pytest.raises(LookupError, match=r"memory\.total_bytes"):
        facts.value("memory.total_bytes")


def test_rules_that_are_off_are_not_asked() -> None:
    everything = {r.CODE for r in builtin.chosen({})}
    assert everything - {r.CODE for r in builtin.chosen({"acs": Setting("off"), "iommu": Setting("warning")})} == {
        "acs"
    }
    assert {r.CODE for r in builtin.chosen({}, rules.AFTER)}.isdisjoint(everything)
