"""Who hears of an end, and when (M5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, ExitKind
from tests.conformance.cast import FOREIGN
from tests.conformance.lives import HookedAsync, Plain, PlainAsync, ended, every_hooked

ENDS = ["stop", "kill", "fail"]


def end(ref: ActorRef[Any, Any], how: str) -> None:
    if how == "fail":
        ref.fail(ValueError("on purpose"))
    else:
        getattr(ref, how)()


@every_hooked
@pytest.mark.parametrize("how", ENDS)
async def test_everybody_is_told_of_an_end_after_it(system: ActorSystem, kind: Any, how: str) -> None:  # M5
    log: list[str] = []

    class Parent(Actor[Any, Any]):
        def pre_start(self) -> None:
            self.ctx.watch(self.ctx.spawn(kind, log))

        def receive(self, message: Any) -> None:
            end(self.ctx.children[0], how)

        def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
            log.append(f"on_terminated, {ref.state.value}")

        def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
            log.append(f"on_child_terminated, {ref.state.value}")

    ref = system.spawn(Parent)
    ref.tell("go")
    await system.settle()
    assert ref.is_alive
    await system.shutdown()
    assert log[-3] == "post_stop"
    assert sorted(log[-2:]) == ["on_child_terminated, terminated", "on_terminated, terminated"]


async def test_an_actor_may_wait_for_the_end_of_another_in_handlers_and_hooks(system: ActorSystem) -> None:  # M5
    seen: list[Any] = []

    class Patient(Actor[Any, Any]):
        async def end_child(self) -> None:
            child = self.ctx.spawn(HookedAsync)
            child.stop()
            seen.append((await child.terminated()).kind)

        async def pre_start(self) -> None:
            await self.end_child()

        async def receive(self, message: Any) -> None:
            await self.end_child()

        async def pre_stop(self) -> None:
            await self.end_child()

        async def post_stop(self) -> None:
            seen.append(await self.ctx.system.actor("friend").ask("hello"))

    system.spawn(PlainAsync, name="friend")
    ref = system.spawn(Patient)
    await ref.ask("go")
    ref.stop()
    await ended(system, ref)
    await system.shutdown()
    assert seen == [ExitKind.NORMAL] * 3 + ["hello"]


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("how", ENDS)
async def test_all_who_wait_for_an_end_are_told(system: ActorSystem, how: str, foreign: bool) -> None:  # M5, M8
    ref = system.spawn(Plain)
    waiting = [asyncio.ensure_future(ref.terminated()) for _ in range(3)]
    if foreign:
        waiting += [asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(ref.terminated()))) for _ in range(3)]
    given_up = asyncio.ensure_future(ref.terminated())
    await asyncio.sleep(0)
    given_up.cancel()
    end(ref, how)
    reasons = [await one for one in waiting]
    assert all(reason == reasons[0] for reason in reasons)
    assert given_up.cancelled()


async def test_one_observer_hears_of_each_end_once(system: ActorSystem) -> None:  # M5
    heard: list[tuple[ActorRef[Any, Any], ExitKind]] = []

    class Observer:
        def actor_stopped(self, ref: ActorRef[Any, Any], reason: Any) -> None:
            heard.append((ref, reason.kind))
            assert not ref.is_alive

    system.observers.add(Observer())
    refs = [system.spawn(Plain) for _ in ENDS]
    for ref, how in zip(refs, ENDS, strict=True):
        end(ref, how)
        end(ref, how)
        await ended(system, ref)
    assert heard == list(zip(refs, [ExitKind.NORMAL, ExitKind.KILLED, ExitKind.FAIL], strict=True))
