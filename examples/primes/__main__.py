"""Counts primes with `dispatcher="process"`: `python -m examples.primes --workers 2`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections import Counter
from itertools import cycle
from typing import Any

from examples.primes.counting import Found, Primes, Span
from greenroom import ActorSystem, Process, Supervision, SystemConfig
from greenroom.errors import WorkerLost

SPANS = 40


async def count(ref: Any, span: Span) -> Found:
    """The primes of one span. A worker that dies takes what it has in hand with it, and says so: ask again."""
    while True:
        try:
            found: Found = await ref.ask(span, timeout=None)
        except WorkerLost:
            continue
        return found


async def main(workers: int, limit: int) -> None:
    """Deal spans of numbers out to one actor for each worker."""
    config = SystemConfig(dispatchers={"process": Process(workers)}, supervision=Supervision(backoff=None))
    async with ActorSystem("primes", config=config) as system:
        refs = [system.spawn(Primes, dispatcher="process", name=f"primes-{number}") for number in range(workers)]
        for ref in refs:
            await ref.started()
        step = max(1, limit // SPANS)
        spans = [Span(start, min(start + step, limit)) for start in range(0, limit, step)]
        asked = [asyncio.ensure_future(count(ref, span)) for ref, span in zip(cycle(refs), spans, strict=False)]
        shown = sys.stdout.isatty()
        results: list[Found] = []
        for done, future in enumerate(asyncio.as_completed(asked), 1):
            results.append(await future)
            if done == len(spans) // 2:
                os.kill(system.dispatchers.processes["process"][0], signal.SIGKILL)
            if shown:
                print(f"\r[{'#' * (done * 40 // len(spans)):40}] {done}/{len(spans)}", end="", flush=True)
        print(f"{chr(13) if shown else ''}{sum(one.count for one in results)} primes below {limit}")
        for process, spans_done in sorted(Counter(one.process for one in results).items()):
            print(f"  process {process} counted {spans_done} spans")
        await system.settle()
        print(system.tree())
        print(f"ledger: {system.ledger()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes, and actors")
    parser.add_argument("--limit", type=int, default=1_000_000, help="count the primes below this")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    asyncio.run(main(options.workers, options.limit))
