"""Groups of siblings in trouble while they are restarted (M3, M7; case 43 and its neighbours; decision 015)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, ManualClock, Scope, State, Supervision
from tests.conformance.incarnations import (
    AsyncPhoenix,
    Gate,
    Phoenix,
    Ref,
    assert_legal,
    every_phoenix,
    slow,
    soon,
    turns,
)
from tests.conformance.lives import assert_is_a_life, ended, raises
from tests.conformance.troupe import ALL, BAD, REST, Troupe, settled

if TYPE_CHECKING:
    from tests.conftest import Play


@every_phoenix
@pytest.mark.parametrize("budget", [1, 2, 3, 4])
@pytest.mark.parametrize("supervision", [ALL, REST], ids=["all", "rest"])
def test_wherever_a_tick_ends_nobody_is_stranded_and_they_start_in_order(
    play: Play, kind: Any, supervision: Supervision, budget: int
) -> None:  # case 43's neighbours: failures in ticks that follow one another
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
) -> None:  # case 43's neighbour
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
) -> None:  # case 43's neighbour: it is running again before it is told to leave
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


def test_a_sibling_whose_start_fails_for_good_does_not_hold_up_the_others(play: Play) -> None:  # M3, M7
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


async def test_siblings_with_a_handler_in_hand_finish_it_first(system: ActorSystem) -> None:  # M2, case 43
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
) -> None:  # M5, M7
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
) -> None:
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
async def test_a_stop_of_a_sibling_that_leaves_slowly_does_not_hold_up_the_group(
    system: ActorSystem, who: int
) -> None:  # M5, M7
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
) -> None:  # M3, M7
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
) -> None:  # decision 014
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
async def test_the_end_of_their_parent_ends_a_group_restart(
    system: ActorSystem, clock: ManualClock, how: str
) -> None:  # decision 015, case 59
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
