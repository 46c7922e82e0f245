"""What a meta-process may do in which state, on either thread; what it may never do, each with an error (E5, E9)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Alias, ExitReason, Lane, Parallel
from greenroom.errors import (
    GreenroomError,
    MetaCannotAsk,
    MetaCannotCompress,
    MetaCannotLink,
    MetaCannotMonitor,
    MetaCannotReply,
    MetaCannotSetLane,
    MetaCannotSpawnActors,
    MetaCannotWatch,
    MetaEnded,
    MetaRefused,
)
from greenroom.meta import Compression, MetaProcess, MetaState
from tests.gates import Event
from tests.meta.owners import PATIENCE, Quiet, Ref, Scene

ASLEEP, RUNNING, TERMINATED = MetaState.SLEEP, MetaState.RUNNING, MetaState.TERMINATED

# -- where something is tried: each a place in the code of a meta-process, with the state that it is in there

PLACES: dict[str, MetaState] = {
    "init": ASLEEP,
    "the reader, asleep": ASLEEP,
    "the reader, beside a handler": RUNNING,
    "the reader, after the end": TERMINATED,
    "handle_message": RUNNING,
    "handle_call": RUNNING,
    "inspect": ASLEEP,
    "terminate": TERMINATED,
}


class Trial:
    """One attempt at something, in one place; `done` when it was made."""

    def __init__(self, place: str, attempt: Callable[[Any], Any]) -> None:
        self.place = place
        self.attempt = attempt
        self.done = Event()
        self.state: MetaState | None = None
        self.thread: threading.Thread | None = None
        self.result: Any = None
        self.error: BaseException | None = None

    def at(self, place: str, meta: Any) -> Any:
        """Make it, if it is to be made here."""
        if place == self.place and self.state is None:
            self.state, self.thread = meta.state, threading.current_thread()
            try:
                self.result = self.attempt(meta)
            except BaseException as exc:
                self.error = exc
            if not hasattr(self.result, "__await__"):
                self.done.set()
            return self.result
        return None

    async def at_async(self, place: str, meta: Any) -> None:
        """The same, where it may be awaited."""
        result = self.at(place, meta)
        if hasattr(result, "__await__"):
            try:
                self.result = await result
            except BaseException as exc:
                self.error = exc
            self.done.set()


class Tried(MetaProcess):
    """Makes an attempt on threads of its own."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.begun = Event()
        self.handles, self.tried, self.ended = threading.Event(), threading.Event(), threading.Event()

    def init(self) -> None:
        self.trial.at("init", self)

    def start(self) -> None:
        self.begun.set()
        self.trial.at("the reader, asleep", self)
        if self.trial.place == "the reader, beside a handler":
            assert self.handles.wait(PATIENCE)
            self.trial.at("the reader, beside a handler", self)
            self.tried.set()
        if self.trial.place == "the reader, after the end":
            assert self.ended.wait(PATIENCE)
            self.trial.at("the reader, after the end", self)
        else:
            self.wait(PATIENCE)

    def handle_message(self, message: Any) -> None:
        self.handles.set()
        if self.trial.place == "the reader, beside a handler":
            assert self.tried.wait(PATIENCE)
        self.trial.at("handle_message", self)

    def handle_call(self, request: Any) -> str:
        self.trial.at("handle_call", self)
        return "answer"

    def inspect(self, *items: str) -> dict[str, Any]:
        self.trial.at("inspect", self)
        return {}

    def terminate(self, reason: ExitReason) -> None:
        self.trial.at("terminate", self)
        self.ended.set()


