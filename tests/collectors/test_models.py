"""Models by directory and by hub name, and the models that a command line names."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from envsnap import cache
from envsnap.capture import capture
from envsnap.collectors import models
from envsnap.collectors._model_names import Named, named_in
from envsnap.host import LiveHost
from envsnap.keys import instances_of, path_of
from envsnap.reading import Unavailable, Why
from envsnap.scope import Scope
from envsnap.snapshot import Section, load
from envsnap.snapshot import write as write_snapshot
from tests.collectors.environments import section_of
from tests.fakes import FakeHost
from tests.processes import Spawn

REVISION = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "draft_vocab_size": 32000,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 16, 29]},
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def section(*named: str) -> Section:
    return section_of("models", Scope(models=named, cache=False))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "kimi-draft"
    write(folder / "config.json", CONFIG)
    write(folder / "generation_config.json", {"temperature": 0.6, "top_p": 0.95})
    write(folder / "tokenizer.json", "tokens")
    write(folder / "tokenizer_config.json", {"chat_template": "{{ messages }}", "model_max_length": 1e30})
    write(folder / "configuration_deepseek.py", "import torch")
    write(folder / "model.safetensors.index.json", {"weight_map": {}})
    write(folder / "model-00001-of-00002.safetensors", "12345")
    write(folder / "model-00002-of-00002.safetensors", "123")
    write(folder / "README.md", "nothing")
    return folder


def test_a_directory(model: Path) -> None:
    found = section(str(model)).values
    base = "model[kimi-draft]"
    assert found[f"{base}.path"] == str(model)
    assert found[f"{base}.config"] == CONFIG
    assert found[f"{base}.generation_config"] == {"temperature": 0.6, "top_p": 0.95}
    assert found[f"{base}.chat_template_sha256"] == sha256("{{ messages }}")
    assert found[f"{base}.file[tokenizer.json].sha256"] == sha256("tokens")
    assert found[f"{base}.file[configuration_deepseek.py].sha256"] == sha256("import torch")
    assert found[f"{base}.index_sha256"] == sha256('{"weight_map": {}}')
    assert found[f"{base}.weights"] == {"model-00001-of-00002.safetensors": 5, "model-00002-of-00002.safetensors": 3}
    assert found[f"{base}.weights_bytes"] == 8
    assert f"{base}.revision" not in found
    assert not [path for path in found if "README" in path]


def hub(root: Path, name: str, revision: str = REVISION, main: str | None = REVISION) -> Path:
    """A model as huggingface_hub lays it out: links from the snapshot into a store of blobs."""
    folder = root / f"models--{name.replace('/', '--')}"
    for file, content in (("config.json", CONFIG), ("model.safetensors", "weights"), ("tokenizer.json", "tokens")):
        blob = write(folder / "blobs" / sha256(file), content)
        link = folder / "snapshots" / revision / file
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"../../blobs/{blob.name}")
    if main is not None:
        write(folder / "refs/main", main)
    return folder / "snapshots" / revision


def test_a_name_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = hub(tmp_path, "moonshotai/Kimi-K2.5")
    hub(tmp_path, "moonshotai/Kimi-K2.5", "f" * 40)
    found = section("moonshotai/Kimi-K2.5").values
    assert found["model[moonshotai/Kimi-K2.5].revision"] == REVISION
    assert found["model[moonshotai/Kimi-K2.5].path"] == str(folder)
    assert found["model[moonshotai/Kimi-K2.5].config"] == CONFIG
    assert found["model[moonshotai/Kimi-K2.5].weights"] == {"model.safetensors": 7}


def test_the_hub_is_where_the_variables_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    hub(tmp_path / "hf/hub", "gpt2")
    assert section("gpt2").values["model[gpt2].revision"] == REVISION


def test_a_snapshot_by_its_directory_keeps_its_name_and_revision(tmp_path: Path) -> None:
    folder = hub(tmp_path, "org/name")
    found = section(f"{folder}/").values
    assert found["model[org/name].revision"] == REVISION
    assert found["model[org/name].path"] == str(folder)


def test_a_download_into_a_directory_left_its_revision(model: Path) -> None:
    write(model / ".cache/huggingface/download/config.json.metadata", f"{REVISION}\netag\n1700000000.0\n")
    assert section(str(model)).values["model[kimi-draft].revision"] == REVISION


@pytest.mark.parametrize(
    ("main", "others", "revision"),
    [(None, (), REVISION), ("e" * 40, (), None), (None, ("f" * 40,), None), ("../../../etc", (), None)],
    ids=["single", "other", "several", "escape"],
)
def test_without_a_current_revision_only_a_single_one_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, main: str | None, others: tuple[str, ...], revision: str | None
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    for other in others:
        hub(tmp_path, "org/name", other, main)
    hub(tmp_path, "org/name", REVISION, main)
    found = section("org/name")
    assert found.values.get("model[org/name].revision") == revision
    if revision is None:
        assert found.unavailable["model[org/name]"].why is Why.ABSENT
        assert "revision" in found.unavailable["model[org/name]"].detail


@pytest.mark.parametrize("name", ["org/absent", "/no/such/folder", "no such name", "../..\n/x", ""])
def test_a_model_that_is_not_there_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.chdir(write(tmp_path / "empty/x", "").parent)
    host = LiveHost()
    found = dict(models.collect(host, Scope(models=(name,), cache=False)))
    (reading,) = found.values()
    assert isinstance(reading, Unavailable)
    assert reading.why is Why.ABSENT


def test_two_directories_of_one_name_stand_apart(tmp_path: Path) -> None:
    for place in ("a", "b"):
        write(tmp_path / place / "model/config.json", {"place": place})
    found = section(f"{tmp_path}/a/model", f"{tmp_path}/b/model").values
    assert found["model[model].config"] == {"place": "a"}
    assert found[f"model[{tmp_path}/b/model].config"] == {"place": "b"}


def test_a_lost_blob_is_no_small_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = hub(tmp_path, "org/name")
    (folder / "model.safetensors").resolve().unlink()
    found = section("org/name")
    assert found.unavailable["model[org/name].weights"].why is Why.ABSENT
    assert found.unavailable["model[org/name].weights_bytes"].why is Why.ABSENT


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", Why.NOT_SUPPORTED),
        ("[1]", Why.NOT_SUPPORTED),
        ("\udcff", Why.NOT_SUPPORTED),
        ('{"a":' * 30 + "1" + "}" * 30, Why.TOO_LARGE),
        ("[" * 200_000, Why.NOT_SUPPORTED),
        ('{"a": "' + "x" * (1 << 20) + '"}', Why.TOO_LARGE),
    ],
    ids=["cut", "list", "bytes", "deep", "deeper", "large"],
)
def test_a_bad_configuration_costs_itself_alone(model: Path, text: str, why: Why) -> None:
    (model / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    found = section(str(model))
    assert found.unavailable["model[kimi-draft].config"].why is why
    assert found.values["model[kimi-draft].weights_bytes"] == 8


def test_infinity_in_a_configuration_survives_the_file(model: Path, tmp_path: Path) -> None:
    write(model / "config.json", '{"time_step_limit": [0.0, Infinity], "x": NaN, "y": 1e999}')
    write_snapshot(capture(Scope(models=(str(model),), cache=False), LiveHost(), only=["models"]), tmp_path / "s.json")
    assert load(tmp_path / "s.json").values["model[kimi-draft].config"] == {
        "time_step_limit": [0.0, "Infinity"],
        "x": "NaN",
        "y": "1e999",
    }


def test_the_template_is_the_first_that_transformers_would_take(model: Path) -> None:
    def template() -> Any:
        return section(str(model)).values.get("model[kimi-draft].chat_template_sha256")

    write(model / "chat_template.json", {"chat_template": "from json"})
    assert template() == sha256("from json")
    write(model / "chat_template.jinja", "from jinja")
    assert template() == sha256("from jinja")
    (model / "chat_template.jinja").unlink()
    (model / "chat_template.json").unlink()
    write(model / "tokenizer_config.json", {"chat_template": [{"name": "default", "template": "x"}]})
    several = template()
    write(model / "tokenizer_config.json", {"chat_template": [{"template": "x", "name": "default"}]})
    assert template() == several
    write(model / "tokenizer_config.json", {})
    assert template() is None


@pytest.mark.parametrize("name", ["hf_quant_config.json", "quantize_config.json"])
def test_a_quantization_with_a_file_of_its_own(model: Path, name: str) -> None:
    write(model / name, {"quantization": {"quant_algo": "NVFP4"}})
    assert section(str(model)).values["model[kimi-draft].quantization"] == {"quantization": {"quant_algo": "NVFP4"}}


def test_a_large_tokenizer_is_hashed_once(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SETTLED_SECONDS", -1.0)

    class Counting(LiveHost):
        hashed = 0

        def ask(self, requests: Any) -> Any:
            self.hashed += sum(r[0] == "hash" for r in requests)
            return super().ask(requests)

    def hashed() -> tuple[str, int]:
        host = Counting()
        found = section_of("models", Scope(models=(str(model),)), host).values
        return found["model[kimi-draft].file[tokenizer.json].sha256"], host.hashed

    assert hashed() == (sha256("tokens"), 4)
    assert hashed() == (sha256("tokens"), 0)
    write(model / "tokenizer.json", "other tokens")
    assert hashed() == (sha256("other tokens"), 1)


def test_a_directory_that_may_not_be_listed() -> None:
    replies: dict[tuple[Any, ...], Any] = {("self",): LiveHost().self(), ("environ",): {"HOME": "/root"}}
    replies[("stat", "/m/secret")] = {"type": "dir"}
    host = FakeHost({"/m/open/config.json": "{}", "/m/secret/x": ""}, replies=replies, denied=["/m/secret"])
    found = section_of("models", Scope(models=("/m/secret", "/m/open")), host)
    assert found.unavailable["model[secret]"].why is Why.DENIED
    assert found.values["model[open].config"] == {}


WAITS = "import sys; print(flush=True); sys.stdin.read()"


def running(spawn: Spawn, *arguments: object, **options: Any) -> int:
    """The pid of a program with these arguments that has begun to run."""
    process = spawn([sys.executable, "-c", WAITS, *arguments], stdin=PIPE, stdout=PIPE, **options)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process.pid


def of_process(pid: int, *named: str) -> Section:
    return section_of("models", Scope(pids=(pid,), models=named, cache=False))


def test_what_a_running_server_names_is_found_from_where_it_stands(model: Path, spawn: Spawn) -> None:
    pid = running(spawn, "--model-path", model.name, cwd=model.parent)
    found = of_process(pid, str(model))
    assert found.values["model[kimi-draft].config"] == CONFIG
    assert {instances_of(path)[0] for path in found.values} == {"kimi-draft"}
    assert not found.unavailable


def test_a_server_with_a_pinned_revision_runs_that_one(tmp_path: Path, spawn: Spawn) -> None:
    hub(tmp_path, "org/name")
    hub(tmp_path, "org/name", "f" * 40)  # main is the other one
    write(tmp_path / "models--org--name/refs/v2", "f" * 40)
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path)}
    for revision in ("f" * 40, "v2"):
        pid = running(spawn, "--model-path", "org/name", "--revision", revision, env=environment)
        assert of_process(pid).values["model[org/name].revision"] == "f" * 40
    pid = running(spawn, "--model-path", "org/name", "--revision", "e" * 40, env=environment)
    assert f"not revision {'e' * 40}" in of_process(pid).unavailable[f"model[org/name@{'e' * 40}]"].detail
    pid = running(spawn, "--model-path", "org/name", env=environment)
    assert of_process(pid).values["model[org/name].revision"] == REVISION


def test_each_process_finds_its_models_where_its_own_environment_says(tmp_path: Path, spawn: Spawn) -> None:
    pids = []
    for place, revision in (("one", REVISION), ("two", "f" * 40)):
        hub(tmp_path / place, "org/name", revision, revision)
        # A relative place, which counts from where the process stands.
        environment = {**os.environ, "HF_HUB_CACHE": place}
        pids.append(running(spawn, "--model-path", "org/name", cwd=tmp_path, env=environment))
    scope = Scope(pids=tuple(pids), cache=False, python=sys.executable)
    found = section_of("models", scope).values
    assert {v for path, v in found.items() if path.endswith(".revision")} == {REVISION, "f" * 40}
    assert found["model[org/name].revision"] == REVISION


@pytest.mark.parametrize("what", ["environ", "cwd", "ns/mnt"])
def test_a_process_that_may_not_be_looked_into_has_no_model_by_guess(model: Path, spawn: Spawn, what: str) -> None:
    """Its directory, its environment and its mounts say which files it means: none of them is taken from here."""

    class Denies(LiveHost):
        def ask(self, requests: Any) -> Any:
            answers = super().ask(requests)
            hidden = [any(str(part) == f"/proc/{pid}/{what}" for part in r) for r in requests]
            return [["missing", "denied", "Permission denied"] if no else a for no, a in zip(hidden, answers)]

    pid = running(spawn, "--model-path", model, cwd=model.parent)
    found = section_of("models", Scope(pids=(pid,), cache=False), Denies())
    assert not found.values
    assert found.unavailable[f"model[{model}]"].why is Why.DENIED
    named = section_of("models", Scope(pids=(pid,), models=(str(model),), cache=False), Denies())
    assert named.values["model[kimi-draft].config"] == CONFIG


def test_files_of_another_mount_namespace_are_not_read_from_here(model: Path, spawn: Spawn) -> None:
    class Elsewhere(LiveHost):
        def ask(self, requests: Any) -> Any:
            moved = [["ok", "mnt:[1]"] if r == ["link", f"/proc/{inside}/ns/mnt"] else None for r in requests]
            return [new or a for new, a in zip(moved, super().ask(requests))]

    outside = running(spawn, "--model-path", model)
    inside = running(spawn, "--model-path", model.name, cwd=model.parent)
    for pids in ((outside, inside), (inside, outside)):
        found = section_of("models", Scope(pids=pids, cache=False), Elsewhere())
        assert found.values["model[kimi-draft].config"] == CONFIG
        place = path_of("model[]", "kimi-draft, of another process")
        assert "mount namespace" in found.unavailable[place].detail


def test_processes_that_cannot_be_listed_leave_the_models_unknown() -> None:
    found = capture(Scope(pids=(1,)), FakeHost(), only=["models"]).sections["models"]
    assert found.status == "unavailable"
    assert not found.complete


@pytest.mark.parametrize("given", ["https://user:hunter2pass@host/x", "s3://AKIA:hunter2pass@bucket/m"])
def test_an_address_is_no_path_and_keeps_no_password(spawn: Spawn, tmp_path: Path, given: str) -> None:
    pid = running(spawn, "--model-path", given, cwd=tmp_path)
    write_snapshot(capture(Scope(pids=(pid,), models=(given,), cache=False), only=["models"]), tmp_path / "s.json")
    text = (tmp_path / "s.json").read_text()
    assert "hunter2" not in text
    assert "from which the engine loads it by itself" in text


def test_a_model_that_is_one_file(tmp_path: Path) -> None:
    write(tmp_path / "tiny.gguf", "12345")
    found = section(str(tmp_path / "tiny.gguf")).values
    assert found["model[tiny.gguf].path"] == str(tmp_path / "tiny.gguf")
    assert found["model[tiny.gguf].weights"] == {"tiny.gguf": 5}
    assert found["model[tiny.gguf].weights_bytes"] == 5


def test_a_link_to_a_snapshot_keeps_its_revision(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(hub(tmp_path, "org/name"))
    found = section(str(tmp_path / "link")).values
    assert found["model[org/name].revision"] == REVISION
    assert found["model[org/name].path"] == str(tmp_path / "link")


@pytest.mark.parametrize("given", ["a" + "@" * 5000, "@", "@x", "/"])
def test_odd_names_are_no_trouble(given: str, tmp_path: Path) -> None:
    taken = capture(Scope(models=(given,), cache=False), only=["models"])
    write_snapshot(taken, tmp_path / "s.json")
    found = load(tmp_path / "s.json").sections["models"]
    assert not found.errors
    assert found.values.get("model[/].path", given) == given


def test_what_is_no_file_is_no_weight(model: Path) -> None:
    os.mkfifo(model / "model-00003-of-00003.safetensors")
    assert "model[kimi-draft].weights_bytes" in section(str(model)).unavailable


def test_two_revisions_of_one_name_stand_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    hub(tmp_path, "org/name")
    other = hub(tmp_path, "org/name", "f" * 40)
    found = section("org/name", f"org/name@{'f' * 40}", f"org/name@{REVISION}").values
    assert found["model[org/name].revision"] == REVISION
    assert {v for path, v in found.items() if path.endswith(".revision")} == {REVISION, "f" * 40}
    assert [path for path, v in found.items() if path.endswith(".path") and v == str(other)]
    assert sum(path.endswith(".path") for path in found) == 2


@pytest.mark.parametrize("given", ["{}@main", "{}"])
def test_a_directory_has_no_revision_and_may_have_an_at_in_its_name(model: Path, given: str) -> None:
    named = model.rename(model.with_name("kimi@home"))
    assert section(given.format(named)).values["model[kimi@home].config"] == CONFIG


def test_what_a_title_has_covered_is_unknown(model: Path, spawn: Spawn) -> None:
    pytest.importorskip("setproctitle")
    program = f"import setproctitle, os; setproctitle.setproctitle('engine'); print(os.getpid(), flush=True); {WAITS}"
    shell = f"{shlex.join([sys.executable, '-c', program, '--model-path', '/m'])}; :"
    process = spawn(["sh", "-c", shell], stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    found = section_of_titled(Scope(pids=(pid,), python=sys.executable))
    assert found.status == "unavailable"
    assert "title covers the command line" in found.reason
    assert section_of_titled(Scope(pids=(pid,), models=(str(model),), python=sys.executable)).complete


def section_of_titled(scope: Scope) -> Section:
    return capture(scope, LiveHost(), only=["models"]).sections["models"]


def test_a_launcher_names_the_models_of_a_worker_with_a_title(model: Path, spawn: Spawn) -> None:
    """As with --match of the workers' title: the server's own command line is above them."""
    pytest.importorskip("setproctitle")
    titled = f"import setproctitle; setproctitle.setproctitle('sglang::scheduler_TP0'); {WAITS}"
    starts = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {titled!r}]).pid, flush=True)"
    process = spawn([sys.executable, "-c", f"{starts}; {WAITS}", "--model-path", model], stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    process.stdout.readline(), process.stdout.readline()
    assert section_of_titled(Scope(pids=(worker,))).values["model[kimi-draft].config"] == CONFIG


def test_what_may_not_be_looked_at_is_not_absent() -> None:
    denied = ["missing", "denied", "Permission denied"]

    class Denies(FakeHost):
        def ask(self, requests: Any) -> Any:
            return [denied if r[0] in ("stat", "list") else a for r, a in zip(requests, super().ask(requests))]

    replies: dict[tuple[Any, ...], Any] = {("self",): LiveHost().self(), ("environ",): {"HOME": "/root"}}
    found = section_of("models", Scope(models=("/m/secret", "org/name")), Denies({}, replies=replies))
    assert {found.unavailable[f"model[{name}]"].why for name in ("/m/secret", "org/name")} == {Why.DENIED}


def test_nothing_named_is_nothing_found() -> None:
    assert section().values == {}
    assert section().complete


def test_the_empty_machine_has_no_model() -> None:
    found = capture(Scope(models=("org/name",)), FakeHost(), only=["models"]).sections["models"]
    assert found.errors == {}
    assert found.values == {}


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("python -m sglang.launch_server --model-path a/b --tp 8", [("--model-path", "a/b")]),
        ("python -m sglang.launch_server --model-path=a/b", [("--model-path", "a/b")]),
        (
            "python -m sglang.launch_server --model a --speculative-draft-model-path d --tokenizer-path t",
            [("--model", "a"), ("--speculative-draft-model-path", "d"), ("--tokenizer-path", "t")],
        ),
        ("/venv/bin/vllm serve a/b --port 80", [("serve", "a/b")]),
        ("vllm serve --model a/b", [("--model", "a/b")]),
        ("sglang serve --model-path a/b", [("--model-path", "a/b")]),
        ("python -m vllm.entrypoints.openai.api_server --speculative_model d", [("--speculative-model", "d")]),
        ("nginx serve a/b", []),
        ("vllm serve", []),
        ("x --model", []),
        ("x --model --tp 8", []),
        ("x --model=", []),
        ("x --model-loader-extra-config y --modelx z", []),
        ("x --model a --model b", [("--model", "b")]),
        ("vllm serve a --speculative-model [ngram]", [("serve", "a")]),
        ("", []),
    ],
)
def test_models_that_a_command_line_names(command: str, named: list[tuple[str, str]]) -> None:
    assert named_in(command.split()) == [Named(*pair) for pair in named]


@pytest.mark.parametrize(
    ("command", "revisions"),
    [
        ("sglang serve --model-path a --revision r --speculative-draft-model-path d", ["r", ""]),
        ("sglang serve --model a --speculative_draft_model_revision=s --speculative-draft-model-path d", ["", "s"]),
        ("vllm serve a --revision r --tokenizer t --tokenizer-revision u", ["r", "u"]),
        ("vllm serve a --tokenizer t --revision r", ["r", "r"]),
        ("vllm serve a --speculative-config.model d --speculative-config.revision r", ["", "r"]),
        ("sglang serve --model-path a --tokenizer-path t --revision r", ["r", "r"]),
        ("vllm serve a --revision --port 80", [""]),
    ],
)
def test_each_models_revision_is_its_own(command: str, revisions: list[str]) -> None:
    assert [named.revision for named in named_in(command.split())] == revisions


def test_vllms_speculative_json_names_a_model() -> None:
    argv = ["vllm", "serve", "a", "--speculative-config", '{"method": "eagle3", "model": "org/draft"}']
    assert named_in(argv) == [Named("serve", "a"), Named("--speculative-config", "org/draft")]
    assert named_in(["-sc=" + '{"model": "d", "revision": "r"}']) == [Named("-sc", "d", "r")]
    for bad in ("{", "[]", '{"model": 7}', "[" * 100_000):
        assert named_in(["--speculative-config", bad]) == []
