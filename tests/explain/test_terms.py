"""What the terms of the speed model say of the two sides."""

from __future__ import annotations

import math

import pytest

from envsnap.explain import Side, explain
from envsnap.explain.candidates import candidate
from envsnap.explain.story import Facts, View
from envsnap.explain.symptom import Symptom
from envsnap.explain.terms import all_refused, terms
from envsnap.explain.under_load import shown
from envsnap.explain.weights import WEIGHTS
from envsnap.keys import Effect
from tests.explain.pairs import run, snapshot
from tests.explain.test_candidates import change


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


@pytest.mark.parametrize(("then", "now", "said"), [(2.73, 2.68, False), (2.73, 2.0, True)])
def test_acceptance_that_hardly_fell_explains_nothing(then: float, now: float, said: bool) -> None:
    """A third of a small slowdown is within the noise."""
    fell = math.log(then / now)
    figures = {"accept_length": (then, now), "step_time": (0.02, 0.02)}
    symptom = Symptom(slowdown=fell, terms={"accept_length": fell, "step_time": 0.0}, figures=figures)
    drafts = candidate("env:SGLANG_DRAFT_X", [change("env[SGLANG_DRAFT_X]", "1", "2")])
    assert Effect.ACCEPTANCE in drafts.effects
    assert bool(list(terms(drafts, symptom, WEIGHTS))) is said


@pytest.mark.parametrize(
    ("argument", "acts"),
    [("stream_interval", False), ("num_continuous_decode_steps", False), ("tokenizer_path", True),
     ("speculative_algorithm", True)],
)  # fmt: skip
def test_how_tokens_are_sent_has_no_part_in_which_are_accepted(argument: str, acts: bool) -> None:
    figures = {"accept_length": (2.7, 1.9), "step_time": (0.02, 0.02)}
    symptom = Symptom(slowdown=0.35, terms={"accept_length": 0.35, "step_time": 0.0}, figures=figures)
    suspect = candidate(f"argument:{argument}", [change(f"server[0].argument[{argument}]", "1", "2")])
    (said,) = terms(suspect, symptom, WEIGHTS)
    assert (said.weight > 0) is acts
    assert "Acceptance went from 2.7 to 1.9" in said.text


@pytest.mark.parametrize(("step", "said"), [(0.0, False), (math.log(1.3), True)])
def test_kernels_take_longer_only_where_a_step_does(step: float, said: bool) -> None:
    under_load = {"during.gpu[0].power_median_watts": 300.0, "during.gpu[0].utilization_median_percent": 95.0,
                  "during.gpu[0].sm_clock_median_mhz": 1980.0, "server[0].argument[tp_size]": 1}  # fmt: skip
    side = Facts(Side(snapshot(under_load)))
    symptom = Symptom(slowdown=math.log(1.3), terms={"step_time": step, "prefill": 0.5}, gap=math.log(1.3))
    torch = candidate("package:torch", [change("package[torch].version", "2.8.0", "2.9.0")])
    assert bool(list(shown(torch, View(side, side, [], symptom), WEIGHTS))) is said


@pytest.mark.parametrize(("step", "said"), [(0.0, False), (math.log(1.3), True)])
def test_ranks_wait_for_each_other_only_where_a_step_takes_longer(step: float, said: bool) -> None:
    """Prompts in small pieces draw less power, too."""

    def load(watts: float) -> Facts:
        return Facts(Side(snapshot({
            "during.gpu[0].power_median_watts": watts, "during.gpu[0].utilization_median_percent": 95.0,
            "during.gpu[0].sm_clock_median_mhz": 1980.0, "server[0].argument[tp_size]": 2,
        })))  # fmt: skip

    symptom = Symptom(slowdown=step, terms={"step_time": step, "prefill": 1.5}, gap=math.log(1.3))
    chunks = candidate("argument:chunked", [change("server[0].argument[chunked_prefill_size]", 8192, 64)])
    found = [e.weight for e in shown(chunks, View(load(345.0), load(240.0), [], symptom), WEIGHTS)]
    assert found == ([WEIGHTS.mechanism.shows_other] if said else [])
