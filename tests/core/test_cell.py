"""Cells: who sends, orders before messages, holding, and an end that leaves nothing behind."""

import gc
import weakref
from typing import Any

import pytest

from greenroom._core.behavior import BehaviorBase
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.accounting import count_cell, count_loop
from greenroom._core.scheduler.loop import Loop
from greenroom.clock import ManualClock
from greenroom.errors import MailboxFull
from greenroom.lanes import Lane, MailboxConfig
from greenroom.ledger import Ledger
from tests.core.kit import Recorder

# Names and senders


def test_a_cell_is_called_by_its_ref_or_else_by_its_slot_and_generation(loop: Loop) -> None:
    cells = [loop.spawn(print) for _ in range(2)]
    assert [cell.name() for cell in cells] == ["#0.1", "#1.1"]
    loop.retire(cells[0])
    assert loop.spawn(print).name() == "#0.2"
    cells[1].ref = "/greeter"
    assert (cells[1].name(), repr(cells[1])) == ("/greeter", "<cell /greeter>")


@pytest.mark.parametrize("lane", list(Lane))
def test_inside_a_handler_the_sender_is_the_actor_in_hand_unless_named(
    loop: Loop, heard: list[Any], lane: Lane
) -> None:
    def send(_: object, message: object) -> None:
        target.tell("unnamed", lane=lane)
        target.tell("named", "someone else", lane)

    def failing(_: object, message: object) -> None:
        raise ValueError

    target = loop.spawn(lambda _, message: heard.append((message, loop.visits.sender)))
    sending, after = loop.spawn(send), loop.spawn(failing)
    sending.ref, after.ref = "the sender", "not the sender"
    target.tell("from outside", lane=lane)
    loop.run_until_idle()
    after.tell("go")
    sending.tell("go")
    loop.run_until_idle()
    target.tell("outside again", lane=lane)
    loop.run_until_idle()
    assert heard == [
        ("from outside", None),
        ("unnamed", "the sender"),
        ("named", "someone else"),
        ("outside again", None),
    ]


def test_sent_counts_what_was_let_in_or_dropped_but_not_what_was_given_back(loop: Loop) -> None:
    cell = loop.spawn(print, None, MailboxConfig(capacity=1))
    cell.tell("in")
    with pytest.raises(MailboxFull):
        cell.tell("given back")
    cell.tell("in", lane=Lane.LOG)
    cell.notify("no message")
    cell.order(print)
    assert cell.sent() == 2
    loop.retire(cell)
    cell.tell("dead letter")
    assert count_loop(loop).sent == 3


# Orders, holding, notices (M2)


def test_an_order_is_not_a_message_of_the_ledger_and_its_result_is_nobodys(loop: Loop, host: Recorder) -> None:
    behavior = BehaviorBase()
    cell = loop.spawn(lambda _, message: behavior)
    cell.order(lambda cell: "a result")
    cell.notify("notice")
    cell.tell("message")
    loop.run_until_idle()
    assert host.behaviors == [behavior, behavior]
    assert count_loop(loop) == Ledger(sent=1, handled=1)


def test_an_order_may_end_its_own_cell(loop: Loop, host: Recorder, heard: list[Any]) -> None:
    cell = loop.spawn(list.append, heard)
    cell.tell("never")
    cell.order(loop.retire)
    cell.order(lambda cell: heard.append("an order to a dead cell"))
    loop.run_until_idle()
    assert (heard, host.dead) == ([], ["never"])


def test_a_held_cell_handles_orders_and_nothing_else_until_released(loop: Loop, heard: list[Any]) -> None:
    cell = loop.spawn(list.append, heard)
    cell.hold()
    cell.tell("message")
    cell.tell("control", lane=Lane.CONTROL)
    cell.notify("notice")
    cell.order(lambda cell: heard.append("order"))
    loop.run_until_idle()
    assert heard == ["order"]
    assert count_cell(cell) == Ledger(sent=2, queued=2)
    cell.release()
    assert heard == ["order"]  # later, in a tick
    loop.run_until_idle()
    assert heard == ["order", "control", "message", "notice"]


def test_a_handler_may_hold_its_own_cell_and_an_order_release_it(loop: Loop, heard: list[Any]) -> None:
    def handle(_: object, message: object) -> None:
        heard.append(message)
        if message == "hold":
            cell.hold()

    cell = loop.spawn(handle)
    for message in ("hold", "a", "b"):
        cell.tell(message)
    loop.run_until_idle()
    assert heard == ["hold"]
    cell.order(lambda cell: cell.release())
    loop.run_until_idle()
    assert heard == ["hold", "a", "b"]


# The end of a cell


