"""GPU device files: who holds them open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from envsnap.collectors import Partial
from envsnap.host import Host
from envsnap.keys import Effect, Key, Kind, Type, path_of
from envsnap.reading import Found, Json, Missing, Unavailable, Value, Why
from envsnap.scope import Scope

METHOD = "/dev, /proc/PID/fd"

PREFIX = "/dev/nvidia"
DIRECTORIES = ("/dev/nvidia-caps", "/dev/nvidia-caps-imex-channels")
EFFECTS = (Effect.COMPUTE, Effect.MEMORY, Effect.VALIDITY)

HOLDERS = Key(
    "gpu_device[].holders", Type.STRINGS, Kind.VOLATILE,
    "Names of the processes seen to hold the device file open, other than the one that captured.", EFFECTS, 0.4,
    advice="Leftovers of an earlier run keep memory and time of the GPU: end them before measuring.",
)  # fmt: skip
HOLDER_COUNT = Key(
    "gpu_device[].holder_count", Type.INTEGER, Kind.VOLATILE,
    "How many processes hold the device file open, other than the one that captured.", EFFECTS, 0.4,
)  # fmt: skip
KEYS = (HOLDERS, HOLDER_COUNT)


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings. Raises: Missing where there is no device file, Partial where not all could be seen."""
    devices = [path for path in host.glob(PREFIX + "*") if path not in DIRECTORIES]
    if not devices:
        raise Missing(Why.ABSENT, f"no {PREFIX}* here")
    found = host.one("holders", PREFIX)
    holders: dict[str, list[str]] = defaultdict(list)
    for holder in found["holders"]:
        for path in holder["files"]:
            holders[path].append(holder["comm"])
    unseen = _unseen(found)
    for path in devices:
        name = path.rpartition("/")[2]
        seen = sorted(holders[path])
        yield path_of(HOLDERS.pattern, name), Value(seen) if seen or not unseen else unseen
        yield path_of(HOLDER_COUNT.pattern, name), unseen or Value(len(seen))
    if unseen:
        raise Partial(unseen.detail)


def _unseen(found: dict[str, Json]) -> Unavailable | None:
    """Why holders may be missing from what was found, if any may."""
    if found["denied"]:
        total = found["denied"] + found["looked"]
        return Unavailable(Why.DENIED, f"{found['denied']} of {total} processes cannot be looked into without root")
    if not found["complete"]:
        return Unavailable(Why.TOO_LARGE, f"the search ended after {found['looked']} processes")
    return None
