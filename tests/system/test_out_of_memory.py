"""No memory left: to an actor a failure like any other; a system loses no message, and goes on (J1, B4)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, ExitKind, Supervision
from greenroom.errors import GreenroomError

DISPATCHERS = ["concurrent", "parallel", "pinned", "process"]
PATIENCE = 120.0
ROOT = Path(__file__).parents[2]


class Hungry(Actor[Any, Any]):
    """Runs out of memory where it is told to."""

    def __init__(self, where: str) -> None:
        self.where = where

    def want(self, where: str) -> None:
        if where == self.where:
            raise MemoryError(where)

    def pre_start(self) -> None:
        self.want("pre_start")

    def receive(self, message: Any) -> Any:
        self.want("receive")
        if message == "large":
            raise MemoryError(message)
        return message

    async def pre_stop(self) -> None:
        self.want("pre_stop")

    def post_stop(self) -> None:
        self.want("post_stop")


class TooLarge:
    """A message for which there is no memory when it is packed."""

    def __reduce__(self) -> Any:
        raise MemoryError("packing")


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.config(supervision=Supervision(backoff=None))
async def test_a_handler_without_memory_fails_as_any_other(system: ActorSystem, dispatcher: str) -> None:
    ref = system.spawn(Hungry, "", dispatcher=dispatcher)
    with pytest.raises(MemoryError):
        await ref.ask("large", timeout=None)
    assert await ref.ask("small", timeout=None) == "small"
    await system.settle()
    assert (system.ledger(ref).failed, system.ledger(ref).handled) == (1, 1)


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize("where", ["pre_start", "pre_stop", "post_stop"])
async def test_a_hook_without_memory_fails_as_any_other(system: ActorSystem, where: str, dispatcher: str) -> None:
    ref = system.spawn(Hungry, where, dispatcher=dispatcher)
    if where == "pre_start":
        with pytest.raises(MemoryError):
            await ref.started()
    else:
        await ref.started()
        ref.stop()
    reason = await ref.terminated()
    assert reason.kind is (ExitKind.FAIL if where == "pre_start" else ExitKind.NORMAL)


async def test_a_message_without_memory_to_pack_it_is_refused_at_its_sender(system: ActorSystem) -> None:
    ref = system.spawn(Hungry, "", dispatcher="process")
    with pytest.raises((GreenroomError, MemoryError)):
        ref.tell(TooLarge())
    assert await ref.ask("small", timeout=None) == "small"
    assert system.ledger(ref).sent == 1


PROGRAM = """
import asyncio, resource, sys, threading
from greenroom import Actor, ActorSystem, Lane, MailboxConfig, SystemConfig
from greenroom.testing import assert_ledger_balanced

ENOUGH = 20_000_000
MAILBOX = MailboxConfig(capacity=2**28, lanes={Lane.LOG: 2**28})

class Sink(Actor):
    def receive(self, message): return message

def limit(more):
    with open("/proc/self/statm") as file:
        resource.setrlimit(resource.RLIMIT_AS, (int(file.read().split()[0]) * 4096 + more, resource.RLIM_INFINITY))

def flood(act):
    sent = 0
    try:
        while sent < ENOUGH:
            act()
            sent += 1
    except MemoryError:
        pass
    return sent

async def main(what):
    async with ActorSystem(config=SystemConfig(mailbox=MAILBOX, stuck_after=0.0)) as system:
        ref = system.spawn(Sink)
        await ref.started()
        sent = []
        if what == "thread":
            limited = threading.Event()
            other = threading.Thread(target=lambda: (limited.wait(), sent.append(flood(lambda: ref.tell(None)))))
            other.start()  # while there is memory for it
            limit(16 << 20)
            limited.set()
            other.join()  # so the loop comes to what it has sent when there is no memory for so large a mailbox
            for _ in range(10):
                await asyncio.sleep(0)
        else:
            # Little enough for a mailbox to be what cannot grow. Where not even a number can be made, CPython 3.11
            # itself goes round in circles: it wants one for every handler that an exception comes by.
            limit((10 if what == "log" else 16) << 20)
            acts = {
                "data": lambda: ref.tell(None),
                "log": lambda: ref.tell(None, lane=Lane.LOG),
                "spawn": lambda: system.spawn(Sink),
            }
            sent.append(flood(acts[what]))
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await system.settle(100.0)
        if what == "spawn":
            assert len(system.actors()) == sent[0] + 1, (len(system.actors()), sent)
        else:
            assert system.ledger(ref).handled == sent[0] > 0, (system.ledger(ref), sent)
        assert await ref.ask("still there", timeout=None) == "still there"
        await system.shutdown(100.0)
    assert_ledger_balanced(system)
    assert system.report.forced == ()
    assert system.report.started == system.report.terminated
    assert system.report.seconds < 60.0, system.report
    print("all is well")

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs to know the memory in use")
@pytest.mark.parametrize("what", ["data", "log", "thread", "spawn"])
def test_a_flood_until_there_is_no_memory_loses_nothing(what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what], capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT, check=False
    )
    assert done.stdout == "all is well\n", done.stderr
