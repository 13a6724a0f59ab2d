from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from envsnap import collectors
from tests import probe
from tests.processes import Spawn

COLOURS = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE")

# A busy machine fails no property: what is slow is for tests/benchmarks/ to tell.
settings.register_profile("unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_configure() -> None:
    """Programs are started as on a plain terminal.

    A suite that was started in the background ignores signals, which the programs it starts would inherit.
    """
    for name in COLOURS:
        os.environ.pop(name, None)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts programs; at the end of the test, however that came, none of them runs any more."""
    started = Spawn()
    try:
        yield started
    finally:
        started.end()


@pytest.fixture
def probe_keys(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The probe is the only collector there is."""
    folder = tmp_path_factory.mktemp("collectors")
    (folder / "probe.py").touch()
    monkeypatch.setattr(collectors, "__path__", [str(folder)])
    monkeypatch.setitem(sys.modules, "envsnap.collectors.probe", probe)
    _forget()
    yield
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    for cached in (collectors.names, collectors.keys, collectors.collector, collectors._sections):
        cached.cache_clear()
