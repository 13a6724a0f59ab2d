"""The two sides and their control pair, built from what the incident's record says."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envsnap.explain import Side
from envsnap.reading import Json
from envsnap.runs.run import Run
from envsnap.snapshot import Section, Snapshot
from tests.cases.incident import engine
from tests.collectors.git_repo import Repo, section
from tests.explain.pairs import run

GPUS = range(8)
RANKS = [f"scheduler_TP{i}" for i in GPUS]
THEN, NOW = "2026-11-11T09:00:00+00:00", "2026-11-20T14:00:00+00:00"
NOW_SECONDS = 1_795_183_200.0
TUNING = {"NCCL_MIN_NCHANNELS": "8", "NCCL_P2P_LEVEL": "SYS", "NCCL_PROTO": "LL"}

MACHINE: dict[str, Json] = {
    "container.kind": "lxc",
    "kernel.release": "6.14.11-2-pve",
    "nvml.driver_version": "590.48.01",
    "nvidia.module_version": "590.48.01",
    "nvml.gpu_count": 8,
    **{f"gpu[{g}].name": "NVIDIA RTX PRO 6000 Blackwell Server Edition" for g in GPUS},
    **{f"gpu[{g}].nvlink_active_count": 0 for g in GPUS},
    **{f"gpu[{g}].power_limit_watts": 600.0 for g in GPUS},
    **{f"gpu[{g}].performance_state": 0 for g in GPUS},
    **{f"gpu[{g}].pcie_width_lanes": 16 for g in GPUS},
}
LOAD: dict[str, Json] = {
    **{f"during.gpu[{g}].pcie_speed_median_gts": 32.0 for g in GPUS},
    **{f"during.gpu[{g}].pcie_width_median_lanes": 16 for g in GPUS},
    **{f"during.gpu[{g}].sm_clock_median_mhz": 2325.0 for g in GPUS},
    **{f"during.gpu[{g}].utilization_median_percent": 99.0 for g in GPUS},
}
SERVER: dict[str, Json] = {
    "server[0].engine": "sglang",
    "server[0].argument[tp_size]": 8,
    "server[0].argument[attention_backend]": "triton",
    "server[0].argument[enable_piecewise_cuda_graph]": False,
    "model[target].config": {"model_type": "kimi_k25", "num_hidden_layers": 61},
}
EAGLE: dict[str, Json] = {
    "server[0].argument[speculative_algorithm]": "EAGLE3",
    "server[0].argument[speculative_num_steps]": 2,
    "model[draft].config": {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1},
}


class Incident:
    """The pair, and the one without speculation, in a repository made for it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
            monkeypatch.setenv(name, "2026-11-10T08:00:00+00:00")
        repo = Repo.new(folder / "sglang")
        engine.then(repo)
        self.before = section(repo.root)
        engine.now(repo)
        self.after = section(repo.root)
        self.reach = _reach(repo)

    def sides(self, recorded: bool, speculative: bool = True) -> tuple[Side, Side]:
        """Then and now. Without `recorded` nothing but the figures is left of the fast side."""
        figures = (
            ({"stream_tokens_per_second": 94.0, "verify_seconds": 0.019},
             {"stream_tokens_per_second": 60.0, "verify_seconds": 0.029})
            if speculative
            else ({"stream_tokens_per_second": 89.0}, {"stream_tokens_per_second": 82.5})
        )  # fmt: skip
        kind = "eagle" if speculative else "plain"
        then = _run(self._state(TUNING, speculative), self.before, f"then-{kind}", THEN, figures[0])
        values = self._state({}, speculative) | self.reach
        now = _run(values, self.after, f"now-{kind}", NOW, figures[1])
        if not recorded:
            then = replace(then, snapshots={"before": _forgotten(now)}, sampled=None)
        return Side.of_runs([then], f"then-{kind}"), Side.of_runs([now], f"now-{kind}")

    def _state(self, variables: Mapping[str, str], speculative: bool) -> dict[str, Json]:
        shell = {"PATH": "/usr/bin", "CUDA_DEVICE_MAX_CONNECTIONS": "8"}
        return {
            **MACHINE,
            **LOAD,
            **SERVER,
            **(EAGLE if speculative else {}),
            **{f"env[{name}]": value for name, value in {**shell, **variables}.items()},
            **{f"worker[{r}].env[{name}]": value for r in RANKS for name, value in {**shell, **variables}.items()},
            **{f"worker[{r}].library[nccl/0].version": "2.27.5" for r in RANKS},
        }


def _run(values: Mapping[str, Json], git: Section, group: str, at: str, figures: Mapping[str, Any]) -> Run:
    command = ("python", "bench.py", "--requests", "1")
    made = run(values, group, at=at, command=command, **figures)
    before = made.snapshots["before"]
    return replace(made, snapshots={"before": replace(before, sections={**before.sections, "git": git})})


def _forgotten(like: Run) -> Snapshot:
    """A snapshot that holds nothing, and says of every section why."""
    before = like.snapshots["before"]
    nothing = Section("unavailable", False, 0.0, "by hand", "not_recorded: only the figures were kept")
    return replace(before, captured_at=THEN, sections=dict.fromkeys(before.sections, nothing))


def _reach(repo: Repo) -> dict[str, Json]:
    """The records of eight ranks that were watched from their start, over a minute of serving."""
    files: dict[str, Json] = {}
    for path, (start_up, serving) in engine.RAN.items():
        data = (repo.root / path).read_bytes()
        files[str(repo.root / path)] = {
            "blob": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(),
            "start_up": _spans(start_up),
            "serving": _spans(serving),
        }
    windows = {
        "start_up": {"from": NOW_SECONDS - 120, "to": NOW_SECONDS - 60, "complete": True},
        "serving": {"from": NOW_SECONDS - 60, "to": NOW_SECONDS + 60, "complete": True},
    }
    workers = {role: {"state": "arrived", "reason": "", "windows": windows} for role in RANKS}
    return {
        "record.code_reach": {"files": files, "workers": workers},
        **{f"record[{role}].state": "arrived" for role in RANKS},
    }


def _spans(text: str) -> list[list[int]]:
    numbers = [[int(n) for n in part.split("-")] for part in text.split(",") if part]
    return [[span[0], span[-1]] for span in numbers]
