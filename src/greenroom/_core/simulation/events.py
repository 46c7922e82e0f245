"""What a director writes down. Never compiled, as `flags`: hot modules copy these numbers into C integers."""

from __future__ import annotations

# A message was sent; these come first.
from greenroom._core.itemkinds import ASKED as ASKED
from greenroom._core.itemkinds import TICKED as TICKED
from greenroom._core.itemkinds import TOLD as TOLD

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
DECLINED = 15
"""An actor refused a message that was told, not asked."""

ENTRIES = 6
"""Of the log, for each event: kind, step, time, who, what, whom."""
