"""Elements of the page: HTML and SVG as trees of the standard library, so that no text can become markup.

Every text and attribute passes through `printable`: controls, escapes and bidirectional marks stand escaped. Only what
`raw` is given (the page's own style and script) is written as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Union
from xml.etree import ElementTree as ET

from envsnap.wording import printable

Node = ET.Element
Child = Union[Node, str, None, Iterable["Child"]]
Attribute = Union[str, int, float, bool, None]


def el(tag: str, *children: Child, **attributes: Attribute) -> Node:
    """An element. `class_` is the attribute class, `aria_label` aria-label; None and False leave an attribute out.

    Raises: ValueError for a style or a script, whose text nothing escapes.
    """
    if tag in ("script", "style"):
        raise ValueError(f"<{tag}> is made by raw()")
    named = {
        _name(name): _value(value) for name, value in attributes.items() if value is not None and value is not False
    }
    node = ET.Element(tag, named)
    _append(node, children)
    return node


def raw(tag: str, text: str) -> Node:
    """A style or script element with the page's own text. NOTE: the serializer writes these two without escapes."""
    node = ET.Element(tag)
    node.text = text
    return node


def html(node: Node) -> str:
    """The element as HTML text."""
    return ET.tostring(node, encoding="unicode", method="html")


def number(value: float) -> str:
    """A coordinate, with no more digits than a screen shows."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: Attribute) -> str:
    if value is True:
        return ""
    return number(value) if isinstance(value, float) else printable(str(value))


def _append(node: Node, children: Iterable[Child]) -> None:
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            _append_text(node, printable(child))
        elif isinstance(child, ET.Element):
            node.append(child)
        else:
            _append(node, child)


def _append_text(node: Node, text: str) -> None:
    """Text belongs to the element that it follows, or to the parent before its first child."""
    if len(node):
        node[-1].tail = (node[-1].tail or "") + text
    else:
        node.text = (node.text or "") + text
