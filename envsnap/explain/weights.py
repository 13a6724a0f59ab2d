"""The weights of the ranking: one table, with where each figure comes from.

A suspect's score is a sum of log odds: the prior of its key, its class, and each piece of evidence. Sources:

    board      tests/benchmarks/attribution, with the category left out that a figure was set from
    reports    counts over public reports of changed inference speed, by the category of their cause
    papers     named at the figure
    physics    follows from the speed model
    judgement  nothing better is known; kept small
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

STRONG = 3.0
"""Log odds of a clue that nearly settles it (20 to 1). Board: 5, among innocents that were chosen to be harmless."""
FAIR = 1.7
"""Log odds of a clue that makes a cause clearly likelier (5 to 1). Board: 2 to 5."""
WEAK = 0.5
"""Log odds of a hint (5 to 3). Board: 0.5 to 1."""


@dataclass(frozen=True)
class Weight:
    """Log odds, and in words where they come from."""

    odds: float
    source: str


CLASSES: dict[str, Weight] = {
    "communication": Weight(
        0.2, "papers: Greyhound (ATC'25), 40 % of slow large jobs against 2 %; board: 0.0 of 17 cases"
    ),
    "engine_path": Weight(
        0.3, "board: 0.25 of 4 cases; reports: CUDA graphs (276 against 378 tok/s), attention, speculation"
    ),
    "engine": Weight(0.1, "board: 0.1 of 7 cases"),
    "code": Weight(-0.2, "board: -0.2 of 1 case"),
    "library": Weight(-0.2, "board: -0.2 of 4 cases"),
    "workload": Weight(-0.2, "board: -0.2 of 4 cases"),
    "clocks": Weight(0.0, "board: 0.0 of 2 cases; papers: SM clock against decode speed r = 0.96"),
    "neighbour": Weight(0.1, "board: 0.1 of 2 cases; reports: +42 % from a foreign process on the GPU"),
    "driver": Weight(-0.2, "board: as often innocent as a cause; reports: 3 of 50"),
    "pcie": Weight(
        0.0, "board: 0.0 of 1 case; reports: a narrow link did nothing to one GPU (38.2 against 38.5 tok/s)"
    ),
    "host": Weight(0.1, "board: 0.1 of 12 cases"),
    "power": Weight(-1.0, "papers: decoding draws 137 to 300 of 700 W, so that no cap acts (arXiv 2605.11999)"),
    "cosmetic": Weight(-1.0, "judgement: a key with a prior of 0.05 or less"),
}
"""What the class of a suspect adds to its key's prior, which says most of it. Board: how much oftener a cause is of the
class than the priors of the keys alone would have it, shrunk by three cases."""

SHARPNESS = 1.2
"""Exponent on a key's prior: a prior of 0.8 stands to one of 0.2 as 5 to 1, not as 4 to 1. Board."""


@dataclass(frozen=True)
class Harms:
    """Evidence by which value is the slow one."""

    severe: float = 3.0
    """Towards a value that nobody has set who wants speed: rare among innocent changes. Board."""
    slow: float = 1.7
    """Towards the slower value: every second innocent change of such a setting goes that way (log 2, physics), and most
    that differ have no slower value at all. Board: 1.9."""
    fast: float = -2.5
    """Towards the faster value: a cause does not, but for surprises (1 in 10). Reports: one of 50 went that way."""
    fast_depends: float = -1.0
    """The same where it depends on the GPU, the topology, the load or the metric which value that is. Judgement."""
    fast_guessed: float = -0.7
    """The same by its name alone: a feature may cost. Judgement."""
    guessed: float = 0.7
    """Towards what is slower by its name alone (DISABLE, ENABLE). Board: 2.5, by few."""
    gone: float = 0.3
    """A setting that somebody had made for speed is gone. Judgement; the board has it at innocents alone."""
    gone_together: float = 1.0
    """For each beyond two of them: a file that is not sourced any more. Board: two are gone by chance. Judgement."""
    unknown: float = -0.7
    """A setting of which no value is known to be slow, though the tables are broad and hold most causes. Board."""
    harmless: float = -2.5
    """It does not act on a step's work, or not in this setting. Judgement."""


@dataclass(frozen=True)
class Releases:
    """Evidence by how far a version moved. Reports: of 12 causes that are releases 11 are another minor or major one,
    while most updates that do nothing are bug fixes. Board, where innocent releases are of any size: 0.4, 0.5, -1.7.
    """

    major: float = 1.0
    minor: float = 0.6
    early: float = -0.5
    """Before 1.0 the last number counts features too (semantic versioning): between a fix and a minor. Judgement."""
    fix: float = -1.5
    build: float = -0.7


