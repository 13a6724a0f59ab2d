"""Caches of compiled and tuned kernels: where, by which variable, how full, and what was tuned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from envsnap import collectors
from envsnap.collectors import caches
from envsnap.host import LiveHost
from envsnap.keys import Kind
from envsnap.reading import Missing, Unavailable, Value, Why
from envsnap.scope import Scope
from tests.collectors.environments import section_of
from tests.fakes import FakeHost


class Elsewhere(LiveHost):
    """This machine, with an environment of its own for the calling process."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__()
        self._environ = dict(environ)
        self.asked: list[Any] = []

    def environ(self) -> dict[str, str]:
        return self._environ

    def ask(self, requests: Any) -> Any:
        self.asked.extend(requests)
        return super().ask(requests)


def values(home: Path, **environ: str) -> dict[str, Any]:
    section = section_of(
        "caches", Scope(), Elsewhere({"HOME": str(home), "USER": "me", "TMPDIR": str(home), **environ})
    )
    assert section.complete
    return section.values


def write(path: Path, content: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


# -- where ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "variable", "value", "place", "default"),
    [
        ("triton", "TRITON_CACHE_DIR", "{}/t", "{}/t", "{}/.triton/cache"),
        ("triton", "TRITON_HOME", "{}/t", "{}/t/.triton/cache", "{}/.triton/cache"),
        ("inductor", "TORCHINDUCTOR_CACHE_DIR", "{}/t", "{}/t", "{}/torchinductor_me"),
        ("cuda", "CUDA_CACHE_PATH", "{}/t/", "{}/t", "{}/.nv/ComputeCache"),
        ("flashinfer", "FLASHINFER_WORKSPACE_BASE", "{}/t", "{}/t/.cache/flashinfer", "{}/.cache/flashinfer"),
        ("deep_gemm", "DG_JIT_CACHE_DIR", "~/t", "{}/t", "{}/.deep_gemm"),
        ("vllm", "VLLM_CACHE_ROOT", "{}/t", "{}/t", "{}/.cache/vllm"),
        ("vllm", "XDG_CACHE_HOME", "{}/t", "{}/t/vllm", "{}/.cache/vllm"),
        ("torch_extensions", "TORCH_EXTENSIONS_DIR", "{}/t", "{}/t", "{}/.cache/torch_extensions"),
        ("sglang", "SGLANG_CACHE_DIR", "{}/t", "{}/t", "{}/.cache/sglang"),
        ("sglang/triton", "SGLANG_CACHE_DIR", "{}/t", "{}/t/triton", "{}/.cache/sglang/triton"),
        ("sglang/jit", "SGLANG_JIT_CACHE_DIR", "{}/t", "{}/t", "{}/.cache/sglang/jit"),
        ("hf_hub", "HF_HUB_CACHE", "{}/t", "{}/t", "{}/.cache/huggingface/hub"),
        ("hf_hub", "HF_HOME", "{}/t", "{}/t/hub", "{}/.cache/huggingface/hub"),
        ("hf_hub", "XDG_CACHE_HOME", "{}/t", "{}/t/huggingface/hub", "{}/.cache/huggingface/hub"),
    ],
)
def test_a_variable_moves_a_cache(
    tmp_path: Path, name: str, variable: str, value: str, place: str, default: str
) -> None:
    before = values(tmp_path)
    assert before[f"cache[{name}].path"] == default.format(tmp_path)
    if name != "inductor":
        assert f"cache[{name}].moved_by" not in before
    after = values(tmp_path, **{variable: value.format(tmp_path)})
    assert after[f"cache[{name}].path"] == place.format(tmp_path)
    assert after[f"cache[{name}].moved_by"] == variable


def test_sglangs_own_kernels_do_not_follow_its_cache_folder(tmp_path: Path) -> None:
    found = values(tmp_path, SGLANG_CACHE_DIR="/moved")
    assert found["cache[sglang/jit].path"] == f"{tmp_path}/.cache/sglang/jit"
    assert found["cache[sglang/flashinfer_autotune].path"] == "/moved/flashinfer/autotune"


