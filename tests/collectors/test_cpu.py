from __future__ import annotations

import os

from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Why
from tests.collectors.hosts import CPU, grace, on_the_empty_machine, section, xeon


def test_two_sockets() -> None:
    read = section("cpu", xeon())
    values = read.values
    assert (read.status, read.errors) == ("ok", {})
    assert values["cpu.vendor"] == "GenuineIntel"
    assert values["cpu.model"] == "Intel(R) Xeon(R) Platinum 8480C"
    assert (values["cpu.family"], values["cpu.model_number"], values["cpu.stepping"]) == (6, 143, 8)
    assert values["cpu.microcode"] == "0x2b000620"
    assert (values["cpu.sockets_count"], values["cpu.cores_count"], values["cpu.threads_count"]) == (2, 112, 224)
    assert (values["cpu.smt_active"], values["cpu.smt_control"]) == (True, "on")
    assert (values["cpu.online"], values["cpu.offline"]) == ("0-223", "")
    assert values["cpu.vulnerability[meltdown]"] == "Not affected"
    assert values["cpu.vulnerability[spectre_v2]"].startswith("Mitigation: Enhanced")


def test_flags_are_those_that_speed_depends_on() -> None:
    flags = section("cpu", xeon()).values["cpu.flags"]
    assert {"avx2", "avx512f", "amx_tile", "constant_tsc"} <= set(flags)
    assert not {"fpu", "msr", "tsc_adjust"} & set(flags)
    assert flags == sorted(flags)


def test_power_management() -> None:
    values = section("cpu", xeon()).values
    assert values["cpu.scaling_driver"] == "intel_pstate"
    assert values["cpu.governor"] == "performance"
    assert values["cpu.energy_preference"] == "performance"
    assert (values["cpu.scaling_min_mhz"], values["cpu.scaling_max_mhz"]) == (800, 3800)
    assert (values["cpu.hardware_max_mhz"], values["cpu.base_mhz"]) == (3800, 2000)
    assert values["cpu.turbo"] is True
    assert (values["cpu.idle_driver"], values["cpu.idle_governor"]) == ("intel_idle", "menu")
    assert values["cpu.idle_state[C1E].enabled"] is True
    assert values["cpu.idle_state[C6].enabled"] is False
    assert values["cpu.idle_state[C6].latency_microseconds"] == 290
    assert (values["cpu.uncore[package_00_die_00].min_mhz"], values["cpu.uncore[package_00_die_00].max_mhz"]) == (
        800,
        2500,
    )


def test_only_packages_have_a_power_limit() -> None:
    limits = {p: v for p, v in section("cpu", xeon()).values.items() if "power_limit" in p}
    assert limits == {"cpu.package[0].power_limit_watts": 350.0, "cpu.package[1].power_limit_watts": 350.0}


def test_equal_cpus_cost_one_reading_and_one_that_differs_is_seen() -> None:
    alike = section("cpu", xeon())
    assert [p for p in alike.values if p.startswith("cpu[")] == []
    changes = {f"{CPU}/cpufreq/policy{cpu}/scaling_governor": "powersave\n" for cpu in (7, 100)}
    changes[f"{CPU}/cpufreq/policy9/scaling_max_freq"] = "2000500\n"
    values = section("cpu", xeon(changes)).values
    assert values["cpu.governor"] == "performance"
    assert values["cpu.scaling_max_mhz"] == 3800
    assert {p: v for p, v in values.items() if p.startswith("cpu[")} == {
        "cpu[7].governor": "powersave",
        "cpu[100].governor": "powersave",
        "cpu[9].scaling_max_mhz": 2000.5,
    }


def test_a_minority_is_named_even_if_it_holds_the_first_cpus() -> None:
    changes = {f"{CPU}/cpufreq/policy{cpu}/scaling_governor": "powersave\n" for cpu in range(3)}
    values = section("cpu", xeon(changes)).values
    assert values["cpu.governor"] == "performance"
    assert [p for p in values if p.startswith("cpu[")] == [f"cpu[{cpu}].governor" for cpu in range(3)]


def test_one_cpu_with_another_microcode() -> None:
    host = xeon()
    blocks = host.files["/proc/cpuinfo"].split("\n\n")
    blocks[150] = blocks[150].replace("0x2b000620", "0x2b0004d0")
    host.files["/proc/cpuinfo"] = "\n\n".join(blocks)
    values = section("cpu", host).values
    assert (values["cpu.microcode"], values["cpu[150].microcode"]) == ("0x2b000620", "0x2b0004d0")


def test_a_cpu_that_cannot_be_read_is_not_taken_for_equal() -> None:
    host = xeon()
    host.denied = (f"{CPU}/cpufreq/policy5/scaling_governor",)
    read = section("cpu", host)
    assert read.values["cpu.governor"] == "performance"
    assert read.unavailable["cpu[5].governor"].why is Why.DENIED


