"""`envsnap report`: what it takes, what it writes, and what it refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from envsnap import cli
from envsnap.runs.run import packed
from envsnap.snapshot import write
from envsnap.store import Store
from tests.explain.pairs import run, snapshot
from tests.report.made import samples, timed

EXAMPLES = Path(__file__).parents[2] / "examples" / "eagle3"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with two labels of two sampled runs each, as the working directory."""
    monkeypatch.chdir(tmp_path)
    for number, label in enumerate(("fast", "slow")):
        for index in range(2):
            values = {"env[NCCL_PROTO]": ("LL", "Simple")[number]}
            at = f"2026-01-0{number + 1}T00:00:0{index}+00:00"
            columns = samples(30, 1, ["scheduler_TP0"], seed=index)
            made = timed(
                run(values, f"g{number}", index, at, stream_tokens_per_second=90.0 - 20 * number + index), columns
            )
            Store().save(replace(made, label=label), columns)
    write(snapshot({"env[NCCL_PROTO]": "LL"}), tmp_path / "a.json")
    write(snapshot({"env[NCCL_PROTO]": "Simple"}), tmp_path / "b.json")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = cli.main(["report", *arguments])
    return code, *capsys.readouterr()


def timelines(page: str) -> bool:
    return 'id="timelines"' in page


def test_two_labels_of_the_store_with_their_samples(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, out, err = said(capsys, "fast", "slow")
    assert (code, out) == (0, "report.html\n")
    assert err.rstrip().endswith("MB, needs no network")
    page = (folder / "report.html").read_text()
    assert timelines(page)
    assert "scheduler_TP0" in page


def test_what_is_written_is_told_as_json(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    document = json.loads(said(capsys, "slow", "-o", "x.html", "--format", "json")[1])
    assert (document["file"], document["sides"], document["headline"]) == ("x.html", ["slow"], None)
    assert document["sampled_runs"] == ["g1-0", "g1-1"]
    assert document["bytes"] == (folder / "x.html").stat().st_size


def test_a_file_and_a_folder_of_runs_find_the_samples_beside_them(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    held = folder / "held"
    held.mkdir()
    for i in range(2):  # under other names than the store gave them
        for end in (".json.gz", ".samples.json.gz"):
            shutil.copy(folder / ".envsnap" / "runs" / f"g0-{i}{end}", held / f"{i}{end}")
    for name, runs in (("held", ["g0-0", "g0-1"]), ("held/1.json.gz", ["g0-1"])):
        document = json.loads(said(capsys, name, "--format", "json")[1])
        assert document["sampled_runs"] == runs


def test_samples_that_are_damaged_cost_the_timelines_alone(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    for broken in (packed({"times": [1], "columns": {"x": []}}), b"no gzip", packed([])):
        (folder / ".envsnap" / "runs" / "g0-0.samples.json.gz").write_bytes(broken)
        code, out, err = said(capsys, "g0-0", "-o", "-")
        assert code == 0
        assert "Its timelines are left out." in err
        assert not timelines(out)


def test_snapshots(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "a.json", "b.json", "-o", "-")
    assert code == 0
    assert "variable NCCL_PROTO" in out
    code, out, _ = said(capsys, "a.json", "-o", "-")
    assert code == 0
    assert 'id="readings"' in out


def test_a_control_pair(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "fast", "slow", "--control", "fast", "slow", "-o", "-")[1]
    assert "Control pair" in out


def test_real_runs_of_two_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, str(EXAMPLES / "with-graphs"), str(EXAMPLES / "without-graphs"), "-o", "-")
    assert code == 0
    assert "Likeliest cause: CUDA graphs of the server" in out
    assert "there are no timelines" in out
    assert len(out.encode()) < 1_000_000


def test_a_page_is_written_anew_and_a_foreign_file_is_left_alone(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    page = folder / "report.html"
    assert said(capsys, "a.json")[0] == 0
    assert said(capsys, "a.json", "b.json")[0] == 0
    page.write_text("<html>a page of another tool</html>")
    code, _, err = said(capsys, "a.json")
    assert code == 2
    assert "no page of envsnap" in err
    assert page.read_text() == "<html>a page of another tool</html>"
    assert said(capsys, "a.json", "-o", "report.html")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one side or two, not 0"),
        (["a.json", "b.json", "a.json"], "one side or two, not 3"),
        (["-", "-"], "Only one of the sides"),
        (["a.json", "--control", "fast", "slow"], "A control pair goes with two sides"),
        (["a.json", "-o", "nowhere/x.html"], "there is no directory nowhere"),
        (["a.json", "-o", "."], "it is not a regular file"),
        (["a.json", "-o", "-", "--format", "json"], "would both write to standard output"),
        (["gone"], "no file and no run named 'gone'"),
    ],
)
def test_what_cannot_be_done_is_said(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: Sequence[str], message: str
) -> None:
    code, out, err = said(capsys, *arguments)
    assert code == 2
    assert message in (out if "json" in arguments else err)
    assert not list(folder.glob("*.html"))
