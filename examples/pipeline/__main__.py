"""`python -m examples.pipeline`, which is what `make demo` runs: set the pipeline up, watch it, and account for it."""

import argparse
import asyncio
import logging
import sys
from contextlib import AbstractContextManager

from examples.pipeline.aggregators import Sink, keep_running
from examples.pipeline.gate import Gate
from examples.pipeline.gauges import Gauges
from examples.pipeline.messages import MAILBOXES, Close, Flush, GetTotals, PowerCut
from examples.pipeline.view import View, choose_view, follow, print_summary
from greenroom import ActorRef, ActorSystem, Lane, Supervisor, WhichChildren

AGGREGATORS = 64


async def run(seconds: float, shown_by: AbstractContextManager[View]) -> bool:
    """Run the pipeline and show it; whether its ledger balances."""
    totals = None
    async with ActorSystem("pipeline") as system:
        gauges = Gauges(system, MAILBOXES, seconds)
        sink = system.spawn(Sink, mailbox=MAILBOXES["Sink"])
        supervisor = system.spawn(Supervisor, keep_running(AGGREGATORS, sink))
        aggregators = [child.ref for child in await supervisor.ask(WhichChildren()) if child.ref is not None]
        gate = system.spawn(Gate, aggregators)
        try:
            with shown_by as view:
                await follow(play(seconds, gate, gauges), gauges, view)
            await system.settle()  # one that is about to be restarted may have a full mailbox
            for aggregator in aggregators:
                await aggregator.ask(Flush())
            totals = await sink.ask(GetTotals())
        except asyncio.CancelledError:  # by Ctrl-C
            print("\nInterrupted: what is still queued becomes dead letters.")
    print_summary(system, gauges.read(), totals)
    return system.ledger().balanced


async def play(seconds: float, gate: ActorRef[PowerCut | Close, object], gauges: Gauges) -> None:
    """Run it for a while, with a crash in the middle, then finish what has begun."""
    await asyncio.sleep(seconds / 2)
    gauges.await_crash(AGGREGATORS)
    gate.tell(PowerCut(), lane=Lane.CONTROL)
    await asyncio.sleep(seconds / 2)
    gate.tell(Close(), lane=Lane.CONTROL)
    await gate.terminated()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.pipeline", description="Watch thousands of actors work.")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long to run (15)")
    parser.add_argument("--plain", action="store_true", help="print a line a second, even on a terminal")
    options = parser.parse_args()
    if options.seconds <= 0:
        parser.error("--seconds must be more than 0")
    logging.getLogger("greenroom").setLevel(logging.CRITICAL)  # the failures are part of the show
    return 0 if asyncio.run(run(options.seconds, choose_view(options.plain))) else 1


if __name__ == "__main__":
    sys.exit(main())
