"""RDMA: InfiniBand and RoCE devices, ports, GIDs, error counters, registration of GPU memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.collectors._files import Files, Parse, natural, parsed, pci_address, read_files, stated
from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Missing, Unavailable, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "/sys/class/infiniband, /dev/infiniband, /sys/kernel/mm/memory_peers, /sys/module"

_CLASS = "/sys/class/infiniband"
_LINK = (Effect.COMMUNICATION,)


def _after_colon(text: str) -> str:
    """The word of `4: ACTIVE`."""
    return text.partition(":")[2].strip() or text


def _rate(text: str, part: str) -> str:
    match = re.fullmatch(r"(?P<gbps>[0-9.]+) Gb/sec(?: \((?P<lanes>\d+)X(?: (?P<signalling>\w+))?\))?", text)
    if not match or match[part] is None:
        raise Missing(Why.NOT_SUPPORTED, f"its rate is {text[:80]!r}")
    return match[part]


_DEVICE: tuple[tuple[Key, str, Parse], ...] = (
    (Key("rdma[].firmware", Type.STRING, Kind.IDENTITY, "Firmware version of the device.", _LINK, 0.4, Lever.ROOT),
     "fw_ver", stated),
    (Key("rdma[].model", Type.STRING, Kind.IDENTITY, "Type of the device, as its maker numbers it.", _LINK, 0.4),
     "hca_type", stated),
    (Key("rdma[].board", Type.STRING, Kind.IDENTITY, "Board id (PSID), which tells variants of one model apart.",
         _LINK, 0.2),
     "board_id", stated),
    (Key("rdma[].node_type", Type.STRING, Kind.IDENTITY, "Role in the fabric: CA for an adapter.", _LINK, 0.1),
     "node_type", _after_colon),
    (Key("rdma[].numa_node", Type.INTEGER, Kind.IDENTITY, "NUMA node that the device is attached to.", _LINK, 0.3),
     "device/numa_node", natural),
    (Key("rdma[].guid", Type.STRING, Kind.LABEL, "Global id of the device."), "node_guid", stated),
)  # fmt: skip

_PORT: tuple[tuple[Key, str, Parse], ...] = (
    (Key("rdma[].port[].state", Type.STRING, Kind.TUNABLE, "Logical state: ACTIVE, INIT, DOWN, ….", _LINK, 0.6,
         advice="INIT waits for a subnet manager; DOWN has no link."),
     "state", _after_colon),
    (Key("rdma[].port[].physical_state", Type.STRING, Kind.TUNABLE, "State of the link: LinkUp, Polling, Disabled, ….",
         _LINK, 0.6, advice="Check cable, transceiver and switch port."),
     "phys_state", _after_colon),
    (Key("rdma[].port[].rate_gbps", Type.NUMBER, Kind.IDENTITY, "Rate that the link came up with.", _LINK, 0.6,
         advice="Check cable and switch port if it is below what the device can do."),
     "rate", lambda text: float(_rate(text, "gbps"))),
    (Key("rdma[].port[].width_lanes", Type.INTEGER, Kind.IDENTITY, "Lanes that the link came up with.", _LINK, 0.5),
     "rate", lambda text: int(_rate(text, "lanes"))),
    (Key("rdma[].port[].signalling", Type.STRING, Kind.IDENTITY, "Signalling per lane: EDR, HDR, NDR, XDR, ….",
         _LINK, 0.5),
     "rate", lambda text: _rate(text, "signalling")),
    (Key("rdma[].port[].link_layer", Type.STRING, Kind.IDENTITY, "InfiniBand, or Ethernet for RoCE.", _LINK, 0.6),
     "link_layer", stated),
)  # fmt: skip

_COUNTERS = {
    "counters": "symbol_error link_error_recovery link_downed local_link_integrity_errors port_rcv_errors "
    "port_xmit_discards port_xmit_wait excessive_buffer_overrun_errors",
    "hw_counters": "out_of_buffer out_of_sequence packet_seq_err local_ack_timeout_err rnr_nak_retry_err "
    "rp_cnp_handled np_cnp_sent np_ecn_marked_roce_packets roce_slow_restart implied_nak_seq_err",
}
"""Directory below a port -> names of counters that grow when a fabric is in trouble."""

# NOTE: a port has up to 256 entries in each table, nearly all empty; what is in use stands first.
_GIDS = 16
_PARTITIONS = 8

KEYS = (
    *(key for key, *_ in (*_DEVICE, *_PORT)),
    Key("rdma.devices_count", Type.INTEGER, Kind.IDENTITY, "RDMA devices.", _LINK, 0.5),
    Key("rdma.verbs_files_count", Type.INTEGER, Kind.TUNABLE,
        "RDMA devices that programs here can open; without them NCCL falls back to sockets.", _LINK, 0.7, Lever.ROOT,
        "Start the container with `--device /dev/infiniband` and without a memlock limit."),
    Key("rdma.peer_memory_loaded", Type.BOOLEAN, Kind.TUNABLE,
        "Whether a kernel module lets RDMA devices reach GPU memory (nvidia_peermem); "
        "without it, and without DMA-BUF, GPUDirect RDMA is off.",
        _LINK, 0.7, Lever.ROOT, "Load it with `modprobe nvidia_peermem`."),
    Key("rdma.peer_memory[].version", Type.STRING, Kind.IDENTITY, "Version of a registered client of peer memory.",
        _LINK, 0.4),
    Key("rdma[].pci_address", Type.STRING, Kind.IDENTITY, "Where the device sits on the PCI bus.", _LINK, 0.1),
    Key("rdma[].interfaces", Type.STRINGS, Kind.IDENTITY, "Network interfaces of the device.", _LINK, 0.1),
    Key("rdma[].port[].gids_count", Type.INTEGER, Kind.TUNABLE, f"Entries in use among the first {_GIDS} GIDs.",
        _LINK, 0.3),
    Key("rdma[].port[].gid[].type", Type.STRING, Kind.TUNABLE,
        "Protocol of a GID: `RoCE v2`, or `IB/RoCE v1`; NCCL_IB_GID_INDEX means one of these entries.", _LINK, 0.5,
        Lever.ENV, "Set NCCL_IB_GID_INDEX to an entry of RoCE v2 over IPv4."),
    Key("rdma[].port[].gid[].family", Type.STRING, Kind.TUNABLE, "Addresses of a GID: ipv4, ipv6 or link_local.",
        _LINK, 0.5, Lever.ENV),
    Key("rdma[].port[].gid[].interface", Type.STRING, Kind.TUNABLE, "Network interface of a GID.", _LINK, 0.2),
    Key("rdma[].port[].gid[].address", Type.STRING, Kind.LABEL, "The GID itself."),
    Key("rdma[].port[].partitions", Type.STRINGS, Kind.TUNABLE,
        f"Partition keys in use, in order, among the first {_PARTITIONS}.", _LINK, 0.2, Lever.ROOT),
    Key("rdma[].port[].counter[]", Type.INTEGER, Kind.COUNTER,
        "Errors, discards, retransmissions or congestion marks of a port.", _LINK, 0.6,
        advice="Growth during a run points at the link or at congestion: check cable, transceiver, PFC and ECN."),
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    devices, nodes, modules = host.found([["list", _CLASS], ["list", "/dev/infiniband"], ["list", "/sys/module"]])
    yield "rdma.devices_count", attempt(lambda: len(value_of(devices)))
    yield "rdma.verbs_files_count", attempt(lambda: sum(name.startswith("uverbs") for name in value_of(nodes)))
    peers = {"nvidia_peermem", "nv_peer_mem"}
    yield "rdma.peer_memory_loaded", attempt(lambda: not peers.isdisjoint(value_of(modules)))
    if not isinstance(devices, Value):
        yield "rdma", devices
    elif devices.value:
        yield from _devices(host, devices.value)


def _devices(host: Host, devices: list[str]) -> Iterator[tuple[str, Found]]:
    port = f"{_CLASS}/*/ports/[0-9]*"
    files = read_files(
        host,
        (
            "/sys/kernel/mm/memory_peers/*/version",
            *(f"{_CLASS}/*/{name}" for _, name, _ in _DEVICE),
            *(f"{port}/{name}" for _, name, _ in _PORT),
            *(f"{port}/{folder}/{name}" for folder, names in _COUNTERS.items() for name in names.split()),
        ),
    )
    for (client,), version in files.matching("/sys/kernel/mm/memory_peers/*/version"):
        yield path_of("rdma.peer_memory[].version", client), version
    requests = [request for name in devices for request in (["link", f"{_CLASS}/{name}"], ["list", _net_of(name)])]
    answers = host.found(requests)
    for place, name in enumerate(devices):
        link, interfaces = answers[2 * place : 2 * place + 2]
        for key, file, parse in _DEVICE:
            yield path_of(key.pattern, name), files.value(f"{_CLASS}/{name}/{file}", parse)
        yield path_of("rdma[].pci_address", name), parsed(link, pci_address)
        yield path_of("rdma[].interfaces", name), interfaces
    ports = [groups for groups, _ in files.matching(f"{port}/state")]
    tables = read_files(host, (path for groups in ports for path in _tables(*groups)))
    for device, number in ports:
        yield from _port(files, device, number)
        yield from _gids(tables, device, number)
        yield path_of("rdma[].port[].partitions", device, number), attempt(_partitions, tables, device, number)


def _net_of(device: str) -> str:
    return f"{_CLASS}/{device}/device/net"


def _port(files: Files, device: str, number: str) -> Iterator[tuple[str, Found]]:
    folder = f"{_CLASS}/{device}/ports/{number}"
    for key, file, parse in _PORT:
        yield path_of(key.pattern, device, number), files.value(f"{folder}/{file}", parse)
    for below, names in _COUNTERS.items():
        for name in names.split():
            count = files.value(f"{folder}/{below}/{name}", natural)
            # Makers differ in what they count: what a port has no file for is unset.
            if not (isinstance(count, Unavailable) and count.why is Why.ABSENT):
                yield path_of("rdma[].port[].counter[]", device, number, name), count


# -- tables of a port -----------------------------------------------------------------------------------------


def _tables(device: str, number: str) -> Iterator[str]:
    folder = f"{_CLASS}/{device}/ports/{number}"
    for index in range(_GIDS):
        yield from (f"{folder}/gids/{index}", f"{folder}/gid_attrs/types/{index}", f"{folder}/gid_attrs/ndevs/{index}")
    yield from (f"{folder}/pkeys/{index}" for index in range(_PARTITIONS))


def _gids(tables: Files, device: str, number: str) -> Iterator[tuple[str, Found]]:
    folder = f"{_CLASS}/{device}/ports/{number}"
    gids = {index: tables.text(f"{folder}/gids/{index}") for index in range(_GIDS)}
    used = {index: gid for index, gid in gids.items() if gid.strip("0:")}
    readable = isinstance(tables[f"{folder}/gids/0"], Value)
    count = path_of("rdma[].port[].gids_count", device, number)
    yield count, Value(len(used)) if readable else tables[f"{folder}/gids/0"]
    for index, gid in used.items():
        entry = path_of("rdma[].port[].gid[]", device, number, index)
        yield f"{entry}.type", tables.value(f"{folder}/gid_attrs/types/{index}", stated)
        yield f"{entry}.family", Value(_family(gid))
        yield f"{entry}.interface", tables.value(f"{folder}/gid_attrs/ndevs/{index}", stated)
        yield f"{entry}.address", Value(gid)


def _family(gid: str) -> str:
    if gid.startswith("0000:0000:0000:0000:0000:ffff:"):
        return "ipv4"
    return "link_local" if gid.startswith("fe80:") else "ipv6"


def _partitions(tables: Files, device: str, number: str) -> list[str]:
    folder = f"{_CLASS}/{device}/ports/{number}/pkeys"
    value_of(tables[f"{folder}/0"])
    keys = [tables.text(f"{folder}/{index}") for index in range(_PARTITIONS)]
    return [key for key in keys if key.removeprefix("0x").strip("0")]
