"""Whatever is done to whatever actors in whatever order: all asks end, the ledger balances, no actor is stranded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Backoff,
    Behaviors,
    Directive,
    Drain,
    ExitKind,
    ExitReason,
    Lane,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    OnRestart,
    Overflow,
    Scope,
    State,
    Supervision,
    SystemConfig,
)
from greenroom.errors import GreenroomError, InternalError
from greenroom.testing import assert_ledger_balanced
from tests.conformance.lives import AsyncPhoenix, Book, Phoenix, Ref, assert_is_a_life, assert_legal
from tests.gates import Event, turns

DEADLINE = 120.0
"""Seconds for one life of everybody; never reached unless somebody is stranded."""
SHUTDOWN = 1.0


@dataclass
class World:
    """What the actors and the test share."""

    system: ActorSystem
    gate: Event = field(default_factory=Event)
    refs: list[ActorRef[Any, Any]] = field(default_factory=list)
    asked: list[tuple[ActorRef[Any, Any], Any]] = field(default_factory=list)
    accepted: int = 0
    done: list[Any] = field(default_factory=list)
    post_stops: list[int] = field(default_factory=list)
    ends: dict[ActorRef[Any, Any], ExitReason] = field(default_factory=dict)

    def actor_stopped(self, ref: ActorRef[Any, Any], reason: ExitReason) -> None:
        """An observer's hook: nobody ends twice, nor before its children."""
        assert ref not in self.ends
        assert all(child in self.ends for child in self.refs if child.parent == ref), f"{ref} ended before its children"
        self.ends[ref] = reason

    def tell(self, ref: ActorRef[Any, Any], message: Any, lane: Lane = Lane.DATA) -> None:
        try:
            ref.tell(message, lane=lane)
            self.accepted += 1
        except MailboxFull:
            pass

    def ask(self, ref: ActorRef[Any, Any], message: Any, lane: Lane = Lane.DATA) -> Any:
        asked = ref.ask(message, lane=lane, timeout=None)
        self.asked.append((ref, asked))
        return asked

    def open_gate(self) -> None:
        self.gate.set()
        self.gate = Event()


