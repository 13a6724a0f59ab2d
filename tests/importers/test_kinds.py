"""Each kind of dump: found in its sample and in nothing else, and what it says under the keys that a capture fills."""

from __future__ import annotations

import json

import pytest

from envsnap import importers
from envsnap.collectors import key_for, keys
from envsnap.importers._gpus import FACTS
from envsnap.importers._text import clean
from envsnap.jsonfile import SnapshotError
from envsnap.keys import Kind
from envsnap.snapshot import load
from tests.importers.samples import DATA, SAMPLES, read, values

SILENT = "Model: a remark. I saw driver 580 and torch==2.9.1 here;\nNCCL_DEBUG=INFO says nothing. [1, 2]\n{not json}\n"
WITHIN = {
    "lscpu": ("torch_collect_env", "vllm_collect_env"),
    "nvidia_smi_topo": ("sglang_check_env", "vllm_collect_env"),
    "dmesg": ("nvidia_bug_report",),
}
"""Kinds that others hold within them."""


@pytest.mark.parametrize("name", importers.names())
def test_law_an_importer_says_what_it_reads_and_has_a_firing_and_a_silent_case(name: str) -> None:
    module = importers.importer(name)
    doc = module.__doc__ or ""
    assert doc.split("\n")[0].endswith("."), f"{name}: the docstring's first line names the tool"
    kind = next(kind for kind in importers.kinds() if kind.name == name)
    assert kind.seen.endswith("."), f"{name}: the docstring says what was Seen:"
    assert kind.untested.endswith("."), f"{name}: the docstring says what is Untested:"
    assert list(module.recognise(clean(SAMPLES[name]))), f"{name}: its sample is not recognised"
    assert not list(module.recognise(clean(SILENT))), f"{name}: recognises what is no dump"
    assert not list(module.recognise(clean(""))), f"{name}: recognises nothing at all"


def test_law_every_importer_has_a_sample() -> None:
    assert sorted(SAMPLES) == list(importers.names())


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_a_sample_is_of_its_own_kind_alone(sample: str) -> None:
    found = read(SAMPLES[sample])
    within = {kind for kind, holders in WITHIN.items() if sample in holders}
    assert {source.kind for source in found.sources} == {sample, *within}
    assert not any(source.notes for source in found.sources)
    assert all(not section.errors and not section.complete for section in found.snapshot.sections.values())


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_every_reading_has_a_key_and_none_is_dropped_for_its_type(sample: str) -> None:
    found = read(SAMPLES[sample])
    for source in found.sources:
        assert source.dropped <= 1, source
    assert found.snapshot.values or found.runs


@pytest.mark.parametrize("sample", ["nvidia_smi_q", "nvidia_smi_xml", "nvidia_smi_topo", "torch_collect_env"])
def test_what_a_dump_says_is_what_a_capture_of_the_same_kind_of_machine_read(sample: str) -> None:
    captured = load(DATA.parent / "machines/h200x2/snapshot.json").values
    found = values(SAMPLES[sample])
    assert set(found) <= set(captured)
    of_another_board = "board_part_number"
    compared = {
        p for p in found if key_for(p).kind in (Kind.IDENTITY, Kind.TUNABLE) and not p.endswith(of_another_board)
    }
    assert {p: found[p] for p in compared if not key_for(p).same(found[p], captured[p])} == {}
    assert len(compared) >= {"nvidia_smi_topo": 4, "torch_collect_env": 70}.get(sample, 90)


def test_both_forms_of_nvidia_smi_say_the_same() -> None:
    text, xml = values(SAMPLES["nvidia_smi_q"]), values(SAMPLES["nvidia_smi_xml"])
    assert text.keys() == xml.keys()
    differ = [p for p in text if text[p] != xml[p]]
    assert {key_for(p).kind for p in differ} <= {Kind.VOLATILE}, "the two were taken one after the other"
    assert text["gpu[1].clocks_event_reasons"] == ["gpu_idle"]


