"""A pipeline of programs, as a shell would build one, but supervised: `python -m examples.programs`.

    seq 1 20000 | (a filter that crashes now and then) | sort -rn

The result is complete, however often the filter crashes.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

from examples.programs.stages import Filter, Sink, Source
from greenroom import ActorSystem, Backoff, Supervision


async def main(count: int, seed: int) -> None:
    """Build the pipeline, from its end to its beginning, and wait for the result."""
    done: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
    again = Supervision(max_restarts=1000, within=10.0, backoff=Backoff(min=0.001, max=0.01))
    async with ActorSystem("programs") as system:
        sink = system.spawn(Sink, done, name="sort")
        middle = system.spawn(Filter, sink, seed, name="filter", supervision=again)
        system.spawn(Source, count, middle, name="seq")
        lines = await done
        crashes = (await middle.inspect())["crashes"]
        assert lines == sorted((2 * number for number in range(2, count + 1, 2)), reverse=True)
        print(f"{len(lines):,} lines came out, none is missing; the filter crashed {crashes} times on the way.")
        print("The first:", *lines[:5])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="lines that go in")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, level=logging.CRITICAL)
    asyncio.run(main(options.count, options.seed))
