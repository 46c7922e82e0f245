"""The stages of the pipeline that the tills have for themselves; the others are in `aggregators`.

    Source ── lines ──> Parser ── records ──> Aggregator ── totals ──> Sink

Every till of the shops is a `Source` with a `Parser` of its own. Each stage waits for room in the next one's
mailbox, so the slowest sets the pace.
"""

import math
from typing import Any

from examples.pipeline.aggregators import Records
from examples.pipeline.messages import MAILBOXES, Close, Tick, make_line, parse
from greenroom import Actor, ActorRef, Supervision, handles

LINES_AT_ONCE = 16


class Parser(Actor[str]):
    """Reads lines. On a torn one it fails; it is restarted at once, and goes on with the next."""

    def __init__(self, aggregators: list[Records]) -> None:
        self.aggregators = aggregators

    async def receive(self, line: str) -> None:
        """Read a line, and wait for room where its record belongs."""
        record = parse(line)
        await self.aggregators[record.shop % len(self.aggregators)].send(record)


class Source(Actor[Tick | Close]):
    """A till: it prints lines for a while, lets its parser read them all, and goes."""

    def __init__(self, shop: int, aggregators: list[Records]) -> None:
        self.shop = shop
        self.aggregators = aggregators

    def pre_start(self) -> None:
        """Get a parser, and begin."""
        self.random = self.ctx.system.random
        self.lines_left = self.random.randrange(16, 160)
        self.spawn_parser()
        self.ctx.self.tell(Tick())

    def spawn_parser(self) -> None:
        """Get a parser, and be told when it ends."""
        at_once = Supervision(backoff=None)
        self.parser = self.ctx.spawn(Parser, self.aggregators, mailbox=MAILBOXES["Parser"], supervision=at_once)
        self.ctx.watch(self.parser)

    @handles(Tick)
    async def print_lines(self, tick: Tick) -> None:
        """Print some lines, as fast as the parser has room for them."""
        for _ in range(min(self.lines_left, LINES_AT_ONCE)):
            await self.parser.send(make_line(self.shop, self.random))
            self.lines_left -= 1
        if self.lines_left:
            # Rush hours without a pause, and quieter ones between them.
            pause = max(0.0, math.sin(self.ctx.now() * 1.4))
            self.ctx.send_after(pause, self.ctx.self, Tick())
        else:
            self.close(None)

    @handles(Close)
    def close(self, _: object) -> None:
        """Print no more, and let the parser finish."""
        self.lines_left = 0
        self.parser.stop(after_queued=True)

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        """The parser has ended: because it failed too often, was killed, or because all is done."""
        if self.lines_left:
            self.spawn_parser()
        else:
            self.ctx.stop()
