from __future__ import annotations

import os

import pytest

from envsnap.collectors._boot_parameters import KEY, parse_command_line
from envsnap.host import LiveHost
from envsnap.keys import Effect, Kind
from envsnap.reading import Unavailable, Unset, Why
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost

SYS = "/proc/sys/kernel"
CLOCK = "/sys/devices/system/clocksource/clocksource0"

COMMAND_LINE = (
    "BOOT_IMAGE=/vmlinuz-5.15.0-91-generic root=UUID=7f6c ro isolcpus=2-55 intel_iommu=on iommu=pt "
    "hugepagesz=1G hugepages=16 hugepagesz=2M hugepages=512 transparent-hugepage=never nosmt"
)
UBUNTU = {
    "/proc/cmdline": f"{COMMAND_LINE}\n",
    "/proc/version": "Linux version 5.15.0-91-generic (buildd@lcy02-amd64-045) (gcc (Ubuntu 11.4.0-1ubuntu1~22.04) "
    "11.4.0, GNU ld (GNU Binutils for Ubuntu) 2.38) #101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023\n",
    "/proc/uptime": "123456.78 999.00\n",
    f"{SYS}/random/boot_id": "6a1c\n",
    f"{SYS}/sched_autogroup_enabled": "1\n",
    f"{SYS}/sched_rt_runtime_us": "-1\n",
    f"{SYS}/sched_rt_period_us": "1000000\n",
    f"{SYS}/perf_event_paranoid": "-1\n",
    f"{SYS}/yama/ptrace_scope": "1\n",
    f"{SYS}/tainted": "12289\n",
    f"{CLOCK}/current_clocksource": "hpet\n",
    f"{CLOCK}/available_clocksource": "tsc hpet acpi_pm\n",
    "/proc/modules": "nvidia_peermem 16384 0 - Live 0x0 (OE)\nmlx5_core 1 1 mlx5_ib, Live 0x0\nsnd 1 0 - Live 0x0\n",
    "/sys/module/mlx5_core/version": "24.10-0.7.0\n",
    "/sys/module/snd/version": "1.0\n",
    "/sys/kernel/security/lsm": "lockdown,capability,yama,apparmor",
    "/sys/kernel/debug/sched/preempt": "none (voluntary) full\n",
    "/sys/kernel/debug/sched/migration_cost_ns": "500000\n",
}
UNAME = {
    "system": "Linux",
    "node": "gpu7",
    "release": "5.15.0-91-generic",
    "version": "#101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023",
    "machine": "x86_64",
}


def ubuntu() -> FakeHost:
    return FakeHost(UBUNTU, replies={("uname",): UNAME})


def test_release_and_build() -> None:
    read = section("kernel", ubuntu())
    assert read.errors == {}
    assert read.values["kernel.release"] == "5.15.0-91-generic"
    assert read.values["kernel.compiler"] == "gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0"
    assert read.values["kernel.uptime_seconds"] == 123456.78


def test_settings() -> None:
    values = section("kernel", ubuntu()).values
    assert values["kernel.clock_source"] == "hpet"
    assert values["kernel.clock_sources"] == ["acpi_pm", "hpet", "tsc"]
    assert values["kernel.autogroup"] is True
    assert values["kernel.realtime_runtime_microseconds"] == -1
    assert values["kernel.perf_event_paranoid"] == -1
    assert values["kernel.ptrace_scope"] == 1
    assert values["kernel.security_modules"] == ["lockdown", "capability", "yama", "apparmor"]
    assert values["kernel.preemption_mode"] == "voluntary"


def test_a_setting_that_moved_between_kernels_is_found_at_either_place() -> None:
    host = ubuntu()
    assert section("kernel", host).values["kernel.migration_cost_nanoseconds"] == 500000
    host.files[f"{SYS}/sched_migration_cost_ns"] = "5000000\n"
    assert section("kernel", host).values["kernel.migration_cost_nanoseconds"] == 5000000


def test_a_setting_that_only_root_may_read_is_denied_and_not_unset() -> None:
    host = ubuntu()
    host.denied = ("/sys/kernel/debug",)
    assert section("kernel", host).unavailable["kernel.preemption_mode"].why is Why.DENIED


def test_taints_are_letters() -> None:
    assert section("kernel", ubuntu()).values["kernel.taints"] == ["E", "O", "P"]


