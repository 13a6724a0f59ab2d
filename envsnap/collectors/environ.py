"""Environment: every variable of the process that captures.

This is what the shell exported. What an engine's workers have may differ (`worker[].env[]`): engines overwrite
variables silently.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from envsnap.collectors._env_rules import ENV_AT
from envsnap.host import Host
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Value
from envsnap.scope import Scope

METHOD = "os.environ"

KEYS = (
    Key("env[]", Type.STRING, Kind.TUNABLE, "An environment variable of the process that captured.",
        (Effect.HOST_LAUNCH,), 0.05, Lever.ENV, at=ENV_AT),
    Key("environment.count", Type.INTEGER, Kind.VOLATILE, "Number of environment variables.",
        (Effect.HOST_LAUNCH,), 0.02),
    Key("environment.size_bytes", Type.INTEGER, Kind.VOLATILE,
        "Size of the environment; it shifts the stack, which alone can move the speed of a program by some percent.",
        (Effect.HOST_LAUNCH,), 0.02),
)  # fmt: skip

LARGE_BYTES = 1 << 16
LONG_NAME = 256


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    variables = {_text(name): _text(value) for name, value in host.environ().items()}
    yield "environment.count", Value(len(variables))
    yield "environment.size_bytes", Value(sum(_size(n) + _size(v) + 2 for n, v in variables.items()))
    for name, value in sorted(variables.items()):
        yield path_of("env[]", bounded(name, LONG_NAME)), Value(bounded(value, LARGE_BYTES))


def bounded(text: str, limit: int) -> str:
    """The text, or where it has more than `limit` bytes `<N bytes, sha256 HASH>`, which still shows a change."""
    if len(text) <= limit // 4 or _size(text) <= limit:
        return text
    return f"<{_size(text)} bytes, sha256 {hashlib.sha256(_encoded(text)).hexdigest()}>"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a variable that is no text: {type(value).__name__}")
    return value


def _size(text: str) -> int:
    return len(_encoded(text))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
