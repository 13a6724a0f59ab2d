"""What verbs that do something say of it under --format json, and the schemas of that by the name after `envsnap.`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from envsnap.check.facts import ERROR, WARNING
from envsnap.check.rules import AFTER, BEFORE
from envsnap.reading import Json
from envsnap.report.doctor import DOCTOR
from envsnap.report.formats import COUNT, NUMBER, STRING, Schema, array, by_name, document, record

if TYPE_CHECKING:
    from envsnap.recording import Recorded
    from envsnap.report.page import Content

DONE_FORMATS: dict[str, Schema] = {
    "doctor": DOCTOR,
    "recording": document(
        "recording",
        {
            "folder": STRING,
            "calls": COUNT,
            "secrets": {**COUNT, "description": "How many were replaced."},
            "late": {**COUNT, "description": "Secrets that show only on replay: above zero, do not publish it."},
            "lost": {**array(STRING), "description": "Paths that were read here, and are not in the recording."},
        },
    ),
    "shared": document(
        "shared",
        {
            "file": STRING,
            "look_over": {**array(STRING), "description": "Paths with free text, for a person to look over."},
        },
    ),
    "removed": document("removed", {"runs": {**array(STRING), "description": "Their ids."}}),
    "policy_made": document(
        "policy_made",
        {
            "file": {"type": "string", "description": "Empty where none was written."},
            "requirements": COUNT,
            "text": {"type": "string", "description": "The policy, in TOML."},
        },
    ),
    "policies": document(
        "policies",
        {
            "files": array(
                record(
                    {
                        "name": STRING,
                        "valid": {"type": "boolean"},
                        "requirements": {"type": ["integer", "null"], "description": "Null where it is not valid."},
                        "violations": array(STRING),
                    }
                )
            )
        },
    ),
    "page": document(
        "page",
        {
            "file": STRING,
            "bytes": COUNT,
            "sides": {**array(STRING), "description": "What the page is about: one side, or two."},
            "headline": {"type": ["string", "null"], "description": "What it comes to; null for one side."},
            "sampled_runs": {**array(STRING), "description": "Runs whose samples over time are drawn."},
        },
    ),
    "rules": document(
        "rules",
        {
            "rules": array(
                record(
                    {
                        "code": STRING,
                        "title": STRING,
                        "severity": {"enum": [ERROR, WARNING]},
                        "when": {"enum": [BEFORE, AFTER], "description": "Asked before a start, or with --after."},
                        "needs": {**array(STRING), "description": "Keys without which it cannot be judged."},
                        "uses": array(STRING),
                        "text": STRING,
                    }
                )
            )
        },
    ),
    "demonstration": document(
        "demonstration",
        {
            "fast_tokens_per_second": NUMBER,
            "slow_tokens_per_second": NUMBER,
            "planted": {**by_name(STRING), "description": "The variables that made it slow."},
            "diff": {"$ref": "diff.v1.json"},
        },
    ),
}


def recording(folder: str, recorded: Recorded) -> dict[str, Json]:
    """What `envsnap record` wrote."""
    counts = {"calls": recorded.calls, "secrets": recorded.secrets, "late": recorded.late}
    return {"format": "envsnap.recording", "version": 1, "folder": folder, **counts, "lost": list(recorded.lost)}


def shared(file: str, look_over: Sequence[str]) -> dict[str, Json]:
    """Where the copy is."""
    return {"format": "envsnap.shared", "version": 1, "file": file, "look_over": list(look_over)}


def removed(runs: Sequence[str]) -> dict[str, Json]:
    """The runs that are gone."""
    return {"format": "envsnap.removed", "version": 1, "runs": list(runs)}


def policy(file: str, requirements: int, text: str) -> dict[str, Json]:
    """A policy that was made."""
    return {"format": "envsnap.policy_made", "version": 1, "file": file, "requirements": requirements, "text": text}


def policies(found: Mapping[str, int | list[str]]) -> dict[str, Json]:
    """Policies that were looked over: how many requirements each has, or what is wrong with it."""
    files = [
        {
            "name": name,
            "valid": isinstance(result, int),
            "requirements": result if isinstance(result, int) else None,
            "violations": [] if isinstance(result, int) else result,
        }
        for name, result in found.items()
    ]
    return {"format": "envsnap.policies", "version": 1, "files": files}


def page(file: str, size: int, content: Content) -> dict[str, Json]:
    """A page that was written; what it holds is told by `envsnap diff` and `envsnap explain`."""
    from envsnap.report.explain import headline

    return {
        "format": "envsnap.page",
        "version": 1,
        "file": file,
        "bytes": size,
        "sides": list(content.names),
        "headline": headline(content.explanation) if content.explanation else None,
        "sampled_runs": sorted(content.samples),
    }


def demonstration(speeds: tuple[float, float], planted: Mapping[str, str], diff: Json) -> dict[str, Json]:
    """What the demo measured, and found."""
    return {
        "format": "envsnap.demonstration",
        "version": 1,
        "fast_tokens_per_second": speeds[0],
        "slow_tokens_per_second": speeds[1],
        "planted": dict(planted),
        "diff": diff,
    }
