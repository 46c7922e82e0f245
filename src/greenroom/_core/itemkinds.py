"""What a cell can have in hand, and what came of it. Never compiled, as `flags`: hot modules copy these numbers into C
integers.
"""

from __future__ import annotations

NOTHING = 0
MESSAGE = 1
NOTICED = 2
ORDERED = 3
STASHED = 4
"""A message that its handler has put aside."""

# How a message was sent.
TOLD = 0
ASKED = 1
TICKED = 2
"""By a timer."""

# What came of an ask.
OPEN = 0
ANSWERED = 1
FAILED = 2
GIVEN_UP = 3

ATOMS = frozenset((int, float, bool, type(None)))
"""Types of messages that can be sent to any process, and need not be looked at."""
