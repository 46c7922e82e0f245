"""Plant faults in the package, one by one, and see whether the tests find them.

Each fault is put into a copy of the package, and the tests of `make test` are run against that copy until the first
failure, which must fail again by itself, and pass without the fault. What they miss is tried with the tests of `make
test-all`: those must find no more, or `--matrix=pairs` leaves out too much.

Run as ``python -m tools.planted_faults``, with names of faults for some of them, in an environment that has what the
tests need but not greenroom (`make faults` does). With ``--compiled``, what the plain-Python build misses is tried with
the compiled one.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src"
SCRATCH = ROOT / "build" / "faults"


class Fault(NamedTuple):
    """A change of one place in the package, and what is wrong then."""

    name: str
    file: str
    old: str
    new: str
    breaks: str


FAULTS = (
    Fault(
        "side-lane-bound",
        "_core/delivery/reservations.py",
        "if cell.depth(lane) + self._reserved.get(key, 0) >= cell.config.room(lane):",
        "if cell.depth(lane) + self._reserved.get(key, 0) > cell.config.room(lane):",
        "other threads get one message too many into a side lane",
    ),
    Fault(
        "run-queue-growth",
        "_core/runqueue.py",
        "new = old[self.head :] + old[: self.head] + [None] * len(old)",
        "new = old[: self.head] + old[self.head :] + [None] * len(old)",
        "actors lose their order when the run queue grows while it is wrapped around",
    ),
    Fault(
        "inbound-order",
        "_core/delivery/inbound.py",
        "self._kept = late[delivered:]",
        "self._kept = late[:delivered:-1]",
        "what an interrupted tick left over is delivered in the wrong order",
    ),
    Fault(
        "missed-beats",
        "_core/timing/timers.py",
        "missed = min(ceil(late / self.interval), MOST_MISSED)",
        "missed = min(int(late / self.interval), MOST_MISSED)",
        "a fixed-rate timer rings again for a beat that has passed",
    ),
    Fault(
        "cancelled-for-good",
        "_core/scheduler/stepping.py",
        "                exc = task._make_cancelled_error()\n            task._must_cancel = False\n",
        "                exc = task._make_cancelled_error()\n",
        "an async handler that survives a cancellation is cancelled again at its next step",
    ),
    Fault(
        "circle-with-an-answer",
        "actor/messaging/askdeadlock.py",
        "while followed._status == OPEN and not followed.replied:",
        "while followed._status == OPEN:",
        "actors count as waiting for one another though one of them has answered",
    ),
    Fault(
        "stash-still-queued",
        "actor/messaging/stash.py",
        "self._cell.loop.admission.count_stashed(self._cell, -len(entries))",
        "self._cell.loop.admission.count_stashed(self._cell, -min(1, len(entries)))",
        "messages that an ending actor had stashed stand in two columns of the ledger",
    ),
    Fault(
        "stash-order",
        "actor/messaging/stash.py",
        "                message, sender, lane = first[-1]\n"
        "                self._cell.loop.admission.take_back(self._cell, message, sender, lane)\n"
        "                first.pop()\n",
        "                message, sender, lane = first[0]\n"
        "                self._cell.loop.admission.take_back(self._cell, message, sender, lane)\n"
        "                first.pop(0)\n",
        "unstashed messages come in the reverse order",
    ),
    Fault(
        "letters-about-letters",
        "system/deadletters.py",
        "if subscriptions and not isinstance(message, DeadLetter):",
        "if subscriptions:",
        "a dead letter about a dead letter is told, and so on",
    ),
    Fault(
        "watched-again",
        "actor/relations/watch.py",
        "        known.message = message\n        return\n",
        "        return\n",
        "to watch again with another message changes nothing",
    ),
    Fault(
        "window-edge",
        "policy/intensity.py",
        "while moments and elapsed(moments[0], now) > self.within:",
        "while moments and elapsed(moments[0], now) >= self.within:",
        "a restart exactly as old as the window is not counted",
    ),
    Fault(
        "group-stops-forwards",
        "actor/failure/groups.py",
        "for member in reversed(members):",
        "for member in members:",
        "the actors of a restart group stop in the order they were started in",
    ),
    Fault(
        "never-abandoned",
        "actor/life/forcing.py",
        'its handler is cancelled", cell.name(), what, extra=fields)\n'
        "            extras.deadline = Deadline(cell, GRACE, cancelled=True)\n",
        'its handler is cancelled", cell.name(), what, extra=fields)\n'
        "            extras.deadline = Deadline(cell, GRACE)\n",
        "a handler that goes on though it was cancelled is cancelled again and again",
    ),
    Fault(
        "drained-question",
        "actor/messaging/drain.py",
        "            forward_question(sender, target)\n",
        "            pass\n",
        "an asker whose question was passed on does not learn of the end of who is to answer",
    ),
    Fault(
        "significant-but-absent",
        "policy/plan.py",
        "left = any(other.significant and other.present and not other.finished for other",
        "left = any(other.significant and not other.finished for other",
        "a supervisor does not shut down while a significant child is not there",
    ),
    Fault(
        "thread-too-few",
        "system/dispatchers/parallel.py",
        "if me in self._threads and len(self._threads) > self._most + len(self._waiting):",
        "if me in self._threads and len(self._threads) > self._most:",
        "threads leave while others only wait for an answer, so fewer than agreed are at work",
    ),
    Fault(
        "context-of-another-life",
        "system/dispatchers/pinned.py",
        "if self._life is not handoff.cell.context:",
        "if self._life is None:",
        "a restarted actor on a thread of its own finds the context variables of its last life",
    ),
    Fault(
        "lost-but-one",
        "system/dispatchers/processes/pool/messages.py",
        "cell.loop.admission.count_lost(cell, count)",
        "cell.loop.admission.count_lost(cell, 1)",
        "of the messages that are lost with a worker process, one is counted",
    ),
    Fault(
        "deadline-by-one-clock",
        "system/ending/shutdown.py",
        "asyncio.get_running_loop().call_later(seconds, ring)",
        "asyncio.get_running_loop().call_later(3600.0 + seconds, ring)",
        "a shutdown goes by the system's clock alone, which may stand still",
    ),
    Fault(
        "addresses-decide",
        "_core/simulation/schedules.py",
        "    return cell.id\n",
        "    return id(cell)\n",
        "a simulation depends on where actors lie in memory, so a seed is not always the same run",
    ),
)


def plant(fault: Fault | None, place: Path) -> Path:
    """Copy the package into `place`, with the fault if there is one; the folder for the path."""
    shutil.rmtree(place, ignore_errors=True)
    (SCRATCH / "tmp").mkdir(parents=True, exist_ok=True)
    shutil.copytree(SOURCES, place, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    if fault is not None:
        file = place / "greenroom" / fault.file
        text = file.read_text(encoding="utf-8")
        if text.count(fault.old) != 1:
            raise SystemExit(f"{fault.name}: what it changes is not in {fault.file}, or more than once")
        file.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    return place


def compiled(sources: Path, place: Path) -> Path:
    """Build the compiled package from `sources` into `place`."""
    project = place.with_name(place.name + "-project")
    for folder in (project, place):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sources, project / "src")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, project / name)
    command = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-build-isolation", "--no-index"]
    environ = {**os.environ, "GREENROOM_REQUIRE_COMPILED": "1"}
    subprocess.run([*command, "--target", str(place), str(project)], check=True, env=environ)
    return place


class Outcome(NamedTuple):
    """What a run of the tests found: the first test that failed, if one did; and whether the run came to its end."""

    test: str | None
    seconds: float
    ended: bool


def run_tests(package: Path, arguments: list[str], timeout: float) -> Outcome:
    """Run tests against the package in a folder, until the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "--tb=no"]
    command += [f"--basetemp={SCRATCH / 'tmp' / package.name}", "-o", f"cache_dir={SCRATCH / 'cache'}", *arguments]
    environ = {**os.environ, "PYTHONPATH": str(package)}
    environ.pop("GREENROOM_EXPECT", None)
    if not list(package.glob("*.dist-info")):  # installed, it would bring its plugin to every run, also of a test's own
        environ["PYTEST_PLUGINS"] = "greenroom.testing.plugin"
    began = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(None, time.monotonic() - began, ended=False)
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    test = found[1] if found else None if done.returncode == 0 else f"(exit {done.returncode})"
    return Outcome(test, time.monotonic() - began, ended=True)


