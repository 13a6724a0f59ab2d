"""CPUs, memory, nodes, neighbours."""

from __future__ import annotations

from envsnap.explain import Clue, Innocent, Mistake, Together
from envsnap.explain.weights import FAIR, STRONG
from tests.explain.stories.case import TWO, Table, ranks

case = Table()

THREADS = "record[{r}].torch.num_threads"
case(
    "threads",
    "more than the quota",
    {**TWO, "cgroup.cpu_quota_cpus": 8.0},
    ranks(2, {THREADS: 4}),
    ranks(2, {THREADS: 96}),
    Clue,
    "the quota grants 8 CPUs",
    "num_threads",
    weight=FAIR,
)
OPTION = "server[0].argument[threads]"
case("threads", "an option that asks for more than an unchanged quota", {"cgroup.cpu_quota_cpus": 8.0}, {OPTION: 8},
     {OPTION: 32}, Clue, "asks for 32, and there are 8 CPUs as before", "threads", weight=FAIR)  # fmt: skip
case("threads", "an option within an unchanged quota", {"cgroup.cpu_quota_cpus": 8.0}, {OPTION: 4}, {OPTION: 8})
case("threads", "an option where the quota changed too", {}, {OPTION: 8, "cgroup.cpu_quota_cpus": 8.0},
     {OPTION: 32, "cgroup.cpu_quota_cpus": 40.0})  # fmt: skip
case(
    "threads",
    "set too late",
    {**TWO, **ranks(2, {"worker[{r}].env[OMP_NUM_THREADS]": "1"})},
    ranks(2, {THREADS: 1}),
    ranks(2, {THREADS: 96}),
    Clue,
    "after the library was imported",
    "num_threads",
    weight=STRONG,
)
case(
    "threads",
    "a variable that changes nothing",
    {**TWO, **ranks(2, {THREADS: 8})},
    {},
    ranks(2, {"worker[{r}].env[OMP_NUM_THREADS]": "4"}),
    Clue,
    "as many threads as before",
    "OMP_NUM_THREADS",
    weight=-FAIR,
)
case(
    "threads",
    "more asked for than there are CPUs, which torch does not take",
    {**TWO, **ranks(2, {"worker[{r}].cpus_count": 2})},
    ranks(2, {THREADS: 1, "worker[{r}].env[OMP_NUM_THREADS]": "1"}),
    ranks(2, {THREADS: 2, "worker[{r}].env[OMP_NUM_THREADS]": "4"}),
)
case(
    "threads",
    "fewer",
    {**TWO, "cgroup.cpu_quota_cpus": 64.0, **ranks(2, {"worker[{r}].env[OMP_NUM_THREADS]": "8"})},
    ranks(2, {THREADS: 8}),
    ranks(2, {THREADS: 8}),
)

ISOLATED = {"cpu.isolated": "0-1,48-49", "kernel.parameter[isolcpus]": ["0,1,48,49"]}
case(
    "isolated_cpus",
    "CPU 0",
    {**TWO, **ranks(2, {"worker[{r}].cpus": "0-95"})},
    {"kernel.parameter[quiet]": []},
    {**ISOLATED, "kernel.parameter[quiet]": []},
    Clue,
    "CPU 0 is among them",
    "isolcpus",
    weight=STRONG,
)
case(
    "isolated_cpus",
    "workers on them",
    {**TWO, "cpu.isolated": "8-15"},
    ranks(2, {"worker[{r}].cpus": "0-7"}),
    ranks(2, {"worker[{r}].cpus": "8-9"}),
    Clue,
    "bound to isolated",
    "worker[scheduler_TP0].cpus",
    weight=STRONG,
)
case(
    "isolated_cpus",
    "on both sides",
    {**TWO, "cpu.isolated": "8-15", **ranks(2, {"worker[{r}].cpus": "8-9"})},
    {},
    {},
    Mistake,
    "isolated CPUs on both",
    "cpu.isolated",
)
case(
    "isolated_cpus",
    "beside them",
    {**TWO, "cpu.isolated": "8-15"},
    ranks(2, {"worker[{r}].cpus": "0-7"}),
    ranks(2, {"worker[{r}].cpus": "0-3"}),
)

