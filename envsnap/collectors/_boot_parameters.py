"""Parameters that the kernel was booted with, each a reading of its own. A part of the section `kernel`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.collectors._files import parsed
from envsnap.keys import At, Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Value

_LAUNCH = (Effect.HOST_LAUNCH,)
_LINK = (Effect.COMMUNICATION,)

# Parameters (patterns), prior, effects, meaning. The first that matches counts.
_GROUPS: tuple[tuple[str, float, tuple[Effect, ...], str], ...] = (
    ("nvidia* nouveau* rd.driver.blacklist modprobe.blacklist module_blacklist", 0.3, (*_LINK, Effect.COMPUTE),
     "Settings of GPU drivers, or drivers that are not loaded."),
    ("isolcpus nohz_full rcu_nocbs rcu_nocb_poll irqaffinity nohz kthread_cpus", 0.4, _LAUNCH,
     "CPUs withheld from ordinary scheduling: threads bound there do not spread out."),
    ("mitigations spectre* spec_* nospec* pti nopti kpti retbleed l1tf mds tsx* mmio_stale_data srbds gather_*",
     0.25, _LAUNCH, "Which CPU vulnerabilities are mitigated, at a cost to every system call."),
    ("iommu* intel_iommu amd_iommu swiotlb arm_smmu* vfio*", 0.5, _LINK,
     "Whether the IOMMU translates DMA; peer-to-peer traffic of GPUs suffers if it does."),
    ("pci pcie* pci_*", 0.5, _LINK, "Settings of the PCI bus: resources, power saving, access control."),
    ("intel_idle.* processor.* idle cpuidle* haltpoll.*", 0.35, _LAUNCH,
     "Which idle states CPUs may enter; deep ones delay every wake-up."),
    ("intel_pstate amd_pstate cpufreq.*", 0.3, _LAUNCH, "How CPU frequencies are governed."),
    ("hugepages* default_hugepagesz transparent_hugepage* numa* mem memmap", 0.25,
     (Effect.MEMORY, Effect.HOST_LAUNCH), "Memory that is withheld, or its pages and nodes."),
    ("nosmt maxcpus nr_cpus", 0.3, _LAUNCH, "CPUs that are left off."),
    ("clocksource tsc notsc hpet", 0.35, _LAUNCH, "Which clock the kernel trusts."),
    ("preempt threadirqs skew_tick nosoftlockup nowatchdog nmi_watchdog audit sched_*", 0.15, _LAUNCH,
     "How and when the kernel interrupts programs."),
    ("console earlyprintk* quiet splash loglevel ro rw panic reboot rdinit init", 0.01, (),
     "How the boot shows itself."),
)  # fmt: skip

_WHAT_WAS_BOOTED = "BOOT_IMAGE root initrd resume ostree rd.luks* rd.lvm* cryptdevice ip nfsroot systemd.machine_id"

KEY = Key(
    "kernel.parameter[]",
    Type.STRINGS,
    Kind.TUNABLE,
    "Values of a parameter on the kernel's command line, in order; none for one that stands alone.",
    _LAUNCH,
    0.05,
    Lever.ROOT,
    "Change the boot loader's configuration and reboot.",
    at=(
        *(
            At(name, effects=effects, prior=prior, meaning=meaning)
            for names, prior, effects, meaning in _GROUPS
            for name in names.split()
        ),
        *(
            At(name, Kind.LABEL, (), 0.0, "Which system was booted, and from where.")
            for name in _WHAT_WAS_BOOTED.split()
        ),
    ),
)


def collect(command_line: Found) -> Iterator[tuple[str, Found]]:
    """Readings from the text of /proc/cmdline."""
    parameters = parsed(command_line, parse_command_line)
    if not isinstance(parameters, Value):
        yield "kernel.parameter", parameters
        return
    for name, values in parameters.value.items():
        yield path_of(KEY.pattern, name), Value(values)


def parse_command_line(text: str) -> dict[str, list[str]]:
    """Parameters and their values in order. What follows `--` is init's, not the kernel's."""
    parameters: dict[str, list[str]] = {}
    for word in re.findall(r'(?:[^\s"]|"[^"]*")+', text):
        if word == "--":
            break
        name, equals, value = word.replace('"', "").partition("=")
        # NOTE: to the kernel, `-` and `_` in a name are the same.
        values = parameters.setdefault(name.replace("-", "_"), [])
        if equals:
            values.append(value)
    return parameters
