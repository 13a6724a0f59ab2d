"""Arguments that several verbs share, and what they mean."""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING, Any

from envsnap.cli import Trouble, did_you_mean

if TYPE_CHECKING:
    from envsnap.redact import Redactor
    from envsnap.scope import Scope
    from envsnap.snapshot import Snapshot

DRIVER = "/dev/nvidiactl"
"""There where a driver can hang."""

MARGIN_SECONDS = 5.0
"""What a capture may take beyond its deadline: start, writing, the report."""


VIA_TEXT = """\
  PREFIX is a command that can start `sh` (or `python3`) there. The other machine needs a Python 3.8 or later, nothing
  else, and keeps nothing. What other options name (processes, files, directories) is there.
    --via 'ssh root@gpu7'                         --via 'docker exec -i NAME'       --via 'sudo -n'
    --via 'ssh root@gpu7 pct exec 129 --'         --via 'kubectl exec -i POD --'    --via 'nsenter -t PID -a'
    --via 'srun --jobid=4711 --overlap -n1 -w gpu7'                                 --via 'lxc exec NAME --'
  It may take 20 s, or as many as --deadline says, until a Python has started there. Several are read side by side; a
  container gets from its host, where both are given, what the host alone can see."""


def add_explained(parser: argparse.ArgumentParser) -> None:
    """What an explanation goes by besides its two sides."""
    parser.add_argument("--control", nargs=2, default=[], metavar=("A0", "B0"), help="the two sides under another load")
    parser.add_argument(
        "--history",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="weigh by the store's other runs (default)",
    )


def add_format(parser: argparse.ArgumentParser, *formats: str) -> None:
    """Add --format, text being the default."""
    parser.add_argument("--format", choices=("text", *formats), default="text", help="default: text")


def add_capture(parser: argparse.ArgumentParser) -> None:
    """Add what a capture takes."""
    parser.add_argument("--pid", type=int, action="append", default=[], metavar="N", help="root of a process tree")
    parser.add_argument("--match", action="append", default=[], metavar="RE", help="processes by title or command line")
    parser.add_argument("--repo", action="append", default=[], metavar="DIR", help="git repository to record too")
    parser.add_argument(
        "--model", action="append", default=[], metavar="M", help="model directory, or hub NAME[@REVISION]"
    )
    parser.add_argument("--nccl-log", action="append", default=[], metavar="FILE", help="log under NCCL_DEBUG=INFO")
    parser.add_argument("--server", action="append", default=[], metavar="URL", help="running server to ask")
    parser.add_argument("--api-key-file", default="", metavar="FILE", help="holds the key that the server wants")
    parser.add_argument("--records", default="", metavar="DIR", help="what workers wrote under ENVSNAP_RECORD")
    parser.add_argument("--python", default="", metavar="EXE", help="interpreter whose packages matter")
    parser.add_argument("--deadline", type=float, default=10.0, metavar="S", help="seconds at most (default: 10)")
    parser.add_argument(
        "--no-cache", action="store_true", help="neither use nor write envsnap's cache of slow look-ups"
    )
    parser.add_argument("--reveal", action="append", default=[], metavar="NAME", help="a name that is no secret")
    parser.add_argument("--redact", action="append", default=[], metavar="NAME", help="a name that is one")
    add_via(parser)


def add_via(parser: argparse.ArgumentParser) -> None:
    """Add what names other machines."""
    elsewhere = parser.add_argument_group("other machines", VIA_TEXT)
    elsewhere.add_argument("--via", action="append", default=[], metavar="PREFIX", help="read the machine behind it")


def add_live_side(parser: argparse.ArgumentParser) -> None:
    """Add what a verb takes that reads snapshots, and captures where `--via`, `--pid` or `--match` is given."""
    group = parser.add_argument_group("a side captured now", "--pid, --match or --via stand for a snapshot.")
    group.add_argument("--pid", type=int, action="append", default=[], metavar="N", help="root of a process tree")
    group.add_argument("--match", action="append", default=[], metavar="RE", help="processes by title or command line")
    group.add_argument("--python", default="", metavar="EXE", help="interpreter whose packages matter")
    group.add_argument("--deadline", type=float, default=10.0, metavar="S", help="seconds at most (default: 10)")
    add_via(parser)
    parser.set_defaults(
        repo=[], model=[], nccl_log=[], server=[], api_key_file="", records="", no_cache=False, reveal=[], redact=[]
    )


