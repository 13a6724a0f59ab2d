"""Where figures come from: what this run wrote, and nothing that lay there before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envsnap.runs.metrics import Better, NoMetrics
from envsnap.runs.sources import Pattern, Wanted, mark, pattern_of, read
from tests.runs.test_readers import SERVING


def _line(throughput: float) -> str:
    return json.dumps({**SERVING, "output_throughput": throughput}) + "\n"


def test_only_what_this_run_appended(tmp_path: Path) -> None:
    file = tmp_path / "result.jsonl"
    file.write_text(_line(10.0))
    wanted = Wanted(files=(str(file),))
    before = mark(wanted, ())
    with file.open("a") as f:
        f.write(_line(20.0))
    assert read(wanted, (), before, None).metrics[0].value == 20.0


def test_a_file_of_an_earlier_run_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "result.jsonl"
    file.write_text(_line(10.0))
    wanted = Wanted(files=(str(file),))
    with pytest.raises(NoMetrics, match="earlier run"):
        read(wanted, (), mark(wanted, ()), None)


def test_the_option_that_names_the_file_is_known(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    argv = ("python", "-m", "sglang.bench_serving", "--output-file", str(file))
    before = mark(Wanted(), argv)
    with pytest.raises(NoMetrics, match="did not write"):
        read(Wanted(), argv, before, None)
    file.write_text(_line(30.0))
    assert read(Wanted(), argv, before, None).metrics[0].value == 30.0
    assert read(Wanted(), ("bench", f"--output-file={file}"), before, None).metrics[0].value == 30.0


def test_nothing_asked_for_is_no_metric_and_no_failure() -> None:
    assert read(Wanted(), ("true",), mark(Wanted(), ("true",)), None).metrics == ()


def test_patterns_in_output_and_json(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("speed: 3.5 tok/s\nspeed: 4.5 tok/s\n")
    wanted = Wanted(patterns=(pattern_of(r"speed[tok/s]=speed: ([\d.]+)"),))
    assert wanted.needs_output
    (metric,) = read(wanted, (), mark(wanted, ()), out).metrics
    assert (metric.name, metric.value, metric.unit, metric.better) == ("speed", 4.5, "tok/s", Better.HIGHER)
    out.write_text('log line\n{"a": {"b": [1, {"c": 7}]}}\n')
    wanted = Wanted(patterns=(pattern_of("latency[ms,lower]=json:a.b.1.c"),))
    (metric,) = read(wanted, (), mark(wanted, ()), out).metrics
    assert (metric.value, metric.better) == (7.0, Better.LOWER)


@pytest.mark.parametrize("text", ["speed: nan", "speed: 0", "nothing"])
def test_a_pattern_without_a_positive_figure(tmp_path: Path, text: str) -> None:
    out = tmp_path / "out"
    out.write_text(text)
    wanted = Wanted(patterns=(Pattern("speed", r"speed: (\S+)"),))
    with pytest.raises(NoMetrics):
        read(wanted, (), mark(wanted, ()), out)


@pytest.mark.parametrize("text", ["x", "=a", "x=", "x=(", "x=nogroup", "x[ms,sideways]=(a)", "1x=(a)"])
def test_patterns_that_are_none_are_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"\.$|NAME"):
        pattern_of(text)


def test_a_fifo_or_directory_is_no_result(tmp_path: Path) -> None:
    wanted = Wanted(files=(str(tmp_path),))
    before = mark(Wanted(files=("/nonexistent",)), ())
    with pytest.raises(NoMetrics, match="not a regular file"):
        read(wanted, (), before, None)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "µs", "ns", "seconds", "milliseconds", "ms/token"])
def test_of_what_has_a_unit_of_time_less_is_better(unit: str) -> None:
    assert pattern_of(f"latency[{unit}]=took (.*)").better is Better.LOWER
    assert pattern_of(f"latency[{unit},higher]=took (.*)").better is Better.HIGHER
    for text in (f"latency[{unit}]=took (.*)", f"latency[{unit},higher]=took (.*)", f"latency[{unit},neither]=a(.)"):
        assert str(pattern_of(text)) == text


@pytest.mark.parametrize("unit", ["tok/s", "requests/s", "GB/s", "1/s", "tokens", "MHz"])
def test_of_what_has_another_unit_more_is_better(unit: str) -> None:
    assert pattern_of(f"speed[{unit}]=(.*)").better is Better.HIGHER