def test_turbo_switched_off_in_either_driver() -> None:
    assert section("cpu", xeon({f"{CPU}/intel_pstate/no_turbo": "1\n"})).values["cpu.turbo"] is False
    amd = xeon({f"{CPU}/cpufreq/boost": "0\n"})
    del amd.files[f"{CPU}/intel_pstate/no_turbo"]
    assert section("cpu", amd).values["cpu.turbo"] is False


def test_throttling_is_summed_over_cores_and_highest_over_packages() -> None:
    changes = {
        f"{CPU}/cpu3/thermal_throttle/core_throttle_count": "5\n",
        f"{CPU}/cpu4/thermal_throttle/core_throttle_count": "7\n",
        f"{CPU}/cpu60/thermal_throttle/package_throttle_count": "11\n",
    }
    values = section("cpu", xeon(changes)).values
    assert values["cpu.core_throttle_count"] == 12
    assert values["cpu.package_throttle_count"] == 11


def test_a_throttle_count_that_cannot_be_read_is_not_left_out_of_the_sum() -> None:
    host = xeon()
    host.denied = (f"{CPU}/cpu3/thermal_throttle/core_throttle_count",)
    assert section("cpu", host).unavailable["cpu.core_throttle_count"].why is Why.DENIED


def test_frequencies_come_from_cpuinfo_where_it_has_them() -> None:
    host = xeon()
    values = section("cpu", host).values
    assert values["cpu.frequency_lowest_mhz"] == 800
    assert values["cpu.frequency_median_mhz"] == 911
    assert values["cpu.frequency_highest_mhz"] == 1023
    assert not [request for request in host.asked if "scaling_cur_freq" in str(request)]


def test_caches() -> None:
    values = section("cpu", xeon()).values
    assert values["cpu.cache[L1d].size_bytes"] == 48 << 10
    assert values["cpu.cache[L3].size_bytes"] == 107520 << 10
    assert (values["cpu.cache[L2].cpus_count"], values["cpu.cache[L3].cpus_count"]) == (2, 112)


def test_no_list_at_all_is_an_empty_list() -> None:
    assert section("cpu", xeon()).values["cpu.nohz_full"] == ""
    isolated = section("cpu", xeon({f"{CPU}/isolated": "2-55,114-167\n"}))
    assert isolated.values["cpu.isolated"] == "2-55,114-167"


def test_arm_names_its_model_by_number() -> None:
    read = section("cpu", grace())
    values = read.values
    assert read.errors == {}
    assert (values["cpu.vendor"], values["cpu.model"]) == ("ARM", "Neoverse-V2")
    assert (values["cpu.family"], values["cpu.model_number"], values["cpu.stepping"]) == (8, 0xD4F, 0)
    assert values["cpu.flags"] == ["aes", "asimd", "bf16", "i8mm", "sve", "sve2"]
    assert values["cpu.turbo"] is True
    assert (values["cpu.sockets_count"], values["cpu.cores_count"]) == (1, 4)
    assert (values["cpu.frequency_lowest_mhz"], values["cpu.frequency_highest_mhz"]) == (3000, 3300)
    assert isinstance(read.reading("cpu.microcode"), Unavailable)


def test_an_unknown_arm_part_keeps_its_number() -> None:
    host = grace()
    host.files["/proc/cpuinfo"] = host.files["/proc/cpuinfo"].replace("0xd4f", "0xabc").replace("0x41", "0x99")
    values = section("cpu", host).values
    assert (values["cpu.vendor"], values["cpu.model"]) == ("0x99", "0xabc")


def test_a_virtual_machine_without_frequency_scaling() -> None:
    host = xeon()
    host.files = {path: text for path, text in host.files.items() if "cpufreq" not in path and "pstate" not in path}
    read = section("cpu", host)
    assert read.errors == {}
    for name in ("governor", "scaling_driver", "scaling_max_mhz", "turbo", "base_mhz"):
        assert read.unavailable[f"cpu.{name}"].why is Why.ABSENT


def test_garbage_costs_its_own_reading() -> None:
    changes = {f"{CPU}/online": "0-223; rm -rf /\n", f"{CPU}/cpu0/cache/index3/size": "a lot\n"}
    read = section("cpu", xeon(changes))
    assert set(read.errors) == {"cpu.online", "cpu.threads_count", "cpu.cache[L3].size_bytes"}
    assert read.values["cpu.governor"] == "performance"


def test_one_round_trip_for_all_files() -> None:
    host = xeon()
    section("cpu", host)
    assert host.rounds == 1


def test_the_empty_machine() -> None:
    empty = on_the_empty_machine("cpu")
    assert empty.values == {}
    assert isinstance(empty.reading("cpu.vulnerability[meltdown]"), Unavailable)
    assert isinstance(empty.reading("cpu.package[0].power_limit_watts"), Unavailable)


def test_this_machine() -> None:
    read = section("cpu", LiveHost())
    assert read.errors == {}
    assert read.values["cpu.threads_count"] == os.sysconf("SC_NPROCESSORS_ONLN")
    assert 1 <= read.values["cpu.sockets_count"] <= read.values["cpu.cores_count"] <= read.values["cpu.threads_count"]
