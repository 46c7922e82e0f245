"""Every record that Greenroom logs about one actor says in its fields which one it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ChildSpec,
    Context,
    MailboxConfig,
    ManualClock,
    Restart,
    Supervision,
    Supervisor,
)
from greenroom.testing import CapturedLogs, capture_logs


@pytest.fixture
def logs() -> Iterator[CapturedLogs]:
    with capture_logs(quiet=True) as logs:
        yield logs


def note(ctx: Context, message: Any) -> None:
    pass


def assert_fields(logs: CapturedLogs, text: str, ref: ActorRef[Any, Any], system: str = "test") -> None:
    """The first record with this text names the actor, and does so in its fields too."""
    record: Any = logs.assert_logged(text)
    assert ref.path in record.getMessage()
    assert (record.actor, record.actor_id, record.system) == (ref.path, ref.id, system)


class Troubled(Actor[Any, Any]):
    """Its hooks raise what it was made with."""

    def __init__(self, trouble: BaseException) -> None:
        self.trouble = trouble

    def receive(self, message: Any) -> None:
        pass

    def pre_stop(self) -> None:
        raise self.trouble

    def snapshot(self) -> Any:
        raise self.trouble

    def restore(self, state: Any) -> None:
        pass


@pytest.mark.parametrize("trouble", [ValueError("no"), GeneratorExit()])
@pytest.mark.config(supervision=Supervision(backoff=None))
async def test_a_hook_that_raises_is_told_of_its_actor(
    system: ActorSystem, logs: CapturedLogs, trouble: BaseException
) -> None:
    ref = system.spawn(Troubled, trouble, name="one")
    await ref.started()
    ref.restart()
    await system.settle()
    assert_fields(logs, r"snapshot\(\) of .* raised", ref)
    ref.stop()
    await ref.terminated()
    assert_fields(logs, "pre_stop of .* raised", ref)


async def test_a_dead_letter_is_told_of_who_should_have_had_it(system: ActorSystem, logs: CapturedLogs) -> None:
    ref = system.spawn(note, name="one")
    ref.stop()
    await ref.terminated()
    ref.tell("too late", sender=system.spawn(note, name="other"))
    assert_fields(logs, "dead letter: str from /other to /one", ref)


async def test_a_reply_to_nobody_is_told_of_who_gave_it(system: ActorSystem, logs: CapturedLogs) -> None:
    def replies(ctx: Context, message: Any) -> None:
        ctx.reply(message)

    ref = system.spawn(replies, name="one")
    ref.tell(5)
    await system.settle()
    assert_fields(logs, "dead letter: int from /one to outside: nobody to reply to", ref)


async def test_a_subscriber_to_dead_letters_that_has_no_room_is_told_of(
    system: ActorSystem, logs: CapturedLogs
) -> None:
    def refuse(letter: object) -> None:
        raise ValueError(letter)

    ref = system.spawn(note, name="one", mailbox=MailboxConfig(capacity=1))
    dead = system.spawn(note, name="dead")
    dead.stop()
    await system.settle()
    system.dead_letters.subscribe(ref)
    system.dead_letters.subscribe(refuse)
    dead << 1 << 2
    assert_fields(logs, "ActorRef /one of test.* could not be told", ref)
    assert not hasattr(logs.assert_logged("refuse.* could not be told"), "actor")


class Stubborn(Actor[Any, Any]):
    """Its handler cannot be cancelled, and has the last word when it is broken off."""

    async def receive(self, message: Any) -> None:
        try:
            while True:
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
        except GeneratorExit:
            raise ValueError("never") from None


async def test_an_actor_that_is_forced_to_end_is_told_of(
    system: ActorSystem, logs: CapturedLogs, clock: ManualClock
) -> None:
    ref = system.spawn(Stubborn, name="one")
    ref.tell("go")
    await clock.advance(0.0)
    ref.stop()
    await clock.advance(60.0)
    assert_fields(logs, "did not stop in time: its handler is cancelled", ref)
    await clock.advance(60.0)
    assert_fields(logs, "did not stop though its handler was cancelled: it is abandoned", ref)
    assert_fields(logs, "the handler of /one would not be broken off", ref)


async def test_a_child_that_keeps_its_parent_waiting_is_told_of(
    system: ActorSystem, logs: CapturedLogs, clock: ManualClock
) -> None:
    parent = system.spawn(note, name="parent")
    child = system.spawn(Stubborn, name="child", parent=parent)
    child.tell("go")
    await clock.advance(0.0)
    parent.stop()
    await clock.advance(60.0)
    assert_fields(logs, "/parent/child did not stop in time, and is killed", child)


async def test_a_restart_after_a_normal_end_is_told_of_the_child(system: ActorSystem, logs: CapturedLogs) -> None:
    spec = ChildSpec("child", note, restart=Restart.PERMANENT)
    system.spawn(Supervisor, Supervisor.spec(children=[spec]), name="boss")
    await system.settle()
    child = system.actor("/boss/child")
    assert child is not None
    child.stop()
    await system.settle()
    assert_fields(logs, r"/boss/child ended \(normal\)", child)
