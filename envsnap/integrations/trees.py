"""Whose code a file is: the standard library's, an installed package's, or that of a tree which somebody works in."""

from __future__ import annotations

import os
import sysconfig

OFF = "off"

_CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "SGLANG_CACHE_DIR", "VLLM_CACHE_ROOT", "XDG_CACHE_HOME")
"""Where generated code lies, if not in a default place."""
_GENERATED = (os.sep + ".cache" + os.sep, os.sep + ".triton" + os.sep, os.sep + "torchinductor_")
_PACKAGES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_STANDARD = tuple(os.path.realpath(sysconfig.get_paths()[name]) + os.sep for name in ("stdlib", "platstdlib"))
_OWN = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep


def is_installed(path: str) -> bool:
    """Whether a real path is in a directory of installed packages."""
    return any(part in path for part in _PACKAGES)


def is_standard(path: str) -> bool:
    """Whether a real path is in the standard library."""
    return path.startswith(_STANDARD) and not is_installed(path)


def is_generated(path: str) -> bool:
    """Whether a real path is that of code which a compiler has put into its cache."""
    caches = [os.path.realpath(os.environ[name]) + os.sep for name in _CACHES if os.environ.get(name)]
    return any(part in path for part in _GENERATED) or path.startswith(tuple(caches))


def is_own(path: str) -> bool:
    """Whether a real path is in envsnap itself."""
    return path.startswith(_OWN)


class Trees:
    """The recorded trees, whose code is watched line by line and hashed.

    `given` is ENVSNAP_RECORD_CODE: directories separated by colons, or `off`. Empty: all code that is neither the
    standard library's nor an installed package's, so repositories, editable installs and scripts.
    """

    def __init__(self, given: str) -> None:
        self.off = given == OFF
        self.given: tuple[str, ...] = ()
        if not self.off:
            self.given = tuple(os.path.realpath(part) + os.sep for part in given.split(os.pathsep) if part)
        self._known: dict[str, bool] = {}

    def holds(self, file: str) -> bool:
        """Whether code of this file name is recorded. The answer is kept: it is asked for at every function's start."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = not file.startswith("<") and self.holds_real(os.path.realpath(file))
        return known

    def holds_real(self, path: str) -> bool:
        """The same for a real path."""
        if self.off or self.given:
            return path.startswith(self.given) and not self.off
        return not (is_own(path) or is_installed(path) or is_standard(path) or is_generated(path))
