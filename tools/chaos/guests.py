"""The actors of a history. They do what notes say, and write down what they do; worker processes can import them."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from greenroom import Actor, Behaviors, Down, Exit, Lane, ReceiveTimeout, Reply, Signal, Supervision, Terminated
from tools.chaos.journal import journal_at
from tools.chaos.notes import Note, Sender, Target
from tools.chaos.poison import odd_exception, payload

__all__ = ["AsyncMember", "BadStart", "Guest", "Member", "Witness", "start_time"]

LINGER = 20.0
"""Seconds that a process lives which a guest starts, unless the history ends it before."""
STASHED: Any = object()
UNHANDLED: Any = Behaviors.unhandled


def start_time(pid: int) -> str:
    """When a process began, as the system counts it: that and its number name it for good. Empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


class Guest(Actor[Any, Any]):
    """What all have in common: a name in the journal, and a line for each message and hook."""

    def __init__(self, path: str, system: str, home: int) -> None:
        self.path = path
        self.system = system
        self.home = home
        self.is_in_worker = os.getpid() != home
        self.is_open = False
        self.owed: list[tuple[str, Reply]] = []
        self.monitors: list[Any] = []
        self.timers: list[Any] = []

    def pre_start(self) -> None:
        """Say who it is."""
        self.journal = journal_at(self.path)
        self.me = f"{self.system}{self.ctx.self.id}"
        self.life = f"{self.me}.{time.monotonic_ns()}"
        self.sender = Sender(self.journal, self.me)
        self.journal.write("made", self.me, self.life, self.ctx.self.path)

    def post_stop(self) -> None:
        """Say that it ends."""
        self.journal.write("post_stop", self.me, self.life)

    def on_terminated(self, ref: Any, cause: BaseException | None) -> None:
        """A watched actor has ended: `on_signal` says more."""

    def on_signal(self, signal: Signal) -> None:
        """Write down ends."""
        if isinstance(signal, Terminated):
            self.journal.write("told", "watch", self.me, f"{self.system}{signal.ref.id}", signal.reason.kind.value)

    @contextmanager
    def handling(self, note: Note) -> Iterator[list[Any]]:
        """Write down when the handler of a note begins and how it ends; its result goes into the list."""
        result: list[Any] = []
        self.journal.write("begin", note.id, self.me, self.life)
        try:
            yield result
        except BaseException as exc:
            self.journal.write("raised", note.id, self.me, type(exc).__name__)
            raise
        if result[0] is STASHED:
            self.journal.write("stashed", note.id, self.me)
        elif result[0] is UNHANDLED:
            self.journal.write("unhandled", note.id, self.me)
        else:
            self.journal.write("done", note.id, self.me)

    def notice(self, notice: Any) -> None:
        """Not a note: a notice of the runtime, or a reply."""
        if isinstance(notice, Down):
            ended = f"{self.system}{notice.ref.id}"
            self.journal.write("told", "monitor", self.me, ended, notice.reason.kind.value, notice.mref.number)
        elif isinstance(notice, Exit):
            self.journal.write("told", "link", self.me, f"{self.system}{notice.ref.id}", notice.reason.kind.value)
        elif not isinstance(notice, ReceiveTimeout):
            # The reply to a note that was told, and deferred.
            self.journal.write("begin", "reply>?>1>0", self.me, self.life)
            self.journal.write("done", "reply>?>1>0", self.me)

    def act(self, note: Note) -> Any:
        """Do what a note says."""
        done = getattr(self, f"do_{note.action}")(note, *note.args)
        if done is STASHED or isinstance(done, type(UNHANDLED)):
            return done
        return (note.id,) if done is None else (note.id, done)

    # -- relations

    def do_watch(self, note: Note, target: Target) -> None:
        self.ctx.watch(target.ref)
        self.journal.write("registered", "watch", self.me, target.ident)

    def do_unwatch(self, note: Note, target: Target) -> None:
        self.ctx.unwatch(target.ref)
        self.journal.write("unregistered", "watch", self.me, target.ident)

    def do_monitor(self, note: Note, target: Target) -> None:
        mref = self.ctx.monitor(target.ref)
        self.monitors.append(mref)
        self.journal.write("registered", "monitor", self.me, target.ident, mref.number)

    def do_demonitor(self, note: Note) -> None:
        if self.monitors:
            mref = self.monitors.pop()
            self.ctx.demonitor(mref)
            self.journal.write("unregistered", "monitor", self.me, f"{self.system}{mref.ref.id}", mref.number)

    def do_link(self, note: Note, target: Target, traps: bool) -> None:
        self.ctx.trap_exit = traps
        self.ctx.link(target.ref)
        self.journal.write("registered", "link", self.me, target.ident)

    def do_unlink(self, note: Note, target: Target) -> None:
        self.ctx.unlink(target.ref)
        self.journal.write("unregistered", "link", self.me, target.ident)

    def do_echo(self, note: Note) -> None:
        """Answer, and do nothing else."""


