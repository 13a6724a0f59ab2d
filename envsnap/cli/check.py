"""Check a machine, or a snapshot, before it is measured: built-in rules, a policy, a good snapshot.

The rules run unless --baseline is given alone; `--explain` lists them. The policy is --policy, else envsnap.toml in
this directory. With `-- COMMAND` behind it, the command is read for what it wants (GPUs, model, port) and takes the
place of this process on a pass and on warnings. --after checks the workers that run (--match, --pid, --server).

Exit code 0: pass, 1: fail, 2: trouble, 3: something required could not be read (a pass with --allow-unknown), 4:
warnings under --strict. With --baseline, only the sections that it has are captured for it.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from envsnap.cli import EXIT_DIFFERENT, EXIT_OK, EXIT_TROUBLE, EXIT_UNKNOWN, EXIT_WARNING, Trouble
from envsnap.cli import _arguments as shared
from envsnap.cli import _check_output as said

if TYPE_CHECKING:
    from envsnap.check.finding import CheckResult
    from envsnap.check.policy import Policy
    from envsnap.check.run import Plan
    from envsnap.check.wanted import Wanted
    from envsnap.host import Host
    from envsnap.scope import Scope
    from envsnap.snapshot import Snapshot

EXAMPLE = "envsnap check --policy envsnap.toml --wait 60 --for 'python -m sglang.launch_server --model-path M --tp 8'"
TAKES_COMMAND = True

_POLL_SECONDS = 2.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "snapshot", nargs="?", metavar="SNAP", help="check this instead of capturing; - is standard input"
    )
    parser.add_argument("--policy", default=None, metavar="FILE", help="what is required (default: envsnap.toml)")
    parser.add_argument("--profile", action="append", default=[], metavar="NAME", help="profile of the policy to add")
    parser.add_argument("--baseline", default=None, metavar="SNAP", help="the good snapshot")
    parser.add_argument("--for", dest="wanted", default="", metavar="CMD", help="launch command that will be used")
    parser.add_argument("--rules", action=argparse.BooleanOptionalAction, default=None, help="built-in rules")
    parser.add_argument("--after", action="store_true", help="check the running workers instead of the machine")
    parser.add_argument("--wait", type=float, default=0.0, metavar="S", help="seconds to wait for idle, clean GPUs")
    parser.add_argument(
        "--probe", action="append", default=[], metavar="FILE", help="measure too, against a stored `envsnap probe`"
    )
    parser.add_argument("--fail-open", action="store_true", help="start the command also on trouble, not on a fail")
    parser.add_argument("--strict", action="store_true", help="warnings count: exit code 4, and no start")
    parser.add_argument("--allow-unknown", action="store_true", help="pass where something could not be read")
    parser.add_argument("--ignore", action="append", default=[], metavar="PATTERN", help="paths that are not required")
    parser.add_argument("--explain", nargs="?", const="", default=None, metavar="CODE", help="what a rule means")
    parser.add_argument("-o", "--output", default="", metavar="FILE", help="write the result there")
    parser.add_argument("--all", action="store_true", help="cut nothing")
    parser.add_argument("-q", "--quiet", action="store_true", help="the exit code alone")
    shared.add_capture(parser)
    shared.add_format(parser, "json", "markdown", "junit", "github")


def limit(args: Any) -> float | None:
    """Seconds after which nobody waits for a capture any longer."""
    if args.snapshot or args.explain is not None:
        return None
    waiting: float = args.wait + args.deadline if args.wait > 0 else 0.0
    if args.probe:
        from envsnap.probe.declared import longest

        waiting += longest()
    return shared.deadline_limit(args) + waiting


def run(args: Any) -> int:
    """Check and print."""
    if args.explain is not None:
        return said.explain(args.explain, args.format)
    from datetime import date

    from envsnap.check.policy import PolicyError

    if args.snapshot == args.baseline == "-":
        raise Trouble("Only one of the snapshots can come from standard input.")
    try:
        plan = _plan(args)
        if args.via:
            result, troubles = _judged_there(args, plan)
        else:
            result, troubles = _probed(args, plan.judge(_snapshot(args, plan), date.today())), []
    except PolicyError as error:
        raise Trouble(str(error), ["envsnap", "policy", "--help"]) from error
    if not args.quiet:
        said.tell(args, plan, result)
    if troubles:
        raise Trouble(" ".join(troubles))
    if result.failed:
        return EXIT_DIFFERENT
    if result.unknown and not args.allow_unknown:
        return EXIT_UNKNOWN
    return EXIT_WARNING if result.warned and args.strict else EXIT_OK


def _judged_there(args: Any, plan: Plan) -> tuple[CheckResult, list[str]]:
    """The result of all machines behind `--via` as one, and what was in the way of others."""
    from dataclasses import replace
    from datetime import date

    from envsnap.check.finding import CheckResult
    from envsnap.cli import _live

    if args.snapshot or args.probe:
        raise Trouble("--via captures another machine: it does not go with a snapshot, nor with --probe.")
    scope, redactor = _scope(args, plan), shared.redactor_of(args)
    wait = partial(_wait, args, plan, scope) if args.wait > 0 else _live.nothing
    taken = _live.take(args, scope, _sections(plan), wait)
    findings, notes = [], []
    for there in taken.machines:
        result = plan.judge(_as_the_command_has_it(there.snapshot, plan.wanted, redactor), date.today())
        whose = f"{there.name}: " if len(args.via) > 1 else ""
        findings += [replace(finding, title=f"{whose}{finding.title}") for finding in result.findings]
        notes += [f"{whose}{note}" for note in result.notes]
    return CheckResult.of(tuple(findings), tuple(notes)), taken.troubles


def _probed(args: Any, result: CheckResult) -> CheckResult:
    """The result with what the probes say, where they are asked for."""
    if not args.probe:
        return result
    from envsnap.check import probes
    from envsnap.check.finding import CheckResult
    from envsnap.probe import Busy

    def tell(text: str) -> None:
        if not args.quiet:
            print(f"envsnap: {text}", file=sys.stderr)

    try:
        more = probes.findings(args.probe, tell)
    except Busy as busy:
        raise Trouble(str(busy)) from busy
    return CheckResult.of((*result.findings, *more), result.notes)


def finish(args: Any, code: int) -> int:
    """Become the command where the check lets it; runs in the process that was called."""
    if not args.command:
        return code
    if code == EXIT_OK or (code == EXIT_TROUBLE and args.fail_open):
        from envsnap.cli._command import become

        return become(args.command)
    if not args.quiet:
        print(f"envsnap: {args.command[0]} was not started.", file=sys.stderr)
    return code


# -- what is checked -------------------------------------------------------------------------------------------------


def _plan(args: Any) -> Plan:
    from envsnap.check.run import Plan
    from envsnap.cli._sides import load_snapshot

    if args.after and not (args.snapshot or args.pid or args.match or args.server):
        raise Trouble("--after needs to know what runs: --match RE, --pid N or --server URL.")
    baseline = load_snapshot(args.baseline) if args.baseline else None
    policy = _policy(args)
    alone = bool(args.baseline) and not (policy.files or args.wanted or args.command or args.after or args.wait)
    return Plan(
        wanted=_wanted(args),
        policy=policy,
        rules=not alone if args.rules is None else args.rules,
        after=args.after,
        baseline=baseline,
        ignore=tuple(args.ignore),
    )


def _wanted(args: Any) -> Wanted:
    from envsnap.check.wanted import NoCommand, read_command

    try:
        return read_command(args.wanted or args.command)
    except NoCommand as error:
        raise Trouble(str(error)) from error


def _policy(args: Any) -> Policy:
    from envsnap.check.policy import Policy

    file = args.policy
    if file is None:
        from envsnap.check.policy_file import NAME

        # NOTE: a baseline is a policy of its own; one that lies about has to be named beside it.
        file = NAME if os.path.exists(NAME) and not args.baseline else ""
    if not file:
        if args.profile:
            raise Trouble("--profile needs a policy.")
        return Policy()
    from envsnap.check.policy_file import load

    return load(file, args.profile)


def _snapshot(args: Any, plan: Plan) -> Snapshot:
    from envsnap.cli._sides import load_snapshot

    if args.snapshot:
        return load_snapshot(args.snapshot)
    only = _sections(plan)
    scope = _scope(args, plan)
    if args.wait > 0:
        _wait(args, plan, scope, None)
    redactor = shared.redactor_of(args)
    return _as_the_command_has_it(shared.take(args, scope, only, redactor), plan.wanted, redactor)


def _sections(plan: Plan) -> list[str]:
    only = plan.sections()
    if plan.compares and plan.baseline and not set(only) & set(plan.baseline.sections):
        raise Trouble("The baseline holds no section that this envsnap knows.")
    return list(only)


def _scope(args: Any, plan: Plan) -> Scope:
    """What was named, else the baseline's scope, and what the command names."""
    from dataclasses import replace

    scope = shared.scope_after(args, plan.baseline.scope if plan.baseline else {})
    if args.after:
        return scope
    models = tuple(dict.fromkeys((*scope.models, *plan.wanted.models_with_revisions)))
    # NOTE: another machine finds programs in other places.
    python = scope.python or (_interpreter(plan.wanted.python) if not args.via else "")
    return replace(scope, python=python, models=models)


