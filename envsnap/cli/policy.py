"""Make a policy from known-good snapshots, or look a policy over.

`from` writes what the snapshots agree on, grouped and with comments, to be edited: identities and settings that matter
for speed; numbers that vary a little become ranges. `check` says whether policies are well-formed, without looking at
any machine. Exit code 0: done, 2: trouble.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from envsnap.cli import EXIT_OK, EXIT_TROUBLE, Trouble
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap policy from good1.json good2.json -o envsnap.toml"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, help="from or check")
    make = actions.add_parser("from", help="write a policy that known-good snapshots meet")
    make.add_argument("snapshots", nargs="+", metavar="SNAP", help="known-good snapshots; - is standard input")
    make.add_argument("-o", "--output", default="", metavar="FILE", help="a new file (default: standard output)")
    make.add_argument("--prior", type=float, default=None, metavar="P", help="least prior of a key (default: 0.3)")
    shared.add_format(make, "json")
    look = actions.add_parser("check", help="say what is wrong with policies")
    look.add_argument("files", nargs="+", metavar="FILE", help="policies")
    look.add_argument("--profile", action="append", default=[], metavar="NAME", help="profile to add")
    shared.add_format(look, "json")


def run(args: Any) -> int:
    """Make or look over."""
    return _from(args) if args.action == "from" else _check(args)


def _from(args: Any) -> int:
    from envsnap.check.learn import LEAST_PRIOR, policy_from
    from envsnap.cli._output import emit_json
    from envsnap.report import done
    from envsnap.snapshot import load
    from envsnap.wording import plural

    if args.output and os.path.exists(args.output):
        raise Trouble(f"{args.output} exists; name a new file, or remove it first.")
    if args.snapshots.count("-") > 1:
        raise Trouble("Only one of the snapshots can come from standard input.")
    least = LEAST_PRIOR if args.prior is None else args.prior
    text = policy_from([load(name) for name in args.snapshots], least)
    if args.output:
        with open(args.output, "x", encoding="utf-8") as file:
            file.write(text)
    count = sum(line.startswith('"') for line in text.splitlines())
    if args.format == "json":
        emit_json(done.policy(args.output, count, text))
        return EXIT_OK
    if not args.output:
        sys.stdout.write(text)
        return EXIT_OK
    print(f"{plural(count, 'requirement')}  →  {args.output}", file=sys.stderr)
    return EXIT_OK


def _check(args: Any) -> int:
    from envsnap.check.policy import PolicyError
    from envsnap.check.policy_file import load
    from envsnap.cli._output import emit_json
    from envsnap.report import done
    from envsnap.wording import plural, printable

    found: dict[str, int | list[str]] = {}
    for file in args.files:
        try:
            found[file] = len(load(file, args.profile).requirements)
        except PolicyError as error:
            found[file] = list(error.violations)
    broken = sum(isinstance(result, list) for result in found.values())
    if args.format == "json":
        emit_json(done.policies(found))
        return EXIT_TROUBLE if broken else EXIT_OK
    for file, result in found.items():
        if isinstance(result, int):
            print(f"{printable(file)}: {plural(result, 'requirement')}")
        else:
            print(*map(printable, result), sep="\n")
    if broken:
        raise Trouble(f"{plural(broken, 'policy')} cannot be used.")
    return EXIT_OK
