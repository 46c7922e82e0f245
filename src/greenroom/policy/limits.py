"""How many restarts are too many: for plain supervision, for supervisors and for pods.

>>> window = Window(limit=3, within=5.0)
>>> [window.admits(moment) for moment in (0.0, 1.0, 2.0, 3.0)]
[True, True, True, False]
"""

from __future__ import annotations

from collections import deque

from greenroom.policy.backoff import elapsed


class Window:
    """The restarts of the last `within` seconds, both ends included; at most `limit` of them are allowed."""

    __slots__ = ("_moments", "limit", "within")

    def __init__(self, limit: int | None, within: float) -> None:
        # None: as many as there are.
        self.limit = limit
        self.within = within
        # Invariant: in order, none older than `within` at the last look, and at most limit + 1
        self._moments: deque[float] = deque()

    def __len__(self) -> int:
        return len(self._moments)

    def admits(self, now: float) -> bool:
        """Note a restart at `now`, not before the last one; whether that is still within the limit."""
        if self.limit is None:
            return True
        moments = self._moments
        while moments and elapsed(moments[0], now) > self.within:
            moments.popleft()
        moments.append(now)
        if len(moments) <= self.limit:
            return True
        moments.popleft()  # what comes next is refused by the newer ones
        return False
