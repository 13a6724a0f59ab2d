"""What takes root: the command, the question, and that nothing counts before it took effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from envsnap.prove.by_hand import NotSet, Person, command
from envsnap.prove.by_hand import look as look_here
from envsnap.prove.switches import Setting, Switch
from envsnap.reading import Json, Reading, Unavailable, Value, Why
from tests.prove.test_levers import made, sides

BALANCING = "numa.balancing_mode"
SWITCH = Switch("numa", "NUMA balancing", 0.5, Setting(by_hand={BALANCING: 0}), Setting(by_hand={BALANCING: 1}))


class Machine:
    """A machine with one value, and a person who sets what is asked, if obedient."""

    def __init__(self, value: Json, obedient: bool = True) -> None:
        self.value, self.obedient = value, obedient
        self.asked: list[str] = []

    def look(self, paths: Sequence[str]) -> Mapping[str, Reading]:
        return {path: Value(self.value) for path in paths}

    def ask(self, text: str) -> None:
        self.asked.append(text)
        if self.obedient:
            self.value = int(text.partition("numa_balancing=")[2].partition("`")[0])


def test_a_person_is_asked_only_for_what_is_otherwise_and_what_to_put_back_is_told() -> None:
    machine = Machine(1)
    person = Person(machine.ask, machine.look)
    person.set([SWITCH], frozenset())
    assert machine.asked == []
    person.set([SWITCH], frozenset({"numa"}))
    person.set([SWITCH], frozenset({"numa"}))
    assert machine.asked == ["Run `sudo sysctl kernel.numa_balancing=0` (numa.balancing_mode = 0). Then press Enter."]
    assert person.left() == ["Run `sudo sysctl kernel.numa_balancing=1` (numa.balancing_mode = 1)."]
    person.set([SWITCH], frozenset())
    assert person.left() == []


def test_what_was_not_set_is_asked_for_again_and_then_ends_the_search() -> None:
    machine = Machine(1, obedient=False)
    with pytest.raises(NotSet, match=r"numa\.balancing_mode is 1 instead of 0"):
        Person(machine.ask, machine.look).set([SWITCH], frozenset({"numa"}))
    assert len(machine.asked) == 3
    assert machine.asked[1].startswith("that has not taken effect")


def test_what_cannot_be_read_counts_as_not_set() -> None:
    def look(paths: Sequence[str]) -> Mapping[str, Reading]:
        return {path: Unavailable(Why.DENIED, "no") for path in paths}

    with pytest.raises(NotSet, match="not readable"):
        Person(lambda text: None, look).set([SWITCH], frozenset({"numa"}))


def test_a_look_at_this_machine() -> None:
    assert isinstance(look_here(["kernel.release"])["kernel.release"], Value)
    assert look_here([]) == {}


def test_what_takes_root_is_listed_with_its_command_and_a_switch_where_a_person_helps(tmp_path: Path) -> None:
    fast, slow = sides({"gpu[0].power_limit_watts": 700.0}, {"gpu[0].power_limit_watts": 450.0})
    switches, manual = made(tmp_path, fast, slow)
    assert not switches
    (left,) = manual.values()
    assert "sudo nvidia-smi -i 0 -pl 700" in left.advice
    switches, manual = made(tmp_path, fast, slow, by_hand=True)
    assert not manual
    (switch,) = switches.values()
    assert (switch.fast.by_hand, switch.slow.by_hand) == (
        {"gpu[0].power_limit_watts": 700.0}, {"gpu[0].power_limit_watts": 450.0},
    )  # fmt: skip
    assert switch.cost > 2


def test_commands() -> None:
    assert command("gpu[3].persistence_mode", True) == "sudo nvidia-smi -i 3 -pm 1"
    assert command("cpu.governor", "performance") == "sudo cpupower frequency-set -g performance"
    assert command("cpu.governor", "performance; reboot") == "sudo cpupower frequency-set -g 'performance; reboot'"
    assert command("kernel.release", "6.1") == ""
