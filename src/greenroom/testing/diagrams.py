"""A trace as a Mermaid sequence diagram, and what it shares with the SVG diagram.

Mermaid's arrows are horizontal, so one arrow cannot show both when a message was sent and when it was handled. We draw
it where the message is **handled**, because an actor's state depends on that order, and number it by its **sending**.
So numbers that go down show reordered messages. A message that was overtaken by a later one says so.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Sequence

from greenroom.exits import ExitReason
from greenroom.testing.events import OUTSIDE, Event, printable, shown

__all__ = ["mermaid"]

SENT = frozenset({"told", "asked", "ticked"})
LOST = frozenset({"dead_letter", "dropped", "full"})
BETWEEN_TWO = SENT | {"taken", "answered", "refused"}
"""Events that have an `other` side."""

_OWN = frozenset({"taken", "answered", "declined", "failed", "started", "stopped", "restarted", "escalated"})
_OF_HANDLING = frozenset({"answered", "refused", "declined", "failed", "injected"})

_NOTES = {
    "failed": "fails: {}",
    "started": "starts",
    "stopped": "ends: {}",
    "restarted": "is restarted after {}",
    "escalated": "escalates {}",
    "full": "has no room for {}",
    "dropped": "drops {}",
    "dead_letter": "dead letter: {}",
    "declined": "refuses it: {}",
    "injected": "fault: {}",
}
_LOST_NOTES = {"full": "no room for {}", "dropped": "{} is dropped", "dead_letter": "{} is a dead letter"}

_TITLE = "Numbered as sent, drawn as handled"  # Mermaid cuts off a longer one where few take part
_ARROWS = {"told": "->>", "asked": "->>", "ticked": "-)", "answered": "-->>", "refused": "--x", "lost": "-x"}
_LONGEST_NAME = 32
_LONGEST_MESSAGE = 40
_LONGEST_NOTE = 60
_MOST_OVERTAKERS = 3


class MessagePath:
    """One message on its way: the positions of the events that send and end it, and the messages that overtook it.

    `ended` is where it is handled or lost; None if neither happens. `number` counts messages as they are sent, from 1.
    `overtaken_by` has the numbers of messages that were sent later to the same actor and handled earlier.
    """

    __slots__ = ("ended", "number", "overtaken_by", "sent")

    def __init__(self, number: int, sent: int) -> None:
        self.number = number
        self.sent = sent
        self.ended: int | None = None
        self.overtaken_by: list[int] = []


def message_paths(events: Sequence[Event]) -> list[MessagePath]:
    """The messages that are sent in `events`, in that order."""
    found: list[MessagePath] = []
    under_way: dict[str, list[MessagePath]] = {}
    handled: dict[str, list[int]] = {}
    for position, event in enumerate(events):
        to_actor = under_way.setdefault(event.actor, [])
        if event.kind in SENT:
            path = MessagePath(len(found) + 1, position)
            found.append(path)
            to_actor.append(path)
        elif event.kind == "taken" or event.kind in LOST:
            ended = _which_ends(events, to_actor, event)
            if ended is not None:
                to_actor.remove(ended)
                ended.ended = position
                if event.kind == "taken":
                    before = handled.setdefault(event.actor, [])
                    ended.overtaken_by = before[bisect(before, ended.number) :]
                    insort(before, ended.number)
    return found


def _which_ends(events: Sequence[Event], to_actor: list[MessagePath], event: Event) -> MessagePath | None:
    # The message that finds no room is the last one sent; all others end in the order of sending.
    for path in reversed(to_actor) if event.kind == "full" else to_actor:
        sending = events[path.sent]
        if sending.what is event.what and (event.kind in LOST or sending.other == event.other):
            return path
    return None


def participants(events: Sequence[Event]) -> list[str]:
    """The participants: first the outside, if it takes part, then the actors in order of appearance."""
    found: dict[str, None] = {}
    for event in events:
        if event.kind in BETWEEN_TWO:
            found[event.other] = None
        found[event.actor] = None
    return sorted(found, key=lambda name: name != OUTSIDE)


def lifelines(events: Sequence[Event], name: str) -> list[tuple[int | None, int | None]]:
    """The lifelines of one participant: from which to which event. None means before the first, or after the last."""
    if name == OUTSIDE:
        return [(None, None)]
    own = [position for position, event in enumerate(events) if _shows_life(event, name)]
    turns = [events[position].kind for position in own if events[position].kind in ("started", "stopped")]
    found: list[tuple[int | None, int | None]] = []
    living = bool(own) and turns[:1] != ["started"]
    since: int | None = None
    for position in own:
        kind = events[position].kind
        if kind == "stopped" and living:
            found.append((since, position))
            living = False
        elif not living and (kind == "started" or not found):  # hooks may act before the actor has started
            living, since = True, position
    return [*found, (since, None)] if living else found


def _shows_life(event: Event, name: str) -> bool:
    """Whether the event shows that the actor is alive."""
    if event.kind in ("told", "asked"):
        return event.other == name
    return event.actor == name and event.kind in _OWN


def end_of_handling(events: Sequence[Event], taken: int) -> int:
    """The last event of the handling of a message within one visit; `taken` if there is none."""
    handler = events[taken].actor
    last = taken
    for position in range(taken + 1, len(events)):
        event = events[position]
        if event.step != events[taken].step or (event.kind == "taken" and event.actor == handler):
            break
        sends = event.kind in ("told", "asked") and event.other == handler
        # Time can pass in a visit (`faults.slow`), but a later event in the same step may be an ask that times out.
        timely = event.time == events[taken].time or event.kind == "answered"
        if sends or (event.actor == handler and event.kind in _OF_HANDLING and timely):
            last = position
    return last


def in_words(event: Event) -> str:
    """The message, exception, reason or fault of an event, as text."""
    what = event.what
    if isinstance(what, ExitReason):
        return what.kind.value if what.cause is None else f"{what.kind.value}, {shown(what.cause)}"
    return what if event.kind == "injected" and isinstance(what, str) else shown(what)


def note_on(event: Event) -> str:
    """The note for an event, beside its actor."""
    return _NOTES.get(event.kind, event.kind + ": {}").format(in_words(event))


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: max(longest - 1, 0)] + "\N{HORIZONTAL ELLIPSIS}"


def shortened_name(name: str, longest: int) -> str:
    """A path, cut at the beginning if it is too long: its end tells actors apart."""
    return name if len(name) <= longest else "\N{HORIZONTAL ELLIPSIS}" + name[len(name) - longest + 1 :]


def in_seconds(time: float) -> str:
    return f"{time:.6g} s"


def mermaid(events: Sequence[Event]) -> str:
    """The events as a `sequenceDiagram`: messages are drawn where they are handled, and numbered as they were sent."""
    return _MermaidDiagram(events).text()


class _MermaidDiagram:
    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._paths = message_paths(events)
        self._ends = {path.ended: path for path in self._paths if path.ended is not None}
        self._ids = {name: f"p{position}" for position, name in enumerate(participants(events))}
        self._lines: list[str] = []
        self._now = 0.0

    def text(self) -> str:
        for position, event in enumerate(self._events):
            self._write(event, self._ends.get(position))
        for path in self._paths:
            if path.ended is None:
                self._write_lost(self._events[-1], path, "{} is never handled")
        if self._lines:
            self._lines.insert(0, f"title {_TITLE}")
        cast = [f"participant {self._ids[name]} as {_alias(name, self._ids[name])}" for name in self._ids]
        return "\n    ".join(["sequenceDiagram", *cast, *self._lines]) + "\n"

    def _write(self, event: Event, path: MessagePath | None) -> None:
        if event.kind in SENT:
            return  # it is drawn where it ends
        if event.kind == "taken":
            self._write_taken(event, path)
        elif event.kind in _ARROWS:
            self._arrow(event, event.kind, event.actor, event.other, _message(event))
        elif event.kind in LOST and path is not None:
            self._write_lost(event, path, _LOST_NOTES[event.kind])
        elif event.kind != "started" or self._lines:  # starts before the first line are left out
            self._note(event, event.actor, note_on(event))

    def _write_taken(self, event: Event, path: MessagePath | None) -> None:
        if path is None:  # it was sent before the first event, or is handled again
            self._arrow(event, "told", event.other, event.actor, f"{_message(event)}, sent earlier")
        else:
            kind = self._events[path.sent].kind
            self._arrow(event, kind, event.other, event.actor, self._sent(path) + _overtaken(path))

    def _write_lost(self, event: Event, path: MessagePath, why: str) -> None:
        sending = self._events[path.sent]
        self._arrow(event, "lost", sending.other, sending.actor, self._sent(path))
        self._note(event, sending.actor, why.format(path.number))

    def _sent(self, path: MessagePath) -> str:
        sending = self._events[path.sent]
        return f"{path.number} {'asks ' if sending.kind == 'asked' else ''}{_message(sending)}"

    def _arrow(self, event: Event, kind: str, sender: str, receiver: str, words: str) -> None:
        who = f"{self._ids[sender]}{_ARROWS[kind]}{self._ids[receiver]}"
        self._lines.append(f"{who}: {_escaped(words)}{self._when(event)}")

    def _note(self, event: Event, name: str, words: str) -> None:
        text = _escaped(shortened(printable(words), _LONGEST_NOTE))
        self._lines.append(f"Note over {self._ids[name]}: {text}{self._when(event)}")

    def _when(self, event: Event) -> str:
        """The time, if the clock has moved."""
        if event.time == self._now:
            return ""
        self._now = event.time
        return f" at {in_seconds(event.time)}"


def _message(event: Event) -> str:
    return shortened(printable(in_words(event)), _LONGEST_MESSAGE)


def _overtaken(path: MessagePath) -> str:
    faster = [str(number) for number in path.overtaken_by[:_MOST_OVERTAKERS]]
    if len(path.overtaken_by) > _MOST_OVERTAKERS:
        faster.append("\N{HORIZONTAL ELLIPSIS}")
    return f", overtaken by {', '.join(faster)}" if faster else ""


def _alias(name: str, without: str) -> str:
    return _escaped(shortened_name(printable(name).strip(), _LONGEST_NAME)) or without


def _escaped(text: str) -> str:
    """`text` escaped for Mermaid: special characters of its language and of HTML become character codes."""
    escaped = "".join(f"#{ord(char)};" if char in _SPECIAL else char for char in text)
    # Mermaid removes the last `;` from anything that looks like a style with a colour.
    for word in ("style", "classDef"):
        escaped = escaped.replace(word, f"#{ord(word[0])};{word[1:]}")
    return escaped


_SPECIAL = frozenset('#;%<>&"`\\$\N{LATIN SMALL LIGATURE FL}\N{PILCROW SIGN}')
"""Characters of its lexer and of HTML, of `%%{...}%%` (a setting), of `$$...$$` (a formula), and two internal ones."""
