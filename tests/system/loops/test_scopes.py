"""Siblings at the top that are restarted together, though they are on different loops."""

from __future__ import annotations

import asyncio
from threading import Barrier, get_ident
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Backoff, Directive, ManualClock, Scope, Supervision
from tests.gates import Gate, turns

LOOPS = 3
Log = list[tuple[str, int]]


class Member(Actor[Any, Any]):
    """Writes down when it is made, and when it leaves."""

    def __init__(self, number: int, log: Log) -> None:
        self.number = number
        self.log = log
        log.append(("made", number))

    def pre_restart(self, cause: BaseException | None) -> None:
        self.log.append(("left", self.number))

    async def receive(self, message: Any) -> int:
        if message == "fail":
            raise LookupError("on purpose")
        if isinstance(message, Barrier):
            message.wait(60)
            raise LookupError("on purpose, at the same time")
        if isinstance(message, Gate):
            self.log.append(("waits", self.number))
            await message
        return get_ident()


def together(scope: Scope, **policy: Any) -> Supervision:
    return Supervision(Directive.RESTART, scope=scope, **{"backoff": None, **policy})


async def spawn_all(system: ActorSystem, supervision: Supervision, log: Log) -> list[ActorRef[Any, Any]]:
    """One on each loop."""
    refs = [system.spawn(Member, number, log, supervision=supervision, dispatcher="spread") for number in range(LOOPS)]
    assert len({await ref.ask("where") for ref in refs}) == LOOPS
    log.clear()
    return refs


@pytest.mark.parametrize("failing", range(LOOPS))
async def test_one_for_all_restarts_all_and_none_before_all_have_left(system: ActorSystem, failing: int) -> None:
    log: Log = []
    refs = await spawn_all(system, together(Scope.ONE_FOR_ALL), log)
    refs[failing].tell("fail")
    await system.settle()
    for ref in refs:
        assert await ref.ask("where")
    assert sorted(log[:LOOPS]) == [("left", number) for number in range(LOOPS)]
    assert sorted(log[LOOPS:]) == [("made", number) for number in range(LOOPS)]


@pytest.mark.parametrize("failing", range(LOOPS))
async def test_rest_for_one_restarts_those_that_were_spawned_later_on_whichever_loop(
    system: ActorSystem, failing: int
) -> None:
    log: Log = []
    refs = await spawn_all(system, together(Scope.REST_FOR_ONE), log)
    refs[failing].tell("fail")
    await system.settle()
    assert sorted(number for what, number in log if what == "made") == list(range(failing, LOOPS))


@pytest.mark.config(stop_timeout=120.0)
async def test_none_is_started_while_one_has_a_message_in_hand(system: ActorSystem) -> None:
    log: Log = []
    refs = await spawn_all(system, together(Scope.ONE_FOR_ALL), log)
    gate = Gate()
    slow = asyncio.ensure_future(refs[1].ask(gate, timeout=None))
    while log != [("waits", 1)]:
        await turns(1)
    log.clear()
    refs[0].tell("fail")
    while ("left", 0) not in log or ("left", 2) not in log:
        await turns(1)
    assert [what for what, _ in log] == ["left", "left"]
    gate.set_result(None)
    await slow
    await system.settle()
    assert sorted(log[:LOOPS]) == [("left", number) for number in range(LOOPS)]
    assert sorted(log[LOOPS:]) == [("made", number) for number in range(LOOPS)]


@pytest.mark.parametrize("scope", [Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE])
async def test_those_that_fail_at_the_same_time_on_different_loops_all_come_back(
    system: ActorSystem, scope: Scope
) -> None:
    log: Log = []
    refs = await spawn_all(system, together(scope, max_restarts=1000), log)
    for _ in range(30):
        at_once = Barrier(LOOPS)
        for ref in refs:
            ref.tell(at_once)
        await system.settle()
        assert len({await ref.ask("where") for ref in refs}) == LOOPS


async def test_the_backoff_of_one_holds_for_all(system: ActorSystem, clock: ManualClock) -> None:
    log: Log = []
    refs = await spawn_all(system, together(Scope.ONE_FOR_ALL, backoff=Backoff(min=5.0, max=5.0, jitter=0.0)), log)
    refs[2].tell("fail")
    await system.settle()
    assert sorted(log) == [("left", number) for number in range(LOOPS)]
    await clock.advance(4.9)
    assert len(log) == LOOPS
    await clock.advance(0.2)
    await system.settle()
    assert sorted(log[LOOPS:]) == [("made", number) for number in range(LOOPS)]
    assert all([await ref.ask("where") for ref in refs])


async def test_one_that_has_ended_is_not_waited_for(system: ActorSystem) -> None:
    log: Log = []
    refs = await spawn_all(system, together(Scope.ONE_FOR_ALL), log)
    refs[1].stop()
    await refs[1].terminated()
    refs[0].tell("fail")
    await system.settle()
    assert sorted(number for what, number in log if what == "made") == [0, 2]


async def test_children_are_restarted_with_siblings_of_their_own_alone(system: ActorSystem) -> None:
    class Parent(Actor[Any, Any]):
        def __init__(self, log: Log, offset: int) -> None:
            self.log, self.offset = log, offset

        def pre_start(self) -> None:
            policy = together(Scope.ONE_FOR_ALL)
            self.members = [
                self.ctx.spawn(Member, self.offset + number, self.log, supervision=policy) for number in range(2)
            ]

        def receive(self, message: Any) -> Any:
            self.members[0].tell(message)

    log: Log = []
    parents = [system.spawn(Parent, log, 10 * number, dispatcher="spread") for number in range(LOOPS)]
    await system.settle()
    log.clear()
    parents[1].tell("fail")
    await system.settle()
    assert sorted(number for what, number in log if what == "made") == [10, 11]
