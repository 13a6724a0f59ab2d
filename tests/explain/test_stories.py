"""Every story tells where it should, and is silent where it should be: the tables in `stories/`."""

from __future__ import annotations

import inspect

import pytest

from envsnap.collectors import keys
from envsnap.explain import Clue, Innocent, Mistake, Side, Together, explain
from envsnap.explain.story import Finding, every_story
from envsnap.explain.weights import FAIR, STRONG, WEAK
from envsnap.reading import Json
from tests.explain.pairs import run
from tests.explain.stories import communication, engine, gpus, host, software, workers
from tests.explain.stories.case import Case

STORIES = {story.CODE: story for story in every_story()}
CASES = [c for table in (workers, communication, engine, gpus, software, host) for c in table.case.cases]


def text_of(finding: Finding) -> str:
    match finding:
        case Clue():
            return finding.text
        case Together():
            return " ".join([finding.title, finding.mechanism, *(e.text for e in finding.evidence)])
        case Innocent():
            return f"{finding.title}: {finding.reason}"
        case Mistake():
            return f"{finding.title}: {finding.advice}"


def paths_of(finding: Finding) -> list[str]:
    return list(finding.paths) if isinstance(finding, Mistake) else [c.path for c in finding.changes]


@pytest.mark.parametrize("c", CASES, ids=lambda c: f"{c.story}-{c.name.replace(' ', '-')}")
def test_story(c: Case) -> None:
    view = c.view()
    story = STORIES[c.story]
    found = list(story.tell(view))
    if c.kind is None:
        assert found == []
        return
    assert any(facts.has(key) for key in story.NEEDS for facts in view.sides), "it would not be told: none of its needs"
    fitting = [
        f for f in found if isinstance(f, c.kind) and c.words in text_of(f) and any(c.about in p for p in paths_of(f))
    ]
    assert len(fitting) == 1, [(type(f).__name__, text_of(f), paths_of(f)) for f in found]
    if c.weight is not None:
        assert isinstance(fitting[0], Clue)
        assert fitting[0].weight == c.weight


@pytest.mark.parametrize("code", sorted(STORIES))
def test_law_a_story_is_documented_and_has_a_firing_and_a_silent_case(code: str) -> None:
    story = STORIES[code]
    assert code == story.__name__.rpartition(".")[2], "its module is called otherwise"
    title = (story.__doc__ or "").split("\n")[0]
    assert title.endswith("."), "the docstring's first line is its title"
    assert len((story.__doc__ or "").split("\n\n")) > 1, "its docstring says more than the title"
    assert set(story.NEEDS) <= set(keys()), "needs that no collector declares"
    own = [c for c in CASES if c.story == code]
    assert [c for c in own if c.kind], "no case in which it is told"
    assert [c for c in own if not c.kind], "no case in which it is silent"


@pytest.mark.parametrize("code", sorted(STORIES))
def test_law_a_story_knows_mechanisms_and_no_single_incident(code: str) -> None:
    source = inspect.getsource(STORIES[code])  # type: ignore[arg-type]
    assert "github" not in source.lower()
    assert not [word for word in ("issue", "incident") if word in source.lower()]


@pytest.mark.parametrize("code", sorted(STORIES))
def test_law_a_story_says_nothing_of_a_pair_that_does_not_differ(code: str) -> None:
    """Nothing but what is wrong on both sides: no suspect without a difference."""
    for c in CASES:
        one = Case(c.story, c.name, {**c.base, **c.slow}, figures=c.figures)
        found = [f for f in STORIES[code].tell(one.view()) if not isinstance(f, Mistake)]
        assert found == [], (c.story, c.name)


def test_weights_are_those_of_the_table() -> None:
    allowed = {0.0, *(sign * w for sign in (1, -1) for w in (STRONG, FAIR, WEAK))}
    for c in CASES:
        for finding in STORIES[c.story].tell(c.view()):
            if isinstance(finding, Clue):
                assert finding.weight in allowed
            if isinstance(finding, Together):
                assert {e.weight for e in finding.evidence} <= allowed


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("port", [30_000, 30_001])
def test_an_older_server_at_the_same_address_is_another_one_than_was_started_last(port: int, kept: bool) -> None:
    """Servers that stand side by side, as the arms of one session, are not mistaken for each other."""

    def values(started: float, size: int, port: int) -> dict[str, Json]:
        return {
            "worker[scheduler].started_seconds": started,
            "server[0].argument[tp_size]": 1,
            "server[0].argument[chunked_prefill_size]": size,
            "server[0].url": f"http://127.0.0.1:{port}",
        }

    def side(state: dict[str, Json], name: str, day: int, step: float) -> Side:
        at, group, arm = f"2026-01-0{day}T00:00:00+00:00", "s" if kept else name, name if kept else ""
        return Side.of_runs([run(state, group, i, at, arm, step_seconds=step + i / 1e4) for i in range(2)])

    fast = side(values(1_767_225_000.0, 8192, 30_000), "a", 1, 0.01)
    slow = side(values(1_767_220_000.0, 64, port), "b", 2, 0.02)
    found = {e.text for s in explain(fast, slow).suspects for e in s.evidence_for}
    assert any("older than the fast side" in text for text in found) is (port == 30_000 and not kept)
