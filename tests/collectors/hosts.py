"""Whole machines as their kernels show them, for the tests of collectors, and a way to ask one collector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envsnap.capture import capture
from envsnap.host import Host
from envsnap.scope import Scope
from envsnap.snapshot import Section
from tests.fakes import FakeHost

CPU = "/sys/devices/system/cpu"


def section(name: str, host: Host, scope: Scope | None = None) -> Section:
    """What one collector reads of a machine; every value has been checked against its key."""
    return capture(scope, host, only=[name]).sections[name]


def on_the_empty_machine(name: str) -> Section:
    """What a collector says where there is nothing at all: never an error, and no value out of thin air."""
    empty = section(name, FakeHost())
    assert empty.errors == {}
    assert empty.status in ("ok", "partial", "unavailable")
    return empty


# -- two sockets of 56 cores, two threads each ----------------------------------------------------------------

SOCKETS, CORES, THREADS = 2, 56, 224

_FLAGS = (
    "fpu tsc msr sse4_2 avx2 avx512f avx512_bf16 amx_bf16 amx_tile constant_tsc nonstop_tsc aperfmperf hwp tsc_adjust"
)


def xeon(changes: Mapping[str, str] | None = None) -> FakeHost:
    """Bare metal with two Xeon 8480C; `changes` are files that differ."""
    files: dict[str, str] = {
        "/proc/cpuinfo": "\n\n".join(_xeon_processor(cpu) for cpu in range(THREADS)) + "\n",
        f"{CPU}/online": "0-223\n",
        f"{CPU}/offline": "\n",
        f"{CPU}/isolated": "\n",
        f"{CPU}/nohz_full": "  (null)\n",
        f"{CPU}/smt/active": "1\n",
        f"{CPU}/smt/control": "on\n",
        f"{CPU}/intel_pstate/no_turbo": "0\n",
        f"{CPU}/intel_pstate/status": "active\n",
        f"{CPU}/intel_pstate/max_perf_pct": "100\n",
        f"{CPU}/cpuidle/current_driver": "intel_idle\n",
        f"{CPU}/cpuidle/current_governor": "menu\n",
        f"{CPU}/vulnerabilities/spectre_v2": "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional\n",
        f"{CPU}/vulnerabilities/meltdown": "Not affected\n",
        f"{CPU}/intel_uncore_frequency/package_00_die_00/max_freq_khz": "2500000\n",
        f"{CPU}/intel_uncore_frequency/package_00_die_00/min_freq_khz": "800000\n",
        "/sys/class/powercap/intel-rapl:0/name": "package-0\n",
        "/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw": "350000000\n",
        "/sys/class/powercap/intel-rapl:0:0/name": "dram\n",
        "/sys/class/powercap/intel-rapl:0:0/constraint_0_power_limit_uw": "0\n",
        "/sys/class/powercap/intel-rapl:1/name": "package-1\n",
        "/sys/class/powercap/intel-rapl:1/constraint_0_power_limit_uw": "350000000\n",
        "/sys/class/powercap/intel-rapl:2/name": "psys\n",
        "/sys/class/powercap/intel-rapl:2/constraint_0_power_limit_uw": "0\n",
    }
    for cpu in range(THREADS):
        core = cpu % (SOCKETS * CORES)
        first = core // CORES * CORES
        policy, folder = f"{CPU}/cpufreq/policy{cpu}", f"{CPU}/cpu{cpu}"
        files |= {
            f"{policy}/scaling_driver": "intel_pstate\n",
            f"{policy}/scaling_governor": "performance\n",
            f"{policy}/energy_performance_preference": "performance\n",
            f"{policy}/scaling_min_freq": "800000\n",
            f"{policy}/scaling_max_freq": "3800000\n",
            f"{policy}/cpuinfo_min_freq": "800000\n",
            f"{policy}/cpuinfo_max_freq": "3800000\n",
            f"{policy}/base_frequency": "2000000\n",
            f"{folder}/topology/thread_siblings_list": f"{core},{core + 112}\n",
            f"{folder}/topology/core_siblings_list": f"{first}-{first + 55},{first + 112}-{first + 167}\n",
            f"{folder}/thermal_throttle/core_throttle_count": "0\n",
            f"{folder}/thermal_throttle/package_throttle_count": "3\n",
        }
    for index, (level, kind, size, shared) in enumerate(
        [
            (1, "Data", "48K", "0,112"),
            (1, "Instruction", "32K", "0,112"),
            (2, "Unified", "2048K", "0,112"),
            (3, "Unified", "107520K", "0-55,112-167"),
        ]
    ):
        cache = f"{CPU}/cpu0/cache/index{index}"
        files |= {
            f"{cache}/level": f"{level}\n",
            f"{cache}/type": f"{kind}\n",
            f"{cache}/size": f"{size}\n",
            f"{cache}/shared_cpu_list": f"{shared}\n",
        }
    for index, (name, latency, disable) in enumerate([("POLL", 0, 0), ("C1", 1, 0), ("C1E", 2, 0), ("C6", 290, 1)]):
        state = f"{CPU}/cpu0/cpuidle/state{index}"
        files |= {f"{state}/name": f"{name}\n", f"{state}/latency": f"{latency}\n", f"{state}/disable": f"{disable}\n"}
    return FakeHost(files | dict(changes or {}))


def _xeon_processor(cpu: int) -> str:
    fields: dict[str, Any] = {
        "processor": cpu,
        "vendor_id": "GenuineIntel",
        "cpu family": 6,
        "model": 143,
        "model name": "Intel(R) Xeon(R) Platinum 8480C",
        "stepping": 8,
        "microcode": "0x2b000620",
        "cpu MHz": f"{800 + cpu}.000",
        "flags": _FLAGS,
    }
    return "\n".join(f"{name}\t: {value}" for name, value in fields.items())


# -- ARM ------------------------------------------------------------------------------------------------------


def grace() -> FakeHost:
    """An NVIDIA Grace of four cores: /proc/cpuinfo names no model and no frequency."""
    blocks = [
        f"processor\t: {cpu}\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd aes sve sve2 bf16 i8mm cpuid\n"
        "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd4f\nCPU revision\t: 0\n"
        for cpu in range(4)
    ]
    files = {
        "/proc/cpuinfo": "\n".join(blocks),
        f"{CPU}/online": "0-3\n",
        f"{CPU}/smt/active": "0\n",
        f"{CPU}/smt/control": "notimplemented\n",
        f"{CPU}/cpufreq/boost": "1\n",
    }
    for cpu in range(4):
        files |= {
            f"{CPU}/cpu{cpu}/topology/thread_siblings_list": f"{cpu}\n",
            f"{CPU}/cpu{cpu}/topology/core_siblings_list": "0-3\n",
            f"{CPU}/cpufreq/policy{cpu}/scaling_driver": "cppc_cpufreq\n",
            f"{CPU}/cpufreq/policy{cpu}/scaling_governor": "schedutil\n",
            f"{CPU}/cpufreq/policy{cpu}/scaling_cur_freq": f"{3_000_000 + cpu * 100_000}\n",
        }
    return FakeHost(files)
