"""Run: one repetition of a benchmark, with its snapshots, samples and metrics; and its file.

A run is one JSON file; its samples over time stand beside it, in a file of their own. A run that failed or was
interrupted is still a run, and says so.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from envsnap.jsonfile import SnapshotError, load_json
from envsnap.reading import Json
from envsnap.runs.columns import Columns
from envsnap.runs.metrics import Metric
from envsnap.runs.recipe import Recipe
from envsnap.snapshot import Section, Snapshot, from_json, section_from_json
from envsnap.texts import load_document

FORMAT = "envsnap.run"

# Version history, as in snapshot.py.
#   1  first version
VERSION = 1

STATUSES = ("ok", "failed", "interrupted", "never_ready")


@dataclass(frozen=True)
class Run:
    """One repetition. `started_at` is ISO 8601 in UTC, `window` the measured part in seconds since then.

    `arm` is "a" or "b" in interleaved runs, else empty; `index` counts repetitions of its arm from 0, and
    `arm_environment` is what the arm changed in the environment (None: removed). `snapshots` are by moment: before,
    during, after. `added` is what envsnap added to the environment, left out of comparisons. `request` is what was
    asked of the server, `output_probe` what it answered to fixed prompts (`output_probe.probe`). `recipe` is what it
    takes to repeat it beside the commands; None in runs of before that was kept.
    """

    id: str
    group: str
    started_at: str
    seconds: float
    status: str
    command: tuple[str, ...]
    exit_code: int | None
    snapshots: dict[str, Snapshot]
    reason: str = ""
    label: str = ""
    arm: str = ""
    index: int = 0
    server: tuple[str, ...] = ()
    added: dict[str, str] = field(default_factory=dict)
    arm_environment: dict[str, str | None] = field(default_factory=dict)
    metrics: tuple[Metric, ...] = ()
    request: dict[str, Json] = field(default_factory=dict)
    output_probe: dict[str, Json] = field(default_factory=dict)
    window: tuple[float, float] | None = None
    sampled: Section | None = None
    warnings: tuple[str, ...] = ()
    costs: dict[str, float] = field(default_factory=dict)
    recipe: Recipe | None = None

    @cached_property
    def snapshot(self) -> Snapshot:
        """All that is known of its state as one snapshot: the machine before it, workers and load during it."""
        before = self.snapshots["before"]
        sections = dict(before.sections)
        if during := self.snapshots.get("during"):
            sections.update(during.sections)
        if self.sampled:
            sections["during"] = self.sampled
        return replace(before, sections=sections, moment="during" if self.sampled else before.moment)

    def as_json(self) -> dict[str, Json]:
        """The run's JSON form, without the samples."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "id": self.id,
            "group": self.group,
            "label": self.label,
            "arm": self.arm,
            "index": self.index,
            "started_at": self.started_at,
            "seconds": round(self.seconds, 4),
            "status": self.status,
            "reason": self.reason,
            "command": list(self.command),
            "server": list(self.server),
            "exit_code": self.exit_code,
            "added": self.added,
            "arm_environment": self.arm_environment,
            "recipe": self.recipe.as_json() if self.recipe else None,
            "metrics": [m.as_json() for m in self.metrics],
            "request": self.request,
            "output_probe": self.output_probe,
            "window": list(self.window) if self.window else None,
            "warnings": list(self.warnings),
            "costs": self.costs,
            "sampled": self.sampled.as_json() if self.sampled else None,
            "snapshots": {moment: s.as_json() for moment, s in self.snapshots.items()},
        }


def samples_path(path: Path) -> Path:
    """Where the samples of a run's file stand."""
    return path.with_name(path.name.split(".", 1)[0] + ".samples.json.gz")


def packed(document: Json) -> bytes:
    """A document as the bytes of its file."""
    return gzip.compress(json.dumps(document, separators=(",", ":")).encode("ascii"), compresslevel=5, mtime=0)


def load(path: Path) -> Run:
    """Read a run. Raises: SnapshotError, in one sentence."""
    return parse(load_document(path), str(path))


def load_samples(path: Path) -> Columns:
    """Read the samples of a run's file. Raises: SnapshotError."""
    beside = samples_path(path)
    try:
        return Columns.from_json(load_json(beside))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotError(f"{beside} is malformed.") from error


def parse(document: Json, name: str) -> Run:
    """A run from its JSON form. Raises: SnapshotError."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise SnapshotError(f"{name} is not an envsnap run; `envsnap run -- BENCHMARK` makes one.")
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise SnapshotError(f"{name} has no valid version number.")
    if version > VERSION:
        raise SnapshotError(f"{name} has run version {version}, this envsnap reads up to {VERSION}; update envsnap.")
    try:
        window = document["window"]
        return Run(
            id=str(document["id"]),
            group=str(document["group"]),
            label=str(document["label"]),
            arm=str(document["arm"]),
            index=int(document["index"]),
            started_at=str(document["started_at"]),
            seconds=float(document["seconds"]),
            status=_one_of(document["status"], STATUSES),
            reason=str(document["reason"]),
            command=tuple(str(a) for a in document["command"]),
            server=tuple(str(a) for a in document["server"]),
            exit_code=None if document["exit_code"] is None else int(document["exit_code"]),
            added={str(k): str(v) for k, v in document["added"].items()},
            arm_environment=_environment(document.get("arm_environment", {})),
            recipe=Recipe.from_json(document["recipe"]) if document.get("recipe") else None,
            metrics=tuple(Metric.from_json(m) for m in document["metrics"]),
            request=dict(document["request"]),
            output_probe=dict(document.get("output_probe", {})),
            window=(float(window[0]), float(window[1])) if window else None,
            warnings=tuple(str(w) for w in document["warnings"]),
            costs={str(k): float(v) for k, v in document["costs"].items()},
            sampled=section_from_json(document["sampled"]) if document["sampled"] else None,
            snapshots={str(m): from_json(s, f"{name}, {m}") for m, s in document["snapshots"].items()},
        )
    except SnapshotError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise SnapshotError(f"{name} is a malformed run ({type(error).__name__}: {error}).") from error


def _environment(value: Json) -> dict[str, str | None]:
    return {str(k): None if v is None else str(v) for k, v in value.items()}


def _one_of(value: Json, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{value!r} is none of {', '.join(allowed)}")
    return str(value)
