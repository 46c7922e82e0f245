"""Handlers in worker processes that block: `send_sync`, `ask_sync` and the like, and asks that wait for room."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, MailboxConfig, ManualClock, Process, Supervision, SystemConfig
from greenroom.errors import (
    AskDeadlock,
    AskTimeout,
    MailboxFull,
    NotSendable,
    SendTimeout,
    WaitsForItself,
    WaitTimeout,
)
from greenroom.exits import ExitKind
from greenroom.policy.directives import Directive
from greenroom.testing import assert_ledger_balanced
from tests.conformance.cast import Holding
from tests.system.dispatchers.processes.guests import AsyncBlocker, Blocker

ONE = MailboxConfig(capacity=1)
DISPATCHERS = {"process": Process(workers=1), "other": Process(workers=1)}
CONFIG = SystemConfig(dispatchers=DISPATCHERS, supervision=Supervision(Directive.RESUME))
PATIENCE = 120.0


async def test_a_plain_handler_may_block_its_worker() -> None:
    async with ActorSystem(config=CONFIG) as system:
        holding = Holding(system)
        target = holding.ref
        ref = system.spawn(Blocker, dispatcher="process")
        await ref.ask(("send", target, "sent", None))
        assert await ref.ask(("ask", target, "asked", PATIENCE, False)) == "asked"
        assert holding.heard == ["sent", "asked"]
        assert holding.senders == [ref, ref]
        assert await ref.ask(("started", target)) is None
        assert await ref.ask(("inspect", target)) == {}
        other = system.spawn(Blocker, dispatcher="other")
        assert await ref.ask(("ask", other, "echo", PATIENCE, False)) == "echo"
        other.stop()
        assert (await ref.ask(("terminated", other, None))).kind is ExitKind.NORMAL
        assert await ref.ask("echo") == "echo"
        assert_ledger_balanced(system)


async def test_a_plain_handler_waits_for_room() -> None:  # case 10, M17
    async with ActorSystem(config=CONFIG) as system:
        holding = Holding(system, mailbox=ONE)
        target = await holding.begin()
        target.tell("first")
        ref = system.spawn(Blocker, dispatcher="process")
        with pytest.raises(SendTimeout) as caught:
            await ref.ask(("send", target, "late", 0.0))
        assert caught.value.message == "late"
        with pytest.raises(AskTimeout):
            await ref.ask(("ask", target, "late", 0.0, True))
        with pytest.raises(MailboxFull):
            await ref.ask(("ask", target, "refused", None, False))
        with pytest.raises(WaitTimeout):
            await ref.ask(("terminated", target, 0.0))
        asked = ref.ask(("ask", target, "asked", None, True))
        sent = ref.ask(("send", target, "sent", None))
        holding.released.set()
        assert await asked == "asked"
        assert await sent is None
        await system.settle()
        assert holding.heard == ["first", "asked", "sent"]
        assert_ledger_balanced(system)


async def test_an_async_handler_asks_and_waits_for_room() -> None:  # case 10
    async with ActorSystem(config=CONFIG) as system:
        holding = Holding(system, mailbox=ONE)
        target = await holding.begin()
        target.tell("first")
        ref = system.spawn(AsyncBlocker, dispatcher="process")
        asked = ref.ask(("ask", target, "asked"))
        assert await ref.ask(("give up", target, "gone")) == "gave up"
        assert await ref.ask(("from a thread", target, "by a thread")) == "AskTimeout"
        holding.released.set()
        assert await asked == "asked"
        await system.settle()
        assert holding.heard == ["first", "asked"]
        assert_ledger_balanced(system)


async def test_an_actor_in_a_worker_is_asked_when_it_has_room() -> None:  # case 10
    async with ActorSystem(config=CONFIG) as system:
        gate = Holding(system)
        opener = await gate.begin()
        ref: ActorRef[Any, Any] = system.spawn(Blocker, dispatcher="process", mailbox=ONE)
        await ref.started()
        ref.tell(("ask", opener, "go on", None, False))
        asked = [ref.ask(number, timeout=None, wait_for_room=True) for number in range(10)]
        with pytest.raises(NotSendable):
            await ref.ask(lambda: None, timeout=None, wait_for_room=True)
        gate.released.set()
        assert await asyncio.gather(*asked) == list(range(10))
        assert assert_ledger_balanced(system, ref).rejected == 0


async def test_an_async_handler_is_told_to_await() -> None:
    async with ActorSystem(config=CONFIG) as system:
        target = system.spawn(lambda ctx, message: message)
        ref = system.spawn(AsyncBlocker, dispatcher="process")
        for name in ("send_sync", "ask_sync", "started_sync", "terminated_sync", "inspect_sync"):
            with pytest.raises(WaitsForItself, match=f"write `await ref.{name.removesuffix('_sync')}"):
                await ref.ask(("block", name, target))


async def test_who_would_wait_for_itself_is_refused() -> None:
    async with ActorSystem(config=CONFIG) as system:
        ref = system.spawn(Blocker, dispatcher="process", mailbox=ONE, name="self")
        with pytest.raises(WaitsForItself, match="/self awaits its own end"):
            await ref.ask(("terminated", ref, None))
        with pytest.raises(WaitsForItself, match="inspect"):
            await ref.ask(("inspect", ref))
        with pytest.raises(WaitsForItself, match="system to be idle"):
            await ref.ask("settle")
        with pytest.raises(AskDeadlock):
            await ref.ask(("ask", ref, "me", None, False))
        await system.settle()
        with pytest.raises(WaitsForItself, match="/self waits for room in its own full mailbox"):
            await ref.ask(("fill itself", ref))
        await system.settle()
        assert_ledger_balanced(system)


async def test_who_would_wait_for_one_of_the_same_worker_is_refused() -> None:
    async with ActorSystem(config=CONFIG) as system:
        ref = system.spawn(Blocker, dispatcher="process")
        mate: ActorRef[Any, Any] = system.spawn(Blocker, dispatcher="process", name="mate")
        await mate.started()
        for message in (("ask", mate, "?", None, False), ("terminated", mate, None), ("inspect", mate)):
            with pytest.raises(WaitsForItself, match="/mate is in the same worker process"):
                await ref.ask(message)
        await ref.ask(("started", mate))
        await ref.ask(("send", mate, "there is room", None))
        assert await ref.ask("alive") == "alive"


@pytest.mark.parametrize("how", ["send", "ask", "terminated"])
def test_a_clock_that_is_turned_by_hand_goes_on_while_a_worker_blocks(how: str) -> None:  # M19
    async def main() -> None:
        clock = ManualClock()
        config = SystemConfig(dispatchers=DISPATCHERS, clock=clock, supervision=Supervision(Directive.RESUME))
        async with asyncio.timeout(PATIENCE), ActorSystem(config=config) as system:
            holding = Holding(system, mailbox=ONE)
            target = await holding.begin()
            target.tell("first")
            ref = system.spawn(Blocker, dispatcher="process")
            await ref.started()
            what = {"send": ("late", 5.0), "ask": ("late", 5.0, True), "terminated": (5.0,)}[how]
            asked = ref.ask(("note the time", (how, target, *what)), timeout=None)
            await clock.advance(20.0, patience=PATIENCE)
            assert await asked == 5.0
            holding.released.set()

    asyncio.run(main())


def test_threads_of_a_program_without_asyncio_wait_for_actors_in_workers() -> None:
    class Slow(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            assert opened.wait(PATIENCE)
            return message

    opened = threading.Event()
    with ActorSystem(config=CONFIG) as system:
        ref = system.spawn(Blocker, dispatcher="process", mailbox=ONE)
        ref.started_sync(PATIENCE)
        slow = system.spawn(Slow, dispatcher="parallel")
        ref.tell(("ask", slow, "hold", None, False))
        threads = [threading.Thread(target=ref.send_sync, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        opened.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert ref.ask_sync("last", timeout=PATIENCE, wait_for_room=True) == "last"
        system.settle_sync(PATIENCE)
        assert assert_ledger_balanced(system, ref).handled == 7
        assert ref.inspect_sync(timeout=PATIENCE) == {}
        ref.stop()
        assert ref.terminated_sync(PATIENCE).kind is ExitKind.NORMAL
