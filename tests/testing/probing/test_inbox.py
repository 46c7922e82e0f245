"""What a probe has heard and its test has not read yet."""

from __future__ import annotations

import asyncio
from typing import Any

from greenroom.exits import NORMAL
from greenroom.testing.probing.inbox import Envelope, Inbox


def later() -> float:
    return asyncio.get_running_loop().time() + 20.0


def test_what_came_since_the_last_look_is_not_waited_for() -> None:
    async def main() -> None:
        inbox = Inbox()
        seen = inbox.arrivals
        inbox.put(Envelope("a"))
        assert await inbox.wait_for_arrival(later(), seen)
        seen = inbox.arrivals
        inbox.end(NORMAL)
        assert await inbox.wait_for_arrival(later(), seen)
        assert not await inbox.wait_for_arrival(asyncio.get_running_loop().time(), inbox.arrivals)
        assert not await inbox.wait_for_arrival(asyncio.get_running_loop().time(), 0)  # in time is what counts

    asyncio.run(main())


def test_another_thread_ends_a_wait() -> None:
    async def main() -> None:
        inbox = Inbox()
        waiting = asyncio.create_task(inbox.wait_for_arrival(later(), 0))
        await asyncio.sleep(0)
        await asyncio.to_thread(inbox.put, Envelope("a"))
        assert await waiting
        assert inbox.take() == Envelope("a")
        assert inbox.take() is None

    asyncio.run(main())


def test_what_comes_while_the_ignored_is_sifted_out_is_kept() -> None:
    inbox = Inbox()

    def unwanted(message: Any) -> bool:
        if message == 1:
            inbox.put(Envelope("meanwhile"))
        return bool(message == 1)

    inbox.put(Envelope(1))
    inbox.put(Envelope(2))
    inbox.ignored = (unwanted,)
    assert [envelope.message for envelope in inbox.unread()] == [2]
    assert [envelope.message for envelope in inbox.unread()] == [2, "meanwhile"]


def test_nobody_is_told_who_no_longer_waits() -> None:
    async def main() -> None:
        inbox = Inbox()
        waiting = asyncio.create_task(inbox.wait_for_arrival(later(), 0))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert inbox._waiters == []

    asyncio.run(main())


def test_a_loop_that_is_closed_is_no_trouble() -> None:
    inbox = Inbox()

    async def main() -> None:
        waiting = asyncio.create_task(inbox.wait_for_arrival(later(), 0))
        await asyncio.sleep(0)
        waiters.extend(inbox._waiters)
        waiting.cancel()

    waiters: list[Any] = []
    asyncio.run(main())
    inbox._waiters = waiters  # as if it had been on its way out
    asyncio.run(asyncio.to_thread(inbox.put, Envelope("a")))
    assert inbox.take() == Envelope("a")
