"""What joins a GPU to other GPUs: NVLink and the NVSwitch fabric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envsnap.collectors._nvml import Call, Fact, Take, fact, field, flag, named
from envsnap.keys import Effect, Key, Kind, Type, path_of
from envsnap.reading import Found, Json, Missing, Unavailable, Value, Why

COMMUNICATION, VALIDITY = Effect.COMMUNICATION, Effect.VALIDITY

FABRIC: tuple[Call, ...] = (
    ("nvmlDeviceGetGpuFabricInfoV", "struct:c_nvmlGpuFabricInfo_v3_t"),
    ("nvmlDeviceGetGpuFabricInfoV", "struct:c_nvmlGpuFabricInfoV_t"),
    ("nvmlDeviceGetGpuFabricInfo", "struct:c_nvmlGpuFabricInfo_t"),
)
FABRIC_STATES = ("not_supported", "not_started", "in_progress", "completed")
MISCONFIGURATIONS = (
    "not_supported", "none", "incorrect_system_guid", "incorrect_chassis_serial", "no_partition",
    "insufficient_nvlinks", "incompatible_gpu_firmware", "invalid_location", "gpu_state_invalid",
)  # fmt: skip


def _fabric(name: str, take: Take | None = None) -> Take:
    """An element of the fabric's structure, where the GPU belongs to a fabric at all."""

    def of(info: Mapping[str, Json]) -> Json:
        if info["state"] == 0:
            raise Missing(Why.NOT_SUPPORTED, "NVML: this GPU belongs to no NVSwitch fabric")
        if name not in info:
            raise Missing(Why.NOT_SUPPORTED, f"NVML: the fabric information of this driver has no {name}")
        return info[name] if take is None else take(info[name])

    return of


def _reported(take: Take, shift: int = 0, width: int = 2) -> Take:
    """Some bits of a mask; all of them clear means that this fabric does not report it."""

    def of(mask: int) -> Json:
        bits = mask >> shift & (1 << width) - 1
        if bits == 0:
            raise Missing(Why.NOT_SUPPORTED, "NVML: this fabric does not report it")
        return take(bits)

    return of


FACTS = (
    fact(Key("gpu[].fabric_state", Type.STRING, Kind.IDENTITY, "Whether the GPU has joined its NVSwitch fabric: "
             "not_started, in_progress or completed.", (COMMUNICATION,), 0.7,
             advice="Not completed: start nvidia-fabricmanager of the driver's version; CUDA fails or NCCL falls back "
             "until then."), *FABRIC, take=_fabric("state", named(FABRIC_STATES))),
    fact(Key("gpu[].fabric_status_code", Type.INTEGER, Kind.IDENTITY, "NVML's return code of the joining of the "
             "fabric, 0 for success.", (COMMUNICATION,), 0.5), *FABRIC, take=_fabric("status")),
    fact(Key("gpu[].fabric_clique_id", Type.INTEGER, Kind.LABEL, "Number of the group of GPUs that reach each other "
             "through the fabric.", (COMMUNICATION,), 0.3), *FABRIC, take=_fabric("cliqueId")),
    fact(Key("gpu[].fabric_cluster_uuid", Type.STRING, Kind.LABEL, "Identifier of the fabric."), *FABRIC,
         take=_fabric("clusterUuid", lambda octets: bytes(octets).hex())),
    fact(Key("gpu[].fabric_health", Type.STRING, Kind.IDENTITY, "Health of the fabric in one word: healthy, unhealthy "
             "or limited_capacity.", (COMMUNICATION,), 0.6), *FABRIC,
         take=_fabric("healthSummary", _reported(named(("", "healthy", "unhealthy", "limited_capacity")), width=8))),
    *(
        fact(Key(f"gpu[].fabric_{name}", Type.BOOLEAN, Kind.IDENTITY, f"Whether {what}.", (COMMUNICATION,), 0.6),
             *FABRIC, take=_fabric("healthMask", _reported(lambda bits: bits == 1, shift)))
        for name, shift, what in (
            ("degraded_bandwidth", 0, "the fabric gives the GPU less bandwidth than it should"),
            ("route_recovery", 2, "routes of the fabric are being repaired"),
            ("route_unhealthy", 4, "routes of the fabric are broken"),
            ("access_timeout_recovery", 6, "the fabric recovers from accesses that timed out"),
        )
    ),
    fact(Key("gpu[].fabric_misconfiguration", Type.STRING, Kind.IDENTITY, "What is wrong with the fabric's "
             "configuration, or none.", (COMMUNICATION, VALIDITY), 0.6), *FABRIC,
         take=_fabric("healthMask", _reported(named(MISCONFIGURATIONS), 8, 4))),
)  # fmt: skip

