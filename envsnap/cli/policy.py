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

from envsnap.cli import EXIT_OK, Trouble

EXAMPLE = "envsnap policy from good1.json good2.json -o envsnap.toml"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, help="from or check")
    make = actions.add_parser("from", help="write a policy that known-good snapshots meet")
    make.add_argument("snapshots", nargs="+", metavar="SNAP", help="known-good snapshots; - is standard input")
    make.add_argument("-o", "--output", default="", metavar="FILE", help="a new file (default: standard output)")
    make.add_argument("--prior", type=float, default=None, metavar="P", help="least prior of a key (default: 0.3)")
    look = actions.add_parser("check", help="say what is wrong with policies")
    look.add_argument("files", nargs="+", metavar="FILE", help="policies")
    look.add_argument("--profile", action="append", default=[], metavar="NAME", help="profile to add")


def run(args: Any) -> int:
    """Make or look over."""
    return _from(args) if args.action == "from" else _check(args)


def _from(args: Any) -> int:
    from envsnap.check.learn import LEAST_PRIOR, policy_from
    from envsnap.snapshot import load
    from envsnap.wording import plural

    if args.output and os.path.exists(args.output):
        raise Trouble(f"{args.output} exists; name a new file, or remove it first.")
    if args.snapshots.count("-") > 1:
        raise Trouble("Only one of the snapshots can come from standard input.")
    least = LEAST_PRIOR if args.prior is None else args.prior
    text = policy_from([load(name) for name in args.snapshots], least)
    if not args.output:
        sys.stdout.write(text)
        return EXIT_OK
    with open(args.output, "x", encoding="utf-8") as file:
        file.write(text)
    count = sum(line.startswith('"') for line in text.splitlines())
    print(f"{plural(count, 'requirement')}  →  {args.output}", file=sys.stderr)
    return EXIT_OK


def _check(args: Any) -> int:
    from envsnap.check.policy import PolicyError
    from envsnap.check.policy_file import load
    from envsnap.wording import plural, printable

    broken = 0
    for file in args.files:
        try:
            policy = load(file, args.profile)
        except PolicyError as error:
            broken += 1
            for sentence in error.violations:
                print(printable(sentence))
        else:
            print(f"{printable(file)}: {plural(len(policy.requirements), 'requirement')}")
    if broken:
        raise Trouble(f"{plural(broken, 'policy')} cannot be used.")
    return EXIT_OK
