"""Which message comes first: of one sender, of many, of threads, and of those an actor sends itself."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Lane, MailboxConfig, Overflow
from greenroom.testing import assert_ledger_balanced
from tests.conformance.sending import FOREIGN, LISTENERS, Holding, Listener, run_threads, run_threads_while_blocked
from tests.conftest import Play
from tests.gates import Event


def equal(_: object) -> int:
    """A priority that is the same for all."""
    return 0


MAILBOXES = {
    "reject": MailboxConfig(),
    "drop_new": MailboxConfig(overflow=Overflow.DROP_NEW),
    "drop_old": MailboxConfig(overflow=Overflow.DROP_OLD),
    "priority": MailboxConfig(priority=equal),
    "priority_drop_old": MailboxConfig(priority=equal, overflow=Overflow.DROP_OLD),
}


class Source(Actor[int, None]):
    """Sends `(name, 0)`, `(name, 1)`, ... to a target, one for each message of its own."""

    def __init__(self, name: int, target: ActorRef[Any, Any], many: int) -> None:
        self.source = name
        self.target = target
        self.many = many

    def receive(self, n: int) -> None:
        self.target.tell((self.source, n))
        if n + 1 < self.many:
            self.ctx.self.tell(n + 1)


def each_in_order(heard: list[tuple[int, int]], senders: int, many: int) -> bool:
    return all([n for who, n in heard if who == sender] == list(range(many)) for sender in range(senders))


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.config(max_msgs_per_actor=3)
async def test_each_of_64_senders_keeps_its_order(system: ActorSystem, listener: type[Actor[Any, Any]]) -> None:
    # case 1
    heard: list[tuple[int, int]] = []
    target = system.spawn(listener, heard)
    for number in range(64):
        system.spawn(Source, number, target, 20).tell(0)
    await system.settle()
    assert len(heard) == 64 * 20
    assert each_in_order(heard, 64, 20)
    assert [who for who, _ in heard] != sorted(who for who, _ in heard)  # they did come interleaved
    assert assert_ledger_balanced(system, target).handled == 64 * 20


@pytest.mark.real
@pytest.mark.parametrize("mailbox", MAILBOXES.values(), ids=MAILBOXES)
@pytest.mark.parametrize("listener", LISTENERS)
async def test_threads_and_actors_keep_their_order_side_by_side(
    system: ActorSystem, listener: type[Actor[Any, Any]], mailbox: MailboxConfig
) -> None:  # case 1, J15
    heard: list[tuple[int, int]] = []
    target = system.spawn(listener, heard, mailbox=mailbox)
    for number in range(8):
        system.spawn(Source, number, target, 50).tell(0)

    def send(number: int) -> None:
        for n in range(50):
            target.tell((number, n))

    await run_threads(*(partial(send, number) for number in range(8, 16)))
    await system.settle()
    assert len(heard) == 16 * 50
    assert each_in_order(heard, 16, 50)
    ledger = assert_ledger_balanced(system, target)
    assert (ledger.sent, ledger.handled, ledger.dropped) == (800, 800, 0)


@pytest.mark.real
@pytest.mark.parametrize("mailbox", MAILBOXES.values(), ids=MAILBOXES)
async def test_what_a_thread_sends_while_the_loop_is_busy_keeps_its_order(
    system: ActorSystem, mailbox: MailboxConfig
) -> None:  # J15
    heard: list[tuple[int, int]] = []
    target = system.spawn(Listener, heard, mailbox=mailbox)

    def send(number: int) -> None:
        for n in range(50):
            target << (number, n)

    run_threads_while_blocked(*(partial(send, number) for number in range(4)))
    assert heard == []
    await system.settle()
    assert len(heard) == 200
    assert each_in_order(heard, 4, 50)


@pytest.mark.parametrize("listener", LISTENERS)
async def test_every_way_of_sending_stands_in_the_same_line(
    system: ActorSystem, listener: type[Actor[Any, Any]]
) -> None:  # case 1
    heard: list[int] = []
    target = system.spawn(listener, heard)
    target.tell(0)
    asked = target.ask(1)
    target << 2 << 3
    await target.send(4)
    later = target.ask(5)
    target.tell(6)
    assert (await asked, await later) == (1, 5)
    await system.settle()
    assert heard == list(range(7))


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_what_is_sent_while_an_actor_starts_keeps_its_order(system: ActorSystem, foreign: bool) -> None:  # case 1
    heard: list[int] = []

    class Slow(Listener):
        async def pre_start(self) -> None:
            self.ctx.self.tell(3)
            entered.set()
            await gate.wait()
            self.ctx.self.tell(6)

    entered, gate = Event(), Event()
    target = system.spawn(Slow, heard)
    for n in (1, 2):
        target.tell(n)
    await entered.wait()
    target.tell(4)
    if foreign:
        await run_threads(lambda: target.tell(5))
    else:
        target.tell(5)
    assert heard == []
    gate.set()
    await target.started()
    await system.settle()
    assert heard == [1, 2, 3, 4, 5, 6]


class Nester(Actor[int, None]):
    """Sends itself `n - 1` from the handler of `n`, and finds out how deep it is."""

    def __init__(self, seen: list[int], frames: set[int], lane: Lane) -> None:
        self.seen = seen
        self.frames = frames
        self.lane = lane
        self.depth = 0

    def receive(self, n: int) -> None:
        self.depth += 1
        assert self.depth == 1
        frame, frames = sys._getframe(), 0
        while frame.f_back is not None:
            frame, frames = frame.f_back, frames + 1
        self.frames.add(frames)
        if n > 0:
            self.ctx.self.tell(n - 1, lane=self.lane)
            assert len(self.seen) == 0 or self.seen[-1] == n + 1  # it has not been handled yet
        self.seen.append(n)
        self.depth -= 1


class AsyncNester(Nester):
    async def receive(self, n: int) -> None:  # type: ignore[override]
        super().receive(n)


@pytest.mark.parametrize("lane", [Lane.DATA, Lane.CONTROL], ids=str)
@pytest.mark.parametrize("nester", [Nester, AsyncNester])
async def test_100_000_nested_self_sends_do_not_grow_the_stack(
    play: Play, system: ActorSystem, nester: type[Nester], lane: Lane
) -> None:  # case 7
    seen: list[int] = []
    frames: set[int] = set()
    many = 100_000 if nester is Nester and lane is Lane.DATA else 10_000
    if play.is_elsewhere:
        many //= 100  # each goes from thread to thread
    ref = system.spawn(nester, seen, frames, lane)
    ref.tell(many, lane=lane)
    await system.settle()
    assert seen == list(range(many, -1, -1))
    assert max(frames) - min(frames) <= 3
    assert assert_ledger_balanced(system, ref).handled == many + 1


async def test_a_self_send_waits_behind_what_is_queued(system: ActorSystem) -> None:  # case 7
    heard: list[Any] = []

    class Echo(Listener):
        def receive(self, message: Any) -> None:
            self.heard.append(message)
            if message == 1:
                self.ctx.self.tell("again")
                self.heard.append("end of 1")

    ref = system.spawn(Echo, heard)
    ref << 1 << 2 << 3
    await system.settle()
    assert heard == [1, "end of 1", 2, 3, "again"]


@pytest.mark.at_home
async def test_two_actors_that_send_one_another_never_run_inside_one_another(play: Play, system: ActorSystem) -> None:
    # case 7
    inside: list[str] = []
    left = 20_000

    def bounce(ctx: Any, other: list[ActorRef[Any, Any]]) -> None:
        nonlocal left
        assert inside == []
        inside.append(ctx.name)
        left -= 1
        if left > 0:
            other[0].tell([ctx.self])
        inside.pop()

    left = 200 if play.is_elsewhere else 20_000
    a = system.spawn(bounce)
    b = system.spawn(bounce)
    a.tell([b])
    await system.settle()
    assert left == 0
    assert a.is_alive
    assert b.is_alive


@pytest.mark.real
async def test_a_thread_wakes_a_sleeping_loop(system: ActorSystem) -> None:  # J15
    heard = Event()
    target: ActorRef[Any, Any] = system.spawn(lambda ctx, message: heard.set())
    for _ in range(5):
        await system.settle()
        heard.clear()
        await run_threads(lambda: target.tell("wake up"))
        await heard.wait()


def test_a_thread_wakes_a_system_on_a_thread_of_its_own() -> None:  # J15
    with ActorSystem() as system:
        echo = system.spawn(Listener, [])
        assert [echo.ask_sync(n, timeout=120.0) for n in range(20)] == list(range(20))
    assert_ledger_balanced(system)


@pytest.mark.real
async def test_a_thread_has_no_name_unless_it_gives_one(system: ActorSystem) -> None:  # J8, J15
    held = Holding(system)
    other = system.spawn(Listener, [])
    await run_threads(lambda: held.ref.tell(1))
    await run_threads(lambda: held.ref.tell(2, sender=other))
    await system.settle()
    assert held.senders == [None, other]


def test_what_a_thread_tells_a_stopped_system_is_a_dead_letter(play: Play) -> None:  # J15
    refs: list[ActorRef[Any, Any]] = []

    async def program(system: ActorSystem) -> None:
        refs.append(system.spawn(Listener, []))
        await refs[0].started()

    system = play(program)
    run_threads_while_blocked(lambda: refs[-1].tell("too late"))
    refs[-1].tell("too late as well")
    assert [letter.message for letter in system.dead_letters.recent()] == ["too late", "too late as well"]
    ledger = assert_ledger_balanced(system, refs[-1])
    assert (ledger.sent, ledger.dead_lettered) == (2, 2)
    assert assert_ledger_balanced(system).dead_lettered == 2
