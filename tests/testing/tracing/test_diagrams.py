"""A trace as a diagram in Mermaid's language, and as a picture: what is drawn, where, and that any text can be (B1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import Actor, ActorSystem
from greenroom.exits import KILLED, ExitReason
from greenroom.testing import faults
from greenroom.testing.diagrams import mermaid, message_paths, svg
from greenroom.testing.events import OUTSIDE, Event
from greenroom.testing.simulation import Simulation

SENDING = ("told", "asked", "ticked")
LOSING = ("dead_letter", "dropped", "full")
KINDS = (
    *SENDING,
    *LOSING,
    *("taken", "answered", "refused", "failed", "started", "stopped", "restarted", "escalated", "declined", "injected"),
)


class Said:
    """A message that looks like a text; two of them are never the same."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def happened(kind: str, actor: str, what: Any = None, other: str = OUTSIDE, step: int = 0, time: float = 0.0) -> Event:
    return Event(step, time, kind, actor, what, other)


def through(what: Any, sender: str = "/a", receiver: str = "/b", kind: str = "told") -> list[Event]:
    """A message that is handled as soon as it is sent."""
    return [happened(kind, receiver, what, sender), happened("taken", receiver, what, sender)]


def overtaking() -> list[Event]:
    """`slow` is sent before `fast`, and handled after it."""
    slow, fast = Said("slow"), Said("fast")
    return [
        happened("told", "/c", slow, "/a"),
        happened("told", "/c", fast, "/b"),
        happened("taken", "/c", fast, "/b"),
        happened("taken", "/c", slow, "/a"),
    ]


def lines_of(events: Sequence[Event]) -> list[str]:
    """What is drawn in Mermaid's language, below the participants and the title."""
    lines = [line.strip() for line in mermaid(events).splitlines()]
    return [line for line in lines if not line.startswith(("sequenceDiagram", "participant", "title"))]


def cast_of(events: Sequence[Event]) -> list[str]:
    return re.findall(r"participant p\d+ as (.*)", mermaid(events))


class Drawing:
    """A picture, read back."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.text = svg(events)
        self.root = ET.fromstring(self.text)

    def all(self, tag: str, kind: str = "") -> list[ET.Element]:
        """The elements of a tag that are of all these classes."""
        return [
            one
            for one in self.root.iter("{http://www.w3.org/2000/svg}" + tag)
            if set(kind.split()) <= set(one.get("class", "").split())
        ]

    def one(self, tag: str, kind: str) -> ET.Element:
        (found,) = self.all(tag, kind)
        return found

    def words(self, kind: str = "") -> list[str]:
        """Texts, without what a browser says of them when pointed at."""
        return [(one.text or "") + "".join(part.tail or "" for part in one) for one in self.all("text", kind)]

    def way(self, text: str) -> dict[str, float]:
        """Where the arrow of a message begins and ends."""
        (found,) = [one for one in self.all("line", "way") if text in "".join(one.itertext())]
        return {name: float(found.get(name, "")) for name in ("x1", "y1", "x2", "y2")}

    def x(self, name: str) -> float:
        """Where the lifeline of an actor is."""
        texts = self.all("text", "name")
        return next(float(one.get("x", "")) for one in texts if "".join(one.itertext()).endswith(name))

    def lives(self, name: str) -> list[tuple[float, float]]:
        """From where to where an actor's lifelines go."""
        lines = [one for one in self.all("line", "life") if float(one.get("x1", "")) == self.x(name)]
        return [(float(one.get("y1", "")), float(one.get("y2", ""))) for one in lines]

    def y(self, tag: str, kind: str) -> float:
        """The height of a mark that is there once."""
        mark = self.one(tag, kind)
        if tag == "circle":
            return float(mark.get("cy", ""))
        ys = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", mark.get("d", ""))]
        return (min(ys) + max(ys)) / 2


# -- which message is which


def test_a_message_is_handled_when_the_very_same_object_of_the_same_sender_is() -> None:
    one, equal = [1], [1]
    events = [
        happened("told", "/c", one, "/a"),
        happened("told", "/c", equal, "/a"),
        happened("told", "/c", one, "/b"),
        happened("told", "/d", one, "/b"),
        happened("taken", "/c", one, "/b"),
        happened("taken", "/c", equal, "/a"),
    ]
    assert [path.ended for path in message_paths(events)] == [None, 5, 4, None]


