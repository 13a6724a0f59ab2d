"""Models by directory and by hub name, and the models that a command line names."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from envsnap import cache
from envsnap.capture import capture
from envsnap.collectors import models
from envsnap.collectors.models import named_in
from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Why
from envsnap.scope import Scope
from envsnap.snapshot import Section, load
from envsnap.snapshot import write as write_snapshot
from tests.collectors.environments import section_of
from tests.fakes import FakeHost

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
    write(model / "config.json", '{"time_step_limit": [0.0, Infinity], "x": NaN}')
    write_snapshot(capture(Scope(models=(str(model),), cache=False), LiveHost(), only=["models"]), tmp_path / "s.json")
    assert load(tmp_path / "s.json").values["model[kimi-draft].config"] == {
        "time_step_limit": [0.0, "Infinity"],
        "x": "NaN",
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
        ("x --model a --model a", [("--model", "a")]),
        ("", []),
    ],
)
def test_models_that_a_command_line_names(command: str, named: list[tuple[str, str]]) -> None:
    assert named_in(command.split()) == named


def test_vllms_speculative_json_names_a_model() -> None:
    argv = ["vllm", "serve", "a", "--speculative-config", '{"method": "eagle3", "model": "org/draft"}']
    assert named_in(argv) == [("serve", "a"), ("--speculative-config", "org/draft")]
    assert named_in(["--speculative-config=" + '{"model": "d"}']) == [("--speculative-config", "d")]
    for bad in ("{", "[]", '{"model": 7}', "[" * 100_000):
        assert named_in(["--speculative-config", bad]) == []
