"""Kernel: release, command line, boot."""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.host import Host
from envsnap.keys import Effect, Key, Kind, Lever, Type
from envsnap.reading import Found, attempt
from envsnap.scope import Scope

METHOD = "uname, /proc"

KEYS = (
    Key("kernel.release", Type.STRING, Kind.IDENTITY, "Release of the running Linux kernel.",
        (Effect.HOST_LAUNCH,), 0.2, Lever.ROOT),
    Key("kernel.command_line", Type.STRING, Kind.TUNABLE, "Command line that the kernel was booted with.",
        (Effect.HOST_LAUNCH, Effect.COMMUNICATION), 0.2, Lever.ROOT),
    Key("kernel.boot_id", Type.STRING, Kind.LABEL, "Random id of this boot."),
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    yield "kernel.release", attempt(lambda: host.one("uname")["release"])
    yield "kernel.command_line", attempt(lambda: host.read("/proc/cmdline").strip())
    yield "kernel.boot_id", attempt(lambda: host.read("/proc/sys/kernel/random/boot_id").strip())
