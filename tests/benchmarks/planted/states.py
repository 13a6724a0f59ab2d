"""States that both sides of a search differ in though they do nothing: variables and options."""

from __future__ import annotations

from collections.abc import Sequence

State = tuple[str, str | None, str | None]
"""A variable or option, as the fast and as the slow side has it."""

INNOCENT: tuple[State, ...] = (
    ("TOKENIZERS_PARALLELISM", "false", "true"),
    ("NCCL_DEBUG", "WARN", None),
    ("NCCL_PROTO", "LL", "Simple"),
    ("HF_HUB_DISABLE_TELEMETRY", "1", None),
    ("PYTHONHASHSEED", "0", "1"),
    ("SGLANG_LOGGER_LEVEL_OF_MINE", "1", "2"),
    ("--max-running-requests", "8", "16"),
    ("--schedule-conservativeness", "1.0", "0.9"),
)
"""For a server of one rank, or one without a GPU, since it is nobody that NCCL_PROTO could speak to."""
MALLOC: State = ("MALLOC_OF_MINE", None, "debug")
LOG_INTERVAL: State = ("--decode-log-interval", "1000", "999")


def of_side(table: Sequence[State], slow: bool) -> tuple[dict[str, str], list[str]]:
    """Variables and options of a side."""
    exported: dict[str, str] = {}
    options: list[str] = []
    for name, *pair in table:
        value = pair[slow]
        if value is not None and name.startswith("--"):
            options += [name, value]
        elif value is not None:
            exported[name] = value
    return exported, options
