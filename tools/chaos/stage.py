"""Plays a plan: makes the systems, lets the drivers drive, and writes down what shows at the outside."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from greenroom import (
    ActorSystem,
    ChildSpec,
    Directive,
    Ledger,
    Process,
    Restart,
    Supervision,
    Supervisor,
    SystemConfig,
)
from greenroom.errors import GreenroomError
from tools.chaos.drivers import MainDriver, ThreadDriver
from tools.chaos.guests import AsyncMember, BadStart, Member, Witness
from tools.chaos.journal import journal_at
from tools.chaos.notes import Note, Sender, Target, outcome_of
from tools.chaos.observing import Ears, Observing
from tools.chaos.oddguests import Hooked
from tools.chaos.plan import Plan
from tools.chaos.poison import LIMIT

__all__ = ["Facts", "SystemFacts", "play"]

KINDS = {"member": Member, "async": AsyncMember, "bad start": BadStart, "hooked": Hooked}
MAY_WAIT = "parallel"
"""The dispatcher on which a plain function may block until it is answered."""


@dataclass
class SystemFacts:
    """How a system ended, as it says itself."""

    ledger: Ledger
    ledgers: dict[str, Ledger]
    dispatchers: dict[str, str]
    started: int
    terminated: int
    forced: tuple[str, ...]
    cause: str
    seconds: float
    alive: int
    timers: int
    dead_letters: int
    by_reason: dict[str, int]


@dataclass
class Facts:
    """What the model needs beside the journal."""

    home: int
    plan: Plan
    patience: float
    systems: dict[str, SystemFacts] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    """What was wrong on the spot."""


class Stage:
    """A history that is being played."""

    def __init__(self, plan: Plan, path: str, patience: float) -> None:
        self.plan = plan
        self.path = path
        self.patience = patience
        self.stop_timeout = patience if plan.stop_timeout is None else plan.stop_timeout
        self.journal = journal_at(path)
        self.facts = Facts(os.getpid(), plan, patience)
        self.systems: dict[str, ActorSystem] = {}
        self.members: dict[int, Target] = {}
        self.witnesses: dict[str, list[Target]] = {}
        self.supervisors: list[Target] = []
        # The parents of members that have no other: so no member is a sibling of a witness, and restarted with it.
        self.yards: dict[str, Target] = {}
        # All whom anybody has seen, and those among them who are sent notes. Appended to by many threads.
        self.seen: dict[str, Target] = {}
        self.cast: list[Target] = []
        # Those who are known to be in worker processes.
        self.in_workers: set[str] = set()
        # How many messages have been sent that end a process.
        self.deaths = 0
        self.pending: set[asyncio.Task[None]] = set()

    # -- who is there

    def meet(self, target: Target) -> None:
        """An actor is there. From any thread."""
        if self.seen.setdefault(target.ident, target) is target and target.ref.name[0] not in "wsy":
            self.cast.append(target)

    def given(self, system: str) -> tuple[str, str, int]:
        """What guests are made with."""
        return self.path, system, self.facts.home

    def whom(self, where: float, system: str | None = None, in_worker: bool = False) -> Target | None:
        """One of those who are there, in that system or anywhere; in a worker process, if there is one."""
        found = [one for one in self.cast if system in (None, one.system)]
        found = [one for one in found if in_worker and one.ident in self.in_workers] or found
        return found[int(where * len(found))] if found else None

    def is_over(self) -> bool:
        """Whether the first system has ended, or is about to."""
        return self.systems["a"].phase != "running"

    def wrong(self, text: str) -> None:
        """Write down a violation."""
        self.journal.write("WRONG", text)
        self.facts.violations.append(text)

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it beside the rest; it is waited for."""
        task = asyncio.get_running_loop().create_task(work)
        self.pending.add(task)
        task.add_done_callback(self.pending.discard)

    # -- the play

    async def play(self) -> None:
        """From the first actor to the last, and the end of the systems."""
        try:
            await self._set_up()
            driving = [ThreadDriver(self, number, steps) for number, steps in enumerate(self.plan.drivers[1:], 1)]
            main = MainDriver(self, "M", self.plan.drivers[0])
            try:
                for driver in driving:
                    driver.start()
                await main.drive()
                if "abrupt" not in self.plan.features:
                    await self._calm_down(driving)
                await self._shut_down()
                await self._calm_down(driving)
            finally:
                main.clean_up()
            await self._look_back()
        finally:
            for system in self.systems.values():
                with suppress(GreenroomError):
                    system.stop()

    def _config(self) -> SystemConfig:
        large = {"oversize", "buffers", "bad_reply", "odd_errors"} & set(self.plan.features)
        process = Process(self.plan.workers, LIMIT) if large else Process(self.plan.workers)
        return SystemConfig(dispatchers={"process": process}, stop_timeout=self.stop_timeout, seed=self.plan.seed)

    async def _set_up(self) -> None:
        for letter in "ab" if "two" in self.plan.features else "a":
            system = self.systems[letter] = ActorSystem(letter, config=self._config())
            if letter == "a":
                await system.start()
            else:
                system.__enter__()
            system.observers.add(Observing(self, letter))
            system.dead_letters.subscribe(partial(self._dead_letter, letter))
            escalates = "escalate" in self.plan.features and self.plan.seed % 3 == 0
            fate = Directive.ESCALATE if escalates else Directive.RESUME
            yard = system.spawn(Member, *self.given(letter), name="y", supervision=Supervision(fate))
            self.yards[letter] = Target(letter, yard)
            self.witnesses[letter] = [
                Target(letter, system.spawn(Witness, *self.given(letter), name=f"w{one}", dispatcher=where))
                for one, where in enumerate(("concurrent", "parallel", "pinned"))
            ]
        for number, (scope, intensity, children) in enumerate(self.plan.supervisors):
            specs = [
                ChildSpec(
                    name,
                    Member,
                    self.given("a"),
                    restart=Restart(restart),
                    shutdown=self.stop_timeout,
                    dispatcher=where,
                )
                for name, where, restart in children
            ]
            spec = Supervisor.spec(specs, scope=scope, intensity=intensity)
            gentle = Supervision(Directive.STOP)
            self.supervisors.append(
                Target("a", self.systems["a"].spawn(Supervisor, spec, name=f"s{number}", supervision=gentle))
            )

    def _dead_letter(self, system: str, letter: Any) -> None:
        message = letter.message
        ident = message.id if isinstance(message, Note) else ""
        self.journal.write("dead", system, ident, type(message).__name__, letter.reason[:100])

    def spawn(self, number: int) -> None:
        """Spawn a member of the plan. From any thread."""
        plan = self.plan.members[number]
        parent = None if plan.parent is None else self.members.get(plan.parent)
        if parent is None or parent.system != plan.system:
            parent = self.yards[plan.system]
        try:
            ref = self.systems[plan.system].spawn(
                KINDS[plan.kind],
                *self.given(plan.system),
                name=f"m{number}",
                dispatcher=plan.dispatcher,
                supervision=plan.supervision,
                mailbox=plan.mailbox,
                drain=plan.drain,
                env={"may wait": plan.dispatcher == MAY_WAIT},
                parent=parent.ref,
            )
        except GreenroomError as exc:
            self.journal.write("not spawned", number, *outcome_of(exc))
            return
        target = self.members[number] = Target(plan.system, ref)
        if plan.dispatcher == "process":
            self.in_workers.add(target.ident)
        self.meet(target)
        self.journal.write("spawned", target.ident, number, plan.dispatcher, plan.kind)

    # -- the end

    async def _calm_down(self, driving: list[ThreadDriver]) -> None:
        """Wait until all that is under way has ended, and check that all actors are well."""
        deadline = time.monotonic() + self.patience
        while any(driver.is_alive() for driver in driving):
            await asyncio.sleep(0.005)
            if time.monotonic() > deadline:
                self.wrong("hang: a driver does not come to its end")
                return
        if self.pending:
            _, late = await asyncio.wait(set(self.pending), timeout=self.patience)
            for task in late:
                self.wrong(f"hang: {task.get_coro()} does not come to its end")
                task.cancel()
        if self.is_over():
            return
        await asyncio.gather(*(self._probe(one) for one in list(self.seen.values())))
        if self.is_over():
            return
        try:
            await self.systems["a"].settle(self.patience)
        except GreenroomError as exc:
            if not self.is_over():
                self.wrong(f"settle: {outcome_of(exc)}")
            return
        ledger = self.systems["a"].ledger()
        if not ledger.balanced or ledger.in_hand:
            self.wrong(f"ledger: at rest it is {ledger}, and sums up to {ledger.accounted}")
        self.journal.write("calm")

    async def _probe(self, target: Target) -> None:
        """Everybody who lives answers; those who are busy, lost or full have some time."""
        sender = Sender(self.journal, f"P{target.ident}")
        if target in self.supervisors:
            return
        until = time.monotonic() + self.patience
        error: BaseException | None = None
        while (left := until - time.monotonic()) > 0 and target.ref.is_alive and not self.is_over():
            note = sender.note(target, "echo")
            self.journal.write("asking", note.id, "probe", left)
            try:
                reply = await target.ref.ask(note, timeout=left)
            except Exception as exc:
                error = exc
                self.journal.write("answer", note.id, *outcome_of(exc))
            else:
                self.journal.write("answer", note.id, "reply", reply[0])
                return
            await asyncio.sleep(0.02)
        if target.ref.is_alive and not self.is_over():
            self.wrong(f"wedged: {target.ident} {target.ref.path}, {target.ref.state}, does not answer: {error!r}")

    async def _shut_down(self) -> None:
        for letter, system in reversed(self.systems.items()):
            began = time.monotonic()
            self.journal.write("shutdown", letter)
            if letter == "b":
                closing = threading.Thread(target=system.close, args=(self.patience,))
                closing.start()
                while closing.is_alive() and time.monotonic() - began < 2 * self.patience:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)  # a thread tells no event of asyncio's
                is_over = not closing.is_alive()
            else:
                try:
                    await asyncio.wait_for(system.shutdown(self.patience), 2 * self.patience)
                    is_over = True
                except TimeoutError:
                    is_over = False
            if not is_over:
                self.wrong(f"shutdown: {letter} has not ended in its time")
            self.journal.write("shut down", letter, time.monotonic() - began)

    async def _look_back(self) -> None:
        """What the systems say when all is over."""
        for target in list(self.seen.values()):
            try:
                reason = await asyncio.wait_for(target.ref.terminated(), self.patience)
            except TimeoutError:
                self.wrong(f"ends: nobody is told of the end of {target.ident} {target.ref.path}")
            else:
                self.journal.write("exit", target.ident, reason.kind.value)
        for letter, system in self.systems.items():
            await self._try_the_dead(letter, system)
            report = system.report
            if report is None:
                self.wrong(f"shutdown: {letter} has no report")
                continue
            snapshot = system.snapshot()
            mine = {ident: one for ident, one in self.seen.items() if one.system == letter}
            self.facts.systems[letter] = SystemFacts(
                ledger=system.ledger(),
                ledgers={ident: system.ledger(one.ref) for ident, one in mine.items()},
                dispatchers={self.members[n].ident: self.plan.members[n].dispatcher for n in self.members},
                started=report.started,
                terminated=report.terminated,
                forced=report.forced,
                cause=type(report.cause).__name__,
                seconds=report.seconds,
                alive=len(system.actors()),
                timers=snapshot.timers,
                dead_letters=system.dead_letters.count,
                by_reason=system.dead_letters.by_reason,
            )

    async def _try_the_dead(self, letter: str, system: ActorSystem) -> None:
        """The dead take no more: a tell is a dead letter, an ask fails at once, a spawn is refused."""
        witness = self.witnesses[letter][0]
        sender = Sender(self.journal, f"L{letter}")
        before = system.dead_letters.count
        note = sender.note(witness, "echo")
        sender.tell(witness, note)
        if system.dead_letters.count != before + 1:
            self.wrong("dead letters: a message to an actor of a stopped system is none")
        began = time.monotonic()
        try:
            await asyncio.wait_for(witness.ref.ask(sender.note(witness, "echo"), timeout=self.patience), self.patience)
        except GreenroomError:
            if time.monotonic() - began > self.patience / 2:
                self.wrong("asks: one to a dead actor did not fail at once")
        except TimeoutError:
            self.wrong("asks: one to a dead actor hangs")
        try:
            system.spawn(Witness, *self.given(letter))
        except GreenroomError:
            pass
        else:
            self.wrong("shutdown: a stopped system spawns")


def play(plan: Plan, path: str, patience: float) -> Facts:
    """Play a history, in an asyncio loop of its own; what is said of it is in its facts and its journal."""
    stage = Stage(plan, path, patience)
    ears = Ears(stage)
    root = logging.getLogger()
    root.addHandler(ears)
    try:
        with asyncio.Runner(loop_factory=_loop_factory(plan)) as runner:
            runner.run(_watched(stage))
    finally:
        root.removeHandler(ears)
        stage.journal.close()
    return stage.facts


async def _watched(stage: Stage) -> None:
    await stage.play()
    deadline = time.monotonic() + stage.patience
    while left := [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]:
        if time.monotonic() > deadline:
            stage.wrong(f"leak: tasks {left}")
            return
        await asyncio.sleep(0.005)


def _loop_factory(plan: Plan) -> Any:
    if plan.uvloop:
        with suppress(ImportError):
            import uvloop

            return uvloop.new_event_loop
    return None