def test_modules_of_concern_and_their_versions() -> None:
    read = section("kernel", ubuntu())
    assert read.values["kernel.modules"] == ["mlx5_core", "nvidia_peermem"]
    assert read.values["kernel.module_version[mlx5_core]"] == "24.10-0.7.0"
    assert isinstance(read.reading("kernel.module_version[snd]"), Unset)


@pytest.mark.parametrize(
    ("version", "model"),
    [
        ("#1 SMP PREEMPT_DYNAMIC Thu", "dynamic"),
        ("#1 SMP PREEMPT_RT Thu", "rt"),
        ("#1 SMP PREEMPT Thu", "full"),
        ("#101-Ubuntu SMP Tue", "not_said"),
    ],
)
def test_preemption_models(version: str, model: str) -> None:
    host = FakeHost(replies={("uname",): UNAME | {"version": version}})
    assert section("kernel", host).values["kernel.preemption"] == model


@pytest.mark.parametrize(
    ("text", "compiler"),
    [
        (
            "Linux version 6.8.0-31-generic (buildd@lcy02) (x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0-23ubuntu4) "
            "13.2.0, GNU ld (GNU Binutils for Ubuntu) 2.42) #31-Ubuntu SMP",
            "x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0-23ubuntu4) 13.2.0",
        ),
        ("Linux version 6.1.0 (x@y) (Debian clang version 16.0.6, LLD 16.0.6) #1 SMP", "Debian clang version 16.0.6"),
    ],
)
def test_compilers(text: str, compiler: str) -> None:
    assert section("kernel", FakeHost({"/proc/version": text})).values["kernel.compiler"] == compiler


# -- boot parameters ------------------------------------------------------------------------------------------


def test_each_parameter_is_a_reading() -> None:
    values = section("kernel", ubuntu()).values
    assert values["kernel.parameter[isolcpus]"] == ["2-55"]
    assert values["kernel.parameter[nosmt]"] == []
    assert values["kernel.parameter[hugepagesz]"] == ["1G", "2M"]
    assert values["kernel.parameter[hugepages]"] == ["16", "512"]
    assert values["kernel.parameter[transparent_hugepage]"] == ["never"]
    assert values["kernel.command_line"] == COMMAND_LINE


def test_what_names_a_disk_is_a_label_and_what_sets_something_is_not() -> None:
    kinds = {name: KEY.for_path(f"kernel.parameter[{name}]").kind for name in ("root", "BOOT_IMAGE", "iommu", "foo")}
    assert kinds == {"root": Kind.LABEL, "BOOT_IMAGE": Kind.LABEL, "iommu": Kind.TUNABLE, "foo": Kind.TUNABLE}


def test_a_parameter_has_the_effect_of_what_it_sets() -> None:
    iommu, quiet = (KEY.for_path(f"kernel.parameter[{name}]") for name in ("intel_iommu", "quiet"))
    assert iommu.effects == (Effect.COMMUNICATION,)
    assert iommu.prior > 0.3 > 0.02 > quiet.prior
    assert KEY.for_path("kernel.parameter[rd.driver.blacklist]").kind is Kind.TUNABLE


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("", {}),
        ("quiet", {"quiet": []}),
        ("a=1 a=2 a", {"a": ["1", "2"]}),
        ("nvidia-drm.modeset=1", {"nvidia_drm.modeset": ["1"]}),
        ("opt=a=b", {"opt": ["a=b"]}),
        ('dyndbg="file drivers/x +p" quiet', {"dyndbg": ["file drivers/x +p"], "quiet": []}),
        ("rdinit=/x -- --token secret", {"rdinit": ["/x"]}),
        ("empty=", {"empty": [""]}),
    ],
)
def test_command_lines(text: str, parameters: dict[str, list[str]]) -> None:
    assert parse_command_line(text) == parameters


def test_no_command_line_leaves_every_parameter_unavailable() -> None:
    read = section("kernel", FakeHost({"/proc/uptime": "1.0 1.0"}, denied=["/proc/cmdline"]))
    reading = read.reading("kernel.parameter[isolcpus]")
    assert isinstance(reading, Unavailable)
    assert reading.why is Why.DENIED


def test_the_empty_machine() -> None:
    empty = on_the_empty_machine("kernel")
    assert empty.values == {}


def test_this_machine() -> None:
    read = section("kernel", LiveHost())
    assert read.errors == {}
    assert read.values["kernel.release"] == os.uname().release
    assert read.values["kernel.clock_source"] in read.values["kernel.clock_sources"]
