"""Actors that watch, monitor and link others, and what they are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Backoff,
    Context,
    Directive,
    Down,
    Exit,
    ExitReason,
    MonitorRef,
    Supervision,
)
from tests.gates import Event

Ref = ActorRef[Any, Any]
BAD = ValueError("bad")


class Doer(Actor[Any, Any]):
    """Does with its context what a message says, if that is a function; notes it, if not."""

    def __init__(self, log: list[Any] | None = None) -> None:
        self.log = [] if log is None else log

    def receive(self, message: Any) -> Any:
        if callable(message):
            return message(self.ctx)
        self.log.append(message)
        return None


class Watcher(Doer):
    def on_terminated(self, ref: Ref, cause: BaseException | None) -> Any:
        self.log.append((ref, cause))


class Plain(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


async def end(ref: Ref, cause: BaseException | None = None) -> Ref:
    if cause is None:
        ref.stop()
    else:
        ref.fail(cause)
    await ref.terminated()
    return ref


STOP = Supervision(Directive.STOP)
AT_ONCE = Supervision(backoff=None)
SLOWLY = Supervision(backoff=Backoff(min=1.0, max=1.0), within=60.0)


class Panic(BaseException):
    pass


class AsyncDoer(Doer):
    """Awaits what it was told to do, if that takes a while."""

    async def receive(self, message: Any) -> Any:
        result = super().receive(message)
        return await result if isawaitable(result) else result


class Trapper(Doer):
    def pre_start(self) -> None:
        self.ctx.trap_exit = True


class AsyncTrapper(AsyncDoer):
    def pre_start(self) -> None:
        self.ctx.trap_exit = True


ENDS: dict[str, Callable[[Ref], None]] = {
    "stop": ActorRef.stop,
    "kill": ActorRef.kill,
    "fail": lambda ref: ref.fail(ValueError("over")),
    "panic": lambda ref: ref.fail(Panic("over")),
}


def raising(cause: BaseException) -> Callable[[Context], Any]:
    def act(_: Context) -> Any:
        raise cause.with_traceback(None)  # or it would grow with every use

    return act


def monitor_all(*refs: Ref) -> Callable[[Context], Any]:
    """An act for a context: monitor each of `refs`; the answer is the monitors."""
    return lambda ctx: [ctx.monitor(ref) for ref in refs]


def downs(log: list[Any]) -> list[tuple[MonitorRef, Ref, ExitReason]]:
    """The contents of a log that must have nothing but `Down`."""
    assert all(isinstance(one, Down) for one in log), log
    return [(one.mref, one.ref, one.reason) for one in log]


def link_to(ref: Ref) -> Callable[[Context], None]:
    """An act for a context: link to `ref`."""
    return lambda ctx: ctx.link(ref)


async def link(one: Ref, other: Ref, side: str = "mine") -> None:
    """Link the two: from the one, from the other, or from both."""
    if side != "theirs":
        await one.ask(link_to(other))
    if side != "mine":
        await other.ask(link_to(one))


def exits(log: list[Any]) -> list[tuple[Ref, ExitReason]]:
    """The contents of a log that must have nothing but `Exit`."""
    assert all(isinstance(one, Exit) for one in log), log
    return [(one.ref, one.reason) for one in log]


class Busy:
    """Keeps an actor's handler suspended for the time of the block; then it does `act`, if there is one.

    What is queued for it meanwhile waits behind the message in hand.
    """

    def __init__(self, system: ActorSystem, ref: Ref, act: Callable[[Context], Any] | None = None) -> None:
        self._system = system
        self._ref = ref
        self._act = act
        self._gate = Event()
        self._entered = Event()
        self._asked: Awaitable[Any] | None = None

    async def _hold(self, ctx: Context) -> Any:
        self._entered.set()
        await self._gate.wait()
        return None if self._act is None else self._act(ctx)

    async def __aenter__(self) -> None:
        self._asked = self._ref.ask(self._hold)
        await self._entered.wait()

    async def __aexit__(self, *exc: object) -> None:
        self._gate.set()
        assert self._asked is not None
        await self._asked
        await self._system.settle()
