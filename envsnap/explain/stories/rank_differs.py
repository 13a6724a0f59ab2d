"""One rank differs from its siblings.

Every step of a tensor-parallel model waits for its slowest rank, so that one rank with another library, another
variable, another binding or a slower GPU is enough. What one rank alone has is a better suspect than what all have:
a setting changes everywhere, a fault in one place.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import median

from envsnap.change import Change
from envsnap.collectors import key_for
from envsnap.explain.explanation import Mistake
from envsnap.explain.ranks import ranks
from envsnap.explain.stories._look import by_instance, numbers
from envsnap.explain.story import Clue, Facts, Finding, View
from envsnap.explain.weights import FAIR
from envsnap.fold import listed
from envsnap.keys import Kind, instances_of, path_of, pattern_of
from envsnap.reading import Json, Unset, Value

CODE = "rank_differs"
NEEDS = ("worker[].env[]", "worker[].cpus", "during.gpu[].sm_clock_median_mhz", "record[].state")

_PER_RANK = ("worker[].library[].version", "worker[].library[].path", "worker[].library[].build_id", "worker[].nice",
             "worker[].scheduling_policy", "worker[].executable", "worker[].cpus_count", "record[].graph_batch_sizes[]",
             "record[].package_hash[]", "record[].package_origin[]", "record[].torch.version",
             "record[].torch.num_threads")  # fmt: skip
_OWN = ("RANK", "CUDA_VISIBLE_DEVICES", "OMP_PLACES", "GOMP_CPU_AFFINITY", "DEVICE", "_PORT", "_CPU", "NUMA",
        "CACHE_DIR", "CACHE_PATH", "CACHE_ROOT", "WORKSPACE_BASE", "TMPDIR", "_LOG", "LOG_", "_DUMP")  # fmt: skip
"""Parts of names of variables that ranks have each their own of."""

_OF_GPUS = {
    "during.gpu[].sm_clock_median_mhz": ("SM clock", False),
    "during.gpu[].memory_clock_median_mhz": ("memory clock", False),
    "during.gpu[].pcie_speed_median_gts": ("PCIe speed", False),
    "during.gpu[].pcie_width_median_lanes": ("PCIe width", False),
    "during.gpu[].temperature_median_celsius": ("temperature", True),
    "during.worker[].run_delay_median_percent": ("wait for a CPU", True),
}
"""What a rank's GPU or CPU shows under load, in words, and whether more is worse."""
_APART = 1.08


def tell(view: View) -> Iterator[Finding]:
    """Yield ranks that stand out on the slow side and did not on the fast side."""
    changes: dict[str, list[Change]] = {}
    for change in view.changes:
        changes.setdefault(change.path, []).append(change)
    for role, held in sorted(_alone(view).items()):
        yield Clue(f"It changed in {role} alone; the other ranks have what they had.", FAIR, tuple(held))
    yield from _gpus(view, changes)
    odd = [_odd(facts) for facts in view.sides]
    both = sorted(odd[0].keys() & odd[1].keys())
    if both:
        roles = sorted({instances_of(path)[0] for path in both})
        yield Mistake(
            f"{listed(roles)} differ{'s' if len(roles) == 1 else ''} from the other ranks on both sides",
            "Every step waits for the slowest rank: make them alike.",
            tuple(both),
        )


def _alone(view: View) -> dict[str, list[Change]]:
    """What changed in at most half of the ranks, which all had the same before: rank -> changes."""
    roles = ranks(view.slow)
    groups: dict[tuple[str, ...], list[Change]] = {}
    for change in view.changed("worker[].env[]", *_PER_RANK):
        role, *rest = instances_of(change.path)
        if role in roles and not (rest and any(part in rest[0] for part in _OWN)):
            groups.setdefault((pattern_of(change.path), *rest), []).append(change)
    found: dict[str, list[Change]] = {}
    for (pattern, *rest), changes in groups.items():
        before = {json.dumps(view.fast.get(path_of(pattern, role, *rest))) for role in roles}
        if len(changes) <= len(roles) / 2 and len(before) == 1:
            for change in changes:
                found.setdefault(instances_of(change.path)[0], []).append(change)
    return found


def _odd(facts: Facts) -> dict[str, Json]:
    """What a rank has that most of its siblings have otherwise: path -> value. Two ranks alone say nothing."""
    roles = ranks(facts)
    if len(roles) < 3:
        return {}
    found: dict[str, Json] = {}
    names = {instances_of(path)[1] for path in facts.values("worker[].env[]")}
    for name in names:
        if not any(part in name for part in _OWN) and key_for(path_of("env[]", name)).kind is Kind.TUNABLE:
            found |= _minority({path_of("worker[].env[]", role, name): None for role in roles}, facts)
    for pattern in _PER_RANK:
        held = [path for path in facts.values(pattern) if instances_of(path)[0] in roles]
        for rest in {tuple(instances_of(path)[1:]) for path in held}:
            found |= _minority({path_of(pattern, role, *rest): None for role in roles}, facts)
    return found


def _minority(paths: Mapping[str, None], facts: Facts) -> dict[str, Json]:
    values = {path: json.dumps(facts.get(path), sort_keys=True) for path in paths}
    counts = Counter(values.values())
    (usual, many), *others = counts.most_common()
    # NOTE: what a side could not read of a rank is unknown, and no difference.
    if not others or many <= len(paths) / 2 or not all(_is_known(facts, path) for path in paths):
        return {}
    return {path: facts.get(path) for path, value in values.items() if value != usual}


def _is_known(facts: Facts, path: str) -> bool:
    return isinstance(facts.reading(path), (Value, Unset))


def _gpus(view: View, changes: Mapping[str, list[Change]]) -> Iterator[Finding]:
    """GPUs and CPUs that fell behind their siblings under load."""
    for key, (what, more_is_worse) in _OF_GPUS.items():
        lagging = [_lagging(by_instance(facts, key), numbers(facts, key), more_is_worse) for facts in view.sides]
        new = lagging[1] - lagging[0]
        held = [c for path in new for c in changes.get(path, ())]
        if held:
            names = listed(sorted(instances_of(path)[0] for path in new))
            owner = "GPU" if ".gpu[" in key else "rank"
            yield Clue(
                f"{owner} {names} alone stands out by its {what} under load, and every step waits for the slowest.",
                FAIR,
                tuple(held),
            )


def _lagging(values: Mapping[str, Json], figures: Mapping[str, float], more_is_worse: bool) -> set[str]:
    """The paths of those that lie clearly behind the middle of the others."""
    if len(values) < 2:
        return set()
    found = set()
    for path, figure in figures.items():
        rest = median(v for p, v in figures.items() if p != path)
        behind = figure > rest * _APART + 1 if more_is_worse else figure * _APART < rest
        if behind:
            found.add(path)
    return found if len(found) <= len(figures) / 2 else set()
