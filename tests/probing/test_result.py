from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envsnap.jsonfile import SnapshotError
from envsnap.keys import is_path
from envsnap.probe.declared import PROBES, figures_of, quantity_of
from envsnap.probe.judge import compare
from envsnap.probe.result import Figure, ProbeResult, from_json, load
from envsnap.report import probe as report
from envsnap.report.lines import paint
from envsnap.schema import violations

RESULT = ProbeResult(
    "2026-01-01T00:00:00.000+00:00",
    12.5,
    (0, 1),
    (
        Figure("cpu.single_thread_milliseconds", (100.0, 103.0, 101.0), "CPython 3.11"),
        Figure("all_reduce[16KiB].microseconds", (21.0, 20.0, 22.0), "bfloat16 through NCCL, GPUs 0, 1"),
        Figure("gpu[0].matmul_tflops", unavailable="torch is not installed for this Python"),
        Figure("gpu[0].launch_microseconds", unavailable="torch is not installed for this Python"),
    ),
    ("The load average was 3.0 on 2 CPUs: others were at work.",),
    "2.11.0",
    "0.1.0",
)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_law_a_probe_is_well_declared(probe: Any) -> None:
    assert probe.needs in (0, 1, 2)
    for quantity in probe.quantities:
        assert quantity.meaning.endswith(".")
        assert 0 < quantity.session_difference <= 0.5
        assert quantity.pattern.count("[]") == (probe.needs > 0)
    for name in figures_of(probe, 3):
        assert is_path(name)
        assert quantity_of(name) in probe.quantities


def test_a_figure_is_the_median_with_its_spread() -> None:
    figure = Figure("cpu.single_thread_milliseconds", (100.0, 110.0, 90.0, 101.0, 99.0))
    assert (figure.median, figure.spread_percent) == (100.0, 20.0)
    assert (Figure("x", unavailable="no").median, Figure("x", unavailable="no").spread_percent) == (None, None)


def test_what_is_stored_is_read_again(tmp_path: Path) -> None:
    document = report.as_json(RESULT)
    assert violations(document) == []
    (tmp_path / "r.json").write_text(json.dumps(document))
    assert load(tmp_path / "r.json") == RESULT


def test_a_comparison_is_of_the_schema_too_and_names_the_next_command() -> None:
    slower = Figure("cpu.single_thread_milliseconds", (200.0, 201.0, 199.0), "CPython 3.11")
    now = ProbeResult(RESULT.started_at, 1.0, (), (slower,))
    document = report.as_json(now, compare(now, [RESULT]), ["good.json"])
    assert violations(document) == []
    assert [c["standing"] for c in document["compared"]] == ["worse", "missing"]
    assert document["next"] == [["envsnap", "probe", "--baseline", "good.json", "--only", "cpu"]]


def test_a_figure_of_a_later_version_is_left_out() -> None:
    document = report.as_json(RESULT)
    document["figures"].append({**document["figures"][0], "name": "fan.speed_rpm"})
    assert from_json(document, "x") == RESULT


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "envsnap.check"}, "x is no result of envsnap probe."),
        ({"version": 2}, "x has version 2 of envsnap.probe; this envsnap reads 1."),
        ({"figures": None}, "malformed"),
        ({"gpus": ["a"]}, "malformed"),
        ({"figures": [{**report.as_json(RESULT)["figures"][0], "values": [0.0]}]}, "is not positive"),
        ({"figures": [{**report.as_json(RESULT)["figures"][0], "values": []}]}, "neither values nor a reason"),
    ],
)
def test_a_malformed_result_is_refused_in_one_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SnapshotError, match=sentence):
        from_json({**report.as_json(RESULT), **change}, "x")


def test_the_text_names_every_figure_once() -> None:
    assert paint(report.text(RESULT, ()), colour=False).splitlines() == [
        "! The load average was 3.0 on 2 CPUs: others were at work.",
        "cpu.single_thread_milliseconds  101 ms  spread 3.0 %, n = 3",
        "all_reduce[16KiB].microseconds  21 µs  spread 9.5 %, n = 3",
        "not measured  gpu[0].matmul_tflops, gpu[0].launch_microseconds  torch is not installed for this Python",
        "2 figures in 12.5 s, 2 could not be measured",
    ]


def test_the_text_of_a_comparison() -> None:
    figures = (
        Figure("cpu.single_thread_milliseconds", (200.0, 201.0, 199.0), "CPython 3.11"),
        Figure("all_reduce[16KiB].microseconds", unavailable="GPU 1: it took too long and was ended"),
    )
    now = ProbeResult(RESULT.started_at, 3.0, (0, 1), figures)
    lines = paint(report.text(now, compare(now, [RESULT])), colour=False).splitlines()
    assert lines[0].startswith("WORSE    cpu.single_thread_milliseconds  101.3 → 200 ms  ×1.974  95 % ")
    assert lines[-1] == "worse: 1 worse, 1 missing, in 3.0 s"
    assert "MISSING  all_reduce[16KiB].microseconds  GPU 1: it took too long and was ended" in lines
