from __future__ import annotations

import pytest

from tests.engine.environment import Engine, here


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The real engine; what asks for it is skipped where there is none, with the reason."""
    found = here()
    if isinstance(found, str):
        pytest.skip(found)
    return found
