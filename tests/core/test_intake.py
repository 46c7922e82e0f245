"""The queue between threads: many put in, one takes out."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial

import pytest

from greenroom._core.delivery.intake import Entry, Intake


class Thing:
    """Something that can be followed."""


def on_another_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def put_number(intake: Intake, number: int) -> None:
    intake.put("cell", "lane", number, None)


def take(intake: Intake) -> Entry | None:
    intake.begin()
    if not intake.has_next():
        return None
    entry = intake.first()
    intake.drop_first()
    return entry


def taken(intake: Intake) -> list[object]:
    found: list[object] = []
    while (entry := take(intake)) is not None:
        found.append(entry[2])
    return found


def test_entries_come_out_in_the_order_they_were_put_in() -> None:
    intake = Intake()
    for number in range(5):
        put_number(intake, number)
    assert taken(intake) == [0, 1, 2, 3, 4]


def test_an_entry_comes_out_with_all_its_parts() -> None:
    intake = Intake()
    parts = (Thing(), Thing(), Thing(), Thing())
    intake.put(*parts)
    assert take(intake) == parts


def test_an_empty_one_has_nothing_to_take_and_nothing_waiting() -> None:
    intake = Intake()
    assert not intake.waiting()
    assert take(intake) is None
    put_number(intake, 1)
    assert intake.waiting()
    take(intake)
    assert not intake.waiting()
    assert take(intake) is None


def test_entries_can_be_looked_at_and_stay() -> None:
    intake = Intake()
    for number in range(3):
        put_number(intake, number)
    assert [entry[2] for entry in intake] == [0, 1, 2]
    assert taken(intake) == [0, 1, 2]


def test_the_first_can_be_dropped_when_it_is_done_with() -> None:
    intake = Intake()
    for number in range(3):
        put_number(intake, number)
    intake.drop_first()
    assert taken(intake) == [1, 2]


def test_what_is_put_in_after_all_was_taken_comes_out_too() -> None:
    intake = Intake()
    for round_number in range(3):
        put_number(intake, round_number)
        assert taken(intake) == [round_number]


def test_each_thread_finds_its_own_order_kept_and_nothing_is_lost() -> None:
    intake = Intake()
    threads, each = 8, 2000
    begin = threading.Barrier(threads + 1)

    def bring(thread: int) -> None:
        begin.wait()
        for number in range(each):
            intake.put(thread, None, number, None)

    bringers = [threading.Thread(target=bring, args=(thread,)) for thread in range(threads)]
    for bringer in bringers:
        bringer.start()
    begin.wait()
    found: dict[int, list[int]] = {thread: [] for thread in range(threads)}
    while sum(map(len, found.values())) < threads * each:
        entry = take(intake)
        if entry is not None:
            found[entry[0]].append(entry[2])
    for bringer in bringers:
        bringer.join()
    assert found == {thread: list(range(each)) for thread in range(threads)}
    assert not intake.waiting()


@pytest.mark.parametrize("part", range(4))
def test_what_is_taken_or_dropped_is_kept_alive_no_longer(part: int) -> None:
    intake = Intake()
    for leave in (take, Intake.drop_first):
        thing = Thing()
        alive = weakref.ref(thing)
        parts: list[object] = [None] * 4
        parts[part] = thing
        intake.put(*parts)
        del thing, parts
        assert alive() is not None
        leave(intake)
        gc.collect()
        assert alive() is None


@pytest.mark.parametrize("bringer_drops_last", [False, True])
@pytest.mark.parametrize("leave", [take, Intake.drop_first], ids=["take", "drop_first"])
@pytest.mark.parametrize("owner_takes", [False, True])
def test_references_that_change_threads_are_counted_exactly(
    owner_takes: bool, leave: Callable[[Intake], object], bringer_drops_last: bool
) -> None:
    intake, things = Intake(), [Thing() for _ in range(4)]
    before = [sys.getrefcount(thing) for thing in things]
    rounds = 200

    def bring() -> None:
        for _ in range(rounds):
            intake.put(*things)

    def drop() -> None:
        for _ in range(rounds):
            leave(intake)

    for work, is_elsewhere in ((bring, owner_takes), (drop, not owner_takes)):
        if is_elsewhere:
            on_another_thread(work)
        else:
            work()
    assert [sys.getrefcount(thing) for thing in things] == before
    alive = [weakref.ref(thing) for thing in things]
    intake.put(*things)
    if bringer_drops_last:
        on_another_thread(partial(leave, intake))
        things.clear()
    else:
        things.clear()
        on_another_thread(partial(leave, intake))
    gc.collect()
    assert [one() for one in alive] == [None] * 4


def test_what_is_in_it_goes_when_it_goes() -> None:
    intake, thing = Intake(), Thing()
    alive = weakref.ref(thing)
    intake.put(thing, thing, thing, thing)
    del intake, thing
    gc.collect()
    assert alive() is None


def test_the_garbage_collector_sees_a_ring_that_leads_through_it() -> None:
    intake, thing = Intake(), Thing()
    alive = weakref.ref(thing)
    thing.holds = intake  # type: ignore[attr-defined]
    intake.put(None, None, thing, None)
    del intake, thing
    gc.collect()
    assert alive() is None


def test_what_comes_after_the_beginning_waits_for_the_next_time() -> None:
    intake = Intake()
    put_number(intake, 1)
    put_number(intake, 2)
    intake.begin()
    seen: list[object] = []
    while intake.has_next():
        seen.append(next(iter(intake))[2])
        put_number(intake, 3)
        intake.drop_first()
    assert seen == [1, 2]
    assert taken(intake) == [3, 3]
