"""Python environments made by hand in a temporary directory, and the section that a capture makes of them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envsnap.capture import capture
from envsnap.host import Host, LiveHost
from envsnap.scope import Scope
from envsnap.snapshot import Section

MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"
BASE = Path(os.path.realpath(sys.executable))


class Venv:
    """A virtual environment as `python -m venv` makes it, less what nobody here runs."""

    def __init__(self, root: Path, system_site: bool = False) -> None:
        self.root = root
        self.site = root / f"lib/python{MINOR}/site-packages"
        self.site.mkdir(parents=True)
        self.python = root / "bin/python"
        self.python.parent.mkdir()
        self.python.symlink_to(BASE)
        (root / "lib64").symlink_to("lib")
        settings = {"home": str(BASE.parent), "include-system-site-packages": str(system_site).lower()}
        settings["version"] = ".".join(str(part) for part in sys.version_info[:3])
        (root / "pyvenv.cfg").write_text("".join(f"{k} = {v}\n" for k, v in settings.items()))

    def dist(
        self,
        name: str,
        version: str,
        requires: Sequence[str] = (),
        record: str | None = "",
        direct_url: Any = None,
        description: str = "",
        site: Path | None = None,
    ) -> Path:
        """An installed distribution; its metadata directory."""
        folder = (site or self.site) / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir(parents=True)
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {line}" for line in requires]
        (folder / "METADATA").write_text("\n".join(lines) + f"\n\n{description}\n")
        if record is not None:
            (folder / "RECORD").write_text(record)
        if direct_url is not None:
            text = direct_url if isinstance(direct_url, str) else json.dumps(direct_url)
            (folder / "direct_url.json").write_text(text)
        return folder

    @property
    def scope(self) -> Scope:
        return Scope(python=str(self.python), cache=False)


def section_of(name: str, scope: Scope, host: Host | None = None) -> Section:
    """One section of a real capture, all of whose readings keep to their declarations."""
    section = capture(scope, host or LiveHost(), only=[name]).sections[name]
    assert section.errors == {}
    assert section.status in ("ok", "partial"), section.reason
    return section
