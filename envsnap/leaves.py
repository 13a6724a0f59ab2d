"""The leaves of structured values: where two server arguments or model configs differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envsnap.keys import Key
from envsnap.reading import Json, Unset, Value

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")

Side = Value | Unset
"""A leaf is set or not: an object says everything about itself."""


def leaves(key: Key, a: Json, b: Json) -> Iterator[tuple[str, Side, Side]]:
    """Where two objects differ, each place once: (place below the object, before, after).

    A place reads `.rope_scaling.factor` or `.layers[3].kind`. A list of plain values is one leaf, since an item
    put in front of it would otherwise change them all.
    """
    # NOTE: importing it takes longer than a whole diff without it.
    from deepdiff import DeepDiff

    tree = DeepDiff(a, b, view="tree", ignore_private_variables=False, threshold_to_diff_deeper=0)
    seen = set()
    for level in (level for kind in sorted(tree) for level in tree[kind]):
        while level.up is not None and (_is_plain_list(level.up.t1) or _is_plain_list(level.up.t2)):
            level = level.up
        place = _place(level.path(output_format="list"))
        if place not in seen and not _same(key, level.t1, level.t2):
            seen.add(place)
            yield place, _side(level.t1), _side(level.t2)


def _is_plain_list(value: Json) -> bool:
    return isinstance(value, list) and not any(isinstance(v, (dict, list)) for v in value)


def _same(key: Key, a: Json, b: Json) -> bool:
    """deepdiff takes 1 and 1.0 for a change of type."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(key.same(x, y) for x, y in zip(a, b))
    return isinstance(a, (int, float)) and isinstance(b, (int, float)) and key.same(a, b)


def _side(value: Json) -> Side:
    from deepdiff.helper import notpresent

    return Unset() if value is notpresent else Value(value)


def _place(steps: Sequence[str | int]) -> str:
    return "".join(_step(step) for step in steps)


def _step(step: str | int) -> str:
    import json

    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _NAME.match(step) else f"[{json.dumps(step)}]"