COUNT, ARCHITECTURE = field(91), ("nvmlDeviceGetArchitecture",)
MAX_LINKS = 256
VERSIONS = ("invalid", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0")
LINK = -1
"""Stands for the link's number, the last element of every call below."""


def _megabits(megabytes: int) -> int:
    """NOTE: NVML's MBps are megabytes a second: 26562 for the 26.562 GB/s of an NVLink 4."""
    return 8 * megabytes


def _errors(*counters: tuple[str, int, str]) -> tuple[Fact, ...]:
    return tuple(
        fact(
            Key(f"gpu[].nvlink[].{name}_count", Type.INTEGER, Kind.COUNTER, meaning, (COMMUNICATION,), 0.4),
            field(number, LINK),
        )
        for name, number, meaning in counters
    )


LINK_FACTS = (
    fact(Key("gpu[].nvlink[].active", Type.BOOLEAN, Kind.IDENTITY, "Whether the NVLink is up.", (COMMUNICATION,), 0.6),
         ("nvmlDeviceGetNvLinkState", LINK), take=flag),
    fact(Key("gpu[].nvlink[].version", Type.STRING, Kind.IDENTITY, "Version of the NVLink.", (COMMUNICATION,), 0.2),
         ("nvmlDeviceGetNvLinkVersion", LINK), take=named(VERSIONS)),
    fact(Key("gpu[].nvlink[].remote_device", Type.STRING, Kind.IDENTITY, "What the NVLink leads to: gpu, switch or "
             "cpu.", (COMMUNICATION,), 0.3), ("nvmlDeviceGetNvLinkRemoteDeviceType", LINK),
         take=named({0: "gpu", 1: "cpu", 2: "switch", 255: "unknown"})),
    fact(Key("gpu[].nvlink[].speed_mbps", Type.INTEGER, Kind.IDENTITY, "Bandwidth of the NVLink in each direction.",
             (COMMUNICATION,), 0.6), field(164, LINK), take=_megabits),
)  # fmt: skip
ERRORS_BEFORE_BLACKWELL = _errors(
    ("replay_error", 161, "Packets sent again over the NVLink because of errors."),
    ("recovery_error", 162, "Times that the NVLink was trained again because of errors."),
    ("crc_error", 163, "Packets of the NVLink with a wrong checksum."),
)
ERRORS_SINCE_BLACKWELL = _errors(
    ("receive_error", 208, "Packets that arrived broken over the NVLink."),
    ("link_recovery", 215, "Times that the NVLink recovered from being down."),
    ("symbol_error", 221, "Symbols of the NVLink that error correction could not mend."),
)
ALL_LINK_FACTS = (*LINK_FACTS, *ERRORS_BEFORE_BLACKWELL, *ERRORS_SINCE_BLACKWELL)
STATE = LINK_FACTS[0].calls[0]
BLACKWELL = 10

ACTIVE_COUNT = Key(
    "gpu[].nvlink_active_count", Type.INTEGER, Kind.IDENTITY, "NVLinks of the GPU that are up.", (COMMUNICATION,), 0.6,
    advice="A link that is down costs its share of bandwidth; see nvidia-smi nvlink -s and the kernel log.",
)  # fmt: skip
LINK_KEYS = (ACTIVE_COUNT, *(f.key for f in ALL_LINK_FACTS))


@dataclass(frozen=True)
class Links:
    """The NVLinks of one GPU, by what it answered to `COUNT` and `ARCHITECTURE`."""

    count: Found
    architecture: Found

    @property
    def numbers(self) -> range:
        """The links' numbers."""
        if isinstance(self.count, Value) and isinstance(self.count.value, int):
            return range(min(max(self.count.value, 0), MAX_LINKS))
        return range(0)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What can be known of each."""
        if not isinstance(self.architecture, Value) or not isinstance(self.architecture.value, int):
            return ALL_LINK_FACTS
        new = self.architecture.value >= BLACKWELL
        return (*LINK_FACTS, *(ERRORS_SINCE_BLACKWELL if new else ERRORS_BEFORE_BLACKWELL))

    def calls(self) -> list[Call]:
        """What to ask for."""
        return [_of_link(call, link) for link in self.numbers for f in self.facts for call in f.calls]

    def readings(self, gpu: int, answers: Mapping[Call, Found]) -> Iterator[tuple[str, Found]]:
        """Readings of the links that exist; without any, one for all of them."""
        states = [answers[_of_link(STATE, link)] for link in self.numbers]
        if not any(isinstance(state, Value) for state in states):
            why = next(iter(states), Unavailable(Why.NOT_SUPPORTED, "NVML: this GPU has no NVLink"))
            why = why if isinstance(self.count, Value) else self.count
            yield path_of(ACTIVE_COUNT.pattern, gpu), why
            yield f"gpu[{gpu}].nvlink", why
            return
        yield path_of(ACTIVE_COUNT.pattern, gpu), Value(sum(state == Value(1) for state in states))
        for link in self.numbers:
            for f in self.facts:
                found = {call: answers[_of_link(call, link)] for call in f.calls}
                yield path_of(f.key.pattern, gpu, link), f.reading(found)


def _of_link(call: Call, link: int) -> Call:
    return (*call[:-1], link)
