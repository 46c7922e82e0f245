"""The states of an actor's life, and the only ways from one to the next (M1).

>>> State.RUNNING.may_become(State.STOPPING)
True
>>> State.STOPPED.may_become(State.RUNNING)
False
"""

from __future__ import annotations

from enum import Enum

__all__ = ["State"]


class State(Enum):
    """The lifecycle state of an actor."""

    CREATED = "created"
    """Spawned; nothing of it has run yet."""
    STARTING = "starting"
    """Its constructor and `pre_start` run; messages wait."""
    RUNNING = "running"
    STOPPING = "stopping"
    """`pre_stop`, then its children, then `post_stop`; what is sent to it is a dead letter."""
    STOPPED = "stopped"
    """Nothing of it will run any more, but it is still registered."""
    FAILED = "failed"
    """It raised, and is waiting for a decision."""
    RESTARTING = "restarting"
    TERMINATED = "terminated"

    def may_become(self, next_state: State) -> bool:
        """Whether the life of an actor may go on with `next_state`; a kill leads from anywhere to TERMINATED."""
        return next_state in _NEXT[self]

    @property
    def code(self) -> int:
        """The number that stands for it in compiled code."""
        return CODES[self]


_NEXT: dict[State, frozenset[State]] = {
    State.CREATED: frozenset({State.STARTING, State.TERMINATED}),
    State.STARTING: frozenset({State.RUNNING, State.FAILED, State.STOPPING}),
    State.RUNNING: frozenset({State.STOPPING, State.FAILED, State.RESTARTING}),
    State.FAILED: frozenset({State.RUNNING, State.RESTARTING, State.STOPPING, State.TERMINATED}),
    State.RESTARTING: frozenset({State.STARTING, State.FAILED, State.STOPPING}),
    State.STOPPING: frozenset({State.STOPPED}),
    State.STOPPED: frozenset({State.RESTARTING, State.TERMINATED}),
    State.TERMINATED: frozenset(),
}

STATES = tuple(State)
CODES = {state: code for code, state in enumerate(STATES)}
