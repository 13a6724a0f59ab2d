"""The incident's full output, and what it has to say. ENVSNAP_UPDATE_GOLDEN=1 writes the texts anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envsnap.explain import NOT_REPRODUCIBLE, OUTSIDE, Explanation, explain
from envsnap.report import explain as report
from envsnap.report.lines import paint
from tests.cases.incident.sides import Incident
from tests.collectors.git_repo import isolate

HERE = Path(__file__).parent


@pytest.fixture
def incident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Incident:
    isolate(tmp_path, monkeypatch)
    return Incident(tmp_path, monkeypatch)


def explained(incident: Incident, recorded: bool) -> Explanation:
    then, now = incident.sides(recorded)
    return explain(then, now, control=incident.sides(recorded, speculative=False))


def golden(found: Explanation, name: str) -> None:
    text = paint(report.text(found, ("then", "now"), 120), False)
    file = HERE / name
    if os.environ.get("ENVSNAP_UPDATE_GOLDEN") == "1":
        file.write_text(text)
    assert text == file.read_text()


def reasons(found: Explanation) -> dict[str, str]:
    return {r.title: r.reason for r in found.ruled_out}


def test_with_the_variables_that_the_fast_workers_had(incident: Incident) -> None:
    found = explained(incident, recorded=True)
    golden(found, "with_variables.txt")
    first = found.suspects[0]
    assert first.probability > max(0.4, 1.5 * found.suspects[1].probability)
    assert report.headline(found).startswith("Likeliest cause: NCCL variables that the workers no longer have")
    assert {c.path.rsplit("[", 1)[1] for c in first.changes} == {
        "NCCL_MIN_NCHANNELS]", "NCCL_P2P_LEVEL]", "NCCL_PROTO]",
    }  # fmt: skip
    assert first.next[0][:2] == ("envsnap", "prove")


def test_it_is_the_step_and_not_acceptance(incident: Incident) -> None:
    symptom = explained(incident, recorded=True).symptom
    assert (symptom.moved("verify"), symptom.moved("accept_length")) == (True, False)
    assert symptom.figures["accept_length"] == pytest.approx((1.786, 1.74))
    assert symptom.control is not None
    assert symptom.control.slowdown == pytest.approx(0.0759, abs=1e-3)


def test_what_an_investigator_may_stop_wondering_about(incident: Incident) -> None:
    said = reasons(explained(incident, recorded=True))
    assert said["NVIDIA driver"] == "the same: 590.48.01"
    assert said["PCIe links"].startswith("the same under load: 32.0 GT/s × 16 lanes")
    assert said["P-states"].startswith("the same under load: P0")
    assert said["NCCL"].startswith("the same: 2.27.5")
    by_name = {title.split("(")[-1].rstrip(")"): reason for title, reason in said.items() if "commit " in title}
    assert "enable_piecewise_cuda_graph" in by_name["Fix PCG MoE Error"]
    assert "is_mamba" in by_name["Mamba: keep states over extend batches"]
    [topk] = [reason for title, reason in said.items() if "topk.py" in title]
    assert "SGLANG_OPPORTUNISTIC_EXPERTS" in topk
    [unused] = [reason for title, reason in said.items() if "flashinfer_mla" in title or "engine.py" in title]
    assert unused == "no worker imported it"


def test_without_any_record_of_the_fast_side(incident: Incident) -> None:
    found = explained(incident, recorded=False)
    golden(found, "unrecorded.txt")
    assert found.unrecorded
    assert {s.id for s in found.suspects[:2]} == {OUTSIDE, NOT_REPRODUCIBLE}
    assert "not trustworthy" in report.headline(found)
    assert any(s.next and s.next[0][:2] == ("envsnap", "run") for s in found.suspects)
    assert "NVIDIA driver" not in reasons(found)


def test_nothing_is_known_by_the_incidents_names(incident: Incident) -> None:
    """The same pair with other names for everything that could be recognised, and no control pair."""
    then, now = incident.sides(recorded=True)
    found = explain(then, now)
    assert found.suspects[0].id == explained(incident, recorded=True).suspects[0].id
