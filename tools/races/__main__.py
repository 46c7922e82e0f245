"""The race program: ``python -m tools.races --seconds 60 --threads 8``. Exit code 1 if anything was wrong."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import random
import sys
import threading
import time
import traceback

from greenroom import COMPILED, GreenroomError
from tools.races.arena import Arena, Poison
from tools.races.operations import OPERATIONS

ROUND = 20.0
"""Seconds that one system lives: then it is shut down under load, and its ledger checked."""
EXPECTED = (GreenroomError, TimeoutError, Poison)
HANGS = 120.0
"""Seconds after which a round that has not ended is a hang: all stacks are printed, and the program ends."""


def main(arguments: list[str] | None = None) -> int:
    """Race, round after round, and say what was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.races", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on (default: 60)")
    parser.add_argument("--threads", type=int, default=8, help="how many threads race (default: 8)")
    parser.add_argument("--loops", type=int, default=1, help="loops of the system (default: 1)")
    parser.add_argument("--seed", type=int, default=1, help="of the dice; threads do the rest")
    parser.add_argument("--only", metavar="A,B", help="race these operations alone")
    given = parser.parse_args(arguments)
    chosen = set(OPERATIONS) if given.only is None else set(given.only.split(","))
    if not chosen <= set(OPERATIONS):
        parser.error(f"the operations are {', '.join(OPERATIONS)}")
    logging.getLogger("greenroom").setLevel(logging.CRITICAL + 1)
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    build = "compiled" if COMPILED else "pure"
    print(f"races: {build}, GIL {'on' if gil else 'off'}, {given.threads} threads, {given.loops} loops", flush=True)
    faults = 0
    ends = time.monotonic() + given.seconds
    number = 0
    while time.monotonic() < ends:
        number += 1
        seconds = min(ROUND, max(ends - time.monotonic(), 1.0))
        arena = run(given.seed * 1000 + number, given.threads, given.loops, seconds, chosen)
        faults += len(arena.faults)
        for fault in arena.faults[:5]:
            print(fault, flush=True)
        total = sum(arena.done.values())
        refusals = ", ".join(f"{name} {count:,}" for name, count in arena.refused.most_common(4))
        print(f"round {number}: {total:,} operations, {arena.noticed:,} notices; refused: {refusals}", flush=True)
    print(f"races: {'nothing was wrong' if not faults else f'{faults} faults'}", flush=True)
    return int(bool(faults))


def run(seed: int, threads: int, loops: int, seconds: float, chosen: set[str]) -> Arena:
    """One round: a system that is attacked, shut down, and accounted for."""
    arena = Arena(seed, loops)
    faulthandler.dump_traceback_later(seconds + HANGS, exit=True)
    racers: list[threading.Thread] = []
    try:
        with arena.system:
            arena.fill()
            racers = [
                threading.Thread(target=race, args=(arena, seed * 100 + number, chosen), name=f"racer {number}")
                for number in range(threads)
            ]
            for racer in racers:
                racer.start()
            arena.over.wait(seconds)
            # Half of the rounds end under load: what is sent from then on is a dead letter.
            if seed % 2:
                stop(arena, racers)
        stop(arena, racers)
        check(arena)
    except BaseException:
        arena.faults.append(traceback.format_exc())
        stop(arena, racers)
    finally:
        faulthandler.cancel_dump_traceback_later()
    return arena


def stop(arena: Arena, racers: list[threading.Thread]) -> None:
    """Have the threads end."""
    arena.over.set()
    for racer in racers:
        racer.join()


def race(arena: Arena, seed: int, chosen: set[str]) -> None:
    """What one thread does."""
    dice = random.Random(seed)
    names = [name for name in OPERATIONS if name in chosen]
    weights = [OPERATIONS[name][0] for name in names]
    while not arena.over.is_set():
        for name in dice.choices(names, weights, k=20):
            try:
                OPERATIONS[name][1](arena, dice)
            except EXPECTED as exc:
                arena.refused[type(exc).__name__] += 1
            except BaseException:
                arena.faults.append(f"{name}:\n{traceback.format_exc()}")
                arena.over.set()
                return
            arena.done[name] += 1


def check(arena: Arena) -> None:
    """Whether the ledger is exact: each message sent has found one column."""
    ledger = arena.system.ledger()
    if not ledger.balanced or ledger.queued or ledger.in_hand:
        arena.faults.append(f"the ledger is not balanced: {ledger}")
    snapshot = arena.system.snapshot()
    if snapshot.spawned != snapshot.terminated:
        arena.faults.append(f"{snapshot.spawned:,} actors were spawned, and {snapshot.terminated:,} ended")


if __name__ == "__main__":
    sys.exit(main())
