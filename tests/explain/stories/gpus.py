"""GPUs, their links and their clocks."""

from __future__ import annotations

from envsnap.explain import Clue, Mistake, Together
from envsnap.explain.weights import FAIR, STRONG
from tests.explain.stories.case import ONE, PCIE, STEP, TWO, Table, gpus, ranks
from tests.explain.stories.workers import CLOCK

case = Table()

SPEED, MAXGEN = (
    "during.gpu[{g}].pcie_speed_median_gts",
    {"gpu[{g}].max_pcie_generation": 5, "gpu[{g}].max_pcie_width_lanes": 16},
)
WIDE = gpus(2, {**MAXGEN, "gpu[{g}].pcie_width_lanes": 16})
case(
    "link_slow",
    "stuck under load",
    {**TWO, **PCIE, **WIDE},
    gpus(2, {SPEED: 32.0}),
    {**gpus(2, {SPEED: 32.0}), SPEED.replace("{g}", "1"): 5.0},
    Clue,
    "GPU 1 has a link of 5 GT/s where 32",
    "during.gpu[1]",
)
case(
    "link_slow",
    "one GPU alone",
    {**ONE, **gpus(1, MAXGEN)},
    {"gpu[0].pcie_width_lanes": 16},
    {"gpu[0].pcie_width_lanes": 4},
    Clue,
    "hardly uses its link",
    "pcie_width",
    weight=-FAIR,
)
case(
    "link_slow",
    "narrow on both",
    {**TWO, **PCIE, **gpus(2, MAXGEN), "gpu[0].pcie_width_lanes": 8, "gpu[1].pcie_width_lanes": 16},
    {},
    {},
    Mistake,
    "uses 8 lanes where 16",
    "gpu[0].pcie_width_lanes",
)
case(
    "link_slow",
    "as fast as its slot",
    {**TWO, **PCIE, **gpus(2, {**MAXGEN, "gpu[{g}].max_pcie_generation": 4}), **gpus(2, {SPEED: 16.0})},
    {"gpu[0].pcie_width_lanes": 16},
    {"gpu[0].pcie_width_lanes": 16},
)

HELD = {"gpu[{g}].max_sm_clock_mhz": 1980}
case(
    "clocks_held",
    "without a reason",
    {**TWO, **gpus(2, HELD)},
    gpus(2, {CLOCK: 1965}),
    gpus(2, {CLOCK: 1400}),
    Clue,
    "gives no reason",
    "sm_clock_median",
    weight=FAIR,
)
case(
    "clocks_held",
    "by heat",
    {**TWO, **gpus(2, HELD)},
    gpus(2, {CLOCK: 1965}),
    gpus(2, {CLOCK: 1400, "during.gpu[{g}].throttle_percent[hw_thermal_slowdown]": 60.0}),
    Together,
    "held down by heat",
    "sm_clock",
)
case(
    "clocks_held",
    "by a setting",
    {**TWO, **gpus(2, {"gpu[{g}].default_application_graphics_clock_mhz": 1980})},
    gpus(2, {"gpu[{g}].application_graphics_clock_mhz": 1980}),
    gpus(2, {"gpu[{g}].application_graphics_clock_mhz": 1200}),
    Clue,
    "1200 of 1980 MHz",
    "application_graphics",
)
case(
    "clocks_held",
    "low on both sides",
    {**TWO, **gpus(2, HELD), **gpus(2, {CLOCK: 1200})},
    {},
    {},
    Mistake,
    "well below",
    "sm_clock",
)
case("clocks_held", "higher now", {**TWO, **gpus(2, HELD)}, gpus(2, {CLOCK: 1700}), gpus(2, {CLOCK: 1965}))

LIMIT = ({"gpu[0].power_limit_watts": 700.0}, {"gpu[0].power_limit_watts": 500.0})
DRAW = {"during.gpu[0].power_p95_watts": 300.0}
case(
    "power_cap",
    "it acts",
    TWO,
    LIMIT[0],
    {**LIMIT[1], "during.gpu[0].throttle_percent[sw_power_cap]": 80.0},
    Clue,
    "names the power cap",
    "power_limit",
    weight=STRONG,
)
case("power_cap", "it draws less", {**TWO, **DRAW}, *LIMIT, Clue, "draw 300 W at most", "power_limit", weight=-STRONG)
case("power_cap", "decoding", TWO, *LIMIT, Clue, "seldom acts", "power_limit", weight=-FAIR, figures=STEP)
case("power_cap", "raised", TWO, LIMIT[1], LIMIT[0])

