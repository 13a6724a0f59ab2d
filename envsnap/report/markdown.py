"""Markdown that foreign text cannot break out of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from envsnap.wording import printable


def code(text: str) -> str:
    """`text` as inline code, for a table too: fenced by more backticks than it holds, pipes escaped."""
    plain = printable(text).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", plain)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest or not plain.strip() else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; cells are markdown already."""
    lines = [headings, ["---"] * len(headings), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]