class Member(Actor[Any, Any]):
    """Does what its messages say."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.later: list[Any] = []

    def receive(self, message: Any) -> Any:
        if message == "raise":
            raise ValueError("on purpose")
        if message == "spawn":
            with suppress(GreenroomError):  # the system stops
                self.world.refs.append(self.ctx.spawn(type(self), self.world))
        elif message == "stop":
            self.ctx.stop()
        elif message == "kill":
            self.ctx.self.kill()
        elif message == "stopped":
            return Behaviors.stopped
        elif message == "stash":
            self.ctx.stash()
        elif message == "unstash":
            self.ctx.become(lambda message: message)
            self.ctx.unstash_all()
        elif message == "defer":
            self.later.append(self.ctx.defer_reply())
        elif message == "reply":
            while self.later:
                self.later.pop().send("later")
        elif message == "pass on":
            self.world.tell(self.world.refs[0], "echo")
        return message


class Hooky(Member):
    def pre_start(self) -> None:
        self.receive("spawn") if len(self.world.refs) < 30 else None

    def pre_stop(self) -> None:
        self.world.tell(self.ctx.self, "to myself")

    def post_stop(self) -> None:
        assert self.ctx.children == []
        self.world.post_stops.append(self.ctx.self.id)

    def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        if isinstance(cause, ValueError):
            raise cause


class Hooky2(Hooky):
    """Async, and every hook suspends."""

    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return super().receive(message)

    async def pre_start(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)

    async def pre_stop(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().pre_stop()

    async def post_stop(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().post_stop()


class Gated(Member):
    """Its handler and one hook wait until the test opens the gate."""

    async def receive(self, message: Any) -> Any:
        await self.world.gate.wait()
        return super().receive(message)

    async def pre_stop(self) -> None:
        await self.world.gate.wait()


class BadStart(Member):
    async def pre_start(self) -> None:
        await asyncio.sleep(0)
        self.world.refs.append(self.ctx.spawn(Member, self.world))
        raise LookupError("on purpose")


class BadEnd(Hooky):
    def pre_stop(self) -> None:
        raise LookupError("on purpose")

    def post_stop(self) -> None:
        super().post_stop()
        raise LookupError("on purpose")


class Watching(Member):
    """Watches everybody without saying what to do then: a pact of death."""

    def pre_start(self) -> None:
        for ref in self.world.refs[:3]:
            self.ctx.watch(ref)


class Asking(Member):
    """Asks the first of all before it does anything."""

    async def receive(self, message: Any) -> Any:
        if self.world.refs[0] != self.ctx.self:
            await self.world.ask(self.world.refs[0], "echo")
        return super().receive(message)


KINDS: list[Any] = [Member, Hooky, Hooky2, Gated, BadStart, BadEnd, Watching, Asking]
WORDS = [
    "echo", "raise", "spawn", "stop", "kill", "stopped", "stash", "unstash", "defer", "reply", "pass on"
]  # fmt: skip
which = st.integers(0, 40)
lanes = st.sampled_from(list(Lane))
boxes = st.builds(MailboxConfig, capacity=st.sampled_from([1, 3, 100]), overflow=st.sampled_from(list(Overflow)))
drains = st.sampled_from(["none", "DROP", "DEAD_LETTER", "REDIRECT"])
operations = st.one_of(
    st.tuples(st.just("spawn"), st.sampled_from(KINDS), st.none() | which, boxes, drains),
    st.tuples(st.just("tell"), which, st.sampled_from(WORDS), lanes),
    st.tuples(st.just("ask"), which, st.sampled_from(WORDS), lanes),
    st.tuples(st.sampled_from(["stop", "kill", "fail", "stop in order"]), which),
    st.tuples(st.just("from a thread"), which, st.sampled_from(["stop", "kill", "fail", "tell"])),
    st.tuples(st.sampled_from(["turn", "turn", "turns", "open", "shutdown"])),
)


def spawn(world: World, kind: Any, parent: int | None, mailbox: MailboxConfig, drain: str) -> None:
    refs = world.refs
    above = None if parent is None or not refs else refs[parent % len(refs)]
    strategy: Drain | None = getattr(Drain, drain, None) if drain != "REDIRECT" else None
    if drain == "REDIRECT" and refs:
        strategy = Drain.REDIRECT(refs[0])
    try:
        refs.append(world.system.spawn(kind, world, parent=above, mailbox=mailbox, drain=strategy))
    except GreenroomError:
        assert world.system.phase != "running" or (above is not None and above.state is not State.RUNNING)


def end(ref: ActorRef[Any, Any], how: str) -> None:
    if how == "fail":
        ref.fail(ValueError("on purpose"))
    elif how == "stop in order":
        ref.stop(after_queued=True)
    else:
        getattr(ref, how)()


async def perform(world: World, operation: tuple[Any, ...]) -> None:
    verb = operation[0]
    if verb == "turn":
        await asyncio.sleep(0)
    elif verb == "turns":
        await turns(5)
    elif verb == "open":
        world.open_gate()
    elif verb == "shutdown":
        asyncio.ensure_future(world.system.shutdown(SHUTDOWN)).add_done_callback(world.done.append)
    elif verb == "spawn":
        spawn(world, *operation[1:])
    elif world.refs:
        ref = world.refs[operation[1] % len(world.refs)]
        if verb == "tell":
            world.tell(ref, *operation[2:])
        elif verb == "ask":
            world.ask(ref, *operation[2:])
        elif verb == "from a thread":
            act: Callable[[], None] = (
                (lambda: world.tell(ref, "echo")) if operation[2] == "tell" else (lambda: end(ref, operation[2]))
            )
            thread = threading.Thread(target=act)
            thread.start()
            thread.join(DEADLINE)  # not awaited: what happens when would be left to chance
        else:
            end(ref, verb)


async def come_to_rest(world: World) -> None:
    """Open the gate until nothing is left to do."""
    while True:
        world.open_gate()
        try:
            await world.system.settle(timeout=0.01)
            return
        except TimeoutError:
            pass


def assert_nobody_is_stranded(world: World) -> None:
    for ref in world.refs:
        assert ref.state in (State.RUNNING, State.TERMINATED), f"{ref} is stranded: {ref.history}"
        assert ref.is_alive == (ref not in world.ends)
        assert not ref.is_alive or ref.parent is None or ref.parent.is_alive
    assert set(world.system.actors()) == {ref for ref in world.refs if ref.is_alive}
    assert_ledger_balanced(world.system)


async def act_out(world: World, operations: list[tuple[Any, ...]], settled: bool) -> None:
    for operation in operations:
        await perform(world, operation)
    if settled:
        await come_to_rest(world)
        assert_nobody_is_stranded(world)
    stopping = asyncio.ensure_future(world.system.shutdown(SHUTDOWN))
    while not stopping.done():
        world.open_gate()
        await asyncio.sleep(0)


async def live(operations: list[tuple[Any, ...]], settled: bool) -> World:
    # With time enough for every tick, what happens when is the same in every run.
    config = SystemConfig(
        history=True, stop_timeout=60.0, max_actors=200, max_tick_time=60.0, supervision=Supervision(Directive.STOP)
    )
    system = ActorSystem(config=config)
    world = World(system)
    system.observers.add(world)
    async with system:
        try:
            async with asyncio.timeout(DEADLINE):
                await act_out(world, operations, settled)
        except TimeoutError:
            stranded = system.tree()
            await system.shutdown(timeout=0.1)
            raise AssertionError(f"somebody is stranded:\n{stranded}") from None
    return world


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(operations=st.lists(operations, max_size=40), settled=st.booleans())
def test_no_life_goes_wrong(operations: list[tuple[Any, ...]], settled: bool) -> None:  # B4, M1, M10, M11, M3, M5
    check(asyncio.run(live(operations, settled)))


def check(world: World) -> None:
    """Everybody has ended as they should."""
    system = world.system
    assert_nobody_is_stranded(world)
    assert system.actors() == []
    report = system.report
    assert report is not None
    assert report.forced == ()
    assert report.started == report.terminated == len(world.refs) == len(world.ends)
    assert len(set(world.post_stops)) == len(world.post_stops)
    for ref in world.refs:
        reason = world.ends[ref]
        assert_is_a_life(ref.history, killed=reason.kind is ExitKind.KILLED)
        assert (reason.cause is not None) == (reason.kind is ExitKind.FAIL)
        assert_ledger_balanced(system, ref)
    rejected = 0
    for ref, asked in world.asked:
        assert asked.done(), f"{asked} never ended"
        result = outcome(asked)
        rejected += isinstance(result, MailboxFull) and result.ref == ref
    ledger = system.ledger()
    assert ledger.queued == ledger.in_hand == 0
    assert ledger.sent == world.accepted + len(world.asked) - rejected + ledger.redirected


def outcome(asked: Any) -> Any:
    """What a finished ask ended with."""

    async def get() -> Any:
        return await asked

    try:
        return asyncio.run(get())
    except (GreenroomError, ValueError, asyncio.CancelledError) as exc:
        return exc


HOOKS = ["init", "pre_start", "post_start", "pre_restart", "snapshot", "post_stop", "restore", "post_restart"]

WHAT = ["tell", "ask", "raise", "raise", "raise", "fail", "restart", "stop", "kill", "spawn"]


class Chance:
    """A random family, and random things that befall it."""

    def __init__(self, seed: int, escalates: bool) -> None:
        self.random = Random(seed)
        self.directives = [Directive.RESTART] * 4 + [Directive.RESUME, Directive.STOP]
        if escalates:
            self.directives.append(Directive.ESCALATE)
        self.refs: list[Ref] = []
        self.peace = False

    def supervision(self) -> Supervision:
        chance = self.random
        strategy: Any = chance.choice([chance.choice(self.directives), lambda _: chance.choice(self.directives)])
        return Supervision(
            strategy=strategy,
            scope=chance.choice([Scope.ONE_FOR_ONE, Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE]),
            max_restarts=chance.choice([None, None, 3]),
            on_limit=chance.choice([Directive.STOP, self.directives[-1]])
            if Directive.ESCALATE in self.directives
            else Directive.STOP,
            backoff=chance.choice([None, Backoff(min=0.5, max=4.0, jitter=0.5)]),
            mailbox=chance.choice(list(OnRestart)),
        )

    def book(self) -> Book:
        book = Book()
        for hook in HOOKS:
            book.acts[hook] = self.stumble
        return book

    def stumble(self, _: object) -> None:
        if not self.peace and self.random.random() < 0.08:
            raise LookupError("in a hook")

    def befall(self, system: ActorSystem) -> None:
        ref = self.random.choice(self.refs)
        what = self.random.choice(
            ["tell", "raise", "raise", "raise", "fail", "restart", "stop", "kill", "spawn", "ask"]
        )
        if what == "tell":
            ref.tell("hello")
        elif what == "ask":
            asyncio.ensure_future(ref.ask("hello", timeout=1.0)).add_done_callback(asyncio.Future.exception)
        elif what == "raise":
            ref.tell(ValueError("on purpose"))
        elif what == "fail":
            ref.fail(ValueError("from outside"))
        elif what == "spawn":
            self.spawn(system)
        elif what == "restart" or self.random.random() < 0.3:
            getattr(ref, what)()

    def spawn(self, system: ActorSystem) -> None:
        living: list[Any] = [ref for ref in self.refs if ref.state is State.RUNNING and ref.path.count("/") < 4]
        parent = self.random.choice([None, *living])
        kind = self.random.choice([Phoenix, AsyncPhoenix])
        self.refs.append(system.spawn(kind, self.book(), parent=parent, supervision=self.supervision()))


@pytest.mark.parametrize("escalates", [False, True], ids=["kept below", "escalated"])
@pytest.mark.parametrize("budget", [1, 3, 1024])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_befalls_a_family_everybody_runs_or_has_ended(
    seed: int, budget: int, escalates: bool, caplog: pytest.LogCaptureFixture
) -> None:  # M1, M3, M6, M7, B4
    chance = Chance(seed, escalates)
    clock = ManualClock()

    async def program(system: ActorSystem) -> None:
        for _ in range(6):
            chance.spawn(system)
        for _ in range(120):
            chance.befall(system)
            for _ in range(chance.random.randrange(4)):
                await asyncio.sleep(0)
            if chance.random.random() < 0.2:
                await clock.advance(chance.random.choice([0.0, 0.25, 1.0]))
            if system.phase != "running":
                return  # a failure has reached the top
        chance.peace = True
        await clock.advance(60.0)
        if system.phase == "running":
            await system.settle(timeout=120.0)
            stranded = [
                (str(ref), ref.history) for ref in chance.refs if ref.is_alive and ref.state is not State.RUNNING
            ]
            assert stranded == []
            for ref in chance.refs:
                assert_ledger_balanced(system, ref)
                assert_legal(ref.history, killed=True)
                if ref.is_alive:
                    assert await ref.ask("there") == "there"

    async def main() -> None:
        config = SystemConfig(clock=clock, history=True, max_actors_per_tick=budget, max_tick_time=10.0, seed=seed)
        system = ActorSystem("random", config=config)
        await system.start()
        try:
            async with asyncio.timeout(120):
                await program(system)
        finally:
            await system.shutdown(timeout=120.0, drain=False)
        ledger = assert_ledger_balanced(system)
        assert ledger.queued == ledger.in_hand == 0
        assert system.report is not None
        assert system.report.forced == ()
        assert system.report.started == system.report.terminated

    asyncio.run(main())
    for ref in chance.refs:
        assert_is_a_life(ref.history, killed=True)
    assert not any("InternalError" in (record.exc_text or "") for record in caplog.records)
    assert not any(record.exc_info and isinstance(record.exc_info[1], InternalError) for record in caplog.records)
