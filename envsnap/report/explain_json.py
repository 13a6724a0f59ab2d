"""An explanation's JSON form."""

from __future__ import annotations

from collections.abc import Sequence

from envsnap.change import Change, NotCompared
from envsnap.explain.explanation import Evidence, Explanation, Suspect
from envsnap.explain.symptom import Symptom
from envsnap.reading import Json
from envsnap.report import runs
from envsnap.report.explain import headline
from envsnap.wording import reading_json


def as_json(explanation: Explanation, names: tuple[str, str]) -> dict[str, Json]:
    """Ids, paths and suspects' ids are stable; `next` holds commands as argument arrays."""
    return {
        "format": "envsnap.explain",
        "version": 1,
        "a": names[0],
        "b": names[1],
        "fast": explanation.fast,
        "headline": headline(explanation),
        "symptom": _symptom(explanation.symptom),
        "runs": runs.as_json(explanation.comparison) if explanation.comparison else None,
        "control": runs.as_json(explanation.control) if explanation.control else None,
        "suspects": [_suspect(suspect) for suspect in explanation.suspects],
        "ruled_out": [{"title": r.title, "reason": r.reason, "paths": list(r.paths)} for r in explanation.ruled_out],
        "mistakes": [
            {"title": m.title, "advice": m.advice, "paths": list(m.paths), "story": m.story}
            for m in explanation.mistakes
        ],
        "not_comparable": [_gap(entry) for entry in explanation.not_comparable],
        "unrecorded": explanation.unrecorded,
        "contamination": list(explanation.contamination),
        "notes": list(explanation.notes),
        "next": [list(command) for command in explanation.suspects[0].next],
    }


def _symptom(symptom: Symptom) -> dict[str, Json]:
    return {
        "slowdown": symptom.slowdown,
        "terms": dict(symptom.terms),
        "inferred": sorted(symptom.inferred),
        "design": symptom.design.value,
        "outcome": symptom.outcome.value,
        "control_slowdown": symptom.control.slowdown if symptom.control else None,
    }


def _suspect(suspect: Suspect) -> dict[str, Json]:
    return {
        "id": suspect.id,
        "title": suspect.title,
        "probability": suspect.probability,
        "prior": suspect.prior,
        "mechanism": suspect.mechanism,
        "effects": [effect.value for effect in suspect.effects],
        "changes": [_change(change) for change in suspect.changes],
        "evidence": [_evidence(e) for e in (*suspect.evidence_for, *suspect.evidence_against)],
        "largest_ratio": suspect.largest_ratio,
        "unexplained": suspect.unexplained,
        "ties_with": list(suspect.ties_with),
        "story": suspect.story,
        "next": [list(command) for command in suspect.next],
    }


def _evidence(evidence: Evidence) -> dict[str, Json]:
    return {"text": evidence.text, "log_odds": evidence.weight, "paths": list(evidence.paths)}


def _change(change: Change) -> dict[str, Json]:
    return {
        "path": change.path,
        "leaf": change.leaf,
        "fast": reading_json(change.before, change.key),
        "slow": reading_json(change.after, change.key),
    }


def _gap(entry: NotCompared) -> dict[str, Json]:
    return {"path": entry.path, "because": entry.because.value, "only": list(entry.only), "detail": entry.detail}


def leading(suspects: Sequence[Suspect], count: int = 3) -> list[dict[str, Json]]:
    """The first suspects in short, to stand in another document."""
    return [{"id": s.id, "title": s.title, "probability": s.probability} for s in suspects[:count]]
