"""Probes as a whole: those of the host for real, those of GPUs on a stand-in for torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envsnap import cli
from envsnap.probe import Busy, Figure, run_all
from envsnap.probe import run as running
from envsnap.probe.declared import PROBES, figures_of
from envsnap.probe.result import ProbeResult
from envsnap.reading import Missing, Why
from envsnap.schema import violations
from tests.probing import stand_in

ON_GPUS = [probe.name for probe in PROBES if probe.needs]
HOST = [probe.name for probe in PROBES if not probe.needs]


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two idle GPUs with a torch that pretends; the file in which ranks tell of themselves."""
    monkeypatch.setenv("PYTHONPATH", str(stand_in.write(tmp_path / "lib")))
    monkeypatch.setenv("STAND_IN_TORCH_TELLS", str(tmp_path / "ranks"))
    monkeypatch.setenv("ENVSNAP_RECORD", str(tmp_path / "records"))
    monkeypatch.setattr(running, "chosen", lambda host, asked: {g: f"GPU-{g}" for g in asked or (2, 5)})
    monkeypatch.setattr(running, "check_idle", lambda host, gpus: None)
    return tmp_path / "ranks"


def measured(result: ProbeResult) -> set[str]:
    return {f.name for f in result.figures if f.values}


def reasons(result: ProbeResult) -> set[str]:
    return {f.unavailable for f in result.figures if not f.values}


# -- the host -------------------------------------------------------------------------------------------------------


def test_the_host_is_measured_and_nothing_is_left(tmp_path: Path) -> None:
    result = run_all(HOST, folder=str(tmp_path))
    by_name = {f.name: f for f in result.figures}
    assert list(by_name) == [name for probe in PROBES if not probe.needs for name in figures_of(probe)]
    assert 1 < by_name["cpu.single_thread_milliseconds"].values[0] < 10_000
    assert 0.01 < by_name["memory.copy_gb_per_second"].values[0] < 10_000
    disk = by_name["disk.read_gb_per_second"]
    assert disk.values or "lies in memory" in disk.unavailable
    assert list(tmp_path.iterdir()) == []
    assert (result.gpus, result.torch) == ((), "")


def test_a_folder_in_memory_is_no_disk() -> None:
    if not os.path.isdir("/dev/shm") or not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no /dev/shm")
    (figure,) = run_all(["disk"], folder="/dev/shm").figures
    assert figure.unavailable.startswith("/dev/shm lies in memory (tmpfs)")


def test_a_folder_that_is_not_there_is_a_reason(tmp_path: Path) -> None:
    (figure,) = run_all(["disk"], folder=str(tmp_path / "none")).figures
    assert "No such file or directory" in figure.unavailable


def test_a_probe_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="there is no probe 'weather'"):
        run_all(["weather"])


def test_importing_it_is_cheap() -> None:
    heavy = ("subprocess", "scipy", "torch", "argparse")
    code = f"import sys, envsnap.probe; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- GPUs -----------------------------------------------------------------------------------------------------------


def test_every_figure_of_two_gpus(gpus: Path) -> None:
    result = run_all(ON_GPUS)
    expected = {
        name
        for probe in PROBES
        if probe.needs
        for gpu in ((2, 5) if probe.needs == 1 else (0,))
        for name in figures_of(probe, gpu)
    }
    clocks = {f"gpu[{gpu}].matmul_sm_clock_mhz" for gpu in (2, 5)}  # there is no NVML here
    assert {f.name for f in result.figures} == expected
    assert measured(result) >= expected - clocks, [(f.name, f.unavailable) for f in result.figures]
    assert (result.gpus, result.torch) == ((2, 5), "0.0.stand-in")
    medians = {f.name: f.median for f in result.figures}
    assert medians["gpu[5].matmul_tflops"] == pytest.approx(700)
    assert medians["gpu[2].memory_copy_gb_per_second"] == pytest.approx(2 * (1 << 30) / 0.001 / 1e9)
    assert medians["gpu[2].host_to_device_gb_per_second"] == pytest.approx((256 << 20) / 0.001 / 1e9)
    assert medians["all_reduce[16KiB].microseconds"] == pytest.approx(20)
    assert medians["all_reduce[1MiB].bus_gb_per_second"] == pytest.approx((1 << 20) / 20e-6 / 1e9)
    assert medians["all_reduce_graph[64KiB].microseconds"] == pytest.approx(8)


