"""Prometheus pages: a real one, and those that are not understood."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.runs.prometheus import MAX_LINE, growth, parse

PAGE = (Path(__file__).parents[1] / "data" / "sglang_0.5.16_metrics.txt").read_text()
NOTHING = parse("")


def test_a_real_page() -> None:
    page = parse(PAGE)
    assert growth(NOTHING, page, "sglang:generation_tokens_total") == 136
    assert growth(NOTHING, page, "sglang:cuda_graph_passes_total", mode="decode_none") == 89
    assert growth(NOTHING, page, "sglang:cuda_graph_passes_total", mode=("decode_none", "prefill_none")) == 99
    assert growth(NOTHING, page, "sglang:cuda_graph_passes_total", mode="decode_cuda_graph") is None
    assert growth(NOTHING, page, "sglang:fwd_occupancy") is None  # NaN
    assert growth(page, page, "sglang:generation_tokens_total") == 0


def test_a_counter_that_began_anew_grew_by_what_it_shows() -> None:
    before, after = parse('c{rank="0"} 100\nc{rank="1"} 5'), parse('c{rank="0"} 7\nc{rank="1"} 6')
    assert growth(before, after, "c") == 7 + 1


def test_escapes_timestamps_and_exemplars() -> None:
    page = parse('a{b="x\\"y\\\\n\\n",c="{,}"} 1e3 1700000000\nb +Inf\nc 2 # {trace="1"} 0.5\n# EOF\n')
    assert page.samples["a"] == {frozenset({("b", 'x"y\\n\n'), ("c", "{,}")}): 1000.0}
    assert page.samples["c"] == {frozenset(): 2.0}


@pytest.mark.parametrize(
    "line",
    ["<html>", "a", "a b", "a{b} 1", 'a{b="c} 1', "a  1", "a 1_000", "1a 1", 'a{b="c"}1', "a 1 2 3", "a\x00 1",
     "a" * (MAX_LINE + 1) + " 1"],
)  # fmt: skip
def test_a_page_that_is_not_wholly_understood_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="line 2 "):
        parse(f"good 1\n{line}\n")


def test_a_series_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        parse('a{b="1",c="2"} 1\na{c="2",b="1"} 2')


@given(st.text(alphabet='ab{}="\\,.# \n0123456789eE+-_:', max_size=200))
def test_nothing_else_is_raised(text: str) -> None:
    try:
        page = parse(text)
    except ValueError:
        return
    assert all(isinstance(v, float) for series in page.samples.values() for v in series.values())
