"""Which message comes first: lanes, priorities a user defines, and actors' turns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import Actor, ActorRef, ActorSystem, Lane, MailboxConfig, ManualClock, SystemConfig
from greenroom.testing import assert_ledger_balanced
from tests.conformance.lives import suspending
from tests.conformance.sending import FOREIGN, HOLD, Holding, Listener, run_threads_while_blocked
from tests.conftest import Play

AGES = 1e6
"""A tick longer than any test: turns are then counted in messages alone."""
PAIRS = [(upper, lower) for upper in Lane for lower in Lane if upper > lower]


def run(program: Callable[[ActorSystem], Any], **config: Any) -> None:
    """For property tests, which cannot have the `play` fixture."""

    async def main() -> None:
        async with asyncio.timeout(120.0), ActorSystem(config=SystemConfig(**config)) as system:
            await program(system)

    asyncio.run(main())


@given(st.lists(st.sampled_from(Lane), max_size=60))
@settings(max_examples=30, deadline=None)
def test_higher_lanes_come_first_and_each_lane_in_order(lanes: list[Lane]) -> None:  # case 1
    messages = list(enumerate(lanes))
    heard: list[tuple[int, Lane]] = []

    async def program(system: ActorSystem) -> None:
        target = system.spawn(Listener, heard)
        for message in messages:
            target.tell(message, lane=message[1])
        await system.settle()
        # fewer than 64 picks: none of them is a lower lane's turn
        assert heard == sorted(messages, key=lambda message: -message[1])

    run(program)


@pytest.mark.parametrize(("upper", "lower"), PAIRS, ids=str)
async def test_a_message_of_a_higher_lane_comes_next_in_a_flood(system: ActorSystem, upper: Lane, lower: Lane) -> None:
    # case 2
    held = Holding(system)
    ref = await held.begin()
    for n in range(500):
        ref.tell(n, lane=lower)
    ref.tell("urgent", lane=upper)
    assert await held.end() == ["urgent", *range(500)]


class Flooded(Actor[Any, None]):
    """Floods itself until it has had something urgent."""

    def __init__(self, heard: list[Any], at: int, urgent: Callable[[ActorRef[Any, Any]], object]) -> None:
        self.heard = heard
        self.at = at
        self.urgent = urgent

    def pre_start(self) -> None:
        for n in range(100):
            self.ctx.self.tell(n)

    def receive(self, message: Any) -> None:
        self.heard.append(message)
        if message == self.at:
            self.urgent(self.ctx.self)
        if "urgent" not in self.heard and len(self.heard) < 5000:
            self.ctx.self.tell(message + 100)


class AsyncFlooded(Flooded):
    async def receive(self, message: Any) -> None:  # type: ignore[override]
        super().receive(message)
        await asyncio.sleep(0)


def from_the_handler(ref: ActorRef[Any, Any]) -> None:
    ref.tell("urgent", lane=Lane.CONTROL)


def from_a_thread(ref: ActorRef[Any, Any]) -> None:
    run_threads_while_blocked(lambda: ref.tell("urgent", lane=Lane.CONTROL))


@pytest.mark.parametrize("at", [0, 63, 200])
@pytest.mark.parametrize("flooded", [Flooded, AsyncFlooded])
@pytest.mark.parametrize("urgent", [from_the_handler, pytest.param(from_a_thread, marks=pytest.mark.real)])
@pytest.mark.config(max_msgs_per_actor=1, max_actors_per_tick=1)
async def test_control_comes_after_the_message_in_hand_in_a_running_flood(
    system: ActorSystem, at: int, flooded: type[Flooded], urgent: Callable[[ActorRef[Any, Any]], object]
) -> None:  # case 2
    heard: list[Any] = []

    # What threads bring is taken in at the start of a tick: one message a tick makes that the next message.
    system.spawn(flooded, heard, at, urgent)
    await system.settle()
    assert heard[: at + 2] == [*range(at + 1), "urgent"]


@pytest.mark.parametrize("flooded", [Flooded, AsyncFlooded])
@pytest.mark.config(max_msgs_per_actor=10000, max_tick_time=AGES)
async def test_a_whole_visit_does_not_stand_before_control(system: ActorSystem, flooded: type[Flooded]) -> None:
    # case 2
    heard: list[Any] = []
    system.spawn(flooded, heard, 5, from_the_handler)
    await system.settle()
    assert heard[:7] == [0, 1, 2, 3, 4, 5, "urgent"]


class Endless(Actor[Any, None]):
    """Keeps an upper lane full for ever, or until it has heard enough of the lower ones."""

    def __init__(self, heard: list[Any], upper: Lane, enough: int) -> None:
        self.heard = heard
        self.upper = upper
        self.enough = enough

    def receive(self, message: Any) -> None:
        self.heard.append(message)
        if message == "flood" and sum(one != "flood" for one in self.heard) < self.enough and len(self.heard) < 5000:
            self.ctx.self.tell("flood", lane=self.upper)


@suspending
class AsyncEndless(Endless):
    pass


@pytest.mark.parametrize("endless", [Endless, AsyncEndless])
@pytest.mark.parametrize(("upper", "lower"), PAIRS, ids=str)
@pytest.mark.config(max_msgs_per_actor=10)
async def test_every_64th_pick_serves_a_lower_lane(
    system: ActorSystem, upper: Lane, lower: Lane, endless: type[Endless]
) -> None:  # case 3
    heard: list[Any] = []
    target = system.spawn(endless, heard, upper, 4)
    for n in range(4):
        target.tell(n, lane=lower)
    for _ in range(3):
        target.tell("flood", lane=upper)
    await system.settle()
    places = [place for place, message in enumerate(heard, start=1) if message != "flood"]
    assert [message for message in heard if message != "flood"] == [0, 1, 2, 3]
    assert places == [64, 128, 192, 256]


async def test_of_the_lower_lanes_the_oldest_message_has_its_turn(system: ActorSystem) -> None:  # case 3
    held = Holding(system)
    ref = await held.begin()
    for message, lane in (("log", Lane.LOG), ("data", Lane.DATA), ("management", Lane.MANAGEMENT)):
        ref.tell(message, lane=lane)
    for _ in range(64 * 3):
        ref.tell("flood", lane=Lane.CONTROL)
    heard = await held.end()
    assert [heard.index(message) for message in ("log", "data", "management")] == [63, 127, 191]


async def test_data_in_order_of_priority_moves_under_a_control_flood(system: ActorSystem) -> None:  # case 3
    heard: list[Any] = []
    target = system.spawn(Endless, heard, Lane.CONTROL, 3, mailbox=MailboxConfig(priority=lambda n: -n))
    for n in (1, 2, 3):
        target.tell(n)
    target.tell("flood", lane=Lane.CONTROL)
    await system.settle()
    assert [message for message in heard if message != "flood"] == [3, 2, 1]


@pytest.mark.parametrize("foreign", [False, True])
def test_the_smallest_key_comes_first_and_equal_keys_in_order(foreign: bool) -> None:  # case 4, M15
    @given(st.lists(st.integers(0, 3), max_size=40))
    @settings(max_examples=25, deadline=None)
    def check(keys: list[int]) -> None:
        messages = [(key, number) for number, key in enumerate(keys)]
        heard: list[tuple[int, int]] = []

        async def program(system: ActorSystem) -> None:
            target = system.spawn(Listener, heard, mailbox=MailboxConfig(priority=lambda message: message[0]))

            def send() -> None:
                for message in messages:
                    target.tell(message)

            if foreign:
                run_threads_while_blocked(send)
            else:
                send()
            await system.settle()
            assert heard == sorted(messages, key=lambda message: message[0])

        run(program)

    check()


async def test_a_higher_lane_comes_before_the_most_urgent_data(system: ActorSystem) -> None:  # case 4
    held = Holding(system, mailbox=MailboxConfig(priority=lambda n: 0 if n is HOLD else n))
    ref = await held.begin()
    for n in (5, 0, 5, 3):
        ref.tell(n)
    ref.tell(9, lane=Lane.CONTROL)
    ref.tell(-9, lane=Lane.LOG)
    assert await held.end() == [9, 0, 3, 5, 5, -9]


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_a_priority_that_cannot_be_told_costs_nobody_elses_message(system: ActorSystem, foreign: bool) -> None:
    # case 4
    heard: list[Any] = []
    target = system.spawn(Listener, heard, mailbox=MailboxConfig(priority=lambda message: 10 // message))
    target.tell(2)
    with pytest.raises(ZeroDivisionError):
        target.tell(0)
    with pytest.raises(ZeroDivisionError):
        await target.ask(0)
    if foreign:
        # A thread cannot be told any more: its message is a dead letter.
        run_threads_while_blocked(lambda: target.tell(0), lambda: target.tell(5))
    else:
        target.tell(5)
    await system.settle()
    assert heard == [5, 2]
    ledger = assert_ledger_balanced(system, target)
    assert (ledger.sent, ledger.handled, ledger.dead_lettered) == (2 + foreign, 2, foreign)
    assert [letter.message for letter in system.dead_letters.recent()] == [0] * foreign


class Player(Actor[Any, None]):
    """Keeps another busy with as many balls as it was given, until somebody has called."""

    def __init__(self, log: list[str], other: list[ActorRef[Any, Any]], call: Callable[[], None]) -> None:
        self.log = log
        self.other = other
        self.call = call

    def receive(self, ball: int) -> None:
        self.log.append(self.ctx.name)
        if len(self.log) == 777:
            self.call()
            self.log.append("called")
        if "third" not in self.log and len(self.log) < 5000:
            self.other[0].tell(ball)


class AsyncPlayer(Player):
    async def receive(self, ball: int) -> None:  # type: ignore[override]
        super().receive(ball)


@pytest.mark.at_home
@pytest.mark.fifo
@pytest.mark.parametrize("player", [Player, AsyncPlayer])
@pytest.mark.parametrize("per_tick", [1, 1024])
@pytest.mark.parametrize("budget", [1, 10])
def test_a_third_actor_runs_within_one_round_of_two_busy_ones(
    play: Play, player: type[Player], budget: int, per_tick: int
) -> None:  # case 5, J6
    log: list[str] = []

    async def program(system: ActorSystem) -> None:
        third: ActorRef[Any, Any] = system.spawn(lambda ctx, message: log.append("third"), name="third")
        await third.started()
        after_a: list[ActorRef[Any, Any]] = []
        after_b: list[ActorRef[Any, Any]] = []
        a = system.spawn(player, log, after_a, lambda: third.tell("now"), name="a")
        b = system.spawn(player, log, after_b, lambda: third.tell("now"), name="b")
        after_a.append(b)
        after_b.append(a)
        for ball in range(100):
            a.tell(ball)
            b.tell(ball)
        await system.settle()
        called = log.index("called")
        turn = log[called + 1 : log.index("third")]
        # The rest of the caller's visit, and one of the other's.
        assert max(Counter(turn).values(), default=0) <= budget
        visits = [(who, len(list(group))) for who, group in groupby(log[:called])]
        assert max(length for _, length in visits[:-1]) == budget

    play(program, max_msgs_per_actor=budget, max_actors_per_tick=per_tick, max_tick_time=AGES, clock=ManualClock())


@pytest.mark.at_home
@pytest.mark.fifo
@pytest.mark.parametrize("budget", [1, 3, 10])
def test_no_actor_waits_for_more_than_one_visit_of_each_other(play: Play, budget: int) -> None:  # case 5, J6
    log: list[str] = []

    async def program(system: ActorSystem) -> None:
        crowd: list[ActorRef[Any, Any]] = [
            system.spawn(lambda ctx, message: log.append(ctx.name), name=f"busy{number}") for number in range(20)
        ]
        late: ActorRef[Any, Any] = system.spawn(lambda ctx, message: log.append("late"), name="late")
        await late.started()
        for ref in crowd:
            for n in range(100):
                ref.tell(n)
        late.tell("now")
        await system.settle()
        before = Counter(log[: log.index("late")])
        assert set(before.values()) == {budget}
        assert len(before) == 20
        assert len(log) == 2001

    play(program, max_msgs_per_actor=budget, max_tick_time=AGES, clock=ManualClock())