def test_of_one_object_that_is_sent_twice_the_first_is_handled_first_and_the_last_finds_no_room() -> None:
    events = [happened("told", "/b", 7, "/a"), happened("told", "/b", 7, "/a"), happened("told", "/b", 7, "/a")]
    events += [happened("full", "/b", 7), happened("taken", "/b", 7, "/a"), happened("dead_letter", "/b", 7)]
    assert [path.ended for path in message_paths(events)] == [4, 5, 3]


def test_a_message_is_overtaken_by_those_sent_later_to_the_same_actor_only() -> None:
    events = [*overtaking(), *through("elsewhere", receiver="/d")]
    assert [path.overtaken_by for path in message_paths(events)] == [[2], [], []]


# -- in Mermaid's language


def test_an_arrow_stands_where_its_message_is_handled_and_has_the_number_of_its_sending() -> None:
    assert lines_of(overtaking()) == ["p2->>p1: 2 fast", "p0->>p1: 1 slow, overtaken by 2"]


def test_of_many_overtakers_only_a_few_are_named() -> None:
    whats = [Said(str(number)) for number in range(6)]
    events = [happened("told", "/b", what, "/a") for what in whats]
    events += [happened("taken", "/b", what, "/a") for what in reversed(whats)]
    assert lines_of(events)[-1] == "p0->>p1: 1 0, overtaken by 2, 3, 4, \N{HORIZONTAL ELLIPSIS}"


@pytest.mark.parametrize(
    ("kind", "line"), [("told", "p0->>p1: 1 it"), ("asked", "p0->>p1: 1 asks it"), ("ticked", "p0-)p1: 1 it")]
)
def test_messages_questions_and_ticks_have_their_arrows(kind: str, line: str) -> None:
    assert lines_of(through(Said("it"), kind=kind)) == [line]


@pytest.mark.parametrize(("kind", "line"), [("answered", "p1-->>p0: it"), ("refused", "p1--xp0: it")])
def test_an_answer_goes_back_to_who_asked(kind: str, line: str) -> None:
    events = [*through("question", kind="asked"), happened(kind, "/b", Said("it"), "/a")]
    assert lines_of(events)[1:] == [line]


@pytest.mark.parametrize(
    ("kind", "what", "note"),
    [
        ("failed", ValueError("bad"), "fails: ValueError('bad')"),
        ("restarted", ValueError("bad"), "is restarted after ValueError('bad')"),
        ("escalated", ValueError("bad"), "escalates ValueError('bad')"),
        ("declined", ValueError("bad"), "refuses it: ValueError('bad')"),
        ("stopped", KILLED, "ends: killed"),
        ("stopped", ExitReason.of(ValueError("bad")), "ends: fail, ValueError('bad')"),
        ("injected", "/a crashes", "fault: /a crashes"),
        ("dead_letter", 7, "dead letter: 7"),
        ("dropped", 7, "drops 7"),
        ("full", 7, "has no room for 7"),
        ("unheard_of", 7, "unheard_of: 7"),
    ],
)
def test_what_happens_to_an_actor_is_a_note_in_both_diagrams(kind: str, what: Any, note: str) -> None:
    events = [happened(kind, "/a", what)]
    assert lines_of(events) == [f"Note over p0: {note}"]
    assert note in Drawing(events).words()


@pytest.mark.parametrize(
    ("kind", "note"), [("dead_letter", "1 is a dead letter"), ("dropped", "1 is dropped"), ("full", "no room for 1")]
)
def test_a_lost_message_is_crossed_out_where_it_is_lost(kind: str, note: str) -> None:
    events = [happened("told", "/b", "it", "/a"), *through("x", receiver="/c"), happened(kind, "/b", "it")]
    assert lines_of(events) == ["p0->>p2: 2 'x'", "p0-xp1: 1 'it'", f"Note over p1: {note}"]


def test_a_message_that_nobody_handles_stands_at_the_end() -> None:
    events = [happened("asked", "/b", "it", "/a"), *through("x")]
    assert lines_of(events)[1:] == ["p0-xp1: 1 asks 'it'", "Note over p1: 1 is never handled"]


def test_a_message_whose_sending_is_not_among_the_events_has_no_number() -> None:
    assert lines_of([happened("taken", "/b", "it", "/a")]) == ["p0->>p1: 'it', sent earlier"]


def test_who_starts_at_the_beginning_is_simply_there_and_who_starts_later_is_noted() -> None:
    events = [happened("started", "/a"), *through("x"), happened("started", "/b")]
    assert lines_of(events)[1:] == ["Note over p1: starts"]


