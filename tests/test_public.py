"""The public names of the package: all there, the functions stay functions, and importing it costs nothing."""

from __future__ import annotations

import subprocess
import sys
from types import FunctionType, ModuleType

import pytest

import envsnap


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", envsnap.__all__)
def test_every_public_name_is_there_and_is_no_module(name: str) -> None:
    assert not isinstance(getattr(envsnap, name), ModuleType)


def test_functions_stay_functions_whatever_is_imported() -> None:
    import envsnap.capture
    import envsnap.check
    import envsnap.diff

    for function in (envsnap.capture, envsnap.check, envsnap.diff):
        assert isinstance(function, FunctionType)
    code = "import envsnap.diff, envsnap.check; print(envsnap.diff.__name__, envsnap.check.__name__)"
    assert _python(code).split() == ["diff", "check"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        getattr(envsnap, "nothing")  # noqa: B009 (mypy knows that it is not there)
    assert not hasattr(envsnap, "collector")


def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys, typing, types; before = set(sys.modules); import envsnap; "
        "print([m for m in sys.modules if m not in before and not m.startswith('__editable__')])"
    )
    assert _python(code).strip() == "['envsnap']"
