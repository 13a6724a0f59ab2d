"""NUMA: nodes, their CPUs and memory, distances, balancing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from envsnap.collectors._files import (
    FileFact,
    Files,
    cpu_list,
    integers,
    natural,
    parsed,
    read_files,
    readings,
    switch,
    times,
)
from envsnap.host import Host
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Missing, Why
from envsnap.scope import Scope

METHOD = "/sys/devices/system/node, /proc/sys/kernel"

_NODES = "/sys/devices/system/node"
_NODE = f"{_NODES}/node[0-9]*"
_MEMORY = (Effect.MEMORY, Effect.COMMUNICATION, Effect.HOST_LAUNCH)

_FACTS = (
    FileFact(Key("numa.nodes", Type.STRING, Kind.IDENTITY,
                 "NUMA nodes that are online; the BIOS decides into how many a socket is cut.", _MEMORY, 0.3),
             f"{_NODES}/online", cpu_list),
    FileFact(Key("numa.memory_nodes", Type.STRING, Kind.IDENTITY,
                 "NUMA nodes with memory; on Grace machines each GPU's memory adds some.", _MEMORY, 0.15),
             f"{_NODES}/has_memory", cpu_list),
    FileFact(Key("numa.balancing_mode", Type.INTEGER, Kind.TUNABLE,
                 "Whether the kernel moves pages between nodes by itself (0 no, 1 yes, 2 between memory tiers): "
                 "its page faults stall GPU hosts.",
                 _MEMORY, 0.4, Lever.ROOT, "Switch it off with `sysctl kernel.numa_balancing=0`."),
             "/proc/sys/kernel/numa_balancing", natural),
    FileFact(Key("numa.demotion", Type.BOOLEAN, Kind.TUNABLE,
                 "Whether cold pages are moved to slower memory nodes under pressure.", _MEMORY, 0.15, Lever.ROOT),
             "/sys/kernel/mm/numa/demotion_enabled", switch),
)  # fmt: skip

KEYS = (
    *(fact.key for fact in _FACTS),
    Key("numa[].cpus", Type.STRING, Kind.IDENTITY, "CPUs of the node.", _MEMORY, 0.2),
    Key("numa[].memory_bytes", Type.INTEGER, Kind.VOLATILE,
        "Memory of the node, of which a hypervisor may give and take while the machine runs.", _MEMORY, 0.1,
        rel_tol=0.01),
    Key("numa[].free_bytes", Type.INTEGER, Kind.VOLATILE, "Memory of the node that nothing uses.",
        _MEMORY, 0.1, rel_tol=0.1),
    Key("numa[].distances", Type.INTEGERS, Kind.IDENTITY,
        "Distances from the node to every node in order, 10 being local.", _MEMORY, 0.1),
    Key("numa[].missed_pages_count", Type.INTEGER, Kind.COUNTER,
        "Pages that the node served although another was preferred.", _MEMORY, 0.2),
    Key("numa[].foreign_pages_count", Type.INTEGER, Kind.COUNTER,
        "Pages that were wanted on the node and came from another for lack of room.", _MEMORY, 0.25),
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    parts = ("cpulist", "meminfo", "distance", "numastat")
    files = read_files(host, (*(f.file for f in _FACTS), *(f"{_NODE}/{part}" for part in parts)))
    yield from readings(files, _FACTS)
    yield from _nodes(files)


def _nodes(files: Files) -> Iterator[tuple[str, Found]]:
    yield from files.absent(f"{_NODE}/cpulist", "numa")
    for (node,), cpus in files.matching(f"{_NODE}/cpulist"):
        folder = _NODE.replace("[0-9]*", node)
        yield path_of("numa[].cpus", node), parsed(cpus, cpu_list)
        for name, field in (("memory", "MemTotal"), ("free", "MemFree")):
            found = files.value(f"{folder}/meminfo", partial(_field, rf"^Node \d+ {field}:\s+(\d+) kB$"))
            yield path_of(f"numa[].{name}_bytes", node), parsed(found, times(1024))
        yield path_of("numa[].distances", node), files.value(f"{folder}/distance", integers)
        for name, field in (("missed", "numa_miss"), ("foreign", "numa_foreign")):
            found = files.value(f"{folder}/numastat", partial(_field, rf"^{field} (\d+)$"))
            yield path_of(f"numa[].{name}_pages_count", node), parsed(found, natural)


def _field(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.M)
    if not match:
        raise Missing(Why.NOT_SUPPORTED, f"no line matches {pattern}")
    return match.group(1)
