"""Blocks of planted causes: the servers of a block side by side, each a fresh one, measured in random order.

What only the client does is measured on the usual state's server. The engine's checkout stands, while a server is
measured, where it stood when that server was started, with the same times of its files.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from envsnap.reading import Json
from tests.benchmarks.planted.trials import BASELINE, Board, Task, alone, exported, groups_of, levers_of, tasks
from tests.engine.checkout import BASE
from tests.engine.h200.fleet import Fleet, Spec
from tests.engine.h200.lab import REHEARSED, Step
from tests.engine.h200.looking import quietest
from tests.engine.h200.place import TURN, Place, on_cards
from tests.engine.h200.shapes import LOADS, Load
from tests.engine.h200.tree import has_git, stand
from tests.engine.h200.waves import STOP, Part, Standing, size_of, wave
from tests.engine.plants import H200, Plant

ONE_RANK = (
    "nothing", "nothing-again", "graphs-off", "slow-commit", "stale-server", "argument", "debug-variable",
    "foreign-gpu", "cpu-hog", "other-prompts", "prefix-warm", "spec-steps", "topk",
)  # fmt: skip
TWO_RANKS = ("nothing-2", "one-rank", "rank-affinity", "p2p-disable", "nccl-proto", "nccl-lost")
"""The plants that are measured, by their worth: where memory is short, the last ones are left out."""
MEASURE = 9.0
"""Seconds of a run with its captures, on average of all plants: some run at a fifth of the usual speed."""
NO_TIME = "there was no time left"
SLOW = 30.0
"""Seconds of the longest run."""


@dataclass(frozen=True)
class Block:
    """What one block measures: its tasks by random order, with the cards of each group, and what found no room."""

    number: int
    tasks: tuple[Task, ...]
    cards: Mapping[str, tuple[int, ...]]
    left_out: tuple[str, ...]
    each: float
    """Seconds of a run, on average."""

    @property
    def seconds(self) -> float:
        """What it takes."""
        return self.each * sum(len(task.plants) for task in self.tasks)


def blocks(place: Place, numbers: Sequence[int], ranks: int = 1) -> list[Step]:
    """One wave of these blocks, if one of them is left: a block a card, of two ranks one on both."""
    numbers = [n for n in numbers if not place.lab.is_done(name_of(n, ranks))]
    if ranks > place.gpus or not numbers or not groups(ranks, place.only):
        return []
    load, room = load_of(place), place.room()
    made = [block_of(place, load, number, ranks, room) for number in numbers]
    if not all(block.tasks for block in made):
        return [Step(name_of(n, ranks), 0.0, _no_room) for n in numbers]
    site = _Site(place, load)
    parts = [Part(name_of(b.number, ranks), b.seconds, site.servers(b), partial(site.measure, b)) for b in made]
    return wave(place, f"wave/plants/{ranks}/{'+'.join(map(str, numbers))}", parts, site.stand)


def _no_room() -> Json:
    raise ValueError("memory does not suffice for one usual state")


def name_of(number: int, ranks: int) -> str:
    """Of a block's result."""
    return f"plants/{ranks}/{number}"


def load_of(place: Place) -> Load:
    """What blocks are measured with: the named load, or that of the blocks that are done, or the quietest."""
    if place.load:
        return place.load
    for name in place.lab.results:
        told = place.lab.found(name) if name.startswith("plants/") else None
        if told and told != REHEARSED:
            return next(offered for offered in LOADS if offered.name == told["load"])
    return quietest(place)


def block_of(place: Place, load: Load, number: int, ranks: int, room: Sequence[float]) -> Block:
    """A block's tasks: as many of its plants as find room, each group on one card, or on two by ranks."""
    size = size_of(place, load.shape.bytes(ranks))
    left = list(room)
    cards: dict[str, tuple[int, ...]] = {}
    found: list[Task] = []
    left_out: list[str] = []
    for group, plants in groups(ranks, place.only).items():
        offered: list[tuple[int, ...]] = [((number + i) % len(room),) for i in range(len(room))]
        if ranks == 2:
            offered = [(0, 1)]
        fits = [c for c in offered if _most(left, c, size) >= 1 + _servers(plants)]
        chosen = fits[0] if fits else max(offered, key=lambda c: _most(left, c, size))
        kept = _cut(plants, _most(left, chosen, size) - 1)
        left_out += [p.id for p in plants if p not in kept]
        if not kept:
            continue
        cards[group] = chosen
        found += tasks(number, H200, group, kept)
        for card in chosen:
            left[card] -= size * (1 + _servers(kept))
    random.Random(f"{number} {ranks}").shuffle(found)
    return Block(number, tuple(found), cards, tuple(left_out), 1.1 * place.lab.learnt.get("measure", MEASURE))


def groups(ranks: int, only: Sequence[str] = ()) -> dict[str, list[Plant]]:
    """The plants that are measured, by what they share a usual state with, the worthiest first."""
    worth = only or {1: ONE_RANK, 2: TWO_RANKS}[ranks]
    found = {}
    for group, plants in groups_of(H200).items():
        kept = [p for p in plants if p.id in worth and p.ranks == ranks and (has_git() or not _needs_code(p))]
        if kept:
            found[group] = sorted(kept, key=lambda p: worth.index(p.id))
    return found


