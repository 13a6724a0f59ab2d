"""What a GPU is and how it was set up: board, firmware, modes."""

from __future__ import annotations

from envsnap.collectors._nvml import fact, field, flag, item, named
from envsnap.keys import Effect, Key, Kind, Lever, Type

COMPUTE, MEMORY, COMMUNICATION = Effect.COMPUTE, Effect.MEMORY, Effect.COMMUNICATION
HOST_LAUNCH, VALIDITY = Effect.HOST_LAUNCH, Effect.VALIDITY

ARCHITECTURES = {
    2: "kepler", 3: "maxwell", 4: "pascal", 5: "volta", 6: "turing", 7: "ampere", 8: "ada", 9: "hopper",
    10: "blackwell", 11: "dla", 12: "dla2", 13: "rubin", 15: "npu3",
}  # fmt: skip
BRANDS = (
    "unknown", "quadro", "tesla", "nvs", "grid", "geforce", "titan", "nvidia_vapps", "nvidia_vpc", "nvidia_vcs",
    "nvidia_vws", "nvidia_cloud_gaming", "quadro_rtx", "nvidia_rtx", "nvidia", "geforce_rtx", "titan_rtx",
    "nvidia_dla", "nvidia_vgamedev", "nvidia_npu",
)  # fmt: skip
RECOVERY_ACTIONS = (
    "none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset", "recover_imex_domain", "bus_reset",
    "system_reboot",
)  # fmt: skip
INFOROM_OEM, INFOROM_ECC, INFOROM_POWER = 0, 1, 2


def _version(major_minor: list[int]) -> str:
    major, minor = major_minor
    return f"{major}.{minor}"


def _pci_id(number: int) -> str:
    """Vendor and device as lspci writes them; NVML has the device in the upper half."""
    return f"{number & 0xFFFF:04x}:{number >> 16 & 0xFFFF:04x}"


