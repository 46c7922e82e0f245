"""Those who drive a history from outside: one on the asyncio loop, which also attacks processes, and some threads."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from greenroom import (
    CountChildren,
    DeleteChild,
    Directive,
    Lane,
    RestartChild,
    StopChild,
    Supervision,
    WhichChildren,
)
from greenroom.errors import GreenroomError
from tools.chaos.guests import LINGER, start_time
from tools.chaos.notes import Note, OddNote, Sender, Target, outcome_of
from tools.chaos.oddguests import BAD_FACTORIES
from tools.chaos.plan import Step
from tools.chaos.poison import payload

if TYPE_CHECKING:
    from tools.chaos.stage import Stage

__all__ = ["MainDriver", "ThreadDriver", "children_of_this_process"]

RELATIONS = frozenset({"watch", "unwatch", "monitor", "link", "unlink"})
"""Actions that only make sense between actors of one system."""
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT)
DEATHS = 3
"""How many messages of a history end the process that handles them."""
IN_WORKERS = frozenset({"exit", "fork", "popen", "mp_fork", "stdin", "log", "reply", "busy", "gil"})
"""Actions that are for guests in worker processes, if there are any."""


def children_of_this_process() -> set[int]:
    """Processes that this one has started and not waited for, zombies too."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            found.update(map(int, (task / "children").read_text().split()))
    return found


class Driver:
    """Takes its steps, one after the other."""

    def __init__(self, stage: Stage, name: str, steps: tuple[Step, ...]) -> None:
        self.stage = stage
        self.steps = steps
        self.sender = Sender(stage.journal, name, OddNote if "odd_notes" in stage.plan.features else Note)
        self._related: set[tuple[str, str, str]] = set()

    def note_for(self, whom: Any, action: tuple[str, tuple[Any, ...]], lane: Lane, what: str | None) -> Any:
        """A target that is there, and a note for it; None if there is none."""
        name, args = action
        if name == "exit" or (name == "fork" and args[0]):
            # A worker takes half a second to start: a queue full of this would be all that happens.
            self.stage.deaths += 1
            if self.stage.deaths > DEATHS:
                name, args = "mark", ()
        to = self.stage.whom(whom[1], in_worker=what is not None or name in IN_WORKERS)
        if to is None:
            return None
        system = to.system if name in RELATIONS else None
        given = tuple(self.stage.whom(one[1], system) if _is_whom(one) else one for one in args)
        return to, self.sender.note(to, name, *given, lane=lane, payload=None if what is None else payload(what))

    # -- steps that are the same for all

    def tell(self, whom: Any, action: Any, lane: int, what: str | None) -> None:
        """Send a note."""
        if found := self.note_for(whom, action, Lane(lane), what):
            with suppress(BaseException):  # what its payload raises when it is pickled may be no Exception
                self.sender.tell(found[0], found[1], Lane(lane))

    def burst(self, whom: Any, action: Any, count: int, lane: int) -> None:
        """Send many."""
        to = self.stage.whom(whom[1])
        if to is not None:
            for _ in range(count):
                self.sender.tell(to, self.sender.note(to, action[0], *action[1], lane=Lane(lane)), Lane(lane))
            if action[0] == "stash":
                self.sender.tell(to, self.sender.note(to, "open", True))

    def witness(self, number: int, way: str, whom: Any) -> None:
        """Have a witness watch a target, or no longer; a watch or a link at most once, for those are not counted."""
        target = self.stage.whom(whom[1])
        if target is None:
            return
        witness = self.stage.witnesses[target.system][number]
        key = (witness.ident, way, target.ident)
        if way in ("watch", "link"):
            if key in self._related or not self.sender.name.startswith("M"):
                return
            self._related.add(key)
        args: tuple[Any, ...] = () if way == "demonitor" else (target,)
        note = self.sender.note(witness, way, *args, *((True,) if way == "link" else ()))
        self.sender.tell(witness, note)

    def life(self, whom: Any, way: str) -> None:
        """Stop, kill, restart or fail a target."""
        target = self.stage.whom(whom[1])
        if target is None:
            return
        self.stage.journal.write("order", target.ident, way)
        match way:
            case "stop":
                target.ref.stop()
            case "stop after":
                target.ref.stop(after_queued=True)
            case "kill":
                target.ref.kill()
            case "restart":
                target.ref.restart()
            case _:
                target.ref.fail(RuntimeError("from outside"))


