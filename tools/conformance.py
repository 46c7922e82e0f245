"""Write docs/conformance.md: what is promised, row by row and case by case, and the tests that check it.

A test names its rows and cases in a comment on its `def` line (`# M5, case 57`). Rows and cases that the docstring of a
module names apply to all tests in that module.

Run as ``python -m tools.conformance`` to write the page, with ``--check`` to see whether it is up to date.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from functools import cache
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "conformance.md"

ROWS = {
    "J1": "The limits of `SystemConfig` hold: actors, mailboxes, timers and fd watches, each with its own error; work "
    "per visit and per tick",
    "J2": "A system is created, run and stopped, from inside or from another thread; a stop wakes a sleeping loop",
    "J3": "A handler returns normally, stops its actor (`Behaviors.stopped`) or fails it (raising, `Behaviors.failed`)",
    "J4": "`spawn` takes a parent, a mailbox and arguments, and runs none of the actor's code itself",
    "J5": "An actor can be stopped or failed from outside; every end goes through the same teardown",
    "J6": "One FIFO run queue per loop; an actor is in it at most once; budgets are exact",
    "J7": "Mailboxes are bounded; a full one raises, drops its oldest message or drops the new one",
    "J8": "Messages carry their sender; actors are found by ref, name and id",
    "J9": "All errors share one base class; each has a stable code and says what to do",
    "J10": "`Supervisor`: child specs, restart types, scopes, restart limits, delayed restarts, escalation",
    "J11": "Timers: one-shot and periodic, cancellable, in order of deadline, never for an ended actor",
    "J12": "The readiness of a descriptor comes as messages; a bad or closed one is an error to the caller alone",
    "J13": "A TCP echo server with its supervision tree, under real connections",
    "J14": "A message to an ended actor never reaches a new actor that reuses its slot",
    "J15": "Sends from other threads keep their order per thread, respect mailbox bounds and wake a sleeping loop",
    "J16": "Observers cost nothing if there are none; one that raises is removed",
    "J17": "An ingestion pipeline on real files and sockets, with backpressure; no acknowledged line is lost",
    "E1": "A meta-process has a reader, which may block, and handlers on a bounded pool of their own",
    "E2": "A meta-process ends with its parent, and with its reason, even while it is blocked in a read",
    "E3": "A meta-process is asleep, running or terminated, by itself",
    "E4": "Urgent messages and `inspect` come before what else is queued at a meta-process",
    "E5": "A meta-process cannot ask, link, monitor or spawn actors; each is an error of its own",
    "E6": "What becomes of an error in each callback of a meta-process; `terminate` always runs",
    "E7": "An `Alias` can be used wherever a ref can",
    "E8": "The send lane, environment, log and compression settings of a meta-process",
    "E9": "What a meta-process may do in which state, from either of its threads",
    "E10": "Servers and clients for TCP, UDP, HTTP and WebSocket; programs, files, signals: frames, TLS, limits, "
    "backpressure, orderly ends",
    "E11": "Monitors, links and trapped exits",
    "E12": "Many connections without a thread for each",
    "M1": "Lifecycle states, and only the allowed transitions between them",
    "M2": "Orders (start, stop, kill, restart) overtake messages; they are checked for between any two messages",
    "M3": "Every hook has a default; a hook that raises never leaves its actor stuck",
    "M4": "`spawn` takes eleven steps and is rolled back if one fails; children inherit supervision and env",
    "M5": "A stop takes fifteen steps: parents end after their children; a deadline forces what does not stop",
    "M6": "Restart in place: hooks in order, children stopped, state restored, mailbox kept or cleared",
    "M7": "`Supervision` of any actor: directives, scopes, restart limits, backoff, escalation to the top",
    "M8": "`watch` and `unwatch`, cleaned up on both sides; an unhandled `Terminated` raises `DeathPact`",
    "M10": "Dead letters are bounded, counted and can be subscribed to; drain strategies for what a stopping actor has "
    "queued",
    "M11": "Shutdown in five phases with one deadline, and a report of who was started, terminated and forced",
    "M12": "Request and response: replies, deferred replies, forwarding",
    "M13": "Behaviors as values",
    "M14": "A root behavior; the system ends when it does",
    "M15": "User-defined message priorities",
    "M17": "Backpressure: limits, senders that wait for room, visits that adapt to the load",
    "M19": "Test kit: lifecycle assertions, probes, a manual clock, a harness for a single actor",
    "M20": "The cost of an operation does not grow with the number of actors",
    "B1": "Simulation: schedule, virtual time and faults come from a seed; failures are shrunk",
    "B4": "The ledger: every message ends in exactly one column",
    "B7": "Typed refs: mypy and pyright accept correct code and reject wrong code",
    "B8": "A pytest plugin",
}
ROW_SECTIONS = {
    "J1": "The loop",
    "E1": "Meta-processes, links and monitors",
    "M1": "Lifecycle and supervision",
    "B1": "Simulation, ledger, typing, pytest",
}
"""What begins with a row."""

CASES = {
    1: "Messages from one sender to one actor arrive in order, also when 64 senders send at once",
    2: "A control message that arrives during a flood of data is handled next, after the message in hand",
    3: "Data still moves under a continuous flood of control messages: every 64th pick serves a lower lane",
    4: "Messages of equal user-defined priority are handled first in, first out",
    5: "While two actors keep each other busy, a third one still runs within one round",
    6: "A message sent by a child before it crashes is handled before the notice of its death",
    7: "A message to oneself is handled later, never recursively; 100,000 nested sends do not grow the stack",
    8: "A full mailbox raises `MailboxFull`, which carries the message; the sender can go on",
    9: "DROP_OLD and DROP_NEW drop exactly one message each, count it once and tell observers",
    10: "`send` waits for room, first come, first served; a cancelled `send` leaves nothing behind",
    11: "Orders and notices are accepted however full the mailbox is",
    12: "When threads race into a bounded mailbox, every message is either admitted or rejected",
    13: "Watching an actor that has already ended delivers `Terminated` at once",
    14: "Watching an actor twice delivers one `Terminated`",
    15: "Two monitors deliver two notices, each with its own monitor ref",
    16: "After `unwatch`, a `Terminated` that is already queued is not delivered",
    17: "A restart by supervision is not reported to watchers",
    18: "A message to an old ref becomes a dead letter, even if the slot has been reused",
    19: "A linked actor survives its peer's normal end and fails with its failure; trapping exits, it gets a message",
    20: "A kill cannot be trapped",
    21: "After `unlink` returns, the other's end has no effect",
    22: "Links and watches of an actor that fails in `pre_start` are honoured",
    23: "An ask that times out raises `AskTimeout`; the late reply becomes a dead letter",
    24: "If the target ends during an ask, the asker gets `ActorTerminated` at once, with the reason",
    25: "Asking oneself, or asking in a cycle, raises `AskDeadlock`, which names the cycle; an ask that is dropped or "
    "unhandled fails at once",
    26: "Another actor may give a deferred reply, once",
    27: "If a handler raises, the asker gets that exception and the supervisor acts too",
    28: "If the asker is cancelled, the reply becomes a dead letter and nothing leaks",
    29: "Of 10,000 asks to one slow actor, each ends in a reply, a `MailboxFull` or a timeout",
    30: "Limit of 3 in 5 s: failures at 0, 1, 2 and 3 s exceed it, one every 6 s never does",
    31: "With an intensity of 0, the first failure exceeds the limit",
    32: "A restart that fails is counted and retried; the supervisor answers requests in between",
    33: "REST_FOR_ONE: the failed child and those after it restart, those before it are untouched",
    34: "ONE_FOR_ALL: children stop in reverse order and start in order",
    35: "Permanent, transient and temporary children are restarted, or not, as their restart type says",
    36: "If a child cannot start, those before it stop in reverse and the supervisor's start fails with its cause",
    37: "A supervisor over its limit stops its children, then fails with the cause; its own supervisor decides",
    38: "A dynamic child restarts with its own arguments",
    39: "`auto_shutdown` ANY and ALL work for significant children; an invalid combination is refused",
    40: "RESUME keeps state and mailbox and loses only the failed message",
    41: "ESCALATE goes up to the first supervisor that decides otherwise; at the top, the system stops with the cause",
    42: "Backoff doubles from 10 ms up to 1 s, starts over after a quiet window, and keeps jitter within its bounds",
    43: "ONE_FOR_ALL restarts every sibling once, even if two fail in the same tick",
    44: "While a child waits for its backoff, its siblings and the supervisor are served",
    45: "A restart keeps the ref and the queued messages in order; the failed message is not replayed",
    46: "With `OnRestart.CLEAR`, queued messages become dead letters",
    47: "Children are stopped before the new instance starts",
    48: "A `pre_restart` that raises is logged, and the restart goes on",
    49: "A queued tick is not delivered once its timer is cancelled or replaced, or its actor has restarted",
    50: "A fixed-delay timer builds up no backlog behind a slow handler",
    51: "A full stash is an error and loses nothing; unstashed messages come in order, ahead of newer ones",
    53: "A constructor that raises leaves no half-made actor behind; watchers are told",
    54: "No message is handled before `pre_start` is done",
    55: "Messages to a stopping actor become dead letters",
    56: "A parent's `post_stop` runs after those of all its descendants",
    57: "A handler that ignores a stop is cancelled at the deadline if async, named and left behind if sync; shutdown "
    "returns in time",
    58: "Whichever hook raises, the actor still ends, is unregistered, and its watchers are told",
    59: "A shutdown from a handler, twice, while spawning or while restarting ends the system, once",
    60: "A name in use is refused; it is free again before `Terminated` is delivered",
    66: "When `start` of a meta-process returns, its handler ends and its parent is told; a read of a socket and a "
    "`wait_readable` are broken off when the parent stops; blocked elsewhere, it is named and left behind",
    67: "Each operation that a meta-process may not do raises an error of its own",
    68: "1,000 connections to an echo server, cut off at random, leave no descriptor and no thread behind",
}
CASE_SECTIONS = {
    1: "Ordering and lanes",
    8: "Mailbox",
    13: "Watch, monitor, link",
    23: "Ask",
    30: "Supervision",
    45: "Restart, stash, timers",
    53: "Lifecycle and shutdown",
    66: "Meta-processes",
}
"""What begins with a case."""

HEAD = """# Conformance

