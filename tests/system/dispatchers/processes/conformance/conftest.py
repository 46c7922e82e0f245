"""A system whose actors live in one worker process, which runs when the test begins."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import ActorSystem, Process, Supervision
from tests.conftest import Play, Program
from tests.system.dispatchers.processes.conformance.home import away
from tests.system.dispatchers.processes.puppets import Puppet


class PlayInWorker(Play):
    """Runs a test when its worker has started: a fresh interpreter takes seconds for that on a busy machine."""

    def __call__(self, program: Program, *, root: Any = None, **config: Any) -> ActorSystem:
        async def when_started(system: ActorSystem) -> None:
            first = away(system, Puppet)
            await first.started()
            first.kill()
            await first.terminated()
            await program(system)
            if system.phase == "running":
                await system.settle()

        return super().__call__(when_started, root=root, **config)


@pytest.fixture
def play() -> Play:
    dispatchers = {"process": Process(workers=1)}
    return PlayInWorker("asyncio", dispatchers=dispatchers, supervision=Supervision(backoff=None), history=True)
