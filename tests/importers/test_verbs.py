"""Dumps in the verbs: `import` itself, and diff, explain, show and check that take them as they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from envsnap.check.finding import Status
from envsnap.cli import main
from envsnap.cli._sides import load_side
from envsnap.diff import diff
from envsnap.explain import explain
from envsnap.importers._assembly import IMPORTED
from envsnap.jsonfile import SnapshotError
from envsnap.reading import Unknown
from envsnap.runs.run import load as load_run
from envsnap.runs.verdict import Outcome
from envsnap.schema import violations
from envsnap.snapshot import load
from tests.importers.samples import DATA, SAMPLES, SLOW, read

SECRETS = ("hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "sk-1234567890abcdefghijklmnop")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the dumps as files."""
    for name, text in SAMPLES.items():
        (tmp_path / f"{name}.txt").write_text(text)
    shutil.copy(DATA / "reports/fast.md", tmp_path)
    shutil.copy(DATA / "reports/slow.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    return code, *capsys.readouterr()


# -- two pasted reports -----------------------------------------------------------------------------------------------


def test_two_pasted_reports_give_a_ranked_answer(folder: Path) -> None:
    fast, slow = load_side("fast.md"), load_side("slow.md")
    found = explain(slow, fast)
    assert found.fast == "b"
    assert found.symptom.outcome is Outcome.UNKNOWN, "each was measured once"
    assert found.symptom.share("step_time") == pytest.approx(1, abs=0.02)
    first = found.suspects[0]
    assert first.title == "CUDA graphs of the server"
    assert first.probability > 0.6
    changed = {change.path for change in first.changes}
    assert "server[0].argument[disable_cuda_graph]" in changed
    others = {change.path for suspect in found.suspects[1:] for change in suspect.changes}
    assert {"nvml.driver_version", "package[flashinfer-python].version"} <= others


def test_what_a_report_lacks_is_not_known_and_never_a_difference(folder: Path) -> None:
    a, b = load_side("fast.md").snapshot, load_side("slow.md").snapshot
    assert b.values["nccl.rank[0].set[NCCL_PROTO]"] == "Simple"
    assert isinstance(a.reading("nccl.rank[0].set[NCCL_PROTO]"), Unknown)
    found = diff(a, b)
    assert not any(change.path.startswith(("nccl.", "env[")) for change in found.changes)
    assert {entry.path for entry in found.not_compared} >= {"nccl", "environ", "server"}
    assert not any("scope" in note for note in found.notes)


def test_the_verbs_take_reports_as_they_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "explain", "fast.md", "slow.md")
    assert code == 0
    assert "Likeliest cause: CUDA graphs of the server" in out
    code, out, _ = said(capsys, "diff", "fast.md", "slow.md")
    assert code == 1
    assert "580.159.04 → 570.133.20" in out
    assert "partial" in out
    code, out, _ = said(capsys, "show", "slow.md", "nvml")
    assert code == 0
    assert "570.133.20" in out
    code, out, _ = said(capsys, "check", "slow.md", "--baseline", "fast.md", "--format", "json")
    assert code == 1
    assert not [
        finding
        for finding in json.loads(out)["findings"]
        if finding["status"] == Status.PASS.value and "nccl" in str(finding)
    ]


def test_a_log_of_last_month_against_a_captured_machine(folder: Path) -> None:
    machine = load(DATA.parent / "machines/h200x2/snapshot.json")
    dump = load_side("nvidia_smi_q.txt").snapshot
    found = diff(dump, machine)
    assert {change.path.partition("].")[2] for change in found.changes} == {"board_part_number"}
    assert found.equal > 90


# -- import -----------------------------------------------------------------------------------------------------------


def test_import_says_what_it_read_and_what_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, "import", "slow.md")
    assert code == 0, err
    assert "slow.md:95-118  nvidia-smi (its table) 570.133.20" in out
    assert "4 of 172 lines not understood" in out
    assert "slow.md:1  ### EAGLE-3 is five times slower" in out
    assert "run 1 of 1  output_tokens_per_second 90.41 tok/s" in out


