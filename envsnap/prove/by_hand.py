"""What takes root: the command for a person to run, and whether it took effect. envsnap never runs it itself."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from envsnap.capture import capture
from envsnap.change import Change
from envsnap.collectors import keys, section_of
from envsnap.keys import Kind, Lever, instances_of, pattern_of
from envsnap.prove.switches import Switch
from envsnap.reading import Json, Reading, Value
from envsnap.scope import Scope
from envsnap.wording import quoted

TRIES = 3
"""How often a person is asked to set one thing."""

_SYS = "tee /sys/{file} <<< {value}"
# Key patterns -> the command that sets it; {0} is the first instance.
_COMMANDS = {
    "gpu[].power_limit_watts": "nvidia-smi -i {0} -pl {value:g}",
    "gpu[].persistence_mode": "nvidia-smi -i {0} -pm {value:d}",
    "gpu[].mig_mode": "nvidia-smi -i {0} -mig {value:d}",
    "gpu[].auto_boost": "nvidia-smi -i {0} --auto-boost-default={value:d}",
    "cpu.governor": "cpupower frequency-set -g {value}",
    "cpu[].governor": "cpupower -c {0} frequency-set -g {value}",
    "cpu.scaling_max_mhz": "cpupower frequency-set -u {value:g}MHz",
    "cpu[].scaling_max_mhz": "cpupower -c {0} frequency-set -u {value:g}MHz",
    "numa.balancing_mode": "sysctl kernel.numa_balancing={value}",
    "memory.zone_reclaim_mode": "sysctl vm.zone_reclaim_mode={value}",
    "network.tcp_congestion_control": "sysctl net.ipv4.tcp_congestion_control={value}",
    "memory.transparent_huge_pages": _SYS.replace("{file}", "kernel/mm/transparent_hugepage/enabled"),
    "memory.transparent_huge_pages_defrag": _SYS.replace("{file}", "kernel/mm/transparent_hugepage/defrag"),
    "memory.same_page_merging_mode": _SYS.replace("{file}", "kernel/mm/ksm/run"),
}

Look = Callable[[Sequence[str]], Mapping[str, Reading]]
"""Reads paths of the machine as it is now."""


class NotSet(Exception):
    """What a person was asked to set is not set; one sentence."""


def command(path: str, value: Json) -> str:
    """The command that gives a path a value; empty where none is known."""
    template = _COMMANDS.get(pattern_of(path), "")
    try:
        held = shlex.quote(value) if isinstance(value, str) else value
        return f"sudo {template.format(*map(shlex.quote, instances_of(path)), value=held)}" if template else ""
    except (ValueError, TypeError):
        return ""


def settable(changes: Iterable[Change]) -> list[tuple[str, Json, Json]]:
    """Path, fast and slow value of what a person could set, among the changes of a suspect."""
    return [
        (c.path, c.before.value, c.after.value)
        for c in changes
        if c.key.lever is Lever.ROOT and c.key.kind is Kind.TUNABLE and not c.leaf
        and isinstance(c.before, Value) and isinstance(c.after, Value)
    ]  # fmt: skip


@dataclass
class Person:
    """Asks a person to set what a trial needs. `ask` shows a text and returns once it was answered.

    `found` is how each path was before the first change, to be told at the end.
    """

    ask: Callable[[str], None]
    look: Look
    found: dict[str, Json] = field(default_factory=dict)

    def set(self, switches: Iterable[Switch], reverted: frozenset[str]) -> None:
        """Have everything that takes root as a trial wants it. Raises: NotSet."""
        wanted = {p: v for s in switches for p, v in s.setting(s.id in reverted).by_hand.items()}
        for number in range(TRIES + 1):
            now = self.look(sorted(wanted)) if wanted else {}
            other = {p: v for p, v in wanted.items() if (held := now.get(p)) != Value(v)}
            for path in wanted:
                if isinstance(held := now.get(path), Value):
                    self.found.setdefault(path, held.value)
            if not other:
                return
            if number == TRIES:
                break
            again = "that has not taken effect. " if number else ""
            for path, value in other.items():
                self.ask(f"{again}{instruction(path, value)} Then press Enter.")
        path = next(iter(other))
        held = now.get(path)
        told = quoted(str(held.value)) if isinstance(held, Value) else "not readable"
        raise NotSet(f"{path} is {told} instead of {other[path]}, although it was asked for {TRIES} times")

    def left(self) -> list[str]:
        """What is to be set back to how it was found, as instructions."""
        now = self.look(sorted(self.found)) if self.found else {}
        return [instruction(path, value) for path, value in self.found.items() if now.get(path) != Value(value)]


def instruction(path: str, value: Json) -> str:
    """What to do, in a sentence."""
    if line := command(path, value):
        return f"Run `{line}` ({path} = {value})."
    advice = keys()[pattern_of(path)].advice
    return f"Set {path} to {value}.{f' {advice}' if advice else ''}"


def look(paths: Sequence[str]) -> Mapping[str, Reading]:
    """What stands at these paths of this machine now."""
    sections = {section_of(path) for path in paths}
    now = capture(Scope(cache=False), only=sorted(sections - {""})) if sections else None
    return {path: now.reading(path) for path in paths} if now else {}