def test_ranks_never_use_multicast_unless_it_is_allowed(gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    monkeypatch.setenv("NCCL_DEBUG_FILE", "/tmp/never")
    monkeypatch.setenv("NCCL_PROTO", "LL")
    run_all(["all_reduce"])
    run_all(["all_reduce"], allow_multicast=True)
    ranks = [json.loads(line) for line in gpus.read_text().splitlines()]
    assert sorted(rank["rank"] for rank in ranks) == [0, 0, 1, 1]
    off = [{name: rank["env"].get(name) for name in running.NO_MULTICAST} for rank in ranks]
    assert off[:2] == [running.NO_MULTICAST] * 2
    assert off[2:] == [{**dict.fromkeys(running.NO_MULTICAST), "NCCL_NVLS_ENABLE": "1"}] * 2
    for rank in ranks:
        assert rank["env"]["NCCL_PROTO"] == "LL", "what a server would inherit acts here too"
        assert rank["env"]["CUDA_VISIBLE_DEVICES"] == "GPU-2,GPU-5"
        assert not {"ENVSNAP_RECORD", "NCCL_DEBUG_FILE"} & set(rank["env"])
        assert not os.path.exists(f"/proc/{rank['pid']}")


def test_a_gpu_that_hangs_costs_its_own_figures(gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = [replace(p, seconds=2.0) if p.name == "matmul" else p for p in PROBES]
    monkeypatch.setattr(running, "PROBES", quick)
    monkeypatch.setenv("STAND_IN_TORCH_HANGS", "1")
    result = run_all(["matmul", "launch", "all_reduce"])
    assert measured(result) - {"gpu[2].matmul_sm_clock_mhz"} == {"gpu[2].matmul_tflops", "gpu[2].launch_microseconds"}
    lost = {f.name: f.unavailable for f in result.figures if f.name.startswith(("gpu[5]", "all_reduce"))}
    assert set(lost.values()) == {"it took too long and was ended"}
    assert "all_reduce[16KiB].microseconds" in lost
    assert result.notes == () or "load average" in result.notes[0]


def test_a_probe_that_fails_costs_itself_alone(gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_TORCH_FAILS", "0")
    result = run_all(["matmul", "launch"], gpus=[2])
    assert measured(result) == {"gpu[2].launch_microseconds"}
    assert reasons(result) == {"RuntimeError: CUDA error: an illegal memory access was encountered"}


def test_one_gpu_has_nobody_to_reduce_with(gpus: Path) -> None:
    assert reasons(run_all(["all_reduce"], gpus=[2])) == {"it takes two GPUs or more"}


def test_without_gpus_the_reason_stands_at_each_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(host: Any, asked: Any) -> dict[int, str]:
        raise Missing(Why.ABSENT, "no NVIDIA driver")

    monkeypatch.setattr(running, "chosen", none)
    result = run_all(ON_GPUS)
    assert reasons(result) == {"no NVIDIA driver"}
    assert measured(result) == set()


def test_a_gpu_in_use_is_refused_before_anything_is_measured(gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(host: Any, gpus: Any) -> None:
        raise Busy("GPU 2 is 97 % busy")

    monkeypatch.setattr(running, "check_idle", busy)
    with pytest.raises(Busy, match="97 %"):
        run_all(["launch"])
    assert "gpu[2].launch_microseconds" in measured(run_all(["launch"], gpus=[2], force=True))
    assert measured(run_all(["cpu"])), "whoever does not measure GPUs does not care"


# -- the verb -------------------------------------------------------------------------------------------------------


def _verb(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    from envsnap.cli import probe

    args: Any = cli.parser("probe").parse_args(["probe", *map(str, arguments)])
    try:
        code = probe.run(args)
    except cli.Trouble as trouble:
        return 2, "", str(trouble)
    return code, *capsys.readouterr()


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What is measured, by the name of the figure."""
    values = {"cpu.single_thread_milliseconds": 100.0, "gpu[0].matmul_tflops": 700.0}

    def pretend(*arguments: Any) -> ProbeResult:
        figures = [Figure(n, (v, v * 1.01), "m") if v else Figure(n, unavailable="gone") for n, v in values.items()]
        return ProbeResult("2026-01-01T00:00:00+00:00", 1.0, (0,), tuple(figures))

    monkeypatch.setattr(running, "run", pretend)
    return values


def test_exit_codes(found: dict[str, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = tmp_path / "good.json"
    assert _verb(capsys, "-o", good)[0] == 0
    assert violations(json.loads(good.read_text())) == []
    assert _verb(capsys, "--baseline", good)[0] == 0
    found["gpu[0].matmul_tflops"] = 0.0
    assert _verb(capsys)[0] == 0
    assert _verb(capsys, "--only", "matmul")[0] == 3
    assert _verb(capsys, "--baseline", good)[0] == 3
    found["cpu.single_thread_milliseconds"] = 300.0
    code, out, _ = _verb(capsys, "--baseline", good, "--format", "json")
    assert code == 1
    assert [c["standing"] for c in json.loads(out)["compared"]] == ["worse", "missing"]
    assert violations(json.loads(out)) == []


def test_only_what_was_asked_for_is_missed(
    found: dict[str, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _verb(capsys, "-o", tmp_path / "good.json")
    del found["gpu[0].matmul_tflops"]
    assert _verb(capsys, "--baseline", tmp_path / "good.json", "--only", "cpu")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "cpus"], "There is no probe 'cpus'; did you mean cpu?"),
        (["--gpus", "0,x"], "--gpus takes numbers such as 0,1, not 'x'."),
        (["--only", "launch"], "GPU 0 is 97 % busy. Wait until nobody uses it, or measure anyway with --force."),
    ],
)
def test_trouble_is_one_sentence(
    arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def busy(host: Any, gpus: Any) -> None:
        raise Busy("GPU 0 is 97 % busy")

    monkeypatch.setattr(running, "chosen", lambda host, asked: {0: "GPU-0"})
    monkeypatch.setattr(running, "check_idle", busy)
    assert _verb(capsys, *arguments) == (2, "", sentence)


def test_the_verb_as_a_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "envsnap", "probe", "--only", "cpu", "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert violations(document) == []
    assert [f["name"] for f in document["figures"]] == ["cpu.single_thread_milliseconds"]