def test_import_writes_a_snapshot_a_run_or_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "import", "nvidia_smi_q.txt", "nvidia_smi_topo.txt", "-o", "theirs.json")[0] == 0
    snapshot = load("theirs.json")
    assert snapshot.values["gpu[0].name"] == "NVIDIA H200"
    assert [source["kind"] for source in snapshot.scope[IMPORTED]] == ["nvidia_smi_q", "nvidia_smi_topo"]
    assert snapshot.captured_at == "2026-11-29T15:58:16"
    assert violations(snapshot.as_json()) == []
    assert said(capsys, "import", "fast.md", "-o", "theirs.json.gz")[0] == 0
    run = load_run(folder / "theirs.json.gz")
    assert run.metrics[0].value == 471.82
    assert violations(run.as_json()) == []
    assert load_side("theirs.json.gz").runs[0].metrics == load_side("fast.md").runs[0].metrics
    more = json.loads(SAMPLES["benchmark"])
    more["output_throughput"] *= 1.03
    more["median_tpot_ms"] *= 0.97
    (folder / "twice.jsonl").write_text(SAMPLES["benchmark"] + json.dumps(more) + "\n")
    assert said(capsys, "import", "twice.jsonl", "-o", "both")[0] == 0
    assert len(load_side("both").runs) == 2
    assert said(capsys, "import", "twice.jsonl", "-o", "theirs.json")[0] == 2


@pytest.mark.parametrize("sample", [*sorted(SAMPLES), "fast", "slow"])
def test_what_is_made_validates(folder: Path, capsys: pytest.CaptureFixture[str], sample: str) -> None:
    name = f"{sample}.md" if sample in ("fast", "slow") else f"{sample}.txt"
    code, out, err = said(capsys, "import", name, "--format", "json", "-o", "made.json")
    assert code == 0, err
    assert violations(json.loads(out)) == []
    assert violations(json.loads((folder / "made.json").read_text())) == []


def test_the_kinds_are_listed_with_what_was_not_tested(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "import", "--list")
    assert code == 0
    assert "nvidia_smi_q  nvidia-smi -q" in out
    assert "untested: whole dumps of drivers other than 580" in " ".join(out.split())
    code, out, _ = said(capsys, "import", "--list", "--format", "json")
    assert violations(json.loads(out)) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty."),
        ("{", "is not JSON, or is cut short"),
        ('{"format": "envsnap.snapshot", "version": 1', "is not JSON, or is cut short"),
        ('{"a": 1}', "envsnap import --list"),
        ("just some words\n", "envsnap import --list"),
    ],
)
def test_what_is_no_side_is_refused_in_a_sentence(folder: Path, text: str, sentence: str) -> None:
    (folder / "odd.txt").write_text(text)
    with pytest.raises(SnapshotError) as refused:
        load_side("odd.txt")
    assert sentence in str(refused.value)


# -- secrets and disagreement -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["import"], ["import", "--format", "json", "--all"], ["show", "--all"]])
@pytest.mark.parametrize("sample", ["env", "docker_inspect", "vllm_log"])
def test_no_secret_of_a_dump_is_shown_or_written(
    folder: Path, capsys: pytest.CaptureFixture[str], sample: str, arguments: list[str]
) -> None:
    (folder / "dump.txt").write_text(f"{SAMPLES[sample]}my token is {SECRETS[0]}\nexport API_KEY={SECRETS[1]}\n")
    written = ["-o", "made.json"] if arguments[0] == "import" else []
    code, out, err = said(capsys, *arguments[:1], "dump.txt", *arguments[1:], *written)
    assert code == 0
    kept = (folder / "made.json").read_text() if written else ""
    assert "redacted" in out + kept
    for secret in SECRETS:
        assert secret not in out + err + kept


@pytest.mark.parametrize("verb", ["import", "diff", "explain"])
@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_no_secret_in_the_name_of_a_dump_is_shown_or_written(
    folder: Path, capsys: pytest.CaptureFixture[str], verb: str, form: str
) -> None:
    name = "log-password=hunter2hunter2.md"
    (folder / "fast.md").rename(folder / name)
    given = {"import": [name, "-o", "kept.json"], "diff": [name, "slow.md"], "explain": [name, "slow.md"]}[verb]
    if (verb, form) == ("import", "markdown"):
        form = "text"
    code, out, err = said(capsys, verb, *given, "--format", form)
    assert code in (0, 1), err
    assert "log-password=" in out
    kept = [p.read_text() for p in folder.rglob("*") if p.is_file() and p.name != name]
    assert not any("hunter2" in text for text in (out, err, *kept))


