"""The page as a document: what stands in it, and that nothing foreign can act. The browser's tests are beside."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from envsnap.explain import Side
from envsnap.reading import Json
from envsnap.report import diff as diff_report
from envsnap.report import explain as explain_report
from envsnap.report.page import Content, render
from envsnap.report.page.traces import RUNS, Trace, traces
from envsnap.report.page.tree import el, html
from envsnap.runs.run import Run
from tests.explain.pairs import run, side
from tests.report.made import hostile_pair, pair, sampled, samples

FAST = {
    "worker[scheduler_TP0].env[NCCL_PROTO]": "LL",
    "worker[scheduler_TP1].env[NCCL_PROTO]": "LL",
    "worker[scheduler_TP0].env[NCCL_ALGO]": "Ring",
    "worker[scheduler_TP1].env[NCCL_ALGO]": "Ring",
    "gpu[0].name": "NVIDIA H200",
    "gpu[1].name": "NVIDIA H200",
    "package[torch].version": "2.11.0",
    "during.gpu[0].sm_clock_median_mhz": 1980.0,
    "during.gpu[0].sm_clock_p5_mhz": 1975.0,
    "during.gpu[0].sm_clock_p95_mhz": 1985.0,
}
SLOW = {p: v for p, v in FAST.items() if not p.endswith("TP1].env[NCCL_PROTO]")} | {
    "package[torch].version": "2.12.0",
    "during.gpu[0].sm_clock_median_mhz": 1200.0,
}


class Outline(HTMLParser):
    """Tags with their attributes, and texts, of a page; the text of scripts and styles apart."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.own: dict[str, list[str]] = {"script": [], "style": []}
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        self.own.get(self._open, self.texts).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def made() -> Content:
    fast = side(FAST, 3, "g", "fast", stream_tokens_per_second=90.0, accept_length=2.5, step_seconds=0.02)
    slow = side(SLOW, 3, "h", "slow", stream_tokens_per_second=60.0, accept_length=2.5, step_seconds=0.03)
    return sampled([fast, slow], 120, 2, ["scheduler_TP0", "scheduler_TP1"])


@pytest.fixture(scope="module")
def content() -> Content:
    return made()


@pytest.fixture(scope="module")
def outline(content: Content) -> Outline:
    return Outline(render(content))


@pytest.fixture(scope="module")
def harm() -> str:
    return render(hostile_pair())


