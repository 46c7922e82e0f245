"""What happened in a simulation: who sent what to whom, when, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from greenroom._core.mailbox.cell import Cell
from greenroom._core.simulation.director import Director
from greenroom._core.simulation.events import ENTRIES
from greenroom._core.simulation.schedules import Schedule
from greenroom._core.timing.virtualclock import VirtualClock
from greenroom.testing.tracing.events import KINDS, OUTSIDE, Event

__all__ = ["Trace"]

_WITH_OTHER = ("told", "asked", "ticked", "taken", "answered", "refused", "dead_letter")


class Trace:
    """The events of one simulation, in order, and a digest that is the same for runs that went the same way.

    Of a long simulation the earlier events are forgotten; `digest` and `steps` are of all. The digest covers who did
    what to whom at which step and time, and of messages the numbers, texts and tuples of them; of others, their types.
    Messages are kept as they are: one that is changed later is shown as it is then.
    """

    def __init__(self, director: Director) -> None:
        self.steps: int = director.step
        self.seconds: float = director.clock.time
        self.digest = f"{director.fingerprint:016x}"
        self._log: list[Any] = director.log
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
            self._events = [_event(names, *log[first : first + ENTRIES]) for first in range(0, len(log), ENTRIES)]
            self._log = []
        return self._events

    def tail(self, many: int) -> str:
        """The last events as text, with a word on how many there were before."""
        last = self._last(many)
        before = len(self.events) - len(last)
        lines = [f"   ... {before} events before"] if before else []
        return "\n".join([*lines, *map(str, last)])

    def mermaid(self, last: int = 200) -> str:
        """A sequence diagram of the last events, in Mermaid's language."""
        from greenroom.testing.tracing.diagrams import mermaid

        return mermaid(self._last(last))

    def svg(self, last: int = 200) -> str:
        """A sequence diagram of the last events, as a picture: arrows begin when sent and end when handled."""
        from greenroom.testing.tracing.pictures import svg

        return svg(self._last(last))

    def _repr_svg_(self) -> str:
        return self.svg()

    def _last(self, many: int) -> list[Event]:
        return self.events[-many:] if many > 0 else []


def _event(
    names: dict[int, str], kind: int, step: int, time: float, cell: Cell | None, what: object, whom: object
) -> Event:
    name = KINDS[kind]
    other = "" if whom is None and name not in _WITH_OTHER else _name_of(names, whom)
    return Event(step, time, name, "" if cell is None else _name_of(names, cell), what, other)


def _name_of(names: dict[int, str], who: Any) -> str:
    if who is None:
        return OUTSIDE
    key = id(who)  # everything in the log is alive, so no two share one
    known = names.get(key)
    if known is None:
        cell = getattr(who, "_cell", who)
        known = names[key] = cell.name() if hasattr(cell, "name") else str(who)
    return known