class Witness(Guest):
    """Watches, monitors and links for as long as its system runs, and does nothing that could fail."""

    def receive(self, message: Any) -> Any:
        if not isinstance(message, Note):
            return self.notice(message)
        with self.handling(message) as result:
            result.append(self.act(message))
        return result[0]


class Crew(Guest):
    """What members do, beside what all do."""

    # -- messages

    def do_mark(self, note: Note) -> None:
        """Be counted."""

    def do_unhandled(self, note: Note) -> Any:
        return UNHANDLED

    def do_pass(self, note: Note, to: Target, action: str, args: tuple[Any, ...], count: int, lane: int) -> None:
        for _ in range(count):
            self.sender.tell(to, self.sender.note(to, action, *args, lane=Lane(lane)), Lane(lane))

    def do_pass_poison(self, note: Note, to: Target, what: str) -> None:
        self.sender.tell(to, self.sender.note(to, "mark", payload=payload(what)))

    def do_forward(self, note: Note, to: Target) -> None:
        if note.id.split(">")[1] == self.me != to.ident:  # once is enough
            self.journal.write("forwarded", note.id, to.ident)
            self.ctx.forward(to.ref)

    def do_thread(self, note: Note, to: Target, asks: bool) -> None:
        sender = Sender(self.journal, f"{self.me}t{time.monotonic_ns()}")
        asked = sender.note(to, "echo")
        work = (lambda: sender.ask_sync(to, asked, 0.5)) if asks else (lambda: sender.tell(to, asked))
        threading.Thread(target=work, daemon=True).start()

    def do_stash(self, note: Note) -> Any:
        if self.is_open:
            return None
        self.ctx.stash()
        return STASHED

    def do_open(self, note: Note, is_open: bool) -> None:
        self.is_open = is_open
        self.journal.write("unstashes", self.me)
        self.ctx.unstash_all()

    def do_defer(self, note: Note) -> Any:
        self.owed.append((note.id, self.ctx.defer_reply()))

    def do_release(self, note: Note) -> None:
        owed, self.owed = self.owed, []
        for ident, reply in owed:
            reply.send((ident,))

    def do_reply(self, note: Note, what: str) -> Any:
        return payload(what)

    def do_fail_reply(self, note: Note, what: str) -> None:
        self.ctx.fail_reply(odd_exception(what))

    # -- life

    def do_raise(self, note: Note, what: str) -> None:
        raise odd_exception(what)

    def do_leave(self, note: Note) -> None:
        self.ctx.stop()

    def do_spawn(self, note: Note, dispatcher: str, supervision: Supervision | None) -> None:
        self.ctx.spawn(Member, self.path, self.system, self.home, dispatcher=dispatcher, supervision=supervision)

    def do_stop_child(self, note: Note) -> None:
        for child in self.ctx.children[:1]:
            self.ctx.stop(child)

    def do_shut_down(self, note: Note) -> None:
        raise SystemExit(f"asked by {note.id}")

    # -- time

    def do_after(self, note: Note, delay: float) -> None:
        self.timers.append(self.ctx.send_after(delay, self.ctx.self, self.sender.note(None, "mark")))

    def do_every(self, note: Note, interval: float) -> None:
        if len(self.timers) < 3:
            self.timers.append(self.ctx.send_every(interval, self.ctx.self, self.sender.note(None, "tick")))

    def do_tick(self, note: Note) -> None:
        """One of many with the same id."""

    def do_cancel(self, note: Note) -> None:
        timers, self.timers = self.timers, []
        for timer in timers:
            timer.cancel()

    def do_receive_timeout(self, note: Note, seconds: float | None) -> None:
        self.ctx.set_receive_timeout(seconds)

    def do_pipe(self, note: Note, delay: float) -> None:
        self.ctx.pipe_to_self(asyncio.sleep(delay, self.sender.note(None, "mark")))

    def do_nap(self, note: Note, seconds: float) -> None:
        time.sleep(seconds)

    # -- what a bad guest does

    def do_busy(self, note: Note, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass

    def do_gil(self, note: Note, way: str, size: int) -> None:
        if way == "sum":
            sum(range(size * 1_000_000))
        else:
            re.match(r"(a|a)*b", "a" * size)

    def do_exit(self, note: Note) -> None:
        if self.is_in_worker:
            self.journal.write("dies", os.getpid())
            os._exit(3)

    def do_fork(self, note: Note, then_die: bool) -> None:
        if self.is_in_worker:
            pid = os.fork()
            if not pid:
                time.sleep(LINGER)
                os._exit(0)
            self.journal.write("forked", pid, start_time(pid))
            if then_die:
                self.do_exit(note)

    def do_popen(self, note: Note) -> None:
        if self.is_in_worker:
            child = subprocess.Popen(["sleep", str(LINGER)], close_fds=False)
            self.journal.write("forked", child.pid, start_time(child.pid))

    def do_mp_fork(self, note: Note) -> None:
        if self.is_in_worker:
            child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(LINGER,), daemon=True)
            child.start()
            self.journal.write("forked", child.pid, start_time(child.pid or 0))

    def do_stdin(self, note: Note, way: str) -> None:
        if not self.is_in_worker:
            return
        if way == "read":
            threading.Thread(target=_read_input, daemon=True).start()
        elif way == "close":
            with suppress(Exception):
                sys.stdin.close()
        else:
            with suppress(OSError):
                os.close(0)
                os.open(os.devnull, os.O_RDONLY)

    def do_log(self, note: Note, is_bad: bool, size: int) -> None:
        with suppress(BadRecord):
            self.ctx.log.warning("%s %s", BAD_RECORD if is_bad else "fine", "x" * size)


