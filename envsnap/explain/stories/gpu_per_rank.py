"""Two ranks are on one GPU, or a rank is on another one than it was given.

CUDA_VISIBLE_DEVICES that is set after CUDA was initialised, or a launcher that numbers GPUs otherwise, puts ranks
where nobody meant them: two share one device, and another idles. Which GPU a rank computes on is what it says
itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from envsnap.explain.explanation import Mistake
from envsnap.explain.ranks import ranks
from envsnap.explain.stories._look import numbers, variable_changes, variables
from envsnap.explain.story import Clue, Facts, Finding, View
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import instances_of, path_of
from envsnap.reading import Json

CODE = "gpu_per_rank"
NEEDS = ("record[].rank[]", "record[].torch.device_index", "during.gpu[].utilization_median_percent", "worker[].env[]")


def tell(view: View) -> Iterator[Finding]:
    """Yield GPUs that more than one rank, or none, computes on."""
    doubled = [_doubled(facts) for facts in view.sides]
    changes = [
        *variable_changes(view, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "*LOCAL_RANK*", "NVIDIA_VISIBLE_DEVICES"),
        *view.changed("worker[].gpu_devices", "record[].torch.device_name"),
    ]
    if doubled[1] and not doubled[0] and changes:
        yield Clue(f"{doubled[1]}.", STRONG, tuple(changes))
    elif doubled[0] and doubled[1]:
        yield Mistake(
            f"{doubled[1]} on both sides",
            "Set CUDA_VISIBLE_DEVICES before the process starts.",
            tuple(view.slow.values("record[].torch.device_index")),
        )
    idle = [_idle(facts) for facts in view.sides]
    if idle[1] and not idle[0] and changes and not doubled[1]:
        yield Clue(f"GPU {', '.join(idle[1])} does nothing while the others work.", FAIR, tuple(changes))


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


def _idle(facts: Facts) -> list[str]:
    """GPUs that a rank should be on and that hardly do anything under load."""
    used = numbers(facts, "during.gpu[].utilization_median_percent")
    expected = len(ranks(facts))
    idle = [instances_of(path)[0] for path, percent in used.items() if percent < 5]
    return idle if idle and expected >= len(used) > len(idle) else []
