"""All of it at once, with actors in worker processes."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from greenroom import ActorSystem, Lane
from tests.conformance.lives import AT_ONCE
from tests.system.dispatchers.processes.conformance.home import Ear, away
from tests.system.dispatchers.processes.puppets import Puppet


@pytest.mark.parametrize("meanwhile", ["control", "log", "restart", "inspect"])
@pytest.mark.config(supervision=AT_ONCE)
async def test_whatever_comes_in_between_each_message_is_handled_once_and_in_order(
    system: ActorSystem, meanwhile: str
) -> None:
    # cases 1, 2
    dice = random.Random(7)
    lanes = {"control": Lane.CONTROL, "log": Lane.LOG}
    heard: list[Any] = []
    ref = away(system, Puppet, system.spawn(Ear, heard))
    await ref.started()
    others: list[Any] = []
    for n in range(600):
        ref.tell(n)
        if dice.random() < 0.2:
            if meanwhile in lanes:
                ref.tell((meanwhile, n), lane=lanes[meanwhile])
                others.append((meanwhile, n))
            elif meanwhile == "restart":
                ref.restart()
            else:
                others.append(asyncio.ensure_future(ref.inspect()))
        for _ in range(dice.randrange(8)):  # so that some of it is under way, and some is done
            await asyncio.sleep(0)
    await system.settle()
    assert [one for one in heard if isinstance(one, int)] == list(range(600))
    if meanwhile in lanes:
        assert [one for one in heard if not isinstance(one, int)] == others
    else:
        await asyncio.gather(*others)