case(
    "few_cpus",
    "one for both",
    {**TWO, "cpu.threads_count": 96},
    ranks(2, {"worker[{r}].cpus": "0-95", "worker[{r}].cpus_count": 96}),
    ranks(2, {"worker[{r}].cpus": "3", "worker[{r}].cpus_count": 1}),
    Clue,
    "2 ranks share 1 CPUs",
    "cpus_count",
    weight=STRONG,
)
case(
    "few_cpus",
    "fewer, and enough",
    {**TWO, "cpu.threads_count": 96},
    ranks(2, {"worker[{r}].cpus": "0-95"}),
    ranks(2, {"worker[{r}].cpus": "0-15"}),
)
case(
    "few_cpus",
    "on both sides",
    {**TWO, "cpu.threads_count": 96, **ranks(2, {"worker[{r}].cpus": "3"})},
    {},
    {},
    Mistake,
    "on both sides",
    "cpus",
)

NODES = {"numa[0].cpus": "0-47", "numa[1].cpus": "48-95", "gpu[0].cpu_affinity": "0-47", "gpu[1].cpu_affinity": "48-95"}
NEAR = {"worker[scheduler_TP0].cpus": "0-47", "worker[scheduler_TP1].cpus": "48-95"}
case(
    "numa_far",
    "swapped",
    {**TWO, **NODES},
    NEAR,
    {"worker[scheduler_TP0].cpus": "48-95", "worker[scheduler_TP1].cpus": "0-47"},
    Clue,
    "another node than their GPU",
    "scheduler_TP0",
    weight=STRONG,
)
case(
    "numa_far",
    "no longer bound",
    {**TWO, **NODES},
    NEAR,
    ranks(2, {"worker[{r}].cpus": "0-95"}),
    Clue,
    "no longer bound",
    "cpus",
    weight=FAIR,
)
case(
    "numa_far",
    "far on both",
    {**TWO, **NODES, **ranks(2, {"worker[{r}].cpus": "0-47"})},
    {},
    {},
    Mistake,
    "on both sides",
    "scheduler_TP1",
)
case(
    "numa_far",
    "near",
    {**TWO, **NODES},
    NEAR,
    {"worker[scheduler_TP0].cpus": "0-23", "worker[scheduler_TP1].cpus": "48-71"},
)

case(
    "numa_far",
    "bound as before, with other nodes",
    {**TWO, **ranks(2, {"worker[{r}].cpus": "0-47"}), "numa[0].cpus": "0-47", "gpu[0].cpu_affinity": "0-47"},
    {"numa[1].cpus": "48-95", "gpu[1].cpu_affinity": "0-47"},
    {"numa[1].cpus": "48-71", "numa[2].cpus": "72-95", "gpu[1].cpu_affinity": "48-71"},
    Clue,
    "another node than their GPU",
    "gpu[1].cpu_affinity",
    weight=STRONG,
)

FOUR_NODES = {f"numa[{n}].cpus": f"{24 * n}-{24 * n + 23}" for n in range(4)}
case(
    "numa_layout",
    "sockets cut in two",
    {**TWO, "cpu.model": "EPYC"},
    {"numa[0].cpus": "0-47", "numa[1].cpus": "48-95", "numa.nodes": "0-1", "gpu[0].cpu_affinity": "0-47"},
    {**FOUR_NODES, "numa.nodes": "0-3", "gpu[0].cpu_affinity": "0-23", "worker[scheduler_TP0].cpus": "0-23"},
    Together,
    "4 nodes, not 2",
    "worker[scheduler_TP0].cpus",
)
case(
    "numa_layout",
    "another machine",
    TWO,
    {"numa[0].cpus": "0-47", "cpu.model": "Xeon"},
    {**FOUR_NODES, "cpu.model": "EPYC"},
)

case(
    "numa_balancing",
    "switched on",
    {**TWO, **NODES},
    {"numa.balancing_mode": 0},
    {"numa.balancing_mode": 1},
    Clue,
    "unmaps pages",
    "balancing_mode",
    weight=FAIR,
)
case(
    "numa_balancing",
    "on both sides",
    {**TWO, **NODES, "numa.balancing_mode": 1},
    {},
    {},
    Mistake,
    "balances",
    "balancing_mode",
)
case(
    "numa_balancing",
    "one node",
    {**TWO, "numa[0].cpus": "0-47"},
    {"numa.balancing_mode": 0},
    {"numa.balancing_mode": 1},
)

