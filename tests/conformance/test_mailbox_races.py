"""Threads that race into one bounded mailbox: every message is let in or given back, and counted once (J7)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, Lane, MailboxConfig, MailboxFull, Overflow
from greenroom.testing import assert_ledger_balanced
from tests.conformance.cast import Holding, Listener, run_threads, run_threads_while_blocked

if TYPE_CHECKING:
    from tests.conftest import Play

pytestmark = pytest.mark.real


@pytest.mark.parametrize("lane", [Lane.DATA, Lane.CONTROL], ids=str)
@pytest.mark.parametrize("policy", list(Overflow), ids=str)
async def test_64_threads_that_race_into_a_mailbox_of_64_fill_it_exactly(
    system: ActorSystem, policy: Overflow, lane: Lane
) -> None:  # case 12, J15
    lanes: dict[Lane, int] = {} if lane is Lane.DATA else {lane: 64}
    mailbox = MailboxConfig(capacity=64, lanes=lanes, overflow=policy)
    held = Holding(system, mailbox=mailbox)
    ref = await held.begin()
    admitted: list[tuple[int, int]] = []
    rejected: list[Any] = []

    def send(number: int) -> None:
        for n in range(10):
            try:
                ref.tell((number, n), lane=lane)
            except MailboxFull as full:
                rejected.append(full.message)
            else:
                admitted.append((number, n))

    await run_threads(*(partial(send, number) for number in range(64)))
    heard = await held.end()
    assert len(heard) == 64
    assert len(admitted) + len(rejected) == 640
    ledger = assert_ledger_balanced(system, ref)
    if policy is Overflow.REJECT:
        assert sorted(heard) == sorted(admitted)
        assert (ledger.sent, ledger.rejected, ledger.dropped) == (65, 576, 0)
    else:
        assert rejected == []
        assert (ledger.sent, ledger.rejected, ledger.dropped) == (641, 0, 576)
    for number in range(64):
        mine = [n for who, n in heard if who == number]
        assert mine == sorted(mine)


@pytest.mark.parametrize("priority", [None, lambda message: message[1]], ids=["fifo", "priority"])
async def test_threads_racing_with_an_actor_that_keeps_up_lose_nothing(
    system: ActorSystem, priority: Any
) -> None:  # case 12, J15
    heard: list[tuple[int, int]] = []
    ref = system.spawn(Listener, heard, mailbox=MailboxConfig(capacity=64, priority=priority))
    rejected: list[Any] = []

    def send(number: int) -> None:
        for n in range(10):
            try:
                ref.tell((number, n))
            except MailboxFull as full:
                rejected.append(full.message)

    race = asyncio.ensure_future(run_threads(*(partial(send, number) for number in range(64))))
    for number in range(64, 200):  # the loop's own thread takes part
        send(number)
        await asyncio.sleep(0)
    await race
    await system.settle()
    everything = [(number, n) for number in range(200) for n in range(10)]
    assert sorted(heard + rejected) == everything
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.handled, ledger.rejected) == (len(heard), len(rejected))


@pytest.mark.parametrize("many", [1, 3])
async def test_threads_that_end_the_actor_in_the_middle_of_a_race_lose_nothing(
    system: ActorSystem, many: int
) -> None:  # case 12
    """What comes too late is a dead letter; what finds no room is given back; the rest is handled."""
    heard: list[tuple[int, int]] = []
    ref = system.spawn(Listener, heard, mailbox=MailboxConfig(capacity=16))
    rejected: list[Any] = []

    def send(number: int) -> None:
        for n in range(20):
            try:
                ref.tell((number, n))
            except MailboxFull as full:
                rejected.append(full.message)
            if number < many and n == 10:
                ref.stop()

    await run_threads(*(partial(send, number) for number in range(32)))
    await ref.terminated()
    await system.settle()
    dead = [letter.message for letter in system.dead_letters.recent()]
    assert sorted(heard + rejected + dead) == [(number, n) for number in range(32) for n in range(20)]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.handled, ledger.rejected, ledger.dead_lettered) == (len(heard), len(rejected), len(dead))


@pytest.mark.parametrize("policy", list(Overflow), ids=str)
def test_threads_racing_with_a_shutdown_find_a_column_for_every_message(
    play: Play, policy: Overflow
) -> None:  # case 12
    heard: list[tuple[int, int]] = []
    rejected: list[Any] = []

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Listener, heard, mailbox=MailboxConfig(capacity=16, overflow=policy))

        def send(number: int) -> None:
            for n in range(20):
                try:
                    ref.tell((number, n))
                except MailboxFull as full:
                    rejected.append(full.message)
                if number == n == 10:
                    system.stop()

        await run_threads(*(partial(send, number) for number in range(16)))
        await system.stopped()

    ledger = play(program).ledger()
    assert ledger.sent + ledger.rejected == 320
    assert (ledger.handled, ledger.rejected) == (len(heard), len(rejected))
    assert ledger.dead_lettered + ledger.dropped == 320 - len(heard) - len(rejected)


async def test_room_that_was_promised_in_vain_is_given_to_those_who_wait(system: ActorSystem) -> None:  # case 10
    """A thread's message that turns out to have no priority leaves its place to whoever waits for one."""
    heard: list[int] = []
    ref = system.spawn(Listener, heard, mailbox=MailboxConfig(capacity=1, priority=lambda n: 10 // n))
    await ref.started()
    run_threads_while_blocked(lambda: ref.tell(0))
    async with asyncio.timeout(120.0):
        await ref.send(5)
    await system.settle()
    assert heard == [5]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.handled, ledger.dead_lettered) == (1, 1)