@pytest.mark.parametrize("given", [("diff", "", "slow.md"), ("report", "fast.md", ""), ("import", "")])
def test_an_empty_name_is_no_folder(folder: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...]) -> None:
    code, out, err = said(capsys, *given)
    assert (code, out) == (2, "")
    assert "is empty; is a variable of the script unset?" in err


def test_secrets_of_two_dumps_compare(folder: Path) -> None:
    (folder / "other.txt").write_text(SAMPLES["env"].replace(SECRETS[0], SECRETS[0][::-1]).replace("LL", "LL128"))
    found = diff(load_side("env.txt").snapshot, load_side("other.txt").snapshot)
    assert {change.path for change in found.changes} == {"env[HF_TOKEN]", "env[NCCL_PROTO]"}


def test_where_dumps_disagree_neither_is_believed() -> None:
    found = read(SAMPLES["nvidia_smi_q"], SAMPLES["sglang_check_env"].replace("580.159.04", "570.133.20"))
    assert "nvml.driver_version" not in found.snapshot.values
    assert "580.159.04 (nvidia-smi -q)" in found.snapshot.sections["gpu"].errors["nvml.driver_version"]
    assert "570.133.20 (SGLang check_env)" in found.snapshot.sections["gpu"].errors["nvml.driver_version"]


def test_a_result_and_its_table_are_one_run() -> None:
    table = "\n".join(
        ["============ Serving Benchmark Result ============", "Successful requests:                     {completed}",
         "Benchmark duration (s):                  {duration:.2f}",
         "Total generated tokens:                  {total_output_tokens}",
         "Output token throughput (tok/s):         {output_throughput:.2f}",
         "Median TPOT (ms):                        {median_tpot_ms:.2f}",
         "Median E2E Latency (ms):                 {median_e2e_latency_ms:.2f}", "=" * 50, ""]
    )  # fmt: skip
    found = read(SAMPLES["benchmark"], table.format(**json.loads(SAMPLES["benchmark"])))
    assert len(found.runs) == 1
    assert found.runs[0].request["random_input_len"] == 32


def test_other_work_in_the_same_text_is_left_out_and_said() -> None:
    other = SAMPLES["benchmark"].replace('"max_concurrency": 2', '"max_concurrency": 64')
    found = read(other.replace('"output_throughput": ', '"output_throughput": 9') + SAMPLES["benchmark"])
    assert [run.request["max_concurrency"] for run in found.runs] == [2]
    assert any("other requests" in warning for warning in found.runs[0].warnings)


def test_reports_are_read_from_standard_input(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    class Stdin:
        buffer = io.BytesIO(SLOW.encode())

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert load_side("-").runs[0].metrics[0].value == 90.41


def test_what_a_table_does_not_tell_of_the_request_is_not_known(folder: Path) -> None:
    (folder / "table.txt").write_text(SAMPLES["serving_table"])
    found = explain(load_side("table.txt"), load_side("benchmark.txt"))
    assert found.comparison is not None
    assert [sentence for sentence in found.comparison.obstacles if "random_input_len" in sentence] == []
    assert any("max_concurrency was 1 and 2" in sentence for sentence in found.comparison.obstacles)
    assert not any("random_input_len" in c.path for suspect in found.suspects for c in suspect.changes)


def test_a_server_that_did_not_start_is_the_slow_side(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(DATA / "sglang_0.5.16_crash.log", folder / "crash.log")
    found = explain(load_side("crash.log"), load_side("slow.md"))
    assert found.fast == "b"
    assert "deep_gemm" in found.symptom.failure
    code, out, _ = said(capsys, "import", "crash.log")
    assert code == 0
    assert "never_ready: the server did not start: ModuleNotFoundError" in out


def test_what_is_envsnaps_own_is_not_imported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "import", "nvidia_smi_q.txt", "-o", "theirs.json")[0] == 0
    code, _, err = said(capsys, "import", "theirs.json")
    assert code == 2
    assert "theirs.json is envsnap's own: the verbs take it as it is." in err