def search(fault: Fault, package: Path, clean: Path, matrix: str, options: argparse.Namespace) -> Outcome:
    """Run the tests of a matrix: first those of the fault's own floor, which find most, then all."""
    if not options.tests:
        near = ROOT / "tests" / fault.file.split("/", maxsplit=1)[0].lstrip("_")
        outcome = find(package, clean, matrix, [str(near)], options)
        if outcome.test is not None:
            return outcome
    return find(package, clean, matrix, options.tests, options)


def find(package: Path, clean: Path, matrix: str, places: list[str], options: argparse.Namespace) -> Outcome:
    """Run the tests in some places. What fails without the fault too, or fails once and not again, has found nothing:
    the run begins anew without it.
    """
    left_out: list[str] = []
    while True:
        arguments = [f"--matrix={matrix}", "-n", str(options.workers), *places, *left_out]
        outcome = run_tests(package, arguments, options.timeout)
        if outcome.test is None or "::" not in outcome.test:
            return outcome
        again, without = (run_tests(which, [outcome.test], options.timeout) for which in (package, clean))
        if again.test is not None and without.test is None:
            return outcome
        left_out.append(f"--deselect={outcome.test}")


def _said(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    if outcome.test is not None:
        return f"`{outcome.test}` ({outcome.seconds:.0f} s)"
    return f"missed ({outcome.seconds:.0f} s)" if outcome.ended else f"not within {outcome.seconds:.0f} s"


def main() -> int:
    """Try them, and print what found each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="faults to try (default: all)")
    parser.add_argument("--compiled", action="store_true", help="try the compiled build with what the other misses")
    parser.add_argument("--pairs-only", action="store_true", help="do not try `make test-all` with what is missed")
    parser.add_argument("--timeout", type=float, default=1800.0, metavar="S", help="seconds for each run")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes for each run")
    parser.add_argument("--tests", nargs="*", default=[], help="files or folders of tests (default: all)")
    options = parser.parse_args()
    unknown = set(options.names) - {fault.name for fault in FAULTS}
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    clean = plant(None, SCRATCH / "clean")
    clean_compiled: Path | None = None
    missed = 0
    print("| fault | what it breaks | found by `make test` | else by `make test-all` |\n|---|---|---|---|", flush=True)
    for fault in FAULTS:
        if options.names and fault.name not in options.names:
            continue
        package = plant(fault, SCRATCH / fault.name)
        outcome = search(fault, package, clean, "pairs", options)
        if outcome.test is None and options.compiled:
            clean_compiled = clean_compiled or compiled(clean, SCRATCH / "clean-compiled")
            built = compiled(package, SCRATCH / f"{fault.name}-compiled")
            outcome = search(fault, built, clean_compiled, "pairs", options)
        beyond = None
        if outcome.test is None:
            missed += 1
            beyond = None if options.pairs_only else search(fault, package, clean, "all", options)
        print(f"| {fault.name} | {fault.breaks} | {_said(outcome)} | {_said(beyond)} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
