"""The JSON form of what a search came to; `proof_format` holds its schema."""

from __future__ import annotations

import math

from envsnap.prove.search import Culprit
from envsnap.prove.trials import Found
from envsnap.reading import Json
from envsnap.report.prove import Proof, beside_text, reproduce, status_in


def as_json(proof: Proof) -> dict[str, Json]:
    """The report's JSON form."""
    top, *deeper = proof.found
    suspects = [
        {**_member(top, s.id, s.title), "status": proof.status(s.id), "reason": _reason(proof, s.id)}
        for s in proof.switches
    ]
    return {
        "format": "envsnap.proof",
        "version": 1,
        "id": proof.journal.id,
        "fast": proof.names[0],
        "slow": proof.names[1],
        "outcome": top.result.outcome,
        "reason": top.result.reason,
        "metric": proof.journal.metric,
        "culprits": [_culprit(proof, c) for c in top.result.culprits],
        "suspects": suspects,
        "parts": [
            {
                "of": under.level.owner,
                "outcome": under.result.outcome,
                "reason": under.result.reason,
                "culprits": [_culprit(proof, c) for c in under.result.culprits],
                "suspects": [_member(under, name, title) for name, title in under.level.titles.items()],
            }
            for under in deeper
        ],
        "manual": [{"suspect": m.id, "title": m.title, "reason": m.reason, "advice": m.advice} for m in proof.manual],
        "notes": list(proof.journal.notes),
        "trials": [
            {
                "run": r.run,
                "within": r.within,
                "purpose": r.purpose,
                "suspect": r.suspect,
                "reverted": list(r.reverted),
                "status": r.status,
                "reason": r.reason,
                "value": r.value,
                "seconds": r.seconds,
            }
            for r in proof.journal.records
        ],
        "reproduce": dict(reproduce(proof)),
    }


def _reason(proof: Proof, suspect: str) -> str:
    part = proof.result.beside.get(suspect)
    return proof.journal.dropped.get(suspect, "") or (beside_text(proof.title(suspect), part) if part else "")


def _culprit(proof: Proof, culprit: Culprit) -> dict[str, Json]:
    return {
        "suspect": culprit.suspect,
        "title": proof.title(culprit.suspect),
        "probability": round(culprit.probability, 6),
        "ratio": round(math.exp(culprit.effect), 6),
        "low": round(math.exp(culprit.low), 6),
        "high": round(math.exp(culprit.high), 6),
        "fraction": round(culprit.fraction, 4),
        "only_with": culprit.only_with,
    }


def _member(found: Found, name: str, title: str) -> dict[str, Json]:
    odds = found.result.belief.probability if found.result.belief else found.level.problem.prior
    return {
        "suspect": name,
        "title": title,
        "status": status_in(found, name),
        "probability": round(odds.get(name, 0.0), 6),
    }
