"""The weights of the ranking: one table, with where each figure comes from."""

from __future__ import annotations

STRONG = 2.0
"""Log odds of a clue that nearly settles it (7 to 1)."""
FAIR = 1.0
"""Log odds of a clue that makes a cause clearly likelier (3 to 1)."""
WEAK = 0.5
"""Log odds of a hint (5 to 3)."""
