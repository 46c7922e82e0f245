"""What a system remembers of its actors' lives has a bound, however long it runs."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from greenroom import ActorSystem, Context, State
from greenroom.actor.life.stopping import KEPT, ForcedActors
from greenroom.exits import KILLED
from tests.conformance.lives import AT_ONCE, TRANSITIONS
from tests.conformance.sending import Echo, until

MANY = 2 * KEPT + 100


@pytest.mark.config(history=True)
async def test_the_history_of_an_actor_keeps_its_last_thousand_states(system: ActorSystem) -> None:  # M1
    ref = system.spawn(Echo, supervision=AT_ONCE)
    for _ in range(400):
        ref.restart()
        await ref.ask("again")
    assert len(ref.history) == 1000
    assert ref.history[0] is not State.CREATED
    assert all(there in TRANSITIONS[here] for here, there in pairwise(ref.history))
    assert ref.history[-1:] == (State.RUNNING,)
    ref.stop()
    await ref.terminated()
    assert len(ref.history) == 1000
    assert ref.history[-1:] == (State.TERMINATED,)


async def test_the_report_counts_those_that_were_forced_and_names_a_thousand(caplog: pytest.LogCaptureFixture) -> None:
    # M11
    hanging: list[str] = []

    async def hang(ctx: Context, message: Any) -> None:
        hanging.append(ctx.name)
        await asyncio.Event().wait()

    async with ActorSystem() as system:
        for number in range(MANY):
            system.spawn(hang, name=f"a{number}").tell("hang")
        await until(lambda: len(hanging) == MANY)
        await system.shutdown(timeout=0.0)
    assert system.report is not None
    assert len(set(system.report.forced)) == 2 * KEPT
    assert system.report.forced_count == MANY
    assert f"{MANY} forced" in caplog.text


def test_an_actor_that_is_noted_twice_counts_once_and_those_that_ended_are_not_kept() -> None:  # M11
    forced = ForcedActors()
    system = ActorSystem()
    for number in range(MANY):
        ref: Any = system.spawn(Echo, name=f"a{number}")
        forced.note(ref._cell)
        forced.note(ref._cell)
        system._life.finish(ref._cell, ref._cell.record, KILLED)
    assert forced.count == MANY
    assert forced.paths() == tuple(f"/a{number}" for number in (*range(KEPT), *range(MANY - KEPT, MANY)))
    assert len(forced._known) <= KEPT
