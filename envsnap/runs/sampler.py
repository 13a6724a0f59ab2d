"""The sampler: one small batch of reads a second while a benchmark runs, kept as columns.

It reads little, on purpose: a sampler at 1 Hz has to stay under 1 % of one core with 8 GPUs and 10 workers. What
costs more (the PCIe link takes a driver 2 ms a GPU; violation times, replays, processes on a GPU) is read at the start
and the end and on every `SLOW_EVERY`th tick alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from envsnap.collectors._gpu_clocks import EVENT_REASONS
from envsnap.collectors._nvml import bit_names
from envsnap.host import Host
from envsnap.reading import Found, Json, Missing, Value
from envsnap.runs.columns import Columns
from envsnap.runs.samples import rates

INTERVAL_SECONDS = 1.0
MAX_SAMPLES = 7200
"""From this many on every second one is dropped and the interval doubled, so that a run of days fits into memory."""

SLOW_EVERY = 10
_FIRST_SLOW = 2
"""The first of them, once the benchmark has had a moment to begin its work."""

_CLOCKS_READ = 8

_REASONS = bit_names(EVENT_REASONS)

# NVML's PCIe generation as the speed of one lane, in GT/s.
_PCIE_GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}

# nvmlPerfPolicyType_t: the policies whose violation time (ns) says why clocks were held down.
_VIOLATIONS = {0: "power", 1: "thermal", 2: "sync_boost", 3: "board_limit", 4: "low_utilization", 5: "reliability"}


class Sampler:
    """Samples in a thread of its own from `start` to `stop`. Workers may change while it runs.

    Times are seconds since `origin`, a moment of `time.monotonic()`.
    """

    def __init__(self, host: Host, origin: float, interval: float = INTERVAL_SECONDS) -> None:
        self._host = host
        self._origin = origin
        self._interval = interval
        self._workers: Mapping[str, int] = {}
        self._own_pids: frozenset[int] = frozenset()
        self._samples = Columns()
        self._gpus = _gpu_count(host)
        self._frequency_files = _frequency_files(host)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="sampler")
        self.cpu_seconds = 0.0
        self.seconds = 0.0

    def watch(self, workers: Mapping[str, int], own_pids: frozenset[int]) -> None:
        """Set the workers to sample, by role, and all processes of the run, by which foreign ones are told apart."""
        self._workers, self._own_pids = dict(workers), own_pids

    def start(self) -> None:
        """Begin sampling."""
        self._thread.start()

    def stop(self) -> Columns:
        """End sampling, with one last sample; returns what was sampled, growing figures turned into rates."""
        self._stop.set()
        self._thread.join(timeout=10)
        return _with_rates(self._samples)

    def _run(self) -> None:
        began = planned = time.monotonic()
        tick = 0
        while True:
            last = self._stop.is_set()
            self.tick(slow=last or tick == 0 or tick % SLOW_EVERY == _FIRST_SLOW)
            self.cpu_seconds = time.thread_time()
            self.seconds = time.monotonic() - began
            if last:
                return
            if len(self._samples.times) >= MAX_SAMPLES:
                self._samples, self._interval = self._samples.thinned(), 2 * self._interval
            tick += 1
            # NOTE: planned from the beginning, so that the cost of a tick does not stretch the interval.
            planned += self._interval
            self._stop.wait(max(0.0, planned - time.monotonic()))

    def tick(self, slow: bool) -> None:
        """Take one sample."""
        workers = dict(self._workers)
        requests: list[list[Json]] = [["read", p, 4096] for p in _HOST_FILES]
        requests += [["read", p, 64] for p in self._frequency_files]
        for pid in workers.values():
            requests += [["read", f"/proc/{pid}/{name}", 4096] for name in _WORKER_FILES]
        for gpu in range(self._gpus):
            requests += [[*call[:2], f"gpu:{gpu}", *call[2:]] for call in _calls(slow)]
        answers = iter(self._host.found(requests))
        at = time.monotonic() - self._origin
        row = _host_row([next(answers) for _ in _HOST_FILES], [next(answers) for _ in self._frequency_files])
        for role in workers:
            row.update(_worker_row(role, [next(answers) for _ in _WORKER_FILES]))
        foreign: dict[str, list[int]] = {}
        for gpu in range(self._gpus):
            row.update(_gpu_row(gpu, {_name(c): next(answers) for c in _calls(slow)}, foreign))
        if slow and foreign:
            row.update(self._foreign_names(foreign))
        self._samples.add(at, row)

    def _foreign_names(self, pids_by_gpu: dict[str, list[int]]) -> dict[str, Json]:
        """Names of processes on a GPU that are not the run's own."""
        strange = {c: [p for p in pids if p not in self._own_pids] for c, pids in pids_by_gpu.items()}
        wanted = sorted({p for pids in strange.values() for p in pids})
        names = self._host.read_all(f"/proc/{p}/comm" for p in wanted)
        text = {p: str(f.value) if isinstance(f := names[f"/proc/{p}/comm"], Value) else "unknown" for p in wanted}
        return {column: [text[p] for p in pids] for column, pids in strange.items()}


