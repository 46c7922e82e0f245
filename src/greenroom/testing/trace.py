"""What happened in a simulation: who sent what to whom, when, and what became of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from greenroom._core import happenings
from greenroom._core.director import Director
from greenroom._core.happenings import ENTRIES
from greenroom._core.schedules import Schedule
from greenroom._core.virtualclock import VirtualClock
from greenroom.records import Record

__all__ = ["Event", "Trace"]

OUTSIDE = "(outside)"
"""Who sends what no actor sends: the program itself, and its tasks."""
_LONGEST = 80
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")

_KINDS = {
    number: name.lower()
    for name, number in vars(happenings).items()
    if isinstance(number, int) and name not in ("ENTRIES",)
}


class Event(Record):
    """Something that happened at a step of a simulation.

    `kind` says what: `told`, `asked`, `ticked` (a timer sent), `taken` (the message is handled), `answered`,
    `refused` (a question without a reply), `failed`, `started`, `stopped`, `restarted`, `escalated`, `full`,
    `dropped`, `dead_letter`, or `injected` (a fault). `actor` is whom it happened to, by path, and `other` who caused
    it: the sender of a message, the asker that gets an answer. `what` is the message, reply, exception or reason.
    """

    __slots__ = ("step", "time", "kind", "actor", "what", "other")  # noqa: RUF023 - in the order of the arguments

    step: int
    time: float
    kind: str
    actor: str
    what: Any
    other: str

    def __init__(self, step: int, time: float, kind: str, actor: str, what: Any, other: str) -> None:
        self._set(step, time, kind, actor, what, other)

    def __str__(self) -> str:
        return f"{self.step:>6} {self.time:>10.6g} s  {_SENTENCES[self.kind].format(self=self, what=shown(self.what))}"


_SENTENCES = {
    "told": "{self.other} -> {self.actor}: {what}",
    "asked": "{self.other} -> {self.actor}: {what}, and asks for a reply",
    "ticked": "{self.other} -> {self.actor}: {what}, by a timer",
    "taken": "    {self.actor} handles {what}",
    "answered": "{self.actor} answers {self.other}: {what}",
    "refused": "{self.other} gets no answer from {self.actor}: {what}",
    "failed": "    {self.actor} fails: {what}",
    "started": "    {self.actor} has started",
    "stopped": "    {self.actor} has ended: {what}",
    "restarted": "    {self.actor} is restarted after {what}",
    "escalated": "    {self.actor} escalates {what}",
    "full": "    {self.actor} has no room for {what}",
    "dropped": "    {self.actor} drops {what}",
    "dead_letter": "    {what} to {self.actor} is a dead letter",
    "injected": "    fault: {what}",
}


class Trace:
    """The events of one simulation, in order, and a digest that two runs share iff they went the same way.

    Of a long simulation the earlier events are forgotten; `digest` and `steps` are of all.
    """

    def __init__(self, director: Director) -> None:
        self.steps: int = director.step
        self.seconds: float = director.clock.time
        self.digest = f"{director.fingerprint:016x}"
        self._log: list[Any] = list(director.log)
        self._events: list[Event] | None = None

    @classmethod
    def empty(cls) -> Trace:
        """The trace of a run that left none."""
        return cls(Director(Schedule(), VirtualClock(), 0, 0, 1))

    def __len__(self) -> int:
        return len(self._log) // ENTRIES if self._events is None else len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __repr__(self) -> str:
        return f"<Trace {self.digest}, {self.steps} steps, {self.seconds:g} s, {len(self)} events>"

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    @property
    def events(self) -> list[Event]:
        """The events that are kept."""
        if self._events is None:
            log = self._log
            names: dict[int, str] = {}
            self._events = [
                _event(names, *log[first : first + ENTRIES]) for first in range(0, len(log), ENTRIES)
            ]
            self._log = []
        return self._events

    def tail(self, many: int) -> str:
        """The last events as text, with a word on how many there were before."""
        events = self.events
        shown_events = events[-many:] if many else []
        before = len(events) - len(shown_events)
        lines = [f"   ... {before} events before"] if before else []
        return "\n".join([*lines, *map(str, shown_events)])

    def mermaid(self, last: int = 200) -> str:
        """A sequence diagram of the last events, in Mermaid's language."""
        from greenroom.testing.diagrams import mermaid

        return mermaid(self.events[-last:])

    def svg(self, last: int = 200) -> str:
        """A sequence diagram of the last events, as a picture: arrows begin when sent and end when handled."""
        from greenroom.testing.diagrams import svg

        return svg(self.events[-last:])


def shown(what: object) -> str:
    """`what` in words that are the same in every run, and not too many."""
    try:
        text = repr(what)
    except Exception as exc:
        text = f"<{type(what).__name__} whose repr raises {type(exc).__name__}>"
    text = _ADDRESS.sub("", text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _event(names: dict[int, str], kind: int, step: int, time: float, cell: Any, what: Any, whom: Any) -> Event:
    return Event(step, time, _KINDS[kind], _name_of(names, cell), what, _name_of(names, whom))


def _name_of(names: dict[int, str], who: Any) -> str:
    if who is None:
        return OUTSIDE
    key = id(who)  # everything in the log is alive, so no two share one
    known = names.get(key)
    if known is None:
        cell = getattr(who, "_cell", who)
        known = names[key] = cell.name() if hasattr(cell, "name") else str(who)
    return known
