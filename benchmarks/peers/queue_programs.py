"""The standard library's way between processes: `multiprocessing.Queue`, with a spawned consumer."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

from benchmarks.program import Report, main, settle


def run(n: int) -> Report:
    """``n`` numbers through a queue, from the first put until the consumer has taken the last."""
    context = multiprocessing.get_context("spawn")
    queue, told = context.Queue(), context.Queue()
    consumer = context.Process(target=consume, args=(queue, told, n), daemon=True)
    consumer.start()
    told.get(timeout=60)
    settle()
    start = time.perf_counter()
    for number in range(n):
        queue.put(number)
    told.get(timeout=600)
    seconds = time.perf_counter() - start
    consumer.join()
    return Report(n / seconds)


def consume(queue: Any, told: Any, wanted: int) -> None:
    """Take them all."""
    told.put("ready")
    for _ in range(wanted):
        queue.get()
    told.put("done")


if __name__ == "__main__":
    main(run)
