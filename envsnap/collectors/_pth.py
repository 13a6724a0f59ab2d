"""The .pth files in site directories: a line adds a directory to the import path, or is code that runs at start."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from envsnap.host import Host
from envsnap.reading import Found, Value

PTH_BYTES = 1 << 20
PTH_COUNT = 1000


@dataclass(frozen=True)
class Pth:
    """A .pth file."""

    directory: str
    name: str
    text: Found

    @property
    def lines(self) -> list[str]:
        """Its lines, less comments and empty ones; none where it cannot be read."""
        text = str(self.text.value) if isinstance(self.text, Value) else ""
        return [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith("#")]

    @property
    def imports(self) -> list[str]:
        """The lines that are code, run at every start of Python."""
        return [line for line in self.lines if line.startswith(("import ", "import\t"))]


def pth_files(host: Host, directories: Sequence[str]) -> list[Pth]:
    """The .pth files in site directories, in the order in which Python obeys them."""
    listed = host.found([["list", directory] for directory in directories])
    places = [
        (directory, name)
        for directory, names in zip(directories, listed)
        if isinstance(names, Value)
        for name in [n for n in names.value if n.endswith(".pth") and not n.startswith(".")][:PTH_COUNT]
    ]
    texts = host.found([["read", posixpath.join(d, name), PTH_BYTES] for d, name in places])
    return [Pth(directory, name, text) for (directory, name), text in zip(places, texts)]
