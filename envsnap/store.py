"""The folder `.envsnap/`: where snapshots go that were given no name, and how the newest are found."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

FOLDER = ".envsnap"


def new_file(root: Path | None = None, now: datetime | None = None) -> Path:
    """A name for a snapshot taken `now`, in the folder below `root` (default: the working directory), which is made.

    The folder ignores itself in git, so that a snapshot never makes the tree dirty that it describes.
    Raises: OSError.
    """
    folder = (root or Path()) / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    stem = (now or datetime.now(timezone.utc)).strftime("%Y%m%dT%H%M%SZ")
    path = folder / f"{stem}.json"
    number = 2
    while path.exists():
        path = folder / f"{stem}-{number}.json"
        number += 1
    return path


def newest(count: int = 1, root: Path | None = None) -> list[Path]:
    """The newest snapshots in the folder, oldest of them first; fewer where there are fewer."""
    folder = (root or Path()) / FOLDER
    found = [p for pattern in ("*.json", "*.json.gz") for p in folder.glob(pattern)]
    return sorted(found, key=lambda p: (p.stat().st_mtime_ns, p.name))[-count:]
