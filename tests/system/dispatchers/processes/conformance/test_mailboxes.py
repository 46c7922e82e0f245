"""Bounded mailboxes, with actors in worker processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from greenroom import (
    ExitKind,
    Lane,
    MailboxConfig,
    MailboxFull,
    Overflow,
)
from greenroom.errors import MessageDropped, SendTimeout
from tests.system.dispatchers.processes.cast import (
    AsyncPuppet,
    Puppet,
    Try,
    Watcher,
    call,
    do,
)
from tests.system.dispatchers.processes.conformance.stage import BAD, STOPS, Ear, Eye, Gate, away, held, stage


async def test_a_second_tell_to_a_mailbox_of_one_gives_the_message_back() -> None:  # case 8, J7
    async with stage() as system:
        eye = Eye()
        system.observers.add(eye)
        ref, gate, heard = await held(system, mailbox=MailboxConfig(capacity=1))
        ref.tell("first")
        with pytest.raises(MailboxFull) as told:
            ref.tell("second")
        with pytest.raises(MailboxFull) as asked:
            await ref.ask("second")
        for caught in (told, asked):
            assert (caught.value.message, caught.value.ref, caught.value.code) == ("second", ref, "mailbox_full")
        assert eye.full == [(ref, "second", Lane.DATA)] * 2
        gate.open()
        await system.settle()
        assert heard == ["first"]
        assert system.ledger(ref).rejected == 2
        assert await ref.ask("third") == "third"


async def test_a_sender_in_a_process_hears_of_a_full_mailbox_if_it_asks_and_goes_on() -> None:  # case 8, J7
    async with stage() as system:
        heard: list[Any] = []
        ref, gate, _ = await held(system, mailbox=MailboxConfig(capacity=1))
        ref.tell("first")
        sender = away(system, AsyncPuppet, system.spawn(Ear, heard))
        asked = await sender.ask(Try(call(ref, "ask", "asked")))
        assert isinstance(asked, MailboxFull)
        assert (asked.message, asked.ref) == ("asked", ref)
        waited = await sender.ask(Try(call(ref, "send", "sent", timeout=0.01)))
        assert isinstance(waited, SendTimeout)
        told = await sender.ask(Try(call(ref, "tell", "told")))
        assert await sender.ask("still there") == "still there"
        gate.open()
        await system.settle()
        assert told is None  # it has gone on by then: that is a dead letter
        assert [(one.message, one.reason) for one in system.dead_letters.recent()] == [("told", "mailbox full")]


async def test_a_dropping_policy_drops_exactly_one_for_one_too_many() -> None:  # cases 9, 25
    async with stage() as system:
        for policy, dropped, handled in ((Overflow.DROP_OLD, 0, [1, 2, 3]), (Overflow.DROP_NEW, 3, [0, 1, 2])):
            eye = Eye()
            system.observers.add(eye)
            ref, gate, heard = await held(system, mailbox=MailboxConfig(capacity=3, overflow=policy))
            asks = [ref.ask(n) for n in range(4)]
            with pytest.raises(MessageDropped):
                await asks[dropped]
            assert eye.dropped == [(ref, dropped, Lane.DATA)]
            gate.open()
            await system.settle()
            assert [await asks[n] for n in handled] == heard == handled
            ledger = system.ledger(ref)
            assert (ledger.sent, ledger.handled, ledger.dropped, ledger.rejected) == (5, 4, 1, 0)
            assert system.dead_letters.count == 0


async def test_those_who_wait_for_room_are_let_in_in_order_and_one_who_gives_up_leaves_nothing() -> None:  # case 10
    async with stage() as system:
        ref, gate, heard = await held(system, mailbox=MailboxConfig(capacity=1))
        ref.tell("first")
        sending = [asyncio.ensure_future(ref.send(n)) for n in range(5)]
        await asyncio.sleep(0)
        sender = away(system, AsyncPuppet)
        far = asyncio.ensure_future(sender.ask(call(ref, "send", "from afar"), timeout=None))
        await sender.started()
        assert isinstance(await away(system, AsyncPuppet).ask(Try(call(ref, "send", 9, timeout=0.01))), SendTimeout)
        assert not any(one.done() for one in sending)
        sending[2].cancel()
        gate.open()
        for one in (*sending[:2], *sending[3:], far):
            await one
        await system.settle()
        assert heard == ["first", 0, 1, 3, 4, "from afar"]
        assert system.ledger(ref).sent == 7


async def test_orders_and_notices_are_accepted_however_full_the_mailbox_is() -> None:  # case 11, M2
    async with stage() as system:
        for end in ("stop", "kill", "fail", "restart"):
            ref, gate, heard = await held(system, mailbox=MailboxConfig(capacity=1), supervision=STOPS)
            other = away(system, Puppet)
            notified = away(system, Watcher, system.spawn(Ear, heard), mailbox=MailboxConfig(capacity=1))
            second = Gate(system)
            await notified.ask(do("watch", other))
            notified.tell(second.hold)
            await second.entered.wait()
            notified.tell("full")
            ref.tell("full")
            other.stop()
            await other.terminated()
            second.open()
            getattr(ref, end)(*([BAD] if end == "fail" else []))
            gate.open()
            if end == "restart":
                await ref.send("again")
            else:
                kinds = {"stop": ExitKind.NORMAL, "kill": ExitKind.KILLED, "fail": ExitKind.FAIL}
                assert (await ref.terminated()).kind is kinds[end]
            await system.settle()
            assert heard.count("full") == (2 if end == "restart" else 1)
            assert ("terminated", other, "None") in heard
            assert heard.index("full") < heard.index(("terminated", other, "None"))


async def test_threads_that_race_into_a_mailbox_are_admitted_or_refused() -> None:  # case 12, J15
    async with stage() as system:
        ref, gate, heard = await held(system, mailbox=MailboxConfig(capacity=64))
        outcomes: Counter[str] = Counter()

        def send(who: int) -> Counter[str]:
            mine: Counter[str] = Counter()
            for n in range(10):
                try:
                    ref.tell((who, n))
                    mine["admitted"] += 1
                except MailboxFull:
                    mine["rejected"] += 1
            return mine

        for one in await asyncio.gather(*(asyncio.to_thread(send, who) for who in range(64))):
            outcomes += one
        gate.open()
        await system.settle()
        assert (outcomes["admitted"], outcomes["rejected"]) == (64, 576)
        assert len(heard) == 64
        assert system.ledger(ref).rejected == 576
        for who in range(64):
            mine = [n for one, n in heard if one == who]
            assert mine == sorted(mine)
