"""The chaos program's model finds what is wrong in a journal, each kind of it, and nothing in one that is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Ledger
from tools.chaos.journal import Event
from tools.chaos.model import check
from tools.chaos.plan import draw
from tools.chaos.stage import Facts, SystemFacts

HOME, WORKER = 1, 2
ONE, TWO = "M>a7>1>100", "M>a7>1>200"
ASKED = "T1>a7>1>300"

Line = tuple[Any, ...]

RIGHT: tuple[Line, ...] = (
    (HOME, "started", "a1", "/w0"),
    (HOME, "started", "a7", "/m0"),
    (HOME, "made", "a7", "a7.1", "/m0"),
    (HOME, "registered", "watch", "a1", "a7"),
    (HOME, "registered", "monitor", "a1", "a7", 5),
    (HOME, "sending", ONE, "mark"),
    (HOME, "sent", ONE),
    (HOME, "sending", TWO, "mark"),
    (HOME, "sent", TWO),
    (HOME, "begin", ONE, "a7", "a7.1"),
    (HOME, "done", ONE, "a7"),
    (HOME, "begin", TWO, "a7", "a7.1"),
    (HOME, "done", TWO, "a7"),
    (HOME, "asking", ASKED, "echo", 1.0),
    (HOME, "begin", ASKED, "a7", "a7.1"),
    (HOME, "done", ASKED, "a7"),
    (HOME, "answer", ASKED, "reply", ASKED),
    (HOME, "post_stop", "a7", "a7.1"),
    (HOME, "ended", "a7", "normal", "/m0", ""),
    (HOME, "told", "watch", "a1", "a7", "normal"),
    (HOME, "told", "monitor", "a1", "a7", "normal", 5),
    (HOME, "calm"),
    (HOME, "ended", "a1", "shutdown", "/w0", ""),
    (HOME, "exit", "a7", "normal"),
    (HOME, "exit", "a1", "shutdown"),
    (HOME, "shut down", "a", 0.1),
)


def facts(**more: Any) -> Facts:
    ledger = Ledger(sent=3, handled=3)
    usual: dict[str, Any] = {
        "ledger": ledger,
        "ledgers": {"a7": ledger},
        "dispatchers": {},
        "started": 2,
        "terminated": 2,
        "forced": (),
        "cause": "NoneType",
        "seconds": 0.1,
        "alive": 0,
        "timers": 0,
        "dead_letters": 0,
        "by_reason": {},
    }
    return Facts(HOME, draw(1, only=()), 20.0, {"a": SystemFacts(**{**usual, **more})})


def judged(lines: tuple[Line, ...] = RIGHT, **more: Any) -> list[str]:
    events = [Event(float(number), pid, what, list(rest)) for number, (pid, what, *rest) in enumerate(lines)]
    return check(events, facts(**more))


def without(*starts: str) -> tuple[Line, ...]:
    return tuple(line for line in RIGHT if " ".join(map(str, line[1:])).split(" ")[: len(starts)] != list(starts))


def moved(line: Line, after: Line) -> tuple[Line, ...]:
    left = [one for one in RIGHT if one != line]
    left.insert(left.index(after) + 1, line)
    return tuple(left)


def replaced(old: Line, new: Line) -> tuple[Line, ...]:
    assert old in RIGHT
    return tuple(new if line == old else line for line in RIGHT)


def added(*lines: Line, before: str = "post_stop") -> tuple[Line, ...]:
    place = [line[1] for line in RIGHT].index(before)
    return (*RIGHT[:place], *lines, *RIGHT[place:])


def test_a_history_that_is_right_is_found_right() -> None:
    assert judged() == []


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (lambda: added((HOME, "ended", "a7", "normal", "/m0", ""), before="calm"), "ends: a7 ended 2 times"),
        (lambda: without("ended", "a7"), "ends: observers were not told of the end of a7"),
        (lambda: replaced((HOME, "exit", "a7", "normal"), (HOME, "exit", "a7", "fail")), "ends: a7 ended fail"),
        (lambda: added((HOME, "ended", "a9", "normal", "/m0/c", "a7"), before="calm"), "ends: a9 /m0/c ended after"),
        (lambda: added((HOME, "made", "a7", "a7.2", "/m0"), before="asking"), "lives: a7.1 handled"),
        (lambda: without("told", "watch"), "relations: ('watch', 'a1', 'a7') was not told"),
        (lambda: without("told", "monitor"), "relations: ('monitor', 'a1', 'a7', 5) was not told"),
        (
            lambda: added((HOME, "told", "watch", "a1", "a7", "normal"), before="calm"),
            "relations: ('watch', 'a1', 'a7')",
        ),
        (lambda: added((HOME, "unregistered", "watch", "a1", "a7")), "relations: ('watch', 'a1', 'a7') was told after"),
        (lambda: added((HOME, "begin", ONE, "a7", "a7.1")), f"messages: {ONE} was handled 2 times"),
        (lambda: moved((HOME, "begin", ONE, "a7", "a7.1"), (HOME, "done", TWO, "a7")), f"order: {ONE}"),
        (lambda: without("begin", ONE), "lost: 1 messages to a7 are nowhere"),
        (lambda: added((HOME, "dead", "a", ONE, "Note", "stopped")), f"dead letters: {ONE} was handled, and is one"),
        (lambda: without("answer"), f"asks: {ASKED} (echo) has no outcome"),
        (lambda: added((HOME, "answer", ASKED, "error", "WorkerLost", "")), f"asks: {ASKED} has 2 outcomes"),
        (
            lambda: replaced((HOME, "answer", ASKED, "reply", ASKED), (HOME, "answer", ASKED, "reply", ONE)),
            f"asks: {ASKED} (echo) was answered with {ONE}",
        ),
        (
            lambda: replaced((HOME, "answer", ASKED, "reply", ASKED), (HOME, "answer", ASKED, "error", "OSError", "")),
            f"asks: {ASKED} (echo) failed with OSError",
        ),
        (
            lambda: added((HOME, "log", "greenroom", "WARNING", "the worker process 'a' has ended", "", "")),
            "workers: the worker process",
        ),
    ],
)
def test_what_is_wrong_is_found(lines: Callable[[], tuple[Line, ...]], kind: str) -> None:
    assert any(line.startswith(kind) for line in judged(lines())), judged(lines())


def test_stashed_messages_that_come_back_in_another_order_are_found() -> None:
    def stashed(ident: str) -> tuple[Line, ...]:
        return (HOME, "begin", ident, "a7", "a7.1"), (HOME, "stashed", ident, "a7")

    def again(ident: str) -> tuple[Line, ...]:
        return (HOME, "begin", ident, "a7", "a7.1"), (HOME, "done", ident, "a7")

    started = RIGHT[:9]
    rest = RIGHT[13:]
    assert judged((*started, *stashed(ONE), *stashed(TWO), *again(ONE), *again(TWO), *rest)) == []
    wrong = judged((*started, *stashed(ONE), *stashed(TWO), *again(TWO), *again(ONE), *rest))
    assert wrong == [f"order: {ONE} was stashed before another, and handled again after it"]


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"ledger": Ledger(sent=4, handled=3)}, "ledger: of a in the end"),
        ({"ledgers": {"a7": Ledger(sent=3, handled=2, failed=1)}}, "ledger: a7 has"),
        ({"ledgers": {"a7": Ledger(sent=2, handled=2)}}, "ledger: a7 has"),
        ({"ledger": Ledger(sent=3, handled=2, lost=1)}, "lost: 1 messages"),
        ({"dead_letters": 1, "by_reason": {"stopped": 1}}, "dead letters: a counts 1, told 0"),
        ({"started": 3}, "shutdown: a reports 3 started"),
        ({"forced": ("/m0",)}, "shutdown: a forced"),
        ({"cause": "ValueError"}, "shutdown: a ended because of ValueError"),
        ({"alive": 1}, "shutdown: a has 1 actors"),
    ],
)
def test_what_a_system_says_wrongly_is_found(more: dict[str, Any], kind: str) -> None:
    assert any(line.startswith(kind) for line in judged(**more)), judged(**more)
