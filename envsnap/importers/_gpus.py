"""What `nvidia-smi -q` says of a GPU, in its text and its XML: one table for both.

The words are those of the driver 580.159; labels that older drivers use for the same are listed beside them. Limits of
power: what is called *current* (formerly *enforced*) is in force, what is called *requested* (formerly just *power
limit*) was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envsnap.collectors._gpu_board import ARCHITECTURES, BRANDS, RECOVERY_ACTIONS
from envsnap.importers import _words as words
from envsnap.importers._sheet import Sheet
from envsnap.keys import path_of
from envsnap.reading import Json

Label = tuple[str, ...]
"""Where a value stands: the headings above it, and its own."""


@dataclass(frozen=True)
class Fact:
    """A key's last name, how a word becomes its value, and where the word stands in the text and in the XML."""

    name: str
    take: words.Take
    text: tuple[Label, ...]
    xml: Label


def _fact(name: str, take: words.Take, xml: str, *labels: str) -> Fact:
    return Fact(name, take, tuple(tuple(label.split("/")) for label in labels), tuple(xml.split("/")))


MHZ, CELSIUS, PERCENT, MIB = words.unit("MHz"), words.unit("C"), words.unit("%"), words.unit("MiB", 1 << 20)
MICROSECONDS = words.unit("us", 1000)

