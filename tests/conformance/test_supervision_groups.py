"""Siblings that are restarted together (M7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import ActorSystem, Backoff, Directive, ManualClock, OnRestart, Scope, State, Supervision
from greenroom.testing import TestProbe
from tests.conformance.lives import (
    ALL,
    ALONE,
    BAD,
    REST,
    AsyncPhoenix,
    Bird,
    Book,
    Gate,
    Phoenix,
    Ref,
    Troupe,
    assert_is_a_life,
    assert_legal,
    ended,
    every_phoenix,
    raises,
    settled,
    slow,
    soon,
)
from tests.conftest import Play
from tests.gates import turns


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
) -> None:  # case 43, cases 33 and 34 for a plain Supervision
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
async def test_they_leave_in_reverse_and_start_in_order(system: ActorSystem) -> None:
    # cases 33 and 43, case 34, decision 015
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
async def test_two_that_fail_in_one_tick_restart_everybody_once(system: ActorSystem, kind: Any, failing: Any) -> None:
    # cases 33, 34, 43
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
) -> None:  # cases 33, 34, 43
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
async def test_two_groups_that_overlap_are_one(play: Play, system: ActorSystem, failing: tuple[int, int]) -> None:
    # cases 33, 34, 43
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


async def test_the_group_is_every_sibling_whatever_its_own_supervision_says(system: ActorSystem) -> None:
    # cases 33, 34, 43: decision 015
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


async def test_the_restart_counts_for_the_one_that_failed_and_not_for_its_siblings(system: ActorSystem) -> None:
    # cases 33, 34, 43: decision 015
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


async def test_siblings_are_restarted_with_the_cause_of_the_one_that_failed(system: ActorSystem) -> None:
    # cases 33, 34, 43, M6
    troupe = Troupe(system, Phoenix, ALL, ALL)
    refs = await troupe.begin()
    refs[0].tell(BAD)
    await settled(troupe)
    assert [book.actors[0].cause for book in troupe.books] == [BAD, BAD]
    assert [book.actors[1].state for book in troupe.books] == ["state of 1"] * 2


async def test_each_keeps_or_clears_its_own_queue(system: ActorSystem) -> None:  # cases 33, 34, 43, 46
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


async def test_those_that_are_ending_or_born_meanwhile_take_no_part(system: ActorSystem) -> None:
    # cases 33, 34, 43: decision 015
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
) -> None:  # cases 33, 34, 42, 43
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
) -> None:  # M3, case 43's neighbour
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
) -> None:  # M3
    Play("asyncio")(
        lambda system: give_orders(system, orders, supervisions, first, hold=hold),
        history=True,
        clock=ManualClock(),
        stop_timeout=1e6,
    )


@every_phoenix
@pytest.mark.parametrize("budget", [1, 2, 3, 4])
@pytest.mark.parametrize("supervision", [ALL, REST], ids=["all", "rest"])
def test_wherever_a_tick_ends_nobody_is_stranded_and_they_start_in_order(
    play: Play, kind: Any, supervision: Supervision, budget: int
) -> None:  # M3, case 43's neighbours: failures in ticks that follow one another
    for failing in ((0, 1, 2), (2, 1, 0), (1, 2), (2, 1), (0, 2), (1, 0, 2)):

        async def program(system: ActorSystem, failing: Any = failing) -> None:
            troupe = Troupe(system, kind, supervision, supervision, supervision)
            refs = await troupe.begin()
            for number in failing:
                refs[number].tell(BAD)
                refs[number].tell("queued")
            await settled(troupe)
            assert [book.heard for book in troupe.books] == [
                ["queued"] if number in failing else [] for number in range(3)
            ]
            last = "".join(sorted(troupe.came()[-2:]))
            assert troupe.came()[-2:] == last, f"they start in order, not {troupe.came()}"
            troupe.assert_legal()

        play(program, history=True, max_actors_per_tick=budget, max_tick_time=10.0)


@pytest.mark.parametrize("supervision", [ALL, REST], ids=["all", "rest"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.config(history=True)
async def test_a_sibling_that_fails_by_itself_while_the_group_waits_for_it_strands_nobody(
    system: ActorSystem, supervision: Supervision, first: int
) -> None:  # M3, case 43's neighbour
    troupe = Troupe(system, AsyncPhoenix, supervision, supervision, supervision)
    refs = await troupe.begin()
    gate = Gate()

    async def wait_and_fail(me: Any) -> None:
        await gate.wait()
        raise LookupError("by itself")

    refs[first + 1].tell(wait_and_fail)
    refs[first + 1].tell("queued")
    await gate.entered.wait()
    refs[first].tell(BAD)
    await turns(20)
    assert troupe.came() == ""
    gate.opened.set()
    await settled(troupe)
    assert troupe.books[first + 1].heard == ["queued"]
    for ref in refs:
        assert await soon(system, ref.ask("there")) == "there"
    troupe.assert_legal()


@pytest.mark.parametrize("supervision", [ALL, REST], ids=["all", "rest"])
@pytest.mark.parametrize("hook", ["pre_start", "post_restart", "post_start"])
@pytest.mark.config(history=True)
async def test_a_sibling_that_is_being_started_alone_leaves_with_the_group_and_waits_for_it(
    system: ActorSystem, supervision: Supervision, hook: str
) -> None:  # M3, case 43's neighbour: it is running again before it is told to leave
    troupe = Troupe(system, AsyncPhoenix, supervision, supervision, REST)
    refs = await troupe.begin()
    starting, leaving = Gate(), Gate()
    troupe.books[2].acts[f"{hook} 2"] = starting.wait
    troupe.books[1].acts["pre_restart 1"] = leaving.wait
    refs[2].tell(BAD)
    await starting.entered.wait()
    refs[1].tell(BAD)
    await leaving.entered.wait()
    starting.opened.set()
    await turns(20)
    assert troupe.came() == "c"  # it has left once more, and the one before it has not yet
    leaving.opened.set()
    await settled(troupe)
    assert troupe.came() == ("cabc" if supervision is ALL else "cbc")
    troupe.assert_legal()


@pytest.mark.parametrize("hook", ["init", "pre_start", "post_restart", "post_start"])
@every_phoenix
def test_a_sibling_that_fails_in_its_start_is_restarted_with_the_group(play: Play, kind: Any, hook: str) -> None:
    # case 43, M3
    # case 32's neighbour: counted, retried
    for failing in range(3):

        async def program(system: ActorSystem, failing: int = failing) -> None:
            troupe = Troupe(system, kind, ALL, ALL, ALL)
            refs = await troupe.begin()
            troupe.books[failing].acts[f"{hook} 2"] = raises(LookupError("in the start"))
            refs[1].tell(BAD)
            refs[1].tell("queued")
            await settled(troupe)
            assert all(ref.state is State.RUNNING for ref in refs)
            assert troupe.books[1].heard == ["queued"]
            assert troupe.books[failing].lives == 3
            for ref in refs:
                assert await soon(system, ref.ask("there")) == "there"
            troupe.assert_legal()

        play(program, history=True)


def test_a_sibling_whose_start_fails_for_good_does_not_hold_up_the_others(play: Play) -> None:  # case 43, M3, M7
    once = Supervision(scope=Scope.ONE_FOR_ONE, max_restarts=0)
    for failing in range(3):

        async def program(system: ActorSystem, failing: int = failing) -> None:
            supervisions = [ALL, ALL, ALL]
            supervisions[failing] = once
            troupe = Troupe(system, Phoenix, *supervisions)
            refs = await troupe.begin()
            troupe.books[failing].acts["pre_start 2"] = raises(LookupError("in the start"))
            refs[(failing + 1) % 3].tell(BAD)
            await settled(troupe)
            await ended(system, refs[failing])
            for number, ref in enumerate(refs):
                assert ref.is_alive is (number != failing)
            troupe.assert_legal()

        play(program, history=True)


async def test_siblings_with_a_handler_in_hand_finish_it_first(system: ActorSystem) -> None:  # case 43, M2, M3
    troupe = Troupe(system, AsyncPhoenix, ALL, ALL, ALL)
    refs = await troupe.begin()
    gate = Gate()
    asked = refs[2].ask(gate.wait)
    await gate.entered.wait()
    refs[0].tell(BAD)
    await turns(30)
    assert troupe.came() == ""
    assert refs[0].state is refs[1].state is State.RESTARTING
    assert refs[2].state is State.RUNNING
    gate.opened.set()
    assert await asked is None
    await settled(troupe)
    assert troupe.came() == "abc"
    assert troupe.lives == [2, 2, 2]


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.config(stop_timeout=3.0, history=True)
async def test_a_sibling_that_hangs_is_broken_off_at_the_deadline(
    system: ActorSystem, clock: ManualClock, stubborn: bool
) -> None:  # case 43, M3, M5, M7
    troupe = Troupe(system, AsyncPhoenix, ALL, ALL)
    refs = await troupe.begin()
    gate = Gate(stubborn)
    refs[1].tell(gate.wait)
    refs[1].tell("queued")
    await clock.advance(0.0)
    refs[0].tell(BAD)
    await clock.advance(2.5)
    assert troupe.lives == [1, 1]
    await clock.advance(5.0)
    assert troupe.lives == [2, 2]
    assert troupe.books[1].heard == ["queued"]
    assert all(ref.state is State.RUNNING for ref in refs)
    troupe.assert_legal()
    gate.opened.set()


@pytest.mark.parametrize(("own", "due"), [(2.0, 4.0), (8.0, 8.0)])
@pytest.mark.config(history=True)
async def test_a_sibling_that_waits_for_its_own_backoff_waits_with_the_group(
    system: ActorSystem, clock: ManualClock, own: float, due: float
) -> None:  # case 43, M3
    # decision 015: the longest backoff among them
    everybody = slow(3.0, scope=Scope.ONE_FOR_ALL)
    troupe = Troupe(system, Phoenix, everybody, slow(own), slow(1.0))
    refs = await troupe.begin()
    refs[1].tell(BAD)
    await clock.advance(1.0)
    refs[0].tell(BAD)  # due at 4
    await clock.advance(due - 1.5)
    assert troupe.lives == [1, 1, 1]
    assert [ref.state for ref in refs] == [State.RESTARTING] * 3
    await clock.advance(0.5)
    assert troupe.lives == [2, 2, 2]
    assert troupe.came() == "abc"
    await clock.advance(50.0)
    assert troupe.lives == [2, 2, 2]
    troupe.assert_legal()


def test_a_second_failure_during_the_backoff_of_the_group_is_not_possible_but_a_stop_is(play: Play) -> None:
    # case 43, M3
    # decision 015: a stop ends a waiting restart
    acts: list[Callable[[Ref], Any]] = [lambda ref: ref.stop(), lambda ref: ref.kill()]
    for act in acts:
        for who in range(3):
            clock = ManualClock()

            async def program(system: ActorSystem, act: Any = act, who: int = who, clock: ManualClock = clock) -> None:
                troupe = Troupe(system, Phoenix, *[slow(2.0, scope=Scope.ONE_FOR_ALL)] * 3)
                refs = await troupe.begin()
                refs[1].tell(BAD)
                await clock.advance(1.0)
                assert [ref.state for ref in refs] == [State.RESTARTING] * 3
                act(refs[who])
                await ended(system, refs[who])
                assert_is_a_life(refs[who].history, killed=True)
                await clock.advance(0.5)
                assert troupe.lives == [1, 1, 1]
                await clock.advance(0.5)
                assert troupe.lives == [1 if number == who else 2 for number in range(3)]
                assert all(ref.state is State.RUNNING for number, ref in enumerate(refs) if number != who)

            play(program, clock=clock, history=True)


@pytest.mark.parametrize("who", [0, 1, 2])
@pytest.mark.config(history=True)
async def test_a_stop_of_a_sibling_that_leaves_slowly_does_not_hold_up_the_group(system: ActorSystem, who: int) -> None:
    # case 43, M3, M5, M7
    troupe = Troupe(system, AsyncPhoenix, ALL, ALL, ALL)
    refs = await troupe.begin()
    gate = Gate()
    troupe.books[who].acts["post_stop 1"] = gate.wait
    refs[1].tell(BAD)
    await gate.entered.wait()
    await turns()
    refs[who].stop()
    await turns()
    assert troupe.came() == ""
    gate.opened.set()
    await ended(system, refs[who])
    await settled(troupe)
    assert troupe.lives == [1 if number == who else 2 for number in range(3)]
    troupe.assert_legal()


@pytest.mark.parametrize("how", ["stop", "kill", "fail", "restart"])
@pytest.mark.parametrize("who", [0, 1, 2])
@pytest.mark.config(history=True)
async def test_whatever_befalls_a_sibling_in_its_start_the_group_goes_on(
    system: ActorSystem, who: int, how: str
) -> None:  # case 43, M3, M7
    troupe = Troupe(system, AsyncPhoenix, ALL, ALL, ALL)
    refs = await troupe.begin()
    gate = Gate()
    troupe.books[who].acts["pre_start 2"] = gate.wait
    refs[1].tell(BAD)
    await gate.entered.wait()
    await turns()
    refs[who].fail(LookupError("again")) if how == "fail" else getattr(refs[who], how)()
    await turns()
    gate.opened.set()
    await settled(troupe)
    for number, ref in enumerate(refs):
        if number != who or how in ("fail", "restart"):
            assert ref.state is State.RUNNING, (number, ref.state, troupe.log)
            assert await soon(system, ref.ask("there")) == "there"
        assert_legal(ref.history, killed=True)


@pytest.mark.config(history=True)
async def test_a_restart_of_a_sibling_during_the_backoff_of_the_group_strands_nobody(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 43, M3: decision 014
    troupe = Troupe(system, Phoenix, *[slow(2.0, scope=Scope.ONE_FOR_ALL)] * 3)
    refs = await troupe.begin()
    refs[0].tell(BAD)
    await clock.advance(1.0)
    refs[1].restart()
    await clock.advance(0.5)
    assert refs[1].state is State.RUNNING  # at once
    await clock.advance(5.0)
    assert [ref.state for ref in refs] == [State.RUNNING] * 3
    assert troupe.lives == [2, 2, 2]
    troupe.assert_legal()


@pytest.mark.parametrize("how", ["parent", "restart", "shutdown"])
@pytest.mark.config(history=True)
async def test_the_end_of_their_parent_ends_a_group_restart(system: ActorSystem, clock: ManualClock, how: str) -> None:
    # case 43, M3, decision 015, case 59
    troupe = Troupe(system, Phoenix, *[slow(2.0, scope=Scope.ONE_FOR_ALL)] * 3)
    refs = await troupe.begin()
    refs[0].tell(BAD)
    await clock.advance(1.0)
    if how == "shutdown":
        await system.shutdown()
    else:
        troupe.parent.restart() if how == "restart" else troupe.parent.stop()
    for ref in refs:
        await ended(system, ref)
        assert_is_a_life(ref.history)
    await clock.advance(10.0)
    assert troupe.lives == [1, 1, 1]
