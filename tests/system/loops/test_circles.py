"""Asks across loops and threads that wait for one another in a circle: one of each is refused."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, AskDeadlock, AskTimeout, Context, MailboxConfig, ManualClock, Reply
from greenroom.actor.messaging.question import Question, Walk
from greenroom.errors import MetaCannotAsk
from greenroom.meta import Exited, MetaProcess, Output, Port, UdpServer
from tests.conformance.sending import Echo, Ref, outcome, pass_time, until
from tests.conftest import Play
from tests.gates import Event, turns

PATIENCE = 120.0
ROUNDS = 30


@pytest.fixture
def play() -> Play:
    return Play("spread")


class Walker(Actor[Any, Any]):
    """Asks the first of a path to walk the rest of it, once all have come to the barrier. An error is an answer too."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self.barrier = barrier

    async def receive(self, message: tuple[Ref, ...]) -> Any:
        if not message:
            return "the end"
        self.barrier.wait(PATIENCE)
        return await outcome(message[0].ask(message[1:], timeout=None))


async def at_once(walkers: list[Ref]) -> list[Any]:
    """What comes of it for each, if all ask the next at the same moment."""
    asks = [one.ask((walkers[(number + 1) % len(walkers)],), timeout=None) for number, one in enumerate(walkers)]
    return [await one for one in asks]


def assert_one_is_refused(ends: list[Any], circle: list[Ref]) -> None:
    """The others go on, and the error names all from the one that is refused on."""
    [number] = [number for number, end in enumerate(ends) if isinstance(end, AskDeadlock)]
    assert ends[number].cycle == (*circle[number:], *circle[:number], circle[number])
    assert [end for end in ends if end is not ends[number]] == ["the end"] * (len(circle) - 1)


