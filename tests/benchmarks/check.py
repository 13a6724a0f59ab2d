"""What a check costs as a whole process, with the built-in rules and a policy of 60 requirements.

    python tests/benchmarks/check.py [REPETITIONS]

Prints median and spread of wall and CPU time of `envsnap check`, of the same with `-- true` behind it, and of a bare
interpreter to compare with.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

LINES = 60


def main() -> None:
    """Measure and print."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    check = [sys.executable, "-m", "envsnap", "check", "-q", "--policy"]
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "envsnap.toml"
        policy.write_text(_policy(Path(folder)))
        for name, command in (
            ("python -c pass", [sys.executable, "-c", "pass"]),
            ("envsnap check", [*check, str(policy)]),
            ("envsnap check -- true", [*check, str(policy), "--allow-unknown", "--", "true"]),
        ):
            wall, cpu = zip(*(_measured(command, folder) for _ in range(repetitions)))
            print(
                f"{name:24} wall {median(wall):.3f} s ({min(wall):.3f} to {max(wall):.3f})   CPU {median(cpu):.3f} s"
                f"   of {repetitions} runs"
            )


def _policy(folder: Path) -> str:
    """A policy of this machine, cut to so many requirements."""
    envsnap = [sys.executable, "-m", "envsnap"]
    subprocess.run([*envsnap, "capture", "-q", "-o", "a.json"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    made = subprocess.run(
        [*envsnap, "policy", "from", "a.json"], cwd=folder, check=True, capture_output=True, text=True
    )
    head, *lines = made.stdout.partition("[require]\n")
    required = [line for line in "".join(lines).splitlines() if line.startswith('"')]
    return "\n".join([head, "[require]", *required[:LINES]])


def _measured(command: Sequence[str], folder: str) -> tuple[float, float]:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
