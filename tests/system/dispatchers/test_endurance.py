"""Sixteen threads send while the actor they send to fails, and is restarted, again and again (R2)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Loop, MailboxFull, Supervision, SystemConfig
from greenroom.testing import assert_ledger_balanced

THREADS = 16
FAILS_EVERY = 997
RESTARTS_EVERY = 100
SMOKE = 500
FULL = 1_000_000


class Fragile(Actor[tuple[int, int], None]):
    """Sees whether each sender's messages come in order, over all its lives."""

    def __init__(self, last: list[int], seen: list[int], disorder: list[tuple[int, int, int]]) -> None:
        self.last = last
        self.seen = seen
        self.disorder = disorder

    def receive(self, message: tuple[int, int]) -> None:
        sender, number = message
        if number != self.last[sender] + 1:
            self.disorder.append((sender, self.last[sender], number))
        self.last[sender] = number
        self.seen[0] += 1
        if self.seen[0] % FAILS_EVERY == 0:
            raise ValueError("on purpose")


@pytest.mark.parametrize("dispatcher", ["concurrent", "parallel", "pinned", "another loop"])
@pytest.mark.parametrize("sends", [SMOKE, pytest.param(FULL, marks=pytest.mark.slow)])
def test_no_message_of_sixteen_threads_is_lost_or_overtaken_while_the_actor_restarts(
    dispatcher: str, sends: int, caplog: pytest.LogCaptureFixture
) -> None:  # R2, J15, case 45
    caplog.set_level("CRITICAL")
    last, seen = [-1] * THREADS, [0]
    disorder: list[tuple[int, int, int]] = []
    errors: list[BaseException] = []

    def send(ref: Any, sender: int) -> None:
        try:
            for number in range(sends):
                try:
                    ref.tell((sender, number))
                except MailboxFull:
                    # By this thread itself: what a coroutine sends for it has another sender.
                    ref.send_sync((sender, number))
                if sender == 0 and number % RESTARTS_EVERY == 0:
                    ref.restart()
        except BaseException as exc:
            errors.append(exc)

    def send_all(ref: Any) -> None:
        threads = [threading.Thread(target=send, args=(ref, sender), daemon=True) for sender in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    async def main() -> ActorSystem:
        config = SystemConfig(
            supervision=Supervision(max_restarts=None, backoff=None),
            stuck_after=0,
            dispatchers={"another loop": Loop()},
        )
        async with ActorSystem("test", config=config) as system:
            ref = system.spawn(Fragile, last, seen, disorder, dispatcher=dispatcher)
            await asyncio.to_thread(send_all, ref)
            await system.settle(timeout=300.0)
            ledger = assert_ledger_balanced(system, ref)
            assert errors == []
            assert disorder == []
            assert seen[0] == ledger.sent == THREADS * sends
            assert ledger.failed == seen[0] // FAILS_EVERY
            assert ledger.handled == ledger.sent - ledger.failed
            assert last == [sends - 1] * THREADS
            return system

    system = asyncio.run(main())
    assert_ledger_balanced(system)
