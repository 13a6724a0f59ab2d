"""No secret goes into a record: the same rules as for a snapshot, and nothing at all where they cannot be had."""

from __future__ import annotations

import pathlib
from typing import Any

WITHHELD = "<withheld>"


class Cleaner:
    """`envsnap.redact`, loaded when the first record of a process is made."""

    def __init__(self, directory: str) -> None:
        try:
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
