"""Requirements that installed versions violate: what `pip check` says, at a fraction of its cost.

Most requirements are plainly met, which a comparison of numbers shows. Only the rest is left to `packaging`, whose
import alone takes 20 ms, and its verdicts are remembered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from envsnap.cache import Cache
from envsnap.collectors._dists import normalised

_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?([^();@]*)\)?\s*(?:;|\Z)")
_CLAUSE = re.compile(r"(==|!=|<=|>=|<|>)\s*(\d{1,9}(?:\.\d{1,9})*)\Z")
_PLAIN_VERSION = re.compile(r"(\d{1,9}(?:\.\d{1,9})*)(?:\+[a-z0-9.]+)?\Z")

Release = tuple[int, ...]


def violated(
    requires: Mapping[str, tuple[str, ...]], versions: Mapping[str, str], markers: Mapping[str, str], cache: Cache
) -> Iterator[tuple[str, str, bool]]:
    """Of every distribution's requirements those that an installed version violates, as (name, what, judged).

    `requires` are lines of metadata by normalised name, `versions` what is installed, `markers` the environment
    of the interpreter. `judged` is false for a requirement that cannot be understood; extras and what is not
    installed are left out.
    """
    releases = {name: _release(version) for name, version in versions.items()}
    for name, lines in requires.items():
        for line in lines:
            match = _REQUIREMENT.match(line)
            target = normalised(match.group(1)) if match else ""
            if target not in versions or not match or not match.group(2).strip():
                continue
            if _plainly_met(match.group(2), releases[target]):
                continue
            verdict = _verdict(line, versions[target], markers, cache)
            if verdict == "violated":
                yield name, f"requires {target}{_compact(match.group(2))} (has {versions[target]})", True
            elif verdict == "unclear":
                yield name, line, False


def _release(version: str) -> Release | None:
    """The numbers of a version that consists of numbers, a local tag aside; None for any other."""
    match = _PLAIN_VERSION.match(version)
    return _numbers(match.group(1)) if match else None


def _numbers(text: str) -> Release:
    """Without trailing zeros, since 2.0 equals 2."""
    parts = [int(part) for part in text.split(".")]
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def _plainly_met(specifier: str, release: Release | None) -> bool:
    """Whether comparing numbers shows that a version fits. False says nothing."""
    return release is not None and all(_clause_met(clause.strip(), release) for clause in specifier.split(","))


def _clause_met(clause: str, release: Release) -> bool:
    match = _CLAUSE.match(clause)
    if not match:
        return False
    operator, wanted = match.group(1), _numbers(match.group(2))
    if operator == ">=":
        return release >= wanted
    if operator == "==":
        return release == wanted
    if operator == "<":
        return release < wanted
    if operator == "!=":
        return release != wanted
    return (release <= wanted) if operator == "<=" else operator == ">" and release > wanted


def _verdict(line: str, version: str, markers: Mapping[str, str], cache: Cache) -> str:
    key = json.dumps([line, version, sorted(markers.items())])
    held = cache.get(key)
    if held in ("violated", "met", "unclear"):
        return str(held)
    verdict = _judged(line, version, markers)
    cache.put(key, verdict)
    return verdict


def _judged(line: str, version: str, markers: Mapping[str, str]) -> str:
    from packaging.requirements import Requirement

    try:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({**markers, "extra": ""}):
            return "met"
        return "met" if requirement.specifier.contains(version, prereleases=True) else "violated"
    except ValueError:  # what packaging raises for any of requirement, marker and version
        return "unclear"


def _compact(specifier: str) -> str:
    return ",".join(sorted(clause.replace(" ", "") for clause in specifier.split(",") if clause.strip()))
