from __future__ import annotations

from envsnap.host import LiveHost
from envsnap.reading import Unavailable
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost


def test_a_clock_in_step() -> None:
    host = FakeHost(replies={("clock",): {"synchronised": True, "error_us": 250}})
    assert section("clock", host).values == {"clock.synchronised": True, "clock.error_seconds": 0.00025}


def test_the_clock_of_this_machine() -> None:
    values = section("clock", LiveHost()).values
    assert isinstance(values["clock.synchronised"], bool)
    assert 0 <= values["clock.error_seconds"] < 1000


def test_a_kernel_that_does_not_say() -> None:
    assert isinstance(on_the_empty_machine("clock").reading("clock.synchronised"), Unavailable)
