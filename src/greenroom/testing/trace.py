"""`Trace`: the events of a simulation, such as messages sent and handled, failures and restarts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from greenroom._core.mailbox.cell import Cell
from greenroom._core.simulation.director import Director
from greenroom._core.simulation.events import ENTRIES
from greenroom._core.simulation.schedules import Schedule
from greenroom._core.world import VirtualClock
from greenroom.testing.events import KINDS, OUTSIDE, Event

_WITH_OTHER = ("told", "asked", "ticked", "taken", "answered", "refused", "dead_letter")


class Trace:
    """The events of one simulation, in order, and a digest: runs that went the same way have the same digest.

    A long simulation keeps only its last events; `digest` and `steps` cover all of them. The digest covers the actors,
    steps and times of events. Of messages it covers the values of numbers, strings and tuples, and only the types of
    others. Messages are not copied: one that is changed later is shown changed.
    """

    def __init__(self, director: Director) -> None:
        self.steps: int = director.step
        self.seconds: float = director.clock.time
        self.digest = f"{director.fingerprint:016x}"
        self._log: list[Any] = director.log
        self._events: list[Event] | None = None

    @classmethod
    def empty(cls) -> Trace:
        """An empty trace, for a run that has none."""
        return cls(Director(Schedule(), VirtualClock(), 0, 0, 1))

    def __len__(self) -> int:
        return len(self._log) // ENTRIES

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __repr__(self) -> str:
        return f"<Trace {self.digest}, {self.steps} steps, {self.seconds:g} s, {len(self)} events>"

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    @property
    def events(self) -> list[Event]:
        if self._events is None:
            log = self._log
            names: dict[int, str] = {}
            self._events = [_event(names, *log[first : first + ENTRIES]) for first in range(0, len(log), ENTRIES)]
        return self._events

    def tail(self, many: int) -> str:
        """The last events as text, with the number of events before them."""
        last = self._last(many)
        before = len(self.events) - len(last)
        lines = [f"   ... {before} events before"] if before else []
        return "\n".join([*lines, *map(str, last)])

    def mermaid(self, last: int = 200) -> str:
        """The last events as a Mermaid sequence diagram."""
        from greenroom.testing.diagrams import mermaid

        return mermaid(self._last(last))

    def svg(self, last: int = 200) -> str:
        """The last events as an SVG sequence diagram. Arrows lead from the sending of a message to its handling."""
        from greenroom.testing.diagrams import svg

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
    key = id(who)  # unique, since everything in the log is alive
    known = names.get(key)
    if known is None:
        cell = getattr(who, "_cell", who)
        known = names[key] = cell.name() if hasattr(cell, "name") else str(who)
    return known