class AsyncTried(MetaProcess):
    """Makes it on the system's own loop."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.begun, self.handles, self.tried, self.ended = Event(), Event(), Event(), Event()

    def init(self) -> None:
        self.trial.at("init", self)

    async def start(self) -> None:
        self.begun.set()
        await self.trial.at_async("the reader, asleep", self)
        if self.trial.place == "the reader, beside a handler":
            await self.handles.wait()
            await self.trial.at_async("the reader, beside a handler", self)
            self.tried.set()
        if self.trial.place != "the reader, after the end":
            await self.ended.wait()
        while not self.ended.is_set():
            with suppress(asyncio.CancelledError):
                await self.ended.wait()
        await self.trial.at_async("the reader, after the end", self)

    async def handle_message(self, message: Any) -> None:
        self.handles.set()
        if self.trial.place == "the reader, beside a handler":
            await self.tried.wait()
        await asyncio.sleep(0)
        await self.trial.at_async("handle_message", self)

    async def handle_call(self, request: Any) -> str:
        await asyncio.sleep(0)
        await self.trial.at_async("handle_call", self)
        return "answer"

    async def inspect(self, *items: str) -> dict[str, Any]:  # type: ignore[override]
        await asyncio.sleep(0)
        await self.trial.at_async("inspect", self)
        return {}

    async def terminate(self, reason: ExitReason) -> None:
        await asyncio.sleep(0)
        await self.trial.at_async("terminate", self)
        self.ended.set()


KINDS: list[Any] = [Tried, AsyncTried]


async def make(scene: Scene, kind: Any, trial: Trial) -> Alias:
    """Bring up a meta-process, and lead it to where the attempt is made."""
    meta = kind(trial)
    alias = await scene.spawn(meta)
    await meta.begun.wait()
    if trial.place in ("handle_message", "the reader, beside a handler"):
        scene.probe.send(alias, "a message")
    elif trial.place == "handle_call":
        asked = asyncio.ensure_future(alias.ask("a call", timeout=None))
        await trial.done.wait()
        asked.cancel()
    elif trial.place == "inspect":
        await alias.inspect()
    elif trial.place in ("terminate", "the reader, after the end"):
        alias.stop()
    await trial.done.wait()
    return alias


# -- the table: what may be done in which states, and what is raised otherwise

ANYWHERE = frozenset(MetaState)


def set_lane(meta: Any) -> None:
    meta.send_lane = Lane.LOG


def set_compression(meta: Any) -> None:
    meta.compression = Compression(enabled=True)


TABLE: dict[str, tuple[Callable[[Any], Any], frozenset[MetaState], type[MetaRefused] | None]] = {
    "send": (lambda meta: meta.send(meta.parent, "sent"), ANYWHERE, None),
    "id": (lambda meta: meta.id, ANYWHERE, None),
    "parent": (lambda meta: meta.parent, ANYWHERE, None),
    "env": (lambda meta: dict(meta.env), ANYWHERE, None),
    "log": (lambda meta: meta.log.debug("said"), ANYWHERE, None),
    "state": (lambda meta: meta.state, ANYWHERE, None),
    "send_lane": (lambda meta: meta.send_lane, ANYWHERE, None),
    "compression": (lambda meta: meta.compression, ANYWHERE, None),
    "stopping": (lambda meta: meta.stopping, ANYWHERE, None),
    "wait": (lambda meta: meta.wait(0), ANYWHERE, None),
    "defer_reply": (lambda meta: meta.defer_reply(), frozenset({RUNNING}), MetaCannotReply),
    "set send_lane": (set_lane, frozenset({RUNNING}), MetaCannotSetLane),
    "set compression": (set_compression, frozenset({RUNNING}), MetaCannotCompress),
    "spawn": (lambda meta: meta.spawn(Quiet()), frozenset({ASLEEP, RUNNING}), MetaEnded),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", TABLE)
async def test_the_table_of_states_holds_on_either_thread(
    system: ActorSystem, kind: Any, place: str, what: str
) -> None:  # E9
    attempt, allowed, error = TABLE[what]
    trial = Trial(place, attempt)
    scene = Scene(system, env={"x": 1})
    alias = await make(scene, kind, trial)
    assert trial.state is PLACES[place]
    is_home = trial.thread is threading.current_thread()
    assert is_home == (kind is AsyncTried or place == "init")
    if PLACES[place] in allowed:
        assert trial.error is None
        expected = {"id": alias, "parent": scene.owner, "env": {"x": 1}, "state": PLACES[place]}
        if what in expected:
            assert trial.result == expected[what]
        if what == "send":
            sent = await scene.probe.fish(lambda one: getattr(one, "message", None) == "sent")
            assert sent.sender == alias
        if what == "spawn":
            assert trial.result.parent == alias
        if what == "stopping":
            assert trial.result is (PLACES[place] is TERMINATED)
    else:
        assert error is not None
        assert type(trial.error) is error
        assert trial.error is not None
        assert trial.error.ref == alias
        assert str(alias) in str(trial.error)


# -- what it may never do


class Other(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


def a_function(ctx: Any, message: Any) -> None:
    raise AssertionError


NEVER: dict[str, tuple[Callable[[Any, Ref], Any], type[MetaRefused]]] = {
    "ask": (lambda meta, other: meta.ask(other, 1), MetaCannotAsk),
    "ask_sync": (lambda meta, other: meta.ask_sync(other, 1), MetaCannotAsk),
    "link": (lambda meta, other: meta.link(other), MetaCannotLink),
    "monitor": (lambda meta, other: meta.monitor(other), MetaCannotMonitor),
    "watch": (lambda meta, other: meta.watch(other), MetaCannotWatch),
    "spawn an actor's class": (lambda meta, other: meta.spawn(Other), MetaCannotSpawnActors),
    "spawn an actor": (lambda meta, other: meta.spawn(Other()), MetaCannotSpawnActors),
    "spawn what makes an actor": (lambda meta, other: meta.spawn(lambda: Other()), MetaCannotSpawnActors),
    "spawn a number": (lambda meta, other: meta.spawn(42), MetaCannotSpawnActors),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", NEVER)
async def test_what_is_forbidden_raises_its_own_error(
    system: ActorSystem, kind: Any, place: str, what: str
) -> None:  # E5, case 67
    attempt, error = NEVER[what]
    scene, other = Scene(system), system.spawn(Other)
    before = system.ledger(other).sent
    trial = Trial(place, lambda meta: attempt(meta, other))
    alias = await make(scene, kind, trial)
    expected = MetaEnded if what.startswith("spawn") and PLACES[place] is TERMINATED else error
    assert type(trial.error) is expected
    assert isinstance(trial.error, GreenroomError)
    assert trial.error.ref == alias
    assert system.ledger(other).sent == before
    assert "Other" not in [ref.name.partition("$")[0] for ref in system.actors() if ref != other]


ASKS: dict[str, Callable[[Ref], Any]] = {
    "ask": lambda other: other.ask("x", timeout=None),
    "ask patiently": lambda other: other.ask("x", timeout=None, wait_for_room=True),
    "ask_sync": lambda other: other.ask_sync("x", timeout=PATIENCE),
    "ask_sync patiently": lambda other: other.ask_sync("x", timeout=PATIENCE, wait_for_room=True),
}
"""By the ref of another, behind its own back."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [place for place in PLACES if place != "init"])
@pytest.mark.parametrize("how", ASKS)
async def test_asking_by_another_ones_ref_is_refused_as_well(
    system: ActorSystem, kind: Any, place: str, how: str
) -> None:  # E5, case 67
    scene, other = Scene(system), system.spawn(Other)
    before = system.ledger(other).sent
    trial = Trial(place, lambda meta: ASKS[how](other))
    alias = await make(scene, kind, trial)
    assert type(trial.error) is MetaCannotAsk
    assert trial.error.ref == alias
    assert system.ledger(other).sent == before


