"""What is the same: the things that an investigator wants to stop wondering about, each with its value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from envsnap.collectors import key_for
from envsnap.explain.explanation import RuledOut
from envsnap.explain.story import Facts
from envsnap.keys import instances_of
from envsnap.reading import Json
from envsnap.wording import plural, shorten, value_text

_LOAD = "during"


@dataclass(frozen=True)
class Topic:
    """Something people suspect, and the keys that have to be the same on both sides for it to be none.

    Of several lists of keys the first counts that both sides hold; `under_load` says that it has to be taken there.
    """

    title: str
    keys: tuple[tuple[str, ...], ...]
    under_load: bool = False


TOPICS = (
    Topic("NVIDIA driver", (("nvml.driver_version", "nvidia.module_version"), ("nvml.driver_version",))),
    Topic("PCIe links", (("during.gpu[].pcie_speed_median_gts", "during.gpu[].pcie_width_median_lanes"),), True),
    Topic("PCIe links", (("gpu[].pcie_generation", "gpu[].pcie_width_lanes"),), True),
    Topic("PCIe links", (("gpu[].pcie_width_lanes",), ("pci[].link_width_lanes",))),
    Topic("P-states", (("gpu[].performance_state",),), True),
    Topic("SM clocks", (("during.gpu[].sm_clock_median_mhz",),), True),
    Topic("memory clocks", (("during.gpu[].memory_clock_median_mhz",),), True),
    Topic("NCCL", (("worker[].library[].version",), ("library[].version",))),
    Topic("NCCL's transports", (("nccl.rank[].transport[]",),)),
    Topic("NVLinks", (("gpu[].nvlink_active_count",),)),
    Topic("GPU model", (("gpu[].name",),)),
    Topic("GPU power limit", (("gpu[].power_limit_watts",),)),
    Topic("Linux kernel", (("kernel.release",),)),
    Topic("CPU governor", (("cpu.governor",),)),
    Topic("attention backend", (("server[].argument[attention_backend]",), ("record[].argument[attention_backend]",))),
    Topic("CUDA graph sizes", (("server[].dp[].graph_batch_sizes",),)),
    Topic("model files", (("model[].weights", "model[].config"), ("model[].config",))),
    Topic("torch", (("package[torch].version",),)),
)


def the_same(fast: Facts, slow: Facts) -> Iterator[RuledOut]:
    """The topics on which both sides were recorded and agree, in the order of the table."""
    said: set[str] = set()
    for topic in TOPICS:
        loaded = all(facts.snapshot.moment == _LOAD for facts in (fast, slow))
        if topic.title in said or (topic.under_load and not loaded):
            continue
        for keys in topic.keys:
            sides = [[_values(facts, key, topic) for key in keys] for facts in (fast, slow)]
            if not all(values for side in sides for values in side):
                continue
            if all(_equal(a, b) for a, b in zip(*sides)):
                said.add(topic.title)
                where = "the same under load" if topic.under_load else "the same"
                paths = tuple(path for values in sides[0] for path in values)
                yield RuledOut(topic.title, f"{where}: {_words(sides[0])}", paths)
            break


def _values(facts: Facts, key: str, topic: Topic) -> dict[str, Json]:
    """The values of a key; of one with a named instance (`argument[attention_backend]`) over all its owners."""
    named = re.search(r"\[[^\]*]+\]", key)
    held = facts.values(key.replace("[]", "[*]") if named else key)
    if named and not held and (value := facts.get(key)) is not None:
        held = {key: value}
    if topic.title == "NCCL":
        return {p: v for p, v in held.items() if instances_of(p)[-1].startswith("nccl/")}
    return held


def _equal(a: dict[str, Json], b: dict[str, Json]) -> bool:
    return a.keys() == b.keys() and all(key_for(path).same(value, b[path]) for path, value in a.items())


def _words(values: Sequence[dict[str, Json]]) -> str:
    """The values in short, each once, and of how many GPUs or ranks."""
    parts = []
    for held in values:
        texts = list(dict.fromkeys(_word(path, value) for path, value in held.items()))
        parts.append(shorten(", ".join(texts[:3]) + (", …" if len(texts) > 3 else ""), 48))
    first = next(iter(values[0]))
    count = len({instances_of(path)[0] for path in values[0]}) if instances_of(first) else 0
    owner = next((noun for noun in ("gpu", "worker", "rank", "model") if f"{noun}[" in first), "")
    many = f" on {plural(count, 'GPU' if owner == 'gpu' else owner)}" if owner and count > 1 else ""
    return " × ".join(dict.fromkeys(parts)) + many


def _word(path: str, value: Json) -> str:
    return f"P{value}" if path.endswith(".performance_state") else value_text(key_for(path), value)
