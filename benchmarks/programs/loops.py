"""Little worlds on one loop or on several, which never meet: what further cores are good for. And some that do meet.

``pairs``: 64 pairs play ping-pong. ``rings``: a token goes round in each of 100 rings of 100 actors.
``busy``: two actors that only compute, on two loops at once, over one after the other.
``crossing``: 256 pairs play ping-pong, with one of each pair on either loop: every message goes from one to the other.

The rates are by the wall clock. Several loops need a Python without the GIL to be faster than one. The rate per second
of CPU time is given with it. ``0`` loops are two processes with one loop each, at the same time: as they share nothing
but the machine, two loops cannot do better, and do as well if they do not hinder one another.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial

from benchmarks.ours.guests import crunch
from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, Unavailable, expect, main, settle
from greenroom import Actor, ActorRef, ActorSystem, Loop, SystemConfig

PAIRS = 64
RINGS = 100
NODES = 100
CROSSING = 256
START = "start"
PER_CPU_SECOND = "per second of CPU time"


class Node(Actor[int | ActorRef, None]):
    """Passes on the hops that are left, to the node it was given first."""

    def __init__(self) -> None:
        self.next: ActorRef[int | ActorRef, None] | None = None

    def receive(self, message: int | ActorRef) -> None:
        if self.next is None:
            assert isinstance(message, ActorRef)
            self.next = message
        elif message:
            assert not isinstance(message, ActorRef)
            self.next.tell(message - 1)


class Circle(Actor[int | str, None]):
    """So many nodes, each with the next as its neighbour; a number is sent round."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.first: ActorRef[int | ActorRef, None] | None = None

    def receive(self, message: int | str) -> None:
        if self.first is None:
            nodes = [self.ctx.spawn(Node) for _ in range(self.nodes)]
            for node, following in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
                node.tell(following)
            self.first = nodes[0]
        else:
            assert isinstance(message, int)
            self.first.tell(message)


def circles(number: int, nodes: int, loops: int, n: int) -> Report:
    """``n`` hops in all, in so many circles."""
    return perform(partial(_go_round, number, nodes, n), config=SystemConfig(loops=loops))


async def _go_round(number: int, nodes: int, n: int, system: ActorSystem) -> Report:
    hops = n // number
    refs = [system.spawn(Circle, nodes, dispatcher="spread") for _ in range(number)]
    _tell_all(refs, START)
    await system.settle()
    settle()
    began, busy_before = time.perf_counter(), time.process_time()
    _tell_all(refs, hops)
    await system.settle()
    took, busy_for = time.perf_counter() - began, time.process_time() - busy_before
    await expect_all_handled(system, number * (2 + nodes + hops + 1))
    return Report(number * hops / took, {PER_CPU_SECOND: number * hops / busy_for})


def crossing(loops: int, n: int) -> Report:
    """``n`` messages in all, each to the other loop; with one loop, each to an actor beside."""
    other = "other" if loops == 2 else "concurrent"
    dispatchers = {"other": Loop()} if loops == 2 else {}
    return perform(partial(_cross, n, other), config=SystemConfig(dispatchers=dispatchers))


async def _cross(n: int, other: str, system: ActorSystem) -> Report:
    hops = n // CROSSING
    pairs = [(system.spawn(Node), system.spawn(Node, dispatcher=other)) for _ in range(CROSSING)]
    for here, there in pairs:
        here.tell(there)
        there.tell(here)
    await system.settle()
    settle()
    began, busy_before = time.perf_counter(), time.process_time()
    for here, _ in pairs:
        here.tell(hops)
    await system.settle()
    took, busy_for = time.perf_counter() - began, time.process_time() - busy_before
    await expect_all_handled(system, CROSSING * (2 + hops + 1))
    return Report(CROSSING * hops / took, {PER_CPU_SECOND: CROSSING * hops / busy_for})


def _tell_all(refs: Sequence[ActorRef[int | str, None]], message: int | str) -> None:
    for ref in refs:
        ref.tell(message)


def busy(loops: int, n: int) -> Report:
    """``n`` rounds of each; the time that both take together, over that of one after the other."""
    require_no_gil()
    return perform(partial(_compute, n), config=SystemConfig(loops=loops, stuck_after=0))


async def _compute(rounds: int, system: ActorSystem) -> Report:
    refs = [system.spawn(crunch, dispatcher="spread") for _ in range(2)]
    wanted = await asyncio.gather(*(ref.ask(10) for ref in refs))
    expect("answers", wanted[0], wanted[1])
    settle()
    began = time.perf_counter()
    for ref in refs:
        await ref.ask(rounds, timeout=None)
    apart = time.perf_counter() - began
    began = time.perf_counter()
    await asyncio.gather(*(ref.ask(rounds, timeout=None) for ref in refs))
    return Report((time.perf_counter() - began) / apart)


def require_no_gil() -> None:
    """Decline where threads take turns."""
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        raise Unavailable("needs a Python without the GIL")


def apart(program: str, n: int) -> Report:
    """The same work in two processes, half of it each."""
    command = [sys.executable, "-m", "benchmarks.programs.loops", program, "1", "--n", str(n // 2)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    reports = [json.loads(process.communicate()[0]) for process in running]
    per_cpu_second = sum(report["parts"][PER_CPU_SECOND] for report in reports) / len(reports)
    return Report(sum(report["value"] for report in reports), {PER_CPU_SECOND: per_cpu_second})


def run(program: str, loops: int, n: int) -> Report:
    """One of the programs; on several loops, only where that is of use."""
    if loops == 0:
        return apart(program, n)
    if loops > 1:
        require_no_gil()
    if program == "busy":
        return busy(loops, n)
    if program == "crossing":
        return crossing(loops, n)
    number, nodes = (PAIRS, 2) if program == "pairs" else (RINGS, NODES)
    return circles(number, nodes, loops, n)


if __name__ == "__main__":
    main(partial(run, sys.argv.pop(1), int(sys.argv.pop(1))))
