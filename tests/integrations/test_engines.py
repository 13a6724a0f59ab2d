"""The real plug-in protocol of SGLang on a stand-in for the engine: entry points, hooks, a spawned scheduler."""

from __future__ import annotations

import subprocess
import sys
from configparser import ConfigParser
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envsnap.integrations import sglang
from tests.integrations.recording import QUICK, ROOT, environment, records, run

FILES = {
    "sglang/__init__.py": "__version__ = '9.9.9'\n",
    "sglang/srt/__init__.py": "",
    "sglang/srt/managers/__init__.py": "",
    # What matters of sglang/srt/plugins: discovery by entry points, once in a process; hooks put on by name.
    "sglang/srt/plugins/__init__.py": """
from importlib.metadata import entry_points
from sglang.srt.plugins.hook_registry import HookRegistry

def load_plugins():
    for point in entry_points(group="sglang.srt.plugins"):
        point.load()()
    HookRegistry.apply_hooks()
""",
    "sglang/srt/plugins/hook_registry.py": """
import enum, functools, pkgutil

class HookType(enum.Enum):
    BEFORE = "before"

class HookRegistry:
    hooks = []

    @classmethod
    def register(cls, target, hook, hook_type):
        cls.hooks.append((target, hook))

    @classmethod
    def apply_hooks(cls):
        for target, hook in cls.hooks:
            path, name = target.rsplit(".", 1)
            kind = pkgutil.resolve_name(path)
            setattr(kind, name, wrap(getattr(kind, name), hook))

def wrap(original, hook):
    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        result = hook(*args, **kwargs)
        if result is not None:
            args, kwargs = result
        return original(*args, **kwargs)
    return wrapper
""",
    "sglang/srt/managers/scheduler.py": """
import os, time
from sglang.srt.plugins import load_plugins

class ServerArgs:
    def __init__(self):
        self.attention_backend = "fa3"
        self.api_key = "sk-0123456789abcdefghijklmn"
        self._resolved_overrides = [("_attention_default", {"attention_backend": "fa3"})]

class Scheduler:
    def __init__(self, rank):
        self.tp_rank = rank
        self.server_args = ServerArgs()

    def run_event_loop(self):
        serve()

def serve():
    time.sleep(float(os.environ["SERVE"]))

def run_scheduler_process(rank):
    load_plugins()
    os.environ["SET_AFTER_PLUGINS"] = str(rank)
    Scheduler(rank).run_event_loop()
""",
    "launch.py": """
import multiprocessing, sys
from sglang.srt.plugins import load_plugins

if __name__ == "__main__":
    load_plugins()
    assert "sglang.srt.managers.scheduler" not in sys.modules, "a hook made the launcher import the scheduler"
    from sglang.srt.managers.scheduler import run_scheduler_process
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=run_scheduler_process, args=(rank,)) for rank in range(2)]
    [rank.start() for rank in ranks]
    [rank.join() for rank in ranks]
    print([rank.exitcode for rank in ranks])
""",
}


