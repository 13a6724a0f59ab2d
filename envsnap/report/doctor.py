"""What can be read here and what cannot, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from envsnap.doctor import HINDERED, Item, State
from envsnap.reading import Json
from envsnap.report.formats import NUMBER, STRING, Schema, array, document, one_of, record
from envsnap.report.lines import Line
from envsnap.wording import clip, plural

_WORDS = {
    State.WORKS: ("works", "good"),
    State.PARTLY: ("partly", "warn"),
    State.FAILS: ("does not", "bad"),
    State.NOTHING: ("nothing here", "dim"),
}
_STATE_WIDTH = 14

DOCTOR: Schema = document(
    "doctor",
    {
        "seconds": {**NUMBER, "description": "What the look took."},
        "items": array(
            record(
                {
                    "code": STRING,
                    "title": STRING,
                    "state": one_of(State),
                    "found": {"type": "string", "description": "What was read, or why not."},
                    "lost": {"type": "string", "description": "Empty where nothing is."},
                    "change": {"type": "string", "description": "What would change it."},
                }
            )
        ),
    },
)


def text(items: Sequence[Item], seconds: float, width: int) -> list[Line]:
    """A line for each item, two more for one where something is lost; how many there are at the end."""
    column = max(len(item.title) for item in items) + 2
    lines: list[Line] = []
    for item in items:
        word, style = _WORDS[item.state]
        room = width - _STATE_WIDTH - column
        found = clip(item.found, room)
        lines.append([(word.ljust(_STATE_WIDTH), style), (item.title.ljust(column), "title"), (found, "")])
        if item.state in HINDERED:
            for name, words in (("lost: ", item.lost), ("to change it: ", item.change)):
                lines.append([(" " * _STATE_WIDTH + name, "dim"), (clip(words, width - _STATE_WIDTH - len(name)), "")])
    hindered = [item for item in items if item.state in HINDERED]
    told = f"{plural(len(hindered), 'item')} cannot be wholly read" if hindered else "All that is here can be read"
    return [*lines, [(f"{told}; looked for {seconds:.2f} s", "title")]]


def as_json(items: Sequence[Item], seconds: float) -> dict[str, Json]:
    """The items' JSON form."""
    rows = [
        {"code": i.code, "title": i.title, "state": i.state.value, "found": i.found, "lost": i.lost, "change": i.change}
        for i in items
    ]
    return {"format": "envsnap.doctor", "version": 1, "seconds": round(seconds, 3), "items": rows}
