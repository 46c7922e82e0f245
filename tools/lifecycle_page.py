"""Writes docs/lifecycle.md, the life of an actor, from the table that the runtime goes by.

python -m tools.lifecycle_page
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from greenroom.actor.life.machine import TABLE, Action, Event
from greenroom.actor.records.states import Stage, State

__all__ = ["PAGE", "page"]

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "lifecycle.md"

EVENTS = {
    Event.START: "start",
    Event.STARTED: "started",
    Event.FAIL: "failure",
    Event.DECIDED_STOP: "decision: stop",
    Event.DECIDED_RESTART: "decision: restart",
    Event.DECIDED_RESUME: "decision: resume",
    Event.DECIDED_ESCALATE: "decision: escalate",
    Event.RESTART: "restart",
    Event.PAUSE: "stop of a supervisor's child that comes back",
    Event.STOP: "stop",
    Event.KILL_AND_RESTART: "kill of a supervisor's child that comes back",
    Event.KILL: "kill",
    Event.LEFT: "hooks done",
    Event.ALONE: "children gone",
    Event.DONE: "`post_stop` done",
    Event.BROKEN_OFF: "a hook was abandoned",
}
ACTIONS = {
    Action.RENEW: "a new incarnation is counted",
    Action.MAKE: "the constructor",
    Action.PRE_START: "`pre_start`",
    Action.TAKE_UP: "`restore`, `post_restart`",
    Action.POST_START: "`post_start`",
    Action.RUN: "those who wait for the start are told",
    Action.HOLD: "messages wait",
    Action.RELEASE: "messages are handled again",
    Action.CLOSE: "new messages are dead letters",
    Action.PRE_STOP: "`pre_stop`",
    Action.PRE_RESTART: "`pre_restart`, `snapshot`",
    Action.DRAIN: "the queue is drained",
    Action.DRAIN_MESSAGES: "the queue is drained, but for notices",
    Action.END_CHILDREN: "the children are told to stop",
    Action.KILL_CHILDREN: "the children are killed",
    Action.POST_STOP: "`post_stop`",
    Action.DISCARD: "timers, watches of descriptors and behaviors end",
    Action.REST: "the restart is awaited",
    Action.FINISH: "watchers, links, monitors and the parent are told",
}

_HEAD = """\
# Lifecycle

This page is made by `make reference` from the table that the runtime goes by, `actor/life/machine.py`.
[Actors](actors.md) says what each hook is for, and [Supervision](supervision.md) what is decided on a failure.

## States

`ref.state` is one of these. A killed actor keeps its state until it is TERMINATED; a failed one is FAILED until what
was decided happens.

```mermaid
stateDiagram-v2
    [*] --> CREATED
"""
_TABLE = """```

## Stages

A stage says more than a state: what is under way, and what comes after. What is not in a stage's rows means nothing
there: an actor that stops cannot be restarted, for example.

| stage | state | event | what happens, in this order | stage |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    return _HEAD + "\n".join(_ways()) + "\n" + _TABLE + "\n".join(_rows()) + "\n"


def _ways() -> Iterator[str]:
    """The ways from one state to another, with the events that lead there."""
    ways: dict[tuple[State, State], dict[str, None]] = {}
    for (stage, event), row in TABLE.items():
        before, after = stage.state, row.stage.state
        if after is None and Action.CLOSE in row.actions:
            after = State.TERMINATED
        if before is not None and after is not None and before is not after:
            ways.setdefault((before, after), {})[EVENTS[event].replace("`", "")] = None
    ways[State.STOPPED, State.TERMINATED] = {"unregistered": None}
    for (before, after), events in sorted(ways.items(), key=lambda way: (way[0][0].code, way[0][1].code)):
        yield f"    {before.name} --> {after.name}: {', '.join(events)}"
    yield "    TERMINATED --> [*]"


def _rows() -> Iterator[str]:
    for stage in Stage:
        for event in Event:
            row = TABLE.get((stage, event))
            if row is not None:
                shown = "as it was" if stage.state is None else stage.state.name
                actions = ", ".join(ACTIONS[action] for action in row.actions) or "nothing more"
                yield f"| {stage.name} | {shown} | {EVENTS[event]} | {actions} | {row.stage.name} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(REPOSITORY)}\n")
