"""Starts that never end: they are cancelled after `start_timeout`, and the supervisor decides (M3, M4, M7)."""

from __future__ import annotations

import asyncio
import threading
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ChildSpec,
    Directive,
    ManualClock,
    MonotonicClock,
    State,
    Supervision,
    Supervisor,
    SystemConfig,
)
from greenroom.errors import StartTimeout
from tests.conformance.incarnations import AT_ONCE, BAD, AsyncPhoenix, Book, Gate, runs, soon
from tests.conformance.lives import ended

if TYPE_CHECKING:
    from tests.conftest import Play

HOOKS = ["pre_start", "post_start"]
STOP = Supervision(Directive.STOP)


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
async def test_a_start_that_never_ends_is_cancelled_and_fails_the_actor(
    system: ActorSystem, clock: ManualClock, hook: str, stubborn: bool
) -> None:  # M3
    gate = Gate(stubborn)
    ref = system.spawn(AsyncPhoenix, Book(**{hook: gate.wait}), name="slow", supervision=STOP)
    started = asyncio.ensure_future(ref.started())
    await gate.entered.wait()
    await clock.advance(599.0)
    assert (ref.state, gate.cancelled) == (State.STARTING, 0)
    await clock.advance(1.0)
    assert gate.cancelled == 1
    await clock.advance(1.0)  # after which one that takes no notice is abandoned
    with pytest.raises(StartTimeout, match=r"/slow .* 600 s.*`SystemConfig\(start_timeout=...\)`"):
        await started
    reason = await ended(system, ref)
    assert isinstance(reason.cause, StartTimeout)
    assert system.snapshot().timers == 0
    gate.opened.set()


@pytest.mark.parametrize("hook", ["pre_start 1", "post_start 1", "pre_start 2", "restore 2", "post_restart 2"])
@pytest.mark.config(start_timeout=10.0)
async def test_a_start_that_never_ends_leads_to_the_next_one(
    system: ActorSystem, clock: ManualClock, hook: str
) -> None:  # M6, M7
    gate = Gate()
    book = Book()
    book.acts[hook] = gate.wait
    ref = system.spawn(AsyncPhoenix, book, supervision=AT_ONCE)
    if hook.endswith("2"):
        await ref.started()
        ref.tell(BAD)
    ref.tell("queued")
    await gate.entered.wait()
    await clock.advance(10.0)
    assert gate.cancelled == 1
    number = 1 + int(hook[-1])
    assert await soon(system, ref.ask(lambda me: me.number)) == number
    assert book.heard == ["queued"]
    await clock.advance(100.0)
    assert runs(ref)
    assert book.lives == number


@pytest.mark.parametrize("setting", [None, inf])
def test_without_a_start_timeout_a_start_may_take_for_ever(play: Play, setting: float | None) -> None:  # J1
    clock = ManualClock()

    async def program(system: ActorSystem) -> None:
        gate = Gate()
        ref = system.spawn(AsyncPhoenix, Book(pre_start=gate.wait))
        await gate.entered.wait()
        assert system.snapshot().timers == 0
        await clock.advance(1e6)
        assert ref.state is State.STARTING
        gate.opened.set()
        await soon(system, ref.started())

    play(program, clock=clock, start_timeout=setting)


@pytest.mark.config(start_timeout=10.0)
async def test_a_start_that_ends_in_time_leaves_no_deadline(system: ActorSystem, clock: ManualClock) -> None:  # J11
    gate = Gate()
    ref = system.spawn(AsyncPhoenix, Book(pre_start=gate.wait))
    await gate.entered.wait()
    await clock.advance(9.0)
    gate.opened.set()
    await soon(system, ref.started())
    assert system.snapshot().timers == 0
    await clock.advance(100.0)
    assert runs(ref)


@pytest.mark.config(start_timeout=10.0, stop_timeout=5.0)
async def test_an_actor_that_is_stopped_while_it_starts_has_the_time_of_a_stop(
    system: ActorSystem, clock: ManualClock
) -> None:  # M5
    gate = Gate()
    ref = system.spawn(AsyncPhoenix, Book(pre_start=gate.wait))
    await gate.entered.wait()
    await clock.advance(9.0)
    ref.stop()
    await clock.advance(4.0)
    assert gate.cancelled == 0
    await clock.advance(1.0)
    assert (await ended(system, ref)).cause is None
    assert gate.cancelled == 1


@pytest.mark.config(start_timeout=10.0)
async def test_a_supervisor_counts_a_start_that_never_ends(system: ActorSystem, clock: ManualClock) -> None:  # J10
    gate = Gate()
    book = Book()
    book.acts.update({"pre_start 2": gate.wait, "pre_start 3": gate.wait})
    spec = Supervisor.spec([ChildSpec("one", AsyncPhoenix, (book,), backoff=None)], intensity=2, period=100.0)
    supervisor = system.spawn(Supervisor, spec, supervision=STOP)
    await supervisor.started()
    child = system.actor(f"{supervisor.path}/one")
    assert child is not None
    child.tell(BAD)
    await clock.advance(10.0)
    assert (book.lives, gate.cancelled) == (3, 1)
    await clock.advance(10.0)
    reason = await ended(system, supervisor)
    assert isinstance(reason.cause, StartTimeout)
    assert gate.cancelled == 2


@pytest.mark.config(start_timeout=10.0)
async def test_a_supervisor_fails_with_the_child_that_does_not_start_and_not_before(
    system: ActorSystem, clock: ManualClock
) -> None:  # J10
    gates = [Gate(), Gate()]
    specs = [ChildSpec(f"c{n}", AsyncPhoenix, (Book(pre_start=gate.wait),)) for n, gate in enumerate(gates)]
    supervisor = system.spawn(Supervisor, Supervisor.spec(specs), name="top", supervision=STOP)
    await gates[0].entered.wait()
    await clock.advance(6.0)
    gates[0].opened.set()
    await clock.advance(6.0)  # each child has its own time
    assert supervisor.state is State.STARTING
    await clock.advance(4.0)
    reason = await ended(system, supervisor)
    assert isinstance(reason.cause, StartTimeout)
    assert str(reason.cause).startswith("/top/c1 ")


class Blocking(Actor[Any, Any]):
    """Its constructor blocks the thread it runs on."""

    def __init__(self, released: threading.Event) -> None:
        released.wait(120.0)

    def receive(self, message: Any) -> Any:
        return message


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
def test_a_constructor_that_blocks_another_thread_is_given_up(dispatcher: str) -> None:  # M9
    released = threading.Event()

    async def main() -> None:
        config = SystemConfig(start_timeout=0.01, supervision=STOP, clock=MonotonicClock())
        async with ActorSystem(config=config) as system:
            ref = system.spawn(Blocking, released, dispatcher=dispatcher)
            with pytest.raises(StartTimeout):
                await ref.started()
            assert isinstance((await ref.terminated()).cause, StartTimeout)
            released.set()

    asyncio.run(main())
