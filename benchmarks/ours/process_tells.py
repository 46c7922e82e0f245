"""An actor tells numbers to an actor in a worker process, until that has handled the last."""

from __future__ import annotations

import time
from functools import partial

from benchmarks.ours.guests import Sink
from benchmarks.ours.stage import perform
from benchmarks.program import Report, expect, main, settle
from greenroom import Actor, ActorRef, ActorSystem, MailboxConfig

AT_ONCE = 1000


class Source(Actor[int, None]):
    """Sends some, and goes on in its next turn."""

    def __init__(self, sink: ActorRef[int, int | None], wanted: int) -> None:
        self.sink = sink
        self.wanted = wanted

    def receive(self, message: int) -> None:
        last = min(message + AT_ONCE, self.wanted)
        for number in range(message, last):
            self.sink.tell(number)
        if last < self.wanted:
            self.ctx.self.tell(last)


def run(n: int) -> Report:
    """``n`` messages, from the first send until the last is handled."""
    return perform(partial(_flood, n))


async def _flood(messages: int, system: ActorSystem) -> Report:
    sink = system.spawn(Sink, dispatcher="process", mailbox=MailboxConfig(capacity=messages))
    await sink.started()
    source = system.spawn(Source, sink, messages)
    settle()
    start = time.perf_counter()
    source.tell(0)
    await system.settle()
    seconds = time.perf_counter() - start
    expect("messages that came", await sink.ask(-1) or 0, messages)
    return Report(messages / seconds)


if __name__ == "__main__":
    main(run)
