"""A restart, in place: which hooks run, in which order, and how `ref.restart()` asks for one (M6, decision 014)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import ActorSystem, Behaviors, Context, ManualClock, State, Supervision
from tests.conformance.incarnations import (
    AT_ONCE,
    BAD,
    BORN_AGAIN,
    GONE,
    AsyncPhoenix,
    Book,
    Gate,
    Phoenix,
    assert_legal,
    every_phoenix,
    runs,
    slow,
    turns,
)
from tests.conformance.lives import ended


@every_phoenix
@pytest.mark.parametrize("how", ["raise", "fail", "restart", "behavior"])
@pytest.mark.config(supervision=AT_ONCE, history=True)
async def test_the_hooks_of_a_restart_run_in_their_order(
    system: ActorSystem, kind: Any, how: str
) -> None:  # M6, case 47
    book = Book()
    cause = BAD
    ref = system.spawn(kind, book)
    await ref.ask(lambda me: me.ctx.spawn(kind, Book("child's ", book.log)))
    await system.settle()
    book.take()
    if how == "fail":
        ref.fail(cause)
    elif how == "restart":
        ref.restart(cause)
    else:
        ref.tell(cause if how == "raise" else lambda _: Behaviors.failed(cause))
    assert await ref.ask("next") == "next"
    assert book.take() == [
        "pre_restart 1",
        "snapshot 1",
        "child's pre_stop 1",
        "child's post_stop 1",
        "post_stop 1",
        *BORN_AGAIN,
    ]
    assert book.actors[0].cause is cause
    assert book.actors[1].state == "state of 1"
    assert book.actors[0] is not book.actors[1]
    assert_legal(ref.history)
    assert runs(ref)


@every_phoenix
@pytest.mark.config(history=True)
async def test_the_old_incarnation_goes_at_once_and_the_new_one_comes_after_the_backoff(
    system: ActorSystem, clock: ManualClock, kind: Any
) -> None:  # M6
    book = Book()
    ref = system.spawn(kind, book, name="one", supervision=slow(0.5))
    await ref.ask("hello")
    before = (ref.id, ref.path, hash(ref), ref.name)
    book.take()
    ref.tell(BAD)
    end = asyncio.ensure_future(ref.terminated())
    started = asyncio.ensure_future(ref.started())
    await clock.advance(0.25)
    assert book.take() == GONE
    assert ref.state is State.RESTARTING
    assert ref.is_alive
    assert system.actor("/one") == ref
    assert ref in system.actors()
    await clock.advance(0.25)
    assert book.take() == BORN_AGAIN
    assert runs(ref)
    assert (ref.id, ref.path, hash(ref), ref.name) == before
    assert await ref.ask(lambda me: me.ctx.self) == ref
    await started
    assert not end.done()
    ref.stop()
    await end
    assert ref.history == (
        State.CREATED,
        State.STARTING,
        State.RUNNING,
        State.FAILED,
        State.RESTARTING,
        State.STARTING,
        State.RUNNING,
        State.STOPPING,
        State.STOPPED,
        State.TERMINATED,
    )


@pytest.mark.config(supervision=AT_ONCE)
async def test_children_are_stopped_before_the_new_incarnation_starts(system: ActorSystem) -> None:  # case 47, M6
    book = Book()
    gate = Gate()
    slow_child = Book("child's ", book.log, post_stop=gate.wait)

    def bear(me: Any) -> None:
        me.ctx.spawn(AsyncPhoenix, slow_child, name="child")  # the name is free again, each time

    book.acts["pre_start"] = bear
    ref = system.spawn(Phoenix, book, name="one")
    await ref.ask("hello")
    child = system.actor("/one/child")
    assert child is not None
    book.take()
    ref.restart()
    ref.tell("queued")
    await gate.entered.wait()
    await turns()
    assert "post_stop 1" not in book.log
    assert book.lives == 1
    assert ref.state is State.RESTARTING
    assert book.heard == ["hello"]
    gate.opened.set()
    assert await ref.ask("next") == "next"
    assert not child.is_alive
    assert system.actor("/one/child") not in (None, child)
    await ended(system, child)
    log = book.take()
    assert log.index("child's post_stop 1") < log.index("post_stop 1") < log.index("init 2")
    assert book.heard == ["hello", "queued", "next"]


@pytest.mark.config(supervision=AT_ONCE)
async def test_children_born_in_pre_restart_are_stopped_too(system: ActorSystem) -> None:  # M6, case 47
    born: list[Any] = []
    book = Book(pre_restart=lambda me: born.append(me.ctx.spawn(Phoenix, Book())))
    ref = system.spawn(Phoenix, book)
    ref.restart()
    assert await ref.ask(lambda me: me.ctx.children) == []
    assert not born[0].is_alive


@pytest.mark.config(supervision=AT_ONCE)
async def test_functions_and_behaviors_are_restarted_too(system: ActorSystem) -> None:  # M6, M13
    setups: list[Any] = []
    signals: list[Any] = []

    def set_up(ctx: Context) -> Any:
        setups.append(ctx.self)
        counts: list[Any] = []

        def count(ctx: Context, message: Any) -> Any:
            if isinstance(message, BaseException):
                raise message
            counts.append(message)
            return len(counts)

        return Behaviors.receive(count, on_signal=lambda _, signal: signals.append(type(signal).__name__))

    def plain(ctx: Context, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        return message

    ref = system.spawn(Behaviors.setup(set_up))
    function = system.spawn(plain)
    assert [await ref.ask(1), await ref.ask(2), await function.ask(3)] == [1, 2, 3]
    signals.clear()
    for one in (ref, function):
        with pytest.raises(ValueError, match="on purpose"):
            await one.ask(BAD)
    assert [await ref.ask(1), await function.ask(3)] == [1, 3]  # the count begins anew
    assert setups == [ref, ref]
    assert signals == ["PreRestart", "PostStop", "PreStart", "PostRestart", "PostStart"]


@pytest.mark.config(supervision=Supervision(backoff=None))
async def test_observers_hear_of_restarts_and_of_no_end(system: ActorSystem) -> None:  # J16
    class Eye:
        seen: list[Any]

        def __init__(self) -> None:
            self.seen = []

        def actor_started(self, ref: Any) -> None:
            self.seen.append(("started", ref))

        def actor_restarted(self, ref: Any, cause: Any) -> None:
            self.seen.append(("restarted", ref, cause))

        def actor_stopped(self, ref: Any, reason: Any) -> None:
            self.seen.append(("stopped", ref))

    eye = Eye()
    system.observers.add(eye)
    ref = system.spawn(Phoenix, Book())
    ref.tell(BAD)
    await system.settle()
    ref.restart()
    await ref.ask("hello")
    assert eye.seen == [("started", ref), ("restarted", ref, BAD), ("restarted", ref, None)]
