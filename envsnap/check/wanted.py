"""What a launch command asks for: how many GPUs, which model and draft, which port and back ends."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from envsnap.reading import Json

if TYPE_CHECKING:
    from envsnap.collectors._model_names import Named

_ENGINES = (
    ("sglang", re.compile(r"(?:.*/)?sglang|sglang\.launch_server|sglang\.bench_(?:one_batch|offline_throughput)")),
    ("vllm", re.compile(r"(?:.*/)?vllm|vllm\.entrypoints\..*")),
)
_PORTS = {"sglang": 30000, "vllm": 8000}
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)\Z", re.DOTALL)
_PROGRAM = re.compile(r"(?:.*/)?(?:python[0-9.]*|sglang|vllm)\Z")
_WRAPPERS = {"env", "exec", "nice", "nohup", "setsid", "stdbuf", "time"}


class NoCommand(Exception):
    """A launch command that cannot be taken apart, in one sentence."""


@dataclass(frozen=True)
class Wanted:
    """A launch command as far as it can be read. Without one, or for an unknown engine, little is wanted.

    `options` are by name without dashes, with `_` for `-`; a switch has an empty value. `environment` is what the
    command sets for itself alone (`A=1 python …`, `env A=1 …`), None what it removes.
    """

    argv: tuple[str, ...] = ()
    engine: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict)

    def option(self, *names: str) -> str | None:
        """The value of the first of these options that was given."""
        return next((self.options[name] for name in names if name in self.options), None)

    def _count(self, *names: str) -> int:
        text = self.option(*names) or ""
        return int(text) if text.isdecimal() and 0 < int(text) < 1 << 20 else 1

    @property
    def tensor_parallel(self) -> int | None:
        """Tensor-parallel size; None where no engine is started."""
        return self._count("tp", "tp_size", "tensor_parallel_size") if self.engine else None

    @property
    def nodes(self) -> int:
        """Machines that serve together."""
        return self._count("nnodes")

    @property
    def gpus(self) -> int:
        """GPUs that the command takes on this machine; 0 where that is not known."""
        if not self.engine or self.option("device") == "cpu" or self.environment.get("SGLANG_USE_CPU_ENGINE") == "1":
            return 0
        ranks = self._count("tp", "tp_size", "tensor_parallel_size") * self._count(
            "pp", "pp_size", "pipeline_parallel_size"
        )
        if self.engine == "vllm" or "enable_dp_attention" not in self.options:
            ranks *= self._count("data_parallel_size_local", "dp", "dp_size", "data_parallel_size")
        return -(-ranks // self.nodes)

    @property
    def first_gpu(self) -> int:
        """Position among the visible GPUs at which it begins."""
        text = self.option("base_gpu_id") or ""
        return int(text) if text.isdecimal() else 0

    @property
    def port(self) -> int | None:
        """The port that it will listen at."""
        text = self.option("port") or ""
        return int(text) if text.isdecimal() else _PORTS.get(self.engine)

    @cached_property
    def _models(self) -> list[Named]:
        from envsnap.collectors._model_names import named_in

        return named_in(self.argv)

    @property
    def models(self) -> tuple[str, ...]:
        """All models that it names."""
        return tuple(dict.fromkeys(n.model for n in self._models))

    @property
    def models_with_revisions(self) -> tuple[str, ...]:
        """All models that it names, those of which it names a revision as NAME@REVISION."""
        return tuple(dict.fromkeys(n.typed for n in self._models))

    @property
    def model_named(self) -> Named | None:
        """The model that it serves, with the option and the revision."""
        return next((n for n in self._models if n.what == "model"), None)

    @property
    def draft_named(self) -> Named | None:
        """The draft model of speculative decoding, with the option and the revision."""
        return next((n for n in self._models if n.what == "draft"), None)

    @property
    def model(self) -> str:
        """The model that it serves."""
        return self.model_named.model if self.model_named else ""

    @property
    def draft(self) -> str:
        """The draft model of speculative decoding."""
        return self.draft_named.model if self.draft_named else ""

    @property
    def algorithm(self) -> str:
        """The algorithm of speculative decoding, in upper case."""
        said = _object(self.option("speculative_config", "sc") or "").get("method")
        return (self.option("speculative_algorithm") or (said if isinstance(said, str) else "")).upper()

    @property
    def python(self) -> str:
        """The interpreter that it runs, or the program whose interpreter it is; empty where neither is clear."""
        return next((word for word in self.argv if _PROGRAM.match(word)), "")


def read_command(command: str | Sequence[str]) -> Wanted:
    """What a command line asks for. Raises: NoCommand where quotes in it are not closed."""
    if isinstance(command, str):
        try:
            argv = shlex.split(command)
        except ValueError as error:
            raise NoCommand(f"The launch command cannot be taken apart: {error}.") from error
    else:
        argv = list(command)
    engine = next((name for word in argv for name, pattern in _ENGINES if pattern.fullmatch(word)), "")
    return Wanted(tuple(argv), engine, _options(argv), _environment(argv))


def _options(argv: Sequence[str]) -> dict[str, str]:
    options = {}
    for word, following in zip(argv, [*argv[1:], ""]):
        if re.match(r"--?[A-Za-z]", word):
            name, given, value = word.lstrip("-").partition("=")
            options[name.replace("-", "_")] = value if given else "" if following.startswith("-") else following
    return options


def _environment(argv: Sequence[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    words = iter(argv)
    for word in words:
        if match := _ASSIGNMENT.match(word):
            found[match[1]] = match[2]
        elif word in ("-u", "--unset"):
            found[next(words, "")] = None
        elif not _is_prefix(word):
            break
    return found


def _is_prefix(word: str) -> bool:
    """Whether a word stands before the program: a variable, a program that runs another, an option of that."""
    return posixpath.basename(word) in _WRAPPERS or word.startswith("-") or _ASSIGNMENT.match(word) is not None


def _object(text: str) -> dict[str, Json]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