@pytest.mark.parametrize("then", ["return", "raise", "send"])
def test_a_cell_may_retire_itself_in_its_own_handler(loop: Loop, host: Recorder, heard: list[Any], then: str) -> None:
    def handle(_: object, message: object) -> None:
        heard.append(message)
        loop.retire(cell)
        assert count_loop(loop).in_hand == 1
        assert count_loop(loop).balanced
        if then == "send":
            cell.tell("to myself")
        if then == "raise":
            raise ValueError("after my end")

    cell = loop.spawn(handle)
    for message in ("last", "queued"):
        cell.tell(message)
    loop.run_until_idle()
    assert heard == ["last"]
    assert host.dead == (["queued", "to myself"] if then == "send" else ["queued"])
    assert host.failures == []
    counts = count_loop(loop)
    assert (counts.handled, counts.failed) == ((0, 1) if then == "raise" else (1, 0))
    assert (counts.in_hand, counts.balanced) == (0, True)


def test_a_cell_retired_by_another_while_it_stands_in_the_run_queue_is_not_visited(
    loop: Loop, host: Recorder, heard: list[Any]
) -> None:
    killer = loop.spawn(lambda _, message: loop.retire(message))
    victim = loop.spawn(list.append, heard)
    killer.tell(victim)
    victim.tell("never")
    victim.order(lambda cell: heard.append("never"))
    loop.run_until_idle()
    assert (heard, host.dead) == ([], ["never"])
    assert count_loop(loop).balanced


def test_retiring_twice_is_once(loop: Loop, heard: list[Any]) -> None:
    first, second = loop.spawn(list.append, heard), loop.spawn(list.append, heard)
    loop.retire(second)
    loop.retire(second)
    assert loop.table.find(first.id) is first
    tenants = [loop.spawn(list.append, heard) for _ in range(3)]
    assert len({cell.id for cell in [first, *tenants]}) == 4
    assert len(loop.table) == 4


def test_a_host_may_retire_a_cell_again_while_its_letters_are_cleared(clock: ManualClock, heard: list[Any]) -> None:
    class Thorough(Recorder):
        def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
            super().dead_letter(cell, message, sender, why)
            cell.loop.retire(cell)

    host = Thorough()
    loop = Loop(None, clock, host)
    bystander, cell = loop.spawn(list.append, heard), loop.spawn(list.append, heard)
    for number in range(3):
        cell.tell(number)
    loop.retire(cell)
    assert host.dead == [0, 1, 2]
    assert loop.table.find(bystander.id) is bystander
    bystander.tell("still here")
    loop.run_until_idle()
    assert heard == ["still here"]
    assert count_loop(loop) == Ledger(sent=4, handled=1, dead_lettered=3)


# Memory


def test_a_retired_cell_and_all_it_held_can_be_collected(loop: Loop, host: Recorder) -> None:
    class Thing:
        def handle(self, message: object) -> None:
            pass

    things = [Thing() for _ in range(3)]
    subject, queued, ticked = map(weakref.ref, things)
    cell = loop.spawn(Thing.handle, things[0])
    ghost = weakref.ref(cell)
    cell.tell(things[1])
    cell.tell("control", lane=Lane.CONTROL)
    loop.start_timer(1.0, cell, things[2], owner=cell)
    loop.tick()
    cell.tell(things[1])
    loop.retire(cell)
    loop.run_until_idle()
    host.dead.clear()
    del cell, things
    gc.collect()
    assert [ref() for ref in (ghost, subject, queued, ticked)] == [None] * 4


def test_a_handled_message_is_not_kept(loop: Loop) -> None:
    class Message:
        pass

    cell = loop.spawn(lambda _, message: None)
    message = Message()
    ghost = weakref.ref(message)
    cell.tell(message)
    del message
    loop.run_until_idle()
    gc.collect()
    assert ghost() is None


def test_a_ring_grown_by_a_burst_is_given_back_a_second_after_it_was_drained(loop: Loop, clock: ManualClock) -> None:
    cell = loop.spawn(lambda _, message: None)
    for number in range(1000):
        cell.tell(number)
    loop.run_until_idle()
    large = cell.mask
    assert large >= 1999
    clock.step(0.75)
    loop.tick()
    assert cell.mask == large
    clock.step(1.0)
    loop.tick()
    assert cell.mask < 64


def test_a_ring_in_use_when_its_time_has_come_keeps_its_messages(loop: Loop, clock: ManualClock) -> None:
    heard: list[int] = []
    cell = loop.spawn(list.append, heard)
    for number in range(1000):
        cell.tell(number)
    loop.run_until_idle()
    cell.hold()
    cell.tell(1000)
    clock.step(1.5)
    loop.tick()
    cell.release()
    loop.run_until_idle()
    assert heard == list(range(1001))
    clock.step(5.0)
    loop.tick()
    assert cell.mask < 64


def test_a_retired_cell_that_had_a_burst_can_be_collected_once_the_second_is_over(
    loop: Loop, clock: ManualClock
) -> None:
    cell = loop.spawn(lambda _, message: None)
    ghost = weakref.ref(cell)
    for number in range(1000):
        cell.tell(number)
    loop.run_until_idle()
    loop.retire(cell)
    del cell
    clock.step(1.0)
    loop.tick()
    gc.collect()
    assert ghost() is None