def test_the_policy_allows_the_page_its_own_parts_and_nothing_else(outline: Outline) -> None:
    [policy] = [a["content"] for t, a in outline.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    for part, directive in (("script", "script-src"), ("style", "style-src")):
        [text] = outline.own[part]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_nothing_in_it_needs_the_policy_to_be_lax_or_a_network(outline: Outline) -> None:
    for tag, attributes in outline.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on") or name == "src"], tag
        assert (attributes.get("href") or "#").startswith("#"), tag
    assert {t for t, _ in outline.tags} & {"link", "img", "iframe", "object", "form", "base"} == set()


def test_what_it_says_is_what_the_text_reports_say(content: Content, outline: Outline) -> None:
    found, changed = content.explanation, content.diff
    assert found is not None
    assert changed is not None
    assert explain_report.headline(found) in outline.text
    assert diff_report.headline(changed) in outline.text
    for suspect in found.suspects:
        assert suspect.title in outline.text
        for piece in (*suspect.evidence_for, *suspect.evidence_against):
            assert piece.text in outline.text
    for ruled in found.ruled_out:
        assert ruled.reason in outline.text


def test_everything_that_is_equal_is_there(content: Content, outline: Outline) -> None:
    assert content.diff is not None
    assert {"worker[scheduler_TP0].env[NCCL_ALGO]", "gpu[0].name", "gpu[1].name"} <= set(content.diff.same)
    assert "gpu[0-1].name NVIDIA H200" in outline.text
    assert "worker[scheduler_TP0-1].env[NCCL_ALGO] Ring" in outline.text


def test_a_variable_that_one_rank_lost_stands_beside_its_sibling(outline: Outline) -> None:
    assert re.search(r"NCCL_PROTO .*differs between siblings", outline.text)


def test_sections_come_in_order_and_headings_do_not_skip(outline: Outline) -> None:
    ids = [a["id"] for t, a in outline.tags if t == "section"]
    assert ids == ["speed", "suspects", "load", "timelines", "environment", "changes", "unknown", "equal", "runs"]
    levels = [int(t[1]) for t, _ in outline.tags if re.fullmatch(r"h[1-6]", t)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_pictures_are_told_in_words_and_tables_have_scopes(outline: Outline) -> None:
    pictures = [a for t, a in outline.tags if t == "svg" and "viewbox" not in a]
    assert pictures
    assert all(a.get("aria-hidden") == "true" or a.get("role") == "img" for a in pictures)
    assert "SM clock, GPU 1: A 345 to 1980" in " ".join(a.get("aria-label") or "" for a in pictures)
    assert all("scope" in a for t, a in outline.tags if t == "th")


def test_hostile_names_are_text(harm: str) -> None:
    outline = Outline(harm)
    assert len(outline.own["script"]) == len(outline.own["style"]) == 1
    assert {t for t, _ in outline.tags} & {"img", "b"} <= {"b"}
    assert not [a for _, a in outline.tags if any(name.startswith("on") for name in a)]
    assert "<script>window.harmed=1</script>" in outline.text
    assert "</style></script></td></table><h1>harm" in outline.text
    assert [t for t, _ in outline.tags].count("h1") == 1


def test_controls_and_marks_of_direction_stand_escaped(harm: str) -> None:
    body = harm.replace("\n", "")
    assert [hex(ord(c)) for c in set(body) if not c.isprintable()] == []
    assert "\\u202egnp.elif" in body
    assert "\\x1b]0;title" in body


def test_one_side_shows_what_was_measured_and_read() -> None:
    one = side(SLOW, 2, "h", "slow", stream_tokens_per_second=60.0)
    outline = Outline(render(Content((one,), ("slow",))))
    ids = [a["id"] for t, a in outline.tags if t == "section"]
    assert ids == ["speed", "load", "environment", "readings", "runs"]
    assert "No samples over time stand beside these runs" in outline.text
    assert "package[torch].version 2.12.0" in outline.text
    assert "60 tok/s" in outline.text


def test_two_snapshots_have_suspects_and_no_speed() -> None:
    outline = Outline(render(pair(side(FAST, label="a"), side(SLOW, label="b"))))
    ids = [a["id"] for t, a in outline.tags if t == "section"]
    assert "speed" not in ids
    assert "timelines" not in ids
    assert "suspects" in ids
    assert "No speed is known of both sides" in outline.text


def test_hostile_samples_draw_nothing_that_is_no_number() -> None:
    content = made()
    [columns, *_] = content.samples.values()
    length = len(columns.times)
    columns.columns["gpu[0].power_watts"] = [1e308, -1e308, True, "x", None, *[float(i) for i in range(length - 5)]]
    page = render(content)
    assert not re.search(r'\bd="[^"]*(?:nan|inf|e\+)', page)
    assert "1e+308" not in page


def test_an_element_of_style_or_script_is_never_made_of_foreign_text() -> None:
    with pytest.raises(ValueError, match="raw"):
        el("script", "alert(1)")
    assert html(el("td", "<b>", el("br"), "&", title='">')) == '<td title="&quot;&gt;">&lt;b&gt;<br>&amp;</td>'


def test_the_page_is_the_same_each_time(content: Content) -> None:
    assert render(content) == render(content)


_COLOURS = ("text", "dim", "a", "b", "good", "bad", "warn", "link")


@pytest.mark.parametrize("ground", ["bg", "panel"])
@pytest.mark.parametrize("colour", _COLOURS)
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_colour_of_text_can_be_read_on_every_ground(theme: int, colour: str, ground: str) -> None:
    style = (Path(render.__code__.co_filename).parent / "page.css").read_text()
    blocks = [b for b in re.findall(r":root[^{]*\{([^}]*)\}", style) if "--bg" in b]
    named = dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6});", blocks[theme]))
    light, dark = sorted((_luminance(named[colour]), _luminance(named[ground])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_dark_theme_is_the_same_chosen_or_by_the_system() -> None:
    style = (Path(render.__code__.co_filename).parent / "page.css").read_text()
    blocks = [" ".join(b.split()) for b in re.findall(r":root[^{]*\{([^}]*)\}", style) if "--bg" in b]
    assert len(blocks) == 3
    assert blocks[1] == blocks[2]


def test_runs_that_failed_are_drawn_last_and_no_more_than_a_few() -> None:
    content = made()
    runs: list[Run] = [replace(r, status="failed") if i == 0 else r for i, r in enumerate(content.sides[0].runs)]
    runs.append(replace(runs[1], id="fourth"))
    found = traces(
        Content((Side.of_runs(runs, "x"),), ("x",), {**content.samples, "fourth": content.samples[runs[1].id]})
    )
    assert [t.run.status for t in found] == ["ok"] * RUNS


def test_a_window_that_ends_before_it_begins_is_none() -> None:
    broken = replace(run({}, "g", speed=1.0), window=(9.0, 3.0))
    trace = Trace("a", broken, samples(20, 1, []))
    assert trace.window is None
    assert trace.times[0] == pytest.approx(0.01)


def test_gpus_of_both_sides_are_paired_as_the_diff_pairs_them() -> None:
    def state(held: int) -> dict[str, Json]:
        counts = {f"gpu[{g}].compute_process_count": int(g == held) for g in range(2)}
        return {
            **{f"gpu[{g}].name": f"H{g == held}" for g in range(2)},
            **counts,
            **{f"during.gpu[{held}].power_{part}_watts": 600.0 + held for part in ("median", "p5", "p95")},
        }

    sides = [side(state(held), 1, "gh"[held], "xy"[held], stream_tokens_per_second=90.0) for held in (0, 1)]
    content = sampled(sides, 60, 2, [])
    columns = content.samples[content.sides[1].runs[0].id].columns
    columns["gpu[1].power_watts"] = [777.0] * len(columns["gpu[1].power_watts"])
    outline = Outline(render(content))
    assert "GPUs are paired by the order of those in use" in outline.text
    assert "Power draw GPU 0 600 W 601 W" in outline.text
    labels = " ".join(a.get("aria-label") or "" for t, a in outline.tags if t == "svg")
    assert re.search(r"Power draw, GPU 0: A [0-9.]+ to [0-9.]+; B 777 to 777", labels)
    assert "gpu[0].name HTrue" in outline.text
