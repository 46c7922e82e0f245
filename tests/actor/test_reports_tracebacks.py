"""One traceback for each failure in the log, however many actors it concerns and however often it comes (M7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ChildSpec,
    Directive,
    ManualClock,
    Supervision,
    Supervisor,
    SystemConfig,
    SystemFailed,
)
from greenroom.runtimelog import LOG_PERIOD
from tests.culprits import Culprit, Unmakeable, go_wrong

Caplog = pytest.LogCaptureFixture
Program = Callable[[ActorSystem], Awaitable[None]]
STOP = Supervision(Directive.STOP)
ESCALATE = Supervision(Directive.ESCALATE)
HEADING = "Traceback (most recent call last)"


def shown(caplog: Caplog) -> list[str]:
    """The records of failures, as they would be printed."""
    return [logging.Formatter().format(one) for one in caplog.records if one.levelno >= logging.ERROR]


def run(program: Program, **settings: Any) -> None:
    async def main() -> None:
        async with ActorSystem(config=SystemConfig(**settings)) as system:
            await asyncio.wait_for(program(system), 120)

    asyncio.run(main())


class Parent(Actor[Any, Any]):
    def pre_start(self) -> None:
        self.child = self.ctx.spawn(Culprit, name="child")

    def receive(self, message: Any) -> Any:
        self.child.tell(message)


class Friend(Actor[Any, Any]):
    """Watches, or is linked."""

    def receive(self, message: Any) -> Any:
        how, ref = message
        getattr(self.ctx, how)(ref)


async def asked(system: ActorSystem) -> None:
    with pytest.raises(ValueError, match="now"):
        await system.spawn(Culprit).ask("now")


async def asked_elsewhere(system: ActorSystem) -> None:
    with pytest.raises(ValueError, match="now"):
        await system.spawn(Culprit, dispatcher="process").ask("now", timeout=120)


async def never_started(system: ActorSystem) -> None:
    with pytest.raises(ValueError, match="not today"):
        await system.spawn(Unmakeable).started()


async def never_started_again(system: ActorSystem) -> None:
    await system.spawn(Unmakeable, supervision=Supervision(backoff=None)).terminated()


async def given_up(system: ActorSystem) -> None:
    spec = Supervisor.spec(children=[ChildSpec("child", Culprit)], intensity=2)
    boss = system.spawn(Supervisor, spec, name="boss", supervision=STOP)
    await boss.started()
    child = system.actor("/boss/child")
    assert child is not None
    for _ in range(3):
        child.tell("again")
    await boss.terminated()


async def watched(system: ActorSystem) -> None:
    await befriend(system, "watch")


async def linked(system: ActorSystem) -> None:
    await befriend(system, "link")


async def befriend(system: ActorSystem, how: str) -> None:
    friend, culprit = system.spawn(Friend), system.spawn(Culprit)
    await friend.ask((how, culprit))
    culprit.tell("alas")
    await friend.terminated()


OCCASIONS: dict[str, tuple[Program, int]] = {
    "asked": (asked, 1),
    "asked, in another process": (asked_elsewhere, 1),
    "its constructor": (never_started, 1),
    "its constructor, four times": (never_started_again, 4),
    "a supervisor that gives up": (given_up, 4),
    "watched": (watched, 2),
    "linked": (linked, 2),
}


@pytest.mark.parametrize("occasion", OCCASIONS)
def test_a_failure_is_shown_with_one_traceback(occasion: str, caplog: Caplog) -> None:
    program, records = OCCASIONS[occasion]
    run(program, supervision=STOP)
    texts = shown(caplog)
    assert len(texts) == records
    assert [text.count(HEADING) for text in texts] == [1] + [0] * (records - 1)


def test_an_escalation_to_the_top_is_shown_with_one_traceback_and_raised_with_its_cause(caplog: Caplog) -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(Parent, name="parent").tell("up")
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        run(program, supervision=ESCALATE)
    assert isinstance(caught.value.__cause__, ValueError)
    child, parent = shown(caplog)
    assert (child.count(HEADING), parent.count(HEADING)) == (1, 0)
    assert "/parent failed because /parent/child escalated: ValueError: up" in parent


def test_a_record_without_its_traceback_still_has_the_exception_and_names_the_line(caplog: Caplog) -> None:
    run(never_started_again)
    records = [one for one in caplog.records if one.levelno >= logging.ERROR]
    for record in records:
        assert record.exc_info is not None
        assert isinstance(record.exc_info[1], ValueError)
    line = go_wrong.__code__.co_firstlineno + 2
    assert all(f"culprits.py:{line}, as before" in record.getMessage() for record in records[1:])


def test_a_failure_in_another_place_is_shown_in_full(caplog: Caplog) -> None:
    class Manifold(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            if message == "here":
                go_wrong(message)
            go_wrong(message)

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Manifold)
        for message in ("here", "there", "there", "here"):
            ref.tell(message)
        await system.settle()

    run(program, supervision=Supervision(Directive.RESUME))
    assert [text.count(HEADING) for text in shown(caplog)] == [1, 1, 0, 1]


def test_after_a_while_the_same_failure_is_shown_in_full_again(caplog: Caplog) -> None:
    clock = ManualClock()

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Culprit)
        for wait in (0.0, 1.0, LOG_PERIOD):
            await clock.advance(wait)
            ref.tell("once more")
            await system.settle()

    run(program, supervision=Supervision(Directive.RESUME), clock=clock)
    assert [text.count(HEADING) for text in shown(caplog)] == [1, 0, 1]