def test_the_outside_is_the_first_participant_and_only_if_it_takes_part() -> None:
    assert cast_of(through("x")) == ["/a", "/b"]
    assert cast_of([happened("failed", "/a", "x")]) == ["/a"]
    assert cast_of([*through("x"), *through("y", OUTSIDE)]) == [OUTSIDE, "/a", "/b"]


def test_the_time_is_said_where_the_clock_has_moved() -> None:
    events = [
        happened("failed", "/a", 1),
        happened("failed", "/a", 2, time=0.25),
        happened("failed", "/a", 3, time=0.25),
    ]
    assert lines_of(events) == ["Note over p0: fails: 1", "Note over p0: fails: 2 at 0.25 s", "Note over p0: fails: 3"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a;b", "a#59;b"),
        ("#1", "#35;1"),
        ("<b>", "#60;b#62;"),
        ("a & b", "a #38; b"),
        ('say "it"', "say #34;it#34;"),
        ("two\nlines", r"two#92;nlines"),
        ("%%{init}%%", "#37;#37;{init}#37;#37;"),
        ("$$x$$", "#36;#36;x#36;#36;"),
        ("style: x", "#115;tyle: x"),
        ("classDef: x", "#99;lassDef: x"),
        ("\ud800\u202e", "#92;ud800#92;u202e"),
        ("('a', 1): {b} [c] d->>e", "('a', 1): {b} [c] d-#62;#62;e"),
    ],
)
def test_what_mermaid_would_read_otherwise_is_escaped(text: str, written: str) -> None:
    assert lines_of(through(Said(text))) == [f"p0->>p1: 1 {written}"]
    assert cast_of(through("x", sender="/" + text))[0] == "/" + written


def test_long_texts_lose_their_end_and_long_names_their_beginning() -> None:
    events = through(Said("m" * 70), sender="/" + "a" * 100 + "/tail")
    assert lines_of(events) == ["p0->>p1: 1 " + "m" * 39 + "\N{HORIZONTAL ELLIPSIS}"]
    (sender, _) = cast_of(events)
    assert len(sender) == 32
    assert sender.startswith("\N{HORIZONTAL ELLIPSIS}a")
    assert sender.endswith("/tail")


def test_nothing_gives_an_empty_diagram() -> None:
    assert mermaid([]) == "sequenceDiagram\n"
    assert "nothing has happened" in Drawing([]).words()


# -- as a picture


def test_an_arrow_begins_in_the_row_of_its_sending_and_ends_in_the_row_of_its_handling() -> None:
    drawing = Drawing(
        [happened("told", "/b", "it", "/a"), *through("x", "/b", "/a"), happened("taken", "/b", "it", "/a")]
    )
    it, x = drawing.way("'it'"), drawing.way("'x'")
    assert it["y1"] < x["y1"] < x["y2"] < it["y2"]
    assert it["x1"] == drawing.x("/a")
    assert it["x2"] == pytest.approx(drawing.x("/b"), abs=5)
    assert x["x1"] == drawing.x("/b")
    assert x["x2"] == pytest.approx(drawing.x("/a"), abs=5)


def test_an_overtaken_message_crosses_the_one_that_was_faster_and_says_so() -> None:
    drawing = Drawing(overtaking())
    slow, fast = drawing.way("slow"), drawing.way("fast")
    assert slow["y1"] < fast["y1"]
    assert slow["y2"] > fast["y2"]
    assert drawing.words("late") == ["slow overtaken"]


def test_messages_that_keep_their_order_do_not_cross() -> None:
    one, two = Said("one"), Said("two")
    events = [happened("told", "/b", one, "/a"), happened("told", "/b", two, "/a")]
    events += [happened("taken", "/b", one, "/a"), happened("taken", "/b", two, "/a")]
    drawing = Drawing(events)
    assert drawing.way("one")["y1"] < drawing.way("two")["y1"]
    assert drawing.way("one")["y2"] < drawing.way("two")["y2"]
    assert drawing.words("late") == []


def test_a_message_to_oneself_is_a_loop() -> None:
    drawing = Drawing(through("tick", "/a", "/a", "ticked"))
    assert drawing.all("line", "way ticked") == drawing.all("line", "way")  # that of the legend
    assert "C" in drawing.one("path", "way ticked").get("d", "")


