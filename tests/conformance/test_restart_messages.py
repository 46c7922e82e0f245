"""What becomes of messages in a restart: queued, stashed, asked, ticking (M6; cases 45, 46, 49; decision 014)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import (
    ActorSystem,
    Lane,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    OnRestart,
    Supervision,
)
from greenroom.testing import assert_ledger_balanced
from tests.conformance.askers import outcome, until
from tests.conformance.cast import FOREIGN, run_threads_while_blocked
from tests.conformance.incarnations import (
    AT_ONCE,
    BAD,
    CLEARING,
    AsyncPhoenix,
    Bird,
    Book,
    Gate,
    Phoenix,
    every_phoenix,
    slow,
    turns,
)
from tests.conformance.lives import ended


@every_phoenix
@pytest.mark.config(supervision=AT_ONCE)
async def test_queued_messages_are_handled_in_order_and_the_failed_one_is_not_replayed(
    system: ActorSystem, kind: Any
) -> None:  # case 45
    book = Book()
    tried: list[int] = []

    def fail(me: Any) -> None:
        tried.append(me.number)
        raise BAD.with_traceback(None)

    ref = system.spawn(kind, book)
    for message in (fail, "m2", "m3"):
        ref.tell(message)
    ref.tell("urgent", lane=Lane.MANAGEMENT)
    ref.tell("log", lane=Lane.LOG)
    asked = ref.ask(lambda me: me.number)
    assert await asked == 2
    await system.settle()
    assert tried == [1]
    assert book.heard == ["urgent", "m2", "m3", "log"]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.failed, ledger.handled, ledger.dead_lettered) == (1, 5, 0)


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_messages_sent_while_it_waits_are_queued_behind_those_it_had(
    system: ActorSystem, clock: ManualClock, foreign: bool
) -> None:  # case 45
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(1.0))
    ref.tell(BAD)
    ref.tell(1)
    await clock.advance(0.5)
    ref.tell(2)
    if foreign:
        run_threads_while_blocked(lambda: ref.tell(3))
    else:
        ref.tell(3)
    await clock.advance(0.25)
    assert book.heard == []
    assert assert_ledger_balanced(system, ref).queued == 3
    await ref.send(4)
    await clock.advance(0.25)
    assert book.heard == [1, 2, 3, 4]


async def test_a_mailbox_is_as_bounded_while_its_actor_waits(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 8, M6
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(1.0), mailbox=MailboxConfig(capacity=2))
    ref.tell(BAD)
    await clock.advance(0.5)
    ref.tell(1)
    ref.tell(2)
    with pytest.raises(MailboxFull):
        ref.tell(3)
    waiting = asyncio.ensure_future(ref.send(4))
    await turns()
    assert not waiting.done()
    await clock.advance(0.5)
    await waiting
    await system.settle()
    assert book.heard == [1, 2, 4]


@every_phoenix
@pytest.mark.config(supervision=CLEARING)
async def test_with_clear_they_are_dead_letters(system: ActorSystem, kind: Any) -> None:  # case 46
    book = Book()
    letters: list[Any] = []
    system.dead_letters.subscribe(letters.append)
    ref = system.spawn(kind, book)
    await ref.ask("hello")

    def stash(me: Any) -> None:
        me.ctx.stash()

    ref.tell(stash)
    ref.tell(BAD)
    ref.tell("m2")
    ref.tell("m3", lane=Lane.LOG)
    asked = ref.ask("m4", timeout=None)
    error = await outcome(asked)
    assert isinstance(error, Exception)
    assert not isinstance(error, TimeoutError)
    assert await ref.ask("after") == "after"
    assert book.heard == ["hello", "after"]
    assert sorted(str(letter.message) for letter in letters if letter.message is not stash) == ["m2", "m3", "m4"]
    assert {letter.recipient for letter in letters} == {ref}
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.dead_lettered, ledger.failed, ledger.handled) == (4, 1, 2)


async def test_a_clear_lets_waiting_senders_in_and_leaves_notices_alone(
    system: ActorSystem,
) -> None:  # case 46, case 11
    book = Book()
    gate = Gate()
    ref = system.spawn(AsyncPhoenix, book, supervision=CLEARING, mailbox=MailboxConfig(capacity=2))
    other = system.spawn(Bird, Book())
    await ref.ask(lambda me: me.ctx.watch(other))

    async def hold(me: Any) -> None:
        await gate.wait()
        raise BAD.with_traceback(None)

    ref.tell(hold)
    await gate.entered.wait()
    other.stop()
    await ended(system, other)
    ref.tell(1)
    ref.tell(2)
    waiting = asyncio.ensure_future(ref.send(3))
    await turns()
    assert not waiting.done()
    gate.opened.set()
    await waiting
    await system.settle()
    assert sorted(map(str, book.heard)) == sorted(["3", str(("terminated", other))])


async def test_what_comes_after_a_clear_is_kept(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 46: a restart must not lose messages
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(1.0, mailbox=OnRestart.CLEAR))
    ref.tell(BAD)
    ref.tell("cleared")
    await clock.advance(0.5)
    assert system.dead_letters.count == 1
    ref.tell("kept")
    await clock.advance(0.5)
    assert book.heard == ["kept"]


@every_phoenix
@pytest.mark.config(supervision=AT_ONCE)
async def test_stashed_messages_are_not_lost_and_come_before_newer_ones(
    system: ActorSystem, kind: Any
) -> None:  # case 51, M6
    book = Book()
    ref = system.spawn(kind, book)
    seen: list[Any] = []

    def put_aside(name: str) -> Any:
        def act(me: Any) -> str:
            if me.number == 1:
                me.ctx.stash()
            else:
                seen.append(name)
            return name

        return act

    asked = ref.ask(put_aside("s1"))
    ref.tell(put_aside("s2"))
    ref.tell(BAD)
    ref.tell(lambda _: seen.append("newer"))
    assert await asked == "s1"
    await system.settle()
    assert seen == ["s1", "s2", "newer"]


@every_phoenix
async def test_timers_end_with_the_instance_that_started_them(
    system: ActorSystem, clock: ManualClock, kind: Any
) -> None:  # case 49, J11, M6
    book, other_book = Book(), Book()
    other = system.spawn(Bird, other_book)
    ref = system.spawn(kind, book, supervision=AT_ONCE)

    def start(me: Any) -> None:
        me.ctx.send_after(1.0, me.ctx.self, "after")
        me.ctx.send_every(1.0, me.ctx.self, "every")
        me.ctx.timers.start("key", 1.0, "by key", every=1.0)
        me.ctx.send_after(1.0, other, "to another")

    await ref.ask(start)
    await clock.advance(0.5)
    ref.tell(BAD)
    await clock.advance(10.0)
    assert book.heard == other_book.heard == []
    assert system.snapshot().timers == 0
    assert await ref.ask(lambda me: me.ctx.timers.active) == []
    await ref.ask(start)
    await clock.advance(1.0)
    assert book.heard == ["after", "every", "by key"]
    assert other_book.heard == ["to another"]


@pytest.mark.parametrize("policy", list(OnRestart))
async def test_a_tick_that_is_queued_when_its_actor_restarts_is_not_delivered(
    system: ActorSystem, clock: ManualClock, policy: OnRestart
) -> None:
    # case 49
    book = Book()
    gate = Gate()
    ref = system.spawn(AsyncPhoenix, book, supervision=Supervision(backoff=None, mailbox=policy))

    async def hold(me: Any) -> None:
        me.ctx.send_after(1.0, me.ctx.self, "tick")
        me.ctx.send_every(1.0, me.ctx.self, "tick", fixed_rate=True)
        me.ctx.timers.start("key", 1.0, "tick")
        await gate.wait()
        raise BAD.with_traceback(None)

    ref.tell(hold)
    await clock.advance(1.0)
    assert assert_ledger_balanced(system, ref).queued >= 3
    gate.opened.set()
    await until(lambda: book.lives == 2)
    await clock.advance(10.0)
    assert book.heard == []
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.dropped, ledger.dead_lettered, ledger.queued) == (3, 0, 0)


async def test_a_timer_of_another_actor_goes_on(system: ActorSystem, clock: ManualClock) -> None:  # M6, J11
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(1.0))
    other = system.spawn(Bird, Book())
    await other.ask(lambda me: me.ctx.send_after(1.5, ref, "tick"))
    await clock.advance(1.0)
    ref.tell(BAD)
    await clock.advance(1.0)
    assert book.heard == ["tick"]


async def test_asks_that_are_queued_are_answered_by_the_next_incarnation(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 45
    ref = system.spawn(AsyncPhoenix, Book(), supervision=slow(1.0))
    failed = ref.ask(BAD)
    asked = ref.ask(lambda me: me.number, timeout=30.0)
    late = ref.ask(lambda me: me.number, timeout=0.5)
    await clock.advance(1.0)
    assert await outcome(failed) is BAD
    assert await asked == 2
    assert isinstance(await outcome(late), TimeoutError)
