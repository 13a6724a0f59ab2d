"""Probes as requirements of a check."""

from __future__ import annotations

from pathlib import Path

from envsnap.check.finding import Status
from envsnap.check.probes import judged
from envsnap.cli import main
from envsnap.probe.result import Figure, ProbeResult

BANDWIDTH = "gpu[0].host_to_device_gb_per_second"


def result(**figures: tuple[float, ...]) -> ProbeResult:
    names = {"link": BANDWIDTH, "cpu": "cpu.single_thread_milliseconds"}
    made = tuple(Figure(names[n], values, "measured") for n, values in figures.items())
    return ProbeResult("2026-01-01T00:00:00+00:00", 1.0, (0,), made)


def test_a_slow_link_fails_and_a_gap_between_sessions_does_not() -> None:
    good = result(link=(55.3, 55.2, 55.4, 55.3, 55.3), cpu=(100.0, 101.0, 99.0))
    slow = result(link=(12.1, 12.2, 12.1, 12.1, 12.2), cpu=(104.0, 105.0, 103.0))
    found = {f.evidence[0]: f for f in judged(slow, [good])}
    assert found[BANDWIDTH].status is Status.FAIL
    assert "worse" in found[BANDWIDTH].title
    assert found["cpu.single_thread_milliseconds"].status is Status.PASS


def test_a_figure_that_could_not_be_measured_is_unknown_and_a_new_one_no_requirement() -> None:
    found = {f.evidence[0]: f for f in judged(result(cpu=(100.0,)), [result(link=(55.0, 55.1, 55.0))])}
    assert found[BANDWIDTH].status is Status.UNKNOWN
    assert set(found) == {BANDWIDTH}


def test_a_gap_that_could_be_one_between_sessions_is_no_pass_and_not_required() -> None:
    (found,) = judged(result(link=(50.5, 50.6, 50.5)), [result(link=(55.3, 55.2, 55.4))])
    assert found.status is Status.UNKNOWN
    assert not found.required


def test_a_file_that_is_no_probe_is_one_sentence(tmp_path: Path, capsys: object) -> None:
    file = tmp_path / "probe.json"
    file.write_text("{}")
    snapshot = Path(__file__).parents[1] / "machines" / "h200x2" / "snapshot.json"
    assert main(["check", str(snapshot), "--probe", str(file)]) == 2
