"""Put first on PYTHONPATH: every Python process started from there writes a record of itself, if one is asked for.

Python imports one module of this name at its start. This one passes on to the one that it shadows, exactly once.
"""

from __future__ import annotations

import os
import sys


def _record() -> None:
    if not os.environ.get("ENVSNAP_RECORD") or os.environ.get("ENVSNAP_DISABLE") == "1" or sys.version_info < (3, 10):
        return
    try:
        if "envsnap" not in sys.modules:
            # By its place, not by its name: the interpreter may not have envsnap among its packages, and must not be
            # given the packages that lie beside envsnap.
            from importlib.util import module_from_spec, spec_from_file_location

            here = os.path.abspath(__file__)
            for _ in range(3):
                here = os.path.dirname(here)
            file = os.path.join(here, "__init__.py")
            spec = spec_from_file_location("envsnap", file, submodule_search_locations=[here])
            if spec is None or spec.loader is None:
                return
            module = module_from_spec(spec)
            sys.modules["envsnap"] = module
            spec.loader.exec_module(module)
        from envsnap.integrations import recorder

        recorder.start_any()
    except Exception:
        pass  # a record that did not arrive is reported by who expects it; the process itself must not notice


def _pass_on() -> None:
    """Run the `sitecustomize` that would have been found without this directory.

    It becomes `sys.modules["sitecustomize"]`, as its other users expect, and what it raises is raised.
    """
    here = os.path.realpath(os.path.dirname(__file__))
    entries = [os.path.realpath(entry) for entry in sys.path]
    # NOTE: only what comes after this directory: whoever stands before it and passed on to here has had its turn.
    after = entries.index(here) + 1 if here in entries else 0
    rest = [entry for entry, real in zip(sys.path[after:], entries[after:]) if real != here]
    for finder in sys.meta_path:
        if getattr(finder, "__name__", "") == "PathFinder":
            spec = finder.find_spec("sitecustomize", rest)
            if spec is not None and spec.loader is not None:
                from importlib.util import module_from_spec

                module = module_from_spec(spec)
                sys.modules["sitecustomize"] = module
                spec.loader.exec_module(module)
            return


_record()
_pass_on()
