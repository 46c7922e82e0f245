"""What nobody holds any more is forgotten: systems, with the actors that ended in them."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem
from greenroom.testing import Simulation


class Parent(Actor[str, ActorRef[Any, Any]]):
    def receive(self, message: str) -> ActorRef[Any, Any]:
        return self.ctx.spawn(Parent)


ENDS: dict[str, Callable[[ActorRef[Any, Any]], object]] = {
    "stopped": lambda ref: ref.stop(),
    "killed": lambda ref: ref.kill(),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("simulated", [False, True])
def test_a_system_that_has_a_dead_letter_for_an_ended_child_is_forgotten(end: str, simulated: bool) -> None:
    async def main() -> weakref.ref[ActorSystem]:
        async with ActorSystem() as system:
            child = await system.spawn(Parent).ask("a child")
            ENDS[end](child)
            await child.terminated()
            child.tell("too late")
            return weakref.ref(system)

    system = Simulation().run_main(main) if simulated else asyncio.run(main())
    gc.collect()
    assert system() is None
