"""Clock: whether the kernel's idea of the time is kept in step with the world's."""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Type
from envsnap.reading import Found, attempt
from envsnap.scope import Scope

METHOD = "adjtimex(2)"

KEYS = (
    Key("clock.synchronised", Type.BOOLEAN, Kind.VOLATILE,
        "Whether something (NTP, PTP, the hypervisor's clock) keeps the clock in step.", (Effect.VALIDITY,), 0.1,
        advice="Logs and traces of several hosts cannot be joined otherwise; start chronyd or systemd-timesyncd."),
    Key("clock.error_seconds", Type.NUMBER, Kind.VOLATILE,
        "By how much the clock can be wrong at most, by the kernel's account.", (Effect.VALIDITY,), 0.1, rel_tol=1.0),
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    clock = host.found([["clock"]])[0]
    yield "clock.synchronised", attempt(lambda: bool(value_of(clock)["synchronised"]))
    yield "clock.error_seconds", attempt(lambda: float(value_of(clock)["error_us"]) / 1e6)
