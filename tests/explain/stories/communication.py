"""How ranks talk to each other."""

from __future__ import annotations

from envsnap.explain import Clue, Mistake, Together
from envsnap.explain.weights import FAIR, STRONG, WEAK
from envsnap.reading import Json
from tests.explain.stories.case import CLUSTER, NOTHING_ACCEPTED, ONE, PCIE, SPECULATIVE, STEP, TWO, Table, ranks

case = Table()

NET = {"nccl.rank[0].network": "Socket", "nccl.rank[1].network": "Socket"}
IB = {"nccl.rank[0].network": "IB", "nccl.rank[1].network": "IB"}
PORT = {
    "rdma[mlx5_0].port[1].state": "ACTIVE",
    "rdma[mlx5_0].port[1].link_layer": "InfiniBand",
    "rdma.devices_count": 1,
}
case(
    "sockets_despite_rdma",
    "no device files",
    {**CLUSTER, **PORT},
    {**IB, "rdma.verbs_files_count": 1},
    {**NET, "rdma.verbs_files_count": 0},
    Together,
    "names Socket",
    "rdma.verbs_files_count",
)
case(
    "sockets_despite_rdma",
    "no log",
    {**CLUSTER, **PORT},
    {"rdma.verbs_files_count": 1},
    {"rdma.verbs_files_count": 0},
    Clue,
    "/dev/infiniband",
    "rdma.verbs_files_count",
    weight=STRONG,
)
case(
    "sockets_despite_rdma",
    "on one machine",
    {**TWO, **PORT},
    {**IB, "rdma.verbs_files_count": 1},
    {**NET, "rdma.verbs_files_count": 0},
)
case(
    "sockets_despite_rdma",
    "plug-in lost",
    CLUSTER,
    ranks(
        2,
        {
            "worker[{r}].library[nccl_net/0].path": "/opt/ofi/libnccl-net.so",
            "worker[{r}].env[LD_LIBRARY_PATH]": "/opt/ofi",
        },
    ),
    ranks(2, {"worker[{r}].env[LD_LIBRARY_PATH]": "/opt"}),
    Clue,
    "plug-in was mapped before",
    "LD_LIBRARY_PATH",
)
case(
    "sockets_despite_rdma",
    "another host's adapters",
    {**CLUSTER, **PORT},
    ranks(2, {"worker[{r}].env[NCCL_IB_HCA]": "mlx5_0"}),
    ranks(2, {"worker[{r}].env[NCCL_IB_HCA]": "mlx5_9"}),
    Clue,
    "names mlx5_9, which this host does not have",
    "NCCL_IB_HCA",
)
case(
    "sockets_despite_rdma",
    "on both sides",
    {**CLUSTER, **PORT, **NET},
    {},
    {},
    Mistake,
    "sockets on both sides",
    "network",
)
case("sockets_despite_rdma", "no RDMA at all", {**CLUSTER, **NET}, {}, {})

GID = "rdma[mlx5_0].port[1].gid[3]."
ROCE = {**CLUSTER, "rdma[mlx5_0].port[1].state": "ACTIVE", "rdma[mlx5_0].port[1].link_layer": "Ethernet",
        **ranks(2, {"worker[{r}].env[NCCL_IB_GID_INDEX]": "3"})}  # fmt: skip
V2, V1 = {GID + "type": "RoCE v2", GID + "family": "ipv4"}, {GID + "type": "IB/RoCE v1", GID + "family": "ipv4"}
case("gid_index", "the table moved", ROCE, V2, V1, Clue, "the same as before, and the table is not", "gid[3].type")
case("gid_index", "wrong on both", {**ROCE, **V1}, {}, {}, Mistake, "no entry of RoCE v2", "gid[3].type")
case(
    "gid_index",
    "not set",
    {**CLUSTER, "rdma[mlx5_0].port[1].state": "ACTIVE", "rdma[mlx5_0].port[1].link_layer": "Ethernet"},
    V2,
    V1,
)
case("gid_index", "right on both", {**ROCE, **V2}, {}, {})

