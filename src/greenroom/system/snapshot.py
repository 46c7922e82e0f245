"""What a system looks like at one moment: frozen, and ready for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from greenroom._core.scheduler.accounting import count_cell
from greenroom.actor.records.record import Body, Family
from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.spawner import CONCURRENT
from greenroom.actor.records.restartstate import Standing
from greenroom.actor.records.states import STATES
from greenroom.lanes import Lane
from greenroom.ledger import Ledger

__all__ = ["ActorSnapshot", "SystemSnapshot", "draw", "snapshots_of"]


@dataclass(frozen=True, slots=True)
class ActorSnapshot:
    """One actor at one moment."""

    id: int
    name: str
    path: str
    kind: str
    state: str
    parent: int | None
    children: tuple[int, ...]
    depths: dict[str, int]
    """How many messages are queued, by lane; lanes that are empty are left out."""
    stashed: int
    busy: bool
    """Whether a message is in hand: its handler is running, or suspended."""
    watchers: int
    ledger: Ledger
    dispatcher: str = CONCURRENT
    """Which dispatcher runs its code."""
    incarnation: int = 1
    """How many times it has been made; 1 if it was never restarted."""
    restarts: int = 0
    """How often it was restarted after a failure or with its siblings; `ref.restart()` does not count."""
    last_restart: float | None = None
    next_attempt: float | None = None
    """When it will be started again, if it waits for that."""
    failures: int = 0
    """How often it failed in a row, without having run for long enough in between."""
    last_failure: str | None = None
    crash_looping: bool = False
    """Whether that is so often that somebody should have a look."""


@dataclass(frozen=True, slots=True)
class SystemSnapshot:
    """A whole system at one moment."""

    name: str
    time: float
    phase: str
    spawned: int
    terminated: int
    dead_letters: int
    dead_letters_by_reason: dict[str, int]
    timers: int
    ledger: Ledger
    actors: tuple[ActorSnapshot, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """The same as plain dicts, lists and numbers."""
        return asdict(self)

    def to_json(self) -> str:
        """The same as JSON."""
        import json  # takes a while to import, and few programs need it

        return json.dumps(self.as_dict())


def snapshots_of(family: Family) -> list[ActorSnapshot]:
    """Every actor of `family` and below, parents before their children."""
    found: list[ActorSnapshot] = []
    waiting = list(reversed(family.bodies()))
    while waiting:
        body = waiting.pop()
        children = [] if body.family is None else body.family.bodies()
        found.append(_snapshot_of(body, children))
        waiting.extend(reversed(children))
    return found


def _snapshot_of(body: Body, children: list[Body]) -> ActorSnapshot:
    cell = body.cell
    ref: ActorRef[Any, Any] = cell.ref
    depths = {lane.name: cell.depth(lane) for lane in Lane}
    return ActorSnapshot(
        id=cell.id,
        name=ref.name,
        path=ref.path,
        kind=body.spec.label[0],
        state=STATES[body.state].value,
        parent=None if ref.parent is None else ref.parent.id,
        children=tuple(child.cell.id for child in children),
        depths={name: depth for name, depth in depths.items() if depth},
        stashed=0 if cell.tally is None else cell.tally.stashed,
        busy=cell.loop.visits.in_hand(cell) > 0,
        watchers=0 if body.watchers is None else len(body.watchers),
        ledger=count_cell(cell),
        dispatcher=_dispatcher_of(body) or CONCURRENT,
        **_restarts_of(body),
    )


def _dispatcher_of(body: Body) -> str | None:
    """The name of the dispatcher that runs its code, if that is not the system's own loop."""
    return None if body.more is None else body.more.dispatcher


def _restarts_of(body: Body) -> dict[str, Any]:
    standing: Standing | None = None if body.more is None else body.more.standing
    if standing is None:
        return {}
    failures = standing.failures_in_a_row(body.cell.loop.now())
    return {
        "incarnation": standing.incarnation,
        "restarts": standing.restarts,
        "last_restart": standing.last_restart,
        "next_attempt": standing.due if standing.resting else None,
        "failures": failures,
        "last_failure": standing.last_failure,
        "crash_looping": failures >= CRASH_LOOP,
    }


CRASH_LOOP = 3
"""Failures in a row that make a crash loop."""


def draw(title: str, family: Family) -> str:
    """The actors as a tree, in plain text: name, kind, state, and what is queued."""
    return "\n".join([title, *_lines(family, "")])


def _lines(family: Family, margin: str) -> Iterator[str]:
    bodies = family.bodies()
    # Without recursion: a chain of actors may be longer than Python's stack is deep.
    waiting = [(body, margin, body is bodies[-1]) for body in reversed(bodies)]
    while waiting:
        body, margin, last = waiting.pop()
        yield f"{margin}{'└─ ' if last else '├─ '}{_describe(body)}"
        children = [] if body.family is None else body.family.bodies()
        below = margin + ("   " if last else "│  ")
        waiting.extend((child, below, child is children[-1]) for child in reversed(children))


def _describe(body: Body) -> str:
    ref: ActorRef[Any, Any] = body.cell.ref
    kind = body.spec.label[0]
    parts = [ref.name if type(ref._name) is not str else f"{ref.name} ({kind})", STATES[body.state].value]
    dispatcher = _dispatcher_of(body)
    if dispatcher is not None:
        parts.append(dispatcher)
    queued = body.cell.queued()
    if queued:
        parts.append(f"{queued} queued")
    parts.extend(_describe_restarts(body))
    return ", ".join(parts)


def _describe_restarts(body: Body) -> Iterator[str]:
    standing: Standing | None = None if body.more is None else body.more.standing
    if standing is None:
        return
    if standing.restarts:
        yield "1 restart" if standing.restarts == 1 else f"{standing.restarts} restarts"
    if standing.resting and standing.due is not None:
        yield f"next start in {max(0.0, standing.due - body.cell.loop.now()):.3g} s"
    if standing.failures_in_a_row(body.cell.loop.now()) >= CRASH_LOOP:
        yield "crash loop"
