"""A value may be of any type: who wrote a record is not trusted. No story fails on one, nor does anything after it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from envsnap.explain import explain
from envsnap.explain.story import every_story
from envsnap.reading import Json
from tests.explain.stories.case import Case
from tests.explain.test_stories import CASES

ODD: tuple[Json, ...] = ({"a": [1]}, [[1], {"b": 2}], [None, True], True, -1, 0, 2**70, 1.5, "", "\x00nan", "9" * 40)


def odd(case: Case, value: Json, path: str) -> Case:
    """The case with one value replaced, on the sides that have it."""
    base, fast, slow = (
        {p: value if p == path and v is not None else v for p, v in part.items()}
        for part in (case.base, case.fast, case.slow)
    )
    return Case(case.story, case.name, base, fast, slow, figures=case.figures, asked=case.asked, grown=case.grown)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.story}: {c.name}")
def test_no_story_fails_on_an_odd_value(case: Case) -> None:
    """Each reading in turn on both sides, and on one of them."""
    stories = [s for s in every_story() if case.story == s.CODE]
    paths = sorted({p for part in (case.base, case.fast, case.slow) for p in part})
    # NOTE: one of several ranks or GPUs stands for the others.
    for index, path in enumerate({p.replace("1", "0"): p for p in paths}.values()):
        for value in (ODD[index % len(ODD)], ODD[(index + 3) % len(ODD)]):
            for sides in (odd(case, value, path), _one_side(case, value, path)):
                view = sides.view()
                for story in stories:
                    list(story.tell(view))


def _one_side(case: Case, value: Json, path: str) -> Case:
    held = {**case.base, **case.slow}.get(path)
    slow = {**case.slow, path: value} if held is not None else case.slow
    return Case(case.story, case.name, case.base, case.fast, slow, figures=case.figures, asked=case.asked)


@pytest.mark.parametrize("value", ODD, ids=lambda v: str(v)[:12])
def test_nothing_fails_where_every_value_is_odd(value: Json) -> None:
    """All readings of all cases on one side, as one explanation."""
    every = {p: v for case in CASES for part in (case.base, case.fast) for p, v in part.items() if v is not None}
    made = Case("", "", cast(Any, every), slow=dict.fromkeys(every, value))
    fast, slow = made.sides()
    assert not [note for note in explain(fast, slow).notes if "could not be told" in note]
