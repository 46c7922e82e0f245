"""Signals to all processes of a service: the main process handles them, and its workers work on until it has."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from greenroom import Actor, ActorSystem, Process, SystemConfig
from tests.system.dispatchers.processes.guests import Echo

DEADLINE = 120.0


class Starts(Actor[str, int]):
    """Starts another program, or a child of its own, terminates it, and answers how that ended."""

    def receive(self, message: str) -> int:
        if message == "program":
            program = subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(120)"])
            program.terminate()
            return program.wait()
        child = os.fork()
        if child == 0:
            signal.pause()
        os.kill(child, signal.SIGTERM)
        return -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_works_on_when_its_whole_group_is_signalled(number: signal.Signals) -> None:
    async def main() -> None:
        config = SystemConfig(dispatchers={"process": Process(workers=1)})
        async with asyncio.timeout(DEADLINE), ActorSystem(config=config) as system:
            ref = system.spawn(Echo, dispatcher="process")
            worker = await ref.ask("pid", timeout=DEADLINE)
            for _ in range(3):
                os.kill(worker, number)
            assert await ref.ask("pid", timeout=DEADLINE) == worker
        assert system.ledger().lost == 0

    asyncio.run(main())


@pytest.mark.parametrize("what", ["program", "child"])
def test_what_an_actor_in_a_worker_starts_can_be_terminated(what: str) -> None:
    with ActorSystem() as system:
        ref = system.spawn(Starts, dispatcher="process")
        assert abs(ref.ask_sync(what, timeout=DEADLINE)) == signal.SIGTERM
