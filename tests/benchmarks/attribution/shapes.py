"""Shapes of machines: the readings in which each differs from the recorded one, a guest with NVLink."""

from __future__ import annotations

from itertools import permutations

from envsnap.reading import Json


def shape_readings(shape: str, gpus: int) -> dict[str, Json]:
    """The readings of a shape: `guest`, `metal` (the same hardware, bare), `pcie` (cards without NVLink), `cluster`."""
    if shape == "guest":
        return {}
    found: dict[str, Json] = {
        "platform.virtualization": "none",
        "platform.vendor": "Supermicro",
        "platform.product": "SYS-821GE-TNHR",
        "platform.board": "X13DEG-OAD",
        "platform.bios_version": "2.1",
        "platform.bios_date": "2025-03-11",
        "cpu.governor": "performance",
        "cpu.turbo": True,
        "cpu.energy_preference": "performance",
        "cpu.scaling_driver": "intel_pstate",
        "numa.nodes": "0-1",
        "numa.memory_nodes": "0-1",
        "numa[0].cpus": "0-15",
        "numa[1].cpus": "16-31",
        "numa[1].memory_bytes": 135167232000,
        "numa[0].distances": [10, 21],
        "numa[1].distances": [21, 10],
        "kernel.parameter[intel_iommu]": ["on"],
        "kernel.parameter[iommu]": ["pt"],
    }
    for i in range(gpus):
        found |= {
            f"gpu[{i}].virtualization_mode": "none",
            f"gpu[{i}].cpu_affinity": "0-15" if i < gpus / 2 else "16-31",
            f"pci[gpu{i}].numa_node": 0 if i < gpus / 2 else 1,
            f"pci[gpu{i}].iommu_type": "identity",
            f"pci[gpu{i}].aer_correctable_count": 0,
            f"pci[gpu{i}/up1].driver": "pcieport",
            f"pci[gpu{i}/up1].acs_enabled": [],
            f"pci[gpu{i}/up1].link_speed_gts": 32.0,
            f"pci[gpu{i}/up1].link_width_lanes": 16,
            f"pci[gpu{i}/up1].max_payload_bytes": 256,
        }
    if shape == "pcie":
        found |= _pcie(gpus)
    if shape == "cluster":
        found |= _rdma()
    return found


def _pcie(gpus: int) -> dict[str, Json]:
    """Cards in slots, without NVLink."""
    found: dict[str, Json] = {}
    for i in range(gpus):
        found |= {
            f"gpu[{i}].name": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            f"gpu[{i}].architecture": "blackwell",
            f"gpu[{i}].compute_capability": "12.0",
            f"gpu[{i}].pci_id": "10de:2bb1",
            f"gpu[{i}].memory_total_bytes": 102641958912,
            f"gpu[{i}].power_limit_watts": 600.0,
            f"gpu[{i}].enforced_power_limit_watts": 600.0,
            f"gpu[{i}].default_power_limit_watts": 600.0,
            f"gpu[{i}].ecc_mode": False,
            f"gpu[{i}].nvlink_active_count": 0,
            f"gpu[{i}].fabric_state": None,
            f"gpu[{i}].fabric_status_code": None,
        }
        for link in range(18):
            for name in ("active", "version", "remote_device", "speed_mbps"):
                found[f"gpu[{i}].nvlink[{link}].{name}"] = None
            for name in ("replay_error_count", "recovery_error_count", "crc_error_count"):
                found[f"gpu[{i}].nvlink[{link}].{name}"] = None
        for j in range(i + 1, gpus):
            found |= {
                f"gpu_pair[{i}/{j}].topology": "node",
                f"gpu_pair[{i}/{j}].p2p_nvlink": "not_supported",
                f"gpu_pair[{i}/{j}].p2p_pci": "ok",
            }
    return found


def _rdma() -> dict[str, Json]:
    """A machine of a cluster: four adapters of 400 Gbit/s."""
    found: dict[str, Json] = {
        "rdma.devices_count": 4,
        "rdma.verbs_files_count": 4,
        "rdma.peer_memory_loaded": True,
        "network[eth0].mtu_bytes": 9000,
        "kernel.modules": ["ib_core", "mlx5_core", "mlx5_ib", "nvidia", "nvidia_peermem", "nvidia_uvm"],
    }
    for i in range(4):
        port = f"rdma[mlx5_{i}].port[1]"
        found |= {
            f"rdma[mlx5_{i}].model": "MT4129",
            f"rdma[mlx5_{i}].firmware": "28.43.2026",
            f"rdma[mlx5_{i}].node_type": "CA",
            f"rdma[mlx5_{i}].numa_node": i // 2,
            f"{port}.state": "active",
            f"{port}.physical_state": "link_up",
            f"{port}.link_layer": "ethernet",
            f"{port}.rate_gbps": 400,
            f"{port}.width_lanes": 4,
            f"{port}.gids_count": 4,
            f"{port}.gid[3].type": "RoCE v2",
            f"{port}.gid[3].family": "ipv4",
        }
    return found


def network_readings(shape: str, here: int, ranks: int) -> dict[str, Json]:
    """What NCCL's log says of the ranks of this machine."""
    found: dict[str, Json] = {"nccl.log.rank_count": here}
    for i in range(here):
        found[f"nccl.rank[{i}].ranks_count"] = ranks
        found[f"nccl.rank[{i}].set[NCCL_CUMEM_ENABLE]"] = "0"
    for i, j in permutations(range(here), 2):
        found[f"nccl.rank[{i}].transport[{j}]"] = None
    for i in range(here):
        peer = (i + 1) % here
        found[f"nccl.rank[{i}].transport[{peer}]"] = ["P2P/direct pointer" if shape == "pcie" else "P2P/CUMEM"]
        if shape == "pcie":
            found[f"nccl.rank[{i}].channels[nvls]"] = 0
        if shape == "cluster":
            found |= {
                f"nccl.rank[{i}].network": "IB",
                f"nccl.rank[{i}].plugins": ["libnccl-net.so"],
                f"nccl.rank[{i}].gpu_direct_rdma": True,
                f"nccl.rank[{i}].transport[{here + i}]": ["NET/IB/GDRDMA"],
            }
    return found
