"""A collector made up for tests of what lies behind collectors: one key of every kind and type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envsnap.host import Host
from envsnap.keys import At, Effect, Key, Kind, Lever, Type
from envsnap.reading import Found, Json, Unavailable, Why
from envsnap.scope import Scope
from envsnap.snapshot import Section, Snapshot

METHOD = "made up"

KEYS = (
    Key("probe.model", Type.STRING, Kind.IDENTITY, "Model of the probe.", (Effect.COMPUTE,), 0.3),
    Key("probe.limit_watts", Type.INTEGER, Kind.TUNABLE, "Power the probe may draw.",
        (Effect.COMPUTE,), 0.2, Lever.ROOT, "Raise it."),
    Key("probe.ratio", Type.NUMBER, Kind.TUNABLE, "A ratio.", rel_tol=0.01),
    Key("probe.enabled", Type.BOOLEAN, Kind.TUNABLE, "Whether it is on."),
    Key("probe.clock_mhz", Type.INTEGER, Kind.CONDITION, "Clock under load.", (Effect.COMPUTE,), 0.5),
    Key("probe.errors_count", Type.INTEGER, Kind.COUNTER, "Errors so far.", (Effect.VALIDITY,)),
    Key("probe.temperature_celsius", Type.INTEGER, Kind.VOLATILE, "Its temperature.", abs_tol=5),
    Key("probe.serial", Type.STRING, Kind.LABEL, "Its serial number."),
    Key("probe.arguments", Type.OBJECT, Kind.TUNABLE, "Arguments of the server.", (Effect.VERIFY,), 0.6),
    Key("probe.patch", Type.TEXT, Kind.IDENTITY, "A patch.", (Effect.VERIFY,), 0.4),
    Key("probe.flags", Type.STRINGS, Kind.IDENTITY, "Flags.", (Effect.COMPUTE,)),
    Key("card[].driver", Type.STRING, Kind.IDENTITY, "Driver of a card.", (Effect.COMPUTE,), 0.4),
    Key("card[].limit_watts", Type.INTEGER, Kind.TUNABLE, "Power a card may draw.", (Effect.COMPUTE,), 0.2),
    Key("card[].clock_mhz", Type.INTEGER, Kind.CONDITION, "Clock of a card under load.", (Effect.COMPUTE,), 0.5),
    Key("card[].link[].speed_gts", Type.NUMBER, Kind.IDENTITY, "Speed of a link.", (Effect.COMMUNICATION,), 0.4),
    Key("role[].env[]", Type.STRING, Kind.TUNABLE, "A variable of a worker.", lever=Lever.ENV, at=(
        At("NCCL_*", prior=0.8, effects=(Effect.COMMUNICATION,), advice="Set it alike everywhere."),
        At("PWD", kind=Kind.VOLATILE),
    )),
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield nothing."""
    yield from ()


def section(values: Mapping[str, Json] | None = None, **fields: Any) -> Section:
    """A section of the probe; complete and ok unless told otherwise."""
    return Section(
        **{"status": "ok", "complete": True, "seconds": 0.1, "method": METHOD, **fields, "values": dict(values or {})}
    )


def snapshot(
    values: Mapping[str, Json] | None = None, *, moment: str = "standalone", envsnap: str = "1", **fields: Any
) -> Snapshot:
    """A snapshot with the probe's section alone."""
    return Snapshot("2026-01-01T00:00:00.000+00:00", {"probe": section(values, **fields)}, envsnap, moment)


def denied(detail: str = "") -> Unavailable:
    """What this user may not read."""
    return Unavailable(Why.DENIED, detail)


def absent(detail: str = "") -> Unavailable:
    """What is not there."""
    return Unavailable(Why.ABSENT, detail)
