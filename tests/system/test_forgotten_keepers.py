"""Systems whose actors keep what the runtime gave them are forgotten all the same, however those actors ended.

When compiled, an object that the garbage collector cannot see into would keep the whole system: these are the circles
that a user can make, by keeping a handle in `self`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Behaviors,
    ChildSpec,
    Context,
    Directive,
    ManualClock,
    Supervision,
    Supervisor,
    SystemConfig,
)
from greenroom.testing import TestProbe

Ref = ActorRef[Any, Any]

PROMPTLY = 0.001
NEVER = 3600.0
TRACKED = 1000
"""As in `greenroom._core.timing.timers`, which keeps it to itself when compiled."""


class Neighbour(Actor[Any, Any]):
    """Answers nobody."""

    def __init__(self) -> None:
        self.owed: list[Any] = []

    def receive(self, message: Any) -> None:
        if message != "answer":
            self.owed.append(self.ctx.defer_reply())


class Keeper(Actor[Any, Any]):
    """Keeps what `take` gives it."""

    def __init__(self, take: Callable[[Keeper], object], neighbour: Ref) -> None:
        self.take = take
        self.neighbour = neighbour
        self.kept: Any = None
        self.heard: list[Any] = []

    def pre_start(self) -> None:
        self.kept = self.take(self)

    def receive(self, message: Any) -> Any:
        if isinstance(message, Exception):
            raise message
        self.heard.append(message)
        return None if message == "hello" else Behaviors.stopped

    def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        self.heard.append(cause)

    def dead_letter(self, ref: object, message: object, sender: object, why: str) -> None:
        """For those that observe."""


def become(me: Keeper) -> object:
    def other(ctx: Context, message: Any) -> Any:
        return me.receive(message)

    me.ctx.become(other)
    return other


def pipe(me: Keeper) -> object:
    waits = asyncio.sleep(NEVER, me)
    me.ctx.pipe_to_self(waits)
    return waits


def trap(me: Keeper) -> object:
    me.ctx.trap_exit = True
    me.ctx.link(me.neighbour)
    return me.ctx.self


def raised(me: Keeper) -> BaseException:
    try:
        raise ValueError(me)
    except ValueError as exc:
        return exc


def subscribe(me: Keeper) -> object:
    me.ctx.system.dead_letters.subscribe(me.ctx.self)
    return me.ctx.system


KEPT: dict[str, Callable[[Keeper], object]] = {
    "a timer to come": lambda me: me.ctx.send_after(NEVER, me.ctx.self, me),
    "a timer that is over": lambda me: me.ctx.send_after(0.0, me.ctx.self, "hello"),
    "a timer that was cancelled": lambda me: (timer := me.ctx.send_after(NEVER, me.ctx.self, me)).cancel() and timer,
    "a periodic timer": lambda me: me.ctx.send_every(PROMPTLY, me.ctx.self, "hello"),
    "a periodic timer to come": lambda me: me.ctx.send_every(NEVER, me.neighbour, me, fixed_rate=True),
    "a timer with a key": lambda me: me.ctx.timers.start(me, NEVER, me),
    "the timers with keys": lambda me: (me.ctx.timers.start(me, NEVER, me), me.ctx.timers),
    "a receive timeout": lambda me: me.ctx.set_receive_timeout(NEVER),
    "an ask that is open": lambda me: me.neighbour.ask(me, timeout=None),
    "an ask with a timeout": lambda me: me.neighbour.ask(me, timeout=NEVER),
    "an ask that is answered": lambda me: me.neighbour.ask("answer"),
    "an ask of an ended actor": lambda me: me.ctx.system.spawn(lambda ctx, _: Behaviors.stopped).ask(me),
    "a future": lambda me: me.ctx.pipe_to_self(asyncio.ensure_future(me.neighbour.terminated())),
    "a monitor": lambda me: me.ctx.monitor(me.neighbour),
    "a watch": lambda me: me.ctx.watch(me.neighbour, message=me),
    "a link": trap,
    "its context": lambda me: me.ctx,
    "its log": lambda me: me.ctx.log,
    "its own ref": lambda me: me.ctx.self,
    "a child": lambda me: me.ctx.spawn(Neighbour),
    "a supervisor": lambda me: me.ctx.spawn(Supervisor, Supervisor.spec([ChildSpec("one", Neighbour)])),
    "a behavior": become,
    "a piped awaitable": pipe,
    "an exception": raised,
    "a probe": lambda me: TestProbe(me.ctx.system),
    "its system": subscribe,
    "an observer": lambda me: me.ctx.system.observers.add(me),
    "a snapshot": lambda me: me.ctx.system.snapshot(),
    "a ledger": lambda me: me.ctx.system.ledger(),
}

ON_A_LOOP = [name for name in KEPT if name.startswith("an ask") or name in ("a future", "a piped awaitable")]
"""What only those can do that have an asyncio loop around them."""


async def drop(ref: Ref) -> None:
    """Nobody ends anything: the asyncio loop does, and with it everything that runs on it."""


async def stop(ref: Ref) -> None:
    ref.stop()
    await ref.terminated()


async def kill(ref: Ref) -> None:
    ref.kill()
    await ref.terminated()


async def fail(ref: Ref) -> None:
    ref.tell(ValueError("on purpose"))
    await ref.terminated()


async def fail_an_ask(ref: Ref) -> None:
    with suppress(ValueError, ActorTerminated):
        await ref.ask(ValueError("on purpose"), timeout=None)
    await ref.terminated()


async def restart(ref: Ref) -> None:
    ref.restart(ValueError("on purpose"))
    await ref.ask("hello", timeout=None)


ENDS = {one.__name__: one for one in (drop, stop, kill, fail, fail_an_ask, restart)}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A log that is kept would hold what it was told of."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def live(system: ActorSystem, take: Callable[[Keeper], object], end: str) -> None:
    keeper = system.spawn(Keeper, take, system.spawn(Neighbour))
    await keeper.started()
    keeper.tell("hello")
    await system.settle()
    await ENDS[end](keeper)
    keeper.tell("hello")  # if it has ended, that is a dead letter, by which the system knows how it did


def run(take: Callable[[Keeper], object], end: str, shut_down: bool, **config: Any) -> weakref.ref[ActorSystem]:
    async def main() -> weakref.ref[ActorSystem]:
        system = ActorSystem(config=SystemConfig(supervision=Supervision(Directive.STOP), **config))
        await system.start()
        await live(system, take, end)
        if shut_down:
            await system.shutdown(drain=False)
        return weakref.ref(system)

    return asyncio.run(main())


def survivors(end: str, shut_down: bool, left_out: Iterable[str] = (), **config: Any) -> list[str]:
    """What was kept by the actors of systems that are there still, when nobody holds them any more."""
    systems = {name: run(take, end, shut_down, **config) for name, take in KEPT.items() if name not in left_out}
    gc.collect()
    gc.collect()  # what a finalizer of the first round let go of
    return [name for name, system in systems.items() if system() is not None]


@pytest.mark.parametrize("end", ENDS)
def test_a_system_is_forgotten_whatever_its_actors_kept(end: str) -> None:
    assert survivors(end, shut_down=True) == []


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("end", ENDS)
def test_a_system_that_nobody_shut_down_is_forgotten_too(end: str) -> None:
    assert survivors(end, shut_down=False) == []


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
@pytest.mark.parametrize("end", ENDS)
def test_a_system_with_actors_on_other_threads_is_forgotten(end: str, dispatcher: str) -> None:
    left_out = ON_A_LOOP if dispatcher == "parallel" else ()
    assert survivors(end, True, left_out, placement={"*Keeper*": dispatcher}, clock=ManualClock()) == []


def test_a_system_with_more_timers_than_the_collector_tracks_is_forgotten_when_it_has_stopped() -> None:
    number = TRACKED + 10
    system = run(lambda me: [me.ctx.send_after(NEVER, me.ctx.self, me) for _ in range(number)], "fail", True)
    gc.collect()
    assert system() is None
