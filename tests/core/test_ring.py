"""The ring: FIFO however it grows, small when idle, and whole even when a finalizer sends in the middle of it."""

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from greenroom._core.build import COMPILED
from greenroom._core.mailbox.ring import Ring
from greenroom._core.scheduler.loop import Loop
from tests.core.kit import Straggler, collects_while_allocating

SMALLEST = 4  # slots; a message takes two
KEPT = 64
OWN = 2 if COMPILED else 0  # slots of a ring that has no list


class Thing:
    """Something that can be followed, and may hold something."""

    holds: object = None


def filled(count: int, offset: int = 0) -> Ring:
    """A ring of the numbers below `count`, whose oldest stands `offset` messages into the list."""
    ring = Ring()
    for _ in range(offset):
        ring.push(None, None)
    for number in range(count):
        if number >= count - offset:
            ring.pop()
        ring.push(number, f"sender of {number}")
    for _ in range(offset - count):
        ring.pop()
    return ring


def drain(ring: Ring) -> list[object]:
    return [ring.pop() for _ in range(ring.count)]


def test_an_unused_ring_has_no_list() -> None:
    assert (Ring().mask + 1, Ring().count) == (OWN, 0)


@pytest.mark.parametrize(
    ("messages", "slots"),
    [(1, OWN or SMALLEST), (2, SMALLEST), (3, 8), (4, 8), (5, 16), (8, 16), (9, 32), (32, 64), (33, 128), (1000, 2048)],
)
def test_the_list_is_the_smallest_power_of_two_that_holds_them(messages: int, slots: int) -> None:
    assert filled(messages).mask + 1 == slots


def test_a_ring_that_never_holds_many_never_grows() -> None:
    ring = Ring()
    for number in range(1000):
        ring.push(number, None)
        ring.push(number, None)
        ring.pop()
        ring.pop()
    assert ring.mask + 1 == SMALLEST


@pytest.mark.parametrize(("messages", "kept"), [(0, False), (4, True), (32, True), (33, False), (5000, False)])
def test_only_a_large_list_is_given_back_when_the_ring_is_drained(messages: int, kept: bool) -> None:
    ring = filled(messages)
    before = ring.mask
    drain(ring)
    ring.trim()
    assert ring.mask + 1 == (before + 1 if kept else OWN)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_ring_that_goes_lets_go_of_its_messages_and_senders(count: int) -> None:
    things = [Thing() for _ in range(2 * count)]
    alive = [weakref.ref(thing) for thing in things]
    ring = Ring()
    while things:
        ring.push(things.pop(), things.pop())
    del ring
    assert [one() for one in alive] == [None] * 2 * count


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_garbage_collector_sees_a_circle_that_leads_through_a_ring(count: int, part: int) -> None:
    ring, thing = Ring(), Thing()
    thing.holds = ring
    alive = weakref.ref(thing)
    for _ in range(count - 1):
        ring.push(None, None)
    ring.push(*((thing, None) if part == 0 else (None, thing)))
    del ring, thing
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_message_put_in_front_comes_out_first(count: int) -> None:
    ring = filled(count)
    ring.push_front("first", "its sender")
    assert (ring.message_at(0), ring.sender_at(0), ring.first_sender()) == ("first", "its sender", "its sender")
    assert drain(ring) == ["first", *range(count)]


def test_a_taken_message_and_its_sender_are_not_kept_alive() -> None:
    taken: list[str] = []

    class Watched:
        def __init__(self, name: str) -> None:
            self.name = name

        def __del__(self) -> None:
            taken.append(self.name)

    ring = Ring()
    for name in ("a", "b", "c"):
        ring.push(Watched(name), Watched(f"sender of {name}"))
    ring.pop()
    assert sorted(taken) == ["a", "sender of a"]
    ring.remove(1)
    assert sorted(taken) == ["a", "c", "sender of a", "sender of c"]


class RingAgainstList(RuleBasedStateMachine):
    """A ring and the list it stands for."""

    def __init__(self) -> None:
        super().__init__()
        self.ring = Ring()
        self.model: list[tuple[int, str]] = []
        self.made = 0

    @rule(count=st.sampled_from([1, 1, 2, 3, 5, 40]))
    def push(self, count: int) -> None:
        for _ in range(count):
            self.made += 1
            self.ring.push(self.made, f"sender of {self.made}")
            self.model.append((self.made, f"sender of {self.made}"))

    @precondition(lambda self: self.model)
    @rule(count=st.sampled_from([1, 1, 2, 3, 40]))
    def pop(self, count: int) -> None:
        for _ in range(min(count, len(self.model))):
            message, sender = self.model.pop(0)
            assert self.ring.first_sender() == sender
            assert self.ring.pop() == message

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        position = data.draw(st.integers(0, len(self.model) - 1))
        assert self.ring.remove(position) == self.model.pop(position)[0]

    @rule()
    def drain_and_trim(self) -> None:
        assert drain(self.ring) == [message for message, _ in self.model]
        self.model.clear()
        self.ring.trim()
        assert self.ring.mask < KEPT

    @invariant()
    def they_hold_the_same(self) -> None:
        assert self.ring.count == len(self.model)
        positions = range(len(self.model))
        assert [(self.ring.message_at(i), self.ring.sender_at(i)) for i in positions] == self.model

    @invariant()
    def the_list_is_a_power_of_two_with_room_for_all(self) -> None:
        slots = self.ring.mask + 1
        assert slots == OWN or (slots >= SMALLEST and slots & (slots - 1) == 0)
        assert slots >= 2 * len(self.model)