def test_places_are_those_of_a_process_of_interest(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "theirs"), "TRITON_CACHE_DIR": "/theirs"}
    with subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); import time; time.sleep(60)"],
        env=environ, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        try:
            assert child.stdout
            child.stdout.readline()
            section = section_of("caches", Scope(pids=(child.pid,)), Elsewhere({"HOME": "/mine"}))
        finally:
            child.kill()
    assert section.values["cache[triton].path"] == "/theirs"
    assert section.values["cache[cuda].path"] == f"{tmp_path}/theirs/.nv/ComputeCache"


def test_without_a_home_the_user_database_tells() -> None:
    passwd = "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n"
    own = {**LiveHost().self(), "uid": 1000}
    replies: dict[tuple[Any, ...], Any] = {("self",): own, ("environ",): {}}
    found = dict(caches.collect(FakeHost({"/etc/passwd": passwd}, replies=replies), Scope()))
    assert found["cache[triton].path"] == Value("/home/me/.triton/cache")
    assert found["cache[inductor].path"] == Value("/tmp/torchinductor_me")
    homeless = dict(caches.collect(FakeHost(replies={**replies, ("environ",): {"TRITON_CACHE_DIR": "/t"}}), Scope()))
    assert homeless["cache[triton].path"] == Value("/t")
    reason = homeless["cache[cuda]"]
    assert isinstance(reason, Unavailable)
    assert reason.why is Why.ABSENT


# -- what they hold -------------------------------------------------------------------------------------------


def test_files_bytes_and_the_newest_change_are_counted(tmp_path: Path) -> None:
    write(tmp_path / ".triton/cache/a/kernel.cubin", "12345")
    newest = write(tmp_path / ".triton/cache/b/c/kernel.json", "123")
    os.utime(tmp_path / ".triton/cache/a/kernel.cubin", (1_000, 1_000))
    os.utime(newest, ns=(0, 2_000_500_000_000))
    found = values(tmp_path)
    assert found["cache[triton].warm"] is True
    assert found["cache[triton].entries_count"] == 2
    assert found["cache[triton].size_bytes"] == 8
    assert found["cache[triton].newest_change_seconds"] == 2000.5
    assert found["cache[triton].counted_whole"] is True