DELAY, OTHER = "during.worker[{r}].run_delay_median_percent", "during.host.cpu_other_median_percent"
case(
    "neighbours",
    "a build",
    {**TWO, "load.process_cpu_percent[ninja]": 6000.0},
    {**ranks(2, {DELAY: 0.1}), OTHER: 10.0},
    {**ranks(2, {DELAY: 30.0}), OTHER: 6000.0},
    Clue,
    "wait 30 % of the time",
    "run_delay",
    weight=STRONG,
)
case(
    "neighbours",
    "others, and nobody waits",
    TWO,
    {**ranks(2, {DELAY: 0.1}), OTHER: 10.0},
    {**ranks(2, {DELAY: 0.1}), OTHER: 900.0},
)

QUOTA = "cgroup.cpu_throttled_count"
case(
    "cpu_quota",
    "stopped",
    TWO,
    {QUOTA: 0, "cgroup.cpu_limited": False},
    {QUOTA: 5000, "cgroup.cpu_limited": True},
    Together,
    "stopped in 5000 periods",
    "cpu_limited",
)
case(
    "cpu_quota",
    "tight",
    TWO,
    {"cgroup.cpu_quota_cpus": 16.0},
    {"cgroup.cpu_quota_cpus": 3.0},
    Clue,
    "3 CPUs for 2 ranks",
    "cpu_quota",
)
case("cpu_quota", "enough", TWO, {"cgroup.cpu_quota_cpus": 32.0}, {"cgroup.cpu_quota_cpus": 16.0})

HEADS = (
    {"repo[engine].head": "a" * 40, "repo[engine].tree_id": "t1"},
    {"repo[engine].head": "b" * 40, "repo[engine].tree_id": "t2"},
)
UNTRACKED = ("diff --git a/docs/x.md b/docs/x.md\nnew file mode 100644\nindex 0..1\n--- /dev/null\n+++ b/docs/x.md\n"
             "@@ -0,0 +1 @@\n+words\n")  # fmt: skip
DOCUMENT = {"repo[engine].patch": UNTRACKED, "repo[engine].changed[docs/x.md].status": "untracked",
            "repo[engine].changed[docs/x.md].blob": "1" * 40}  # fmt: skip
SAME_HEAD = {"repo[engine].head": "a" * 40, "repo[engine].patch_truncated": False}
case(
    "code_that_ran",
    "documentation",
    {**TWO, **SAME_HEAD},
    {"repo[engine].patch": "", "repo[engine].tree_id": "t1"},
    {**DOCUMENT, "repo[engine].tree_id": "t2"},
    Innocent,
    "documentation",
    "docs/x.md",
)
case("code_that_ran", "commits that nobody has", TWO, *HEADS, Clue, "", "repo[engine].head", weight=0.0)
case("code_that_ran", "nothing changed", {**TWO, **HEADS[0]}, {}, {})

MHZ = "during.host.cpu_clock_median_mhz"
case(
    "cpu_clocks",
    "saving power",
    TWO,
    {"cpu.governor": "performance", MHZ: 3600.0},
    {"cpu.governor": "powersave", MHZ: 1200.0},
    Together,
    "CPUs at 1200 MHz, not 3600",
    "cpu.governor",
)
case(
    "cpu_clocks",
    "a policy that changes nothing",
    TWO,
    {"cpu.governor": "performance", MHZ: 3600.0},
    {"cpu.governor": "powersave", MHZ: 3600.0},
    Clue,
    "the same, whatever the policy says",
    "cpu.governor",
    weight=-FAIR,
)
IDLE = "cpu.idle_state[C6].enabled"
case("cpu_clocks", "deeper sleep is no clock", TWO, {IDLE: False, MHZ: 3600.0}, {IDLE: True, MHZ: 3600.0})
case("cpu_clocks", "not sampled", TWO, {"cpu.governor": "performance"}, {"cpu.governor": "powersave"})
