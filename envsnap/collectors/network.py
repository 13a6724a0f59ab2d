"""Network: interfaces that can carry traffic between machines, routes, socket settings.

Recorded are interfaces of hardware, bonds, and whatever the default routes lead over (in a container that is a
virtual one). All other virtual interfaces come and go with containers under random names, and are only counted.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial

from envsnap.collectors._files import (
    FileFact,
    Files,
    Parse,
    integers,
    natural,
    parsed,
    pci_address,
    read_files,
    readings,
    stated,
)
from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Missing, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "/sys/class/net, /proc/net, /proc/sys/net"

_NET = "/sys/class/net"
_SYS = "/proc/sys/net"
_LINK = (Effect.COMMUNICATION,)
_SERVING = (Effect.COMMUNICATION, Effect.WORKLOAD)

_SETTINGS = (
    FileFact(Key("network.receive_buffer_max_bytes", Type.INTEGER, Kind.TUNABLE,
                 "Largest receive buffer that a program may ask for.", _SERVING, 0.15, Lever.ROOT),
             f"{_SYS}/core/rmem_max", natural),
    FileFact(Key("network.send_buffer_max_bytes", Type.INTEGER, Kind.TUNABLE,
                 "Largest send buffer that a program may ask for.", _SERVING, 0.15, Lever.ROOT),
             f"{_SYS}/core/wmem_max", natural),
    FileFact(Key("network.tcp_receive_buffer_bytes", Type.INTEGERS, Kind.TUNABLE,
                 "Least, default and largest receive buffer of a TCP connection.", _SERVING, 0.15, Lever.ROOT),
             f"{_SYS}/ipv4/tcp_rmem", integers),
    FileFact(Key("network.tcp_send_buffer_bytes", Type.INTEGERS, Kind.TUNABLE,
                 "Least, default and largest send buffer of a TCP connection.", _SERVING, 0.15, Lever.ROOT),
             f"{_SYS}/ipv4/tcp_wmem", integers),
    FileFact(Key("network.listen_backlog_count", Type.INTEGER, Kind.TUNABLE,
                 "Connections that may wait to be accepted at a port (somaxconn).", (Effect.WORKLOAD,), 0.15,
                 Lever.ROOT),
             f"{_SYS}/core/somaxconn", natural),
    FileFact(Key("network.device_backlog_count", Type.INTEGER, Kind.TUNABLE,
                 "Packets that may wait for a CPU when they arrive faster than they are handled.", _SERVING, 0.1,
                 Lever.ROOT),
             f"{_SYS}/core/netdev_max_backlog", natural),
    FileFact(Key("network.busy_poll_microseconds", Type.INTEGER, Kind.TUNABLE,
                 "How long poll and select spin on a device before they sleep.", _SERVING, 0.1, Lever.ROOT),
             f"{_SYS}/core/busy_poll", natural),
    FileFact(Key("network.queueing_discipline", Type.STRING, Kind.TUNABLE,
                 "Default order in which packets leave.", _SERVING, 0.1, Lever.ROOT),
             f"{_SYS}/core/default_qdisc"),
    FileFact(Key("network.tcp_congestion_control", Type.STRING, Kind.TUNABLE,
                 "Algorithm by which TCP finds its speed.", _SERVING, 0.2, Lever.ROOT),
             f"{_SYS}/ipv4/tcp_congestion_control"),
)  # fmt: skip

_ATTRIBUTES: tuple[tuple[Key, str, Parse], ...] = (
    (Key("network[].state", Type.STRING, Kind.TUNABLE, "Whether the interface works: up, down or unknown.", _LINK, 0.4),
     "operstate", stated),
    (Key("network[].speed_mbps", Type.INTEGER, Kind.IDENTITY, "Speed that the link came up with.", _LINK, 0.5,
         advice="Check cable and switch port if it is below what the card can do."),
     "speed", natural),
    (Key("network[].duplex", Type.STRING, Kind.IDENTITY, "Whether the link sends and receives at once: full or half.",
         _LINK, 0.2),
     "duplex", lambda text: _known(text)),
    (Key("network[].mtu_bytes", Type.INTEGER, Kind.TUNABLE,
         "Largest packet; unequal sizes along a path stall connections.", _LINK, 0.4, Lever.ROOT,
         "Set it with `ip link set DEVICE mtu 9000` on all hosts and switches."),
     "mtu", natural),
    (Key("network[].transmit_queue_count", Type.INTEGER, Kind.TUNABLE, "Packets that may wait to leave.", _LINK, 0.05,
         Lever.ROOT),
     "tx_queue_len", natural),
    (Key("network[].numa_node", Type.INTEGER, Kind.IDENTITY, "NUMA node that the card is attached to.", _LINK, 0.2),
     "device/numa_node", natural),
    (Key("network[].carrier_changes_count", Type.INTEGER, Kind.COUNTER, "Times that the link went up or down.",
         _LINK, 0.5),
     "carrier_changes", natural),
    (Key("network[].mac_address", Type.STRING, Kind.LABEL, "Hardware address."), "address", stated),
)  # fmt: skip

_BOND = (
    (Key("network[].bond_mode", Type.STRING, Kind.TUNABLE, "How a bond spreads traffic over its members.",
         _LINK, 0.3, Lever.ROOT),
     "bonding/mode", lambda text: text.split()[0]),
    (Key("network[].bond_members", Type.STRINGS, Kind.TUNABLE, "Interfaces that a bond is made of.",
         _LINK, 0.3, Lever.ROOT),
     "bonding/slaves", lambda text: sorted(text.split())),
    (Key("network[].bond_hash_policy", Type.STRING, Kind.TUNABLE, "What of a packet picks the member that sends it.",
         _LINK, 0.3, Lever.ROOT),
     "bonding/xmit_hash_policy", lambda text: text.split()[0]),
)  # fmt: skip

_COUNTERS = (
    (Key("network[].receive_errors_count", Type.INTEGER, Kind.COUNTER, "Packets that arrived broken.", _LINK, 0.4), 2),
    (Key("network[].receive_dropped_count", Type.INTEGER, Kind.COUNTER, "Packets that arrived and were dropped.",
         _LINK, 0.3), 3),
    (Key("network[].send_errors_count", Type.INTEGER, Kind.COUNTER, "Packets that could not be sent.", _LINK, 0.4), 10),
    (Key("network[].send_dropped_count", Type.INTEGER, Kind.COUNTER, "Packets that were dropped before they left.",
         _LINK, 0.3), 11),
)  # fmt: skip
"""Key and column of /proc/net/dev."""

KEYS = (
    *(fact.key for fact in _SETTINGS),
    *(key for key, *_ in (*_ATTRIBUTES, *_BOND, *_COUNTERS)),
    Key("network.default_route", Type.STRING, Kind.TUNABLE,
        "Interface of the default IPv4 route; NCCL and Gloo meet over it unless told otherwise.", _LINK, 0.4,
        Lever.ENV, "Name the interface in NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME."),
    Key("network.default_route_v6", Type.STRING, Kind.TUNABLE, "Interface of the default IPv6 route.", _LINK, 0.2,
        Lever.ENV),
    Key("network.other_interfaces_count", Type.INTEGER, Kind.VOLATILE, "Virtual interfaces, as containers bring them.",
        _LINK, 0.05),
    Key("network[].driver", Type.STRING, Kind.IDENTITY, "Kernel driver of the card.", _LINK, 0.3),
    Key("network[].pci_address", Type.STRING, Kind.IDENTITY, "Where the card sits on the PCI bus.", _LINK, 0.1),
    Key("network[].receive_queues_count", Type.INTEGER, Kind.TUNABLE, "Receive queues.", _LINK, 0.15, Lever.ROOT),
    Key("network[].send_queues_count", Type.INTEGER, Kind.TUNABLE, "Send queues.", _LINK, 0.15, Lever.ROOT),
    Key("network[].ipv4_address", Type.STRING, Kind.LABEL, "First IPv4 address."),
    Key("network[].ipv6_addresses", Type.STRINGS, Kind.LABEL, "IPv6 addresses."),
)  # fmt: skip

_TABLES = ("/proc/net/dev", "/proc/net/route", "/proc/net/ipv6_route", "/proc/net/if_inet6")


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    files = read_files(host, (*(fact.file for fact in _SETTINGS), *_TABLES, f"{_NET}/bonding_masters"))
    yield from readings(files, _SETTINGS)
    routes = [files.value("/proc/net/route", _default_route), files.value("/proc/net/ipv6_route", _default_route_v6)]
    yield from zip(("network.default_route", "network.default_route_v6"), routes)
    names, devices = host.found([["list", _NET], ["glob", f"{_NET}/*/device"]])
    if not isinstance(names, Value):
        yield "network", names
        return
    chosen = {path.split("/")[4] for path in (devices.value if isinstance(devices, Value) else ())}
    chosen |= set(files.text(f"{_NET}/bonding_masters").split())
    chosen |= {route.value for route in routes if isinstance(route, Value)}
    chosen &= set(names.value)
    others = set(names.value) - chosen - {"lo", "bonding_masters"}
    yield "network.other_interfaces_count", Value(len(others))
    yield from _interfaces(host, sorted(chosen), files)


def _interfaces(host: Host, names: list[str], tables: Files) -> Iterator[tuple[str, Found]]:
    attributes = [f"{_NET}/{name}/{attribute}" for name in names for _, attribute, _ in (*_ATTRIBUTES, *_BOND)]
    files = read_files(host, attributes)
    answers = host.found(
        [
            request
            for name in names
            for request in (
                ["link", f"{_NET}/{name}"],
                ["link", f"{_NET}/{name}/device/driver"],
                ["list", f"{_NET}/{name}/queues"],
                ["ipv4_address", name],
            )
        ]
    )
    counters = attempt(lambda: _device_table(value_of(tables["/proc/net/dev"])))
    for place, name in enumerate(names):
        device, driver, queues, address = answers[4 * place : 4 * place + 4]
        for key, attribute, parse in _ATTRIBUTES:
            yield path_of(key.pattern, name), files.value(f"{_NET}/{name}/{attribute}", parse)
        if isinstance(files[f"{_NET}/{name}/bonding/mode"], Value):
            for key, attribute, parse in _BOND:
                yield path_of(key.pattern, name), files.value(f"{_NET}/{name}/{attribute}", parse)
        for key, column in _COUNTERS:
            yield path_of(key.pattern, name), attempt(_counter, counters, name, column)
        yield path_of("network[].pci_address", name), parsed(device, pci_address)
        yield path_of("network[].driver", name), parsed(driver, lambda link: link.rsplit("/", 1)[-1])
        for direction, prefix in (("receive", "rx-"), ("send", "tx-")):
            count = attempt(_queues, queues, prefix)
            yield path_of(f"network[].{direction}_queues_count", name), count
        yield path_of("network[].ipv4_address", name), address
        yield path_of("network[].ipv6_addresses", name), tables.value("/proc/net/if_inet6", partial(_ipv6, name))


def _known(text: str) -> str:
    if text == "unknown":
        raise Missing(Why.NOT_SUPPORTED, "the driver does not say")
    return text


def _queues(queues: Found, prefix: str) -> int:
    return sum(name.startswith(prefix) for name in value_of(queues))


# -- tables of /proc/net --------------------------------------------------------------------------------------


def _default_route(text: str) -> str:
    rows = [line.split() for line in text.splitlines()[1:]]
    found = [(int(row[6]), row[0]) for row in rows if len(row) > 7 and row[1] == row[7] == "00000000"]
    if not found:
        raise Missing(Why.ABSENT, "no default IPv4 route")
    return min(found)[1]


def _default_route_v6(text: str) -> str:
    rows = [line.split() for line in text.splitlines()]
    # NOTE: an unreachable default route is always there, over lo.
    found = [
        (int(row[5], 16), row[9]) for row in rows if len(row) > 9 and row[:2] == ["0" * 32, "00"] and row[9] != "lo"
    ]
    if not found:
        raise Missing(Why.ABSENT, "no default IPv6 route")
    return min(found)[1]


def _device_table(text: str) -> dict[str, list[int]]:
    """Interface -> the columns of /proc/net/dev."""
    rows = [line.partition(":") for line in text.splitlines() if ":" in line]
    return {name.strip(): [int(column) for column in columns.split()] for name, _, columns in rows}


def _counter(counters: Found, name: str, column: int) -> int:
    table = value_of(counters)
    if name not in table:
        raise Missing(Why.GONE, f"/proc/net/dev has no {name}")
    return int(table[name][column])


def _ipv6(name: str, text: str) -> list[str]:
    rows = [line.split() for line in text.splitlines()]
    own = [bytes.fromhex(row[0]) for row in rows if len(row) > 5 and row[5] == name]
    return sorted(socket.inet_ntop(socket.AF_INET6, address) for address in own)