OK, NO = (
    {"gpu_pair[0/1].p2p_read": "ok", "gpu_pair[0/1].p2p_write": "ok"},
    {"gpu_pair[0/1].p2p_read": "topology_not_supported"},
)
ACS_ON = {"pci[gpu0/up1].acs_enabled": ["completion_redirect", "request_redirect"]}
ACS_OFF: dict[str, Json] = {"pci[gpu0/up1].acs_enabled": []}
case(
    "p2p_off",
    "by ACS",
    {**TWO, **PCIE},
    {**OK, **ACS_OFF},
    {**OK, **NO, **ACS_ON},
    Together,
    "ACS changed",
    "acs_enabled",
)
case(
    "p2p_off",
    "ACS, and capabilities say OK",
    {**TWO, **PCIE, **OK},
    ACS_OFF,
    ACS_ON,
    Clue,
    "longer way",
    "acs_enabled",
    weight=WEAK,
)
case("p2p_off", "ACS cleared", {**TWO, **PCIE, **OK}, ACS_ON, ACS_OFF)
case("p2p_off", "one GPU", {**ONE, **PCIE}, {**OK, **ACS_OFF}, {**NO, **ACS_ON})
case(
    "p2p_off",
    "a variable",
    {**TWO, **PCIE},
    {},
    ranks(2, {"worker[{r}].env[NCCL_P2P_DISABLE]": "1"}),
    Clue,
    "NCCL_P2P_DISABLE changed",
    "NCCL_P2P_DISABLE",
    weight=FAIR,
)
case(
    "p2p_off",
    "by the log",
    TWO,
    {"nccl.rank[0].transport[1]": ["P2P/CUMEM"]},
    {"nccl.rank[0].transport[1]": ["SHM/direct"]},
    Together,
    "no longer reach",
    "transport[1]",
)
case(
    "p2p_off",
    "by booting",
    {**TWO, **PCIE},
    {"kernel.parameter[iommu]": ["pt"], "kernel.parameter[quiet]": []},
    {"kernel.parameter[quiet]": []},
    Clue,
    "boot parameter iommu",
    "kernel.parameter[iommu]",
)
case(
    "p2p_off",
    "switched on, and slow",
    {**TWO, **PCIE, **ACS_ON},
    ranks(2, {"worker[{r}].env[NCCL_P2P_DISABLE]": "1"}),
    {},
    Clue,
    "switched on, and ACS",
    "NCCL_P2P_DISABLE",
    weight=FAIR,
)
case("p2p_off", "on both sides", {**TWO, **PCIE, **ACS_ON}, {}, {}, Mistake, "long way on both sides", "acs_enabled")

REFUSED = {"cache[sglang].p2p_refused_count": 2, "cache[sglang].p2p_sha256": "b"}
NONE = {"cache[sglang].p2p_refused_count": 0, "cache[sglang].p2p_sha256": "a"}
case(
    "custom_all_reduce",
    "out of date",
    {**TWO, **OK},
    NONE,
    REFUSED,
    Clue,
    "out of date",
    "p2p_refused_count",
    weight=STRONG,
)
case("custom_all_reduce", "and rightly refused", {**TWO, **NO}, NONE, REFUSED)
case(
    "custom_all_reduce",
    "out of date on both",
    {**TWO, **OK, **REFUSED},
    {},
    {},
    Mistake,
    "kept test",
    "p2p_refused_count",
)
SEGMENTS = {"worker[{r}].env[PYTORCH_CUDA_ALLOC_CONF]": "expandable_segments:True"}
case(
    "custom_all_reduce", "segments", TWO, {}, ranks(2, SEGMENTS), Clue, "expandable segments", "PYTORCH_CUDA_ALLOC_CONF"
)
case("custom_all_reduce", "segments with one rank", ONE, {}, ranks(1, SEGMENTS))
case("custom_all_reduce", "segments taken away", TWO, ranks(2, SEGMENTS), {})
OFF_ARG, ON_ARG = ({"server[0].argument[disable_custom_all_reduce]": value} for value in (True, False))
case(
    "custom_all_reduce",
    "wrong data",
    {**TWO, **PCIE, **SPECULATIVE},
    OFF_ARG,
    ON_ARG,
    Together,
    "wrong data",
    "disable_custom_all_reduce",
    figures=NOTHING_ACCEPTED,
)
case("custom_all_reduce", "on, and all is well", {**TWO, **PCIE, **SPECULATIVE}, OFF_ARG, ON_ARG, figures=STEP)

