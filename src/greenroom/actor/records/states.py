"""The states of an actor's life, and the only ways from one to the next (M1).

`State` is what users see. A `Stage` says what is under way, and what comes after: `life/machine.py` has their table.

>>> State.RUNNING.may_become(State.STOPPING)
True
>>> State.STOPPED.may_become(State.RUNNING)
False
"""

from __future__ import annotations

from enum import Enum, IntEnum


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


class Stage(IntEnum):
    """How far an actor's life has come. The first eight are the states, with their codes."""

    CREATED = 0
    STARTING = 1
    RUNNING = 2
    STOPPING = 3
    """Stops for good: `pre_stop` runs."""
    STOPPED = 4
    FAILED = 5
    """Failed; the decision is being made."""
    RESTARTING = 6
    """Leaves to be restarted: `pre_restart` and `snapshot` run."""
    TERMINATED = 7
    WILL_STOP = 8
    """Failed; the order to stop is on its way."""
    WILL_RESTART = 9
    """Failed; the order to restart is on its way."""
    ESCALATED = 10
    """Failed; a decision further up is awaited."""
    RESTING = 11
    """Has ended, and waits to be started again."""
    PAUSING = 12
    """A supervisor's child that stops, and is to be started again: `pre_stop` runs."""
    RESTARTING_CHILDREN = 13
    """Waits for its children to end; so do the others of this name."""
    PAUSING_CHILDREN = 14
    STOPPING_CHILDREN = 15
    KILLED_CHILDREN = 16
    RESTARTING_POST_STOP = 17
    """`post_stop` runs; so it does in the others of this name."""
    PAUSING_POST_STOP = 18
    STOPPING_POST_STOP = 19
    KILLED_POST_STOP = 20

    @property
    def state(self) -> State | None:
        """What users see of it; None for a killed actor, which is shown as what it was."""
        return _SHOWN.get(self, State.FAILED) if self > Stage.TERMINATED else STATES[self]


_SHOWN = {
    Stage.RESTING: State.RESTARTING,
    Stage.PAUSING: State.STOPPING,
    Stage.RESTARTING_CHILDREN: State.RESTARTING,
    Stage.PAUSING_CHILDREN: State.STOPPING,
    Stage.STOPPING_CHILDREN: State.STOPPING,
    Stage.KILLED_CHILDREN: None,
    Stage.RESTARTING_POST_STOP: State.RESTARTING,
    Stage.PAUSING_POST_STOP: State.STOPPING,
    Stage.STOPPING_POST_STOP: State.STOPPING,
    Stage.KILLED_POST_STOP: None,
}


def _is(*stages: Stage) -> tuple[bool, ...]:
    """A table by stage: compiled code looks up a number faster than a member of a set."""
    return tuple(stage in stages for stage in Stage)


WAITS_FOR_CHILDREN = _is(
    Stage.RESTARTING_CHILDREN, Stage.PAUSING_CHILDREN, Stage.STOPPING_CHILDREN, Stage.KILLED_CHILDREN
)
RUNS_POST_STOP = _is(
    Stage.RESTARTING_POST_STOP, Stage.PAUSING_POST_STOP, Stage.STOPPING_POST_STOP, Stage.KILLED_POST_STOP
)
GOES_DOWN = tuple(
    stage in (Stage.RESTARTING, Stage.PAUSING, Stage.STOPPING, Stage.STOPPED)
    or WAITS_FOR_CHILDREN[stage]
    or RUNS_POST_STOP[stage]
    for stage in Stage
)
"""On its way to `post_stop`, whatever comes after."""
COMES_BACK = _is(
    Stage.WILL_RESTART,
    Stage.RESTARTING,
    Stage.PAUSING,
    Stage.RESTARTING_CHILDREN,
    Stage.PAUSING_CHILDREN,
    Stage.RESTARTING_POST_STOP,
    Stage.PAUSING_POST_STOP,
)
"""On its way to rest, and to be started again."""
