"""The rows of the table, in its order. To add one, write its programs and append it to ``ROWS``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.contenders import ERLANG, erlang, ours, ours_pure, pykka, python_peer
from benchmarks.model import (
    BYTES,
    LATENCY,
    MILLISECONDS,
    RATE,
    SHARE,
    SLOWDOWN,
    Build,
    Comparison,
    Program,
    Row,
    at_least,
    at_most,
)
from benchmarks.programs.rows import LOOPS, PROGRAMS

# At most twice what a hop costs, so at least half its rate.
HOP_TARGET = at_least(0.5)


def _asyncio(name: str, work: str, size: int, quick_size: int) -> Program:
    return python_peer(name, "asyncio_programs", (work,), size, quick_size)


def _streams(loop: str, work: str, size: int, quick_size: int) -> Program:
    return python_peer(f"asyncio streams, {loop}", "socket_programs", (work, loop), size, quick_size)


def _uvicorn(parser: str, size: int, quick_size: int) -> Program:
    return python_peer(f"uvicorn, {parser}", "socket_programs", (f"uvicorn_{parser}", "uvloop"), size, quick_size)


def _threads(name: str, work: str, size: int, quick_size: int) -> Program:
    return python_peer(name, "queue_threads", (work,), size, quick_size)


ROWS: tuple[Row, ...] = (
    Row(
        "P1",
        "ping-pong, sync handlers",
        RATE,
        ours("pingpong", 2_000_000, 500_000),
        (
            Comparison(erlang("pingpong", 2_000_000, 500_000), at_least(2.5)),
            Comparison(pykka("pingpong", 60_000, 15_000)),
            Comparison(_asyncio("asyncio.Queue, uvloop", "queue_pingpong", 300_000, 50_000)),
        ),
    ),
    Row(
        "P2",
        "ring of 1000, 100 tokens",
        RATE,
        ours("ring", 2_000_000, 500_000),
        (Comparison(erlang("ring", 2_000_000, 500_000), at_least(2.0)),),
    ),
    Row(
        "P3",
        "flood of one actor, sends and drain",
        RATE,
        ours("flood", 4_000_000, 800_000),
        (
            Comparison(erlang("flood", 4_000_000, 1_000_000), at_least(1.0)),
            Comparison(pykka("flood", 200_000, 50_000), at_least(15.0)),
        ),
    ),
    Row(
        "P4",
        "ping-pong, async handlers, no wait",
        RATE,
        ours("async_pingpong", 1_000_000, 300_000),
        (Comparison(erlang("pingpong", 2_000_000, 500_000), at_least(1.0)),),
    ),
    Row(
        "P5",
        "ask from actor to actor, sequential",
        RATE,
        ours("ask", 500_000, 150_000),
        (
            Comparison(erlang("call", 500_000, 150_000), at_least(1.0)),
            Comparison(pykka("ask", 30_000, 6_000)),
            Comparison(python_peer("xoscar", "xoscar_programs", ("ask",), 15_000, 2_000)),
        ),
        rounds=3,
        quick_rounds=1,
    ),
    Row(
        "P6",
        "ask from outside, uvloop",
        RATE,
        ours("ask_outside", 100_000, 20_000, arguments=("uvloop",)),
        (
            Comparison(pykka("ask", 30_000, 6_000), at_least(5.0)),
            Comparison(_asyncio("bare future hop, uvloop", "future_hop_uvloop", 200_000, 50_000), HOP_TARGET),
        ),
    ),
    Row(
        "P6A",
        "ask from outside, asyncio",
        RATE,
        ours("ask_outside", 100_000, 20_000, arguments=("asyncio",)),
        (Comparison(_asyncio("bare future hop, asyncio", "future_hop", 100_000, 20_000), HOP_TARGET),),
    ),
    Row(
        "P7",
        "spawn, one message, stop",
        RATE,
        ours("spawn", 500_000, 100_000),
        (Comparison(erlang("spawn", 500_000, 100_000), at_least(1.5)),),
    ),
    Row(
        "P8",
        "bytes per idle actor",
        BYTES,
        ours("idle_memory", 1_000_000, 200_000),
        (Comparison(None, at_most(650)), Comparison(erlang("idle", 200_000, 50_000))),
        rounds=2,
        quick_rounds=1,
    ),
    Row(
        "P9",
        "random targets, many actors against 1k",
        SLOWDOWN,
        ours("random_targets", 1_000_000, 200_000),
        (Comparison(python_peer("bare object touches", "bare_objects", (), 1_000_000, 200_000), at_most(1.2)),),
        rounds=3,
    ),
    Row(
        "P10",
        "sends from 4 foreign threads",
        RATE,
        ours("foreign_threads", 1_000_000, 200_000),
        (Comparison(pykka("foreign_threads", 200_000, 40_000), at_least(5.0)),),
    ),
    Row(
        "P11",
        "timers: start, cancel half, fire",
        RATE,
        ours("timers", 1_000_000, 100_000),
        (Comparison(_asyncio("asyncio call_later", "call_later", 1_000_000, 100_000), at_least(5.0)),),
        rounds=3,
        quick_rounds=1,
    ),
    Row(
        "P12",
        "ping-pong, plain-Python build",
        RATE,
        ours_pure("pure_pingpong", 500_000, 150_000),
        (Comparison(pykka("pingpong", 60_000, 15_000), at_least(8.0)),),
        build=Build.PURE,
    ),
    Row(
        "P12A",
        "ask, plain-Python build",
        RATE,
        ours_pure("pure_ask", 100_000, 30_000),
        (Comparison(pykka("ask", 30_000, 6_000), at_least(3.0)),),
        build=Build.PURE,
    ),
    Row(
        "P13",
        "one way through a service handle, two threads",
        RATE,
        ours("podwork", 2_000_000, 400_000, arguments=("flood",)),
        (
            Comparison(_threads("SimpleQueue, to and fro", "pingpong", 100_000, 20_000), at_least(10.0)),
            Comparison(_threads("SimpleQueue, one way", "flood", 2_000_000, 400_000), at_least(0.7)),
            Comparison(_threads("the same, and a method called", "handled", 2_000_000, 400_000)),
        ),
    ),
    Row(
        "P13P",
        "to and fro between two pods, two threads",
        RATE,
        ours("podwork", 100_000, 20_000, arguments=("pingpong",)),
        (Comparison(_threads("SimpleQueue, to and fro", "pingpong", 100_000, 20_000)),),
    ),
    *[
        Row(
            f"P13{letter}",
            f"control message under a flood, p{share}",
            LATENCY,
            ours("podwork", 1000, 200, arguments=(f"control{share}",)),
            (
                Comparison(_threads("queue.PriorityQueue", f"control{share}", 1000, 200)),
                Comparison(_threads("asyncio.PriorityQueue", f"tasks{share}", 1000, 200)),
            ),
            rounds=3,
            quick_rounds=1,
        )
        for letter, share in (("C", 50), ("D", 99))
    ],
    Row(
        "P14",
        "tells to another process",
        RATE,
        ours("process_tells", 2_000_000, 300_000),
        (Comparison(python_peer("multiprocessing.Queue", "queue_programs", (), 200_000, 50_000), at_least(20.0)),),
    ),
    Row(
        "P14B",
        "two busy actors in two processes, over one by one",
        SHARE,
        ours("two_processes", 10_000_000, 3_000_000),
        (Comparison(None, at_most(0.6)),),
        build=Build.ANY,
    ),
    Row(
        "P16",
        "TCP echo, 64 connections, asyncio",
        RATE,
        ours("sockets", 200_000, 30_000, arguments=("echo", "asyncio")),
        (Comparison(_streams("asyncio", "echo", 200_000, 30_000), at_least(0.8)),),
        rounds=3,
        quick_rounds=1,
    ),
    Row(
        "P16U",
        "TCP echo, 64 connections, uvloop",
        RATE,
        ours("sockets", 300_000, 50_000, arguments=("echo", "uvloop")),
        (Comparison(_streams("uvloop", "echo", 300_000, 50_000), at_least(0.8)),),
        rounds=3,
        quick_rounds=1,
    ),
    Row(
        "P16H",
        "HTTP requests, 64 connections, uvloop",
        RATE,
        ours("sockets", 30_000, 5_000, arguments=("http", "uvloop")),
        (Comparison(_uvicorn("h11", 30_000, 5_000)), Comparison(_uvicorn("httptools", 60_000, 10_000))),
        rounds=3,
        quick_rounds=1,
    ),
    Row(
        "P16M",
        "bytes per idle connection",
        BYTES,
        ours("sockets", 10_000, 2_000, arguments=("idle", "uvloop")),
        (Comparison(None, at_most(16_384)), Comparison(_streams("uvloop", "idle", 10_000, 2_000))),
        rounds=2,
        quick_rounds=1,
    ),
    Row(
        "P16S",
        "connections that come and are dropped, uvloop",
        RATE,
        ours("sockets", 20_000, 4_000, arguments=("storm", "uvloop")),
        (Comparison(_streams("uvloop", "storm", 20_000, 4_000)),),
        rounds=3,
        quick_rounds=1,
    ),
    Row(
        "P17",
        "import, over asyncio and logging",
        MILLISECONDS,
        ours("import_time", 1, 1),
        (Comparison(None, at_most(30.0)),),
        rounds=10,
        quick_rounds=10,
        build=Build.ANY,
    ),
    Row(
        "B1",
        "ping-pong, simulated",
        RATE,
        ours("simulated", 1_000_000, 300_000),
        (Comparison(replace(ours("pingpong", 2_000_000, 500_000), name="real loop"), at_least(0.3)),),
    ),
    Row(
        "S1",
        "async handler awaiting one future",
        RATE,
        ours("stepping", 200_000, 50_000),
        (Comparison(_asyncio("asyncio.Task each", "task_per_message", 100_000, 30_000)),),
    ),
    *PROGRAMS,
    *LOOPS,
    Row(
        "P20A",
        "a life with four hooks, over a plain one",
        SLOWDOWN,
        ours("lives", 60_000, 20_000, arguments=("hooks",)),
        (Comparison(None, at_most(1.5)),),
    ),
    Row(
        "P20B",
        "a life whose child is gone, over a plain one",
        SLOWDOWN,
        ours("lives", 60_000, 20_000, arguments=("children",)),
        (Comparison(None, at_most(1.5)),),
    ),
)


class UnknownRow(Exception):
    """An id that names no row; the text lists those that do."""


def select(only: str | None, rows: Sequence[Row] = ROWS) -> list[Row]:
    """The rows named by a comma-separated list of ids, in the table's order; all of them for None.

    ``P18`` is no row, and names the programs: all ids that are it and a letter.
    """
    if only is None:
        return list(rows)
    wanted = {name.strip().upper() for name in only.split(",") if name.strip()}
    known = {row.id for row in rows}
    groups = {row.id[:-1] for row in rows if row.id[-1].isalpha()} - known
    unknown = sorted(wanted - known - groups)
    if unknown or not wanted:
        raise UnknownRow(f"no row {', '.join(unknown) or repr(only)}; the rows are {', '.join(row.id for row in rows)}")
    return [row for row in rows if row.id in wanted or row.id[:-1] in wanted & groups]


def uses_erlang(rows: Sequence[Row]) -> bool:
    """Whether any of ``rows`` has Erlang as a peer."""
    return any(peer.name == ERLANG for row in rows for peer in row.peers)
