"""Admission: what happens to a message that finds its mailbox full, closed, or ordered by a key it cannot have."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom._core.flags import INTERCEPTED, OFFLOADED
from greenroom._core.mailbox.cell import Cell
from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.scheduler.accounting import count_cell, count_loop
from greenroom._core.scheduler.host import Host
from greenroom._core.scheduler.loop import Loop
from greenroom.clock import ManualClock
from greenroom.errors import MailboxFull
from greenroom.lanes import Lane, MailboxConfig, Overflow
from greenroom.ledger import Ledger
from tests.core.kit import LANES


class Told(Host):
    """Writes down what it is told of, as host and as observer."""

    def __init__(self) -> None:
        self.by_host: list[tuple[Any, ...]] = []
        self.by_hooks: list[tuple[Any, ...]] = []

    def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
        self.by_host.append(("dead_letter", message, sender))

    def dropped(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        self.by_host.append(("dropped", message, lane))

    def observer(self) -> object:
        told = self.by_hooks

        class Observer:
            def mailbox_full(self, ref: object, message: object, lane: Lane) -> None:
                told.append(("full", ref, message, lane))

            def message_dropped(self, ref: object, message: object, lane: Lane) -> None:
                told.append(("dropped", ref, message, lane))

            def dead_letter(self, ref: object, message: object, sender: object, why: str) -> None:
                told.append(("dead_letter", ref, message, sender))

        return Observer()


class FullActor:
    """A loop whose one cell is full in every lane of `capacity`, and handles nothing until it is released."""

    def __init__(self, overflow: Overflow, capacity: int = 3, priority: Callable[[Any], Any] | None = None) -> None:
        self.told = Told()
        hooks = ObserverHooks()
        hooks.add(self.told.observer())
        self.loop = Loop(None, ManualClock(), self.told, hooks)
        self.handled: list[Any] = []
        lanes: dict[Lane, int] = {lane: capacity for lane in LANES if lane is not Lane.DATA}
        self.mailbox = MailboxConfig(capacity=capacity, overflow=overflow, lanes=lanes, priority=priority)
        self.cell = self.loop.spawn(list.append, self.handled, self.mailbox)
        self.cell.ref = "the cell"
        self.cell.hold()

    def tell_all(self, *messages: object, lane: Lane = Lane.DATA) -> None:
        for message in messages:
            self.cell.tell(message, lane=lane)

    def run(self) -> list[Any]:
        self.cell.release()
        self.loop.run_until_idle()
        return self.handled


# J7


@pytest.mark.parametrize("lane", LANES)
def test_reject_gives_the_message_back_and_the_sender_goes_on(lane: Lane) -> None:
    actor = FullActor(Overflow.REJECT, capacity=1)
    actor.tell_all("first", lane=lane)
    with pytest.raises(MailboxFull) as caught:
        actor.tell_all("second", lane=lane)
    full = caught.value
    assert (full.message, full.ref, full.lane, full.capacity) == ("second", "the cell", lane, 1)
    assert actor.told.by_hooks == [("full", "the cell", "second", lane)]
    assert actor.told.by_host == []
    assert count_cell(actor.cell) == Ledger(sent=1, queued=1, rejected=1)
    assert actor.run() == ["first"]
    actor.tell_all("third", lane=lane)
    actor.loop.run_until_idle()
    assert actor.handled == ["first", "third"]


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize(
    ("policy", "kept", "gone"), [(Overflow.DROP_NEW, [0, 1, 2], 3), (Overflow.DROP_OLD, [1, 2, 3], 0)]
)
def test_a_dropping_mailbox_drops_exactly_one_and_counts_it_once(
    policy: Overflow, kept: list[int], gone: int, lane: Lane
) -> None:
    actor = FullActor(policy)
    actor.tell_all(0, 1, 2, 3, lane=lane)
    assert actor.told.by_host == [("dropped", gone, lane)]
    assert actor.told.by_hooks == [("dropped", "the cell", gone, lane)]
    assert count_cell(actor.cell) == Ledger(sent=4, dropped=1, queued=3)
    assert actor.run() == kept
    assert count_loop(actor.loop) == Ledger(sent=4, handled=3, dropped=1)


def test_capacity_counts_what_is_queued_not_what_is_in_hand() -> None:
    loop = Loop(None, ManualClock())
    handled: list[object] = []

    def handle(_: object, message: object) -> None:
        handled.append(message)
        if message == 0:
            cell.tell(1)
            with pytest.raises(MailboxFull):
                cell.tell(2)

    cell = loop.spawn(handle, None, MailboxConfig(capacity=1))
    cell.tell(0)
    loop.run_until_idle()
    assert handled == [0, 1]


@pytest.mark.parametrize("policy", list(Overflow))
def test_a_notice_takes_no_room_and_is_never_refused_nor_evicted(policy: Overflow) -> None:
    actor = FullActor(policy, capacity=1)
    for number in range(3):
        actor.cell.notify(("notice", number))
    actor.tell_all("first")
    for number in range(3, 6):
        actor.cell.notify(("notice", number))
    assert actor.told.by_hooks == []
    if policy is Overflow.REJECT:
        with pytest.raises(MailboxFull):
            actor.tell_all("second")
    else:
        actor.tell_all("second")
    before = [("notice", number) for number in range(3)]
    after = [("notice", number) for number in range(3, 6)]
    if policy is Overflow.DROP_OLD:
        assert actor.run() == [*before, *after, "second"]
    else:
        assert actor.run() == [*before, "first", *after]
    assert count_loop(actor.loop).balanced


@pytest.mark.parametrize("policy", list(Overflow))
def test_a_handled_notice_leaves_the_bound_where_it_was(policy: Overflow) -> None:
    actor = FullActor(policy, capacity=2)
    for _ in range(5):
        actor.cell.notify("notice")
    actor.run()
    actor.handled.clear()
    actor.cell.hold()
    actor.tell_all(0, 1)
    assert actor.told.by_hooks == []
    if policy is Overflow.REJECT:
        with pytest.raises(MailboxFull):
            actor.tell_all(2)
    else:
        actor.tell_all(2)
        assert len(actor.told.by_hooks) == 1
    assert actor.cell.queued() == 2


@pytest.mark.parametrize("lane", LANES)
def test_a_tell_to_a_retired_cell_is_a_dead_letter_without_an_exception(lane: Lane) -> None:
    actor = FullActor(Overflow.REJECT, capacity=1)
    actor.tell_all("queued", lane=lane)
    actor.cell.notify("a notice is no letter")
    actor.loop.retire(actor.cell)
    for number in range(3):
        actor.cell.tell(number, "the sender", lane)
    actor.cell.notify("nor is this")
    assert actor.told.by_host == [
        ("dead_letter", "queued", None),
        *(("dead_letter", number, "the sender") for number in range(3)),
    ]
    assert [event[2] for event in actor.told.by_hooks] == ["queued", 0, 1, 2]
    actor.loop.run_until_idle()
    assert actor.handled == []
    assert count_loop(actor.loop) == Ledger(sent=4, dead_lettered=4)


@pytest.mark.parametrize("policy", list(Overflow))
@given(lanes=st.lists(st.sampled_from(LANES), max_size=30))
@settings(max_examples=40, deadline=None)
def test_any_flood_leaves_in_each_lane_what_the_policy_says(policy: Overflow, lanes: list[Lane]) -> None:
    actor = FullActor(policy, capacity=2)
    given_back = []
    for number, lane in enumerate(lanes):
        try:
            actor.cell.tell((lane, number), lane=lane)
        except MailboxFull as full:
            given_back.append(full.message)
    actor.run()
    assert len(given_back) == count_loop(actor.loop).rejected
    assert not set(given_back) & set(actor.handled)
    for lane in LANES:
        sent = [(lane, number) for number, where in enumerate(lanes) if where is lane]
        kept = sent[-2:] if policy is Overflow.DROP_OLD else sent[:2]
        assert [message for message in actor.handled if message[0] is lane] == kept
    counts = count_loop(actor.loop)
    assert counts.balanced
    assert counts.handled + counts.dropped + counts.rejected == len(lanes)


# Mailboxes ordered by a key (M15)


def key_of(message: Any) -> Any:
    if message == "no key":
        raise ValueError("no key for this one")
    return message[0]


@pytest.mark.parametrize(
    ("policy", "handled"),
    [
        (Overflow.REJECT, [(1, "b"), (2, "c"), (3, "a")]),
        (Overflow.DROP_NEW, [(1, "b"), (2, "c"), (3, "a")]),
        (Overflow.DROP_OLD, [(0, "d"), (1, "b"), (2, "c")]),  # the oldest, not the least urgent, makes room
    ],
)
def test_a_full_mailbox_with_a_key_follows_its_policy(policy: Overflow, handled: list[object]) -> None:
    actor = FullActor(policy, priority=key_of)
    actor.tell_all((3, "a"), (1, "b"), (2, "c"))
    if policy is Overflow.REJECT:
        with pytest.raises(MailboxFull):
            actor.tell_all((0, "d"))
    else:
        actor.tell_all((0, "d"))
    assert actor.run() == handled
    assert count_loop(actor.loop).balanced


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("policy", list(Overflow))
@pytest.mark.parametrize(("bad", "error"), [("no key", ValueError), (("incomparable", 0), TypeError)])
def test_a_sender_whose_message_has_no_place_gets_the_error_and_nothing_else_is_lost(
    bad: object, error: type[Exception], policy: Overflow, full: bool
) -> None:
    actor = FullActor(policy, capacity=3, priority=key_of)
    good = [(2, "a"), (1, "b"), (3, "c")] if full else [(2, "a"), (1, "b")]
    actor.tell_all(*good)
    if full and policy is Overflow.REJECT:
        error = MailboxFull
    if full and policy is Overflow.DROP_NEW:
        actor.tell_all(bad)
    else:
        with pytest.raises(error):
            actor.tell_all(bad)
    lost = [event for event in actor.told.by_host if event[1] != bad]
    assert lost == []
    assert actor.run() == sorted(good)
    assert count_loop(actor.loop).balanced


def test_keys_that_turn_out_incomparable_only_later_lose_nothing_and_stop_nobody() -> None:
    actor = FullActor(Overflow.REJECT, capacity=10, priority=key_of)
    other = actor.loop.spawn(list.append, actor.handled)
    # Each of the last two compares with the first, so both are let in; they do not compare with one another.
    messages = [((0, 0), "a"), ((1, None), "b"), ((1, "x"), "c")]
    actor.tell_all(*messages)
    actor.cell.release()
    other.tell("other")
    actor.loop.run_until_idle()
    other.tell("still there")
    actor.loop.run_until_idle()
    dead = [event[1] for event in actor.told.by_host if event[0] == "dead_letter"]
    counts = count_loop(actor.loop)
    assert [message for message in actor.handled if message in ("other", "still there")] == ["other", "still there"]
    assert counts.balanced
    gone = {message for message in messages if message not in actor.handled and message not in dead}
    assert len(gone) <= counts.failed


@pytest.mark.parametrize("policy", list(Overflow))
def test_a_tick_or_a_foreign_message_without_a_place_is_a_dead_letter(policy: Overflow) -> None:
    actor = FullActor(policy, capacity=3, priority=key_of)
    actor.tell_all((1, "a"))
    actor.loop.start_timer(0.0, actor.cell, "no key")
    actor.loop.run_until_idle()
    assert [event[1] for event in actor.told.by_host] == ["no key"]
    assert actor.run() == [(1, "a")]
    assert count_loop(actor.loop) == Ledger(sent=2, handled=1, dead_lettered=1)


class Guard(Host):
    """Looks at what is sent: refuses some, takes some elsewhere."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def intercept(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        self.examine(cell, message)
        return message == "elsewhere"

    def examine(self, cell: Cell, message: object) -> None:
        self.seen.append(message)
        if message == "refused":
            raise ValueError(message)


