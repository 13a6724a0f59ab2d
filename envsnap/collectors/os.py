"""Operating system: distribution, C library, names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Lever, Type
from envsnap.reading import Found, Missing, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "/etc/os-release, confstr, uname, /proc/1/comm"

_LAUNCH = (Effect.HOST_LAUNCH,)

KEYS = (
    Key("os.distribution", Type.STRING, Kind.IDENTITY, "Id of the distribution, such as ubuntu.", _LAUNCH, 0.1),
    Key("os.distribution_version", Type.STRING, Kind.IDENTITY, "Version of the distribution.", _LAUNCH, 0.1),
    Key("os.distribution_title", Type.STRING, Kind.IDENTITY, "Distribution and point release as it names itself.",
        _LAUNCH, 0.05),
    Key("os.libc", Type.STRING, Kind.IDENTITY, "C library of the interpreter that captures: glibc or musl.",
        _LAUNCH, 0.2, Lever.PACKAGE),
    Key("os.libc_version", Type.STRING, Kind.IDENTITY, "Version of the C library.", _LAUNCH, 0.1, Lever.PACKAGE),
    Key("os.architecture", Type.STRING, Kind.IDENTITY, "Instruction set architecture of the running kernel.",
        (Effect.COMPUTE,), 0.3),
    Key("os.init", Type.STRING, Kind.IDENTITY, "Name of process 1; in a container often the program itself.",
        (), 0.02),
    Key("os.timezone", Type.STRING, Kind.TUNABLE, "Time zone of log files.", (), 0.01),
    Key("os.hostname", Type.STRING, Kind.LABEL, "Name of the host."),
    Key("os.machine_id", Type.STRING, Kind.LABEL, "Random id of this installation."),
)  # fmt: skip

_RELEASE = {
    "os.distribution": "ID",
    "os.distribution_version": "VERSION_ID",
    "os.distribution_title": "PRETTY_NAME",
}


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    uname, libc, zone, *texts = host.found(
        [
            ["uname"],
            ["confstr", "CS_GNU_LIBC_VERSION"],
            ["link", "/etc/localtime"],
            *(["read", path, 65536] for path in ("/etc/os-release", "/usr/lib/os-release", "/etc/timezone")),
            *(["read", path, 4096] for path in ("/proc/1/comm", "/etc/machine-id")),
        ]
    )
    etc_release, usr_release, etc_timezone, init, machine_id = texts
    release = attempt(
        lambda: parse_os_release(value_of(etc_release if isinstance(etc_release, Value) else usr_release))
    )
    for path, field in _RELEASE.items():
        yield path, attempt(_field, release, field)
    yield from _libc(host, libc)
    yield "os.architecture", attempt(lambda: value_of(uname)["machine"])
    yield "os.init", attempt(lambda: value_of(init).strip())
    yield "os.timezone", attempt(_timezone, zone, etc_timezone)
    yield "os.hostname", attempt(lambda: value_of(uname)["node"])
    yield "os.machine_id", attempt(lambda: value_of(machine_id).strip())


def parse_os_release(text: str) -> dict[str, str]:
    """The assignments of an os-release file, unquoted."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            if value[:1] in ("'", '"') and value[-1:] == value[:1]:
                value = re.sub(r"\\(.)", r"\1", value[1:-1])
            found[name] = value
    return found


def _field(release: Found, name: str) -> str:
    fields = value_of(release)
    if name not in fields:
        raise Missing(Why.ABSENT, f"os-release has no {name}")
    return str(fields[name])


def _libc(host: Host, glibc: Found) -> Iterator[tuple[str, Found]]:
    known = isinstance(glibc, Value) and glibc.value
    named = attempt(lambda: value_of(glibc).split(maxsplit=1)) if known else attempt(_musl, host)
    for place, path in enumerate(("os.libc", "os.libc_version")):
        yield path, attempt(lambda place=place: value_of(named)[place])


def _musl(host: Host) -> list[str]:
    """musl tells its version when its loader is run without a program."""
    loaders = host.glob("/lib/ld-musl-*.so.1")
    if not loaders:
        raise Missing(Why.NOT_SUPPORTED, "neither glibc nor musl")
    _, _, text = host.run([loaders[0]], timeout=2.0, limit=65536)
    match = re.search(r"^Version (\S+)$", text, re.M)
    if not match:
        raise Missing(Why.NOT_SUPPORTED, f"{loaders[0]} does not tell its version")
    return ["musl", match.group(1)]


def _timezone(link: Found, text: Found) -> str:
    if isinstance(link, Value) and "zoneinfo/" in str(link.value):
        return str(link.value).split("zoneinfo/", 1)[1]
    return str(value_of(text)).strip()
