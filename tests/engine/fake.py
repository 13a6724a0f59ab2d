"""A stand-in for the engine's environment, of which plans and boards are tested without the real one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.engine.environment import Engine

PACKAGE = Path(__file__).parent / "programs" / "sglang"
MODELS = Path(__file__).parent / "cpu" / "make_models.py"


def fake_engine(folder: Path) -> Engine:
    """An engine whose package is the stand-in."""
    package = folder / "installed-engine" / "sglang"
    _copy(package)
    return Engine(sys.executable, folder / "models", package)


def fake_kit(folder: Path) -> Path:
    """What the kit for a GPU machine looks like when it is unpacked, with the stand-in for the engine."""
    dest = folder / "kit"
    _copy(dest / "site" / "sglang")
    subprocess.run([sys.executable, str(MODELS), str(dest / "models")], check=True, capture_output=True)
    return dest


def _copy(package: Path) -> None:
    """Files that are no code of ours lie in the stand-in as .txt, and lose that here."""
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for text in package.rglob("*.py.txt"):
        text.rename(text.with_suffix(""))