async def test_what_a_reader_starts_cannot_ask_either(system: ActorSystem) -> None:  # E5
    errors: list[BaseException] = []
    done = Event()
    scene, other = Scene(system), system.spawn(Other)

    async def ask() -> None:
        try:
            await other.ask("x")
        except BaseException as exc:
            errors.append(exc)

    class Delegating(MetaProcess):
        async def start(self) -> None:
            await asyncio.create_task(ask())
            await asyncio.gather(ask(), ask())
            done.set()
            await asyncio.Event().wait()

    await scene.spawn(Delegating())
    await done.wait()
    assert [type(error) for error in errors] == [MetaCannotAsk] * 3
    # Everybody else still can.
    assert await other.ask("y") == "y"
    assert await scene.do(lambda ctx: "alive") == "alive"


@pytest.mark.config(dispatchers={"meta": Parallel(1)})
async def test_a_thread_of_the_pool_that_served_a_meta_process_may_ask_for_an_actor(system: ActorSystem) -> None:  # E5
    class Asker(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            return message.ask_sync("x", timeout=PATIENCE)

    scene, other = Scene(system), system.spawn(Other)
    trial = Trial("handle_message", lambda meta: other.ask_sync("x"))
    await make(scene, Tried, trial)
    assert type(trial.error) is MetaCannotAsk
    asker = system.spawn(Asker, dispatcher="meta")
    assert await asker.ask(other, timeout=None) == "x"
