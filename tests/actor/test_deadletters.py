"""Dead letters: counted, kept within bounds, told to subscribers, and logged with restraint (M10)."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    AskTimeout,
    Context,
    DeadLetter,
    DeadLetters,
    MailboxConfig,
    ManualClock,
    handles,
)
from greenroom.errors import Unhandled
from greenroom.testing import TestProbe

if TYPE_CHECKING:
    from tests.conftest import Play


class Mirror(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else message


class Picky(Actor[Any, Any]):
    @handles(str)
    def text(self, message: str) -> str:
        return message


async def dead_actor(system: ActorSystem, name: str | None = None) -> ActorRef[Any, Any]:
    ref = system.spawn(Mirror, name=name)
    ref.stop()
    await ref.terminated()
    return ref


# What is kept


def test_a_dead_letter_says_what_from_whom_to_whom_why_and_when(play: Play) -> None:
    clock = ManualClock(5.0)

    async def program(system: ActorSystem) -> None:
        dead = await dead_actor(system, "dead")
        sender = system.spawn(Mirror)
        await clock.advance(2.0)
        await sender.ask(lambda ctx: dead.tell("lost"))
        (letter,) = system.dead_letters.recent()
        assert isinstance(letter, DeadLetter)
        assert (letter.message, letter.sender, letter.recipient, letter.time) == ("lost", sender, dead, 7.0)
        assert letter.reason
        assert letter.recipient.path == "/dead"
        with pytest.raises(dataclasses.FrozenInstanceError):
            letter.reason = "another"

    play(program, clock=clock)


async def test_every_way_to_die_is_counted_by_its_reason(system: ActorSystem, clock: ManualClock) -> None:
    letters = system.dead_letters
    assert (letters.count, letters.by_reason, letters.recent()) == (0, {}, [])
    dead = await dead_actor(system)
    dead.tell("to a dead one")
    picky = system.spawn(Picky)
    with pytest.raises(Unhandled):
        await picky.ask(3)
    queued = system.spawn(Mirror)
    queued << "queued when it stopped"
    queued.stop()
    await queued.terminated()
    gate = asyncio.Event()

    async def slow(ctx: Context, message: str) -> str:
        await gate.wait()
        return "late"

    asked = system.spawn(slow).ask("x", timeout=1.0)
    await clock.advance(1.0)
    with pytest.raises(AskTimeout):
        await asked
    gate.set()
    await system.settle()
    assert [letter.message for letter in letters.recent()] == ["to a dead one", 3, "queued when it stopped", "late"]
    assert letters.count == sum(letters.by_reason.values()) == 4
    assert letters.by_reason["unhandled"] == 1
    assert [letter.reason for letter in letters.recent()].count("unhandled") == 1
    assert set(letters.by_reason) == {letter.reason for letter in letters.recent()}
    assert system.ledger().dead_lettered == 2
    assert system.ledger().unhandled == 1
    assert system.ledger().late_replies == 1


async def test_what_is_handed_out_is_a_copy(system: ActorSystem) -> None:
    dead = await dead_actor(system)
    dead.tell(1)
    system.dead_letters.by_reason.clear()
    system.dead_letters.recent().clear()
    assert len(system.dead_letters.recent()) == 1
    assert sum(system.dead_letters.by_reason.values()) == 1


# Who is told


async def test_a_subscribed_function_is_told_until_it_is_taken_off(system: ActorSystem) -> None:
    told: list[Any] = []
    dead = await dead_actor(system)
    dead.tell("before")
    end = system.dead_letters.subscribe(told.append)
    dead << 1 << 2
    assert [letter.message for letter in told] == [1, 2]
    assert told == system.dead_letters.recent()[1:]
    end()
    dead.tell(3)
    end()  # twice is once
    assert len(told) == 2


async def test_a_subscribed_actor_gets_them_as_messages(system: ActorSystem) -> None:
    probe = TestProbe(system)
    dead = await dead_actor(system)
    end = system.dead_letters.subscribe(probe.ref)
    dead << 1 << 2
    assert [(await probe.expect(DeadLetter)).message for _ in range(2)] == [1, 2]
    end()
    dead.tell(3)
    await probe.expect_no()


async def test_each_subscription_ends_by_itself(system: ActorSystem) -> None:
    """The same function twice: `call the result to end that`, and no other."""
    told: list[Any] = []
    hear = told.append
    dead = await dead_actor(system)
    first, second = system.dead_letters.subscribe(hear), system.dead_letters.subscribe(hear)
    dead.tell(1)
    assert len(told) == 2
    first()
    dead.tell(2)
    assert len(told) == 3
    first()
    dead.tell(3)
    assert len(told) == 4
    second()
    dead.tell(4)
    assert len(told) == 4


async def test_a_subscriber_that_raises_is_logged_and_dropped_and_the_others_are_told(
    system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []
    calls: list[Any] = []

    def complain(letter: DeadLetter) -> None:
        calls.append(letter)
        raise LookupError("not for me")

    dead = await dead_actor(system)
    system.dead_letters.subscribe(complain)
    system.dead_letters.subscribe(told.append)
    dead << 1 << 2
    assert [letter.message for letter in told] == [1, 2]
    assert len(calls) == 1
    assert system.dead_letters.count == 2
    assert any(record.exc_info and "not for me" in str(record.exc_info[1]) for record in caplog.records)


async def test_a_subscriber_without_room_does_not_trouble_the_sender(system: ActorSystem) -> None:
    held, gate = asyncio.Event(), asyncio.Event()

    async def hold(ctx: Context, message: Any) -> None:
        held.set()
        await gate.wait()

    full = system.spawn(hold, mailbox=MailboxConfig(capacity=1))
    full.tell("in hand")
    await held.wait()
    full.tell("queued")
    system.dead_letters.subscribe(full)
    dead = await dead_actor(system)
    dead << 1 << 2  # raises nothing
    assert system.dead_letters.count == 2
    gate.set()


async def test_a_subscribed_actor_that_cannot_handle_them_is_not_told_for_ever(system: ActorSystem) -> None:
    """Its unhandled `DeadLetter` is a dead letter too, of which nobody is told."""
    system.dead_letters.subscribe(system.spawn(Picky))
    (await dead_actor(system)).tell("one")
    await system.settle()
    assert [type(letter.message) for letter in system.dead_letters.recent()] == [str, DeadLetter]


async def test_a_subscriber_may_subscribe_and_unsubscribe_while_it_is_told(system: ActorSystem) -> None:
    told: list[Any] = []

    def once(letter: DeadLetter) -> None:
        end()
        system.dead_letters.subscribe(told.append)

    end = system.dead_letters.subscribe(once)
    dead = await dead_actor(system)
    dead << 1 << 2
    assert [letter.message for letter in told] == [2]


@pytest.mark.parametrize("subscriber", [None, 3, "text"])
async def test_only_a_ref_or_a_function_can_be_told(system: ActorSystem, subscriber: Any) -> None:  # J9
    with pytest.raises(TypeError, match="a ref or a function"):
        system.dead_letters.subscribe(subscriber)


# The log


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "greenroom.dead_letters"]


async def test_the_log_says_what_died_and_does_not_flood(
    system: ActorSystem, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    dead = await dead_actor(system, "grave")
    with caplog.at_level(logging.INFO, "greenroom.dead_letters"):
        for number in range(200):
            dead.tell(number)
        logged = len(lines(caplog))
        assert 0 < logged < 50
        assert "/grave" in lines(caplog)[0]
        assert "int" in lines(caplog)[0]
        await clock.advance(60.0)  # by the system's clock
        dead.tell("after a while")
        assert len(lines(caplog)) == logged + 1
        assert str(200 - logged) in lines(caplog)[-1]  # those that were passed over
        dead.tell("another")
        assert len(lines(caplog)) == logged + 2
        assert "not logged" not in lines(caplog)[-1]
    assert system.dead_letters.count == 202


async def test_a_log_that_nobody_reads_costs_no_turn(
    system: ActorSystem, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    dead = await dead_actor(system)
    with caplog.at_level(logging.ERROR, "greenroom.dead_letters"):
        for number in range(50):
            dead.tell(number)
    assert lines(caplog) == []
    with caplog.at_level(logging.INFO, "greenroom.dead_letters"):
        dead.tell("now")
    assert len(lines(caplog)) == 1


def test_dead_letters_stand_by_themselves() -> None:
    letters = DeadLetters(capacity=2, clock=ManualClock(3.0))
    for number in range(3):
        letters.publish(number, None, None, "stopped")
    assert (letters.count, letters.by_reason) == (3, {"stopped": 3})
    assert [(letter.message, letter.time) for letter in letters.recent()] == [(1, 3.0), (2, 3.0)]