FACTS = (
    _fact("name", words.text, "product_name", "Product Name"),
    _fact("brand", words.one_of(BRANDS), "product_brand", "Product Brand"),
    _fact("architecture", words.one_of(ARCHITECTURES.values()), "product_architecture", "Product Architecture"),
    _fact("display_active", words.ENABLED, "display_active", "Display Active"),
    _fact("persistence_mode", words.ENABLED, "persistence_mode", "Persistence Mode"),
    _fact("addressing_mode", words.one_of(("none", "hmm", "ats")), "addressing_mode", "Addressing Mode"),
    _fact("mig_mode", words.ENABLED, "mig_mode/current_mig", "MIG Mode/Current"),
    _fact("mig_mode_pending", words.ENABLED, "mig_mode/pending_mig", "MIG Mode/Pending"),
    _fact("accounting_mode", words.ENABLED, "accounting_mode", "Accounting Mode"),
    _fact("serial", words.text, "serial", "Serial Number"),
    _fact("uuid", words.text, "uuid", "GPU UUID"),
    _fact("minor_number", words.integer, "minor_number", "Minor Number"),
    _fact("vbios_version", words.text, "vbios_version", "VBIOS Version"),
    _fact("multi_gpu_board", words.YES, "multigpu_board", "MultiGPU Board"),
    _fact("board_part_number", words.text, "board_part_number", "Board Part Number"),
    _fact("module_id", words.integer, "platformInfo/module_id", "Platform Info/Module Id"),
    _fact("inforom_image_version", words.text, "inforom_version/img_version", "Inforom Version/Image Version"),
    _fact("inforom_oem_version", words.text, "inforom_version/oem_object", "Inforom Version/OEM Object"),
    _fact("inforom_ecc_version", words.text, "inforom_version/ecc_object", "Inforom Version/ECC Object"),
    _fact("inforom_power_version", words.text, "inforom_version/pwr_object", "Inforom Version/Power Management Object"),
    _fact("c2c_enabled", words.ENABLED, "c2c_mode", "GPU C2C Mode"),
    _fact("virtualization_mode", words.one_of((), none="none", pass_through="passthrough"),
          "gpu_virtualization_mode/virtualization_mode", "GPU Virtualization Mode/Virtualization Mode",
          "GPU Virtualization Mode/Virtualization mode"),
    _fact("recovery_action", words.one_of(RECOVERY_ACTIONS), "gpu_recovery_action", "GPU Recovery Action"),
    _fact("gsp_firmware_version", words.text, "gsp_firmware_version", "GSP Firmware Version"),
    _fact("pci_address", words.pci_address, "pci/pci_bus_id", "PCI/Bus Id"),
    _fact("pci_id", words.pci_id, "pci/pci_device_id", "PCI/Device Id"),
    _fact("pci_subsystem_id", words.pci_id, "pci/pci_sub_system_id", "PCI/Sub System Id"),
    _fact("max_pcie_generation", words.integer, "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
          "PCI/GPU Link Info/PCIe Generation/Max"),
    _fact("pcie_generation", words.integer, "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
          "PCI/GPU Link Info/PCIe Generation/Current"),
    _fact("gpu_max_pcie_generation", words.integer, "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen",
          "PCI/GPU Link Info/PCIe Generation/Device Max"),
    _fact("max_pcie_width_lanes", words.lanes, "pci/pci_gpu_link_info/link_widths/max_link_width",
          "PCI/GPU Link Info/Link Width/Max"),
    _fact("pcie_width_lanes", words.lanes, "pci/pci_gpu_link_info/link_widths/current_link_width",
          "PCI/GPU Link Info/Link Width/Current"),
    _fact("pcie_replay_count", words.integer, "pci/replay_counter", "PCI/Replays Since Reset"),
    _fact("pcie_replay_rollover_count", words.integer, "pci/replay_rollover_counter", "PCI/Replay Number Rollovers"),
    _fact("fan_speed_percent", PERCENT, "fan_speed", "Fan Speed"),
    _fact("performance_state", lambda word: words.integer(word[1:]) if word[:1] == "P" else None, "performance_state",
          "Performance State"),
    _fact("sw_thermal_slowdown_nanoseconds", MICROSECONDS,
          "clocks_event_reasons_counters/clocks_event_reasons_counters_sw_therm_slowdown",
          "Clocks Event Reasons Counters/SW Thermal Slowdown"),
    _fact("hw_thermal_slowdown_nanoseconds", MICROSECONDS,
          "clocks_event_reasons_counters/clocks_event_reasons_counters_hw_therm_slowdown",
          "Clocks Event Reasons Counters/HW Thermal Slowdown"),
    _fact("hw_power_brake_slowdown_nanoseconds", MICROSECONDS,
          "clocks_event_reasons_counters/clocks_event_reasons_counters_hw_power_brake",
          "Clocks Event Reasons Counters/HW Power Braking"),
    # NOTE: reserved memory is rounded up to MiB, so that it never equals what NVML says.
    _fact("memory_total_bytes", MIB, "fb_memory_usage/total", "FB Memory Usage/Total"),
    _fact("memory_used_bytes", MIB, "fb_memory_usage/used", "FB Memory Usage/Used"),
    _fact("memory_free_bytes", MIB, "fb_memory_usage/free", "FB Memory Usage/Free"),
    _fact("bar1_total_bytes", MIB, "bar1_memory_usage/total", "BAR1 Memory Usage/Total"),
    _fact("bar1_used_bytes", MIB, "bar1_memory_usage/used", "BAR1 Memory Usage/Used"),
    _fact("confidential_protected_memory_kib", words.unit("MiB", 1024), "cc_protected_memory_usage/total",
          "Conf Compute Protected Memory Usage/Total"),
    _fact("compute_mode", words.one_of(("default", "exclusive_process", "prohibited")), "compute_mode",
          "Compute Mode"),
    _fact("utilization_gpu_percent", PERCENT, "utilization/gpu_util", "Utilization/GPU", "Utilization/Gpu"),
    _fact("utilization_memory_percent", PERCENT, "utilization/memory_util", "Utilization/Memory"),
    _fact("ecc_mode", words.ENABLED, "ecc_mode/current_ecc", "ECC Mode/Current", "Ecc Mode/Current"),
    _fact("ecc_mode_pending", words.ENABLED, "ecc_mode/pending_ecc", "ECC Mode/Pending", "Ecc Mode/Pending"),
    _fact("sram_threshold_exceeded", words.YES, "ecc_errors/aggregate/sram_threshold_exceeded",
          "ECC Errors/Aggregate/SRAM Threshold Exceeded"),
    _fact("channel_repair_pending", words.YES, "ecc_errors/channel_repair_pending",
          "ECC Errors/Channel Repair Pending"),
    _fact("tpc_repair_pending", words.YES, "ecc_errors/tpc_repair_pending", "ECC Errors/TPC Repair Pending"),
    _fact("unrepairable_memory", words.YES, "ecc_errors/unrepairable_memory", "ECC Errors/Unrepairable Memory"),
    _fact("remapped_rows_correctable_count", words.integer, "remapped_rows/remapped_row_corr",
          "Remapped Rows/Correctable Error"),
    _fact("remapped_rows_uncorrectable_count", words.integer, "remapped_rows/remapped_row_unc",
          "Remapped Rows/Uncorrectable Error"),
    _fact("remapped_rows_pending", words.YES, "remapped_rows/remapped_row_pending", "Remapped Rows/Pending"),
    _fact("remapped_rows_failure", words.YES, "remapped_rows/remapped_row_failure",
          "Remapped Rows/Remapping Failure Occurred"),
    _fact("temperature_celsius", CELSIUS, "temperature/gpu_temp", "Temperature/GPU Current Temp"),
    _fact("memory_temperature_celsius", CELSIUS, "temperature/memory_temp", "Temperature/Memory Current Temp"),
    _fact("temperature_margin_celsius", CELSIUS, "temperature/gpu_temp_tlimit", "Temperature/GPU T.Limit Temp"),
    _fact("shutdown_tlimit_celsius", CELSIUS, "temperature/gpu_temp_max_tlimit_threshold",
          "Temperature/GPU Shutdown T.Limit Temp"),
    _fact("slowdown_tlimit_celsius", CELSIUS, "temperature/gpu_temp_slow_tlimit_threshold",
          "Temperature/GPU Slowdown T.Limit Temp"),
    _fact("max_gpu_tlimit_celsius", CELSIUS, "temperature/gpu_temp_max_gpu_tlimit_threshold",
          "Temperature/GPU Max Operating T.Limit Temp"),
    _fact("max_memory_tlimit_celsius", CELSIUS, "temperature/gpu_temp_max_mem_tlimit_threshold",
          "Temperature/Memory Max Operating T.Limit Temp"),
    _fact("power_draw_instant_watts", words.watts, "gpu_power_readings/instant_power_draw",
          "GPU Power Readings/Instantaneous Power Draw"),
    _fact("power_draw_watts", words.watts, "gpu_power_readings/average_power_draw",
          "GPU Power Readings/Average Power Draw"),
    _fact("enforced_power_limit_watts", words.watts, "gpu_power_readings/current_power_limit",
          "GPU Power Readings/Current Power Limit", "Power Readings/Enforced Power Limit"),
    _fact("power_limit_watts", words.watts, "gpu_power_readings/requested_power_limit",
          "GPU Power Readings/Requested Power Limit", "Power Readings/Power Limit"),
    _fact("default_power_limit_watts", words.watts, "gpu_power_readings/default_power_limit",
          "GPU Power Readings/Default Power Limit", "Power Readings/Default Power Limit"),
    _fact("min_power_limit_watts", words.watts, "gpu_power_readings/min_power_limit",
          "GPU Power Readings/Min Power Limit", "Power Readings/Min Power Limit"),
    _fact("max_power_limit_watts", words.watts, "gpu_power_readings/max_power_limit",
          "GPU Power Readings/Max Power Limit", "Power Readings/Max Power Limit"),
    _fact("graphics_clock_mhz", MHZ, "clocks/graphics_clock", "Clocks/Graphics"),
    _fact("sm_clock_mhz", MHZ, "clocks/sm_clock", "Clocks/SM"),
    _fact("memory_clock_mhz", MHZ, "clocks/mem_clock", "Clocks/Memory"),
    _fact("video_clock_mhz", MHZ, "clocks/video_clock", "Clocks/Video"),
    _fact("application_graphics_clock_mhz", MHZ, "applications_clocks/graphics_clock", "Applications Clocks/Graphics"),
    _fact("application_memory_clock_mhz", MHZ, "applications_clocks/mem_clock", "Applications Clocks/Memory"),
    _fact("default_application_graphics_clock_mhz", MHZ, "default_applications_clocks/graphics_clock",
          "Default Applications Clocks/Graphics"),
    _fact("default_application_memory_clock_mhz", MHZ, "default_applications_clocks/mem_clock",
          "Default Applications Clocks/Memory"),
    _fact("max_graphics_clock_mhz", MHZ, "max_clocks/graphics_clock", "Max Clocks/Graphics"),
    _fact("max_sm_clock_mhz", MHZ, "max_clocks/sm_clock", "Max Clocks/SM"),
    _fact("max_memory_clock_mhz", MHZ, "max_clocks/mem_clock", "Max Clocks/Memory"),
    _fact("max_video_clock_mhz", MHZ, "max_clocks/video_clock", "Max Clocks/Video"),
    _fact("max_customer_boost_graphics_clock_mhz", MHZ, "max_customer_boost_clocks/graphics_clock",
          "Max Customer Boost Clocks/Graphics"),
    _fact("auto_boost", words.either("On", "Off"), "clock_policy/auto_boost", "Clock Policy/Auto Boost"),
    _fact("fabric_state", words.one_of(("not_started", "in_progress", "completed")), "fabric/state", "Fabric/State"),
    _fact("fabric_status_code", lambda word: 0 if word == "Success" else None, "fabric/status", "Fabric/Status"),
)  # fmt: skip

BY_TEXT = {label: fact for fact in FACTS for label in fact.text}
BY_XML = {fact.xml: fact for fact in FACTS}


def put(sheet: Sheet, facts: Mapping[Label, Fact], index: int, found: Mapping[Label, tuple[int, str]]) -> None:
    """A GPU's readings, by what stands where and in which line."""
    for label, (line, word) in found.items():
        fact = facts.get(label)
        value: Json = fact.take(word) if fact else None
        if fact is None or value is None:
            sheet.skip(line)
        else:
            sheet.value(line, path_of(f"gpu[].{fact.name}", index), value)


def indexed(attached: int | None, minors: list[int | None]) -> bool:
    """Whether the GPUs of a dump are counted as NVML does, from the first one on.

    A dump of some GPUs alone (`-i 3`) does not say which they are; one that was cut begins with the first.
    """
    if attached == len(minors):
        return True
    return bool(minors) and minors[0] == 0 and all(minor in (None, at) for at, minor in enumerate(minors))
