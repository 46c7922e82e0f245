"""What goes wrong in the middle of something else: nobody is stranded, nothing is counted twice, nothing crashes."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from greenroom._core.behavior import BehaviorBase
from greenroom._core.limits import Limits
from greenroom._core.mailbox.cell import Cell
from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.receipt import Receipt
from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.host import Host
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.clock import ManualClock
from greenroom.errors import InternalError, WrongLoop
from greenroom.lanes import MailboxConfig, Overflow
from greenroom.ledger import Ledger
from tests.core.kit import Recorder


class Raising(Receipt):
    """Raises in one of its methods."""

    def __init__(self, where: str) -> None:
        self.where = where

    def _do(self, what: str) -> None:
        if what == self.where:
            raise ValueError(what)

    def live(self) -> bool:
        self._do("live")
        return True

    def settle(self, result: object) -> None:
        self._do("settle")

    def fail(self, cause: BaseException) -> None:
        self._do("fail")


def handle(heard: list[object], message: object) -> None:
    if message == "trip":
        raise ValueError(message)
    heard.append(message)


@pytest.mark.parametrize(("where", "message"), [("live", "m"), ("settle", "m"), ("fail", "trip")])
def test_a_receipt_that_raises_strands_nobody(where: str, message: str) -> None:
    heard: list[object] = []
    loop = Loop(clock=ManualClock(), host=Recorder())
    cell = loop.spawn(handle, heard)
    cell.post(message, Raising(where))
    cell.tell("next")
    with suppress(InternalError):
        loop.run_until_idle()
    loop.run_until_idle()
    assert heard[-1] == "next"
    assert count_loop(loop).balanced


def test_what_a_host_raises_on_a_verdict_is_a_failure_of_the_handler() -> None:
    class Touchy(Recorder):
        def behavior_returned(self, cell: Cell, behavior: object) -> None:
            raise ValueError(behavior)

    heard: list[object] = []
    host = Touchy()
    loop = Loop(clock=ManualClock(), host=host)

    def answer(_: object, message: object) -> object:
        heard.append(message)
        return BehaviorBase() if message == 1 else None

    cell = loop.spawn(answer)
    cell.tell(1)
    cell.tell(2)
    loop.run_until_idle()
    assert heard == [1, 2]
    assert [message for _, message, _ in host.failures] == [1]
    assert count_loop(loop) == Ledger(sent=2, handled=1, failed=1)


@pytest.mark.anyio
async def test_a_wake_up_that_comes_after_the_handler_was_abandoned_finds_nobody() -> None:
    loop = Loop()
    poller = Poller(loop)
    poller.attach()
    gate = asyncio.get_running_loop().create_future()

    async def wait(_: object, message: object) -> None:
        await gate

    cell = loop.spawn(wait)
    cell.tell("m")
    await poller.idle()
    gate.set_result(None)  # the wake-up is on its way now
    poller.detach()
    loop.retire(cell)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    loop.run_until_idle()
    assert count_loop(loop) == Ledger(sent=1, failed=1)
    loop.close()


def test_the_largest_budget_outlives_strain() -> None:
    clock = ManualClock()
    loop = Loop(Limits(max_msgs_per_actor=2**31 - 1, max_tick_time=1.0), clock)
    slow, heard = [True], list[object]()

    def work(_: object, message: object) -> None:
        heard.append(message)
        if slow[0]:
            clock.step(clock.now() + 2.0)

    for _ in range(2):
        cell = loop.spawn(work)
        for number in range(30):
            cell.tell(number)
    for _ in range(6):
        loop.tick()
    slow[0] = False
    for _ in range(80):
        loop.tick()
    assert (len(heard), loop.runq.count) == (60, 0)


@pytest.mark.parametrize("ended_by", ["a key", "an observer"])
def test_an_actor_that_ends_while_a_message_is_let_in_does_not_handle_it(ended_by: str) -> None:
    heard: list[object] = []
    hooks = ObserverHooks()
    loop = Loop(clock=ManualClock(), hooks=hooks)

    def key(message: object) -> int:
        if message == 2:
            loop.retire(cell)
        return 0

    class Observer:
        def message_dropped(self, ref: object, message: object, lane: object) -> None:
            loop.retire(cell)

    config = MailboxConfig(capacity=1, overflow=Overflow.DROP_OLD, priority=key if ended_by == "a key" else None)
    cell = loop.spawn(list.append, heard, config)
    if ended_by == "an observer":
        hooks.add(Observer())
    cell.tell(1)
    cell.tell(2)
    loop.run_until_idle()
    counts = count_loop(loop)
    assert (heard, counts.sent, counts.handled, counts.in_hand, counts.balanced) == ([], 2, 0, 0, True)


def test_a_host_that_raises_on_dead_letters_keeps_nobody_from_ending() -> None:
    class Touchy(Host):
        def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
            raise ValueError(message)

    loop = Loop(clock=ManualClock(), host=Touchy())
    cells = [loop.spawn(print) for _ in range(3)]
    for cell in cells:
        cell.tell("queued")
    loop.start_timer(1.0, cells[0], "pending")
    with pytest.raises(ValueError, match="queued"):
        loop.close()
    assert [cell.ended for cell in cells] == [True] * 3
    assert (len(loop.table), loop.timers.count) == (0, 0)


def test_a_periodic_timer_whose_tick_is_in_hand_ends_with_its_loop() -> None:
    clock = ManualClock()
    loop = Loop(clock=clock)
    cell = loop.spawn(lambda _, message: loop.close())
    timer = loop.start_timer(1.0, cell, "tick", interval=1.0)
    clock.step(1.0)
    loop.run_until_idle()
    assert (timer.active, loop.timers.count) == (False, 0)


def test_a_rousing_that_fails_is_tried_again_by_the_next_sender() -> None:
    loop = Loop()
    cell, roused = loop.spawn(print), list[str]()
    attempts = iter([MemoryError(), None])

    def rouse() -> None:
        if (error := next(attempts)) is not None:
            raise error
        roused.append("roused")

    loop.inbound.rouse = rouse
    assert loop.inbound.fall_asleep()
    errors: list[BaseException] = []

    def send() -> None:
        try:
            cell.tell("m")
        except MemoryError as error:
            errors.append(error)

    for _ in range(2):
        thread = threading.Thread(target=send)
        thread.start()
        thread.join(120)
    assert (len(errors), roused, cell.reserved) == (1, ["roused"], 2)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda loop, mine, stranger: loop.retire(stranger),
        lambda loop, mine, stranger: loop.start_timer(0.0, mine, "m", owner=stranger),
    ],
    ids=["retire", "owner"],
)
def test_a_cell_of_another_loop_is_refused(misuse: Callable[[Loop, Cell, Cell], object]) -> None:
    ours, theirs = Loop(), Loop()
    mine, stranger = ours.spawn(print), theirs.spawn(print)
    with pytest.raises(WrongLoop) as caught:
        misuse(ours, mine, stranger)
    assert caught.value.ref is stranger
    assert (mine.ending, stranger.ending, ours.timers.count) == (False, False, 0)


@pytest.mark.parametrize("name", ["retire", "cancel_timers"])
def test_none_where_a_cell_is_wanted_is_an_error_not_a_crash(name: str) -> None:
    loop: Any = Loop()
    with pytest.raises((AttributeError, TypeError)):
        getattr(loop, name)(None)
    with pytest.raises((AttributeError, TypeError)):
        loop.start_timer(0.0, None, "m")
    with pytest.raises(TypeError):
        Cell()
