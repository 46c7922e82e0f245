"""Sixteen threads send while the actor they send to fails, and is restarted, again and again (R2)."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, MailboxFull, Supervision, SystemConfig
from greenroom.testing import assert_ledger_balanced

THREADS = 16
FAILS_EVERY = 997
SMOKE = 500
FULL = 1_000_000


class Fragile(Actor[tuple[int, int], None]):
    """Sees whether each sender's messages come in order, over all its lives."""

    def __init__(self, last: list[int], seen: list[int]) -> None:
        self.last = last
        self.seen = seen

    def receive(self, message: tuple[int, int]) -> None:
        sender, number = message
        assert number == self.last[sender] + 1, (sender, number, self.last[sender])
        self.last[sender] = number
        self.seen[0] += 1
        if self.seen[0] % FAILS_EVERY == 0:
            raise ValueError("on purpose")


@pytest.mark.parametrize("dispatcher", ["concurrent", "parallel", "pinned"])
@pytest.mark.parametrize("sends", [SMOKE, pytest.param(FULL, marks=pytest.mark.slow)])
def test_no_message_of_sixteen_threads_is_lost_or_overtaken_while_the_actor_restarts(
    dispatcher: str, sends: int, caplog: pytest.LogCaptureFixture
) -> None:  # R2, J15, case 45
    caplog.set_level("CRITICAL")
    last, seen = [-1] * THREADS, [0]
    errors: list[BaseException] = []

    def send(ref: Any, sender: int) -> None:
        try:
            for number in range(sends):
                while True:
                    try:
                        ref.tell((sender, number))
                        break
                    except MailboxFull:
                        time.sleep(0.001)  # a plain thread has nothing else to wait for
        except BaseException as exc:
            errors.append(exc)

    async def main() -> ActorSystem:
        config = SystemConfig(supervision=Supervision(max_restarts=None, backoff=None), stuck_after=0)
        async with ActorSystem("test", config=config) as system:
            ref = system.spawn(Fragile, last, seen, dispatcher=dispatcher)
            threads = [threading.Thread(target=send, args=(ref, sender), daemon=True) for sender in range(THREADS)]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                await asyncio.sleep(0.01)
                ref.restart()
            await system.settle(timeout=300.0)
            ledger = assert_ledger_balanced(system, ref)
            assert errors == []
            assert seen[0] == ledger.sent == THREADS * sends
            assert ledger.failed == seen[0] // FAILS_EVERY
            assert ledger.handled == ledger.sent - ledger.failed
            assert last == [sends - 1] * THREADS
            return system

    system = asyncio.run(main())
    assert_ledger_balanced(system)