What Greenroom promises, and the tests that check it. Each link leads to a test file and says how many of its tests
check this promise. All of them run in both builds, compiled and plain Python. Most run on asyncio and on uvloop, with
actors on worker threads, and in [simulations](simulation.md) at many seeds. Actors in worker processes have tests of
their own.

This page is generated: `make conformance` writes it from the ids in the tests. The tests fail if a promise has no test,
or if the page is out of date.

## Promises"""

_SHOWN = 4
"""Files that a row links to at most."""

_ID = re.compile(r"\b[JKEMB]\d+\b")
_CASES = re.compile(r"\bcases? (\d+(?:(?:, | and |-)\d+)*)")
_SPAN = re.compile(r"(\d+)(?:-(\d+))?")


def names_in(text: str) -> set[str]:
    """The rows and cases that `text` names.

    >>> sorted(names_in("M5, cases 7-9 and 12"))
    ['M5', 'case 12', 'case 7', 'case 8', 'case 9']
    """
    found = set(_ID.findall(text))
    for numbers in _CASES.findall(text):
        for first, last in _SPAN.findall(numbers):
            found.update(f"case {number}" for number in range(int(first), int(last or first) + 1))
    return found


@cache
def tests_in(path: Path) -> dict[str, set[str]]:
    """The tests of a file, each with the rows and cases it checks."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    module = ast.parse(source)
    by_default = names_in(ast.get_docstring(module) or "")
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    found = {}
    for node in chain(module.body, *(one.body for one in classes)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            signature = " ".join(lines[node.lineno - 1 : max(node.body[0].lineno - 1, node.lineno)])
            comment = signature.partition("#")[2]
            found[node.name] = names_in(comment) | by_default
    return found


def find_tests(*folders: str) -> dict[str, dict[str, list[str]]]:
    """The names of the tests for each row and case, by file: of all tests, or of those in some folders."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(path for folder in folders or ("tests",) for path in (ROOT / folder).rglob("test_*.py")):
        where = path.relative_to(ROOT).as_posix()
        for test, names in tests_in(path).items():
            for name in names:
                found[name][where].append(test)
    return found


