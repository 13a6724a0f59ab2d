"""What tests of sessions share: a session in this process, the small server, benchmarks of one line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from envsnap.runs.columns import Columns
from envsnap.runs.run import Run
from envsnap.runs.session import Outcome, Plan, run_session
from envsnap.runs.sources import Wanted, pattern_of

SERVER = Path(__file__).parent / "programs" / "server.py"
SPEED = Wanted(patterns=(pattern_of(r"speed[tok/s]=speed: (\S+)"),))


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def run(tmp_path: Path, plan: Plan) -> tuple[Outcome, list[str]]:
    """Run a session; returns its outcome and what it said."""
    folder = tmp_path / ".envsnap" / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    said: list[str] = []
    saved: list[Run] = []

    def save(run: Run, samples: Columns) -> None:
        saved.append(run)

    def say(text: str, passing: bool = False) -> None:
        said.append(text)

    outcome = run_session(plan, folder, save, say)
    assert tuple(saved) == outcome.runs
    return outcome, said


def serve(port: int, **changed: Any) -> dict[str, Any]:
    """The parts of a plan that start the small server."""
    url = f"http://127.0.0.1:{port}/"
    return {"server": (sys.executable, str(SERVER), str(port)), "ready": url, "ready_seconds": 30.0, **changed}


def ask(port: int, then: str = "") -> tuple[str, ...]:
    """A benchmark that asks the server who it is, makes it work three times, and goes on with `then`."""
    return python(
        "import json, os, sys, time, urllib.request\n"
        f"def get(path): return urllib.request.urlopen('http://127.0.0.1:{port}' + path).read()\n"
        "answer = json.loads(get('/'))\n"
        "for _ in range(3): get('/count')\n"
        "print('speed:', {'a': 10, 'b': 20}.get(answer['arm'], 30), flush=True)\n" + then
    )
