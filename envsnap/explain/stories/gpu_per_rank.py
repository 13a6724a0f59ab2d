"""Two ranks are on one GPU, or a rank is on another one than it was given.

CUDA_VISIBLE_DEVICES that is set after CUDA was initialised, or a launcher that numbers GPUs otherwise, puts ranks
where nobody meant them: two share one device, and another idles. Which GPU a rank computes on is what it says
itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.explanation import Evidence, Mistake
from envsnap.explain.ranks import ranks
from envsnap.explain.stories._look import numbers, seen_as_change, variable_changes, variables
from envsnap.explain.story import Facts, Finding, Together, View
from envsnap.explain.weights import STRONG
from envsnap.keys import Effect, instances_of, path_of
from envsnap.reading import Json

CODE = "gpu_per_rank"
NEEDS = ("record[].torch.device_index", "gpu[].compute_process_count")

_SHOWN = ("record[].torch.device_index", "gpu[].compute_process_count")


def tell(view: View) -> Iterator[Finding]:
    """Yield GPUs that more than one rank, or none, computes on."""
    doubled = [_doubled(facts) or _crowded(facts) for facts in view.sides]
    if doubled[0] and doubled[1]:
        yield Mistake(
            f"{doubled[1]} on both sides",
            "Set CUDA_VISIBLE_DEVICES before the process starts.",
            tuple(view.slow.values("record[].torch.device_index")),
        )
    elif doubled[1]:
        changes = [
            *variable_changes(view, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "*LOCAL_RANK*"),
            *view.changed("worker[].gpu_devices", "record[].torch.device_name"),
            *_places(view),
        ]
        if changes:
            yield Together(
                f"{doubled[1][:1].lower()}{doubled[1][1:]}",
                "Two ranks take turns on one GPU, and another one idles.",
                tuple(changes),
                (Effect.COMPUTE, Effect.MEMORY, Effect.COMMUNICATION),
                (Evidence("Each rank had a GPU of its own on the fast side.", STRONG), *_idle(view)),
                prior=0.6,
            )


def _idle(view: View) -> Iterator[Evidence]:
    """GPUs that worked before and do nothing now."""
    key = "during.gpu[].utilization_median_percent"
    then = numbers(view.fast, key)
    idle = [p for p, percent in numbers(view.slow, key).items() if percent < 5 and then.get(p, 0.0) > 20]
    if idle:
        names = ", ".join(instances_of(path)[0] for path in idle)
        yield Evidence(f"GPU {names} worked before, and does nothing now.", STRONG, tuple(idle))


def _places(view: View) -> list[Change]:
    """Where ranks compute, and how many processes a GPU has, as far as that differs."""
    found = [p for key in _SHOWN for p in view.slow.values(key)]
    return [change for path in sorted(found) if (change := seen_as_change(view, path)) is not None]


def _crowded(facts: Facts) -> str:
    """In words, where one GPU has the processes of several ranks and another one has none."""
    counts = numbers(facts, "gpu[].compute_process_count")
    roles = len(ranks(facts))
    if roles < 2 or not counts or sum(counts.values()) != roles:
        return ""
    many = [instances_of(path)[0] for path, count in counts.items() if count > 1]
    return f"Several ranks compute on GPU {', '.join(many)}" if many and 0 in counts.values() else ""


def _doubled(facts: Facts) -> str:
    places: Counter[tuple[Json, Json]] = Counter()
    for role in ranks(facts):
        index = facts.get(path_of("record[].torch.device_index", role))
        visible = variables(facts, "CUDA_VISIBLE_DEVICES").get(role)
        if index is None:
            return ""
        names = [part.strip() for part in visible.split(",")] if visible else []
        own = names[index] if isinstance(index, int) and index < len(names) else str(index)
        places[own, None] += 1
    shared = [str(place) for (place, _), count in places.items() if count > 1]
    return f"Several ranks compute on GPU {', '.join(shared)}" if shared else ""
