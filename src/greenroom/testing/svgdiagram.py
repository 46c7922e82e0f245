"""A trace as an SVG sequence diagram: a lifeline for each actor, and arrows that slope down to where they arrive.

Every event has its own row, so texts do not overlap. The text of a message stands beside its sender, where it is sent.
It is repeated where the message is handled, if that is far below or the message was overtaken. A box covers
what lies behind a text. Its width is known because the font is monospaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from math import hypot
from unicodedata import combining, east_asian_width

from greenroom.testing.diagrams import (
    LOST,
    SENT,
    MessagePath,
    end_of_handling,
    in_seconds,
    in_words,
    lifelines,
    message_paths,
    note_on,
    participants,
    shortened,
    shortened_name,
)
from greenroom.testing.events import OUTSIDE, Event, printable

__all__ = ["svg"]

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
