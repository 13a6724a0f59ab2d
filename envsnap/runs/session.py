"""A session: a benchmark repeated, alone or in two interleaved arms, with or without a server of its own.

Every repetition follows the same steps: freeze a snapshot, start the server and wait until it is ready, snapshot its
workers, sample while the benchmark runs, snapshot what can have grown, stop the server, read the metrics, save the run.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from envsnap.collectors._server_ask import base_of
from envsnap.host import Host, LiveHost
from envsnap.reading import Json, Missing
from envsnap.redact import Redactor
from envsnap.runs.columns import Columns
from envsnap.runs.plan import Arm, Plan, Say, SessionError
from envsnap.runs.recipe import Recipe
from envsnap.runs.repetition import Repetition
from envsnap.runs.request import file_sha256
from envsnap.runs.run import Run
from envsnap.runs.serving import Server, answers, listener, refuse_a_strange_server, wait_until_free
from envsnap.runs.setting import Setting
from envsnap.runs.supervise import Signals, children, supervised, sweep

__all__ = ["Arm", "Outcome", "Plan", "Save", "Say", "SessionError", "run_session"]

Save = Callable[[Run, Columns], None]


@dataclass(frozen=True)
class Outcome:
    """The runs of a session in the order they ran, and the exit code for the shell: that of the first that failed."""

    runs: tuple[Run, ...]
    exit_code: int


def run_session(plan: Plan, folder: Path, save: Save, say: Say, new_host: Callable[[], Host] = LiveHost) -> Outcome:
    """Run a plan. Logs and records go to `folder`, which exists; each run is given to `save` as soon as it is done.

    Raises: SessionError before anything is started.
    """
    host = new_host()
    if plan.server and not plan.ready:
        raise SessionError("A server needs an address that tells when it is ready.")
    if plan.keep_server and plan.server and len(plan.arms) > 1:
        raise SessionError("Arms need a server of their own each; leave out --keep-server.")
    port = refuse_a_strange_server(plan, host)
    asked = _asked(plan)
    base = _base(plan, host)
    group = uuid.uuid4().hex[:12]
    redactor = Redactor(folder.parent)
    strangers = children()
    runs: list[Run] = []
    server: Server | None = None
    with supervised() as signals:
        # NOTE: the benchmark may work elsewhere, and is told where records go.
        setting = Setting(
            plan,
            group,
            folder.absolute(),
            say,
            signals,
            new_host,
            redactor,
            Recipe.of_plan(plan, redactor),
            base,
            _listener(plan, new_host()),
            asked,
        )
        total = plan.repeats * len(plan.arms)
        try:
            for number, (index, arm) in enumerate(_order(plan), 1):
                if total > 1:
                    say(f"run {number} of {total}{f', arm {arm.name}' if arm.name else ''}")
                repetition = Repetition(setting, arm, index, server)
                run, samples = repetition.run()
                server = repetition.server
                runs.append(run)
                save(run, samples)
                if signals.ending or repetition.hopeless or run.status in ("interrupted", "never_ready"):
                    break
                if not server:
                    sweep(strangers)
                    wait_until_free(host, port)
        finally:
            if server:
                server.stop(new_host(), redactor)
    failed = next((code for r in runs if (code := _exit_code(r, signals))), 0)
    return Outcome(tuple(runs), failed or (128 + signals.ending[0] if signals.ending else 0))


def _exit_code(run: Run, signals: Signals) -> int:
    """The exit code that a run asks for: the benchmark's own, if that tells of the failure."""
    if run.status == "never_ready":
        return 2
    if run.exit_code or run.status == "ok":
        return run.exit_code or 0
    return 128 + signals.ending[0] if signals.ending else 1


def _order(plan: Plan) -> Iterator[tuple[int, Arm]]:
    """Repetitions: with two arms in pairs whose order is drawn at random, so that what drifts hits both alike."""
    draw = random.Random(plan.seed)
    for index in range(plan.repeats):
        for arm in draw.sample(plan.arms, len(plan.arms)):
            yield index, arm


def _asked(plan: Plan) -> dict[str, Json]:
    """What is known of the request before anything runs."""
    if not plan.prompts:
        return {}
    try:
        return {"prompts_sha256": file_sha256(Path(plan.prompts))}
    except OSError as error:
        raise SessionError(f"Cannot read the prompts in {plan.prompts}: {error.strerror}.") from error


def _base(plan: Plan, host: Host) -> str:
    """The address of the server that is measured; empty where there is none."""
    address = plan.server_url
    if not address and plan.server:
        parts = urlsplit(plan.ready)
        address = f"{parts.scheme}://{parts.netloc}"
    if not address:
        return ""
    try:
        base = base_of(address)
    except Missing as error:
        raise SessionError(f"{address!r}: {error.detail}.") from error
    if plan.server_url and not any(answers(host, base + path) for path in ("/health", "/v1/models", "/")):
        raise SessionError(f"No server answers at {base}.")
    return base


def _listener(plan: Plan, host: Host) -> int | None:
    """The process that serves at `server_url`, if it runs here."""
    parts = urlsplit(plan.server_url if "://" in plan.server_url else f"//{plan.server_url}")
    if not plan.server_url or parts.hostname not in ("127.0.0.1", "localhost", "::1", "0.0.0.0"):
        return None
    return listener(host, parts.port)
