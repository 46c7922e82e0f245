"""The life of an actor as a table: what happens at each stage, and what comes next.

A row says to which stage an event leads, what is done there, one after the other, and which event follows from that. An
event that has no row at some stage means nothing there. `Lifecycle.advance` carries rows out; `starting`, `stopping`
and `restarting` say what each action does.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import NamedTuple

from greenroom._core.mailbox.cell import HostOrder
from greenroom.actor.records.states import Stage

# The orders by which an actor begins and ends, which `Lifecycle.carry_out` turns into events.
START = HostOrder(0, "start")
STOP = HostOrder(1, "stop")
STOP_ITSELF = HostOrder(2, "stop by itself")
"""An actor's own: until it acts, the handler that asked for it is not hurried."""
SHUT_DOWN = HostOrder(3, "shut down")
KILL = HostOrder(4, "be killed")
CLOSE = HostOrder(5, "close")
"""The last child has gone: the ending goes on."""
BREAK_OFF = HostOrder(6, "go on without a hook")
"""A hook was abandoned."""


class Event(IntEnum):
    START = 0
    """The actor is to be made: for the first time, or again."""
    STARTED = auto()
    FAIL = auto()
    """The start, a handler or a hook raised; or the actor was told to fail."""
    DECIDED_STOP = auto()
    """The decision on a failure; so are the next three."""
    DECIDED_RESTART = auto()
    DECIDED_RESUME = auto()
    DECIDED_ESCALATE = auto()
    RESTART = auto()
    """The actor is told to end this incarnation, and to be made afresh."""
    PAUSE = auto()
    """The actor is told to stop, and its supervisor will start it again."""
    STOP = auto()
    """The actor is told to stop for good."""
    KILL_AND_RESTART = auto()
    """As RESTART, without `pre_restart`; the children are killed."""
    KILL = auto()
    """As STOP, without `pre_stop`; the children are killed."""
    LEFT = auto()
    """`pre_stop` or `pre_restart` is over."""
    ALONE = auto()
    """The last child has ended."""
    DONE = auto()
    """`post_stop` is over."""
    BROKEN_OFF = auto()
    """A hook that did not end was abandoned."""


class Action(IntEnum):
    RENEW = 0
    """Count a new incarnation."""
    MAKE = auto()
    """Call the factory."""
    PRE_START = auto()
    TAKE_UP = auto()
    """`restore` and `post_restart`."""
    POST_START = auto()
    RUN = auto()
    """Tell those who wait for the start."""
    HOLD = auto()
    """Messages wait for the next incarnation."""
    RELEASE = auto()
    CLOSE = auto()
    """What is sent from now on is a dead letter."""
    PRE_STOP = auto()
    PRE_RESTART = auto()
    """`pre_restart` and `snapshot`."""
    DRAIN = auto()
    """Dispose of what is queued."""
    DRAIN_MESSAGES = auto()
    """As DRAIN, but notices wait for the next incarnation."""
    END_CHILDREN = auto()
    """Tell the children to end; the row ends here if there are any."""
    KILL_CHILDREN = auto()
    """Kill the children; the row ends here if there are any."""
    POST_STOP = auto()
    DISCARD = auto()
    """End the timers, pipes, behaviors and owed replies of the instance, and forget it."""
    REST = auto()
    """Tell the supervisor or the siblings, or wait for the backoff."""
    FINISH = auto()
    """Steps 9 to 15 of `stopping`."""


class Row(NamedTuple):
    stage: Stage
    actions: tuple[Action, ...] = ()
    then: Event | None = None


FIRST_START = (Action.MAKE, Action.PRE_START, Action.POST_START)
NEXT_START = (Action.RENEW, Action.MAKE, Action.PRE_START, Action.TAKE_UP, Action.POST_START)
LEAVE = (Action.CLOSE, Action.DRAIN, Action.END_CHILDREN)
LEAVE_FOR_NOW = (Action.HOLD, Action.DRAIN_MESSAGES, Action.END_CHILDREN)
LEAVE_AT_ONCE = (Action.HOLD, Action.KILL_CHILDREN)