def _is_whom(arg: Any) -> bool:
    return isinstance(arg, tuple) and len(arg) == 2 and arg[0] == "whom"


def _request(way: str, child: str) -> Any:
    match way:
        case "which":
            return WhichChildren()
        case "count":
            return CountChildren()
        case "stop":
            return StopChild(child)
        case "restart":
            return RestartChild(child)
        case _:
            return DeleteChild(child)


class ThreadDriver(Driver, threading.Thread):
    """On a thread of its own."""

    def __init__(self, stage: Stage, number: int, steps: tuple[Step, ...]) -> None:
        threading.Thread.__init__(self, name=f"driver {number}", daemon=True)
        Driver.__init__(self, stage, f"T{number}", steps)

    def run(self) -> None:
        """Take all steps."""
        for step in self.steps:
            if self.stage.is_over():
                return
            time.sleep(step.after)
            try:
                getattr(self, step.do)(*step.args)
            except Exception as exc:
                if not isinstance(exc, GreenroomError) or not self.stage.is_over():
                    self.stage.wrong(f"driver: {step.do} raises {outcome_of(exc)}")

    def ask(self, whom: Any, action: Any, timeout: float, what: str | None) -> None:
        """Ask, and wait."""
        if found := self.note_for(whom, action, Lane.DATA, what):
            with suppress(BaseException):
                self.sender.ask_sync(found[0], found[1], timeout)

    def send(self, whom: Any, timeout: float) -> None:
        """A thread does not wait for room."""
        self.tell(whom, ("mark", ()), 1, None)

    def cancelled_ask(self, whom: Any, action: Any) -> None:
        """Nor can it cancel."""
        self.ask(whom, action, 0.01, None)

    def supervisor(self, where: float, way: str, child: str) -> None:
        """Ask a supervisor for something."""
        supervisors = self.stage.supervisors
        with suppress(GreenroomError):
            supervisors[int(where * len(supervisors))].ref.ask_sync(_request(way, child), timeout=self.stage.patience)

    def look(self, whom: Any) -> None:
        """Look at the systems from outside."""
        target = self.stage.whom(whom[1])
        for system in self.stage.systems.values():
            system.snapshot().to_json()
            system.tree()
            system.ledger()
        if target is not None:
            _ = target.ref.state, target.ref.path, self.stage.systems[target.system].ledger(target.ref)