def test_the_log_of_a_server_gives_the_arguments_that_the_server_itself_tells() -> None:
    logged, told = values(SAMPLES["sglang_log"]), values(SAMPLES["server_info"])
    arguments = {p: v for p, v in logged.items() if p.startswith("server[0].argument[")}
    assert len(arguments) == 308
    assert arguments == {p: v for p, v in told.items() if p.startswith("server[0].argument[")}
    assert logged["server[0].dp[0].token_capacity_count"] == 65536
    assert logged["library[nccl/0].version"] == "2.28.9"


def test_the_log_of_a_server_gives_figures() -> None:
    found = read(SAMPLES["sglang_log"])
    (run,) = found.runs
    figures = {m.name: m.value for m in run.metrics}
    assert figures["accept_length"] == 2.5
    assert figures["stream_tokens_per_second"] == pytest.approx(92.25, abs=0.5)
    assert figures["step_seconds"] == pytest.approx(2.5 / figures["stream_tokens_per_second"])
    assert run.sampled is not None
    assert run.sampled.values["during.server.decode_graph_percent"] == 0
    assert found.snapshot.captured_at == "2026-11-29T16:58:11"


def test_a_server_that_never_served_gives_a_run_that_failed_and_says_why() -> None:
    found = read((DATA / "sglang_0.5.16_crash.log").read_text())
    (run,) = found.runs
    assert run.status == "never_ready"
    assert run.reason == "the server did not start: ModuleNotFoundError: No module named 'deep_gemm'"
    assert not run.metrics
    assert found.snapshot.values["server[0].argument[disable_cuda_graph]"] is False
    assert found.snapshot.values["server[0].dp[0].graph_batch_sizes"] == [1, 2, 3, 4]


def test_vllm_log() -> None:
    found = read(SAMPLES["vllm_log"])
    given = found.snapshot.values
    assert given["server[0].version"] == "0.11.0"
    assert given["server[0].engine"] == "vllm"
    assert given["server[0].argument[tensor_parallel_size]"] == 2
    assert given["server[0].argument[dtype]"] == "bfloat16"
    assert given["server[0].argument[enforce_eager]"] is False
    assert given["server[0].argument[speculative_config.num_speculative_tokens]"] == 3
    assert given["server[0].dp[0].graph_batch_sizes"] == [1, 2, 4]
    assert "redacted" in json.dumps(given["server[0].argument[api_key]"])
    assert {m.name: m.value for m in found.runs[0].metrics} == pytest.approx(
        {"stream_tokens_per_second": 124.5, "output_tokens_per_second": 124.5, "accept_length": 2.63,
         "step_seconds": 2.63 / 124.5}
    )  # fmt: skip


def test_reports_of_environments() -> None:
    vllm = values(SAMPLES["vllm_collect_env"])
    assert vllm["package[vllm].version"] == "0.23.1"
    assert vllm["library[torch].version"] == "2.11.0+cu130"
    assert vllm["kernel.release"] == "6.17.0-23-generic"
    assert vllm["env[NCCL_P2P_DISABLE]"] == "1"
    assert "env[CUDA_MODULE_LOADING]" not in vllm
    assert vllm["gpu_pair[0/1].topology"] == "hostbridge"
    assert vllm["cpu.smt_active"] is True
    assert vllm["cpu.cores_count"] == 16
    assert vllm["conda[nccl].version"] == "2.29.2.1"
    assert "conda[numpy].version" not in vllm
    sglang = values(SAMPLES["sglang_check_env"])
    assert sglang["package[sglang].version"] == "0.5.16"
    assert sglang["package[flashinfer-python].version"] == "0.6.18"
    assert sglang["gpu[1].compute_capability"] == "9.0"
    assert sglang["nvml.driver_version"] == "580.159.04"
    assert sglang["limits.nofile_soft_count"] == 1048576
    assert not any("vllm" in path for path in sglang)


def test_torch_counts_gpus_otherwise_than_nvml_where_they_differ() -> None:
    mixed = SAMPLES["sglang_check_env"].replace("GPU 0,1: NVIDIA H200", "GPU 0: NVIDIA H200\nGPU 1: NVIDIA L4")
    found = values(mixed)
    assert not any(path.startswith("gpu[") and path.endswith(".name") for path in found)
    assert found["package[sglang].version"] == "0.5.16"