_HOST_FILES = (
    "/proc/stat",
    "/proc/pressure/cpu",
    "/proc/pressure/memory",
    "/proc/pressure/io",
)
_WORKER_FILES = ("stat", "schedstat", "status")

_FAST_CALLS: tuple[tuple[Json, ...], ...] = (
    ("nvml", "nvmlDeviceGetUtilizationRates"),
    ("nvml", "nvmlDeviceGetClockInfo", 1),  # NVML_CLOCK_SM
    ("nvml", "nvmlDeviceGetClockInfo", 2),  # NVML_CLOCK_MEM
    ("nvml", "nvmlDeviceGetPowerUsage"),
    ("nvml", "nvmlDeviceGetTemperature", 0),  # NVML_TEMPERATURE_GPU
    ("nvml", "nvmlDeviceGetCurrentClocksEventReasons"),
    ("nvml", "nvmlDeviceGetMemoryInfo"),
)
_SLOW_CALLS: tuple[tuple[Json, ...], ...] = (
    *_FAST_CALLS,
    ("nvml", "nvmlDeviceGetCurrPcieLinkGeneration"),
    ("nvml", "nvmlDeviceGetCurrPcieLinkWidth"),
    ("nvml", "nvmlDeviceGetPcieReplayCounter"),
    ("nvml", "nvmlDeviceGetComputeRunningProcesses"),
    *(("nvml", "nvmlDeviceGetViolationStatus", policy) for policy in _VIOLATIONS),
)


def _calls(slow: bool) -> tuple[tuple[Json, ...], ...]:
    return _SLOW_CALLS if slow else _FAST_CALLS


def _name(call: tuple[Json, ...]) -> str:
    return "".join(str(part) for part in call[1:])


def _gpu_count(host: Host) -> int:
    try:
        return int(host.nvml("nvmlDeviceGetCount"))
    except Missing:
        return 0


