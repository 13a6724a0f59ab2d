from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from envsnap import collectors
from tests import probe


@pytest.fixture
def probe_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The probe is the only collector there is."""
    monkeypatch.setitem(sys.modules, "envsnap.collectors.probe", probe)
    monkeypatch.setattr(collectors, "names", lambda: ("probe",))
    caches = (collectors.keys, collectors._sections, collectors.collector)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()
