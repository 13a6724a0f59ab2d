from __future__ import annotations

import os
from fnmatch import fnmatchcase

import pytest

from envsnap.capture import capture
from envsnap.collectors import environ
from envsnap.collectors._env_rules import ENV_AT
from envsnap.host import LiveHost
from envsnap.keys import Effect, Kind
from envsnap.reading import Error, Value
from envsnap.redact import Redactor, redacted_parts
from envsnap.scope import Scope
from tests.fakes import FakeHost

ENV = environ.KEYS[0]


def _collect(variables: object) -> dict[str, object]:
    return dict(environ.collect(FakeHost(replies={("environ",): variables}), Scope()))


def test_every_variable_as_it_is() -> None:
    found = _collect({"NCCL_ALGO": "Ring", "EMPTY": "", "ODD NAME": "x", "BYTES": "\udcff", "TWO": "a\nb"})
    assert found["env[NCCL_ALGO]"] == Value("Ring")
    assert found["env[EMPTY]"] == Value("")
    assert found['env["ODD NAME"]'] == Value("x")
    assert found["env[BYTES]"] == Value("\udcff")
    assert found["env[TWO]"] == Value("a\nb")
    assert found["environment.count"] == Value(5)
    text = b"NCCL_ALGO=Ring\0EMPTY=\0ODD NAME=x\0BYTES=?\0TWO=a\nb\0"
    assert found["environment.size_bytes"] == Value(len(text))


def test_the_live_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_PROTO", "Simple")
    monkeypatch.setenv("HF_TOKEN", "short")
    monkeypatch.delenv("NCCL_ALGO", raising=False)
    snapshot = capture(host=LiveHost(), only=["environ"], redactor=Redactor())
    section = snapshot.sections["environ"]
    assert section.values["env[NCCL_PROTO]"] == "Simple"
    assert redacted_parts(section.values["env[HF_TOKEN]"])
    assert "env[NCCL_ALGO]" not in section.values
    assert section.complete
    assert section.values["environment.count"] == len(os.environ)


def test_a_large_value_is_its_hash() -> None:
    one, two = (_collect({"BIG": "x" * 65536 + end, "B": "y" * 65536}) for end in ("a", "b"))
    assert one["env[BIG]"] != two["env[BIG]"]
    assert str(one["env[BIG]"]).count("<65537 bytes, sha256 ") == 1
    assert one["env[B]"] == Value("y" * 65536)
    name = next(path for path in _collect({"N" * 300: "x"}) if path.startswith("env["))
    assert len(name) < 100


def test_the_empty_machine_has_no_error() -> None:
    section = capture(host=FakeHost(), only=["environ"]).sections["environ"]
    assert section.status == "unavailable"
    assert not section.errors


def test_garbage_costs_the_section() -> None:
    for garbage in (3, ["a"], {"A": 3}, {"A": None}, "x", {"A": "\ud800"}):
        section = capture(host=FakeHost(replies={("environ",): garbage}), only=["environ"]).sections["environ"]
        assert section.status == "error"
    assert not any(isinstance(found, Error) for found in _collect({}).values())


@pytest.mark.parametrize(
    ("name", "kind", "effect", "least"),
    [
        ("NCCL_P2P_DISABLE", Kind.TUNABLE, Effect.COMMUNICATION, 0.8),
        ("NCCL_DEBUG", Kind.TUNABLE, Effect.HOST_LAUNCH, 0.3),
        ("CUDA_LAUNCH_BLOCKING", Kind.TUNABLE, Effect.VALIDITY, 0.9),
        ("CUDA_VISIBLE_DEVICES", Kind.TUNABLE, Effect.COMMUNICATION, 0.5),
        ("SGLANG_SIMULATE_ACC_LEN", Kind.TUNABLE, Effect.VALIDITY, 0.9),
        ("SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2", Kind.TUNABLE, Effect.COMMUNICATION, 0.8),
        ("SGLANG_ENABLE_SPEC_V2", Kind.TUNABLE, Effect.DRAFT, 0.8),
        ("SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH", Kind.TUNABLE, Effect.DRAFT, 0.7),
        ("OMP_NUM_THREADS", Kind.TUNABLE, Effect.HOST_LAUNCH, 0.5),
        ("LD_LIBRARY_PATH", Kind.TUNABLE, Effect.COMMUNICATION, 0.5),
        ("SOMETHING_ELSE", Kind.TUNABLE, Effect.HOST_LAUNCH, 0.05),
        ("SGLANG_RUN_ID", Kind.VOLATILE, None, 0.0),
        ("PROMETHEUS_MULTIPROC_DIR", Kind.VOLATILE, None, 0.0),
        ("SHLVL", Kind.VOLATILE, None, 0.0),
        ("_", Kind.VOLATILE, None, 0.0),
        ("ENVSNAP_RECORD", Kind.VOLATILE, None, 0.0),
        ("HOME", Kind.LABEL, None, 0.0),
        ("SSH_CONNECTION", Kind.LABEL, None, 0.0),
        ("SLURM_JOB_ID", Kind.LABEL, None, 0.0),
        ("SLURM_CPU_BIND", Kind.TUNABLE, Effect.HOST_LAUNCH, 0.2),
        ("KUBERNETES_SERVICE_HOST", Kind.LABEL, None, 0.0),
    ],
)
def test_what_a_name_says(name: str, kind: Kind, effect: Effect | None, least: float) -> None:
    key = ENV.for_path(f"env[{name}]")
    assert key.kind is kind
    assert key.prior >= least
    assert effect in key.effects if effect else key.prior < 0.05


def test_every_rule_is_the_first_for_some_name() -> None:
    for rule in ENV_AT:
        name = rule.instance.replace("*", "Q")
        first = next(r for r in ENV_AT if fnmatchcase(name, r.instance))
        assert first is rule, f"{rule.instance} never holds: {first.instance} comes first"
