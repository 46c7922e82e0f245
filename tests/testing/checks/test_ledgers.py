"""`assert_ledger_balanced`: a test fails when a message has gone missing (B4)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from greenroom import ActorRef, ActorSystem, Context, Ledger
from greenroom.testing import assert_ledger_balanced


def note(ctx: Context, message: Any) -> None:
    pass


class Cooked:
    """Stands in for a system whose books do not balance."""

    name = "cooked"

    def __init__(self, ledger: Ledger) -> None:
        self.books = ledger

    def ledger(self, ref: Any = None) -> Ledger:
        return self.books


@pytest.mark.anyio
async def test_it_returns_the_ledger_it_has_checked() -> None:
    async with ActorSystem() as system:
        busy, idle = system.spawn(note), system.spawn(note)
        for number in range(3):
            busy.tell(number)
        await system.settle()
        assert assert_ledger_balanced(system) == Ledger(sent=3, handled=3)
        assert assert_ledger_balanced(system, busy) == Ledger(sent=3, handled=3)
        assert assert_ledger_balanced(system, idle) == Ledger()
    assert assert_ledger_balanced(system).handled == 3
    assert assert_ledger_balanced(system, busy).handled == 3


@pytest.mark.anyio
async def test_what_is_still_queued_or_in_hand_is_not_missing() -> None:
    async with ActorSystem() as system:
        gate = asyncio.Event()
        entered = asyncio.Event()

        async def held(ctx: Context, message: Any) -> None:
            entered.set()
            await gate.wait()

        ref = system.spawn(held)
        ref.tell("a")
        ref.tell("b")
        assert assert_ledger_balanced(system).queued == 2
        await entered.wait()
        assert assert_ledger_balanced(system) == Ledger(sent=2, queued=1, in_hand=1)
        gate.set()


@pytest.mark.parametrize(
    ("ledger", "difference"),
    [
        (Ledger(sent=3, handled=2), "+1"),
        (Ledger(sent=2, handled=3), "-1"),
        (Ledger(sent=5), "+5"),
        (Ledger(handled=1, rejected=1), "-1"),
        (Ledger(sent=1, handled=2, queued=-1), "+0"),
    ],
)
@pytest.mark.parametrize("ref", [None, "/the/actor"])
def test_it_fails_and_says_how_many_are_missing_and_whose(ledger: Ledger, difference: str, ref: Any) -> None:
    system = cast("ActorSystem", Cooked(ledger))
    with pytest.raises(AssertionError) as caught:
        assert_ledger_balanced(system, cast("ActorRef[Any, Any]", ref))
    text = str(caught.value)
    assert difference in text
    assert ("cooked" if ref is None else "/the/actor") in text
    assert str(ledger) in text


@pytest.mark.parametrize(
    "ledger", [Ledger(), Ledger(sent=1, lost=1), Ledger(sent=1, handled=1, rejected=9, late_replies=9, refused=1)]
)
def test_it_passes_what_balances(ledger: Ledger) -> None:
    assert assert_ledger_balanced(cast("ActorSystem", Cooked(ledger))) is ledger