class MainDriver(Driver):
    """On the loop of the first system. It is also the one that attacks processes."""

    def __init__(self, stage: Stage, name: str, steps: tuple[Step, ...]) -> None:
        super().__init__(stage, name, steps)
        self._frozen: dict[int, str] = {}
        self._forked: list[int] = []

    async def drive(self) -> None:
        """Take all steps."""
        for step in self.steps:
            await asyncio.sleep(step.after)
            if self.stage.is_over():
                return
            try:
                done = getattr(self, step.do)(*step.args)
                if done is not None:
                    self.stage.in_background(done)
            except GreenroomError as exc:
                if not self.stage.is_over():
                    self.stage.wrong(f"driver: {step.do} raises {outcome_of(exc)}")

    def spawn(self, number: int) -> None:
        """Spawn a member."""
        self.stage.spawn(number)

    def bad_spawn(self, which: str, dispatcher: str) -> None:
        """Spawn what cannot be made."""
        factory, more = BAD_FACTORIES[which]()
        given = (*self.stage.given("a"), *more)
        parent = self.stage.yards["a"].ref
        try:
            ref = self.stage.systems["a"].spawn(
                factory, *given, dispatcher=dispatcher, supervision=Supervision(Directive.STOP), parent=parent
            )
        except GreenroomError as exc:
            self.stage.journal.write("not spawned", which, *outcome_of(exc))
        else:
            self.stage.meet(Target("a", ref))

    def ask(self, whom: Any, action: Any, timeout: float, what: str | None) -> Any:
        """Ask now, and wait beside the rest."""
        found = self.note_for(whom, action, Lane.DATA, what)
        if found is None:
            return None
        try:
            return self.sender.ask(found[0], found[1], timeout)
        except BaseException as exc:
            if isinstance(exc, Exception) or type(exc).__name__ != "NotOrdinary":
                raise
            self.stage.journal.write("answer", found[1].id, *outcome_of(exc))  # what the payload raises
            return None

    def cancelled_ask(self, whom: Any, action: Any) -> Any:
        """Ask, and wait no longer."""
        if found := self.note_for(whom, action, Lane.DATA, None):
            self.stage.journal.write("sending", found[1].id, "cancelled ask")
            with suppress(GreenroomError):  # a full mailbox
                found[0].ref.ask(found[1], timeout=1.0).cancel()

    async def send(self, whom: Any, timeout: float) -> None:
        """Send when there is room."""
        if found := self.note_for(whom, ("mark", ()), Lane.DATA, None):
            to: Target = found[0]
            # In a task it comes when it comes: it is another sender's.
            note: Note = Sender(self.stage.journal, f"S{found[1].id.rpartition('>')[2]}").note(to, "mark")
            self.stage.journal.write("sending", note.id, "send")
            try:
                await to.ref.send(note, timeout=timeout)
            except GreenroomError as exc:
                self.stage.journal.write("refused", note.id, type(exc).__name__)
            else:
                self.stage.journal.write("sent", note.id)

    async def supervisor(self, where: float, way: str, child: str) -> None:
        """Ask a supervisor for something."""
        supervisors = self.stage.supervisors
        target = supervisors[int(where * len(supervisors))]
        try:
            await target.ref.ask(_request(way, child), timeout=self.stage.patience)
        except TimeoutError as exc:
            self.stage.wrong(f"wedged: {target.ref.path} does not answer {way}: {outcome_of(exc)}")
        except Exception as exc:
            self.stage.journal.write("supervisor", way, child, *outcome_of(exc))

    async def look(self, whom: Any) -> None:
        """Inspect a target."""
        target = self.stage.whom(whom[1])
        self.stage.systems["a"].snapshot().to_json()
        if target is not None:
            try:
                async with asyncio.timeout(self.stage.patience):
                    await target.ref.inspect(timeout=None)
            except TimeoutError:
                self.stage.wrong(f"wedged: {target.ident} {target.ref.path} cannot be inspected")
            except Exception as exc:
                self.stage.journal.write("inspect", target.ident, *outcome_of(exc))

    # -- attacks

    def _workers(self) -> list[int]:
        """Worker processes, as the systems list them, that are children of this process."""
        mine = children_of_this_process()
        listed = [system.dispatchers.processes.get("process", []) for system in self.stage.systems.values()]
        return [pid for pids in listed for pid in pids if pid in mine]

    async def kill(self, where: float, seconds: float) -> None:
        """Kill a worker process, when it has enough to do."""
        to = self.stage.whom(where, in_worker=True)
        if to is not None and seconds > 0.1:
            with suppress(Exception):  # it may not start at all
                async with asyncio.timeout(self.stage.patience / 4):
                    await to.ref.started()
        # In a task it comes when it comes: it is another sender's.
        sender = Sender(self.stage.journal, f"K{int(where * 1e9)}")
        for _ in range(50 if to is not None else 0):
            sender.tell(to, sender.note(to, "nap", 0.001))  # type: ignore[arg-type]
        await asyncio.sleep(seconds / 10)
        if self.stage.is_over():
            return
        if workers := self._workers():
            pid = workers[int(where * len(workers))]
            self.stage.journal.write("kills", pid)
            with suppress(ProcessLookupError):
                os.kill(pid, SIGNALS[int(seconds * 1000) % len(SIGNALS)])

    async def freeze(self, where: float, seconds: float) -> None:
        """Stop a worker process by a signal, and let it go on after a while."""
        if not (workers := self._workers()):
            return
        pid = workers[int(where * len(workers))]
        self._frozen[pid] = start_time(pid)
        self.stage.journal.write("freezes", pid, seconds)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._thaw(pid)

    def _thaw(self, pid: int) -> None:
        began = self._frozen.pop(pid, "")
        if began and start_time(pid) == began:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def home_fork(self, where: float, seconds: float) -> None:
        """Fork this process: the child holds all that is open here."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that there are other threads is the point
            pid = os.fork()
        if not pid:
            time.sleep(LINGER)
            os._exit(0)
        self._forked.append(pid)
        self.stage.journal.write("forks", pid)

    def clean_up(self) -> None:
        """Leave nothing of one's own behind."""
        for pid in list(self._frozen):
            self._thaw(pid)
        forked, self._forked = self._forked, []
        for pid in forked:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
