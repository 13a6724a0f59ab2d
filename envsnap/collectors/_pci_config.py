"""What the words of a device's PCI configuration space say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from envsnap.keys import Effect, Key, Kind, Lever, Type
from envsnap.reading import Found, Json, Missing, Value, Why, attempt

COMMUNICATION = (Effect.COMMUNICATION,)
SPEEDS_GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
ASPM = {1: "l0s", 2: "l1"}
ACS = {
    0x01: "source_validation", 0x02: "translation_blocking", 0x04: "request_redirect", 0x08: "completion_redirect",
    0x10: "upstream_forwarding", 0x20: "egress_control", 0x40: "direct_translated",
}  # fmt: skip
DEVICE_CONTROL, LINK_CONTROL, LINK_CONTROL_2, ACS_CONTROL = 0x08, 0x10, 0x30, 0x06


@dataclass(frozen=True)
class Word:
    """A key and how it is read from 16 bits at an offset in one of the two capabilities."""

    key: Key
    capability: str
    offset: int
    take: Callable[[int], Json]

    def reading(self, config: Found) -> Found:
        """The reading by what the machine gave of the configuration space."""
        return attempt(self._taken, config.value) if isinstance(config, Value) else config

    def _taken(self, config: dict[str, str | None]) -> Json:
        text = config[self.capability]
        if text is None:
            raise Missing(Why.NOT_SUPPORTED, "no ACS capability, or no configuration space beyond 256 bytes")
        return self.take(int.from_bytes(bytes.fromhex(text)[self.offset : self.offset + 2], "little"))


def _bytes_of(shift: int) -> Callable[[int], int]:
    return lambda word: 128 << (word >> shift & 7)


def _bit(number: int) -> Callable[[int], bool]:
    return lambda word: bool(word >> number & 1)


def _names(table: dict[int, str]) -> Callable[[int], list[str]]:
    return lambda word: sorted(name for bit, name in table.items() if word & bit)


def _target_speed(word: int) -> float:
    if word & 0xF not in SPEEDS_GTS:
        raise Missing(Why.NOT_SUPPORTED, "this device has no target speed")
    return SPEEDS_GTS[word & 0xF]


WORDS = (
    Word(Key("pci[].acs_enabled", Type.STRINGS, Kind.TUNABLE, "Access control services that are on: request_redirect "
             "and completion_redirect send peer-to-peer traffic up to the root complex.", COMMUNICATION, 0.5,
             Lever.ROOT,
             "Bare metal: setpci -s ADDRESS ECAP_ACS+6.w=0 on the bridges above the GPUs, after each boot; virtual "
             "machines need them on."), "acs", ACS_CONTROL, _names(ACS)),
    Word(Key("pci[].max_payload_bytes", Type.INTEGER, Kind.TUNABLE, "Largest payload of a PCIe packet that the device "
             "may send.", COMMUNICATION, 0.3, Lever.ROOT), "express", DEVICE_CONTROL, _bytes_of(5)),
    Word(Key("pci[].max_read_request_bytes", Type.INTEGER, Kind.TUNABLE, "Most bytes that the device may ask for in "
             "one PCIe read.", COMMUNICATION, 0.3, Lever.ROOT), "express", DEVICE_CONTROL, _bytes_of(12)),
    Word(Key("pci[].relaxed_ordering", Type.BOOLEAN, Kind.TUNABLE, "Whether the device may send PCIe packets that "
             "overtake others.", COMMUNICATION, 0.3, Lever.ROOT), "express", DEVICE_CONTROL, _bit(4)),
    Word(Key("pci[].extended_tags", Type.BOOLEAN, Kind.TUNABLE, "Whether the device may have 256 PCIe reads under way "
             "rather than 32.", COMMUNICATION, 0.3, Lever.ROOT), "express", DEVICE_CONTROL, _bit(8)),
    Word(Key("pci[].aspm_enabled", Type.STRINGS, Kind.TUNABLE, "Power-saving states that the PCIe link may enter by "
             "itself.", COMMUNICATION, 0.2, Lever.ROOT), "express", LINK_CONTROL, _names(ASPM)),
    Word(Key("pci[].target_link_speed_gts", Type.NUMBER, Kind.TUNABLE, "Rate that the PCIe link is told to reach.",
             COMMUNICATION, 0.4, Lever.ROOT), "express", LINK_CONTROL_2, _target_speed),
    Word(Key("pci[].autonomous_speed_disabled", Type.BOOLEAN, Kind.TUNABLE, "Whether the device may not change the "
             "speed of its PCIe link by itself.", COMMUNICATION, 0.3, Lever.ROOT), "express", LINK_CONTROL_2, _bit(5)),
)  # fmt: skip


def config_readings(config: Found) -> Iterator[tuple[Key, Found]]:
    """Each fact of the configuration space."""
    for word in WORDS:
        yield word.key, word.reading(config)