def _interpreter(program: str) -> str:
    """The interpreter that a command runs: itself, or the one beside a console script."""
    import shutil

    found = shutil.which(program) if program else None
    if found is None or os.path.basename(program).startswith("python"):
        return found or ""
    beside = os.path.join(os.path.dirname(found), "python")
    return beside if os.path.exists(beside) else ""


def _as_the_command_has_it(snapshot: Snapshot, wanted: Wanted, redactor: Any) -> Snapshot:
    """The snapshot with the variables that the command sets for itself."""
    from dataclasses import replace

    from envsnap.keys import path_of

    section = snapshot.sections.get("environ")
    if not wanted.environment or section is None:
        return snapshot
    values = dict(section.values)
    for name, value in wanted.environment.items():
        path = path_of("env[]", name)
        values.pop(path, None)
        if value is not None:
            values[path] = redactor.clean_value(path, value)
    return replace(snapshot, sections={**snapshot.sections, "environ": replace(section, values=values)})


def _wait(args: Any, plan: Plan, scope: Scope, host: Host | None) -> None:
    """Look every two seconds, at this machine where `host` is None, until nothing is left that waiting can mend, or
    the time is over."""
    import time
    from datetime import date

    from envsnap.capture import capture
    from envsnap.check.builtin import sections

    stop, told = time.monotonic() + args.wait, ""
    while True:
        redactor = shared.redactor_of(args)
        now = capture(scope, host, deadline=args.deadline, only=sorted(sections(plan.waiting)), redactor=redactor)
        busy = plan.still_busy(now, date.today())
        left = stop - time.monotonic()
        if not busy or left <= 0:
            return
        if not args.quiet and busy[0].title != told:
            told = busy[0].title
            print(f"envsnap: waiting up to {left:.0f} s: {told}", file=sys.stderr)
        time.sleep(min(_POLL_SECONDS, max(0.0, left)))