@dataclass(frozen=True)
class Mechanism:
    """Evidence by which terms of the speed model moved, and by the setting. Physics but for the sizes: judgement."""

    cannot: float = -2.5
    """It acts on terms alone that did not move."""
    unlikely: float = -1.2
    """It acts mostly on terms that did not move."""
    fits: float = 0.1
    """It acts on the term that moved, as many others do."""
    fits_closely: float = 1.2
    """It acts on the term that moved, as few others do (acceptance, prefill)."""
    alone: float = -3.0
    """It acts on the exchange between ranks where there is one rank, or on speculation where there is none."""
    beside_nvlink: float = -1.0
    """It acts on PCIe between GPUs that NVLink joins."""
    control_cannot: float = -2.0
    """It could not have moved the control pair, which moved."""
    control_too: float = -1.2
    """It would have moved the control pair as much, which moved less."""
    control_fits: float = 0.5
    """It explains why one pair moved more than the other."""
    shows: float = 0.7
    """Utilisation and power under load moved as it would move them."""
    shows_other: float = -2.0
    """They moved as something else would move them. Board: -3.5."""
    shows_host: float = -0.7
    """The same where GPUs wait for the host, which much can bring about."""
    shows_idle: float = -1.5
    """GPUs idle, and it acts on the exchange between ranks, which keeps them busy while they wait. Physics."""
    failed: float = 0.5
    """The runs failed, and it acts on the exchange between ranks, where hangs and crashes come from. Reports."""


@dataclass(frozen=True)
class Bounds:
    """Evidence by how large an effect physics allows."""

    too_small: float = -3.0
    """It explains nothing of the slowdown; in proportion where it explains a part. Physics."""
    too_large: float = -1.5
    """It makes more than was seen. Judgement."""
    same_size: float = 2.5
    """What was measured of it is as large as the slowdown, within a quarter. Physics, board."""
    within: float = 0.25


@dataclass(frozen=True)
class Consequences:
    """Where a cause and what it brings about both changed. Judgement."""

    cause: float = 1.0
    """Something changed that this would bring about."""
    consequence: float = -1.5
    """It follows from another change that is likely by itself."""
    least: float = 1.2
    """A piece of evidence of its own that a cause needs, so that not everything is one."""


@dataclass(frozen=True)
class History:
    """Evidence by earlier sessions (statistics: rank 1 in 71 to 100 % of simulations from 10 mixed sessions on)."""

    most: float = 4.0
    spread: float = 0.03
    """Least standard deviation between sessions of one configuration. Two identical servers were seen 17 % apart."""


@dataclass(frozen=True)
class Churn:
    """A reading is expected to move by itself `moves` times in `pairs` repeats before any was seen (2 %). Judgement."""

    moves: float = 0.2
    pairs: float = 10.0
    most: float = 3.0


@dataclass(frozen=True)
class Rarity:
    """Evidence by how many earlier states had the slow value (PeerPressure, OSDI'04: rank 1 in 12 of 20 cases)."""

    least: int = 3
    most: float = 1.0
    smallest: float = 0.3


@dataclass(frozen=True)
class Nulls:
    """The two hypotheses that no captured change is the cause."""

    not_reproducible: float = 0.28
    """Share of slowdowns that do not come back. FACF (ICST'23): 40 % of breakages had no culprit; fewer of those that
    somebody reports. Board."""
    outside: float = 0.21
    """Share of causes that no snapshot holds. Reports: of 50, 4 need a probe or the client, and of 4 more no cause was
    found; twice as many among those that nobody reports, since nothing came of them. Board: with it the cases without a
    culprit are told from the others. It leads where nothing that was captured has both a mechanism that fits and
    evidence of its own."""
    outside_unread: float = 0.3
    """What is added where everything that causes come from is unread on a side; in proportion for less. Judgement."""
    session: float = 0.05
    """Scale of the gap between two sessions of one configuration, as a logarithm, where their spread is not known. With
    heavy tails: 17 % apart in 3 of 100 pairs. Papers (session spread 5 %), and two identical servers 17 % apart."""
    decided: float = -2.7
    """At least that where the verdict is DIFFERENT: it errs in 4 of 100, and finds a cause in 60 or more. Board of the
    verdict."""
    steady: float = 1.7
    """Decoding was shown to be the same, so that only what acts before it is left. Reports: of 50 causes
    3 act on the time to the first token alone; less than that, since few reports hold both figures. Judgement."""
    failed: float = -2.5
    """Every run of one side failed and some of the other did not. Judgement."""
    effect: float = 0.35
    """Mean of the logarithm of true slowdowns, which are taken as exponentially distributed. Reports."""
    coverage: float = 1.5
    """How much of the prior of all changes counts as the chance that a cause is among them. So much that a commit that
    alone differs comes before what nobody captured. Judgement; of many changes nothing depends on it."""
    eliminated: float = 0.25
    """What evidence against a change takes from it as a rival of the others, as a power of its odds: the fourth root,
    since such evidence may be wrong of a machine that nobody has seen. Board, with 10 and with 40 innocent changes."""


TIE = 0.15
"""Scores closer than this are a tie: no evidence separates them."""


@dataclass(frozen=True)
class Weights:
    """All of them, so that a benchmark can judge the ranking without some."""

    classes: Mapping[str, Weight] = field(default_factory=lambda: CLASSES)
    sharpness: float = SHARPNESS
    harms: Harms = Harms()
    releases: Releases = Releases()
    mechanism: Mechanism = Mechanism()
    bounds: Bounds = Bounds()
    consequences: Consequences = Consequences()
    history: History = History()
    churn: Churn = Churn()
    rarity: Rarity = Rarity()
    nulls: Nulls = Nulls()


WEIGHTS = Weights()