TABLE: dict[tuple[Stage, Event], Row] = {
    # -- it starts
    (Stage.CREATED, Event.START): Row(Stage.STARTING, FIRST_START, Event.STARTED),
    (Stage.RESTING, Event.START): Row(Stage.STARTING, NEXT_START, Event.STARTED),
    (Stage.STARTING, Event.STARTED): Row(Stage.RUNNING, (Action.RUN,)),
    # -- it fails
    (Stage.STARTING, Event.FAIL): Row(Stage.FAILED),
    (Stage.RUNNING, Event.FAIL): Row(Stage.FAILED),
    (Stage.WILL_STOP, Event.FAIL): Row(Stage.FAILED),
    (Stage.FAILED, Event.DECIDED_STOP): Row(Stage.WILL_STOP),
    (Stage.FAILED, Event.DECIDED_RESTART): Row(Stage.WILL_RESTART, (Action.HOLD,)),
    (Stage.FAILED, Event.DECIDED_RESUME): Row(Stage.RUNNING, (Action.RELEASE,)),
    (Stage.FAILED, Event.DECIDED_ESCALATE): Row(Stage.ESCALATED, (Action.HOLD,)),
    # Its parent goes on, and it with that one.
    (Stage.ESCALATED, Event.DECIDED_STOP): Row(Stage.WILL_STOP),
    (Stage.ESCALATED, Event.DECIDED_RESTART): Row(Stage.WILL_RESTART, (Action.HOLD,)),
    (Stage.ESCALATED, Event.DECIDED_RESUME): Row(Stage.RUNNING, (Action.RELEASE,)),
    # -- it is restarted
    (Stage.RUNNING, Event.RESTART): Row(Stage.RESTARTING, (Action.HOLD, Action.PRE_RESTART), Event.LEFT),
    (Stage.WILL_RESTART, Event.RESTART): Row(Stage.RESTARTING, (Action.HOLD, Action.PRE_RESTART), Event.LEFT),
    (Stage.STARTING, Event.RESTART): Row(Stage.RESTARTING_CHILDREN, (Action.HOLD, Action.END_CHILDREN), Event.ALONE),
    (Stage.RESTARTING, Event.LEFT): Row(Stage.RESTARTING_CHILDREN, (Action.END_CHILDREN,), Event.ALONE),
    (Stage.RESTARTING_CHILDREN, Event.ALONE): Row(
        Stage.RESTARTING_POST_STOP, (Action.POST_STOP, Action.DISCARD), Event.DONE
    ),
    (Stage.RESTARTING_POST_STOP, Event.DONE): Row(Stage.RESTING, (Action.REST,)),
    # -- it stops, and its supervisor will start it again
    (Stage.RUNNING, Event.PAUSE): Row(Stage.PAUSING, (Action.HOLD, Action.PRE_STOP), Event.LEFT),
    (Stage.PAUSING, Event.LEFT): Row(Stage.PAUSING_CHILDREN, (Action.DRAIN_MESSAGES, Action.END_CHILDREN), Event.ALONE),
    (Stage.PAUSING_CHILDREN, Event.ALONE): Row(Stage.PAUSING_POST_STOP, (Action.POST_STOP, Action.DISCARD), Event.DONE),
    (Stage.PAUSING_POST_STOP, Event.DONE): Row(Stage.RESTING, (Action.REST,)),
    # -- it stops for good
    (Stage.RUNNING, Event.STOP): Row(Stage.STOPPING, (Action.CLOSE, Action.PRE_STOP), Event.LEFT),
    (Stage.STOPPING, Event.LEFT): Row(Stage.STOPPING_CHILDREN, (Action.DRAIN, Action.END_CHILDREN), Event.ALONE),
    (Stage.STOPPING_CHILDREN, Event.ALONE): Row(Stage.STOPPING_POST_STOP, (Action.POST_STOP,), Event.DONE),
    (Stage.STOPPING_POST_STOP, Event.DONE): Row(Stage.STOPPED, (Action.FINISH,)),
    # -- it is killed
    (Stage.KILLED_CHILDREN, Event.ALONE): Row(Stage.KILLED_POST_STOP, (Action.POST_STOP,), Event.DONE),
    (Stage.KILLED_POST_STOP, Event.DONE): Row(Stage.TERMINATED, (Action.FINISH,)),
    # What was never started is not shown as STOPPING.
    (Stage.CREATED, Event.STOP): Row(Stage.KILLED_CHILDREN, LEAVE, Event.ALONE),
    (Stage.CREATED, Event.KILL): Row(Stage.KILLED_CHILDREN, LEAVE, Event.ALONE),
    # -- it rests, and is not started again: its `post_stop` has run
    (Stage.RESTING, Event.STOP): Row(Stage.STOPPING_POST_STOP, (Action.CLOSE, Action.DRAIN), Event.DONE),
    (Stage.RESTING, Event.KILL): Row(Stage.KILLED_POST_STOP, (Action.CLOSE, Action.DRAIN), Event.DONE),
    # -- it is told something else on its way
    (Stage.STOPPING, Event.KILL): Row(Stage.KILLED_CHILDREN, (Action.DRAIN, Action.KILL_CHILDREN), Event.ALONE),
    (Stage.STOPPING_CHILDREN, Event.KILL): Row(Stage.KILLED_CHILDREN, (Action.KILL_CHILDREN,)),
    (Stage.KILLED_CHILDREN, Event.KILL): Row(Stage.KILLED_CHILDREN, (Action.KILL_CHILDREN,)),
    (Stage.RESTARTING_CHILDREN, Event.KILL_AND_RESTART): Row(Stage.RESTARTING_CHILDREN, (Action.KILL_CHILDREN,)),
    (Stage.PAUSING_CHILDREN, Event.KILL_AND_RESTART): Row(Stage.PAUSING_CHILDREN, (Action.KILL_CHILDREN,)),
    # -- a hook of its own is abandoned
    (Stage.STARTING, Event.BROKEN_OFF): Row(
        Stage.KILLED_CHILDREN, (Action.CLOSE, Action.DRAIN, Action.KILL_CHILDREN), Event.ALONE
    ),
    (Stage.RUNNING, Event.BROKEN_OFF): Row(
        Stage.KILLED_CHILDREN, (Action.CLOSE, Action.DRAIN, Action.KILL_CHILDREN), Event.ALONE
    ),
    (Stage.RESTARTING, Event.BROKEN_OFF): Row(Stage.RESTARTING_CHILDREN, (Action.KILL_CHILDREN,), Event.ALONE),
    (Stage.PAUSING, Event.BROKEN_OFF): Row(Stage.PAUSING_CHILDREN, (Action.KILL_CHILDREN,), Event.ALONE),
    (Stage.STOPPING, Event.BROKEN_OFF): Row(Stage.KILLED_CHILDREN, (Action.DRAIN, Action.KILL_CHILDREN), Event.ALONE),
    (Stage.RESTARTING_POST_STOP, Event.BROKEN_OFF): Row(Stage.RESTARTING_POST_STOP, (Action.DISCARD,), Event.DONE),
    (Stage.PAUSING_POST_STOP, Event.BROKEN_OFF): Row(Stage.PAUSING_POST_STOP, (Action.DISCARD,), Event.DONE),
    (Stage.STOPPING_POST_STOP, Event.BROKEN_OFF): Row(Stage.KILLED_POST_STOP, (), Event.DONE),
    (Stage.KILLED_POST_STOP, Event.BROKEN_OFF): Row(Stage.KILLED_POST_STOP, (), Event.DONE),
}
# There is nothing to bid farewell to in one that does not run.
for before in (Stage.STARTING, Stage.FAILED, Stage.WILL_STOP, Stage.WILL_RESTART, Stage.ESCALATED):
    TABLE[before, Event.STOP] = Row(Stage.STOPPING_CHILDREN, LEAVE, Event.ALONE)
    TABLE[before, Event.PAUSE] = Row(Stage.PAUSING_CHILDREN, LEAVE_FOR_NOW, Event.ALONE)
