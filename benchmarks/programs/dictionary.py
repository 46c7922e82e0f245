"""Twenty workers share one dictionary, which is an actor: each asks it for one entry after the other.

One of ten requests writes, the others read; the answer to each brings about the next. Two messages for each request.
"""

from __future__ import annotations

from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, expect
from benchmarks.programs.measuring import Outcome, Stopwatch, Tally, choose, draw
from greenroom import Actor, ActorRef, ActorSystem

WORKERS = 20
WRITES = 10

SIZE = "size"

# A key, the value to write (None to read), and who gets the answer.
Access = tuple[int, int | None, ActorRef]


class Dictionary(Actor[Access | str, int | None]):
    """Reads and writes entries; what is not there is 0."""

    def __init__(self) -> None:
        self.entries: dict[int, int] = {}

    def receive(self, message: Access | str) -> int | None:
        if isinstance(message, str):
            return len(self.entries)
        key, value, worker = message
        if value is None:
            worker.tell(self.entries.get(key, 0))
        else:
            self.entries[key] = value
            worker.tell(value)
        return None


class Worker(Actor[int, None]):
    """Makes its next request when it has the answer to the last."""

    me: ActorRef[int, None]

    def __init__(
        self, dictionary: ActorRef[Access | str, int | None], place: int, requests: int, tally: ActorRef[int, None]
    ) -> None:
        self.dictionary = dictionary
        self.seed = place
        self.left = requests
        self.tally = tally

    def pre_start(self) -> None:
        self.me = self.ctx.self

    def receive(self, answer: int) -> None:
        if not self.left:
            self.tally.tell(1)
            return
        self.left -= 1
        self.seed = seed = draw(self.seed)
        self.dictionary.tell((key_of(seed), None if seed % WRITES else seed, self.me))


def key_of(seed: int) -> int:
    """One of 4096 keys, whose chance to be written to is the same."""
    return seed >> 4


def keys_written(requests: int) -> int:
    """How many entries there must be in the end, in whichever order they came."""
    written = set()
    for seed in range(WORKERS):
        for _ in range(requests):
            seed = draw(seed)
            if not seed % WRITES:
                written.add(key_of(seed))
    return len(written)


def run(n: int) -> Report:
    """About ``n`` messages: two for each request."""
    return perform(partial(_look_up, n // (2 * WORKERS)))


async def _look_up(requests: int, system: ActorSystem) -> Report:
    outcome = Outcome()
    tally = system.spawn(Tally, WORKERS, outcome)
    dictionary = system.spawn(Dictionary)
    workers = [system.spawn(Worker, dictionary, place, requests, tally) for place in range(WORKERS)]
    await system.settle()
    with Stopwatch() as watch:
        for worker in workers:
            worker.tell(0)
        await system.settle()
    expect("workers that had all their answers", outcome.value, WORKERS)
    messages = 2 * WORKERS * (requests + 1)
    await expect_all_handled(system, messages)
    expect("entries", await dictionary.ask(SIZE) or 0, keys_written(requests))
    return watch.report(messages)


if __name__ == "__main__":
    choose({"dictionary": run})