def _needs_code(plant: Plant) -> bool:
    """Whether it is a commit, for which there has to be a checkout."""
    lever = plant.levers[H200]
    return bool(lever.edit or lever.stale)


def _servers(plants: Sequence[Plant]) -> int:
    """How many need a server of their own."""
    return sum(not p.levers[H200].on_client for p in plants)


def _most(room: Sequence[float], cards: Sequence[int], size: float) -> int:
    return int(min(room[card] for card in cards) // size)


def _cut(plants: Sequence[Plant], servers: int) -> list[Plant]:
    """The plants whose servers, the worthiest first, find room beside the usual state's; none where that has none."""
    if servers < 1:
        return []
    own = [p for p in plants if not p.levers[H200].on_client][:servers]
    return [p for p in plants if p in own or p.levers[H200].on_client]


def missed(place: Place) -> dict[str, str]:
    """Why a plant is missing in some block, in few words: what its server said lies in the results."""
    found: dict[str, str] = {}
    for name in place.lab.results:
        told = place.lab.found(name) if name.startswith("plants/") else None
        if not told or told == REHEARSED:
            continue
        found |= dict.fromkeys(told["no_room"], "no room on the card")
        for plant, reason in told["failed"].items():
            failed = "its server did not come up" if reason.startswith("Missing:") else "its run failed"
            found[plant] = reason if reason == NO_TIME else failed
    return found


class _Site:
    """The board that the runs of a wave go to."""

    def __init__(self, place: Place, load: Load) -> None:
        self.place, self.load = place, load

    @cached_property
    def board(self) -> Board:
        """The board, made when the first server is wanted."""
        made = Board(self.place.lab.folder, self.place.bench(self.load))
        made.checkout = self.place.checkout
        made.clear()
        return made

    def stand(self, code: str) -> None:
        """Put the checkout where servers of that code are started."""
        stand(self.place.checkout, code)

    def servers(self, block: Block) -> tuple[Standing, ...]:
        """A server for each task."""
        return tuple(self._server(block, task) for task in block.tasks)

    def _server(self, block: Block, task: Task) -> Standing:
        lever, cards = levers_of(task, H200)[0], block.cards[task.group]
        spec = Spec(
            task.names[0], lambda port: self.board.bench.command(port, task.ranks, lever),
            lambda: self.environment(task, cards), lever.stale or lever.edit or BASE, lever.rank_cpus,
        )  # fmt: skip
        return Standing(spec, cards, self.load.shape.bytes(task.ranks))

    def environment(self, task: Task, cards: tuple[int, ...]) -> dict[str, str]:
        """What the shell of a task's server exports: with what the machine needs to find its driver."""
        usual = self.board.environment(levers_of(task, H200)[0], task.ranks, task.simulated)
        return {**self.place.plain(), **usual, **on_cards(cards)}

    def measure(self, block: Block, fleet: Fleet) -> Json:
        """Measure a block, from its beginning, since another machine may have begun it; one at a time."""
        board, lab = self.board, self.place.lab
        for group in block.cards:
            board.forget(f"{block.number}/{group}/")
        failed: dict[str, str] = {}
        began = lab.left
        for planned in block.tasks:
            task = planned
            if lab.left < SLOW + STOP + MEASURE:
                # Without its usual state a block is worth nothing: of what is left that alone is measured.
                failed |= dict.fromkeys((p for p in task.plants if p != BASELINE), NO_TIME)
                task = replace(task, plants=tuple(p for p in task.plants if p == BASELINE))
            try:
                if task.plants:
                    self._take(task, planned.names[0], block.cards[task.group], fleet)
            except Exception as error:  # one server must not take the block with it
                failed |= dict.fromkeys(task.plants, f"{type(error).__name__}: {str(error)[-600:]}")
        names = [name for task in block.tasks for name in task.names]
        if not any(name.endswith(f"/{BASELINE}") for name in names if name in board.done):
            raise RuntimeError(f"there is no usual state to compare with: {failed or 'its benchmark failed'}")
        done = [n for n in names if n in board.done]
        if not failed:
            lab.learn("measure", (began - lab.left) / len(done))
        return {"load": self.load.name, "runs": {n: board.done[n] for n in done},
                "failed": failed, "no_room": list(block.left_out)}  # fmt: skip

    def _take(self, task: Task, server_name: str, cards: tuple[int, ...], fleet: Fleet) -> None:
        """Raises: Missing, OSError, SessionError."""
        server, lever = fleet.server(server_name), levers_of(task, H200)[0]
        stand(self.place.checkout, lever.edit or BASE, moved=lever.stale)
        try:
            with alone(str(TURN)), exported(self.environment(task, cards)):
                self.board.take(task, server)
        finally:
            stand(self.place.checkout, BASE)