FOREIGN = "during.gpu[0].foreign_processes"
case(
    "foreign_process",
    "an orphan",
    TWO,
    {FOREIGN: []},
    {FOREIGN: ["VLLM::EngineCore"]},
    Together,
    "was not ended",
    FOREIGN,
)
case(
    "foreign_process",
    "on both sides",
    {**TWO, FOREIGN: ["python"]},
    {},
    {},
    Mistake,
    "python used the GPUs on both sides",
    FOREIGN,
)
case(
    "foreign_process",
    "the server's own, seen from outside",
    {**TWO, FOREIGN: ["sglang::schedul"]},
    {},
    {},
    Mistake,
    "Unless it is a rank of the measured server",
    FOREIGN,
)
case("foreign_process", "it left", TWO, {FOREIGN: ["python"]}, {FOREIGN: []})

case(
    "gpu_errors",
    "rows wait",
    TWO,
    {"gpu[0].remapped_rows_pending": False},
    {"gpu[0].remapped_rows_pending": True},
    Clue,
    "trouble with the device",
    "remapped_rows_pending",
)
case(
    "gpu_errors",
    "replays",
    TWO,
    {"during.gpu[0].pcie_replay_count": 0, "gpu[0].pcie_replay_count": 0},
    {"during.gpu[0].pcie_replay_count": 5000, "gpu[0].pcie_replay_count": 5000},
    Together,
    "many more",
    "pcie_replay_count",
)
case(
    "gpu_errors",
    "on both sides",
    {**TWO, "gpu[0].recovery_action": "gpu_reset"},
    {},
    {},
    Mistake,
    "waits for a reset",
    "recovery_action",
)
CLOCK = "during.gpu[0].sm_clock_median_mhz"
case(
    "gpu_errors",
    "beside clocks that fell",
    TWO,
    {CLOCK: 1980.0, "gpu[0].ecc_corrected_volatile_count": 0},
    {CLOCK: 1300.0, "gpu[0].ecc_corrected_volatile_count": 9000},
    Together,
    "Such errors lower no clock",
    "ecc_corrected",
    figures=STEP,
)
case(
    "gpu_errors",
    "a fault beside clocks that fell",
    {**TWO, "kernel_log.xid_count[63]": 0},
    {CLOCK: 1980.0},
    {CLOCK: 1300.0, "kernel_log.xid_count[63]": 2},
    Together,
    "faults that the driver reported (Xid 63)",
    "xid_count",
    figures=STEP,
)
case("gpu_errors", "of a program", TWO, {}, {"kernel_log.xid_count[31]": 4})
case("gpu_errors", "a few", TWO, {"gpu[0].pcie_replay_count": 0}, {"gpu[0].pcie_replay_count": 3})

case(
    "gpu_shared",
    "MIG",
    TWO,
    {"gpu[0].mig_mode": False},
    {"gpu[0].mig_mode": True},
    Clue,
    "divided",
    "mig_mode",
    weight=STRONG,
)
case(
    "gpu_shared",
    "a share",
    TWO,
    {},
    ranks(2, {"worker[{r}].env[CUDA_MPS_ACTIVE_THREAD_PERCENTAGE]": "50"}),
    Clue,
    "a share of",
    "CUDA_MPS",
    weight=STRONG,
)
case(
    "gpu_shared",
    "MPS",
    TWO,
    {"nvidia.daemon[nvidia-cuda-mps-control].running": False},
    {"nvidia.daemon[nvidia-cuda-mps-control].running": True},
    Clue,
    "through MPS",
    "mps-control",
)
case(
    "gpu_shared",
    "no more MPS",
    {**TWO, "gpu[0].mig_mode": False},
    {"nvidia.daemon[nvidia-cuda-mps-control].running": True},
    {"nvidia.daemon[nvidia-cuda-mps-control].running": False},
)

case(
    "start_up_only",
    "persistence",
    {**TWO, "worker[main].argv": ["x"]},
    {"gpu[0].persistence_mode": True},
    {"gpu[0].persistence_mode": False},
    Clue,
    "acts when the server starts",
    "persistence_mode",
    weight=-FAIR,
    figures=STEP,
)
case(
    "start_up_only",
    "nothing was measured",
    {**TWO, "worker[main].argv": ["x"]},
    {"gpu[0].persistence_mode": True},
    {"gpu[0].persistence_mode": False},
)
