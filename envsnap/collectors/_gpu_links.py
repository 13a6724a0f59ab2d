"""What joins a GPU to its host: PCIe and NUMA."""

from __future__ import annotations

from envsnap.collectors._nvml import fact, field, mask_ranges, thousandth
from envsnap.keys import Effect, Key, Kind, Type

COMMUNICATION, HOST_LAUNCH, PREFILL = Effect.COMMUNICATION, Effect.HOST_LAUNCH, Effect.PREFILL

CPU_WORDS, NODE_WORDS = 64, 16
"""Room for 4096 CPUs and 1024 NUMA nodes; NVML fills the rest with zeros."""
NODE_SCOPE = 0

FACTS = (
    fact(Key("gpu[].pcie_generation", Type.INTEGER, Kind.CONDITION, "PCIe generation that the GPU's link runs at.",
             (COMMUNICATION, PREFILL), 0.4,
             advice="Compare under load only: many boards go down to generation 1 while idle."),
         "nvmlDeviceGetCurrPcieLinkGeneration"),
    fact(Key("gpu[].pcie_width_lanes", Type.INTEGER, Kind.IDENTITY, "Lanes that the GPU's PCIe link uses.",
             (COMMUNICATION, PREFILL), 0.5,
             advice="Fewer than the maximum: reseat the board or riser; check bifurcation."),
         "nvmlDeviceGetCurrPcieLinkWidth"),
    fact(Key("gpu[].pcie_speed_gts", Type.NUMBER, Kind.CONDITION, "Transfer rate of each lane of the GPU's PCIe link.",
             (COMMUNICATION, PREFILL), 0.3), "nvmlDeviceGetPcieSpeed", take=thousandth),
    fact(Key("gpu[].max_pcie_generation", Type.INTEGER, Kind.IDENTITY, "Highest PCIe generation that GPU and slot have "
             "in common.", (COMMUNICATION, PREFILL), 0.4), "nvmlDeviceGetMaxPcieLinkGeneration"),
    fact(Key("gpu[].max_pcie_width_lanes", Type.INTEGER, Kind.IDENTITY, "Most lanes that GPU and slot have in common.",
             (COMMUNICATION, PREFILL), 0.4), "nvmlDeviceGetMaxPcieLinkWidth"),
    fact(Key("gpu[].gpu_max_pcie_generation", Type.INTEGER, Kind.IDENTITY, "Highest PCIe generation of the GPU itself.",
             (COMMUNICATION,), 0.1), "nvmlDeviceGetGpuMaxPcieLinkGeneration"),
    fact(Key("gpu[].pcie_replay_count", Type.INTEGER, Kind.COUNTER, "PCIe packets sent again because of errors.",
             (COMMUNICATION,), 0.4, advice="Growth under load points to a bad riser, cable or slot."),
         "nvmlDeviceGetPcieReplayCounter"),
    *(
        fact(Key(f"gpu[].pcie_{name}_count", Type.INTEGER, Kind.COUNTER, meaning, (COMMUNICATION,), prior),
             field(number))
        for name, number, prior, meaning in (
            ("replay_rollover", 95, 0.2, "Times that the replay counter of the PCIe link rolled over."),
            ("l0_to_recovery", 169, 0.4, "Times that the PCIe link left its working state to be trained again."),
            ("correctable_error", 173, 0.3, "PCIe errors that were corrected."),
            ("nak_received", 174, 0.2, "PCIe packets that the other side rejected."),
            ("nak_sent", 177, 0.2, "PCIe packets that the GPU rejected."),
            ("non_fatal_error", 179, 0.4, "PCIe errors that lost a transaction."),
            ("fatal_error", 180, 0.4, "PCIe errors that took the link down."),
        )
    ),
    fact(Key("gpu[].pcie_sent_bytes", Type.INTEGER, Kind.COUNTER, "Bytes that the GPU sent over PCIe; may wrap around.",
             (COMMUNICATION,), 0.02), field(197)),
    fact(Key("gpu[].pcie_received_bytes", Type.INTEGER, Kind.COUNTER, "Bytes that the GPU received over PCIe; may wrap "
             "around.", (COMMUNICATION,), 0.02), field(198)),
    fact(Key("gpu[].cpu_affinity", Type.STRING, Kind.IDENTITY, "CPUs that are near the GPU.", (HOST_LAUNCH,), 0.3,
             advice="Bind each rank to these CPUs."), ("nvmlDeviceGetCpuAffinity", CPU_WORDS), take=mask_ranges),
    fact(Key("gpu[].memory_affinity", Type.STRING, Kind.IDENTITY, "NUMA nodes whose memory is near the GPU.",
             (HOST_LAUNCH, PREFILL), 0.3), ("nvmlDeviceGetMemoryAffinity", NODE_WORDS, NODE_SCOPE), take=mask_ranges),
    fact(Key("gpu[].memory_numa_node", Type.INTEGER, Kind.IDENTITY, "NUMA node that the GPU's own memory forms, where "
             "the CPU can address it.", (Effect.MEMORY,), 0.2), "nvmlDeviceGetNumaNodeId"),
)  # fmt: skip
