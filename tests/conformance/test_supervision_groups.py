"""Siblings that are restarted together, by the scope of a plain `Supervision` (M7; cases 33, 34, 43; decision 015)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, Backoff, Directive, ManualClock, OnRestart, Scope, State, Supervision
from greenroom.testing import TestProbe
from tests.conformance.incarnations import (
    AsyncPhoenix,
    Bird,
    Book,
    Gate,
    Phoenix,
    every_phoenix,
    soon,
    turns,
)
from tests.conformance.lives import ended
from tests.conformance.troupe import ALL, ALONE, BAD, REST, Troupe, settled

if TYPE_CHECKING:
    from tests.conftest import Play


@every_phoenix
@pytest.mark.parametrize(
    "top",
    [
        pytest.param(False, id="below a parent"),
        # Siblings at the top live on several loops, which leave and start in order each by itself.
        pytest.param(True, id="at the top", marks=pytest.mark.at_home("spread")),
    ],
)
@pytest.mark.parametrize(
    ("supervision", "failing", "left", "came"),
    [
        (ALL, 0, "cba", "abc"),
        (ALL, 1, "cba", "abc"),
        (ALL, 2, "cba", "abc"),
        (REST, 0, "cba", "abc"),
        (REST, 1, "cb", "bc"),
        (REST, 2, "c", "c"),
        (ALONE, 1, "b", "b"),
    ],
)
@pytest.mark.config(history=True)
async def test_who_is_restarted_and_in_which_order(
    system: ActorSystem, kind: Any, supervision: Supervision, failing: int, left: str, came: str, top: bool
) -> None:  # cases 33 and 34 for a plain Supervision
    probe = TestProbe(system, name="probe") if not top else None
    troupe = Troupe(system, kind, supervision, supervision, supervision, top=top)
    refs = await troupe.begin()
    for ref in refs:
        ref.tell("before")
    if probe is not None:
        for ref in refs:
            await probe.watch(ref)
    refs[failing].tell(BAD)
    for ref in refs:
        ref.tell("after")
    await settled(troupe)
    assert sorted(troupe.left()) == sorted(left)
    assert troupe.came() == came
    last_left = max(number for number, line in enumerate(troupe.log) if " post_stop " in line)
    first_came = min(number for number, line in enumerate(troupe.log) if " init " in line)
    assert last_left < first_came  # they start when the last is at rest
    starts = [line for line in troupe.log[first_came:] if not line.startswith(" ")]
    assert "".join(line[0] for line in starts) == "".join(letter * 5 for letter in came)  # one after the other
    assert [book.heard for book in troupe.books] == [["before", "after"]] * 3
    troupe.assert_legal()
    if probe is not None:
        await probe.expect_no()


@pytest.mark.at_home
@pytest.mark.fifo
async def test_they_leave_in_reverse_and_start_in_order(system: ActorSystem) -> None:  # case 34, decision 015
    troupe = Troupe(system, Phoenix, *[ALL] * 4)
    refs = await troupe.begin()
    refs[3].tell(BAD)  # the youngest: nobody has to be behind it
    await settled(troupe)
    assert troupe.left() == "dcba"
    assert troupe.came() == "abcd"


# A handler that suspends ends in a later tick, in which the other may have failed or not. On threads, any handler does.
@pytest.mark.at_home
@pytest.mark.parametrize("kind", [Phoenix, pytest.param(AsyncPhoenix, marks=pytest.mark.fifo)], ids=["sync", "async"])
@pytest.mark.parametrize("failing", [(0, 1), (1, 0), (0, 2), (2, 1, 0), (0, 1, 2)])
@pytest.mark.config(history=True, max_tick_time=10.0)
async def test_two_that_fail_in_one_tick_restart_everybody_once(
    system: ActorSystem, kind: Any, failing: Any
) -> None:  # case 43
    troupe = Troupe(system, kind, ALL, ALL, ALL)
    refs = await troupe.begin()
    for number in failing:
        refs[number].tell(BAD)
    await soon(system, system.settle())  # there is nothing to do outside, so all of them fail in the next tick
    assert troupe.lives == [2, 2, 2]
    assert troupe.came() == "abc"
    troupe.assert_legal()


@every_phoenix
@pytest.mark.parametrize("failing", [(0, 1), (1, 0), (0, 2), (2, 1, 0), (0, 1, 2)])
@pytest.mark.config(history=True)
async def test_however_failures_meet_everybody_is_restarted_once_for_each_at_most(
    system: ActorSystem, kind: Any, failing: Any
) -> None:  # case 43
    troupe = Troupe(system, kind, ALL, ALL, ALL)
    refs = await troupe.begin()
    for number in failing:
        refs[number].tell(BAD)
    await settled(troupe)
    assert all(2 <= lives <= 1 + len(failing) for lives in troupe.lives)
    assert sum(system.ledger(ref).failed for ref in refs) == len(failing)
    troupe.assert_legal()


@pytest.mark.parametrize("failing", [(1, 2), (2, 1), (0, 2)])
@pytest.mark.config(history=True, max_tick_time=10.0)
async def test_two_groups_that_overlap_are_one(
    play: Play, system: ActorSystem, failing: tuple[int, int]
) -> None:  # case 43
    troupe = Troupe(system, Phoenix, REST, REST, REST)
    refs = await troupe.begin()
    for number in failing:
        refs[number].tell(BAD)
    await soon(system, system.settle())
    first = min(failing)
    once = [2 if number >= first else 1 for number in range(3)]
    if play.is_elsewhere:  # there, one group may be back before the other fails
        most = [1 + sum(one <= number for one in failing) for number in range(3)]
        assert all(least <= lives <= more for least, lives, more in zip(once, troupe.lives, most, strict=True))
    else:
        assert troupe.lives == once
        assert troupe.came() == "abc"[first:]
    troupe.assert_legal()


async def test_the_group_is_every_sibling_whatever_its_own_supervision_says(
    system: ActorSystem,
) -> None:  # decision 015
    troupe = Troupe(system, Phoenix, Supervision(Directive.STOP), ALL, Supervision(Directive.RESUME), ALONE)
    refs = await troupe.begin()
    cousin_book = Book()
    cousin = system.spawn(Phoenix, cousin_book)
    refs[1].tell(BAD)
    await settled(troupe)
    assert troupe.lives == [2, 2, 2, 2]
    assert await cousin.ask("hello") == "hello"
    assert cousin_book.lives == 1
    assert troupe.parent.state is State.RUNNING


async def test_the_restart_counts_for_the_one_that_failed_and_not_for_its_siblings(
    system: ActorSystem,
) -> None:  # decision 015
    limited = Supervision(scope=Scope.ONE_FOR_ALL, max_restarts=2, within=100.0, backoff=None)
    troupe = Troupe(system, Phoenix, limited, limited)
    refs = await troupe.begin()
    for number in (0, 0, 1, 1):
        refs[number].tell(BAD)
        await settled(troupe)
    assert troupe.lives == [5, 5]
    refs[0].tell(BAD)
    assert (await ended(system, refs[0])).cause is BAD
    assert refs[1].state is State.RUNNING
    assert troupe.lives == [5, 5]


async def test_siblings_are_restarted_with_the_cause_of_the_one_that_failed(system: ActorSystem) -> None:  # M6
    troupe = Troupe(system, Phoenix, ALL, ALL)
    refs = await troupe.begin()
    refs[0].tell(BAD)
    await settled(troupe)
    assert [book.actors[0].cause for book in troupe.books] == [BAD, BAD]
    assert [book.actors[1].state for book in troupe.books] == ["state of 1"] * 2


async def test_each_keeps_or_clears_its_own_queue(system: ActorSystem) -> None:  # case 46
    clearing = Supervision(scope=Scope.ONE_FOR_ALL, backoff=None, mailbox=OnRestart.CLEAR)
    troupe = Troupe(system, AsyncPhoenix, ALL, clearing)
    refs = await troupe.begin()
    gates = [Gate(), Gate()]
    for ref, gate in zip(refs, gates, strict=True):
        ref.tell(gate.wait)
        ref.tell("queued")
        await gate.entered.wait()
    refs[0].fail(BAD)
    for gate in gates:
        gate.opened.set()
        await turns(20)
    await settled(troupe)
    assert [book.heard for book in troupe.books] == [["queued"], []]
    assert [letter.message for letter in system.dead_letters.recent()] == ["queued"]


async def test_those_that_are_ending_or_born_meanwhile_take_no_part(system: ActorSystem) -> None:  # decision 015
    troupe = Troupe(system, AsyncPhoenix, ALL, ALL)
    refs = await troupe.begin()
    gate = Gate()
    troupe.books[1].acts["pre_stop"] = gate.wait
    refs[1].stop()
    await gate.entered.wait()
    refs[0].tell(BAD)
    late = Book()
    await turns(30)
    newcomer = system.spawn(Bird, late, parent=troupe.parent)
    await soon(system, refs[0].ask("hello"))
    assert troupe.lives == [2, 1]
    gate.opened.set()
    await ended(system, refs[1])
    assert await newcomer.ask("hello") == "hello"
    assert (troupe.lives, late.lives) == ([2, 1], 1)


async def test_the_backoff_of_a_group_grows_as_that_of_the_one_that_fails(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 42
    growing = Supervision(scope=Scope.ONE_FOR_ALL, max_restarts=None, within=1.0, backoff=Backoff(min=0.25, max=1.0))
    troupe = Troupe(system, Phoenix, growing, growing)
    refs = await troupe.begin()
    for number, delay in enumerate((0.25, 0.5, 1.0, 1.0), start=1):
        refs[1].tell(BAD)
        await clock.advance(delay - 0.125)
        assert troupe.lives == [number, number]
        await clock.advance(0.125)
        assert troupe.lives == [number + 1, number + 1]
    refs[0].tell(BAD)  # its own first failure
    await clock.advance(0.25)
    assert troupe.lives == [6, 6]
