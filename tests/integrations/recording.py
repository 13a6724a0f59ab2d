"""Real processes that record themselves, and the records that they leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envsnap.integrations import site_directory

ROOT = Path(__file__).parents[2]
QUICK = {"ENVSNAP_RECORD_SETTLE_SECONDS": "0.2", "ENVSNAP_RECORD_INTERVAL_SECONDS": "0.1"}


def environment(path: str = "", **variables: str) -> dict[str, str]:
    """A small environment whose PYTHONPATH is the recorder's directory and what `path` adds."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    return {**inherited, "PYTHONPATH": os.pathsep.join(p for p in (site_directory(), path) if p), **variables}


def run(
    code: str, env: Mapping[str, str], *arguments: str, timeout: float = 60, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Run a program (a file's name, or Python code) to its end."""
    program = [code] if code.endswith(".py") else ["-c", code]
    return subprocess.run(
        [python, *program, *arguments], env=dict(env), cwd="/", capture_output=True, text=True, timeout=timeout
    )


def records(directory: Path) -> list[dict[str, Any]]:
    """Every record in a directory, in order of their files' names."""
    return [json.loads(file.read_text()) for file in sorted(directory.glob("*.json"))]


def wait_for(condition: Any, seconds: float = 30) -> Any:
    """What `condition` answers once that is true. It decides nothing but when a test gives up."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
    return found
