"""Children whose starts and ends are written down, can be held up, and can be made to fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Behaviors, ChildInfo, ChildSpec, Scope, Supervisor, WhichChildren
from tests.gates import Event


class Boom(Exception):
    """A failure on purpose."""


class Panic(BaseException):
    """No exception that anybody should catch."""


class Gate:
    """Holds a hook up: `await gate.entered.wait()`, then `gate.released.set()`."""

    def __init__(self) -> None:
        self.entered = Event()
        self.released = Event()


class Stage:
    """The log, the troubles and the gates that a test shares with its children.

    Moments are `"+a"` (the `pre_start` of a), `"-a"` (its `post_stop`) and `"~a"` (its `pre_stop`).
    """

    def __init__(self, kind: type[Worker] | None = None) -> None:
        self.kind = Worker if kind is None else kind
        self.log: list[str] = []
        self.heard: list[tuple[str, Any]] = []
        self.troubles: dict[str, list[BaseException | None]] = {}
        self.gates: dict[str, Gate] = {}
        self.args: list[tuple[Any, ...]] = []

    def child(self, name: str, **options: Any) -> ChildSpec:
        return ChildSpec(name, self.kind, (self, name), **options)

    def children(self, names: str, **options: Any) -> list[ChildSpec]:
        return [self.child(name, **options) for name in names]

    def trouble(self, moment: str, *causes: BaseException | None) -> None:
        """Raise these, one each time the moment comes; None lets it pass."""
        self.troubles.setdefault(moment, []).extend(causes)

    def hold(self, moment: str) -> Gate:
        self.gates[moment] = Gate()
        return self.gates[moment]

    def take(self) -> list[str]:
        """The moments since the last call."""
        taken, self.log[:] = list(self.log), []
        return taken

    def enact(self, moment: str) -> None:
        causes = self.troubles.get(moment)
        cause = causes.pop(0) if causes else None
        self.log.append(moment if cause is None else f"{moment}!")
        if cause is not None:
            raise cause.with_traceback(None)


class Worker(Actor[Any, Any]):
    """Does what its messages say, and writes down what it hears."""

    def __init__(self, stage: Stage, name: str, *args: Any) -> None:
        self.stage = stage
        self.name = name
        if args:
            stage.args.append(args)

    def pre_start(self) -> Any:
        self.stage.enact(f"+{self.name}")

    def post_stop(self) -> Any:
        self.stage.enact(f"-{self.name}")

    def receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message.with_traceback(None)  # or it would grow with every use
        if message is Behaviors.stopped:
            return message
        if callable(message):
            return message(self.ctx)
        self.stage.heard.append((self.name, message))
        return message


class AsyncWorker(Worker):
    """A worker whose hooks suspend, and wait at their gates."""

    async def enact(self, moment: str) -> None:
        await asyncio.sleep(0)
        gate = self.stage.gates.get(moment)
        if gate is not None:
            gate.entered.set()
            try:
                await gate.released.wait()
            except asyncio.CancelledError:
                self.stage.log.append(f"{moment} cancelled")
                raise
        self.stage.enact(moment)

    async def pre_start(self) -> None:
        await self.enact(f"+{self.name}")

    async def pre_stop(self) -> None:
        if f"~{self.name}" in self.stage.gates:
            await self.enact(f"~{self.name}")

    async def post_stop(self) -> None:
        await self.enact(f"-{self.name}")


both = pytest.mark.parametrize("kind", [Worker, AsyncWorker], ids=["sync", "async"])
GRACE = 2.0
"""More than enough for a cancelled hook, before it is abandoned."""


async def supervise(
    system: ActorSystem, children: list[ChildSpec], scope: Scope = Scope.ONE_FOR_ONE, **options: Any
) -> ActorRef[Any, Any]:
    """A running supervisor over these."""
    spawning = {key: options.pop(key) for key in ("name", "supervision") if key in options}
    ref: ActorRef[Any, Any] = system.spawn(Supervisor, Supervisor.spec(children, scope, **options), **spawning)
    await ref.started()
    return ref


async def by_name(supervisor: ActorRef[Any, Any]) -> dict[str, ChildInfo]:
    """The children of a supervisor, as it tells them."""
    found: list[ChildInfo] = await supervisor.ask(WhichChildren(), timeout=None)
    return {info.name: info for info in found}


async def child_of(supervisor: ActorRef[Any, Any], name: str) -> ActorRef[Any, Any]:
    """One of its children, which must have been started."""
    ref = (await by_name(supervisor))[name].ref
    assert ref is not None
    return ref


END: dict[str, Callable[[ActorRef[Any, Any]], object]] = {
    "stop": lambda ref: ref.stop(),
    "stopped": lambda ref: ref.tell(Behaviors.stopped),
    "failed": lambda ref: ref.tell(Boom("in a handler")),
    "fail": lambda ref: ref.fail(Boom("from outside")),
    "panic": lambda ref: ref.tell(Panic("in a handler")),
    "kill": lambda ref: ref.kill(),
}


def end(ref: ActorRef[Any, Any], how: str) -> None:
    """End an actor, in one of the ways of `END`."""
    END[how](ref)


def nothing_left(system: ActorSystem, *expected: ActorRef[Any, Any]) -> None:
    """Fail unless only the expected actors live, and no timer is pending."""
    assert sorted(ref.path for ref in system.actors()) == sorted(ref.path for ref in expected)
    assert system.snapshot().timers == 0