def test_tables_of_nvidia_smi() -> None:
    found = values(SAMPLES["nvidia_smi"])
    assert found["nvml.driver_version"] == "580.159.04"
    assert found["nvml.gpu_count"] == 2
    assert found["gpu[1].enforced_power_limit_watts"] == 700
    assert found["gpu[1].memory_total_bytes"] == 143771 << 20
    assert found["gpu[0].pci_address"] == "0000:00:06.0"
    assert found["gpu[0].ecc_mode"] is True
    newer = (
        SAMPLES["nvidia_smi"]
        .replace("Driver Version: ", "KMD Version: ")
        .replace("CUDA Version: ", "CUDA UMD Version: ")
    )
    assert values(newer)["nvml.cuda_driver_version"] == "13.0"
    shortened = SAMPLES["nvidia_smi"].replace("NVIDIA H200       ", "NVIDIA H200 NV... ")
    assert "gpu[0].name" not in values(shortened), "a name that was cut is no name"


@pytest.mark.parametrize("sample", ["nvidia_smi_q", "nvidia_smi_xml"])
def test_some_gpus_alone_are_left_out_since_nobody_says_which_they_are(sample: str) -> None:
    text = SAMPLES[sample].replace("Attached GPUs                                          : 2", "Attached GPUs : 8")
    text = text.replace("<attached_gpus>2<", "<attached_gpus>8<")
    assert values(text)["gpu[1].minor_number"] == 1, "the first two of eight, as a dump that was cut has them"
    first = text.replace("Minor Number                                       : 0", "Minor Number : 3")
    found = read(first.replace("<minor_number>0<", "<minor_number>3<"))
    assert not any(path.startswith("gpu[") for path in found.snapshot.values)
    assert "2 of 8 GPUs" in found.sources[0].notes[0]
    assert found.sources[0].dropped > 50


def test_nccl() -> None:
    found = values(SAMPLES["nccl_log"])
    assert found["nccl.rank[0].version"] == "2.28.9+cuda13.0"
    assert found["nccl.rank[0].set[NCCL_PROTO]"] == "Simple"
    assert found["nccl.rank[0].protocols[AllReduce]"] == ["Simple"]
    assert found["nccl.rank[0].transport[1]"] == ["P2P/CUMEM"]
    mixed = SAMPLES["nccl_log"].replace("\n", "\n[2026-11-29 16:58:49 TP0] Load weight begin. avail mem=138.31 GB\n")
    without_table = {p: v for p, v in found.items() if "protocols" not in p and "algorithms" not in p}
    assert without_table.items() <= values(mixed).items()


def test_packages() -> None:
    found = values(SAMPLES["pip_freeze"])
    assert found["package[torch].version"] == "2.13.0+cpu"
    assert found["package[torch].local_tag"] == "cpu"
    assert found["package[sglang].origin"] == "editable"
    assert found["package[deep-ep].vcs_commit"] == "9fe9021f29c9083cd1808ab36b740208524d9f63"
    assert found["package[mylib].origin"] == "directory"
    assert found["package[envsnap-audit].version"] == "0.1.0"
    assert found["package[envsnap-audit].editable_path"] == "/work/tree"
    assert found["package[flash-attn].origin"] == "url"
    listed = values(SAMPLES["pip_list"])
    assert listed["package[vllm].version"] == "0.11.0+cu128"
    assert listed["package[vllm].editable_path"] == "/work/vllm"


def test_the_kernels_log() -> None:
    found = values(SAMPLES["dmesg"])
    assert found["kernel_log.xid_count[79]"] == 1
    assert found["kernel_log.pcie_corrected_count"] == 2
    assert found["kernel_log.reaches_boot"] is True
    assert found["kernel.parameter[swiotlb]"] == ["noforce"]
    assert found["nvidia.module_flavour"] == "open"
    assert "kernel_log.out_of_memory_count" not in found, "an excerpt does not say never"
    excerpt = values("[  812.004312] NVRM: Xid (PCI:0000:00:06): 79, pid=4242, name=python3\n")
    assert excerpt == {"kernel_log.xid_count[79]": 1, "kernel_log.reaches_boot": False}


