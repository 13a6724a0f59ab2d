"""No secret goes into a record: the same rules as for a snapshot, and nothing at all where they cannot be had."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
from typing import Any

WITHHELD = "<withheld>"


class Cleaner:
    """`envsnap.redact`, loaded when the first record of a process is made."""

    def __init__(self, directory: str) -> None:
        try:
            _provide_envsnap()
            from envsnap.redact import Redactor

            # The key lies beside the records: the same secret has the same hash in all of them.
            self._redactor: Any = Redactor(pathlib.Path(directory))
        except Exception:
            self._redactor = None

    def environment(self, views: tuple[dict[str, str], Any]) -> dict[str, Any]:
        """{"values", "libc", "differs": {NAME: {"os_environ", "libc"}}}; a name that a view lacks is not in it.

        `values` is libc's view where there is one, since it is what libraries act on; `libc` says why there is none.
        """
        python, libc = views
        if isinstance(libc, str):
            return {"values": self._values(python), "libc": libc, "differs": {}}
        differs: dict[str, dict[str, str]] = {}
        for name in sorted({*python, *libc}):
            if python.get(name) != libc.get(name):
                sides = {"os_environ": python.get(name), "libc": libc.get(name)}
                differs[name] = {side: self._value(name, v) for side, v in sides.items() if v is not None}
        return {"values": self._values(libc), "libc": "", "differs": differs}

    def clean(self, value: Any) -> Any:
        """Any JSON value, the names of objects' fields counting as names."""
        if self._redactor is not None:
            return self._redactor.clean(value)
        if isinstance(value, dict):
            return {name: self.clean(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.clean(inner) for inner in value]
        return WITHHELD if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """Free text."""
        return str(self._redactor.clean_text(text)) if self._redactor is not None else WITHHELD

    def _values(self, environment: dict[str, str]) -> dict[str, str]:
        return {name: self._value(name, value) for name, value in sorted(environment.items())}

    def _value(self, name: str, value: str) -> Any:
        if self._redactor is None:
            return WITHHELD
        from envsnap.keys import path_of

        return self._redactor.clean_value(path_of("record[].env[]", "self", name), value)


def _provide_envsnap() -> None:
    """Make `envsnap` importable where only this package was brought along: from beside it, and nothing else there."""
    if "envsnap" in sys.modules:
        return
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "envsnap")
    spec = importlib.util.spec_from_file_location(
        "envsnap", os.path.join(beside, "__init__.py"), submodule_search_locations=[beside]
    )
    if spec is None or spec.loader is None:
        raise ImportError(beside)
    module = importlib.util.module_from_spec(spec)
    sys.modules["envsnap"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules["envsnap"]
        raise
