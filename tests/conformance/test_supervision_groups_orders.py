"""Siblings that are told several things while they have a message in hand: nobody is stranded (M3, M7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import ActorSystem, ManualClock, Supervision
from tests.conformance.incarnations import AsyncPhoenix, Gate, slow, soon, turns
from tests.conformance.troupe import ALL, ALONE, REST, Troupe
from tests.conftest import Play

Order = tuple[str, int]
"""What is done to which of the siblings."""

LATER = slow(0.5, max_restarts=None)
HELD = {
    # Each time somebody is brought to rest, started because of a restart, and only then reached by the group's order.
    "two restarts before the group": (
        [("restart", 0), ("restart", 0), ("fail", 1), ("restart", 1)],
        (ALONE, ALL, REST),
    ),
    "a group that takes over another": (
        [("fail", 2), ("restart", 2), ("restart", 0), ("fail", 2)],
        (REST, ALL, ALL),
    ),
    "a restart before a group, and one after it": (
        [("restart", 0), ("fail", 2), ("restart", 0), ("fail", 1)],
        (REST, ALL, ALONE),
    ),
    # Here it fails itself, once it is running again: the others are still to be started.
    "a failure of one that is up": (
        [("restart", 0), ("restart", 0), ("fail", 0), ("fail", 2)],
        (ALL, ALONE, ALL),
    ),
}


async def give_orders(system: ActorSystem, orders: list[Order], supervisions: Any, first: int, *, hold: str) -> None:
    """Give orders to three siblings of whom two are busy; then the `first` of those is done, then the other."""
    clock = system.clock
    assert isinstance(clock, ManualClock)
    troupe = Troupe(system, AsyncPhoenix, *supervisions)
    refs = await troupe.begin()
    gates = [Gate(), Gate()]
    for ref, book, gate in zip(refs, troupe.books, gates, strict=False):
        if hold == "message":
            ref.tell(gate.wait)
        else:
            book.acts[hold] = gate.wait
            ref.restart()
        await gate.entered.wait()
    for how, who in orders:
        if how == "fail":
            refs[who].fail(ValueError("on purpose"))
        else:
            getattr(refs[who], how)()
        await turns(6)
    for number in (first, 1 - first):
        gates[number].opened.set()
        await turns(6)
    for _ in range(10):
        await clock.advance(1.0)
    for ref in refs:
        if ref.is_alive:
            assert await soon(system, ref.ask("there", timeout=None)) == "there", (orders, supervisions, first, hold)
    if all(how != "kill" for how, _ in orders):
        troupe.assert_legal()


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("case", HELD)
def test_an_order_to_leave_with_a_group_means_nothing_to_one_that_has_come_back_since(
    play: Play, case: str, first: int
) -> None:  # case 43's neighbour
    orders, supervisions = HELD[case]
    play(
        lambda system: give_orders(system, orders, supervisions, first, hold="message"),
        history=True,
        clock=ManualClock(),
        stop_timeout=1e6,
    )


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from(["fail", "restart", "restart", "stop", "kill"]), st.integers(0, 2)), max_size=6),
    st.tuples(*[st.sampled_from([ALL, REST, ALONE, LATER])] * 3),
    st.integers(0, 1),
    st.sampled_from(["message", "post_stop 1", "pre_start 2", "post_start 2"]),
)
def test_whatever_siblings_are_told_in_whichever_order_nobody_is_stranded(
    orders: list[Order], supervisions: tuple[Supervision, ...], first: int, hold: str
) -> None:
    Play("asyncio")(
        lambda system: give_orders(system, orders, supervisions, first, hold=hold),
        history=True,
        clock=ManualClock(),
        stop_timeout=1e6,
    )
