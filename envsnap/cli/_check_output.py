"""What a check says: the result in the format that was asked for, or what a rule means."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

from envsnap.cli import EXIT_OK, Trouble, did_you_mean

if TYPE_CHECKING:
    from envsnap.check.finding import CheckResult
    from envsnap.check.run import Plan


def explain(code: str, form: str) -> int:
    """Print what a built-in rule means, or all of them in a line each."""
    from envsnap.check import rules
    from envsnap.cli._output import emit, emit_json

    if not code and form != "json":
        width = max(map(len, rules.codes()))
        emit([(f"{c:<{width}}  ", "key"), (rules.title(rules.rule(c)), "")] for c in rules.codes())
        return EXIT_OK
    if code and code not in rules.codes():
        raise Trouble(
            f"There is no built-in rule {code!r}{did_you_mean(code, rules.codes())}", ["envsnap", "check", "--explain"]
        )
    if form == "json":
        from envsnap.report.check import rules_json

        emit_json(rules_json([rules.rule(c) for c in rules.codes() if code in ("", c)]))
        return EXIT_OK
    rule = rules.rule(code)
    when = "of running workers, with --after" if rules.moment(rule) == rules.AFTER else "before a start"
    about = [
        "",
        f"What it objects to counts as: {rule.SEVERITY}, unless it says otherwise. It is asked {when}.",
        f"It looks at {', '.join((*rule.NEEDS, *rules.uses(rule)))}.",
    ]
    emit([[(line, "")] for line in (rule.__doc__ or "").strip().split("\n")] + [[(line, "dim")] for line in about])
    return EXIT_OK


def tell(args: Any, plan: Plan, result: CheckResult) -> None:
    """To the file that was named; else to where it does not mix with what the command prints."""
    if args.output:
        with open(args.output, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(_text(args, plan, result, colour=False))
        return
    from envsnap.report.lines import wants_colour

    stream: TextIO = sys.stderr if args.command else sys.stdout
    stream.write(_text(args, plan, result, wants_colour(stream)))


def _text(args: Any, plan: Plan, result: CheckResult, colour: bool) -> str:
    import json

    from envsnap.cli import _live
    from envsnap.report import check as report
    from envsnap.report import check_ci
    from envsnap.report.lines import paint

    match args.format:
        case "json":
            source = args.snapshot or _live.described(args)
            document = report.as_json(result, source, args.baseline or "", plan.policy.files)
            return json.dumps(document, indent=1) + "\n"
        case "markdown":
            return report.markdown(result, args.all)
        case "junit":
            return check_ci.junit(result)
        case "github":
            return check_ci.github(result)
    return paint(report.text(result, args.all), colour)
