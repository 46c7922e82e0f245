"""Observers come and go, and one that misbehaves is logged and removed (J16)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, Context, MailboxConfig, MailboxFull, Overflow
from greenroom.errors import HookError
from tests.system.eyes import HOOKS, Everything, HandClock, Only, noted, noted_later

if TYPE_CHECKING:
    from tests.conftest import Play


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
