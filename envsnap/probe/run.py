"""Running probes: first the host's, then those of each GPU by itself, then those of all together."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from envsnap import __version__
from envsnap.host import Host, LiveHost
from envsnap.probe.child import Child, Ended
from envsnap.probe.declared import PROBES, START_SECONDS, Probe, figures_of
from envsnap.probe.gpus import check_idle, chosen
from envsnap.probe.result import Figure, ProbeResult
from envsnap.reading import Missing

NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}

_NOT_INHERITED = (
    "ENVSNAP_RECORD", "NCCL_COMM_ID", "NCCL_DEBUG_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_TOPO_DUMP_FILE",
)  # fmt: skip
"""What would write files, or tie ranks to those of another job. Everything else acts as it does in a server."""

Tell = Callable[[str], None]


def run(
    only: Sequence[str], gpus: Sequence[int] | None, folder: str, force: bool, allow_multicast: bool, tell: Tell
) -> ProbeResult:
    """See `envsnap.probe.run_all`."""
    started, moment = time.monotonic(), datetime.now(timezone.utc)
    probes = _chosen(only)
    host = LiveHost()
    devices: dict[int, str] = {}
    obstacle = ""
    if any(probe.needs for probe in probes):
        try:
            devices = chosen(host, gpus)
        except Missing as missing:
            obstacle = missing.detail or str(missing)
        if not force:
            check_idle(host, list(devices))
    notes = _notes(host)
    session = _Session(_environment(allow_multicast), tell)
    for probe in probes:
        if not probe.needs:
            session.measure_host(probe, os.path.realpath(folder or tempfile.gettempdir()))
    on_gpus = [probe for probe in probes if probe.needs]
    if devices:
        session.measure_gpus(on_gpus, devices, allow_multicast)
    else:
        for probe in on_gpus:
            for gpu in gpus or [0] if probe.needs == 1 else [0]:
                session.unavailable(figures_of(probe, gpu), obstacle)
    return ProbeResult(
        started_at=moment.isoformat(timespec="milliseconds"),
        seconds=round(time.monotonic() - started, 3),
        gpus=tuple(devices),
        figures=tuple(session.figures),
        notes=(*notes, *session.notes),
        torch=session.torch,
        envsnap=__version__,
    )


def _chosen(only: Sequence[str]) -> list[Probe]:
    """Raises: ValueError."""
    names = [probe.name for probe in PROBES]
    for name in only:
        if name not in names:
            raise ValueError(f"there is no probe {name!r}")
    return [probe for probe in PROBES if not only or probe.name in only]


def _environment(allow_multicast: bool) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return {"NCCL_DEBUG": "WARN", **kept, **({} if allow_multicast else NO_MULTICAST)}


def _notes(host: Host) -> list[str]:
    """What may disturb all of it."""
    load, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return [f"The load average was {load:.1f} on {cpus} CPUs: others were at work."] if load > max(1, cpus / 4) else []


@dataclass
class _Session:
    """Figures as they come."""

    environment: dict[str, str]
    tell: Tell
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    torch: str = ""

    def unavailable(self, names: Sequence[str], reason: str) -> None:
        """Say of figures that they could not be measured, unless they have been."""
        have = {figure.name for figure in self.figures}
        self.figures += [Figure(name, unavailable=reason) for name in names if name not in have]

    def measure_host(self, probe: Probe, folder: str) -> None:
        """One probe of the host."""
        self.tell(probe.name)
        child = Child(self.environment, 2 * probe.seconds)
        try:
            child.line(time.monotonic() + probe.seconds)
            self._measure(probe, [child], figures_of(probe), folder=folder)
        except Ended as ended:
            self.unavailable(figures_of(probe), str(ended))
        finally:
            self._end([child])

    def measure_gpus(self, probes: Sequence[Probe], devices: dict[int, str], multicast: bool) -> None:
        """All probes of GPUs, by one worker for each."""
        gpus = list(devices)
        # NOTE: UUIDs name the same devices to CUDA as to NVML; numbers depend on an order that can be set.
        environment = {**self.environment, "CUDA_VISIBLE_DEVICES": ",".join(devices.values())}
        lifetime = 2 * START_SECONDS + sum(p.seconds * (len(gpus) if p.needs == 1 else 1) for p in probes)
        children: list[Child] = []
        with tempfile.TemporaryDirectory(prefix="envsnap-probe-") as folder:
            store = os.path.join(folder, "store")
            self.tell("starting torch")
            try:
                for device, gpu in enumerate(gpus):
                    place = {"device": device, "nvml": gpu, "gpus": gpus, "store": store, "multicast": multicast}
                    children.append(Child(environment, lifetime, place))
                lost = self._ready(dict(zip(gpus, children)))
                for gpu, child in zip(gpus, children):
                    for probe in (p for p in probes if p.needs == 1):
                        self._measure_one(probe, gpu, child, lost.get(gpu, ""))
                for probe in (p for p in probes if p.needs > 1):
                    self._measure_together(probe, dict(zip(gpus, children)), lost)
            finally:
                self._end(children)

    def _ready(self, children: dict[int, Child]) -> dict[int, str]:
        """Wait for all of them; the GPUs whose worker cannot work, and why."""
        until = time.monotonic() + START_SECONDS
        lost: dict[int, str] = {}
        for gpu, child in children.items():
            try:
                said = child.line(until)
                if "unavailable" in said:
                    lost[gpu] = str(said["unavailable"])
                self.torch = self.torch or str(said.get("torch", ""))
            except Ended as ended:
                lost[gpu] = f"at its start, {ended}"
        return lost

    def _measure_one(self, probe: Probe, gpu: int, child: Child, lost: str) -> None:
        names = figures_of(probe, gpu)
        if lost:
            self.unavailable(names, lost)
            return
        self.tell(f"{probe.name} on GPU {gpu}")
        self._measure(probe, [child], names)

    def _measure_together(self, probe: Probe, children: dict[int, Child], lost: dict[int, str]) -> None:
        names = figures_of(probe)
        if len(children) < probe.needs:
            self.unavailable(names, "it takes two GPUs or more")
        elif lost:
            gpu, reason = next(iter(lost.items()))
            self.unavailable(names, f"GPU {gpu}: {reason}")
        else:
            self.tell(f"{probe.name} on {len(children)} GPUs")
            self._measure(probe, list(children.values()), names)

    def _measure(self, probe: Probe, children: Sequence[Child], names: Sequence[str], **arguments: Any) -> None:
        """Have all of them do it at once; the first one's figures count."""
        until = time.monotonic() + probe.seconds
        reason = "nothing was measured"
        try:
            for child in children:
                child.ask(probe.name, **arguments)
            for child in children:
                while "done" not in (said := child.line(until)):
                    if "figure" not in said:
                        reason = str(said["unavailable"])
                    elif child is children[0]:
                        self.figures.append(
                            Figure(said["figure"], tuple(said["values"]), said["method"], said["unavailable"])
                        )
        except Ended as ended:
            reason = str(ended)
        self.unavailable(names, reason)

    def _end(self, children: Sequence[Child]) -> None:
        for child in children:
            child.dismiss()
        left = [child for child in children if not child.end()]
        if left:
            self.notes.append(f"{len(left)} of the processes that measured could not be ended: a driver hangs.")