BAD_RECORD = "this record is not liked"


class BadRecord(Exception):
    """Raised by a log handler that does not like a record."""


def _read_input() -> None:
    with suppress(Exception):
        sys.stdin.read()


class Member(Crew):
    """A member with plain functions."""

    def receive(self, message: Any) -> Any:
        return self.take(message)

    def take_otherwise(self, message: Any) -> Any:
        return self.take(message)

    def take(self, message: Any) -> Any:
        if not isinstance(message, Note):
            return self.notice(message)
        with self.handling(message) as result:
            result.append(self.act(message))
        return result[0]

    def do_become(self, note: Note) -> None:
        self.ctx.become(self.take_otherwise)

    def do_unbecome(self, note: Note) -> None:
        self.ctx.unbecome()

    def do_question(self, note: Note, to: Target, action: str, args: tuple[Any, ...], timeout: float) -> None:
        # Where a plain function must not wait, it sends.
        asked = self.sender.note(to, action, *args)
        if self.ctx.env.get("may wait"):
            self.sender.ask_sync(to, asked, timeout)
        else:
            self.sender.tell(to, asked)


class AsyncMember(Crew):
    """A member with coroutines."""

    async def receive(self, message: Any) -> Any:
        return await self.take(message)

    async def take_otherwise(self, message: Any) -> Any:
        return await self.take(message)

    async def take(self, message: Any) -> Any:
        if not isinstance(message, Note):
            return self.notice(message)
        with self.handling(message) as result:
            if message.action == "nap":
                await asyncio.sleep(message.args[0])
                result.append((message.id,))
            elif message.action == "question":
                await self.question(*message.args)
                result.append((message.id,))
            else:
                result.append(self.act(message))
        return result[0]

    async def question(self, to: Target, action: str, args: tuple[Any, ...], timeout: float) -> None:
        """Ask another actor."""
        await self.sender.ask(to, self.sender.note(to, action, *args), timeout)

    def do_become(self, note: Note) -> None:
        self.ctx.become(self.take_otherwise)

    def do_unbecome(self, note: Note) -> None:
        self.ctx.unbecome()


class BadStart(Member):
    """Starts at its second attempt, or never."""

    def pre_start(self) -> None:
        super().pre_start()
        if self.life[-1] in "02468":
            raise ValueError("bad start")
