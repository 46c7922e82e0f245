"""The end of systems that are busy: full mailboxes, floods, spawning, waiting (case 59, M11, B4)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, ActorTerminated, Context, MailboxConfig, MailboxFull, SystemStopped
from greenroom.ledger import Ledger
from tests.conformance.lives import Plain, PlainAsync, assert_ended_once
from tests.conformance.sending import until
from tests.conftest import Play
from tests.gates import loops_of, standstill, turns

PATIENCE = 120.0


@pytest.mark.parametrize("kind", [Plain, PlainAsync])
@pytest.mark.config(max_actors_per_tick=8)
async def test_a_shutdown_ends_a_system_that_goes_on_spawning(system: ActorSystem, kind: Any) -> None:  # case 59
    refused: list[Exception] = []

    def multiply(ctx: Context) -> None:
        try:
            for _ in range(2):
                ctx.spawn(kind).tell(multiply)
                ctx.system.spawn(kind, name=None).tell("hello")
        except SystemStopped as exc:
            refused.append(exc)
        ctx.self.tell(multiply)

    system.spawn(kind).tell(multiply)
    system.spawn(kind).tell(multiply)
    while len(system.actors()) < 200:  # noqa: ASYNC110 - nothing else tells when it has come so far
        await asyncio.sleep(0)
    await system.shutdown(drain=False)  # it would never be quiet
    assert system.report is not None
    assert_ended_once(system, system.report.started)
    assert system.report.started >= 200


MANY = [10_000, pytest.param(100_000, marks=pytest.mark.slow)]


@pytest.mark.at_home("pinned")
@pytest.mark.parametrize("actors", MANY)
@pytest.mark.config(stop_timeout=300.0)
async def test_very_many_actors_with_full_mailboxes_end_with_an_exact_account(
    play: Play, system: ActorSystem, actors: int
) -> None:  # M11, B4
    room = 3
    actors = play.many(actors)

    class Slow(Actor[int, int]):
        async def receive(self, message: int) -> int:
            await asyncio.sleep(0)
            return message

    refs = [system.spawn(Slow, mailbox=MailboxConfig(capacity=room)) for _ in range(actors)]
    with standstill(system):
        for ref in refs:
            for number in range(room):
                ref.tell(number)
        with pytest.raises(MailboxFull):
            refs[-1].tell(room)
        asked = [ref.ask(room, timeout=None) for ref in refs[:100]]
    sending = asyncio.ensure_future(refs[0].send(room))
    await asyncio.sleep(0)
    await system.shutdown(timeout=300.0)
    await sending
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(result, MailboxFull | ActorTerminated | int) for result in results)
    ledger = system.ledger()
    assert ledger.sent == actors * room + 1
    assert ledger.handled + ledger.failed + ledger.dead_lettered == ledger.sent
    assert ledger.failed == 0
    assert system.dead_letters.count == ledger.dead_lettered
    assert_ended_once(system, actors)  # on a slow machine too


@pytest.mark.at_home("pinned")
@pytest.mark.parametrize("actors", MANY)
def test_very_many_actors_that_will_not_stop_are_forced_at_the_deadline(play: Play, actors: int) -> None:  # case 57
    room = 2
    actors = play.many(actors)

    async def never(ctx: Context, message: object) -> None:
        await asyncio.get_running_loop().create_future()

    async def program(system: ActorSystem) -> None:
        refs = [system.spawn(never, mailbox=MailboxConfig(capacity=room)) for _ in range(actors)]
        for ref in refs:
            ref.tell("in hand")
        await until(lambda: sum(loop.visits.suspended for loop in loops_of(system)) == actors)
        for ref in refs:
            for number in range(room):
                ref.tell(number)
        async with asyncio.timeout(PATIENCE):  # forcing so many takes a while, but nobody's `stop_timeout` of an hour
            await system.shutdown(timeout=0.2)
        ledger = system.ledger()
        assert ledger == Ledger(sent=actors * (room + 1), failed=actors, dead_lettered=actors * room)

    report = play(program, stop_timeout=3600.0).report
    assert report is not None
    assert (report.started, report.terminated, report.forced_count) == (actors, actors, actors)
    assert len(report.forced) == min(1000, actors)


@pytest.mark.real
async def test_no_message_goes_missing_when_threads_send_into_a_shutdown(system: ActorSystem) -> None:  # M11, B4
    sent: list[int] = []
    refs = [system.spawn(kind, mailbox=MailboxConfig(capacity=8)) for kind in (Plain, PlainAsync) * 5]
    under_way, over = threading.Barrier(4), threading.Event()

    def flood() -> None:
        under_way.wait(PATIENCE)
        number = 0
        while not over.is_set() or number == 0:
            for ref in refs:
                try:
                    ref.tell(number)
                    number += 1
                except MailboxFull:
                    pass
        sent.append(number)

    floods = [asyncio.create_task(asyncio.to_thread(flood)) for _ in range(3)]
    await asyncio.to_thread(under_way.wait, PATIENCE)
    await turns(20)
    await system.shutdown()
    over.set()
    await asyncio.gather(*floods)
    assert system.ledger().sent == sum(sent)
    assert_ended_once(system, 10)


@pytest.mark.parametrize("timeout", [None, 5.0])
async def test_actors_that_wait_for_one_another_do_not_hold_up_a_shutdown(
    system: ActorSystem, timeout: float | None
) -> None:  # case 59
    class Link(Actor[Any, Any]):
        def __init__(self, after: ActorRef[Any, Any] | None) -> None:
            self.after = after

        async def receive(self, message: Any) -> Any:
            if self.after is None:
                return await asyncio.get_running_loop().create_future()
            return await self.after.ask(message, timeout=timeout)

    last = ref = system.spawn(Link, None)
    for _ in range(5):
        ref = system.spawn(Link, ref)
    asked = ref.ask("hello", timeout=None)
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(system.shutdown())
    await asyncio.sleep(0)
    last.kill()  # the only one that really hangs
    await waiting
    with pytest.raises(ActorTerminated):
        await asked
    await system.shutdown()
    assert_ended_once(system, 6)


async def test_pipes_and_timers_end_with_the_system(system: ActorSystem) -> None:  # case 59
    cancelled: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.append("pipe")

    def begin(ctx: Context) -> None:
        ctx.pipe_to_self(endless())
        ctx.send_every(0.001, ctx.self, "tick")
        ctx.timers.start("key", 100.0, "tock")
        ctx.set_receive_timeout(100.0)

    await system.spawn(Plain).ask(begin)
    await asyncio.sleep(0)
    await system.shutdown(drain=False)
    await asyncio.sleep(0)
    assert system.snapshot().timers == 0
    assert cancelled == ["pipe"]
    assert_ended_once(system, 1)


async def test_an_actor_that_hears_of_dead_letters_does_not_hold_up_a_shutdown(system: ActorSystem) -> None:  # M10, M11
    system.dead_letters.subscribe(system.spawn(PlainAsync, mailbox=MailboxConfig(capacity=2)))
    refs = [system.spawn(PlainAsync) for _ in range(10)]
    for ref in refs:
        for number in range(10):
            ref.tell(number)
    await system.shutdown()
    assert_ended_once(system, 11)
