"""What comes while an actor starts, by every dispatcher (M2, M6)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Context,
    Directive,
    ExitKind,
    Reply,
    State,
    Supervision,
)

DISPATCHERS = ["concurrent", "parallel", "pinned", "process"]
PATIENCE = 120.0
BROKEN_OFF = (State.CREATED, State.STARTING, State.STOPPING, State.STOPPED, State.TERMINATED)
KILLED = (State.CREATED, State.STARTING, State.TERMINATED)


class Starter(Actor[str, None]):
    """Tells an ear which of its hooks run; the first is over when the ear answers."""

    def __init__(self, ear: ActorRef[str]) -> None:
        self.ear = ear

    async def pre_start(self) -> None:
        with suppress(ActorTerminated):  # when the whole system stops, so does the ear
            await self.ear.ask("pre_start", timeout=None)

    def post_start(self) -> None:
        self.ear.tell("post_start")

    def receive(self, message: str) -> None:
        self.ear.tell(message)

    def pre_restart(self, cause: BaseException | None) -> None:
        self.ear.tell("pre_restart")

    def post_restart(self) -> None:
        self.ear.tell("post_restart")

    def pre_stop(self) -> None:
        self.ear.tell("pre_stop")

    def post_stop(self) -> None:
        self.ear.tell("post_stop")


class Blocking(Starter):
    """The same; its first hook blocks, as only that of an actor by worker threads may."""

    def pre_start(self) -> None:  # type: ignore[override]
        with suppress(ActorTerminated):
            self.ear.ask_sync("pre_start", timeout=None)


class Dogged(Starter):
    """The same; it goes on although it is cancelled."""

    async def pre_start(self) -> None:
        with suppress(asyncio.CancelledError):
            await super().pre_start()


class Resigning(Starter):
    """The same; it ends itself in its first hook, or has itself ended."""

    def __init__(self, ear: ActorRef[str], how: str) -> None:
        super().__init__(ear)
        self.how = how

    def pre_start(self) -> None:  # type: ignore[override]
        self.ear.tell("pre_start")
        if self.how == "ctx.stop":
            self.ctx.stop()
        elif self.how == "system.stop":
            self.ctx.system.stop()
        else:
            getattr(self.ctx.self, self.how)()


class Parent(Actor[Any, None]):
    """Has one child."""

    def __init__(self, kind: type[Actor], ear: ActorRef[str], dispatcher: str) -> None:
        self.child = (kind, ear, dispatcher)

    def pre_start(self) -> None:
        kind, ear, dispatcher = self.child
        self.ctx.spawn(kind, ear, name="child", dispatcher=dispatcher)

    def receive(self, message: Any) -> None:
        pass


class Ear:
    """Hears of hooks, and answers when told to."""

    def __init__(self, system: ActorSystem) -> None:
        self.heard: list[str] = []
        self.asked = asyncio.Event()
        self._reply: Reply | None = None
        self.ref = system.spawn(self.hear, name="ear", dispatcher="concurrent")
        system.dead_letters.subscribe(lambda letter: self.heard.append(letter.message))

    def hear(self, ctx: Context, message: str) -> None:
        self.heard.append(message)
        if message == "pre_start":
            with suppress(Exception):
                self._reply = ctx.defer_reply()
            self.asked.set()

    def answer(self) -> None:
        assert self._reply is not None
        self.asked.clear()
        self._reply.send(None)


pytestmark = pytest.mark.config(history=True, stop_timeout=1e6, supervision=Supervision(Directive.STOP, backoff=None))


starters = pytest.mark.parametrize(
    ("kind", "dispatcher"), [*((Starter, name) for name in DISPATCHERS), (Blocking, "parallel")]
)


@starters
@pytest.mark.parametrize("how", ["stop", "parent", "system"])
async def test_a_stop_while_pre_start_runs_leaves_out_post_start(
    system: ActorSystem, how: str, kind: type[Actor], dispatcher: str
) -> None:
    ear = Ear(system)
    parent: ActorRef[Any] | None = None
    if how == "parent":
        parent = system.spawn(Parent, kind, ear.ref, dispatcher, dispatcher="concurrent")
        await parent.started()
        ref: ActorRef[Any] | None = system.actor(f"{parent.path}/child")
        assert ref is not None
    else:
        ref = system.spawn(kind, ear.ref, dispatcher=dispatcher)
    ref.tell("never handled")
    starting = asyncio.create_task(ref.started())
    await ear.asked.wait()
    if how == "system":
        system.stop()
    else:
        (ref if parent is None else parent).stop()
        ear.answer()
    reason = await ref.terminated()
    assert reason.kind is (ExitKind.NORMAL if how == "stop" else ExitKind.SHUTDOWN)
    with pytest.raises(ActorTerminated):
        await starting
    assert ref.history == BROKEN_OFF
    await (system.stopped() if how == "system" else system.settle())
    assert sorted(ear.heard) == ["never handled", "post_stop", "pre_start"]
    assert system.ledger(ref).handled == 0


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize("kind", [Starter, Dogged])
async def test_a_kill_while_pre_start_runs_leaves_out_post_start(
    system: ActorSystem, kind: type[Actor], dispatcher: str
) -> None:
    ear = Ear(system)
    ref = system.spawn(kind, ear.ref, dispatcher=dispatcher)
    await ear.asked.wait()
    ref.kill()
    assert (await ref.terminated()).kind is ExitKind.KILLED
    assert ref.history == KILLED
    await system.settle()
    assert ear.heard == ["pre_start", "post_stop"]


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize("how", ["ctx.stop", "stop", "kill", "system.stop"])
async def test_an_actor_that_ends_itself_in_pre_start_has_no_post_start(
    system: ActorSystem, how: str, dispatcher: str
) -> None:
    ear = Ear(system)
    ref = system.spawn(Resigning, ear.ref, how, dispatcher=dispatcher)
    await ref.terminated()
    assert ref.history == (KILLED if how == "kill" else BROKEN_OFF)
    await (system.stopped() if how == "system.stop" else system.settle())
    assert "post_start" not in ear.heard
    assert "pre_stop" not in ear.heard
    assert ear.heard.count("post_stop") == 1


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
async def test_a_stop_before_the_start_lets_it_come_to_its_end(system: ActorSystem, dispatcher: str) -> None:
    ear = Ear(system)
    ref = system.spawn(Starter, ear.ref, dispatcher=dispatcher)
    ref.stop()
    await ear.asked.wait()
    ear.answer()
    await ref.terminated()
    await system.settle()
    assert ear.heard == ["pre_start", "post_start", "pre_stop", "post_stop"]


@starters
async def test_a_restart_while_pre_start_runs_comes_after_the_whole_start(
    system: ActorSystem, kind: type[Actor], dispatcher: str
) -> None:
    ear = Ear(system)
    ref = system.spawn(kind, ear.ref, dispatcher=dispatcher)
    ref.tell("handled once")
    await ear.asked.wait()
    ref.restart()
    ear.answer()
    await ear.asked.wait()
    ear.answer()
    await system.settle()
    first = ["pre_start", "post_start", "pre_restart", "post_stop"]
    assert ear.heard == [*first, "pre_start", "post_restart", "post_start", "handled once"]


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_stop_while_a_restarted_actor_starts_leaves_out_the_rest_of_it(
    system: ActorSystem, how: str, dispatcher: str
) -> None:
    ear = Ear(system)
    ref = system.spawn(Starter, ear.ref, dispatcher=dispatcher)
    await ear.asked.wait()
    ear.answer()
    await ref.started()
    ref.restart()
    await ear.asked.wait()
    getattr(ref, how)()
    if how == "stop":
        ear.answer()
    await ref.terminated()
    await system.settle()
    assert ear.heard == ["pre_start", "post_start", "pre_restart", "post_stop", "pre_start", "post_stop"]