def missing(found: dict[str, dict[str, list[str]]]) -> list[str]:
    """Rows and cases that no test names."""
    return [name for name in (*ROWS, *(f"case {number}" for number in CASES)) if name not in found]


def page(found: dict[str, dict[str, list[str]]]) -> str:
    """The page, as Markdown."""
    lines = [HEAD]
    for row, promise in ROWS.items():
        if row in ROW_SECTIONS:
            lines += _head_of_table(ROW_SECTIONS[row], "row")
        lines.append(_line(row, promise, found[row]))
    lines += ["", "## Cases", "", "Concrete situations, and what must hold in each."]
    for number, promise in CASES.items():
        if number in CASE_SECTIONS:
            lines += _head_of_table(CASE_SECTIONS[number], "case")
        lines.append(_line(str(number), promise, found[f"case {number}"]))
    return "\n".join(lines) + "\n"


def _head_of_table(title: str, first: str) -> list[str]:
    return ["", f"### {title}", "", f"| {first} | what must hold | tests | where |", "|---|---|---|---|"]


def _line(name: str, promise: str, places: dict[str, list[str]]) -> str:
    return f"| {name} | {promise} | {sum(map(len, places.values()))} | {_links(places)} |"


def _links(places: dict[str, list[str]]) -> str:
    """Links to the files with most of the tests, and how many more files there are."""
    order = sorted(places, key=lambda path: (-len(places[path]), path))
    links = ", ".join(f"[{_short(path)}](../{path}) ({len(places[path])})" for path in order[:_SHOWN])
    return links if len(order) <= _SHOWN else f"{links} and {len(order) - _SHOWN} more"


def _short(path: str) -> str:
    """The file and its folder; "processes" is the folder of all tests of actors in worker processes.

    >>> _short("tests/conformance/test_ask.py"), _short("tests/system/dispatchers/processes/conformance/test_asks.py")
    ('conformance/test_ask.py', 'processes/test_asks.py')
    """
    *_, folder, name = path.split("/")
    return f"processes/{name}" if "/processes/" in path else f"{folder}/{name}"


def main() -> int:
    """Write the page, or check it."""
    found = find_tests()
    without = missing(found)
    if without:
        print(f"no test names: {', '.join(without)}")
        return 1
    text = page(found)
    if "--check" in sys.argv:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print("docs/conformance.md is up to date" if current else "docs/conformance.md is not: run `make conformance`")
        return 0 if current else 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(ROWS)} rows, {len(CASES)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