for before in (Stage.RUNNING, Stage.STARTING, Stage.FAILED, Stage.WILL_STOP, Stage.WILL_RESTART, Stage.ESCALATED):
    TABLE[before, Event.KILL] = Row(Stage.KILLED_CHILDREN, LEAVE, Event.ALONE)
    TABLE[before, Event.KILL_AND_RESTART] = Row(Stage.RESTARTING_CHILDREN, LEAVE_AT_ONCE, Event.ALONE)
for before in (Stage.RESTARTING, Stage.PAUSING):
    TABLE[before, Event.STOP] = Row(Stage.STOPPING_CHILDREN, LEAVE, Event.ALONE)
    TABLE[before, Event.KILL] = Row(Stage.KILLED_CHILDREN, LEAVE, Event.ALONE)
for before in (Stage.RESTARTING_CHILDREN, Stage.PAUSING_CHILDREN):
    TABLE[before, Event.STOP] = Row(Stage.STOPPING_CHILDREN, (Action.CLOSE, Action.DRAIN))
    TABLE[before, Event.KILL] = Row(Stage.KILLED_CHILDREN, (Action.CLOSE, Action.DRAIN, Action.KILL_CHILDREN))
for before in (Stage.RESTARTING_POST_STOP, Stage.PAUSING_POST_STOP):
    TABLE[before, Event.STOP] = Row(Stage.STOPPING_POST_STOP, (Action.CLOSE, Action.DRAIN))
    TABLE[before, Event.KILL] = Row(Stage.KILLED_POST_STOP, (Action.CLOSE, Action.DRAIN))