def test_a_bug_report_of_nvidia() -> None:
    found = values(SAMPLES["nvidia_bug_report"])
    assert found["kernel.release"] == "6.8.0-58-generic"
    assert found["os.hostname"] == "node7"
    assert found["memory.total_bytes"] == 2113408000 << 10
    assert found["nvidia.module_version"] == "580.159.04"
    assert found["kernel_log.xid_count[31]"] == 2, "the same lines stand in two of its sections"


def test_pci() -> None:
    found = values(SAMPLES["lspci"])
    assert found["pci[gpu0].link_width_lanes"] == 8
    assert found["pci[gpu0].max_link_width_lanes"] == 16
    assert found["pci[gpu0].max_link_speed_gts"] == 16
    assert found["pci[gpu0].id"] == "10de:20b0"
    assert found["pci[gpu0].max_read_request_bytes"] == 512
    assert found["pci[gpu0].aspm_enabled"] == []
    assert found["pci[gpu0].bar[1].size_bytes"] == 64 << 30
    excerpt = read(SAMPLES["lspci"].partition("\n\n")[2])
    assert not excerpt.snapshot.values
    assert "not the whole bus" in excerpt.sources[0].notes[0]


def test_containers_and_fingerprints() -> None:
    docker = values(SAMPLES["docker_inspect"])
    assert docker["container.kind"] == "docker"
    assert docker["cgroup.cpu_quota_cpus"] == 8
    assert docker["memory.shm_size_bytes"] == 64 << 20
    assert docker["limits.memlock_soft_unlimited"] is True
    assert docker["limits.nofile_soft_count"] == 1024
    assert docker["env[NCCL_CUMEM_ENABLE]"] == "0"
    assert "cgroup.memory_limit_bytes" not in docker
    assert read(SAMPLES["docker_inspect"]).snapshot.captured_at == "2026-10-23T05:41:12.543+00:00"
    slurm = values(SAMPLES["srt_slurm"])
    assert slurm["package[numpy].version"] == "2.5.2", "of the interpreter that serves, which comes first"
    assert slurm["library[torch].nccl_version"] == "2.28.9"
    assert slurm["package[ai-dynamo].version"] == "0.7.0"


def test_benchmarks() -> None:
    found = read(SAMPLES["benchmark"])
    assert found.runs[0].metrics[0].name == "output_tokens_per_second"
    assert found.runs[0].request["max_concurrency"] == 2
    table = read(SAMPLES["serving_table"]).runs[0]
    figures = {m.name: m.value for m in table.metrics}
    assert figures["output_tokens_per_second"] == 471.82
    assert figures["accept_length"] == 2.51
    assert figures["tpot_seconds"] == pytest.approx(0.00209)


def test_nothing_that_is_known_is_said_in_one_sentence() -> None:
    with pytest.raises(SnapshotError, match=r"envsnap import --list"):
        read(SILENT)


def test_dates_are_the_dumps_own() -> None:
    dates = {name: read(text).sources[0].date for name, text in SAMPLES.items()}
    assert dates["nvidia_smi"] == "2026-11-02 10:10:07"
    assert dates["nvidia_smi_q"] == "2026-11-29 15:58:16"
    assert dates["sglang_log"] == "2026-11-29 16:58:11"
    assert dates["vllm_log"] == "09-14 20:30:52", "which names no year"
    assert dates["srt_slurm"] == "2026-11-02T10:10:07Z"
    assert read(SAMPLES["pip_freeze"]).snapshot.captured_at == ""
    assert read(SAMPLES["srt_slurm"], SAMPLES["nvidia_smi_q"]).snapshot.captured_at == "2026-11-02T10:10:07.000+00:00"


