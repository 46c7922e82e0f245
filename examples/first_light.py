"""First light: what the core loop does, seen for a few seconds each.

Five acts on one loop: tokens around a ring of actors, async handlers, timers, four foreign threads against a small
mailbox, and an actor that fails. At the end the account: every message sent must stand in exactly one column.

Run it with `make demo`, or `python examples/first_light.py [--seconds 2]` where greenroom is installed.
"""

import argparse
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
        self.playing = True

    def receive(self, token: int) -> None:
        if self.playing and self.next is not None:
            self.next.tell(token + 1)


class Sleeper:
    """Waits in the middle of every message, as a handler that talks to a network would."""

    def __init__(self) -> None:
        self.woken = 0

    async def receive(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.woken += 1


class Meter:
    """Counts what reaches it."""

    def __init__(self) -> None:
        self.seen = 0

    def receive(self, message: object) -> None:
        self.seen += 1
        if message == "trip":
            raise ValueError("this actor fails, and nobody else notices")


class Stage:
    """The loop, and the line on the screen that tells what it is doing."""

    def __init__(self, seconds: float) -> None:
        self.loop = Loop()
        self.poller = Poller(self.loop)
        self.seconds = seconds

    async def watch(self, title: str, measure: Callable[[], int], unit: str) -> None:
        """Show how fast `measure()` grows, for the length of an act."""
        began, first = time.monotonic(), measure()
        while (elapsed := time.monotonic() - began) < self.seconds:
            await asyncio.sleep(0.1)
            rate = (measure() - first) / max(elapsed, 0.1)
            self.show(f"{title:<58} {rate:>12,.0f} {unit}/s", live=True)
        elapsed = time.monotonic() - began
        self.show(f"{title:<58} {(measure() - first) / elapsed:>12,.0f} {unit}/s")

    def show(self, line: str, *, live: bool = False) -> None:
        """Print a line; a live one is overwritten by the next, and left out where nobody watches."""
        if sys.stdout.isatty():
            print(f"\r\x1b[K{line}", end="" if live else "\n", flush=True)
        elif not live:
            print(line, flush=True)


async def tokens(stage: Stage) -> None:
    relays = [Relay() for _ in range(1000)]
    cells = [stage.loop.spawn(Relay.receive, relay) for relay in relays]
    for position, relay in enumerate(relays):
        relay.next = cells[(position + 1) % len(cells)]
    for cell in cells[::10]:
        cell.tell(0)
    await stage.watch("100 tokens around a ring of 1,000 actors", lambda: sum(c.handled for c in cells), "messages")
    for relay in relays:
        relay.playing = False


async def sleepers(stage: Stage) -> None:
    actors = [Sleeper() for _ in range(2000)]
    cells = [stage.loop.spawn(Sleeper.receive, actor) for actor in actors]
    for cell in cells:
        for _ in range(int(stage.seconds / 0.05) + 1):
            cell.tell(0.05)
    await stage.watch("2,000 async actors, each awaiting 50 ms per message", lambda: sum(a.woken for a in actors), "waits")


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
            except MailboxFull as full:
                refused[number] += 1
                stop.wait(0.0005)
                assert full.message == number  # a refused message comes back

    threads = [threading.Thread(target=flood, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    await stage.watch("4 foreign threads into one mailbox of 256", lambda: meter.seen, "messages")
    stop.set()
    await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))
    stage.show(f"    of which refused with MailboxFull and given back: {sum(refused):,}")


async def failure(stage: Stage) -> None:
    meter, bystander = Meter(), Meter()
    fragile, steady = stage.loop.spawn(Meter.receive, meter), stage.loop.spawn(Meter.receive, bystander)
    for message in ("a", "b", "trip", "never handled", "nor this"):
        fragile.tell(message)
        steady.tell(message.replace("trip", "urgent"), lane=Lane.CONTROL)
    await stage.poller.idle()
    stage.show(f"An actor failed on its {meter.seen}rd message; its neighbour went on and handled {bystander.seen}.")


async def perform(seconds: float) -> bool:
    stage = Stage(seconds)
    stage.poller.attach()
    stage.show(f"Greenroom's core loop, {'compiled' if greenroom.COMPILED else 'plain Python'}, on {asyncio.get_running_loop()!r}")
    acts: list[Callable[[Stage], Awaitable[None]]] = [tokens, sleepers, timers, foreign_threads, failure]
    for act in acts:
        await act(stage)
        await asyncio.wait_for(stage.poller.idle(), 30)
    stage.poller.detach()
    stage.loop.close()
    counts = count_loop(stage.loop)
    stage.show(f"\nWhere {counts.sent:,} messages went:")
    for column in ("handled", "failed", "dead_lettered", "dropped", "queued", "in_hand"):
        stage.show(f"    {column:<14}{getattr(counts, column):>14,}")
    stage.show("Every message is in exactly one column." if counts.balanced else "The account does NOT balance: a bug.")
    return counts.balanced


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each act takes")
    seconds = parser.parse_args().seconds
    logging.getLogger("greenroom").setLevel(logging.CRITICAL)  # the failure below is part of the show
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        sys.exit(0 if runner.run(perform(seconds)) else 1)


if __name__ == "__main__":
    main()
