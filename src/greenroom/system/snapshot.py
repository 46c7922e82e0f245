"""What a system looks like at one moment: frozen, and ready for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from greenroom._core.counts import count_cell
from greenroom.actor.body import Body, Family
from greenroom.actor.ref import ActorRef
from greenroom.actor.states import STATES
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
    )


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
    queued = body.cell.queued()
    if queued:
        parts.append(f"{queued} queued")
    return ", ".join(parts)
