"""Snapshots of a system and its actors: frozen, and ready for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from greenroom._core.scheduler.accounting import count_cell
from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.records.record import ActorRecord, ChildList
from greenroom.actor.records.restartstate import RestartState, failures_in_a_row
from greenroom.actor.records.states import STATES, Stage
from greenroom.actor.spawner import CONCURRENT
from greenroom.lanes import Lane
from greenroom.ledger import Ledger


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
    """How many messages are queued, by lane; empty lanes are left out."""
    stashed: int
    busy: bool
    """Whether a message is in hand: its handler runs or is suspended."""
    watchers: int
    ledger: Ledger
    dispatcher: str = CONCURRENT
    """Which dispatcher runs its code."""
    incarnation: int = 1
    """The number of its incarnation; 1 if it was never restarted."""
    restarts: int = 0
    """How often it was restarted after a failure or with its siblings, not counting `ref.restart()`."""
    last_restart: float | None = None
    next_attempt: float | None = None
    """When it will be restarted, if a restart is pending."""
    failures: int = 0
    """How often it failed in a row, without running long enough in between."""
    last_failure: str | None = None
    crash_looping: bool = False
    """Whether `failures` is so high that it needs attention."""


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
        """The snapshot as plain dicts, lists and numbers."""
        return asdict(self)

    def to_json(self) -> str:
        """The snapshot as JSON."""
        import json  # slow to import, and few programs need it

        return json.dumps(self.as_dict())


def snapshots_of(child_list: ChildList) -> list[ActorSnapshot]:
    """Snapshots of `child_list` and all descendants, parents before their children."""
    found: list[ActorSnapshot] = []
    waiting = list(reversed(child_list.records()))
    while waiting:
        record = waiting.pop()
        children = [] if record.child_list is None else record.child_list.records()
        found.append(_snapshot_of(record, children))
        waiting.extend(reversed(children))
    return found


def _snapshot_of(record: ActorRecord, children: list[ActorRecord]) -> ActorSnapshot:
    cell = record.cell
    ref: ActorRef = cell.ref
    depths = {lane.name: cell.depth(lane) for lane in Lane}
    return ActorSnapshot(
        id=cell.id,
        name=ref.name,
        path=ref.path,
        kind=record.spec.label[0],
        state=STATES[record.state].value,
        parent=None if ref.parent is None else ref.parent.id,
        children=tuple(child.cell.id for child in children),
        depths={name: depth for name, depth in depths.items() if depth},
        stashed=0 if cell.tally is None else cell.tally.stashed,
        busy=cell.loop.visits.in_hand(cell) > 0,
        watchers=0 if record.watchers is None else len(record.watchers),
        ledger=count_cell(cell),
        dispatcher=_dispatcher_of(record) or CONCURRENT,
        **_restarts_of(record),
    )


def _dispatcher_of(record: ActorRecord) -> str | None:
    return None if record.extras is None else record.extras.dispatcher


def _restarts_of(record: ActorRecord) -> dict[str, Any]:
    restart_state: RestartState | None = None if record.extras is None else record.extras.restart_state
    if restart_state is None:
        return {}
    failures = failures_in_a_row(record, restart_state)
    return {
        "incarnation": restart_state.incarnation,
        "restarts": restart_state.restarts,
        "last_restart": restart_state.last_restart,
        "next_attempt": restart_state.due if record.stage == Stage.RESTING else None,
        "failures": failures,
        "last_failure": restart_state.last_failure,
        "crash_looping": failures >= CRASH_LOOP,
    }


CRASH_LOOP = 3
"""Failures in a row that make a crash loop."""


def draw(child_list: ChildList, is_last: bool = True) -> list[str]:
    """The actors as a tree, line by line: name, kind, state, queued messages. More follow unless it `is_last`."""
    return list(_lines(child_list, "", is_last))


def _lines(child_list: ChildList, margin: str, is_last: bool) -> Iterator[str]:
    records = child_list.records()
    # Without recursion: a chain of actors may be longer than Python's stack is deep.
    waiting = [(record, margin, is_last and record is records[-1]) for record in reversed(records)]
    while waiting:
        record, margin, last = waiting.pop()
        yield f"{margin}{'└─ ' if last else '├─ '}{_describe(record)}"
        children = [] if record.child_list is None else record.child_list.records()
        below = margin + ("   " if last else "│  ")
        waiting.extend((child, below, child is children[-1]) for child in reversed(children))


def _describe(record: ActorRecord) -> str:
    ref: ActorRef = record.cell.ref
    kind = record.spec.label[0]
    parts = [ref.name if type(ref._name) is not str else f"{ref.name} ({kind})", STATES[record.state].value]
    dispatcher = _dispatcher_of(record)
    if dispatcher is not None:
        parts.append(dispatcher)
    queued = record.cell.queued()
    if queued:
        parts.append(f"{queued} queued")
    parts.extend(_describe_restarts(record))
    return ", ".join(parts)


def _describe_restarts(record: ActorRecord) -> Iterator[str]:
    restart_state: RestartState | None = None if record.extras is None else record.extras.restart_state
    if restart_state is None:
        return
    if restart_state.restarts:
        yield "1 restart" if restart_state.restarts == 1 else f"{restart_state.restarts} restarts"
    if record.stage == Stage.RESTING and restart_state.due is not None:
        yield f"next start in {max(0.0, restart_state.due - record.cell.loop.now()):.3g} s"
    if failures_in_a_row(record, restart_state) >= CRASH_LOOP:
        yield "crash loop"
