"""What probes found, and its JSON form: also that of a stored baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from envsnap.jsonfile import SnapshotError, load_json, name_of
from envsnap.probe.declared import quantity_of
from envsnap.reading import Json

FORMAT, VERSION = "envsnap.probe", 1


class Busy(Exception):
    """A GPU is in use: what would be measured is not the machine, and would disturb whoever uses it. One sentence."""


@dataclass(frozen=True)
class Figure:
    """One figure: the value of each repetition, or the reason why there is none.

    `method` says what was done, as far as figures of another method cannot be compared with this one.
    """

    name: str
    values: tuple[float, ...] = ()
    method: str = ""
    unavailable: str = ""

    @property
    def median(self) -> float | None:
        """The figure itself; None where it could not be measured."""
        return median(self.values) if self.values else None

    @property
    def spread_percent(self) -> float | None:
        """Largest less smallest repetition, in percent of the median."""
        middle = self.median
        return 100 * (max(self.values) - min(self.values)) / middle if middle else None

    def as_json(self) -> dict[str, Json]:
        """The figure's JSON form."""
        quantity = quantity_of(self.name)
        return {
            "name": self.name,
            "unit": quantity.unit,
            "better": quantity.better.value,
            "median": self.median,
            "spread_percent": self.spread_percent,
            "values": list(self.values),
            "method": self.method,
            "unavailable": self.unavailable,
        }


@dataclass(frozen=True)
class ProbeResult:
    """`gpus` are NVML's indices of what was measured; `notes` are sentences about what may have disturbed it."""

    started_at: str
    seconds: float
    gpus: tuple[int, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()
    torch: str = ""
    envsnap: str = ""

    def figure(self, name: str) -> Figure | None:
        """The figure of that name, if there is one."""
        return next((f for f in self.figures if f.name == name), None)


def load(source: str | Path) -> ProbeResult:
    """A stored result. Raises: SnapshotError."""
    return from_json(load_json(source), name_of(source))


def from_json(document: Json, name: str) -> ProbeResult:
    """The result in a document; figures that this envsnap does not know are left out. Raises: SnapshotError."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise SnapshotError(f"{name} is no result of envsnap probe.")
    if document.get("version") != VERSION:
        raise SnapshotError(f"{name} has version {document.get('version')} of {FORMAT}; this envsnap reads {VERSION}.")
    try:
        figures = tuple(_figure(data) for data in document["figures"] if _known(str(data["name"])))
        return ProbeResult(
            str(document["started_at"]),
            float(document["seconds"]),
            tuple(int(gpu) for gpu in document["gpus"]),
            figures,
            tuple(str(note) for note in document["notes"]),
            str(document["torch"]),
            str(document["envsnap"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SnapshotError(
            f"{name} is a malformed result of envsnap probe ({type(error).__name__}: {error})."
        ) from error


def _known(figure: str) -> bool:
    try:
        return bool(quantity_of(figure))
    except KeyError:
        return False


def _figure(data: Json) -> Figure:
    values = tuple(float(value) for value in data["values"])
    if not all(value > 0 and math.isfinite(value) for value in values):
        raise ValueError(f"{data['name']} is not positive")
    unavailable = str(data["unavailable"])
    if bool(values) is bool(unavailable):
        raise ValueError(f"{data['name']} has neither values nor a reason, or both")
    return Figure(str(data["name"]), values, str(data["method"]), unavailable)