def test_an_answer_is_level_and_dashed_and_a_refusal_ends_in_a_cross() -> None:
    drawing = Drawing([happened("answered", "/b", "yes", "/a"), happened("refused", "/b", "no", "/a")])
    for text in ("'yes'", "'no'"):
        way = drawing.way(text)
        assert way["y1"] == way["y2"]
        assert way["x1"] > way["x2"]
    assert re.search(r"\.way\.answered, \S+ \.way\.refused { stroke-dasharray", drawing.text)
    assert len(drawing.all("path", "head")) == len(drawing.all("path", "cross refused")) == 2  # each with its legend


@pytest.mark.parametrize("kind", LOSING)
def test_a_lost_message_ends_in_a_mark_in_the_row_of_its_loss(kind: str) -> None:
    drawing = Drawing([happened("told", "/b", "it", "/a"), *through("x", "/b", "/a"), happened(kind, "/b", "it")])
    assert drawing.y("circle", "open") == drawing.way("'it'")["y2"]
    assert drawing.way("'it'")["y2"] > drawing.way("'x'")["y2"]


def test_a_message_that_nobody_handles_says_so() -> None:
    drawing = Drawing([happened("told", "/b", Said("it"), "/a")])
    assert "never handled: it" in drawing.words()
    assert drawing.y("circle", "open") > drawing.way("it")["y1"]


def test_a_message_whose_sending_is_not_among_the_events_comes_from_nowhere() -> None:
    drawing = Drawing([happened("taken", "/b", "it", "/a")])
    assert "'it' from /a, sent earlier" in drawing.words()
    assert drawing.one("line", "way earlier") is not None


def test_a_lifeline_begins_at_the_start_and_ends_with_a_cross_at_the_end() -> None:
    events = [*through("x", "/a", "/c"), happened("started", "/b"), *through("y"), happened("stopped", "/b", KILLED)]
    drawing = Drawing(events)
    assert drawing.lives("/b") == [(drawing.y("circle", "started"), drawing.y("path", "stopped"))]


def test_an_actor_that_was_there_before_the_first_event_lives_from_the_top() -> None:
    drawing = Drawing([happened("stopped", "/b", KILLED), happened("started", "/b"), *through("x")])
    (_, end), (begin, _) = drawing.lives("/b")
    assert end == drawing.y("path", "stopped") < begin == drawing.y("circle", "started")
    assert drawing.lives("/a")[0][0] == drawing.lives("/b")[0][0]


def test_an_actor_of_which_only_dead_letters_are_known_has_no_lifeline() -> None:
    assert Drawing([happened("told", "/b", 1), happened("dead_letter", "/b", 1)]).lives("/b") == []


@pytest.mark.parametrize(("kind", "tag"), [("failed", "circle"), ("restarted", "circle"), ("injected", "path")])
def test_failures_restarts_and_faults_have_marks_and_notes_of_their_own(kind: str, tag: str) -> None:
    drawing = Drawing([happened(kind, "/a", "it")])
    assert drawing.one(tag, f"mark {kind}") is not None
    assert drawing.one("rect", f"note {kind}") is not None


def test_a_bar_covers_what_an_actor_does_while_it_handles_a_message() -> None:
    x, y = Said("x"), Said("y")
    events = [*through(x), happened("told", "/a", y, "/b"), happened("ticked", "/a", "z", "/b", step=1)]
    drawing = Drawing(events)
    bar = drawing.one("rect", "bar")
    top, height = float(bar.get("y", "")), float(bar.get("height", ""))
    assert top < drawing.way("x")["y2"] < drawing.way("y")["y1"] < top + height < drawing.way("'z'")["y1"]


def test_steps_and_times_stand_at_the_left_where_they_change() -> None:
    events = [
        happened("failed", "/a", "x", step=step, time=time) for step, time in ((3, 0.5), (3, 0.5), (4, 0.5), (4, 2))
    ]
    words = Drawing(events).words()
    assert [word for word in words if re.fullmatch(r"[\d.]+( s)?", word)] == ["3", "0.5 s", "4", "2 s"]


def test_a_message_is_named_again_where_it_is_handled_if_that_is_far_below() -> None:
    far = Said("far")
    between = [one for number in range(5) for one in through(Said(f"near {number}"), "/b", "/a")]
    words = Drawing([happened("told", "/b", far, "/a"), *between, happened("taken", "/b", far, "/a")]).words()
    assert words.count("far") == 2
    assert words.count("near 1") == 1


