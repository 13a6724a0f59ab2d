from __future__ import annotations

import pytest

from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Value, Why
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost, missing

LINES = [
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:3b:00): 31, pid='<unknown>', name=<unknown>, Ch 00000008, intr 00000000. MMU Fault",
    "NVRM: Xid (PCI:0000:5e:00): 31, pid=99, name=python, Ch 00000008",
    "nvidia-nvswitch0: SXid (PCI:0000:84:00.0): 12028, Non-fatal, Link 31 egress non-posted PRIV error",
    "pcieport 0000:3a:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    "pcieport 0000:3a:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Receiver ID)",
    "pcieport 0000:3a:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
    "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid: NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)",
    "Out of memory: Killed process 4711 (python) total-vm:1kB",
    "INFO: task python:1 blocked for more than 120 seconds.",
    "mce: [Hardware Error]: Machine check events logged",
]


def log(lines: list[str], first: int = 0) -> FakeHost:
    return FakeHost(replies={("kernel_log",): {"first": first, "lines": lines}})


def test_complaints_are_counted_by_kind_and_number() -> None:
    assert section("kernel_log", log(LINES)).values == {
        "kernel_log.reaches_boot": True,
        "kernel_log.xid_count[31]": 2,
        "kernel_log.xid_count[79]": 1,
        "kernel_log.sxid_count[12028]": 1,
        "kernel_log.pcie_corrected_count": 2,
        "kernel_log.pcie_uncorrected_count": 1,
        "kernel_log.nvidia_window_count": 1,
        "kernel_log.machine_check_count": 1,
        "kernel_log.out_of_memory_count": 1,
        "kernel_log.hung_task_count": 1,
    }


def test_a_quiet_log_whose_beginning_is_lost() -> None:
    read = section("kernel_log", log([], first=812))
    assert read.values["kernel_log.reaches_boot"] is False
    assert {v for k, v in read.values.items() if k.endswith("_count")} == {0}


def test_a_log_that_a_container_hides_is_not_an_absent_one() -> None:
    read = on_the_empty_machine("kernel_log")
    assert (read.status, read.reason) == (
        "unavailable", "denied: this container does not show the kernel's log (no /dev/kmsg)",
    )  # fmt: skip
    denied = FakeHost(replies={("kernel_log",): missing("denied", "Operation not permitted: /dev/kmsg")})
    assert section("kernel_log", denied).reason.startswith("denied: ")


def test_the_log_of_this_machine() -> None:
    (found,) = LiveHost().found([["kernel_log", "^Linux version|^no line has this text$"]])
    if isinstance(found, Unavailable) and found.why in (Why.ABSENT, Why.DENIED):
        pytest.skip(f"the log cannot be read here: {found}")
    assert isinstance(found, Value)
    assert len(found.value["lines"]) == (found.value["first"] == 0)


def test_garbage_costs_the_section_alone() -> None:
    read = section("kernel_log", FakeHost(replies={("kernel_log",): "garbage"}))
    assert (read.status, read.values) == ("error", {})
    assert not isinstance(read.reading("kernel_log.xid_count[79]"), Unavailable)
