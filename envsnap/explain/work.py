"""The work that a benchmark asked for, as changes: the client is state too, and no snapshot of a machine holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from envsnap.change import Change
from envsnap.explain.setting import options
from envsnap.explain.story import Facts
from envsnap.keys import At, Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Json, Reading, Unknown, Unset, Value
from envsnap.runs.compare import told_of_both
from envsnap.runs.run import Run

REQUEST = Key(
    "request[]",
    Type.ANY,
    Kind.TUNABLE,
    "What the benchmark asked of the server.",
    (Effect.WORKLOAD, Effect.ACCEPTANCE),
    0.8,
    Lever.ARGUMENT,
    at=tuple(
        At(name, effects=effects)
        for names, effects in (
            ("*concurren* *batch_size* *request_rate*",
             (Effect.COMPUTE, Effect.MEMORY, Effect.PREFILL, Effect.WORKLOAD)),
            ("*input* *isl* *prompt_len* *context*", (Effect.PREFILL, Effect.MEMORY, Effect.COMPUTE, Effect.WORKLOAD)),
            ("*dataset* *template* *prompt*", (Effect.ACCEPTANCE, Effect.PREFILL, Effect.MEMORY, Effect.WORKLOAD)),
            ("*logprob* *grammar* *schema* *stream* *backend* *endpoint*", (Effect.HOST_LAUNCH, Effect.WORKLOAD)),
            ("*output* *osl* *max_tokens* *model* *lora*",
             (Effect.MEMORY, Effect.COMPUTE, Effect.ACCEPTANCE, Effect.WORKLOAD)),
        )
        for name in names.split()
    ),
)  # fmt: skip
_OUTPUTS = ("output", "file", "log", "result", "label", "host", "port", "url", "api_key", "seed", "tag", "metadata")


def asked_otherwise(fast: Facts, slow: Facts) -> Iterator[Change]:
    """What the two sides' benchmarks asked for differently; nothing where a side has no runs."""
    one, two = _first(fast.side.runs), _first(slow.side.runs)
    if one is None or two is None:
        return
    # NOTE: what a side did not record of its request is unknown, and nothing asked otherwise.
    for name in sorted(told_of_both(one, two)):
        if one.request and two.request and one.request.get(name) != two.request.get(name):
            yield _change(name, one.request, two.request)
    if not (one.request and two.request):
        typed, then = options(one.command), options(two.command)
        for name in sorted({*typed, *then}):
            if typed.get(name) != then.get(name) and not any(word in name for word in _OUTPUTS):
                yield _change(name, typed, then)


def _first(runs: Sequence[Run]) -> Run | None:
    return next((r for r in runs if r.status == "ok"), None)


def _change(name: str, fast: Mapping[str, Json], slow: Mapping[str, Json]) -> Change:
    path = path_of("request[]", name)
    return Change(path, REQUEST.for_path(path), _reading(fast, name), _reading(slow, name))


def _reading(asked: Mapping[str, Json], name: str) -> Reading:
    if name not in asked:
        return Unset()
    return Unknown() if asked[name] is None else Value(asked[name])
