"""`send` waits for room, and never hears that a mailbox is full: not even when other threads take the room it saw."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from greenroom import ActorRef, ActorSystem, Context, MailboxConfig, MailboxFull

THREADS = 3
SENT = 2_000


@contextmanager
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def crowd(ref: ActorRef[str, None]) -> Iterator[None]:
    """Threads that take whatever room there is."""
    done = threading.Event()

    def push() -> None:
        while not done.is_set():
            with suppress(MailboxFull):
                ref.tell("pushed")

    threads = [threading.Thread(target=push, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("capacity", [1, 3])
def test_send_finds_room_beside_threads_that_take_it(capacity: int) -> None:
    heard: list[str] = []

    def receive(ctx: Context, message: str) -> None:
        heard.append(message)

    async def main() -> None:
        async with ActorSystem() as system:
            ref = system.spawn(receive, mailbox=MailboxConfig(capacity=capacity))
            with quick_switches(), crowd(ref):
                for number in range(SENT):
                    await ref.send(f"sent {number}")
            await system.settle()
            assert system.ledger().balanced

    asyncio.run(main())
    assert [one for one in heard if one != "pushed"] == [f"sent {number}" for number in range(SENT)]