def test_a_guarded_mailbox_has_each_message_looked_at_first() -> None:
    guard, handled = Guard(), list[object]()
    loop = Loop(host=guard)
    cell = loop.spawn(lambda _, message: handled.append(message))
    cell.flags |= INTERCEPTED
    cell.limit = 0
    for message in ("let in", 5, "elsewhere"):
        cell.tell(message)
    cell.tell("urgent", None, Lane.CONTROL)
    with pytest.raises(ValueError, match="refused"):
        cell.tell("refused")
    with pytest.raises(ValueError, match="refused"):
        cell.post("refused", None)
    loop.run_until_idle()
    assert handled == ["urgent", "let in", 5]
    assert guard.seen == ["let in", 5, "elsewhere", "urgent", "refused", "refused"]
    ledger = count_cell(cell)
    assert (ledger.sent, ledger.handled) == (3, 3)


def test_what_comes_from_another_thread_is_looked_at_there() -> None:
    guard, handled = Guard(), list[object]()
    loop = Loop(host=guard)
    cell = loop.spawn(lambda _, message: handled.append(message))
    cell.flags |= INTERCEPTED
    cell.limit = 0
    refused: list[BaseException] = []

    def send() -> None:
        cell.tell("let in")
        try:
            cell.tell("refused")
        except ValueError as exc:
            refused.append(exc)

    thread = threading.Thread(target=send)
    thread.start()
    thread.join()
    loop.run_until_idle()
    assert (handled, len(refused)) == (["let in"], 1)


def test_numbers_need_no_look_where_the_mailbox_is_another_processes() -> None:
    guard = Guard()
    loop = Loop(host=guard)
    cell = loop.spawn(None, None, MailboxConfig(capacity=3))
    cell.flags |= INTERCEPTED | OFFLOADED
    cell.limit = 0
    for message in (1, 2.5, None):
        cell.tell(message)
    assert (guard.seen, cell.count) == ([], 3)
    with pytest.raises(MailboxFull):
        cell.tell(True)
