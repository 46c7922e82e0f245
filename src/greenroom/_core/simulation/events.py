"""What a director writes down. Never compiled, as `alerts`: hot modules copy these numbers into C integers."""

from __future__ import annotations

TOLD = 0
"""A message was sent."""
ASKED = 1
"""The same, with a question."""
TICKED = 2
"""The same, by a timer."""
TAKEN = 3
"""A message is handled."""
ANSWERED = 4
REFUSED = 5
"""A question ended without a reply."""
FAILED = 6
"""A handler, a hook or an order let an exception out."""
STARTED = 7
STOPPED = 8
RESTARTED = 9
ESCALATED = 10
FULL = 11
"""A message found no room, and its sender was told."""
DROPPED = 12
DEAD_LETTER = 13
INJECTED = 14
"""A fault that was asked for took place."""

ENTRIES = 6
"""Of the log, for each event: kind, step, time, who, what, whom."""