def _frequency_files(host: Host) -> list[str]:
    """The frequency of a few CPUs, spread over all: reading 200 of them would cost more than it tells."""
    found = sorted(host.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq"))
    return found[:: max(1, len(found) // _CLOCKS_READ)][:_CLOCKS_READ]


def _host_row(files: list[Found], frequencies: list[Found]) -> dict[str, Json]:
    row: dict[str, Json] = {}
    stat, *pressures = files
    if isinstance(stat, Value) and (fields := str(stat.value).split("\n", 1)[0].split())[:1] == ["cpu"]:
        ticks = [int(f) for f in fields[1:9]]  # user nice system idle iowait irq softirq steal
        row["host.cpu_ticks"] = sum(ticks) - ticks[3] - ticks[4]
    for name, found in zip(("cpu", "memory", "io"), pressures):
        if isinstance(found, Value) and (total := str(found.value).split("\n", 1)[0].rpartition("total=")[2]).isdigit():
            row[f"host.{name}_stall_us"] = int(total)
    clocks = [int(f.value) for f in frequencies if isinstance(f, Value) and str(f.value).strip().isdigit()]
    if clocks:
        row["host.cpu_clock_mhz"] = round(sum(clocks) / len(clocks) / 1000, 1)
    return row


def _worker_row(role: str, files: list[Found]) -> dict[str, Json]:
    stat, schedstat, status = (str(f.value) if isinstance(f, Value) else "" for f in files)
    prefix = f"worker[{role}]."
    row: dict[str, Json] = {}
    fields = stat.rpartition(")")[2].split()
    if len(fields) > 36:
        row[prefix + "cpu_ticks"] = int(fields[11]) + int(fields[12])
        row[prefix + "major_faults"] = int(fields[9])
        row[prefix + "cpu"] = int(fields[36])
    if len(delays := schedstat.split()) == 3:
        row[prefix + "run_delay_ns"] = int(delays[1])
    switches = status.rpartition("nonvoluntary_ctxt_switches:")[2].strip()
    if switches.isdigit():
        row[prefix + "involuntary_switches"] = int(switches)
    return row


def _gpu_row(gpu: int, found: dict[str, Found], foreign: dict[str, list[int]]) -> dict[str, Json]:
    def read(name: str) -> Json:
        answer = found.get(name)
        return answer.value if isinstance(answer, Value) else None

    prefix = f"gpu[{gpu}]."
    power, memory = read("nvmlDeviceGetPowerUsage"), read("nvmlDeviceGetMemoryInfo")
    reasons, generation = read("nvmlDeviceGetCurrentClocksEventReasons"), read("nvmlDeviceGetCurrPcieLinkGeneration")
    utilization = read("nvmlDeviceGetUtilizationRates")
    row: dict[str, Json] = {
        "utilization_percent": utilization.get("gpu") if isinstance(utilization, dict) else None,
        "sm_clock_mhz": read("nvmlDeviceGetClockInfo1"),
        "memory_clock_mhz": read("nvmlDeviceGetClockInfo2"),
        "power_watts": round(power / 1000, 1) if isinstance(power, int) else None,
        "temperature_celsius": read("nvmlDeviceGetTemperature0"),
        "throttle_reasons": _REASONS(reasons) if isinstance(reasons, int) and reasons >= 0 else None,
        "pcie_speed_gts": _PCIE_GTS.get(generation),
        "pcie_width_lanes": read("nvmlDeviceGetCurrPcieLinkWidth"),
        "memory_used_bytes": memory.get("used") if isinstance(memory, dict) else None,
        "pcie_replays": read("nvmlDeviceGetPcieReplayCounter"),
    }
    for policy, name in _VIOLATIONS.items():
        violation = read(f"nvmlDeviceGetViolationStatus{policy}")
        if isinstance(violation, dict):
            row[f"violation_ns[{name}]"] = violation.get("violationTime")
    processes = read("nvmlDeviceGetComputeRunningProcesses")
    if isinstance(processes, list):
        foreign[prefix + "foreign"] = [int(p["pid"]) for p in processes if isinstance(p, dict) and "pid" in p]
    return {prefix + name: value for name, value in row.items() if value is not None}


_TICKS_PER_SECOND = 100  # USER_HZ, fixed on Linux for what /proc shows


def _with_rates(samples: Columns) -> Columns:
    """Beside the counters that were read, the rates that the gauges are declared for."""
    derived: dict[str, list[Json]] = {}
    for name in samples.columns:
        for end, gauge, scale in (
            (
                ".cpu_ticks",
                ".cpu_percent" if name.startswith("worker[") else ".cpu_busy_percent",
                100 / _TICKS_PER_SECOND,
            ),
            (".run_delay_ns", ".run_delay_percent", 100 / 1e9),
            (".involuntary_switches", ".involuntary_switch_hz", 1.0),
            (".major_faults", ".major_fault_hz", 1.0),
            ("_stall_us", "_pressure_percent", 100 / 1e6),
        ):
            if name.endswith(end):
                derived[name.removesuffix(end) + gauge] = list(rates(samples, name, scale))
    if "host.cpu_busy_percent" in derived:
        own = [c for n, c in derived.items() if n.startswith("worker[") and n.endswith(".cpu_percent")]
        derived["host.cpu_other_percent"] = [
            None if total is None else max(0.0, total - sum(c[i] or 0.0 for c in own))
            for i, total in enumerate(derived["host.cpu_busy_percent"])
        ]
    return Columns(samples.times, {**samples.columns, **derived})