FABRIC = {"gpu[0].fabric_state": "completed", "gpu[1].fabric_state": "completed"}
case(
    "nvls_off",
    "by the log",
    {**TWO, **FABRIC},
    {"nccl.rank[0].channels[nvls]": 16},
    {"nccl.rank[0].channels[nvls]": 0},
    Clue,
    "no NVLS channels",
    "channels[nvls]",
    weight=STRONG,
)
case(
    "nvls_off",
    "by a variable",
    {**TWO, **FABRIC},
    ranks(2, {"worker[{r}].env[NCCL_NVLS_ENABLE]": "1"}),
    ranks(2, {"worker[{r}].env[NCCL_NVLS_ENABLE]": "0"}),
    Clue,
    "switched off",
    "NCCL_NVLS_ENABLE",
)
case(
    "nvls_off",
    "without a fabric",
    TWO,
    ranks(2, {"worker[{r}].env[NCCL_NVLS_ENABLE]": "1"}),
    ranks(2, {"worker[{r}].env[NCCL_NVLS_ENABLE]": "0"}),
)

APART = {**CLUSTER, "pci[gpu0].address": "0000:10:00.0", "pci[gpu0/up1].address": "0000:00:01.0",
         "pci[nic0].address": "0000:90:00.0", "pci[nic0/up1].address": "0000:80:01.0"}  # fmt: skip
BEHIND = {**CLUSTER, "pci[gpu0].address": "0000:12:00.0", "pci[gpu0/up1].address": "0000:11:00.0",
          "pci[gpu0/up2].address": "0000:00:01.0", "pci[nic0].address": "0000:13:00.0",
          "pci[nic0/up1].address": "0000:11:00.0", "pci[nic0/up2].address": "0000:00:01.0"}  # fmt: skip
PEERMEM = {"rdma.peer_memory_loaded": False}, {"rdma.peer_memory_loaded": True}
case("gdr_distance", "over the host bridge", APART, *PEERMEM, Together, "no PCIe switch in common", "peer_memory")
case("gdr_distance", "behind one switch", BEHIND, *PEERMEM)
case("gdr_distance", "on one machine", {**APART, "server[0].argument[nnodes]": 1}, *PEERMEM)

GUEST, METAL = {"platform.virtualization": "kvm"}, {"platform.virtualization": "none"}
case(
    "virtual_topology",
    "moved into a guest",
    CLUSTER,
    METAL,
    GUEST,
    Clue,
    "hides PCIe switches",
    "virtualization",
    weight=STRONG,
)
case(
    "virtual_topology",
    "the file is gone",
    {**CLUSTER, **GUEST},
    ranks(2, {"worker[{r}].env[NCCL_TOPO_FILE]": "/t.xml"}),
    {},
    Clue,
    "from that file alone",
    "NCCL_TOPO_FILE",
    weight=STRONG,
)
case("virtual_topology", "on metal", {**CLUSTER, **METAL}, ranks(2, {"worker[{r}].env[NCCL_TOPO_FILE]": "/t.xml"}), {})
case("virtual_topology", "out of a guest", CLUSTER, GUEST, METAL)

case(
    "shm_small",
    "a container's default",
    TWO,
    {"memory.shm_size_bytes": 8 << 30},
    {"memory.shm_size_bytes": 64 << 20},
    Clue,
    "64 MiB, not 8192 MiB",
    "shm_size",
    weight=STRONG,
)
case("shm_small", "less, and enough", TWO, {"memory.shm_size_bytes": 64 << 30}, {"memory.shm_size_bytes": 32 << 30})
case("shm_small", "on both sides", {**TWO, "memory.shm_size_bytes": 64 << 20}, {}, {}, Mistake, "64 MiB", "shm_size")