def _pci_address(bus_id: str) -> str:
    """The address as sysfs writes it; NVML has eight digits for the domain."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


FACTS = (
    fact(Key("gpu[].name", Type.STRING, Kind.IDENTITY, "Product name of the GPU.",
             (COMPUTE, MEMORY, COMMUNICATION), 0.5), "nvmlDeviceGetName"),
    fact(Key("gpu[].brand", Type.STRING, Kind.IDENTITY, "Product line of the GPU.", (COMPUTE,), 0.02),
         "nvmlDeviceGetBrand", take=named(BRANDS)),
    fact(Key("gpu[].architecture", Type.STRING, Kind.IDENTITY, "Architecture of the GPU.",
             (COMPUTE, MEMORY), 0.4), "nvmlDeviceGetArchitecture", take=named(ARCHITECTURES)),
    fact(Key("gpu[].compute_capability", Type.STRING, Kind.IDENTITY, "CUDA compute capability, as in 9.0: it decides "
             "which kernels can run.", (COMPUTE, Effect.VERIFY), 0.4),
         "nvmlDeviceGetCudaComputeCapability", take=_version),
    fact(Key("gpu[].core_count", Type.INTEGER, Kind.IDENTITY, "CUDA cores of the GPU.", (COMPUTE,), 0.3),
         "nvmlDeviceGetNumGpuCores"),
    fact(Key("gpu[].memory_bus_width_bits", Type.INTEGER, Kind.IDENTITY, "Width of the GPU's memory interface.",
             (MEMORY,), 0.3), "nvmlDeviceGetMemoryBusWidth"),
    fact(Key("gpu[].multi_gpu_board", Type.BOOLEAN, Kind.IDENTITY, "Whether the board carries several GPUs.",
             (COMMUNICATION,), 0.05), "nvmlDeviceGetMultiGpuBoard", take=flag),
    fact(Key("gpu[].uuid", Type.STRING, Kind.LABEL, "NVIDIA's identifier of this one GPU."), "nvmlDeviceGetUUID"),
    fact(Key("gpu[].serial", Type.STRING, Kind.LABEL, "Serial number of the board."), "nvmlDeviceGetSerial"),
    fact(Key("gpu[].board_id", Type.INTEGER, Kind.LABEL, "NVML's number of the board, the same for GPUs that "
             "share one."), "nvmlDeviceGetBoardId"),
    fact(Key("gpu[].minor_number", Type.INTEGER, Kind.LABEL, "Number N of the GPU's device file /dev/nvidiaN, which "
             "need not be its NVML index."), "nvmlDeviceGetMinorNumber"),
    fact(Key("gpu[].module_id", Type.INTEGER, Kind.LABEL, "Position of the GPU's module on its baseboard."),
         "nvmlDeviceGetModuleId"),
    fact(Key("gpu[].pci_address", Type.STRING, Kind.LABEL, "PCI address of the GPU: domain, bus, device, function."),
         "nvmlDeviceGetPciInfo", take=item("busId", _pci_address)),
    fact(Key("gpu[].pci_id", Type.STRING, Kind.IDENTITY, "PCI vendor and device of the GPU: which chip it is.",
             (COMPUTE, MEMORY), 0.4), "nvmlDeviceGetPciInfo", take=item("pciDeviceId", _pci_id)),
    fact(Key("gpu[].pci_subsystem_id", Type.STRING, Kind.IDENTITY, "PCI subsystem vendor and device: which board "
             "carries the chip.", (COMPUTE, MEMORY), 0.1),
         "nvmlDeviceGetPciInfo", take=item("pciSubSystemId", _pci_id)),
    fact(Key("gpu[].board_part_number", Type.STRING, Kind.IDENTITY, "Part number of the board.", (COMPUTE,), 0.1),
         "nvmlDeviceGetBoardPartNumber"),
    fact(Key("gpu[].vbios_version", Type.STRING, Kind.IDENTITY, "Version of the video BIOS, which holds clock and "
             "power tables.", (COMPUTE, MEMORY), 0.2, Lever.ROOT), "nvmlDeviceGetVbiosVersion"),
    fact(Key("gpu[].inforom_image_version", Type.STRING, Kind.IDENTITY, "Version of the InfoROM image.",
             (COMPUTE,), 0.05), "nvmlDeviceGetInforomImageVersion"),
    fact(Key("gpu[].inforom_oem_version", Type.STRING, Kind.IDENTITY, "Version of the InfoROM's OEM object.",
             (COMPUTE,), 0.02), ("nvmlDeviceGetInforomVersion", INFOROM_OEM)),
    fact(Key("gpu[].inforom_ecc_version", Type.STRING, Kind.IDENTITY, "Version of the InfoROM's ECC object.",
             (MEMORY,), 0.02), ("nvmlDeviceGetInforomVersion", INFOROM_ECC)),
    fact(Key("gpu[].inforom_power_version", Type.STRING, Kind.IDENTITY, "Version of the InfoROM's power object.",
             (COMPUTE,), 0.02), ("nvmlDeviceGetInforomVersion", INFOROM_POWER)),
    fact(Key("gpu[].gsp_firmware_version", Type.STRING, Kind.IDENTITY, "Version of the firmware that runs on the GPU's "
             "system processor.", (COMPUTE, HOST_LAUNCH), 0.2), "nvmlDeviceGetGspFirmwareVersion"),
    fact(Key("gpu[].gsp_firmware_enabled", Type.BOOLEAN, Kind.TUNABLE, "Whether the driver's resource manager runs on "
             "the GPU's system processor.", (HOST_LAUNCH, COMPUTE), 0.2, Lever.ROOT,
             "Set by the parameter NVreg_EnableGpuFirmware of the module nvidia; the open module needs it."),
         "nvmlDeviceGetGspFirmwareMode", take=item(0, flag)),
    fact(Key("gpu[].virtualization_mode", Type.STRING, Kind.IDENTITY, "How the GPU reaches this system: none on bare "
             "metal, passthrough or vgpu in a virtual machine.", (COMMUNICATION, COMPUTE), 0.3),
         "nvmlDeviceGetVirtualizationMode",
         take=named(("none", "passthrough", "vgpu", "host_vgpu", "host_vsga"))),
    fact(Key("gpu[].addressing_mode", Type.STRING, Kind.IDENTITY, "How the GPU reaches system memory by the CPU's "
             "addresses: none, hmm or ats.", (MEMORY, HOST_LAUNCH), 0.15),
         "nvmlDeviceGetAddressingMode", take=named(("none", "hmm", "ats"))),
    fact(Key("gpu[].c2c_enabled", Type.BOOLEAN, Kind.IDENTITY, "Whether a chip-to-chip link joins the GPU to its CPU.",
             (MEMORY, COMMUNICATION), 0.2), "nvmlDeviceGetC2cModeInfoV", take=item("isC2cEnabled", flag)),
    fact(Key("gpu[].compute_mode", Type.STRING, Kind.TUNABLE, "Who may use the GPU at once: default, exclusive_process "
             "or prohibited.", (VALIDITY,), 0.1, Lever.ROOT, "nvidia-smi -i GPU -c DEFAULT"),
         "nvmlDeviceGetComputeMode", take=named(("default", "exclusive_thread", "prohibited", "exclusive_process"))),
    fact(Key("gpu[].persistence_mode", Type.BOOLEAN, Kind.TUNABLE, "Whether the driver keeps the GPU initialised while "
             "nobody uses it; without it the first use takes seconds and clock settings are lost.",
             (HOST_LAUNCH, COMPUTE), 0.2, Lever.ROOT, "nvidia-smi -i GPU -pm 1, or run nvidia-persistenced"),
         "nvmlDeviceGetPersistenceMode", take=flag),
    fact(Key("gpu[].mig_mode", Type.BOOLEAN, Kind.TUNABLE, "Whether the GPU is divided into MIG instances.",
             (COMPUTE, MEMORY, COMMUNICATION), 0.4, Lever.ROOT,
             "nvidia-smi -i GPU -mig 0; NCCL has no NVLink or P2P between MIG instances."),
         "nvmlDeviceGetMigMode", take=item(0, flag)),
    fact(Key("gpu[].mig_mode_pending", Type.BOOLEAN, Kind.TUNABLE, "MIG mode after the next reset of the GPU.",
             (COMPUTE,), 0.05, Lever.ROOT), "nvmlDeviceGetMigMode", take=item(1, flag)),
    fact(Key("gpu[].accounting_mode", Type.BOOLEAN, Kind.TUNABLE, "Whether the driver keeps usage records of "
             "processes.", (HOST_LAUNCH,), 0.02, Lever.ROOT), "nvmlDeviceGetAccountingMode", take=flag),
    fact(Key("gpu[].display_active", Type.BOOLEAN, Kind.IDENTITY, "Whether a display shows what this GPU draws.",
             (COMPUTE,), 0.1), "nvmlDeviceGetDisplayActive", take=flag),
    fact(Key("gpu[].dram_encryption", Type.BOOLEAN, Kind.TUNABLE, "Whether the GPU's memory is encrypted.",
             (MEMORY,), 0.3, Lever.ROOT), "nvmlDeviceGetDramEncryptionMode", take=item(0, flag)),
    fact(Key("gpu[].confidential_protected_memory_kib", Type.INTEGER, Kind.TUNABLE, "Memory of the GPU that "
             "confidential computing protects; transfers to it are encrypted.", (MEMORY, COMMUNICATION), 0.3,
             Lever.ROOT), "nvmlDeviceGetConfComputeMemSizeInfo", take=item("protectedMemSizeKib")),
    fact(Key("gpu[].recovery_action", Type.STRING, Kind.IDENTITY, "What the driver says the GPU needs to be healthy "
             "again: none, gpu_reset, node_reboot.", (VALIDITY, COMPUTE), 0.5,
             advice="Anything but none: do what it says before measuring."),
         field(230), take=named(RECOVERY_ACTIONS)),
)  # fmt: skip
