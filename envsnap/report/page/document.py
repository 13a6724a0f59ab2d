"""The document: head with its content-security policy, navigation, search, and the sections."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from envsnap import __version__
from envsnap.explain.explanation import Side
from envsnap.host import Host
from envsnap.report import diff as diff_report
from envsnap.report import explain as explain_report
from envsnap.report.page.content import Content
from envsnap.report.page.load import load
from envsnap.report.page.matrix import matrix
from envsnap.report.page.parts import bullets, mark
from envsnap.report.page.readings import changes, equal, unknown
from envsnap.report.page.repositories import code_section
from envsnap.report.page.runs import runs
from envsnap.report.page.suspects import suspects
from envsnap.report.page.timelines import timelines
from envsnap.report.page.tree import Node, el, html, raw
from envsnap.report.page.verdict import verdict
from envsnap.runs.verdict import Outcome

GENERATOR = f"envsnap {__version__}"
"""Names the program in the page."""

MARK = '<meta name="generator" content="envsnap '
"""By this the program knows its own pages."""


def render(content: Content, host: Host | None = None) -> str:
    """The page. `host` is where repositories that differ may be at hand, to show what lies between two commits."""
    found = (
        verdict(content),
        suspects(content),
        load(content),
        timelines(content),
        matrix(content),
        code_section(content, host),
        changes(content),
        unknown(content),
        equal(content),
        runs(content),
    )
    sections = [part for part in found if part is not None]
    title = f"{' against '.join(content.names)} – envsnap"
    body = el(
        "body",
        el("a", "Skip to the content", href="#content", class_="skip"),
        _bar(sections),
        el("main", _head(content), *sections, id="content", tabindex=-1),
        el(
            "footer",
            el(
                "p",
                f"Made by {GENERATOR}. Secrets were replaced before anything was written; "
                "this page loads nothing and sends nothing.",
            ),
        ),
        raw("script", _own("page.js")),
    )
    return "<!doctype html>\n" + html(el("html", _meta(title), body, lang="en")) + "\n"


def _own(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _meta(title: str) -> Node:
    policy = (
        f"default-src 'none'; style-src '{_hash('page.css')}'; script-src '{_hash('page.js')}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="referrer", content="no-referrer"),
        el("meta", name="generator", content=GENERATOR),
        el("title", title),
        raw("style", _own("page.css")),
    )


def _hash(name: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(_own(name).encode()).digest()).decode()


def _bar(sections: list[Node]) -> Node:
    links = [el("li", el("a", next(iter(s.find("h2").itertext())), href=f"#{s.get('id')}")) for s in sections]  # type: ignore[union-attr]
    search = el(
        "div",
        el("label", "Search", for_="search", class_="hidden"),
        el(
            "input",
            type="search",
            id="search",
            placeholder="Search readings and values ( / )",
            autocomplete="off",
            spellcheck="false",
        ),
        el("output", id="found", for_="search", aria_live="polite"),
        role="search",
        class_="search",
        hidden=True,
    )
    theme = el("button", "Theme", type="button", id="theme", hidden=True, title="Light, dark, or as the system has it")
    return el("header", el("nav", el("ul", *links), aria_label="Sections"), search, theme, class_="top")


def _head(content: Content) -> Node:
    """What it comes to, in a sentence, and what it is about."""
    found = content.explanation
    return el(
        "div",
        el("h1", explain_report.headline(found) if found else content.names[0]),
        el("dl", *(_side(content, *lettered) for lettered in content.lettered()), class_="sides"),
        el("p", f"{diff_report.headline(content.diff)}.", class_="dim") if content.diff else None,
        bullets(found.notes if found else (), "warn"),
        class_="headline",
    )


def _side(content: Content, letter: str, name: str, side: Side) -> Node:
    found = content.explanation
    told = found is not None and found.comparison is not None and found.symptom.outcome is not Outcome.SAME
    role = "slow" if letter == content.slow else "fast"
    snapshot = side.snapshot
    taken = f"{snapshot.captured_at[:19].replace('T', ' ')} UTC"
    return el(
        "div",
        el("dt", mark(letter), " ", el("b", name), el("span", role, class_="role") if told else None)
        if found
        else None,
        el("dd", taken, el("span", snapshot.note, class_="note") if snapshot.note else None),
    )
