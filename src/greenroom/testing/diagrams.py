"""A trace as a sequence diagram, in Mermaid's language or as SVG.

**Mermaid's** arrows are horizontal, so one arrow cannot show both when a message was sent and when it was handled. We
draw it where the message is handled, because an actor's state depends on that order, and number it by its sending. So
numbers that go down show reordered messages. A message that was overtaken by a later one says so.

**The SVG** has a lifeline for each actor, and arrows that slope down to where they arrive. Every event has its own row,
so texts do not overlap. The text of a message stands beside its sender, where it is sent. It is repeated where the
message is handled, if that is far below or the message was overtaken. A box covers what lies behind a text. Its width
is known because the font is monospaced.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from math import hypot
from unicodedata import combining, east_asian_width

from greenroom.exits import ExitReason
from greenroom.testing.events import NOTES, OUTSIDE, Event, printable, shown

SENT = frozenset({"told", "asked", "ticked"})
LOST = frozenset({"dead_letter", "dropped", "full"})
BETWEEN_TWO = SENT | {"taken", "answered", "refused"}
"""Events that have an `other` side."""

_OWN = frozenset({"taken", "answered", "declined", "failed", "started", "stopped", "restarted", "escalated"})
_OF_HANDLING = frozenset({"answered", "refused", "declined", "failed", "injected"})

_NOTES = {
    **NOTES,
    "started": "starts",
    "stopped": "ends: {}",
    "dead_letter": "dead letter: {}",
    "injected": "fault: {}",
}
_LOST_NOTES = {"full": "no room for {}", "dropped": "{} is dropped", "dead_letter": "{} is a dead letter"}

_TITLE = "Numbered as sent, drawn as handled"  # Mermaid cuts off a longer one where few take part
_ARROWS = {"told": "->>", "asked": "->>", "ticked": "-)", "answered": "-->>", "refused": "--x", "lost": "-x"}
_LONGEST_NAME = 32
_LONGEST_MESSAGE = 40
_LONGEST_NOTE = 60
_MOST_OVERTAKERS = 3


@dataclass(slots=True, eq=False)
class MessagePath:
    """One message on its way: the positions of the events that send and end it, and the messages that overtook it.

    `ended` is where it is handled or lost; None if neither happens. `number` counts messages as they are sent, from 1.
    `overtaken_by` has the numbers of messages that were sent later to the same actor and handled earlier.
    """

    number: int
    sent: int
    ended: int | None = None
    overtaken_by: list[int] = field(default_factory=list)


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
        declared = [f"participant {self._ids[name]} as {_alias(name, self._ids[name])}" for name in self._ids]
        return "\n    ".join(["sequenceDiagram", *declared, *self._lines]) + "\n"

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


# In pixels.
MARGIN, STEPS, HEADER = 16.0, 34.0, 26.0
CHARACTER = 6.65
"""The width of one character, at font size 11."""
LEAST_GAP, MOST_GAP = 92.0, 236.0
"""The limits of the gap between two lifelines; within them it fits the texts."""
ROOM = 360.0
"""The room for notes beyond the last lifeline."""
ROW, LOW_ROW = 22.0, 15.0
PAUSE = 8.0
"""Extra space where the clock has moved."""
BESIDE = 9.0
"""The distance of texts from their lifeline."""
LOOP, STUB = 40.0, 24.0

# In characters, and in rows.
LONGEST_NAME, LONGEST_LABEL, LONGEST_NOTE = 20, 34, 72
FAR = 6
ROWS_BETWEEN_NAMES = 40

LEFT, MIDDLE, RIGHT = -1, 0, 1
_ANCHORS = ("middle", "start", "end")
_REPLIES = frozenset({"answered", "refused"})
_FATES = {"taken": "handled", "dead_letter": "a dead letter", "dropped": "dropped", "full": "found no room"}
_SCOPE = "greenroom-trace"
_LEGEND = {"told": "message", "asked": "question", "answered": "answer", "refused": "no answer", "ticked": "timer"}

_STYLE = """
& text { font: 11px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #1f2937 }
& .name { font: 600 12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif }
& .quiet { fill: #6b7280 } & .late { fill: #a14a00 } & .cover { fill: #fff; fill-opacity: .8 }
& .paper { fill: #fff } & .step { fill: #f4f6f9 } & .pause { stroke: #b9c1cd; stroke-dasharray: 2 3 }
& .column { stroke: #e3e6ec } & .life { stroke: #8b95a5; stroke-width: 1.5 } & .outside { stroke-dasharray: 5 4 }
& .bar { fill: #d6e4fb; stroke: #8fb0e3 } & .box { fill: #e9eef6; stroke: #8b95a5 }
& .told { stroke: #2457a6; fill: #2457a6 } & .ticked { stroke: #0b7a6f; fill: #0b7a6f }
& .asked, & .answered { stroke: #7a2fb8; fill: #7a2fb8 } & .refused { stroke: #c3202f; fill: #c3202f }
& .earlier { stroke: #6b7280; fill: #6b7280; stroke-dasharray: 2 3 }
& .cross { fill: none; stroke: #3b4452; stroke-width: 2 } & .cross.refused { stroke: #c3202f }
& .small { stroke-width: 1.4 } & .way { fill: none; stroke-width: 1.4 }
& .way.answered, & .way.refused { stroke-dasharray: 6 4 }
& .mark { fill: #6b7280; stroke: #fff } & .open { fill: #fff; stroke: #6b7280; stroke-width: 1.6 }
& .mark.started { fill: #fff; stroke: #2c7a3f; stroke-width: 2 } & .mark.restarted { fill: #2c7a3f }
& .mark.failed, & .mark.escalated { fill: #c3202f } & .mark.injected { fill: #e08600 }
& .note { fill: #f1f3f6; stroke: #c3cad5 } & .note.restarted { fill: #e6f4e9; stroke: #a2cfad }
& .note.failed, & .note.escalated { fill: #fde9ea; stroke: #e3a3a8 } & .note.injected { fill: #fff2d8; stroke: #e3bd74 }
"""
"""Applies to this SVG only, not to the page around it: `&` becomes the class of the SVG."""


def svg(events: Sequence[Event]) -> str:
    """The events as a self-contained SVG: no script, no font, no other file."""
    return _SvgDiagram(events).text()


class _Canvas:
    """The SVG elements in layers, from back to front, and how far they reach to the right."""

    def __init__(self) -> None:
        self.back: list[str] = []
        self.ways: list[str] = []
        self.marks: list[str] = []
        self.words: list[str] = []
        self.reach = 0.0

    def rect(self, layer: list[str], kind: str, x: float, y: float, width: float, height: float) -> None:
        place = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
        layer.append(f'<rect class="{kind}" {place}/>')

    def line(self, layer: list[str], kind: str, x1: float, y1: float, x2: float, y2: float, title: str = "") -> None:
        place = f'x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"'
        layer.append(f'<line class="{kind}" {place}>{_title(title)}</line>')

    def shape(self, layer: list[str], kind: str, path: str, title: str = "") -> None:
        layer.append(f'<path class="{kind}" d="{path}">{_title(title)}</path>')

    def dot(self, kind: str, x: float, y: float, radius: float) -> None:
        self.marks.append(f'<circle class="mark {kind}" cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"/>')

    def cross(self, kind: str, x: float, y: float, size: float) -> None:
        a, b, c, d = _n(x - size), _n(y - size), _n(x + size), _n(y + size)
        self.shape(self.marks, f"cross {kind}", f"M{a} {b} L{c} {d} M{a} {d} L{c} {b}")

    def head(self, kind: str, x: float, y: float, dx: float, dy: float) -> None:
        """An arrowhead with its tip at (x, y), in the direction (dx, dy)."""
        length = hypot(dx, dy)
        ux, uy = 8 * dx / length, 8 * dy / length
        corners = ((x - ux - uy / 2, y - uy + ux / 2), (x, y), (x - ux + uy / 2, y - uy - ux / 2))
        self.shape(self.marks, f"head {kind}", "M" + " L".join(f"{_n(px)} {_n(py)}" for px, py in corners) + " Z")

    def text(self, kind: str, x: float, y: float, words: str, side: int, *, upon: str = "", title: str = "") -> None:
        """A text to the left or right of `x`, or centred there, on a box of the class `upon`."""
        width = _width(words)
        left = x - width * (1 - side) / 2
        self.reach = max(self.reach, left + width + 5)
        if upon:
            self.rect(self.words, upon, left - 4, y - 11.5, width + 8, 15)
        place = f'x="{_n(x)}" y="{_n(y)}" text-anchor="{_ANCHORS[side]}"'
        self.words.append(f'<text class="{kind}" {place}>{_title(title)}{_xml(words)}</text>')


class _SvgDiagram:
    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        sent = message_paths(events)
        self._by_sending = {message_path.sent: message_path for message_path in sent}
        self._by_end = {message_path.ended: message_path for message_path in sent if message_path.ended is not None}
        self._names = participants(events)
        self._columns = {name: column for column, name in enumerate(self._names)}
        self._canvas = _Canvas()
        self._gutter = MARGIN + STEPS + 24 + max((_width(in_seconds(event.time)) for event in events), default=0.0)
        self._xs = self._place_columns()
        self._name_rows: list[float] = []
        self._ys = self._place_rows()
        self._bottom = (self._ys[-1] if self._ys else MARGIN + HEADER) + ROW

    def _place_columns(self) -> list[float]:
        boxes = [_width(_short(name)) + 20 for name in self._names]
        gaps = [max(LEAST_GAP, (left + right) / 2 + 10) for left, right in pairwise(boxes)]
        for event in self._events:
            if event.kind in SENT or event.kind in _REPLIES:
                left, right = sorted((self._columns[event.actor], self._columns[event.other]))
                if right - left == 1:
                    gaps[left] = max(gaps[left], min(_width(_label(event)) + 4 * BESIDE, MOST_GAP))
        xs = [self._gutter + boxes[0] / 2] if boxes else []
        for gap in gaps:
            xs.append(xs[-1] + gap)
        return xs

    def _place_rows(self) -> list[float]:
        y = MARGIN + HEADER
        ys: list[float] = []
        for position, event in enumerate(self._events):
            if position and position % ROWS_BETWEEN_NAMES == 0:
                y += ROW
                self._name_rows.append(y)
            if position and event.time != self._events[position - 1].time:
                y += PAUSE
            y += _height(event)
            ys.append(y)
        return ys

    def _x(self, name: str) -> float:
        return self._xs[self._columns[name]]

    def text(self) -> str:
        canvas = self._canvas
        self._draw_rows()
        for name in self._names:
            self._draw_lifeline(name)
        for position, event in enumerate(self._events):
            self._draw(position, event)
        self._draw_names()
        height = self._draw_legend(self._bottom + HEADER + ROW) + MARGIN
        width = canvas.reach + MARGIN
        size = f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}"'
        root = f'<svg xmlns="http://www.w3.org/2000/svg" class="{_SCOPE}" {size}>'
        style = f"<style>{_STYLE.replace('&', '.' + _SCOPE)}</style>"
        paper = '<rect class="paper" width="100%" height="100%"/>'
        drawn = [*canvas.back, *canvas.ways, *canvas.marks, *canvas.words]
        return "\n".join([root, style, paper, *drawn, "</svg>\n"])

    # -- rows

    def _draw(self, position: int, event: Event) -> None:
        y = self._ys[position]
        if event.kind in SENT:
            self._draw_message(y, event, self._by_sending[position])
        elif event.kind in _REPLIES:
            end = "head" if event.kind == "answered" else "cross"
            self._draw_way(event.kind, event.actor, event.other, y, y, end, _label(event), _told(event))
        elif event.kind == "taken":
            self._draw_bar(position, event)
            message_path = self._by_end.get(position)
            self._draw_taken(y, event, message_path, 0 if message_path is None else position - message_path.sent)
        else:
            self._draw_note(y, event)

    def _draw_message(self, y: float, event: Event, message_path: MessagePath) -> None:
        label = _label(event)
        if message_path.ended is None:
            to, end, fate = y + LOW_ROW / 2, "dot", "never handled"
            label = f"{fate}: {label}"
        else:
            ending = self._events[message_path.ended]
            to, end = self._ys[message_path.ended], "head" if ending.kind == "taken" else ""
            fate = f"{_FATES[ending.kind]} at step {ending.step}, {in_seconds(ending.time)}"
        story = f"{_told(event)}\nsent at step {event.step}, {in_seconds(event.time)}\n{fate}"
        if message_path.overtaken_by:
            story += f"\novertaken by {len(message_path.overtaken_by)} sent later"
        self._draw_way(event.kind, event.other, event.actor, y, to, end, label, story)

    def _draw_way(
        self, kind: str, sender: str, receiver: str, y1: float, y2: float, end: str, label: str, story: str
    ) -> None:
        """An arrow from `y1` to `y2`, or a loop if sender and receiver are the same, with its text at the beginning."""
        canvas = self._canvas
        x1, x2 = self._x(sender), self._x(receiver)
        side = LEFT if x2 < x1 else RIGHT
        if x1 != x2:
            tip, room = x2 - side * 5, abs(x2 - x1) - 2 * BESIDE
            dx, dy = tip - x1, y2 - y1
            canvas.line(canvas.ways, f"way {kind}", x1, y1, tip, y2, story)
        else:
            tip, room = x2 + 5, LONGEST_LABEL * CHARACTER
            y2 = max(y2, y1 + LOW_ROW / 2)
            dx, dy = -1.0, 0.0
            canvas.reach = max(canvas.reach, x1 + LOOP)
            bend = f"C{_n(x1 + LOOP)} {_n(y1)} {_n(x1 + LOOP)} {_n(y2)}"
            canvas.shape(canvas.ways, f"way {kind}", f"M{_n(x1)} {_n(y1)} {bend} {_n(tip)} {_n(y2)}", story)
        words = _fitted(label, room)
        if end == "head":
            canvas.head(kind, tip, y2, dx, dy)
        elif end == "cross":
            canvas.cross(kind, tip, y2, 4)
        elif end == "dot":
            canvas.dot("open", x2, y2, 4)
            words = label  # uncut: it says why there is a dot
        canvas.text("", x1 + side * BESIDE, y1 - 4, words, side, upon="cover", title=story)

    def _draw_bar(self, position: int, event: Event) -> None:
        y = self._ys[position] - 5
        height = self._ys[end_of_handling(self._events, position)] + 5 - y
        self._canvas.rect(self._canvas.back, "bar", self._x(event.actor) - 4, y, 8, height)

    def _draw_taken(self, y: float, event: Event, message_path: MessagePath | None, rows: int) -> None:
        """Repeat the text of a message where it is handled, if its arrow does not make it clear."""
        canvas, x = self._canvas, self._x(event.actor)
        arrow = LEFT if self._x(event.other) < x else RIGHT
        words, look = _label(event), "quiet"
        if message_path is None:  # it was sent before the first event, or is handled again
            canvas.line(canvas.ways, "way earlier", x + arrow * STUB, y, x + arrow * 5, y)
            canvas.head("earlier", x + arrow * 5, y, -arrow, 0)
            words += f" from {_short(event.other)}, sent earlier"
        elif message_path.overtaken_by:
            words, look = words + " overtaken", "late"
        elif rows < FAR:
            return
        side, away = -arrow, BESIDE
        if side == LEFT and _width(words) > x - self._gutter:
            side, away = RIGHT, STUB
        canvas.text(look, x + side * away, y + 4, words, side, upon="cover", title=_told(event))

    def _draw_note(self, y: float, event: Event) -> None:
        canvas, x, kind = self._canvas, self._x(event.actor), event.kind
        if kind == "injected":
            canvas.shape(canvas.marks, f"mark {kind}", f"M{_n(x)} {_n(y - 8)} l8 8 l-8 8 l-8 -8 Z")
        elif kind != "stopped":
            canvas.dot("open" if kind in LOST else kind, x, y, 4 if kind == "started" else 6)
        if kind == "stopped" or kind in LOST:
            canvas.cross("small" if kind in LOST else kind, x, y, 3 if kind in LOST else 6)
        left, right = x - self._gutter, self._xs[-1] + ROOM - x
        side = RIGHT if right >= left else LEFT
        text, look, upon = note_on(event), "", f"note {kind}"
        if kind == "started":
            text, look, upon = f"{event.actor} starts", "quiet", "cover"
        words = _fitted(printable(text), min(max(left, right), LONGEST_NOTE * CHARACTER))
        canvas.text(look, x + side * (BESIDE + 6), y + 4, words, side, upon=upon, title=text)

    # -- columns

    def _draw_lifeline(self, name: str) -> None:
        """A faint line from top to bottom, and a strong one while the actor is alive."""
        canvas = self._canvas
        x, top = self._x(name), MARGIN + HEADER
        canvas.line(canvas.back, "column", x, top, x, self._bottom)
        for first, last in lifelines(self._events, name):
            begin = top if first is None else self._ys[first]
            end = self._bottom if last is None else self._ys[last]
            canvas.line(canvas.back, "life outside" if name == OUTSIDE else "life", x, begin, x, end)

    def _draw_names(self) -> None:
        canvas = self._canvas
        for name in self._names:
            x, short = self._x(name), _short(name)
            for y in (MARGIN, self._bottom):
                canvas.rect(canvas.words, "box", x - _width(short) / 2 - 10, y, _width(short) + 20, HEADER)
                canvas.text("name", x, y + 17, short, MIDDLE, title=name)
            for y in self._name_rows:
                canvas.text("quiet", x, y, short, MIDDLE, upon="cover", title=name)

    # -- margins and legend

    def _draw_rows(self) -> None:
        """A band for every other step, and the steps and times at the left, where they change."""
        canvas, before, shaded = self._canvas, None, True
        for y, event in zip(self._ys, self._events, strict=True):
            top = y - _height(event) + 7
            if before is None or before.step != event.step:
                shaded = not shaded
                canvas.text("quiet", MARGIN + STEPS, top + 12, str(event.step), LEFT)
            if shaded:
                canvas.back.append(f'<rect class="step" y="{_n(top)}" width="100%" height="{_n(_height(event))}"/>')
            if before is None or before.time != event.time:
                canvas.text("", self._gutter - 16, top + 12, in_seconds(event.time), LEFT)
                if before is not None:
                    pause = _n(top - PAUSE / 2)
                    canvas.back.append(f'<line class="pause" x1="0" y1="{pause}" x2="100%" y2="{pause}"/>')
            before = event
        if before is None:
            canvas.text("quiet", MARGIN, MARGIN + 17, "nothing has happened", RIGHT)

    def _draw_legend(self, y: float) -> float:
        """The legend of the kinds of arrows that occur. Return its lower end."""
        canvas, x = self._canvas, MARGIN
        for kind, words in _LEGEND.items():
            if any(event.kind == kind for event in self._events):
                if x > MARGIN and x + 40 + _width(words) > max(canvas.reach, 400):
                    x, y = MARGIN, y + ROW
                canvas.line(canvas.ways, f"way {kind}", x, y, x + 26, y)
                if kind == "refused":
                    canvas.cross(kind, x + 26, y, 4)
                else:
                    canvas.head(kind, x + 26, y, 1, 0)
                canvas.text("quiet", x + 36, y + 4, words, RIGHT)
                x += 36 + _width(words) + 24
        return y


def _height(event: Event) -> float:
    return LOW_ROW if event.kind == "taken" else ROW


def _label(event: Event) -> str:
    asks = "asks " if event.kind == "asked" else ""
    return asks + shortened(printable(in_words(event)), LONGEST_LABEL)


def _told(event: Event) -> str:
    """Sender, receiver and message, in full."""
    sender, receiver = (event.actor, event.other) if event.kind in _REPLIES else (event.other, event.actor)
    return f"{sender} \N{RIGHTWARDS ARROW} {receiver}: {in_words(event)}"


def _short(name: str) -> str:
    return shortened_name(printable(name), LONGEST_NAME)


def _width(text: str) -> float:
    """The width of `text`. Wide characters count twice, combining ones not at all."""
    if text.isascii():
        return len(text) * CHARACTER
    return CHARACTER * sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in text)


def _fitted(text: str, room: float) -> str:
    length = len(text)
    while length > 1 and _width(shortened(text, length)) > room:
        length -= 1
    return shortened(text, length)


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _xml(text: str) -> str:
    return escape(printable(text), quote=False)


def _title(text: str) -> str:
    return "<title>" + "\n".join(map(_xml, text.split("\n"))) + "</title>" if text else ""
