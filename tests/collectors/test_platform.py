from __future__ import annotations

import pytest

from envsnap.host import LiveHost
from envsnap.reading import Why
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost

DMI = "/sys/class/dmi/id"
CLOCKS = "/sys/devices/system/clocksource/clocksource0/available_clocksource"
PHYSICAL, VIRTUAL = "flags\t\t: fpu avx2\n", "flags\t\t: fpu hypervisor avx2\n"


def kind(cpuinfo: str = "", vendor: str = "", product: str = "", **files: str) -> str:
    given = {"/proc/cpuinfo": cpuinfo, f"{DMI}/sys_vendor": vendor, f"{DMI}/product_name": product, CLOCKS: ""} | files
    host = FakeHost({path: text for path, text in given.items() if text})
    return str(section("platform", host).values.get("platform.virtualization"))


@pytest.mark.parametrize(
    ("cpuinfo", "vendor", "product", "expected"),
    [
        (PHYSICAL, "Supermicro", "SYS-821GE-TNHR", "none"),
        (PHYSICAL, "Amazon EC2", "p5.metal", "none"),
        (VIRTUAL, "Amazon EC2", "p5.48xlarge", "kvm"),
        (VIRTUAL, "QEMU", "Standard PC (Q35 + ICH9, 2009)", "kvm"),
        (VIRTUAL, "VMware, Inc.", "VMware7,1", "vmware"),
        (VIRTUAL, "Microsoft Corporation", "Virtual Machine", "hyperv"),
        (VIRTUAL, "Xen", "HVM domU", "xen"),
        (VIRTUAL, "innotek GmbH", "VirtualBox", "virtualbox"),
        (VIRTUAL, "Nobody", "Knows", "other"),
        ("CPU implementer\t: 0x41\n", "NVIDIA", "GH200", "none"),
        ("CPU implementer\t: 0x41\n", "QEMU", "KVM Virtual Machine", "kvm"),
    ],
)
def test_hypervisors(cpuinfo: str, vendor: str, product: str, expected: str) -> None:
    assert kind(cpuinfo, vendor, product) == expected


def test_a_hypervisor_without_firmware_tables_is_known_by_its_clock() -> None:
    assert kind(VIRTUAL, **{CLOCKS: "tsc kvm-clock\n"}) == "kvm"
    assert kind(VIRTUAL, **{CLOCKS: "hyperv_clocksource_tsc_page acpi_pm\n"}) == "hyperv"


def test_wsl_and_xen_name_themselves() -> None:
    wsl = {"/proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"}
    assert kind(VIRTUAL, **wsl) == "wsl"
    assert kind(PHYSICAL, **{"/sys/hypervisor/type": "xen\n"}) == "xen"


def test_arm_without_firmware_tables_is_not_known_to_be_physical() -> None:
    read = section("platform", FakeHost({"/proc/cpuinfo": "CPU implementer\t: 0x41\n"}))
    assert read.unavailable["platform.virtualization"].why is Why.NOT_SUPPORTED


def test_firmware() -> None:
    host = FakeHost(
        {
            "/proc/cpuinfo": PHYSICAL,
            f"{DMI}/sys_vendor": "Dell Inc.\n",
            f"{DMI}/product_name": "PowerEdge XE9680\n",
            f"{DMI}/bios_version": "2.1.3\n",
            f"{DMI}/bios_date": "03/25/2024\n",
            f"{DMI}/board_name": "\n",
            f"{DMI}/product_serial": "ABC\n",
            "/sys/firmware/acpi/platform_profile": "balanced\n",
        },
        denied=[f"{DMI}/product_serial"],
    )
    read = section("platform", host)
    assert read.errors == {}
    assert read.values["platform.product"] == "PowerEdge XE9680"
    assert read.values["platform.bios_version"] == "2.1.3"
    assert read.values["platform.power_profile"] == "balanced"
    assert read.unavailable["platform.serial"].why is Why.DENIED
    assert read.unavailable["platform.board"].why is Why.NOT_SUPPORTED


def test_the_empty_machine() -> None:
    assert on_the_empty_machine("platform").values == {}


def test_this_machine() -> None:
    read = section("platform", LiveHost())
    assert read.errors == {}
