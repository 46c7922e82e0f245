"""Observers: what they are told, when, and what becomes of one that raises (J16)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
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
from greenroom.errors import HookError
from greenroom.exits import ExitKind
from tests.system.observing import HOOKS, Everything, HandClock, Only, noted, noted_later

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
async def test_a_message_that_was_dropped_is_told(system: ActorSystem, overflow: Overflow, dropped: str) -> None:
    # J16, case 9
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
async def test_observers_are_told_which_actor_sent_a_dead_letter(system: ActorSystem, ask: bool, dead: bool) -> None:
    # J16
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
async def test_a_reply_that_comes_too_late_is_a_dead_letter_to_observers_too(system: ActorSystem, asker: str) -> None:
    # J16, case 23
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


@pytest.mark.parametrize("event", HOOKS)
async def test_an_observer_may_have_one_hook_only(system: ActorSystem, event: str) -> None:  # J16
    told: list[Any] = []
    system.observers.add(Only(event, lambda *details: told.append(details)))
    ref = system.spawn(noted, mailbox=MailboxConfig(capacity=1, overflow=Overflow.DROP_NEW))
    ref.tell("a")
    ref.tell("b")
    await system.settle()
    ref.stop()
    await ref.terminated()
    ref.tell("late")
    happened = {"actor_started": 1, "actor_stopped": 1, "message_dropped": 1, "dead_letter": 1}
    assert len(told) == happened.get(event, 0)
    assert all(len(details) == HOOKS[event] for details in told)


@pytest.mark.parametrize("event", HOOKS)
async def test_a_hook_with_a_wrong_signature_is_refused_at_once(system: ActorSystem, event: str) -> None:  # J16, J9
    count = HOOKS[event]
    wrong: list[Callable[..., Any]] = [lambda: None, lambda *, ref: None]
    others: list[Callable[..., Any]] = [lambda a, b: None, lambda a: None, lambda a, b: None, lambda a, b, c: None]
    wrong.append(others[count - 1])
    for hook in wrong:
        with pytest.raises(HookError, match=event) as caught:
            system.observers.add(Only(event, hook))
        assert caught.value.code == "hook"
        assert isinstance(caught.value, TypeError)
    system.observers.add(Only(event, lambda *anything: None))


@pytest.mark.parametrize("observer", [object(), None, 5, "observer", Only("on_start", lambda ref: None)])
async def test_what_has_no_hook_is_no_observer(system: ActorSystem, observer: Any) -> None:  # J9
    with pytest.raises(HookError):
        system.observers.add(observer)


async def test_an_observer_that_was_added_twice_is_told_once_and_removed_it_is_told_nothing(
    system: ActorSystem,
) -> None:
    observer, other = Everything(), Everything()
    for one in (observer, observer, other):
        system.observers.add(one)
    await system.spawn(noted).started()
    assert (len(observer.told), len(other.told)) == (1, 1)
    system.observers.remove(observer)
    await system.spawn(noted).started()
    assert (len(observer.told), len(other.told)) == (1, 2)
    system.observers.add(observer)
    await system.spawn(noted).started()
    assert (len(observer.told), len(other.told)) == (2, 3)


async def test_an_observer_may_remove_itself_and_add_others_when_it_is_told(system: ActorSystem) -> None:
    first: list[Any] = []
    second: list[Any] = []
    follower = Only("actor_started", second.append)

    def hand_over(ref: Any) -> None:
        first.append(ref)
        system.observers.remove(leader)
        system.observers.add(follower)

    leader = Only("actor_started", hand_over)
    system.observers.add(leader)
    one = system.spawn(noted)
    await one.started()
    two = system.spawn(noted)
    await two.started()
    assert first == [one]
    assert second[-1] == two


EVENTS_THAT_HAPPEN = [
    "actor_started",
    "actor_stopped",
    "mailbox_full",
    "message_dropped",
    "dead_letter",
    "slow_handler",
]


@pytest.mark.parametrize("handler", [noted, noted_later])
@pytest.mark.parametrize("event", EVENTS_THAT_HAPPEN)
def test_an_observer_that_raises_is_logged_and_removed_and_disturbs_nobody(
    play: Play, caplog: pytest.LogCaptureFixture, event: str, handler: Any
) -> None:  # J16
    clock = HandClock()

    async def program(system: ActorSystem) -> None:
        raised: list[Any] = []

        def fail(*details: Any) -> None:
            raised.append(details)
            raise ZeroDivisionError

        system.observers.add(Only(event, fail))
        witness = Everything()
        system.observers.add(witness)

        def slow(ctx: Context, message: Any) -> None:
            clock.time += 1.0

        for _ in range(2):
            refs = [
                system.spawn(handler, mailbox=MailboxConfig(capacity=1, overflow=overflow))
                for overflow in (Overflow.REJECT, Overflow.DROP_NEW)
            ]
            refs[0].tell("a")
            with pytest.raises(MailboxFull):
                refs[0].tell("b")
            refs[1].tell("a")
            refs[1].tell("b")
            system.spawn(slow).tell("x")
            await system.settle()
            for ref in refs:
                ref.stop()
                await ref.terminated()
                ref.tell("late")
            await system.settle()
        assert len(raised) == 1
        assert event in caplog.text
        assert "ZeroDivisionError" in caplog.text
        assert {name: len(witness.of(name)) for name in EVENTS_THAT_HAPPEN} == {
            "actor_started": 6,
            "actor_stopped": 4,
            "mailbox_full": 2,
            "message_dropped": 2,
            "dead_letter": 4,
            "slow_handler": 2,
        }

    play(program, clock=clock, slow_after=1.0, max_tick_time=1000.0)


# -- threads and systems


async def test_observers_are_called_on_the_systems_own_thread_or_the_senders(system: ActorSystem) -> None:  # J16
    observer = Everything()
    system.observers.add(observer)
    refs = [system.spawn(noted, mailbox=MailboxConfig(capacity=1, overflow=overflow)) for overflow in Overflow]
    gone = system.spawn(noted)
    gone.stop()
    await gone.terminated()

    def send() -> None:
        for ref in (*refs, gone):
            for number in range(3):
                with suppress(MailboxFull):
                    ref.tell(number)

    thread = threading.Thread(target=send)
    thread.start()
    thread.join()
    await system.settle()
    assert len(observer.of("mailbox_full")) == 2
    assert len(observer.of("message_dropped")) == 4
    assert len(observer.of("dead_letter")) == 3
    assert observer.threads == {threading.get_ident(), thread.ident}


def test_observers_hear_of_their_own_system_only(play: Play) -> None:
    async def main() -> None:
        async with ActorSystem() as mine, ActorSystem() as theirs:
            observer = Everything()
            mine.observers.add(observer)
            await theirs.spawn(noted).started()
            assert observer.told == []
            ref = mine.spawn(noted)
            await ref.started()
            assert observer.told == [("actor_started", ref)]

    play.bare(main)


def test_observers_can_be_added_before_the_system_runs(play: Play) -> None:
    async def main() -> None:
        system = ActorSystem()
        observer = Everything()
        system.observers.add(observer)
        ref = system.spawn(noted)
        async with system:
            await ref.started()
        assert [event[0] for event in observer.told] == ["actor_started", "actor_stopped"]

    play.bare(main)
