"""explain, blame and log --changed, as a user meets them; and what they print."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envsnap import cli
from envsnap.explain import Explanation, explain
from envsnap.explain.blame import blame
from envsnap.report import explain as report
from envsnap.report.lines import paint
from envsnap.report.runs import gap_text
from envsnap.runs.compare import compare
from envsnap.runs.run import Run, packed
from envsnap.schema import violations
from envsnap.store import Store
from tests.explain.pairs import run, side
from tests.explain.test_explain import FAST, SLOW, pair

DAYS = [("g1", "fast", FAST, 94.0), ("g2", "fast", FAST, 93.0), ("g3", "slow", SLOW, 60.0)]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Three sessions of two runs, and those without speculation."""
    monkeypatch.chdir(tmp_path)
    store = Store(tmp_path)
    for day, (group, label, values, speed) in enumerate(DAYS, 1):
        for i in range(2):
            made = run(values, group, i, at=f"2026-01-0{day}T00:00:0{i}+00:00", stream_tokens_per_second=speed + i)
            store.save(replace(made, label=label))
    for group, values, speed in (("p1", FAST, 89.0), ("p2", SLOW, 82.0)):
        made = run(values, group, at="2025-01-01T00:00:00+00:00", command=("plain",), stream_tokens_per_second=speed)
        store.save(replace(made, label=group))
    return store


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.main(list(arguments))
    return code, capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    _, out = printed(capsys, *arguments, "--format", "json")
    found: dict[str, Any] = json.loads(out)
    assert violations(found) == []
    return found


def test_two_labels(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, "explain", "fast", "slow")
    assert code == cli.EXIT_OK
    assert "fast: fast   slow: slow" in out
    assert "Likeliest cause: variable NCCL_PROTO" in out
    assert "worker[scheduler_TP0-7].env[NCCL_PROTO]  LL → Simple" in out
    assert "next: envsnap prove fast slow --only env:NCCL_PROTO -- bench" in out


def test_the_document_and_its_schema(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "explain", "slow", "fast", "--control", "p2", "p1")
    assert (found["a"], found["fast"]) == ("slow", "b")
    assert found["suspects"][0]["id"] == "env:NCCL_PROTO"
    assert found["next"][0][:2] == ["envsnap", "prove"]
    assert found["control"]["metrics"][0]["a"] == [82.0]
    assert sum(s["probability"] for s in found["suspects"]) == pytest.approx(1)


def test_all_runs_of_a_label(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "explain", "--fast", "fast", "--slow", "slow")
    assert len(found["runs"]["metrics"][0]["a"]) == 4