def entry_point(folder: Path) -> None:
    """Make a directory for PYTHONPATH with envsnap's own entry point, as setup.cfg declares it."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    declared = config["options.entry_points"]["sglang.srt.plugins"].strip()
    info = folder / "envsnap_stub-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: envsnap-stub\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[sglang.srt.plugins]\n{declared}\n")


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A directory for PYTHONPATH with the stand-in and the entry point."""
    for name, text in FILES.items():
        (tmp_path / "engine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "engine" / name).write_text(text)
    entry_point(tmp_path / "engine")
    return tmp_path / "engine"


def launch(engine: Path, **env: str) -> subprocess.CompletedProcess[str]:
    base = environment(SERVE="0.6", **env) | {"PYTHONPATH": f"{engine}:{ROOT}"}
    return run(str(engine / "launch.py"), base)


def test_each_rank_records_itself_when_it_is_ready(engine: Path, tmp_path: Path) -> None:
    # The settle time is long past when the hook is called: it must not have stood in for it.
    done = launch(engine, ENVSNAP_RECORD=str(tmp_path / "records"), **QUICK)
    assert (done.stdout, done.stderr) == ("[0, 0]\n", "")
    ranks = [r for r in records(tmp_path / "records") if r["engine"]]
    assert sorted(r["engine"]["ranks"]["tp_rank"] for r in ranks) == [0, 1]
    for record in ranks:
        assert record["ready_by"] == "sglang"
        assert record["environment"]["values"]["SET_AFTER_PLUGINS"] == str(record["engine"]["ranks"]["tp_rank"])
        assert record["engine"]["version"] == "9.9.9"
        assert record["engine"]["server_args"]["attention_backend"] == "fa3"
        assert record["engine"]["resolved_by"] == {"attention_backend": "_attention_default"}
        assert record["engine"]["server_args"]["api_key"].startswith("<redacted ")
        assert record["failed"] == {}
    assert len(records(tmp_path / "records")) == 3  # and the launcher


def test_without_the_variable_the_plug_in_loads_nothing(engine: Path) -> None:
    code = """
import sys, threading
from sglang.srt.plugins import load_plugins
load_plugins()
from sglang.srt.plugins.hook_registry import HookRegistry
print(sorted(m for m in sys.modules if m.startswith("envsnap")), HookRegistry.hooks, threading.active_count())
"""
    done = run(code, environment() | {"PYTHONPATH": f"{engine}:{ROOT}"})
    assert (done.stdout, done.stderr) == (
        "['envsnap', 'envsnap.integrations', 'envsnap.integrations.engines'] [] 1\n",
        "",
    )


def test_with_both_ways_in_there_is_one_record_and_one_thread(engine: Path, tmp_path: Path) -> None:
    code = """
import threading, time
from sglang.srt.plugins import load_plugins
from envsnap.integrations.engines import vllm
load_plugins()
vllm()
print([thread.name for thread in threading.enumerate()])
time.sleep(0.5)
"""
    done = run(code, environment(f"{engine}:{ROOT}", ENVSNAP_RECORD=str(tmp_path / "records"), **QUICK))
    assert (done.stdout, done.stderr) == ("['MainThread', 'envsnap-record']\n", "")
    assert len(records(tmp_path / "records")) == 1


def test_a_hook_registry_that_has_changed_costs_the_hook_and_not_the_engine(engine: Path, tmp_path: Path) -> None:
    (engine / "sglang/srt/plugins/hook_registry.py").write_text("class HookRegistry:\n    apply_hooks = lambda: None\n")
    done = launch(engine, ENVSNAP_RECORD=str(tmp_path / "records"), **QUICK)
    assert (done.stdout, done.stderr) == ("[0, 0]\n", "")
    assert {r["ready_by"] for r in records(tmp_path / "records")} == {"settle"}


# -- what the scheduler knows, in the shapes of two versions ------------------------------------------------------


def scheduler(**attributes: Any) -> SimpleNamespace:
    return SimpleNamespace(**attributes)


def test_version_0_5_16() -> None:
    @dataclass
    class Graphs:
        max_bs: int = 4

    @dataclass
    class ServerArgs:
        page_size: int = 1
        disable_chunked_prefix_cache: bool = True
        handler: Any = None
        graphs: Graphs = field(default_factory=Graphs)

    arguments: Any = ServerArgs(handler=print)
    arguments.model_config = object()
    arguments._resolved_overrides = [("_page_size_default", {"page_size": 1})]
    arguments._runtime_mutations = [("model_runner.gate", {"disable_chunked_prefix_cache": True})]
    decode, draft = SimpleNamespace(capture_bs=[4, 1, 2]), SimpleNamespace(capture_bs=[1])
    found = sglang.facts(
        scheduler(
            server_args=arguments,
            ps=SimpleNamespace(tp_rank=1, gpu_id=1, pp_rank=0),
            tp_worker=SimpleNamespace(model_runner=SimpleNamespace(decode_cuda_graph_runner=decode)),
            draft_worker=SimpleNamespace(draft_worker=SimpleNamespace(cuda_graph_runner=draft)),
        )
    )
    assert found["server_args"] == {
        "page_size": 1, "disable_chunked_prefix_cache": True, "handler": "<builtin_function_or_method>",
        "graphs": {"max_bs": 4},
    }  # fmt: skip
    assert found["resolved_by"] == {
        "page_size": "_page_size_default",
        "disable_chunked_prefix_cache": "model_runner.gate",
    }
    assert found["ranks"] == {"tp_rank": 1, "gpu_id": 1, "pp_rank": 0}
    assert found["graph_batch_sizes"] == {"decode": [1, 2, 4], "draft": [1]}
    assert found["typed_args"] is None


def test_version_0_5_23(monkeypatch: pytest.MonkeyPatch) -> None:
    class Parallel:
        tp_rank = 3

        @property
        def pp_rank(self) -> int:
            raise AssertionError("pipeline parallel group is not initialized")

    context = SimpleNamespace(
        resolved_server_args_dict=lambda: {"attention_backend": "fa3", "dtype": "float16"},
        overrides_log=lambda: [("model_runner.dtype", {"dtype": "float16"})],
    )
    runtime = SimpleNamespace(get_context=lambda: context, get_parallel=Parallel)
    monkeypatch.setitem(sys.modules, "sglang.srt.runtime_context", runtime)
    arguments = SimpleNamespace(
        attention_backend=None, _raw_input={"attention_backend": None, "dtype": "auto"},
        _resolved_overrides=[("attention_default", {"attention_backend": "fa3"})],
        _launch_command="sglang serve --tp 4",
    )  # fmt: skip
    found = sglang.facts(scheduler(server_args=arguments))
    assert found["server_args"] == {"attention_backend": "fa3", "dtype": "float16"}
    assert found["typed_args"] == {"attention_backend": None, "dtype": "auto"}
    assert found["resolved_by"] == {"attention_backend": "attention_default", "dtype": "model_runner.dtype"}
    assert found["launch_command"] == "sglang serve --tp 4"
    assert found["ranks"] == {"tp_rank": 3}


def test_a_scheduler_of_which_nothing_is_known() -> None:
    assert sglang.facts(object())["ranks"] == {}
    assert sglang.facts(None)["graph_batch_sizes"] == {}
