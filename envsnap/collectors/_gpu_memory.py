"""Memory of a GPU: its size and use, its errors and repairs."""

from __future__ import annotations

from envsnap.collectors._nvml import fact, field, flag, item
from envsnap.keys import Effect, Key, Kind, Lever, Type

MEMORY, COMPUTE, VALIDITY = Effect.MEMORY, Effect.COMPUTE, Effect.VALIDITY
CORRECTED, UNCORRECTED = 0, 1
VOLATILE_ECC, AGGREGATE_ECC = 0, 1

MEMORY_V2 = ("nvmlDeviceGetMemoryInfo", 0x0200_0028)
MEMORY_V1 = ("nvmlDeviceGetMemoryInfo",)
SRAM_STATUS = ("nvmlDeviceGetSramEccErrorStatus", "struct:c_nvmlEccSramErrorStatus_v1_t")
REPLACE = "A growing count calls for a reset of the GPU, then for its replacement."

FACTS = (
    fact(Key("gpu[].memory_total_bytes", Type.INTEGER, Kind.IDENTITY, "Memory of the GPU.", (MEMORY,), 0.4),
         MEMORY_V2, MEMORY_V1, take=item("total")),
    fact(Key("gpu[].memory_reserved_bytes", Type.INTEGER, Kind.IDENTITY, "Memory that driver and firmware keep for "
             "themselves.", (MEMORY,), 0.1), MEMORY_V2, take=item("reserved")),
    # NOTE: what the older call says is used contains what is reserved, so it cannot stand in here.
    fact(Key("gpu[].memory_used_bytes", Type.INTEGER, Kind.VOLATILE, "Memory that processes have allocated.",
             (MEMORY,), 0.2, rel_tol=0.02, abs_tol=64 << 20), MEMORY_V2, take=item("used")),
    fact(Key("gpu[].memory_free_bytes", Type.INTEGER, Kind.VOLATILE, "Memory that can still be allocated.", (MEMORY,),
             0.2, rel_tol=0.02, abs_tol=64 << 20), MEMORY_V2, MEMORY_V1, take=item("free")),
    fact(Key("gpu[].bar1_total_bytes", Type.INTEGER, Kind.IDENTITY, "Size of the window through which others reach the "
             "GPU's memory; as large as the memory where the BAR was resized.", (Effect.COMMUNICATION, MEMORY), 0.2,
             advice="Smaller than the memory: enable Resizable BAR and Above 4G Decoding in the firmware setup."),
         "nvmlDeviceGetBAR1MemoryInfo", take=item("bar1Total")),
    fact(Key("gpu[].bar1_used_bytes", Type.INTEGER, Kind.VOLATILE, "Part of that window in use.", (MEMORY,), 0.02,
             rel_tol=0.1, abs_tol=64 << 20), "nvmlDeviceGetBAR1MemoryInfo", take=item("bar1Used")),
    fact(Key("gpu[].utilization_gpu_percent", Type.INTEGER, Kind.VOLATILE, "Share of the last moments in which some "
             "kernel ran.", (VALIDITY,), 0.2, abs_tol=5), "nvmlDeviceGetUtilizationRates", take=item("gpu")),
    fact(Key("gpu[].utilization_memory_percent", Type.INTEGER, Kind.VOLATILE, "Share of the last moments in which "
             "memory was read or written.", (VALIDITY,), 0.1, abs_tol=5), "nvmlDeviceGetUtilizationRates",
         take=item("memory")),
    fact(Key("gpu[].ecc_mode", Type.BOOLEAN, Kind.TUNABLE, "Whether memory errors are corrected; costs bandwidth on "
             "boards with GDDR.", (MEMORY,), 0.3, Lever.ROOT, "nvidia-smi -i GPU -e 0 or 1, then reset the GPU"),
         "nvmlDeviceGetEccMode", take=item(0, flag)),
    fact(Key("gpu[].ecc_mode_pending", Type.BOOLEAN, Kind.TUNABLE, "ECC mode after the next reset of the GPU.",
             (MEMORY,), 0.05, Lever.ROOT), "nvmlDeviceGetEccMode", take=item(1, flag)),
    *(
        fact(Key(f"gpu[].ecc_{name}_{span}_count", Type.INTEGER, Kind.COUNTER, f"Memory errors {name} {since}.",
                 (MEMORY, VALIDITY), prior, advice=REPLACE), ("nvmlDeviceGetTotalEccErrors", error, counter))
        for name, error, prior in (("corrected", CORRECTED, 0.2), ("uncorrected", UNCORRECTED, 0.4))
        for span, counter, since in (("volatile", VOLATILE_ECC, "since the driver was loaded"),
                                     ("aggregate", AGGREGATE_ECC, "over the life of the board"))
    ),
    fact(Key("gpu[].sram_threshold_exceeded", Type.BOOLEAN, Kind.IDENTITY, "Whether errors of on-chip memory have "
             "passed the count at which the board is to be replaced.", (MEMORY, VALIDITY), 0.4, advice=REPLACE),
         SRAM_STATUS, take=item("bThresholdExceeded", flag)),
    fact(Key("gpu[].remapped_rows_correctable_count", Type.INTEGER, Kind.COUNTER, "Memory rows replaced because of "
             "corrected errors.", (MEMORY,), 0.2), "nvmlDeviceGetRemappedRows", take=item(0)),
    fact(Key("gpu[].remapped_rows_uncorrectable_count", Type.INTEGER, Kind.COUNTER, "Memory rows replaced because of "
             "uncorrected errors.", (MEMORY,), 0.2), "nvmlDeviceGetRemappedRows", take=item(1)),
    fact(Key("gpu[].remapped_rows_pending", Type.BOOLEAN, Kind.IDENTITY,
             "Whether rows wait for a reset to be replaced.",
             (MEMORY, VALIDITY), 0.3, advice="Reset the GPU: nvidia-smi -i GPU -r"),
         "nvmlDeviceGetRemappedRows", take=item(2, flag)),
    fact(Key("gpu[].remapped_rows_failure", Type.BOOLEAN, Kind.IDENTITY, "Whether a row could not be replaced.",
             (MEMORY, VALIDITY), 0.4, advice=REPLACE), "nvmlDeviceGetRemappedRows", take=item(3, flag)),
    fact(Key("gpu[].channel_repair_pending", Type.BOOLEAN, Kind.IDENTITY, "Whether a memory channel waits for a reset "
             "to be repaired.", (MEMORY, VALIDITY), 0.3), "nvmlDeviceGetRepairStatus", take=item(0, flag)),
    fact(Key("gpu[].tpc_repair_pending", Type.BOOLEAN, Kind.IDENTITY, "Whether a texture processing cluster waits for "
             "a reset to be repaired.", (COMPUTE, VALIDITY), 0.3), "nvmlDeviceGetRepairStatus", take=item(1, flag)),
    fact(Key("gpu[].unrepairable_memory", Type.BOOLEAN, Kind.IDENTITY, "Whether memory is broken beyond repair.",
             (MEMORY, VALIDITY), 0.4, advice="Replace the board."), "nvmlDeviceGetUnrepairableMemoryFlag_v1",
         take=flag),
    fact(Key("gpu[].retired_pages_single_bit_count", Type.INTEGER, Kind.COUNTER, "Memory pages retired because of "
             "repeated corrected errors (boards before Ampere).", (MEMORY,), 0.2), field(29)),
    fact(Key("gpu[].retired_pages_double_bit_count", Type.INTEGER, Kind.COUNTER, "Memory pages retired because of "
             "uncorrected errors (boards before Ampere).", (MEMORY,), 0.2), field(30)),
    fact(Key("gpu[].retired_pages_pending", Type.BOOLEAN, Kind.IDENTITY,
             "Whether pages wait for a reset to be retired.",
             (MEMORY, VALIDITY), 0.3), "nvmlDeviceGetRetiredPagesPendingStatus", take=flag),
)  # fmt: skip