def test_history_is_the_other_runs(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with_it = document(capsys, "explain", "fast", "slow")
    without = document(capsys, "explain", "fast", "slow", "--no-history")
    assert "Over history" in json.dumps(with_it["suspects"])
    assert "Over history" not in json.dumps(without["suspects"])
    assert any("other session" in sentence for sentence in with_it["contamination"])


def test_files_of_runs_and_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, made in zip(("a", "b"), pair(1)):
        (tmp_path / f"{name}.json.gz").write_bytes(packed(made.runs[0].as_json()))
    code, out = printed(
        capsys, "explain", str(tmp_path / "a.json.gz"), str(tmp_path / "b.json.gz"), "--format", "markdown"
    )
    assert code == cli.EXIT_OK
    assert "| `worker[scheduler_TP0-7].env[NCCL_PROTO]` | `LL` | `Simple` |" in out


def test_no_cause_is_an_answer_of_its_own(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, "explain", "g1", "g2")
    assert code == cli.EXIT_DIFFERENT
    assert "not reproducible" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "fast"), "takes two sides, not 1"),
        (("explain", "-", "-"), "Only one of the sides"),
        (("explain", "--fast", "fast"), "both --fast and --slow"),
        (("explain", "--fast", "fast", "--slow", "none"), "no run of the label 'none'"),
        (("explain", "fast", "none"), "no run named 'none'"),
        (("explain", "--fast", "fast", "--slow", "slwo"), "did you mean slow?"),
        (("blame", "kernel.relase"), "did you mean kernel.release?"),
        (("log", "--changed", "kernel.relase"), "did you mean kernel.release?"),
    ],
)
def test_trouble_is_one_sentence(
    store: Store, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert cli.main(list(arguments)) == cli.EXIT_TROUBLE
    assert words in capsys.readouterr().err


def test_blame_tells_when_and_how_the_metric_moved(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, "blame", "worker[*].env[NCCL_PROTO]")
    lines = [line.split() for line in out.splitlines()]
    assert code == cli.EXIT_OK
    assert lines[0] == ["worker[scheduler_TP0-7].env[NCCL_PROTO]", "stream_tokens_per_second"]
    assert [line[2:] for line in lines[1:]] == [
        ["LL", "89", "1", "run", "p1"],
        ["Simple", "82", "×0.921", "1", "run", "p2"],
        ["LL", "94", "×1.146", "4", "runs", "fast"],
        ["Simple", "60.5", "×0.644", "2", "runs", "slow"],
    ]
    assert document(capsys, "blame", "worker[].env[]")["metric"] == "stream_tokens_per_second"


def test_a_bare_name_is_looked_for_wherever_it_stands(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    _, out = printed(capsys, "blame", "NCCL_PROTO")
    assert out.splitlines()[0].split()[0] == "worker[scheduler_TP0-7].env[NCCL_PROTO]"
    _, told = printed(capsys, "log", "--changed", "kernel.release")
    assert told == "kernel.release never changed.\n"


def test_blame_of_what_never_changed(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, "blame", "kernel.release")
    assert (code, out) == (cli.EXIT_DIFFERENT, "never changed: 1 path (kernel.release)\n")


def test_log_of_the_runs_with_which_something_changed(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    _, out = printed(capsys, "log", "--changed", "worker", "--format", "json")
    runs = json.loads(out)["runs"]
    assert [r["group"] for r in runs] == ["g3", "g1", "p2"]  # p1 and p2 began at the same moment, p2 is the later one
    _, nothing = printed(capsys, "log", "--changed", "kernel.release", "--format", "json")
    assert json.loads(nothing)["runs"] == []


def test_spans_of_a_reading(store: Store) -> None:
    [found] = blame("package[rich].version", store.entries(), store.states(), "stream_tokens_per_second")
    assert [(s.value, len(s.runs), s.median) for s in found.spans] == [
        ('"13.0"', 1, 89.0), ('"14.0"', 1, 82.0), ('"13.0"', 4, 94.0), ('"14.0"', 2, 60.5),
    ]  # fmt: skip


def test_a_diff_of_runs_ends_with_the_first_suspects(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, "diff", "fast", "slow")
    assert code == cli.EXIT_DIFFERENT
    assert "variable NCCL_PROTO" in out.splitlines()[-3]
    assert "variable NCCL" in printed(capsys, "diff", "fast", "slow", "--format", "markdown")[1].splitlines()[-3]


# -- reports --------------------------------------------------------------------------------------------------------


def lines_of(found: Explanation, width: int = 100, everything: bool = False) -> list[str]:
    return paint(report.text(found, ("A", "B"), width, everything), False).splitlines()


def test_a_screen_is_enough_and_all_shows_the_rest() -> None:
    many = {f"worker[scheduler_TP0].env[NCCL_UNHEARD_OF_{i}]": str(i) for i in range(60)}
    other = {path: f"{value}0" for path, value in many.items()}
    found = explain(
        side({**FAST, **many}, 3, "a", step_seconds=0.01), side({**SLOW, **other}, 3, "b", step_seconds=0.02)
    )
    short, full = lines_of(found), lines_of(found, everything=True)
    assert len(short) < 70
    assert all(len(line) <= 100 for line in short if "next:" not in line)
    assert any("more (--all)" in line for line in short)
    assert len(full) > 150
    assert not any("more (--all)" in line for line in full)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_any_width(width: int) -> None:
    """Commands alone are never cut: they are there to be copied."""
    lines = lines_of(explain(*pair()), width)
    own = lines[next(i for i, line in enumerate(lines) if line.startswith("fast: A")) :]
    assert [line for line in own if len(line) > width and "next:" not in line] == []


def test_foreign_text_stays_text() -> None:
    nasty = "\x1b[31m<b>*x*</b>|`"
    found = explain(
        side({**FAST, "env[NCCL_X]": "a"}, 1, "a", step_seconds=0.01),
        side({**SLOW, "env[NCCL_X]": nasty, f"model[{json.dumps(nasty)}].path": "x"}, 1, "b", step_seconds=0.02),
    )
    for text in ("\n".join(lines_of(found, everything=True)), report.markdown(found, (nasty, "B"), True)):
        assert "\x1b" not in text


def test_the_headline_says_how_sure_it_is() -> None:
    found = explain(*pair())
    first = found.suspects[0]

    def headline(**fields: Any) -> str:
        return report.headline(replace(found, suspects=(replace(first, **fields), *found.suspects[1:])))

    assert headline(probability=0.8).startswith("Likeliest cause: variable NCCL_PROTO (80%)")
    assert headline(probability=0.2).startswith("No cause stands out")
    assert headline(ties_with=(found.suspects[1].id,)).startswith("Equal suspects")
    null = next(s for s in found.suspects if not s.changes)
    assert report.headline(replace(found, suspects=(replace(null, probability=0.9),))).startswith(
        "No change explains it"
    )


def test_a_diff_may_end_with_the_first_suspects() -> None:
    lines = paint(report.top(explain(*pair()), 100), False).splitlines()
    assert len(lines) == 4
    assert "variable NCCL_PROTO" in lines[1]


def measured(group: str, figures: dict[str, Any]) -> Run:
    return run(FAST, group, **figures)


@pytest.mark.parametrize(
    ("metric", "a", "b", "said"),
    [
        ("stream_tokens_per_second", 94.0, 60.0, "×1.567 slower"),
        ("stream_tokens_per_second", 60.0, 94.0, "×1.567 faster"),
        ("verify_seconds", 0.020, 0.030, "×1.500 slower"),
        ("verify_seconds", 0.030, 0.020, "×1.500 faster"),
        ("verify_seconds", 0.030, 0.030, "×1.000"),
        ("accept_length", 2.0, 1.0, "×0.500"),
    ],
)
def test_a_gap_reads_in_one_direction_whatever_the_metric_counts(metric: str, a: float, b: float, said: str) -> None:
    found = compare([measured("x", {metric: a})], [measured("y", {metric: b})])
    [judged] = [j for j in found.judged if j.metric.name == metric]
    assert gap_text(judged) == (said, "")


def test_an_interval_goes_with_the_direction_of_its_gap() -> None:
    def arm(name: str, speeds: list[float]) -> list[Run]:
        return [run(FAST, "g", i, arm=name, stream_tokens_per_second=s) for i, s in enumerate(speeds)]

    found = compare(arm("a", [100.0, 101.0, 99.0, 100.0]), arm("b", [50.0, 51.0, 49.0, 50.0]))
    verdict = found.judged[0].verdict
    assert verdict.low is not None
    assert verdict.high is not None
    factor, interval = gap_text(found.judged[0])
    assert factor == "×2.000 slower"
    assert interval == f"{1 / verdict.high:.3f} to {1 / verdict.low:.3f}"
    low, high = map(float, interval.split(" to "))
    assert low < 2 < high


def test_the_slowdown_is_told_once_in_words() -> None:
    fast, slow = side(FAST, stream_tokens_per_second=90.0), side(SLOW, group="s", stream_tokens_per_second=60.0)
    text = paint(report.text(explain(fast, slow), ("then", "now"), 120), False)
    assert text.count("what took 1 s takes") == 1
    assert "fast: then   slow: now   ×1.50: what took 1 s takes 1.50 s" in text