def test_a_long_name_is_shortened_and_told_in_full_when_pointed_at() -> None:
    name = "/" + "a" * 60
    drawing = Drawing([happened("failed", name, "x")])
    assert all(len(word) <= 20 for word in drawing.words("name"))
    assert name in ["".join(one.itertext()) for one in drawing.all("title")]


def test_a_large_picture_has_a_size_that_can_be_looked_at() -> None:
    names = [f"/a-node-of-a-long-name-{number}" for number in range(12)]
    message = {"a": "long message", "of": ["many", "parts"]}
    events = [one for step in range(100) for one in through(message, names[step % 12], names[step * 5 % 12])]
    root = Drawing(events).root
    assert float(root.get("width", "")) < 3200
    assert float(root.get("height", "")) < 5500


def test_a_picture_needs_nothing_else() -> None:
    text = Drawing(overtaking()).text
    assert not re.search(r"<script|href|url\(|@import|\bid=", text)
    assert text.count("http") == 1  # the namespace
    assert 'class="paper"' in text


class Plain:
    """A message whose text has its address."""


def test_the_same_events_give_the_same_diagrams_wherever_their_objects_are() -> None:
    one, two = through(Plain()), through(Plain())
    assert mermaid(one) == mermaid(two)
    assert svg(one) == svg(two)


# -- whatever the texts

texts = st.one_of(
    st.text(max_size=30),
    st.text(st.characters(), max_size=12),
    st.sampled_from(["style x:#fff;", "%%{init: {}}%%", "]]>", "<!--", "&lt;", "\x00", "\ud800", "\ufffe", "#35;", ""]),
)
ALIAS = r"(?:[^#;%<>&\"`\\$\n]|#\d+;)+"
GRAMMAR = re.compile(
    rf"sequenceDiagram|    (?:participant p\d+ as {ALIAS}|title {ALIAS}"
    rf"|p\d+(?:->>|-\)|-->>|--x|-x)p\d+: {ALIAS}|Note over p\d+: {ALIAS})"
)


@st.composite
def any_events(draw: st.DrawFn) -> list[Event]:
    names = [OUTSIDE, *draw(st.lists(texts, min_size=1, max_size=4))]
    whats = [Said(text) for text in draw(st.lists(texts, min_size=1, max_size=4))]
    one = st.builds(
        Event,
        st.integers(0, 5),
        st.floats(0, 1e9),
        st.sampled_from(KINDS),
        st.sampled_from(names),
        st.sampled_from(whats),
        st.sampled_from(names),
    )
    return draw(st.lists(one, max_size=60))


@given(any_events())
@settings(deadline=None, max_examples=60)
def test_any_text_gives_lines_that_mermaid_takes(events: list[Event]) -> None:
    written = mermaid(events)
    assert written.endswith("\n")
    for line in written[:-1].split("\n"):
        assert GRAMMAR.fullmatch(line), line


@given(any_events())
@settings(deadline=None, max_examples=60)
def test_any_text_gives_a_picture_that_is_well_formed(events: list[Event]) -> None:
    drawing = Drawing(events)
    drawing.text.encode()  # no half characters
    sent = sum(event.kind in SENDING for event in events)
    assert sum(len(drawing.all(tag, f"way {kind}")) for tag in ("line", "path") for kind in SENDING) == sent + len(
        {event.kind for event in events if event.kind in SENDING}  # the legend
    )
    assert all(float(one.get("height", "")) > 0 for one in drawing.all("rect", "bar"))


# -- of a simulation


class Echo(Actor[str, str]):
    def receive(self, message: str) -> str:
        return message


def test_a_trace_is_drawn_as_it_was_recorded() -> None:
    async def program(system: ActorSystem) -> str:
        echo = system.spawn(Echo, name="echo")
        echo.tell("lost")
        return await echo.ask("hello")

    simulation = Simulation(seed=3, faults=[faults.crash("echo", at=1)])
    assert simulation.run(program) == "hello"
    written = mermaid(simulation.trace.events)
    assert simulation.trace.mermaid() == written
    assert "p0->>p1: 2 asks 'hello'" in written
    assert "p1-->>p0: 'hello'" in written
    assert "Note over p1: fault: /echo crashes at its message number 1" in written
    drawing = Drawing(simulation.trace.events)
    assert simulation.trace.svg() == drawing.text
    assert drawing.way("/echo: 'hello'")["x1"] == drawing.x(OUTSIDE)
    assert len(drawing.all("circle", "mark restarted")) == 1
