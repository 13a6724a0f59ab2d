"""The server is older than what was changed.

A process keeps the code, the libraries and the environment that it was started with. Where the same server was
measured on both sides, nothing that was installed, pulled or exported in between can have acted on it; where the
slow side's server was started before the change, it does not have it. The other way round, a restart that
"succeeded" and left an old process on the port measures that one.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from datetime import datetime

from envsnap.change import Change
from envsnap.explain.code.ran import Ran
from envsnap.explain.explanation import Evidence
from envsnap.explain.ranks import ranks
from envsnap.explain.stories._look import of_pattern
from envsnap.explain.story import Clue, Facts, Finding, Innocent, Together, View, after
from envsnap.explain.weights import FAIR, STRONG
from envsnap.keys import instances_of, pattern_of
from envsnap.reading import Json
from envsnap.runs.verdict import Design

CODE = "stale_server"
NEEDS = ("worker[].started_seconds",)

_LOADED_AT_START = ("repo[", "package[", "conda[", "python.", "packages.", "library[", "nvidia.library", "env[",
                    "nccl.conf[", "inherited.", "limits.")  # fmt: skip
"""What a process took when it was started, whatever stands there now. What workers have mapped is seen by itself."""
_OPTIONS = ("launch_command", ".argv")
_SHOWN = 3
"""Files that are named."""


def tell(view: View) -> Iterator[Finding]:
    """Yield what an older server cannot have seen."""
    started = [_started(facts) for facts in view.sides]
    if started[0] is None or started[1] is None:
        return
    held = [c for c in view.changes if c.path.startswith(_LOADED_AT_START)]
    if started[0] == started[1]:
        if held:
            yield Innocent(
                "what was installed, pulled or exported between the two sides",
                "both were measured on the same server process, which was started before",
                tuple(held),
            )
        return
    yield from _older(view, started[1], held)
    yield from _changed_under_it(view)
    replaced = view.changed("worker[].library[].replaced", "worker[].executable_replaced")
    if replaced:
        yield Clue("Files were replaced under a running server: it runs what was there before.", FAIR, tuple(replaced))
    yield from _left_over(view, started)


def _started(facts: Facts) -> float | None:
    """When the oldest computing process was started."""
    times = [v for p, v in facts.values("worker[].started_seconds").items() if instances_of(p)[0] in ranks(facts)]
    known = [float(v) for v in times if isinstance(v, (int, float))]
    return min(known) if known else None


def _older(view: View, started: float, held: list[Change]) -> Iterator[Finding]:
    """Repositories that moved after the slow side's server had been started."""
    for path, moment in view.slow.values("repo[].last_move.time").items():
        name = instances_of(path)[0]
        moved = _seconds(moment)
        if moved is None or moved <= started:
            continue
        commits = [
            c
            for c in held
            if c.path.startswith("repo[")
            and instances_of(c.path)[0] == name
            and pattern_of(c.path).split("].", 1)[1].split(".")[0] in ("head", "tree_id", "branch", "describe")
        ]
        if commits:
            yield Clue(
                f"{name} moved after the slow side's server had been started: it runs the code of before.",
                -STRONG,
                tuple(commits),
            )


def _changed_under_it(view: View) -> Iterator[Finding]:
    """Source files that hold something else than the slow side's workers have loaded."""
    newer = [c for c in view.changed("record[].source_newer") if isinstance(after(c), list)]
    files = list(dict.fromkeys(str(file) for c in newer for file in after(c)))
    if not files:
        return
    loaded = [Ran(facts).blobs for facts in view.sides]
    known = [file for file in files if all(file in blobs for blobs in loaded)]
    others = [file for file in known if loaded[0][file] != loaded[1][file]]
    names = _named(others or files)
    if known == files and not others:
        reason = "both sides' workers had loaded the same of it"
        yield Innocent(f"{names}, changed under the server", reason, tuple(newer))
        return
    text = f"It runs what {names} held when it was started, which is not what lies there now."
    evidence = [Evidence(text, FAIR)]
    if others:
        evidence = [Evidence(f"{text} The fast side's workers had loaded another content.", STRONG)]
    yield Together(
        f"a server that is older than its code: {names}",
        "A process keeps the code that it was started with, whatever is checked out, pulled or edited meanwhile.",
        tuple(newer),
        newer[0].key.effects,
        tuple(evidence),
    )


def _named(files: list[str]) -> str:
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return ", ".join(posixpath.basename(file) for file in files[:_SHOWN]) + more


def _left_over(view: View, started: list[float | None]) -> Iterator[Finding]:
    """A slow server that was started before the fast one's: a restart did not replace it."""
    then, now = started
    if then is None or now is None or not now < then:
        return
    # NOTE: servers that were kept side by side, or stand at two addresses, are not mistaken for each other.
    addresses = {address for facts in view.sides if (address := facts.get("server[0].url")) is not None}
    if len(addresses) > 1 or view.symptom.design is Design.INTERLEAVED:
        return
    if (
        _seconds(view.slow.snapshot.captured_at) is None
        or view.slow.snapshot.captured_at <= view.fast.snapshot.captured_at
    ):
        return
    options = [c for c in view.changes if c.leaf.startswith("[--") or any(part in c.path for part in _OPTIONS)]
    arguments = [*of_pattern(view.changes, "server[].argument[]", "record[].argument[]"), *options]
    if arguments:
        yield Clue(
            "The slow side's server is older than the fast side's: another process answers than the one that was "
            "started last.",
            STRONG,
            tuple(arguments),
        )


def _seconds(moment: Json) -> float | None:
    try:
        return datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return None
