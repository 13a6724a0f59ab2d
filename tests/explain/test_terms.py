"""What the terms of the speed model say of the two sides."""

from __future__ import annotations

import pytest

from envsnap.explain import Side, explain
from envsnap.explain.symptom import Symptom
from envsnap.explain.terms import all_refused
from tests.explain.pairs import run


@pytest.mark.parametrize(
    ("figures", "refused"),
    [((2.5, 1.0), True), ((1.0, 1.0), False), ((2.5, 2.4), False), ((1.0, 2.5), False), (None, False)],
)
def test_drafts_that_are_all_refused_on_the_slow_side_alone(figures: tuple[float, float] | None, refused: bool) -> None:
    assert all_refused(Symptom(figures={"accept_length": figures} if figures else {})) is refused


def test_without_speculation_a_setting_makes_no_more_than_it_is_known_to_make() -> None:
    """Plain decoding, where every step has one token."""
    values = {"server[0].argument[tp_size]": 1, "worker[scheduler].env[PATH]": "/usr/bin"}
    fast, slow = ({**values, "memory.transparent_huge_pages": v} for v in ("madvise", "never"))
    a = [run(fast, "s", i, arm="a", step_seconds=t, accept_length=1.0) for i, t in enumerate((0.010, 0.0101, 0.0099))]
    b = [run(slow, "s", i, arm="b", step_seconds=t, accept_length=1.0) for i, t in enumerate((0.020, 0.0201, 0.0199))]
    found = explain(Side.of_runs(a), Side.of_runs(b))
    pages = next(s for s in found.suspects if s.id == "huge_pages")
    assert any("×1.15 at most" in e.text and e.weight < -1 for e in pages.evidence_against), pages
    assert not any("Acceptance" in e.text for s in found.suspects for e in (*s.evidence_for, *s.evidence_against))
