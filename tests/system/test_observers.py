"""Observers are told of what happens, each thing once, by the hook that is for it (J16)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    AskTimeout,
    Behaviors,
    Context,
    Drain,
    ExitReason,
    Lane,
    MailboxConfig,
    MailboxFull,
    Observer,
    Overflow,
    State,
)
from greenroom.exits import ExitKind
from tests.system.eyes import Everything, HandClock, Only, noted

if TYPE_CHECKING:
    from tests.conftest import Play


def a_program(observer: Observer) -> Observer:
    """What has every hook is an `Observer` to a type checker."""
    return observer


async def test_starts_and_ends_are_told(system: ActorSystem) -> None:  # J16
    observer = Everything()
    system.observers.add(a_program(observer))
    states: list[State] = []
    system.observers.add(Only("actor_started", lambda ref: states.append(ref.state)))
    ref = system.spawn(noted)
    assert observer.told == []
    await ref.started()
    assert observer.told == [("actor_started", ref)]
    assert states == [State.RUNNING]
    ref.stop()
    reason = await ref.terminated()
    await system.settle()
    assert observer.told[1:] == [("actor_stopped", ref, reason)]
    assert reason == ExitReason(ExitKind.NORMAL)


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (ActorRef.stop, ExitKind.NORMAL),
        (ActorRef.kill, ExitKind.KILLED),
        (lambda ref: ref.fail(ValueError("bad")), ExitKind.FAIL),
        (lambda ref: ref.fail(GeneratorExit()), ExitKind.PANIC),
    ],
)
async def test_an_end_is_told_once_however_it_came_about(system: ActorSystem, end: Any, kind: ExitKind) -> None:  # J16
    observer = Everything()
    system.observers.add(observer)
    ref = system.spawn(noted)
    await ref.started()
    end(ref)
    end(ref)
    await ref.terminated()
    await system.settle()
    (told,) = observer.of("actor_stopped")
    assert told[0] == ref
    assert told[1].kind is kind


async def test_the_end_of_the_whole_system_is_told_actor_by_actor(system: ActorSystem) -> None:  # J16
    observer = Everything()
    refs: list[ActorRef[Any, Any]] = []
    system.observers.add(observer)
    parent = system.spawn(noted)
    refs.extend([system.spawn(noted, parent=parent), parent])
    await system.settle()
    await system.shutdown()
    assert observer.of("actor_stopped") == [(ref, ExitReason(ExitKind.SHUTDOWN)) for ref in refs]


async def test_an_actor_that_never_ran_was_never_started_and_has_ended(system: ActorSystem) -> None:  # J16
    observer = Everything()
    system.observers.add(observer)

    class Broken(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            pass

        async def pre_start(self) -> None:
            await asyncio.sleep(0)
            raise ValueError("cannot start")

    ref = system.spawn(Broken)
    await ref.terminated()
    await system.settle()
    assert observer.of("actor_started") == []
    assert [told[0] for told in observer.of("actor_stopped")] == [ref]


async def test_a_message_that_was_refused_is_told(system: ActorSystem) -> None:  # J16
    observer = Everything()
    system.observers.add(observer)
    ref = system.spawn(noted, mailbox=MailboxConfig(capacity=1, lanes={Lane.LOG: 1}))
    for lane in (Lane.DATA, Lane.LOG):
        ref.tell("fits", lane=lane)
        with pytest.raises(MailboxFull):
            ref.tell("refused", lane=lane)
    with pytest.raises(MailboxFull):
        await ref.ask("asked")
    full = [(ref, "refused", Lane.DATA), (ref, "refused", Lane.LOG), (ref, "asked", Lane.DATA)]
    assert observer.of("mailbox_full") == full


async def test_a_message_that_waits_for_room_was_not_refused(system: ActorSystem) -> None:  # J16, case 10
    observer = Everything()
    system.observers.add(observer)
    ref = system.spawn(noted, mailbox=MailboxConfig(capacity=1))
    await asyncio.gather(*(ref.send(number) for number in range(5)))
    assert observer.of("mailbox_full") == []


@pytest.mark.parametrize(("overflow", "dropped"), [(Overflow.DROP_NEW, "new"), (Overflow.DROP_OLD, "old")])
async def test_a_message_that_was_dropped_is_told(
    system: ActorSystem, overflow: Overflow, dropped: str
) -> None:  # J16, case 9
    observer = Everything()
    system.observers.add(observer)
    ref = system.spawn(noted, mailbox=MailboxConfig(capacity=1, overflow=overflow))
    ref.tell("old")
    ref.tell("new")
    assert observer.of("message_dropped") == [(ref, dropped, Lane.DATA)]
    await system.settle()
    gone = system.spawn(noted, drain=Drain.DROP)
    gone.tell("drained")
    gone.stop()
    await gone.terminated()
    assert observer.of("message_dropped")[1:] == [(gone, "drained", Lane.DATA)]
    assert observer.of("dead_letter") == observer.of("mailbox_full") == []


async def queued_at_the_stop(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted)
    ref.tell("lost")
    ref.stop()
    return ref


async def told_when_dead(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted)
    ref.stop()
    await ref.terminated()
    ref.tell("lost")
    return ref


async def unhandled(system: ActorSystem) -> ActorRef[Any, Any]:
    ref: ActorRef[Any, Any] = system.spawn(lambda ctx, message: Behaviors.unhandled)
    ref.tell("lost")
    return ref


async def asked_when_dead(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted)
    ref.stop()
    await ref.terminated()
    with pytest.raises(Exception, match="ended"):
        await ref.ask("lost")
    return ref


async def asked_and_unhandled(system: ActorSystem) -> ActorRef[Any, Any]:
    ref: ActorRef[Any, Any] = system.spawn(lambda ctx, message: Behaviors.unhandled)
    with pytest.raises(Exception, match="not handle"):
        await ref.ask("lost")
    return ref


DEATHS: list[Callable[[ActorSystem], Awaitable[ActorRef[Any, Any]]]] = [
    queued_at_the_stop,
    told_when_dead,
    unhandled,
    asked_when_dead,
    asked_and_unhandled,
]


@pytest.mark.parametrize("die", DEATHS)
async def test_a_dead_letter_is_told_to_observers_as_it_is_kept(system: ActorSystem, die: Any) -> None:  # J16, M10
    observer = Everything()
    system.observers.add(observer)
    ref = await die(system)
    await system.settle()
    (letter,) = system.dead_letters.recent()
    assert observer.of("dead_letter") == [(ref, "lost", None, letter.reason)]
    assert (letter.recipient, letter.message, letter.sender) == (ref, "lost", None)


@pytest.mark.parametrize("ask", [False, True])
@pytest.mark.parametrize("dead", [False, True])
async def test_observers_are_told_which_actor_sent_a_dead_letter(
    system: ActorSystem, ask: bool, dead: bool
) -> None:  # J16
    observer = Everything()
    system.observers.add(observer)
    target: ActorRef[Any, Any] = system.spawn(lambda ctx, message: Behaviors.unhandled)
    if dead:
        target.stop()
        await target.terminated()

    async def send(ctx: Context, message: Any) -> None:
        if ask:
            with pytest.raises(Exception, match=r"ended|not handle"):
                await target.ask("lost")
        else:
            target.tell("lost")

    sender = system.spawn(send)
    await sender.ask("go")
    await system.settle()
    (told,) = observer.of("dead_letter")
    assert told[:3] == (target, "lost", sender)


@pytest.mark.parametrize("asker", ["nobody", "an actor"])
async def test_a_reply_that_comes_too_late_is_a_dead_letter_to_observers_too(
    system: ActorSystem, asker: str
) -> None:  # J16, case 23
    observer = Everything()
    system.observers.add(observer)
    gate = asyncio.Event()

    async def late(ctx: Context, message: Any) -> str:
        await gate.wait()
        return "too late"

    ref = system.spawn(late)

    async def ask(ctx: Context | None, message: Any) -> None:
        with pytest.raises(AskTimeout):
            await ref.ask("hurry", timeout=0.0)

    if asker == "nobody":
        await ask(None, "go")
    else:
        await system.spawn(ask).ask("go")
    gate.set()
    await system.settle()
    assert [letter.message for letter in system.dead_letters.recent()] == ["too late"]
    assert [told[1] for told in observer.of("dead_letter")] == ["too late"]


def test_a_slow_handler_is_told(play: Play) -> None:  # J16
    clock = HandClock()

    async def program(system: ActorSystem) -> None:
        observer = Everything()
        system.observers.add(observer)

        def work(ctx: Context, message: float) -> None:
            clock.time += message

        ref = system.spawn(work)
        for seconds in (0.0, 0.5, 1.5, 4.0):
            ref.tell(seconds)
        await system.settle()
        assert observer.of("slow_handler") == [(ref, 1.5, 1.5), (ref, 4.0, 4.0)]

    play(program, clock=clock, slow_after=1.0)