def test_a_cold_cache_is_not_an_unknown_one(tmp_path: Path) -> None:
    (tmp_path / ".nv/ComputeCache").mkdir(parents=True)
    write(tmp_path / ".deep_gemm", "a file, of all things")
    section = section_of("caches", Scope(), Elsewhere({"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "USER": "me"}))
    found = section.values
    assert found["cache[triton].warm"] is False  # no directory
    assert found["cache[triton].entries_count"] == 0
    assert found["cache[cuda].warm"] is False  # an empty one
    assert found["cache[cuda].entries_count"] == 0
    assert "cache[cuda].newest_change_seconds" not in found
    assert "cache[deep_gemm].warm" not in found
    assert section.unavailable["cache[deep_gemm].warm"].why is Why.NOT_SUPPORTED


def test_a_cache_that_may_not_be_looked_at_is_unknown() -> None:
    replies: dict[tuple[Any, ...], Any] = {
        ("self",): LiveHost().self(),
        ("environ",): {"HOME": "/home/me", "USER": "me"},
    }
    host = FakeHost({"/home/me/.triton/cache/x": ""}, replies=replies, denied=["/home/me/.triton"])
    found = dict(caches.collect(host, Scope()))
    for key in ("warm", "entries_count", "size_bytes"):
        reading = found[f"cache[triton].{key}"]
        assert isinstance(reading, Unavailable)
        assert reading.why is Why.DENIED
    assert found["cache[cuda].warm"] == Value(False)


def test_a_scan_that_ends_early_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "SCAN_FILES", 10)
    for i in range(20):
        write(tmp_path / f".triton/cache/{i}/kernel.autotune.json")
    section = section_of("caches", Scope(), Elsewhere({"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "USER": "me"}))
    assert section.values["cache[triton].counted_whole"] is False
    assert section.values["cache[triton].entries_count"] == 10
    assert section.values["cache[triton].warm"] is True
    assert section.unavailable["cache[triton].tuned_sha256"].why is Why.TOO_LARGE


def test_two_caches_in_one_place_are_walked_once(tmp_path: Path) -> None:
    write(tmp_path / ".cache/sglang/triton/a/kernel.cubin")
    shared = f"{tmp_path}/.cache/sglang/triton"
    host = Elsewhere({"HOME": str(tmp_path), "USER": "me", "TMPDIR": str(tmp_path), "TRITON_CACHE_DIR": shared})
    found = section_of("caches", Scope(), host).values
    assert found["cache[triton].entries_count"] == found["cache[sglang/triton].entries_count"] == 1
    assert len([request for request in host.asked if request[:2] == ["usage", shared]]) == 1


def test_all_scans_together_are_bounded(tmp_path: Path) -> None:
    for name in ("triton", "inductor", "deep_gemm", "tilelang"):
        (tmp_path / f".cache/sglang/{name}").mkdir(parents=True)
    host = Elsewhere({"HOME": str(tmp_path), "USER": "me", "TMPDIR": str(tmp_path)})
    section_of("caches", Scope(), host)
    seconds = [request[3] for request in host.asked if request[0] == "usage"]
    assert len(seconds) == 4
    assert sum(seconds) <= 1.0


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("sglang/flashinfer_autotune", ".cache/sglang/flashinfer/autotune/0.7.2/sm90/01234567/rank_tp0_pp0_dp0.json"),
        ("triton", ".triton/cache/ABC/matmul.autotune.json"),
        ("inductor", "torchinductor_me/ab/cabcdef.best_config"),
    ],
)  # fmt: skip
def test_tuning_results_are_hashed_together(tmp_path: Path, name: str, file: str) -> None:
    path = write(tmp_path / file, '{"tactic": 1}')
    write(path.parent / "kernel.cubin", "compiled")

    def tuned() -> tuple[Any, Any]:
        found = values(tmp_path)
        return found[f"cache[{name}].tuned_count"], found[f"cache[{name}].tuned_sha256"]

    count, first = tuned()
    assert count == 1
    write(path.parent / "kernel.cubin", "compiled anew")
    assert tuned() == (1, first)
    write(path, '{"tactic": 2}')
    assert tuned()[1] != first
    write(path, '{"tactic": 1}')
    assert tuned() == (1, first)
    path.rename(path.with_name("rank_tp1.autotune.json" if "json" in path.name else "other.best_config"))
    assert tuned()[1] != first


def test_the_kept_answer_about_peer_access_is_read(tmp_path: Path) -> None:
    root = tmp_path / ".cache/sglang"
    answer = {f"{a}->{b}": a == b for a in range(4) for b in range(4)}
    write(root / "gpu_p2p_access_cache_for_0,1,2,3.json", json.dumps(answer))
    write(tmp_path / ".cache/vllm/gpu_p2p_access_cache_for_0,1.json", '{"0->1": true, "1->0": true}')
    found = values(tmp_path)
    assert found["cache[sglang].p2p_refused_count"] == 12
    assert found["cache[vllm].p2p_refused_count"] == 0
    write(root / "gpu_p2p_access_cache_for_0,1,2,3.json", json.dumps({**answer, "0->1": True}))
    again = values(tmp_path)
    assert again["cache[sglang].p2p_refused_count"] == 11
    assert again["cache[sglang].p2p_sha256"] != found["cache[sglang].p2p_sha256"]
    assert again["cache[vllm].p2p_sha256"] == found["cache[vllm].p2p_sha256"]


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 10_000])
def test_a_broken_answer_about_peer_access_is_no_zero(tmp_path: Path, text: str) -> None:
    write(tmp_path / ".cache/sglang/gpu_p2p_access_cache_for_0,1.json", text)
    section = section_of("caches", Scope(), Elsewhere({"HOME": str(tmp_path), "USER": "me", "TMPDIR": str(tmp_path)}))
    assert section.unavailable["cache[sglang].p2p_refused_count"].why is Why.NOT_SUPPORTED
    assert "cache[sglang].p2p_sha256" in section.values


def test_growth_is_a_counter_and_warmth_a_state() -> None:
    assert collectors.key_for("cache[triton].entries_count").kind is Kind.COUNTER
    assert collectors.key_for("cache[triton].warm").kind is Kind.TUNABLE


def test_the_empty_machine_has_no_caches() -> None:
    with pytest.raises(Missing):
        list(caches.collect(FakeHost(), Scope()))
