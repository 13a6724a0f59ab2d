"""A wave: servers side by side, measured one after the other while the rest are idle, part by part as time is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from envsnap.reading import Json
from tests.engine.checkout import BASE
from tests.engine.h200.fleet import Fleet, Spec, Stand, side_by_side
from tests.engine.h200.lab import Step
from tests.engine.h200.place import Place
from tests.engine.h200.tree import is_made

START = 105.0
"""Seconds until all are ready, before any was started: what was seen of one server with nothing compiled."""
COLD = 60.0
"""Seconds more where the first one has to compile, and the others wait for it."""
CODE = 40.0
"""Seconds until servers of a changed commit have read it, and the checkout may move on."""
CHECKOUT = 15.0
"""Seconds until the engine's checkout is made, once on a machine."""
STOP = 8.0
"""Seconds until all have ended."""
LIMIT = 240.0
"""Seconds after which a server is given up."""
SEVERAL = 4
"""Servers from which it is learnt how long a wave takes to start: few are ready sooner."""
GROWS = 1.25
"""How much larger servers are taken for, once some did not come up for lack of memory."""


@dataclass(frozen=True)
class Standing:
    """A server of a wave: what to start, the cards it is on, and bytes that it takes on each of them."""

    spec: Spec
    cards: tuple[int, ...]
    bytes: float


@dataclass(frozen=True)
class Part:
    """What is measured of some servers. It is left out where it is not `wanted` any more."""

    name: str
    seconds: float
    servers: tuple[Standing, ...]
    work: Callable[[Fleet], Json]
    wanted: Callable[[], bool] = lambda: True


def wave(place: Place, name: str, parts: Sequence[Part], stand: Stand | None = None) -> list[Step]:
    """The step of a wave, if any of its parts is left. `stand` is as in `side_by_side`."""
    left = [p for p in parts if not place.lab.is_done(p.name) and p.wanted()]
    if not left:
        return []
    learnt = place.lab.learnt
    stages = len({s.spec.code for p in left for s in p.servers} - {BASE})
    seconds = learnt.get("start", START) + stages * learnt.get("code", CODE) + COLD * place.is_cold + STOP
    seconds += 0.0 if is_made(place.engine) else CHECKOUT
    return [Step(name, seconds, lambda: _work(place, left, stand), {p.name: p.seconds for p in left})]


def _work(place: Place, parts: Sequence[Part], stand: Stand | None) -> Json:
    lab = place.lab
    chosen = fitting(place, parts)
    servers = {s.spec.name: s.spec for p in chosen for s in p.servers}
    specs = sorted(servers.values(), key=lambda spec: spec.code != BASE)  # the first one compiles for all
    lab.say(f"{len(specs)} servers side by side: {', '.join(servers)}")
    cold = place.is_cold
    limit = min(LIMIT, max(lab.left - STOP, 1.0))
    with side_by_side(specs, lab.folder, limit, pioneer=cold, stand=stand) as fleet:
        _learn(place, fleet, specs[1:] if cold else specs)
        if fleet.servers:
            place.warmed()
        for part in chosen:
            if not part.wanted():
                continue
            if part.seconds + STOP > lab.left:
                lab.say(f"{part.name} needs {part.seconds:.0f} s and {lab.left:.0f} s are left: for the next call")
                continue
            lab.attempt(part.name, lambda part=part: part.work(fleet))  # type: ignore[misc]
    return None


def _learn(place: Place, fleet: Fleet, specs: Sequence[Spec]) -> None:
    """How long they took, and whether they were larger than was reckoned."""
    lab = place.lab
    for name, reason in fleet.failed.items():
        lab.say(f"{name} did not come up: {reason.strip().splitlines()[-1][:300] if reason.strip() else '?'}")
    if took := [fleet.seconds[s.name] for s in specs if s.name in fleet.seconds]:
        if len(specs) >= SEVERAL:
            lab.learn("start", 1.15 * max(took))
        lab.say(f"ready after {min(took):.0f} to {max(took):.0f} s")
    if fleet.code_seconds:
        lab.learn("code", 1.15 * fleet.code_seconds)
    if short := fleet.short_of_memory:
        lab.learn("size", lab.learnt.get("size", 1.0) * GROWS)
        lab.say(f"memory did not suffice for {', '.join(short)}: fewer side by side from now on")


def fitting(place: Place, parts: Sequence[Part]) -> list[Part]:
    """The parts whose servers find room beside each other, in their order. Raises: ValueError where none does."""
    room, held = place.room(), set[str]()
    chosen: list[Part] = []
    for part in parts:
        new = [s for s in part.servers if s.spec.name not in held]
        taken = taken_of(place, new)
        if any(taken.get(card, 0.0) > free for card, free in enumerate(room)):
            place.lab.say(f"{part.name} finds no room beside the others: it has to wait")
            continue
        room = [free - taken.get(card, 0.0) for card, free in enumerate(room)]
        held |= {s.spec.name for s in new}
        chosen.append(part)
    if not chosen:
        needed = ", ".join(f"{b / 1e9:.0f} GB" for b in taken_of(place, parts[0].servers).values())
        raise ValueError(
            f"memory does not suffice: {needed} needed, {', '.join(f'{r / 1e9:.0f} GB' for r in room)} free"
        )
    return chosen


def taken_of(place: Place, servers: Sequence[Standing]) -> Mapping[int, float]:
    """Bytes that servers take on each card, as far as is known."""
    taken: dict[int, float] = {}
    for server in servers:
        for card in server.cards:
            taken[card] = taken.get(card, 0.0) + size_of(place, server.bytes)
    return taken


def size_of(place: Place, reckoned: float) -> float:
    """Bytes that a server is taken for, by what was seen."""
    return reckoned * place.lab.learnt.get("size", 1.0)
