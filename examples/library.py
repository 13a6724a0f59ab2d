"""envsnap as a library: record the state around a piece of work, say what changed, hold it against a good snapshot.

    python3 library.py [GOOD_SNAPSHOT]

ENVSNAP_DISABLE=1 turns the command line into a no-op, and this too.
Tested: run as it is (alone, with a good snapshot, with one of another machine, disabled).
"""

import os
import sys

import envsnap

SECTIONS = ["kernel", "cpu", "environ"]
"""Reading little costs little; without `only` everything is read, in less than half a second."""


def work() -> None:
    """What is to be measured; here it changes the state that it is measured under."""
    os.environ["NCCL_PROTO"] = "LL"


def main() -> int:
    """The exit code: 1 where the machine is not the good snapshot's."""
    if os.environ.get("ENVSNAP_DISABLE") == "1":
        work()
        return 0
    before = envsnap.capture(only=SECTIONS)
    work()
    after = envsnap.capture(only=SECTIONS)
    for change in envsnap.diff(before, after).changes:
        print(f"{change.path}: {change.before} became {change.after}")
    reading = before.reading("kernel.release")
    if isinstance(reading, envsnap.Value):  # or Unavailable, Error, Unset, Unknown: never a made-up value
        print(f"Linux {reading.value}")

    if len(sys.argv) < 2:
        envsnap.write(before, "before.json")
        return 0
    result = envsnap.check(before, envsnap.load(sys.argv[1]))
    for finding in result.failed:
        print(f"not as it was: {finding.title}")
    for finding in result.unknown:
        print(f"not known: {finding.title}")
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