@pytest.mark.parametrize("length", [2, 3])
async def test_of_those_who_ask_one_another_at_once_one_is_refused_though_each_finds_the_circle(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:  # case 25
    found = threading.Barrier(length)
    close = Walk._close

    def close_together(walk: Walk) -> None:
        found.wait(PATIENCE)  # nobody has been refused yet when the last finds it
        close(walk)

    monkeypatch.setattr(Walk, "_close", close_together)
    barrier = threading.Barrier(length)
    walkers: list[Ref] = [system.spawn(Walker, barrier) for _ in range(length)]
    assert len({one._cell.loop for one in walkers}) == length
    for _ in range(ROUNDS):
        assert_one_is_refused(await at_once(walkers), walkers)


@pytest.mark.parametrize("length", [2, 3])
async def test_of_those_who_ask_one_another_at_once_one_is_refused_whoever_finds_the_circle(
    system: ActorSystem, length: int
) -> None:  # case 25
    barrier = threading.Barrier(length)
    walkers: list[Ref] = [system.spawn(Walker, barrier) for _ in range(length)]
    for _ in range(ROUNDS):
        assert_one_is_refused(await at_once(walkers), walkers)
    await system.settle()
    assert system.ledger().late_replies == ROUNDS  # of those that were refused, and handled later


async def test_who_asks_back_is_refused_even_if_it_waits_before_the_one_it_was_asked_by(
    system: ActorSystem,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # case 25
    waits = threading.Event()
    go_to = Walk._go_to

    def go_and_tell(walk: Walk, cell: Any) -> Any:
        following = go_to(walk, cell)
        waits.set()
        return following

    monkeypatch.setattr(Walk, "_go_to", go_and_tell)

    async def ask(ctx: Context, other: Ref | None) -> Any:
        if other is None:
            return "here"
        asked = other.ask(ctx.self, timeout=None)
        assert waits.wait(PATIENCE)  # its thread is held, and the other waits already
        return await outcome(asked)

    async def ask_back(ctx: Context, asker: Ref) -> Any:
        return [await outcome(asker.ask(None, timeout=None))]

    one: Ref = system.spawn(ask)
    two: Ref = system.spawn(ask_back)
    [error] = await one.ask(two, timeout=None)
    assert isinstance(error, AskDeadlock)
    assert error.cycle == (two, one, two)


async def test_a_circle_is_none_if_one_gave_up_before_the_last_began_to_wait(
    system: ActorSystem,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # case 25
    held: list[tuple[Walk, Any]] = []
    first: list[Ref] = []
    go_to = Walk._go_to

    def hold_one(walk: Walk, cell: Any) -> Any:
        if first and walk._asker is first[0]._cell and len(held) < 2:
            held.append((walk, cell))
            return None
        return go_to(walk, cell)

    monkeypatch.setattr(Walk, "_go_to", hold_one)
    opens, goes_on, gave_up = Event(), Event(), Event()

    async def ask(ctx: Context, path: tuple[Ref, ...]) -> Any:
        return await outcome(path[0].ask(path[1:], timeout=None)) if path else "here"

    async def give_up(ctx: Context, path: tuple[Ref, ...]) -> Any:
        assert isinstance(await outcome(path[0].ask(path[1:], timeout=1.0)), AskTimeout)
        gave_up.set()
        await goes_on.wait()
        return "late, but here"

    async def ask_late(ctx: Context, path: tuple[Ref, ...]) -> None:
        await opens.wait()
        heard.append(await outcome(path[0].ask((), timeout=None)))

    heard: list[Any] = []
    one: Ref = system.spawn(ask)
    two: Ref = system.spawn(give_up)
    three: Ref = system.spawn(ask_late)
    first.append(one)
    asking = one.ask((two, three, one), timeout=None)
    await until(lambda: system.ledger(three).sent)
    await turns()  # so that the second waits
    go_to(*held[0])
    await until(lambda: len(held) == 2)  # on its way to the third
    await clock.advance(1.0)
    await gave_up.wait()
    opens.set()
    await until(lambda: system.ledger(one).queued)
    await turns()  # so that the third waits
    go_to(*held[1])
    await turns()
    goes_on.set()
    assert await asking == "late, but here"
    await system.settle()
    assert heard == ["here"]


@pytest.mark.parametrize("way", ["defers", "forwards"])
async def test_a_walk_finds_no_circle_if_the_actor_asked_left_the_answer_to_another_before_it_came(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:  # case 25
    asks_back = threading.Event()
    begun: list[Any] = []
    go_to = Walk._go_to

    def go_late(walk: Walk, cell: Any) -> Any:
        begun.append(cell)
        if len(begun) == 1:
            assert asks_back.wait(PATIENCE)  # so the walk comes to one that waits already
        return go_to(walk, cell)

    monkeypatch.setattr(Walk, "_go_to", go_late)
    kept: list[Reply] = []
    heard: list[Any] = []

    def keep(ctx: Context, _: Any) -> None:
        kept.append(ctx.defer_reply())

    async def ask(ctx: Context, other: ActorRef[Any, Any] | None) -> Any:
        return "here" if other is None else await other.ask(ctx.self, timeout=None)

    async def ask_back(ctx: Context, asker: ActorRef[Any, Any]) -> None:
        if way == "forwards":
            ctx.forward(keeper)
        else:
            keep(ctx, None)
        asks_back.set()
        heard.append(await asker.ask(None, timeout=None))

    keeper: ActorRef[Any, Any] = system.spawn(keep)
    one: ActorRef[Any, Any] = system.spawn(ask)
    two: ActorRef[Any, Any] = system.spawn(ask_back)
    asking = one.ask(two, timeout=None)
    await until(lambda: len(begun) >= 2 and kept)
    await turns()  # for the probes, which show nowhere
    kept[0].send("by another")
    assert await asking == "by another"
    await system.settle()
    assert heard == ["here"]


ON_THREADS = [
    ("pinned", "pinned"),
    ("parallel", "parallel"),
    ("pinned", "parallel"),
    ("pinned", "pinned", "pinned"),
    ("parallel", "parallel", "parallel"),
    ("parallel", "pinned", "parallel"),
]
MIXED = [
    ("spread", "pinned"),
    ("spread", "parallel"),
    ("spread", "pinned", "parallel"),
    ("pinned", "spread", "spread"),
    # The first and the last are on the same loop.
    ("pinned", "pinned", "pinned", "pinned"),
    ("parallel", "parallel", "spread", "parallel"),
]


def outcome_sync(ref: Ref, message: Any, timeout: float | None = None) -> Any:
    """What came of it: the value, or the exception."""
    try:
        return ref.ask_sync(message, timeout=timeout)
    except Exception as exc:
        return exc


class BlockingWalker(Actor[Any, Any]):
    """As `Walker`, but it blocks its thread."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self.barrier = barrier

    def receive(self, message: tuple[Ref, ...]) -> Any:
        if not message:
            return "the end"
        self.barrier.wait(PATIENCE)
        return outcome_sync(message[0], message[1:])


def on_each_loop(system: ActorSystem, kinds: tuple[str, ...], together: int) -> list[Ref]:
    """Walkers of these kinds, each a child of an actor that lives on another loop; so many start at once."""
    barrier = threading.Barrier(together)
    walkers: list[Ref] = []
    for kind in kinds:
        parent = system.spawn(Walker, barrier)
        walker = BlockingWalker if kind == "parallel" else Walker
        walkers.append(system.spawn(walker, barrier, parent=parent, dispatcher=kind))
    assert len({one._cell.loop for one in walkers}) == min(len(kinds), 3)
    return walkers


@pytest.mark.parametrize("kinds", [*ON_THREADS, *MIXED], ids="-".join)
async def test_of_those_who_ask_one_another_at_once_one_is_refused(system: ActorSystem, kinds: tuple[str, ...]) -> None:
    # case 25
    walkers = on_each_loop(system, kinds, len(kinds))
    for _ in range(ROUNDS):
        assert_one_is_refused(await at_once(walkers), walkers)
    await system.settle()
    assert system.ledger().late_replies == ROUNDS  # of those that were refused, and handled later


@pytest.mark.parametrize("kinds", ON_THREADS, ids="-".join)
async def test_of_those_who_ask_one_another_at_once_one_is_refused_on_threads_too(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, ...]
) -> None:  # case 25
    wait, found = threading.Barrier(len(kinds)), threading.Barrier(len(kinds))
    follow, close = Walk.follow, Walk._close

    def follow_together(walk: Walk, question: Question) -> Any:
        if not walk._followed:
            wait.wait(PATIENCE)  # all of them do when the first is looked at
        return follow(walk, question)

    def close_together(walk: Walk) -> None:
        found.wait(PATIENCE)  # nobody has been refused yet when the last finds it
        close(walk)

    monkeypatch.setattr(Walk, "follow", follow_together)
    monkeypatch.setattr(Walk, "_close", close_together)
    walkers = on_each_loop(system, kinds, len(kinds))
    for _ in range(ROUNDS):
        assert_one_is_refused(await at_once(walkers), walkers)


@pytest.mark.parametrize("kinds", [*ON_THREADS, *MIXED], ids="-".join)
async def test_who_closes_the_circle_is_refused_and_the_others_hear_of_it(
    system: ActorSystem, kinds: tuple[str, ...]
) -> None:  # case 25
    walkers = on_each_loop(system, kinds, 1)
    for _ in range(ROUNDS):
        error = await walkers[0].ask((*walkers[1:], walkers[0]), timeout=None)
        assert isinstance(error, AskDeadlock)
        assert error.cycle == (walkers[-1], *walkers)


@pytest.mark.parametrize("kinds", [*ON_THREADS, *MIXED], ids="-".join)
async def test_who_asks_those_that_ask_others_in_turn_is_answered(system: ActorSystem, kinds: tuple[str, ...]) -> None:
    walkers = on_each_loop(system, kinds, 1)
    for _ in range(ROUNDS):
        chains = [
            one.ask(tuple(walkers[number:]), timeout=None)
            for number, one in enumerate(walkers[:-1], 1)
            for _ in range(3)
        ]
        assert [await one for one in chains] == ["the end"] * len(chains)


async def test_the_actor_asked_knows_who_blocks_its_thread_for_the_answer(system: ActorSystem) -> None:
    def who(ctx: Context, _: Any) -> Any:
        return ctx.sender

    def ask(ctx: Context, other: Ref) -> Any:
        return other.ask_sync(None, timeout=None)

    one: Ref = system.spawn(ask, parent=system.spawn(who), dispatcher="parallel")
    two: Ref = system.spawn(who)
    assert one._cell.loop is not two._cell.loop
    assert await one.ask(two, timeout=None) == one


@pytest.mark.parametrize("kind", ["pinned", "parallel"])
async def test_who_waits_for_one_that_waits_for_nobody_gives_up_in_time(
    system: ActorSystem, clock: ManualClock, kind: str
) -> None:
    opens = Event()

    async def ask(ctx: Context, other: Ref) -> Any:
        return await outcome(other.ask(None, timeout=2.0))

    def ask_sync(ctx: Context, other: Ref) -> Any:
        return outcome_sync(other, None, 2.0)

    async def hesitate(ctx: Context, _: Any) -> str:
        await opens.wait()
        return "late"

    parents: list[Ref] = [system.spawn(hesitate) for _ in range(2)]
    one: Ref = system.spawn(ask_sync if kind == "parallel" else ask, parent=parents[0], dispatcher=kind)
    two: Ref = system.spawn(hesitate, parent=parents[1], dispatcher="pinned")
    assert one._cell.loop is not two._cell.loop
    asking = asyncio.create_task(one.ask(two, timeout=None))
    error = await pass_time(clock, asking)
    assert isinstance(error, AskTimeout)
    assert error.timeout == 2.0
    opens.set()
    await system.settle()
    assert system.ledger().late_replies == 1


async def test_a_circle_is_none_if_one_was_cancelled_before_the_last_began_to_wait(
    system: ActorSystem,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # case 25
    held: list[tuple[Walk, Any]] = []
    seen: list[tuple[Any, Any]] = []
    cells: list[Any] = []
    go_to = Walk._go_to

    def hold_the_first(walk: Walk, cell: Any) -> Any:
        if not held and cells and walk._asker is cells[0]:
            held.append((walk, cell))
            return None
        following = go_to(walk, cell)
        seen.append((walk._asker, cell))
        return following

    monkeypatch.setattr(Walk, "_go_to", hold_the_first)
    begins, opens, goes_on, gave_up = Event(), Event(), Event(), Event()
    holds, lets_go = threading.Event(), threading.Event()
    limits: list[tuple[asyncio.AbstractEventLoop, asyncio.Timeout]] = []
    heard: list[Any] = []

    async def ask(ctx: Context, path: tuple[Ref, ...]) -> Any:
        return await outcome(path[0].ask(path[1:], timeout=None)) if path else "here"

    async def give_up(ctx: Context, path: tuple[Ref, ...]) -> Any:
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                limits.append((asyncio.get_running_loop(), limit))
                await path[0].ask(path[1:], timeout=None)
        gave_up.set()
        await goes_on.wait()
        return "late, but here"

    async def ask_late(ctx: Context, path: tuple[Ref, ...]) -> None:
        begins.set()
        await opens.wait()
        heard.append(await outcome(path[0].ask((), timeout=None)))

    def hold(ctx: Context, _: Any) -> None:
        holds.set()
        assert lets_go.wait(PATIENCE)

    parents: list[Ref] = [system.spawn(hold) for _ in range(3)]
    one, two, three = circle = [
        system.spawn(handler, parent=parent, dispatcher="pinned")
        for handler, parent in zip([ask, give_up, ask_late], parents, strict=True)
    ]
    cells.extend(ref._cell for ref in circle)
    assert len({cell.loop for cell in cells}) == 3
    asking = one.ask((two, three, one), timeout=None)
    await begins.wait()
    await until(lambda: held and (cells[1], cells[2]) in seen)  # so that the second waits
    parents[2].tell(None)
    await until(holds.is_set)
    go_to(*held[0])
    await until(lambda: (cells[0], cells[2]) in seen)  # on its way to the third, whose loop is held
    aio, limit = limits[0]
    aio.call_soon_threadsafe(limit.reschedule, 0.0)
    await gave_up.wait()  # which the loop of the third hears after that
    opens.set()
    await until(lambda: (cells[2], cells[0]) in seen)  # so that the third waits
    lets_go.set()
    await turns()
    goes_on.set()
    assert await asking == "late, but here"
    await system.settle()
    assert heard == ["here"]


class Asking(MetaProcess):
    """Asks an actor for each message, and writes down what that raised."""

    def __init__(self, other: ActorRef[Any, Any], raised: list[BaseException], tried: Event) -> None:
        self.other = other
        self.raised = raised
        self.tried = tried

    def start(self) -> None:
        self.wait()

    def handle_message(self, message: Any) -> None:
        try:
            self.other.ask_sync(message)
        except Exception as exc:
            self.raised.append(exc)
        self.tried.set()


@pytest.mark.parametrize("number", range(3))
async def test_a_meta_process_cannot_ask_an_actor_of_any_loop(system: ActorSystem, number: int) -> None:  # case 67
    def receive(ctx: Context, message: Any) -> Any:
        return ctx.spawn_meta(Asking(others[number], raised, tried))

    others: list[ActorRef[Any, Any]] = [system.spawn(Echo) for _ in range(3)]
    raised: list[BaseException] = []
    tried = Event()
    alias = await system.spawn(receive).ask("a meta-process")
    alias.tell("now")
    await tried.wait()
    assert [type(one) for one in raised] == [MetaCannotAsk]
    assert system.ledger(others[number]).sent == 0


@pytest.mark.parametrize("number", range(3))
async def test_the_owner_of_a_source_may_live_on_any_loop_and_holds_it_up_when_its_mailbox_is_full(
    system: ActorSystem, number: int
) -> None:
    lines = 500

    def receive(ctx: Context, message: Any) -> Any:
        return ctx.spawn_meta(Port([sys.executable, "-c", f"for n in range({lines}): print(n)"], owner=owner))

    outcome: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
    owners = [system.spawn(Owner, outcome, mailbox=MailboxConfig(capacity=2)) for _ in range(3)]
    owner = owners[number]
    await system.spawn(receive).ask("a port")
    assert await outcome == list(range(lines))
    await system.settle()
    assert system.ledger().balanced
    assert system.dead_letters.count == 0


class Owner(Actor[Any, None]):
    """Hands out the numbers that a program printed, when that has ended."""

    def __init__(self, outcome: asyncio.Future[list[int]]) -> None:
        self.outcome = outcome
        self.numbers: list[int] = []

    def receive(self, message: Any) -> None:
        if isinstance(message, Output):
            self.numbers.append(int(message.data))
        elif isinstance(message, Exited):
            self.outcome.get_loop().call_soon_threadsafe(self.outcome.set_result, self.numbers)


class Watched(UdpServer):
    """Notes on which thread it is told that its owner has ended."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.threads: list[int] = []
        end = self._over.set

        def note() -> None:
            self.threads.append(threading.get_ident())
            end()

        self._over.set = note  # type: ignore[method-assign]


@pytest.mark.parametrize("number", range(3))
async def test_a_source_ends_with_an_owner_on_any_loop_and_on_a_thread_of_its_own(
    system: ActorSystem, number: int
) -> None:
    def receive(ctx: Context, message: Any) -> Any:
        server.append(Watched(owner=owners[number]))
        return ctx.spawn_meta(server[0]), threading.get_ident()

    server: list[Watched] = []
    owners: list[ActorRef[Any, Any]] = [system.spawn(Echo) for _ in range(3)]
    alias, thread = await system.spawn(receive).ask("a server")
    await alias.inspect()
    owners[number].stop()
    await alias.terminated()
    assert server[0].threads == [thread]
