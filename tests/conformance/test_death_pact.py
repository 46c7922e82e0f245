"""`DeathPact`: an actor that watches another and has no hook for its end fails with it (M8)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    ActorSystem,
    Behaviors,
    Context,
    DeathPact,
    ExitKind,
    Signal,
    Terminated,
)
from tests.conformance.watchers import BAD, Doer, Plain, Ref, Watcher, end


async def do_async(ctx: Context, act: Callable[[Context], Any]) -> Any:
    await asyncio.sleep(0)
    return act(ctx)


def note_signals(ctx: Context, signal: Signal) -> None:
    return None


class Listener(Doer):
    """Hears every signal, and has nothing else for them."""

    def on_signal(self, signal: Signal) -> Any:
        if isinstance(signal, Terminated):
            self.log.append(signal.ref)


WITHOUT_HOOK: dict[str, Any] = {
    "class": Doer,
    "function": lambda ctx, act: act(ctx),
    "async function": do_async,
    "behavior": Behaviors.receive(lambda ctx, act: act(ctx)),
    "behavior that only listens": Behaviors.receive(lambda ctx, act: act(ctx), on_signal=note_signals),
    "class that only listens": Listener,
}


@pytest.mark.parametrize("cause", [None, BAD])
@pytest.mark.parametrize("kind", WITHOUT_HOOK)
async def test_an_unhandled_notice_is_a_death_pact(
    system: ActorSystem, kind: str, cause: BaseException | None
) -> None:  # M8
    target, watcher = system.spawn(Plain), system.spawn(WITHOUT_HOOK[kind])
    await watcher.ask(lambda ctx: ctx.watch(target))
    await end(target, cause)
    reason = await watcher.terminated()
    assert reason.kind is ExitKind.FAIL
    pact = reason.cause
    assert isinstance(pact, DeathPact)
    assert pact.code == "death_pact"
    assert (pact.ref, pact.ended, pact.reason) == (watcher, target, await target.terminated())
    assert pact.__cause__ is cause


async def test_a_listener_hears_of_the_end_that_kills_it(system: ActorSystem) -> None:  # on_signal: every signal
    log: list[Any] = []
    target, watcher = system.spawn(Plain), system.spawn(Listener, log)
    await watcher.ask(lambda ctx: ctx.watch(target))
    await end(target)
    assert isinstance((await watcher.terminated()).cause, DeathPact)
    assert log == [target]


async def test_death_pacts_run_along_a_chain_until_somebody_has_the_hook(system: ActorSystem) -> None:
    log: list[Any] = []
    chain: list[Ref] = [system.spawn(Plain), *(system.spawn(Doer) for _ in range(3)), system.spawn(Watcher, log)]
    for watched, watcher in itertools.pairwise(chain):
        await watcher.ask(lambda ctx, watched=watched: ctx.watch(watched))
    await end(chain[0], BAD)
    await chain[3].terminated()
    await system.settle()
    (ref, cause), *more = log
    assert ref == chain[3]
    assert more == []
    assert chain[4].is_alive
    ends: list[BaseException] = [BAD]
    while isinstance(cause, DeathPact):
        ends.append(cause)
        assert cause.__cause__ is not None
        cause = cause.__cause__
    assert cause is BAD
    assert len(ends) == 4


async def test_a_function_takes_a_notice_by_saying_what_comes_next(system: ActorSystem) -> None:
    log: list[Any] = []

    def on_signal(ctx: Context, signal: Signal) -> Any:
        if not isinstance(signal, Terminated):
            return None
        log.append((signal.ref, signal.cause, signal.reason.kind))
        return Behaviors.same

    target = system.spawn(Plain)
    watcher = system.spawn(Behaviors.receive(lambda ctx, act: act(ctx), on_signal=on_signal))
    await watcher.ask(lambda ctx: ctx.watch(target))
    await end(target, BAD)
    await system.settle()
    assert log == [(target, BAD, ExitKind.FAIL)]
    assert watcher.is_alive


@pytest.mark.parametrize("family", [False, True])
async def test_a_shutdown_is_no_death_pact(system: ActorSystem, family: bool) -> None:  # M8, M11
    watcher = system.spawn(Doer)

    class Slow(Plain):
        async def pre_stop(self) -> None:
            await asyncio.sleep(0)

    target = await watcher.ask(lambda ctx: ctx.spawn(Slow)) if family else system.spawn(Slow)
    await target.started()
    await watcher.ask(lambda ctx: ctx.watch(target))
    await system.shutdown()
    assert (await watcher.terminated()).kind is ExitKind.SHUTDOWN
    assert (await target.terminated()).kind is ExitKind.SHUTDOWN
