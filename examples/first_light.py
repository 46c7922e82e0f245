"""First light: what the core loop does, in five acts of a few seconds, and where every message went (`make demo`)."""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Awaitable, Callable

import greenroom
from greenroom import Lane, MailboxConfig, MailboxFull
from greenroom._core.cell import Cell
from greenroom._core.counts import count_loop
from greenroom._core.loop import Loop
from greenroom._core.poller import Poller


class Relay:
    """Hands a token on to the next actor of its ring until the music stops."""

    def __init__(self) -> None:
        self.next: Cell | None = None

    def receive(self, token: int) -> None:
        if self.next is not None:
            self.next.tell(token + 1)


class Meter:
    """Counts what reaches it, and fails on one message."""

    seen = 0

    def receive(self, message: object) -> None:
        self.seen += 1
        if message == "trip":
            raise ValueError("this actor fails, and nobody else notices")

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)  # as a handler that talks to a network would
        self.seen += 1


class Stage:
    """The loop, and the line on the screen that tells how fast it is."""

    def __init__(self, seconds: float) -> None:
        self.loop = Loop()
        self.poller = Poller(self.loop)
        self.seconds = seconds

    async def watch(self, title: str, measure: Callable[[], int], unit: str) -> None:
        """Show how fast `measure()` grows, for the length of an act."""
        began, first, live = time.monotonic(), measure(), sys.stdout.isatty()
        while True:
            await asyncio.sleep(0.1)
            elapsed = time.monotonic() - began
            line = f"{title:<56}{(measure() - first) / elapsed:>12,.0f} {unit}/s"
            if elapsed >= self.seconds:
                break
            if live:
                print(f"\r{line}", end="\x1b[K", flush=True)
        print(f"\r{line}" if live else line, flush=True)


async def tokens(stage: Stage) -> None:
    relays = [Relay() for _ in range(1000)]
    cells = [stage.loop.spawn(Relay.receive, relay) for relay in relays]
    for position, relay in enumerate(relays):
        relay.next = cells[(position + 1) % len(cells)]
    for cell in cells[::10]:
        cell.tell(0)
    await stage.watch("100 tokens around a ring of 1,000 actors", lambda: sum(c.handled for c in cells), "messages")
    for relay in relays:
        relay.next = None


async def sleepers(stage: Stage) -> None:
    meters = [Meter() for _ in range(2000)]
    for meter in meters:
        cell = stage.loop.spawn(Meter.wait, meter)
        for _ in range(int(stage.seconds / 0.05) + 1):
            cell.tell(0.05)
    await stage.watch(
        "2,000 async actors, each awaiting 50 ms per message", lambda: sum(m.seen for m in meters), "waits"
    )


async def timers(stage: Stage) -> None:
    meter = Meter()
    cell = stage.loop.spawn(Meter.receive, meter)
    for step in range(50_000):
        stage.loop.start_timer(step % 100 / 1000, cell, "tick", interval=0.5, fixed_rate=True, owner=cell)
    await stage.watch("50,000 periodic timers, two ticks a second each", lambda: meter.seen, "ticks")
    stage.loop.cancel_timers(cell)


async def foreign_threads(stage: Stage) -> None:
    meter, stop, refused = Meter(), threading.Event(), [0] * 4
    cell = stage.loop.spawn(Meter.receive, meter, MailboxConfig(capacity=256))

    def flood(number: int) -> None:
        while not stop.is_set():
            try:
                cell.tell(number)
            except MailboxFull:  # the message comes back with it
                refused[number] += 1
                stop.wait(0.0005)

    threads = [threading.Thread(target=flood, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    await stage.watch("4 foreign threads into one mailbox of 256", lambda: meter.seen, "messages")
    stop.set()
    await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))
    print(f"    {sum(refused):,} more were refused with MailboxFull and given back")


async def failure(stage: Stage) -> None:
    meter, bystander = Meter(), Meter()
    fragile, steady = (stage.loop.spawn(Meter.receive, one) for one in (meter, bystander))
    for message in ("a", "b", "trip", "never handled", "nor this"):
        fragile.tell(message)
        steady.tell("go on", lane=Lane.CONTROL)
    await stage.poller.idle()
    print(f"An actor failed on its {meter.seen}rd message; its neighbour handled all {bystander.seen} of its own.")


async def perform(seconds: float) -> bool:
    print(f"Greenroom's core loop ({'compiled' if greenroom.COMPILED else 'plain Python'}), in five acts")
    stage = Stage(seconds)
    stage.poller.attach()
    acts: list[Callable[[Stage], Awaitable[None]]] = [tokens, sleepers, timers, foreign_threads, failure]
    for act in acts:
        await act(stage)
        await asyncio.wait_for(stage.poller.idle(), 30)
    stage.poller.detach()
    stage.loop.close()
    counts = count_loop(stage.loop)
    print(f"\nWhere {counts.sent:,} messages went:")
    for column in ("handled", "failed", "dead_lettered", "dropped", "queued", "in_hand"):
        print(f"    {column:<14}{getattr(counts, column):>14,}")
    print("Every message is in exactly one column." if counts.balanced else "The account does NOT balance: a bug.")
    return counts.balanced


if __name__ == "__main__":
    logging.getLogger("greenroom").setLevel(logging.CRITICAL)  # the failure is part of the show
    sys.exit(not asyncio.run(perform(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0)))