TestRingAgainstList = RingAgainstList.TestCase
TestRingAgainstList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@contextmanager
def collecting_at_the_next_list() -> Iterator[None]:
    """Have the collector run inside the block, as soon as a list is made."""
    was = gc.get_threshold()
    # Lists from the interpreter's freelist do not count as made: use those up.
    spare: list[list[object]] = [[] for _ in range(1000)]
    gc.set_threshold(1)
    try:
        gc.enable()
        yield
    finally:
        gc.set_threshold(*was)
        del spare


@collects_while_allocating
@pytest.mark.parametrize("late", [1, 5, 100])
@pytest.mark.parametrize(("count", "offset"), [(0, 0), (4, 0), (4, 3), (8, 5), (64, 1), (256, 200)])
def test_a_finalizer_that_sends_here_while_the_ring_grows_loses_nothing(count: int, offset: int, late: int) -> None:
    ring = filled(count, offset)
    arrived: list[object] = list(range(count))
    growing = caught = False

    def send() -> None:
        nonlocal caught
        caught = growing
        for number in range(late):
            ring.push(("late", number), None)
            arrived.append(("late", number))

    gc.collect()
    gc.disable()
    Straggler(send)
    with collecting_at_the_next_list():
        growing = True
        ring.push("on time", None)
        growing = False
    arrived.append("on time")
    assert caught, "the collector did not run inside the push: this test shows nothing"
    assert drain(ring) == arrived


@collects_while_allocating
@pytest.mark.parametrize("count", [0, 4, 8, 256])
def test_a_finalizer_that_tells_the_cell_whose_mailbox_grows_loses_nothing(count: int) -> None:
    handled: list[object] = []
    cell = Loop().spawn(list.append, handled)
    told: list[object] = list(range(count))
    for number in told:
        cell.tell(number)
    growing = caught = False

    def tell() -> None:
        nonlocal caught
        caught = growing
        for number in range(5):
            cell.tell(("late", number))
            told.append(("late", number))

    gc.collect()
    gc.disable()
    Straggler(tell)
    with collecting_at_the_next_list():
        growing = True
        cell.tell("on time")
        growing = False
    told.append("on time")
    assert caught, "the collector did not run inside the tell: this test shows nothing"
    cell.loop.run_until_idle()
    assert handled == told


class LastWords:
    """Does something when its last reference goes."""

    def __init__(self, say: Callable[[], object]) -> None:
        self.say = say

    def __del__(self) -> None:
        self.say()


@pytest.mark.parametrize("offset", range(4))
@pytest.mark.parametrize("take", [Ring.pop, lambda ring: ring.remove(0), lambda ring: ring.remove(2)])
def test_a_sender_that_dies_with_its_message_may_send_to_the_same_ring(
    take: Callable[[Ring], object], offset: int
) -> None:
    probe = filled(4, offset)
    taken = take(probe)
    ring = filled(0)
    for _ in range(offset):
        ring.push(None, None)
        ring.pop()
    for number in range(4):
        # Whoever dies, the ring is full: what it sends makes the ring grow.
        ring.push(number, LastWords(lambda: ring.push("last words", None)) if number == taken else None)
    assert take(ring) == taken
    assert drain(ring) == [*(number for number in range(4) if number != taken), "last words"]


@pytest.mark.parametrize("late", [1, 3, 20])
@pytest.mark.parametrize("before", range(5))
@pytest.mark.parametrize("part", ["message", "sender"])
def test_what_was_just_handled_may_send_to_the_same_cell_as_it_dies(part: str, before: int, late: int) -> None:
    told: list[tuple[str, str]] = []
    handled: list[tuple[str, str]] = []
    loop = Loop()

    def tell(name: str) -> None:
        told.append((name, f"sender of {name}"))
        cell.tell(*told[-1])

    def tell_late() -> None:
        for number in range(late):
            tell(f"late {number}")

    class Mortal(LastWords):
        def __str__(self) -> str:
            return "mortal"

    def handle(subject: object, message: object) -> None:
        handled.append((str(message), str(loop.visits.sender)))
        if str(message) == "mortal":
            # The mortal is let go when the next message is taken: have the ring full by then.
            while cell.count * 2 <= cell.mask:
                tell(f"filling {cell.count}")

    cell = loop.spawn(handle)
    for number in range(before):
        tell(f"before {number}")
    told.append(("mortal", "mortal"))
    if part == "message":
        cell.tell(Mortal(tell_late), "mortal")
    else:
        cell.tell("mortal", Mortal(tell_late))
    for number in range(3):
        tell(f"after {number}")
    loop.run_until_idle()
    assert len(told) > before + 4 + late, "the ring was not full: this test shows nothing"
    assert handled == told


@pytest.mark.parametrize("offset", [0, 1, 3])
@pytest.mark.parametrize(("position", "most"), [(0, 10), (0, 2), (1, 3), (3, 5), (4, 1), (9, 9)])
def test_a_look_at_messages_leaves_them_where_they_are(offset: int, position: int, most: int) -> None:
    ring = filled(5, offset)
    wanted = list(range(5))[position : position + most]
    assert ring.peek(position, most) == (wanted, [f"sender of {number}" for number in wanted])
    assert drain(ring) == list(range(5))
