"""Random programs: whatever they do, the ledger balances whenever they have come to rest (B4)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Asked,
    Behaviors,
    Context,
    Directive,
    Drain,
    Lane,
    Ledger,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    Overflow,
    Supervision,
    SystemConfig,
)
from greenroom.errors import GreenroomError
from greenroom.testing import assert_ledger_balanced

DEADLINE = 120.0

KINDS = ("sync", "async", "with hooks", "stashing")
WORDS = ("note", "fail", "unhandled", "stop", "forward", "again", "child", "timer", "slow", "defer", "answer", "pipe")
BURSTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6)
STEPS = (
    st.tuples(st.just("tell"), st.integers(0, 5), BURSTS, st.sampled_from(list(Lane))),
    st.tuples(st.just("ask"), st.integers(0, 5), BURSTS, st.sampled_from([0.0, 1.0, None])),
    st.tuples(st.just("send"), st.integers(0, 5), BURSTS, st.sampled_from([0.0, 1.0])),
    st.tuples(st.just("from a thread"), st.integers(0, 5), BURSTS, st.none()),
    st.tuples(st.just("spawn"), st.sampled_from(KINDS), st.integers(0, 2), st.integers(0, 5)),
    st.tuples(
        st.just("end"),
        st.integers(0, 5),
        st.sampled_from(["stop", "after queued", "kill", "fail", "unstash"]),
        st.none(),
    ),
    st.tuples(st.just("settle"), st.none(), st.none(), st.none()),
    st.tuples(st.just("advance"), st.sampled_from([0.0, 0.5, 10.0]), st.none(), st.none()),
)
PROGRAMS = st.lists(st.one_of(*STEPS), max_size=40)


class World:
    """What the random program can reach, and its own count of what it sent."""

    def __init__(self, system: ActorSystem) -> None:
        self.system = system
        self.accepted = 0
        self.rejected = 0
        self.waited = 0
        self.perhaps = 0
        self.sink: ActorRef[Any, Any] = system.spawn(lambda ctx, message: message)
        self.refs = [self.sink]
        self.lock = threading.Lock()
        self.pending: list[asyncio.Future[Any]] = []

    def pick(self, number: int) -> ActorRef[Any, Any]:
        return self.refs[number % len(self.refs)]

    def send(self, act: Callable[[], Any]) -> Any:
        """Do something that sends one message, and count it."""
        try:
            result = act()
        except MailboxFull:
            with self.lock:
                self.rejected += 1
            return None
        with self.lock:
            self.accepted += 1
        return result

    def spawn(self, kind: str, policy: int, drain: int) -> None:
        overflow = list(Overflow)[policy]
        drains = [None, Drain.DROP, Drain.DEAD_LETTER, *map(Drain.REDIRECT, self.refs[:3])]
        factory: Any = {"sync": sync, "async": later, "with hooks": Hooked, "stashing": stashing}[kind]
        ref = self.system.spawn(
            factory,
            mailbox=MailboxConfig(
                capacity=3, overflow=overflow, lanes={lane: 2 for lane in Lane if lane is not Lane.DATA}
            ),
            drain=drains[drain % len(drains)],
            env={"world": self},
        )
        self.refs.append(ref)


def act(ctx: Context, message: str) -> Any:
    """What a word makes an actor do."""
    world: World = ctx.env["world"]
    if message == "fail":
        raise ValueError(message)
    if message == "unhandled":
        return Behaviors.unhandled
    if message == "stop":
        return Behaviors.stopped
    if message == "forward" and ctx.self != world.sink:
        world.send(lambda: ctx.forward(world.sink))
    if message == "again":
        world.send(lambda: ctx.self.tell("note"))
    if message == "child" and len(world.refs) < 30:
        world.refs.append(ctx.spawn(sync))
    if message == "timer":
        world.perhaps += 1
        ctx.timers.start("key", 0.3, "note")
    if message == "pipe":
        world.perhaps += 1
        ctx.pipe_to_self(asyncio.ensure_future(asyncio.sleep(0, "note")))
    if message == "defer":
        ctx.defer_reply().send("deferred")
    if message == "answer":
        ctx.reply("at once")
    return message


def sync(ctx: Context, message: str) -> Any:
    return act(ctx, message)


async def later(ctx: Context, message: str) -> Any:
    await asyncio.sleep(0)
    if message == "slow":
        await asyncio.sleep(0)
    return act(ctx, message)


def stashing(ctx: Context, message: str) -> Any:
    if message in ("note", "slow", "pipe"):
        ctx.stash()
        return None
    ctx.unstash_all()
    ctx.become(Behaviors.receive(sync))
    return act(ctx, message)


class Hooked(Actor[str, Any]):
    async def pre_start(self) -> None:
        await asyncio.sleep(0)

    def receive(self, message: str) -> Any:
        return act(self.ctx, message)

    async def pre_stop(self) -> None:
        await asyncio.sleep(0)

    def post_stop(self) -> None:
        raise ValueError("in post_stop")


def sum_of(ledgers: list[Ledger]) -> Ledger:
    return Ledger(**{one.name: sum(getattr(ledger, one.name) for ledger in ledgers) for one in fields(Ledger)})


def check(world: World) -> None:
    """At rest: every actor's ledger balances, and the system's is their sum."""
    whole = assert_ledger_balanced(world.system)
    assert sum_of([assert_ledger_balanced(world.system, ref) for ref in world.refs]) == whole
    assert whole.lost == 0
    # Ticks and pipes may or may not have come to send what they were to.
    assert world.accepted <= whole.sent - whole.redirected <= world.accepted + world.perhaps, whole
    # A `send` that waits in vain gives its message back, too; so does a pipe that finds its own mailbox full.
    assert world.rejected <= whole.rejected <= world.rejected + world.waited + world.perhaps, whole


async def rest(world: World) -> None:
    """Let what was begun begin, wait until nothing moves, let those who waited hear of it, and check."""
    await asyncio.sleep(0)
    await world.system.settle(DEADLINE)
    for _ in range(3):
        await asyncio.sleep(0)
    check(world)


async def step(world: World, clock: ManualClock, what: str, a: Any, b: Any, c: Any) -> None:
    if what == "spawn":
        world.spawn(a, b, c)
    elif what == "tell":
        tell_all(world, world.pick(a), b, c)
    elif what == "ask":
        ask_all(world, world.pick(a), b, c)
    elif what == "send":
        send_all(world, world.pick(a), b, c)
    elif what == "from a thread":
        thread = threading.Thread(target=tell_all, args=(world, world.pick(a), b, Lane.DATA))
        thread.start()
        thread.join(DEADLINE)
    elif what == "end":
        ref = world.pick(a)
        ends: dict[str, Callable[[], None]] = {
            "stop": ref.stop,
            "after queued": lambda: ref.stop(after_queued=True),
            "kill": ref.kill,
            "fail": lambda: ref.fail(ValueError("from outside")),
            "unstash": lambda: world.send(lambda: ref.tell("answer")),
        }
        ends[b]()
    elif what == "advance":
        await clock.advance(a)
    else:
        await rest(world)


def tell_all(world: World, ref: ActorRef[Any, Any], words: list[str], lane: Lane) -> None:
    for word in words:
        world.send(lambda word=word: ref.tell(word, lane=lane))  # type: ignore[misc]


def ask_all(world: World, ref: ActorRef[Any, Any], words: list[str], timeout: float | None) -> None:
    async def wait(asked: Asked[Any]) -> None:
        try:
            await asked
        except MailboxFull:
            world.rejected += 1
            world.accepted -= 1
        except (GreenroomError, ValueError):
            pass

    for word in words:
        world.accepted += 1
        world.pending.append(asyncio.ensure_future(wait(ref.ask(word, timeout=timeout))))


def send_all(world: World, ref: ActorRef[Any, Any], words: list[str], timeout: float) -> None:
    async def wait(word: str) -> None:
        try:
            await ref.send(word, timeout=timeout)
        except TimeoutError:
            world.accepted -= 1

    for word in words:
        world.accepted += 1
        world.waited += 1
        world.pending.append(asyncio.ensure_future(wait(word)))


@settings(max_examples=120, deadline=None)
@given(PROGRAMS)
def test_random_programs_balance_at_every_rest(program: list[tuple[Any, ...]]) -> None:  # B4
    async def main() -> None:
        clock = ManualClock()
        async with asyncio.timeout(DEADLINE):
            async with ActorSystem(
                config=SystemConfig(clock=clock, dead_letters=5, supervision=Supervision(Directive.STOP))
            ) as system:
                world = World(system)
                for kind in KINDS:
                    world.spawn(kind, 0, 0)
                for what, a, b, c in program:
                    await step(world, clock, what, a, b, c)
                await rest(world)
                await clock.advance(20.0)
                await rest(world)
            await asyncio.gather(*world.pending)  # every ask and every send has come to an end
            check(world)
            ledger = system.ledger()
            assert ledger.queued == ledger.in_hand == 0

    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(main())
    finally:
        logging.disable(logging.NOTSET)
