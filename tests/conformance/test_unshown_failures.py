"""Failures that cannot be put into words are failures like others (M3, M8, M11)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, ActorTerminated, DeathPact, ExitReason, SystemFailed
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import Hooked, Plain, ended, every_hooked, raises

if TYPE_CHECKING:
    from tests.conftest import Play


class Unspeakable(Exception):
    """What it is cannot be said."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@every_hooked
@pytest.mark.parametrize("step", ["init", "pre_start", "receive"])
async def test_an_exception_that_cannot_be_shown_strands_nobody(
    system: ActorSystem, kind: Any, step: str
) -> None:  # M3, M8
    cause = Unspeakable()
    probe = TestProbe(system)
    parent = system.spawn(Hooked)
    acts = {} if step == "receive" else {step: raises(cause)}
    ref = system.spawn(kind, None, name="one", parent=parent, **acts)
    await probe.watch(ref)
    waiting = asyncio.ensure_future(ref.terminated())
    replies: list[Any] = []
    asks = [ref.ask(lambda ctx: replies.append(ctx.defer_reply()), timeout=None)]
    ref.tell(raises(cause))
    asks.append(ref.ask("queued", timeout=None))
    assert (await ended(system, ref)).cause is cause
    notice = await probe.expect_terminated(ref)
    assert notice.cause is cause
    async with asyncio.timeout(120.0):
        assert (await waiting).cause is cause
        for asked in asks:
            with pytest.raises(ActorTerminated):
                await asked
    assert_ledger_balanced(system, ref)
    parent.stop()
    await ended(system, parent)


def test_a_system_that_ends_so_says_so(play: Play) -> None:  # M11
    cause = Unspeakable()

    async def program(system: ActorSystem) -> None:
        assert system.root is not None
        system.root.tell(raises(cause))
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program, root=Plain)
    assert caught.value.__cause__ is cause


async def test_a_pact_of_death_with_such_a_one_is_kept(system: ActorSystem) -> None:  # M8
    cause = Unspeakable()
    one, other = system.spawn(Plain), system.spawn(Plain)
    await one.ask(lambda ctx: ctx.watch(other))
    other.fail(cause)
    reason = await ended(system, one)
    assert isinstance(reason.cause, DeathPact)
    assert reason.cause.__cause__ is cause


def test_an_exit_reason_can_always_be_shown() -> None:  # J9
    assert "Unspeakable" in str(ExitReason.of(Unspeakable()))
