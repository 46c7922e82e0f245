"""`ref.restart()`: when it acts, and what it does not cost (M6, decision 014)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, ManualClock, State
from greenroom.errors import BadArgument
from greenroom.testing import TestProbe
from tests.conformance.askers import in_thread
from tests.conformance.cast import FOREIGN
from tests.conformance.incarnations import (
    BAD,
    BORN_AGAIN,
    AsyncPhoenix,
    Book,
    Gate,
    Phoenix,
    assert_legal,
    every_phoenix,
    runs,
    slow,
    turns,
)
from tests.conformance.lives import ended

if TYPE_CHECKING:
    from tests.conftest import Play


@every_phoenix
async def test_a_restart_from_outside_counts_for_no_limit_and_waits_for_no_backoff(
    system: ActorSystem, clock: ManualClock, kind: Any
) -> None:  # M6, M7
    book = Book()
    ref = system.spawn(kind, book, supervision=slow(1.0, max_restarts=1, within=100.0))
    for number in range(1, 11):
        ref.restart()
        await clock.advance(0.0)
        assert runs(ref)
        assert book.lives == number + 1
        assert book.actors[number - 1].cause is None
    ref.tell(BAD)
    await clock.advance(1.0)
    assert book.lives == 12
    ref.restart()
    ref.tell(BAD)
    assert (await ended(system, ref)).cause is BAD
    assert book.lives == 13


async def test_restarting_does_not_lengthen_the_next_backoff(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7: what counts as a restart
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(1.0))
    for _ in range(5):
        ref.restart()
    await system.settle()
    lives = book.lives
    ref.tell(BAD)
    await clock.advance(1.0)
    assert book.lives == lives + 1
    assert runs(ref)


@every_phoenix
async def test_a_restart_acts_after_the_message_in_hand_and_before_what_is_queued(
    system: ActorSystem, kind: Any
) -> None:  # M2, M6
    book = Book()
    ref = system.spawn(kind, book)

    def ask_for_it(me: Any) -> int:
        ref.restart()
        me.book.write("goes on", me.number)
        number: int = me.number
        return number

    asked = ref.ask(ask_for_it)
    number = ref.ask(lambda me: me.number)
    assert (await asked, await number) == (1, 2)
    log = book.take()
    assert log.index("goes on 1") < log.index("pre_restart 1") < log.index("init 2")


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.config(history=True)
async def test_a_restart_waits_for_a_suspended_handler(system: ActorSystem, foreign: bool) -> None:  # M2, M6
    book = Book()
    gate = Gate()
    ref = system.spawn(AsyncPhoenix, book)
    asked = ref.ask(gate.wait)
    await gate.entered.wait()
    if foreign:
        await in_thread(lambda: ref.restart(BAD))
    else:
        ref.restart(BAD)
    ref.restart()
    await turns()
    assert "pre_restart 1" not in book.log
    gate.opened.set()
    assert await asked is None
    assert await ref.ask("next") == "next"
    assert book.actors[0].cause is BAD
    assert gate.cancelled == 0
    assert_legal(ref.history)


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.config(stop_timeout=3.0, history=True)
async def test_a_handler_that_ignores_a_restart_is_broken_off_at_the_deadline(
    system: ActorSystem, clock: ManualClock, stubborn: bool
) -> None:  # M5, M6
    book = Book()
    gate = Gate(stubborn)
    ref = system.spawn(AsyncPhoenix, book)
    asked = ref.ask(gate.wait, timeout=None)
    ref.tell("queued")
    await clock.advance(0.0)
    ref.restart()
    await clock.advance(2.5)
    assert book.lives == 1
    assert gate.cancelled == 0
    await clock.advance(5.0)
    assert gate.cancelled == 1
    assert book.lives == 2
    assert runs(ref)
    assert book.heard == ["queued"]
    with pytest.raises((Exception, asyncio.CancelledError)):
        await asked
    assert_legal(ref.history)
    gate.opened.set()


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.config(history=True)
async def test_a_restart_of_one_that_waits_for_its_backoff_starts_it_at_once(
    system: ActorSystem, clock: ManualClock, foreign: bool
) -> None:  # M6
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(10.0))
    ref.tell(BAD)
    await clock.advance(1.0)
    assert ref.state is State.RESTARTING
    book.take()
    await in_thread(ref.restart) if foreign else ref.restart()
    await clock.advance(0.0)
    assert runs(ref)
    assert book.take() == BORN_AGAIN
    await clock.advance(100.0)  # the alarm of the backoff is off
    assert book.take() == []
    assert book.lives == 2
    assert_legal(ref.history)


@every_phoenix
@pytest.mark.config(history=True)
async def test_a_restart_right_after_the_spawn_still_leaves_a_running_actor(
    system: ActorSystem, kind: Any
) -> None:  # M1, M6
    book = Book()
    ref = system.spawn(kind, book)
    ref.restart()
    assert await ref.ask("hello") == "hello"
    assert runs(ref)
    assert_legal(ref.history)
    born = [line for line in book.log if line.startswith("init")]
    gone = [line for line in book.log if line.startswith("post_stop")]
    assert len(born) == len(gone) + 1


@pytest.mark.parametrize("hook", ["pre_start", "post_start", "pre_restart", "snapshot", "post_stop", "post_restart"])
def test_a_restart_asked_for_in_a_hook_leads_to_a_running_actor(play: Play, hook: str) -> None:  # M6
    for kind in (Phoenix, AsyncPhoenix):
        book = Book()

        async def program(system: ActorSystem, kind: Any = kind, book: Book = book) -> None:
            number = 2 if hook == "post_restart" else 1
            book.acts[f"{hook} {number}"] = lambda me: me.ctx.self.restart()
            ref = system.spawn(kind, book)
            await ref.ask("first")
            ref.restart()
            assert await ref.ask("second") == "second"
            assert runs(ref)
            assert 2 <= book.lives <= 3
            assert_legal(ref.history)

        play(program, history=True)


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_an_actor_that_has_ended_is_not_restarted(system: ActorSystem, foreign: bool) -> None:  # M6
    book = Book()
    probe = TestProbe(system)
    ref = system.spawn(Phoenix, book)
    await probe.watch(ref)
    ref.stop()
    ref.restart()
    await ended(system, ref)
    ref.restart(BAD)
    if foreign:
        await in_thread(ref.restart)
    await system.settle()
    assert book.lives == 1
    await probe.expect_terminated(ref)
    await probe.expect_no()


@pytest.mark.parametrize("cause", ["a text", ValueError, 3])
async def test_the_cause_of_a_restart_is_an_exception(system: ActorSystem, cause: Any) -> None:  # J9
    ref = system.spawn(Phoenix, Book())
    with pytest.raises(BadArgument):
        ref.restart(cause)
    assert await ref.ask("unharmed") == "unharmed"
