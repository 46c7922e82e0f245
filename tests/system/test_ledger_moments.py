"""The ledger at particular moments, and as a value (B4)."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, AskTimeout, Behaviors, Context, GreenroomError, Ledger, ManualClock
from greenroom.testing import assert_ledger_balanced

if TYPE_CHECKING:
    from tests.conftest import Play


def noted(ctx: Context, message: Any) -> Any:
    return message


def tell_all(ref: ActorRef[Any, Any]) -> None:
    for number in range(3):
        ref.tell(number)


async def test_a_message_is_in_hand_while_its_handler_is_suspended(system: ActorSystem) -> None:  # B4
    gate = asyncio.Event()
    entered = asyncio.Event()

    async def hold(ctx: Context, message: Any) -> None:
        entered.set()
        await gate.wait()

    ref = system.spawn(hold)
    tell_all(ref)
    await entered.wait()
    for ledger in (assert_ledger_balanced(system, ref), assert_ledger_balanced(system)):
        assert ledger == Ledger(sent=3, in_hand=1, queued=2)
    gate.set()
    await system.settle()
    assert system.ledger(ref) == Ledger(sent=3, handled=3)


async def test_a_handler_finds_its_own_message_in_hand(system: ActorSystem) -> None:
    def look(ctx: Context, message: Any) -> Ledger:
        ledger: Ledger = ctx.system.ledger(ctx.self)
        return ledger

    ref = system.spawn(look)
    assert await ref.ask("look") == Ledger(sent=1, in_hand=1)


@pytest.mark.parametrize("how", [ActorRef.stop, ActorRef.kill])
async def test_a_message_whose_handler_is_broken_off_is_in_one_column_too(
    system: ActorSystem, clock: ManualClock, how: Any
) -> None:  # B4
    async def hold(ctx: Context, message: Any) -> None:
        await asyncio.Event().wait()

    ref = system.spawn(hold)
    tell_all(ref)
    await clock.advance(0.0)
    how(ref)
    await clock.advance(10.0)
    assert not ref.is_alive
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.in_hand, ledger.queued, ledger.lost) == (3, 0, 0, 0)
    assert ledger.dead_lettered >= 2
    assert_ledger_balanced(system)


async def test_a_tick_discarded_after_its_timer_was_cancelled_is_dropped(
    system: ActorSystem, clock: ManualClock
) -> None:  # B4, case 49
    gate = asyncio.Event()

    async def cancel(ctx: Context, message: Any) -> None:
        if message == "go":
            timer = ctx.send_after(1.0, ctx.self, "tick")
            await gate.wait()
            timer.cancel()

    ref = system.spawn(cancel)
    ref.tell("go")
    await clock.advance(2.0)
    assert system.ledger(ref) == Ledger(sent=2, in_hand=1, queued=1)
    gate.set()
    await system.settle()
    assert system.ledger(ref) == Ledger(sent=2, handled=1, dropped=1)


async def test_notices_are_not_in_the_ledger(system: ActorSystem) -> None:  # B4
    class Watcher(Actor[Any, Any]):
        ended = 0

        def receive(self, message: Any) -> int:
            if isinstance(message, ActorRef):
                self.ctx.watch(message)
                message.stop()
            return self.ended

        def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
            self.ended += 1

    ref = system.spawn(Watcher)
    ref.tell(system.spawn(noted))
    await system.settle()
    assert await ref.ask("how many?") == 1
    assert system.ledger() == Ledger(sent=2, handled=2)


async def test_the_count_of_dead_letters_is_everything_published_there(system: ActorSystem) -> None:  # M10
    gate = asyncio.Event()

    async def late(ctx: Context, message: Any) -> Any:
        await gate.wait()
        return message

    asked = system.spawn(late)
    with pytest.raises(AskTimeout):
        await asked.ask("x", timeout=0.0)
    gate.set()
    tell_all(system.spawn(lambda ctx, message: Behaviors.unhandled))
    ended = system.spawn(noted)
    tell_all(ended)
    ended.stop()
    await system.settle()
    ledger = system.ledger()
    assert (ledger.dead_lettered, ledger.unhandled, ledger.late_replies) == (3, 3, 1)
    assert system.dead_letters.count == 7
    assert sum(system.dead_letters.by_reason.values()) == 7


async def test_a_ledger_is_a_frozen_value_that_can_be_read(system: ActorSystem) -> None:
    ref = system.spawn(noted)
    tell_all(ref)
    await system.settle()
    ledger = system.ledger(ref)
    assert ledger == Ledger(sent=3, handled=3) == system.ledger()
    assert str(ledger) == "sent 3, handled 3"
    assert ledger.accounted == 3
    with pytest.raises(FrozenInstanceError):
        ledger.sent = 4  # type: ignore[misc]
    ref.tell("more")
    assert ledger.sent == 3


@pytest.mark.parametrize(
    ("ledger", "balanced"),
    [
        (Ledger(), True),
        (Ledger(sent=1), False),
        (Ledger(handled=1), False),
        (Ledger(sent=2, handled=3, queued=-1), False),
        (Ledger(sent=9, handled=1, failed=1, unhandled=1, dead_lettered=1, dropped=1, redirected=1, lost=1), False),
        (Ledger(9, 1, 1, 1, 1, 1, 1, 1, 1, 1), True),
        (Ledger(sent=1, handled=1, rejected=5, late_replies=7), True),
        (Ledger(rejected=1), True),
    ],
)
def test_a_ledger_balances_if_each_message_is_in_one_column(ledger: Ledger, balanced: bool) -> None:  # B4
    assert ledger.balanced is balanced


def test_a_ledger_of_a_foreign_ref_is_refused(play: Play) -> None:
    async def main() -> None:
        async with ActorSystem() as mine, ActorSystem() as theirs:
            with pytest.raises(GreenroomError):
                mine.ledger(theirs.spawn(noted))

    play.bare(main)