def test_a_line_that_a_library_prints_into_nvidia_smi_is_not_its_own() -> None:
    text = SAMPLES["nvidia_smi_q"].replace(
        "\nCUDA Version", "\n[core Msg(571:1:libvgpu.c:836)]: Initializing.....\nCUDA Version"
    )
    found = read(
        text.replace("\n    Temperature\n", "\n[core Msg(571:1:libvgpu.c:836)]: Calling exit\n    Temperature\n")
    )
    assert found.snapshot.values == values(SAMPLES["nvidia_smi_q"])
    assert found.not_understood == 3


def test_law_what_nvidia_smi_says_lands_on_declared_keys() -> None:
    declared = keys()
    for fact in FACTS:
        assert f"gpu[].{fact.name}" in declared, fact
    assert len({fact.name for fact in FACTS}) == len(FACTS)


def test_older_drivers_of_nvidia_smi_q() -> None:
    found = values(
        "==============NVSMI LOG==============\n\n"
        "Timestamp                                 : Thu Jun  6 08:39:56 2024\n"
        "Driver Version                            : 535.86.10\n"
        "CUDA Version                              : 12.2\n\n"
        "Attached GPUs                             : 1\n"
        "GPU 00000000:AF:00.0\n"
        "    Product Name                          : Tesla V100-PCIE-16GB\n"
        "    Product Brand                         : Tesla\n"
        "    Product Architecture                  : Volta\n"
        "    Persistence Mode                      : Disabled\n"
        "    MIG Mode\n"
        "        Current                           : N/A\n"
        "        Pending                           : N/A\n"
        "    Minor Number                          : 1\n"
        "    VBIOS Version                         : 88.00.1A.00.03\n"
        "    GPU Virtualization Mode\n"
        "        Virtualization mode               : None\n"
        "    Power Readings\n"
        "        Power Limit                       : 100.00 W\n"
        "        Enforced Power Limit              : 95.00 W\n"
    )
    assert found == {
        "nvml.driver_version": "535.86.10", "nvml.cuda_driver_version": "12.2", "nvml.gpu_count": 1,
        "gpu[0].name": "Tesla V100-PCIE-16GB", "gpu[0].brand": "tesla", "gpu[0].architecture": "volta",
        "gpu[0].persistence_mode": False, "gpu[0].minor_number": 1, "gpu[0].vbios_version": "88.00.1A.00.03",
        "gpu[0].virtualization_mode": "none", "gpu[0].power_limit_watts": 100.0,
        "gpu[0].enforced_power_limit_watts": 95.0,
    }  # fmt: skip


def test_the_table_of_vllm() -> None:
    rows = {
        "Successful requests:": "32", "Failed requests:": "1", "Maximum request concurrency:": "4",
        "Benchmark duration (s):": "12.50", "Total input tokens:": "4096", "Total generated tokens:": "8192",
        "Request throughput (req/s):": "2.56", "Output token throughput (tok/s):": "655.36",
        "Mean TTFT (ms):": "31.10", "Median TTFT (ms):": "30.02",
        "Mean TPOT (ms):": "6.09", "Median TPOT (ms):": "6.01",
        "Acceptance rate (%):": "54.10", "Acceptance length:": "2.62", "Per-position acceptance (%):": "",
        "  Position 0:": "72.60",
    }  # fmt: skip
    lines = [" Serving Benchmark Result ".center(50, "="), *(f"{k:<40} {v:<10}" for k, v in rows.items()), "=" * 50, ""]
    (run,) = read("\n".join(lines)).runs
    assert {m.name: m.value for m in run.metrics} == pytest.approx(
        {"output_tokens_per_second": 655.36, "tpot_seconds": 0.00601, "ttft_seconds": 0.03002, "accept_length": 2.62,
         "step_seconds": 2.62 * 0.00601, "duration_seconds": 12.5}
    )  # fmt: skip
    assert run.request["max_concurrency"] == 4
    assert run.warnings == ("1 requests failed",)
    unset = SAMPLES["serving_table"].replace(
        "Max request concurrency:                 1      ", "Max request concurrency:                 not set"
    )
    assert "max_concurrency" not in read(unset).runs[0].request