def scope_of(args: Any) -> Scope:
    """The scope that the arguments describe. Raises: Trouble."""
    from envsnap.scope import Scope

    for pattern in args.match:
        try:
            re.compile(pattern)
        except re.error as error:
            raise Trouble(f"--match {pattern!r} is no regular expression ({error}).") from error
    return Scope(
        pids=tuple(args.pid),
        match=tuple(args.match),
        repos=tuple(args.repo),
        models=tuple(args.model),
        nccl_logs=tuple(args.nccl_log),
        servers=tuple(args.server),
        api_key_file=args.api_key_file,
        records=args.records,
        python=args.python,
        cache=not args.no_cache,
    )


def scope_after(args: Any, before: dict[str, Any]) -> Scope:
    """The scope that the arguments describe, and where they leave it open that of an earlier snapshot.

    Process ids and logs are of one run, and are not taken over. Raises: Trouble.
    """
    from dataclasses import replace

    scope = scope_of(args)
    kept: dict[str, Any] = {
        name: getattr(scope, name) or tuple(map(str, then))
        for name in ("match", "repos", "models", "servers")
        if isinstance(then := before.get(name), list)
    }
    return replace(scope, python=scope.python or str(before.get("python", "")), **kept)


def take(args: Any, scope: Scope, only: list[str], redactor: Redactor) -> Snapshot:
    """Capture this machine, with progress on a terminal."""
    from envsnap.capture import capture
    from envsnap.cli._output import end_passing

    snapshot = capture(
        scope, deadline=args.deadline, only=only, redactor=redactor, progress=_progress, apart=os.path.exists(DRIVER)
    )
    end_passing()
    return snapshot


def redactor_of(args: Any) -> Redactor:
    """The redactor that the arguments describe; its key is kept with the snapshots."""
    from pathlib import Path

    from envsnap.redact import Redactor
    from envsnap.store import FOLDER

    return Redactor(Path(FOLDER), reveal=args.reveal, redact=args.redact)


def sections_of(text: str) -> list[str]:
    """The sections that `--only` names. Raises: Trouble."""
    from envsnap.collectors import names

    wanted = [name.strip() for name in text.split(",") if name.strip()]
    for name in wanted:
        if name not in names():
            raise Trouble(f"There is no section {name!r}{did_you_mean(name, names())}", ["envsnap", "key"])
    return wanted


def deadline_limit(args: Any) -> float:
    """The verb's limit where it captures."""
    if args.deadline <= 0:
        raise Trouble("--deadline takes a number of seconds above zero.")
    if not args.via:
        return float(args.deadline) + MARGIN_SECONDS
    return float(args.deadline) + 2 * MARGIN_SECONDS + connect_seconds(args)


def connect_seconds(args: Any) -> float:
    """How long a prefix may take: longer where the user has more time (srun may have to wait for a node)."""
    from envsnap.remote import CONNECT_SECONDS

    return max(CONNECT_SECONDS, float(args.deadline))


def live_count(args: Any) -> int:
    """How many machines a verb that reads snapshots has to capture: those behind `--via`, else this one if processes of
    it are named."""
    return len(args.via) or int(bool(args.pid or args.match))


def live_limit(args: Any) -> float | None:
    """The limit of a verb that reads snapshots, where it captures."""
    if len(args.via) > 1 and args.verb != "diff" and args.format != "text":
        raise Trouble(f"--format {args.format} shows one machine: give one --via at a time.")
    return deadline_limit(args) if live_count(args) else None


def _progress(running: list[str], passed: float) -> None:
    from envsnap.cli._output import tell_passing

    names = ", ".join(running[:6]) + ("…" if len(running) > 6 else "")
    tell_passing(f"{passed:.0f} s, still reading: {names}")
