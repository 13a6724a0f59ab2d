"""How a fact is read from NVML: which call it needs, and what of the answer it takes.

A call is a getter's name and its arguments after the GPU's handle. All calls for one GPU go out as one batch;
all field values as one call of that batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envsnap.collectors._files import cpu_ranges
from envsnap.host import Host, found_of, value_of
from envsnap.keys import Key
from envsnap.reading import Error, Found, Json, Missing, Unavailable, Value, Why, attempt

Call = tuple[Any, ...]
Take = Callable[[Any], Json]

FIELD_VALUES = "nvmlDeviceGetFieldValues"
NOT_AVAILABLE = (0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF)
"""What NVML fills in where an unsigned number has no value."""


def field(number: int, scope: int = 0) -> Call:
    """The call for one of NVML's field values; `scope` is a link's number where the field belongs to a link.

    NOTE: numbers from 251 on mean other fields in the drivers 575.51 to 580.65 than before and after.
    """
    return (FIELD_VALUES, number, scope)


@dataclass(frozen=True)
class Fact:
    """A key and how it is read: the first of `calls` that has a value, through `take`."""

    key: Key
    calls: tuple[Call, ...]
    take: Take | None = None

    def reading(self, answers: Mapping[Call, Found]) -> Found:
        """The reading by the answers to the calls."""
        reasons: list[Found] = []
        for call in self.calls:
            found = answers.get(call)
            if isinstance(found, Value):
                return attempt(self._taken, found.value)
            if found is not None:
                reasons.append(found)
        return reasons[0] if reasons else Unavailable(Why.OFF, "not asked for")

    def _taken(self, value: Json) -> Json:
        value = available(value)
        return value if self.take is None else self.take(value)


def fact(key: Key, *calls: Call | str, take: Take | None = None) -> Fact:
    """A `Fact`; a bare name is a call without further arguments."""
    return Fact(key, tuple((call,) if isinstance(call, str) else call for call in calls), take)


def ask(host: Host, gpu: int, calls: Iterable[Call]) -> dict[Call, Found]:
    """The answers to calls for one GPU, in one batch."""
    wanted = list(dict.fromkeys(calls))
    getters = [call for call in wanted if call[0] != FIELD_VALUES]
    fields = [call for call in wanted if call[0] == FIELD_VALUES]
    requests: list[list[Json]] = [["nvml", name, f"gpu:{gpu}", *arguments] for name, *arguments in getters]
    if fields:
        requests.append(["nvml", FIELD_VALUES, f"gpu:{gpu}", [[number, scope] for _, number, scope in fields]])
    found = host.found(requests)
    answers = dict(zip(getters, found))
    if fields:
        answers.update(zip(fields, _each_field(found[-1], len(fields))))
    return answers


def _each_field(found: Found, count: int) -> list[Found]:
    if not isinstance(found, Value):
        return [found] * count
    if not isinstance(found.value, list) or len(found.value) != count:
        return [Error("malformed field values")] * count
    return [found_of(answer) for answer in found.value]


# -- what is taken of an answer ---------------------------------------------------------------------------------


def available(value: Json) -> Json:
    """The value, unless it is NVML's 'not available'. Raises: Missing."""
    if isinstance(value, int) and value in NOT_AVAILABLE:
        raise Missing(Why.NOT_SUPPORTED, "NVML: value not available")
    return value


def flag(value: Json) -> bool:
    """NVML's 0 and 1 as a boolean."""
    if value not in (0, 1):
        raise ValueError(f"expected 0 or 1, got {value!r}")
    return bool(value)


def thousandth(value: Json) -> float:
    """Watts of milliwatts, GT/s of MT/s."""
    return float(value) / 1000


def item(index: int | str, then: Take | None = None) -> Take:
    """One element of a list or structure."""

    def take(value: Json) -> Json:
        element = available(value[index])
        return element if then is None else then(element)

    return take


def named(names: Sequence[str] | Mapping[int, str]) -> Take:
    """The name of an enumeration's number; one that NVML added later is `unknown_N`."""
    table = dict(names) if isinstance(names, Mapping) else dict(enumerate(names))

    def take(value: Json) -> str:
        if not isinstance(value, int):
            raise TypeError(f"expected a number, got {type(value).__name__}")
        return table.get(value, f"unknown_{value}")

    return take


def bit_names(names: Mapping[int, str]) -> Take:
    """The sorted names of the bits that are set; one that NVML added later is `bit_N`."""

    def take(value: Json) -> list[str]:
        if not isinstance(value, int) or value < 0:
            raise TypeError(f"expected a mask, got {value!r}")
        return sorted(names.get(1 << n, f"bit_{n}") for n in range(value.bit_length()) if value >> n & 1)

    return take


def mask_ranges(words: Json) -> str:
    """A mask in 64-bit words, lowest first, as ranges."""
    return cpu_ranges(64 * i + bit for i, word in enumerate(words) for bit in range(64) if word >> bit & 1)


def gpu_count(host: Host) -> int:
    """How many GPUs NVML sees. Raises: Missing where there is no NVML, and why."""
    count = host.memo("nvml.gpu_count", lambda: value_of(host.found([["nvml", "nvmlDeviceGetCount"]])[0]))
    if not isinstance(count, int) or not 0 <= count <= 1024:
        raise ValueError(f"NVML counts {count!r} GPUs")
    return count
