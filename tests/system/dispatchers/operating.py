"""An actor that carries out any operation of `actor.offload.operations`, where worker processes can import it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from greenroom import Actor, ActorRef, Lane

Ref = ActorRef[Any, Any]


async def nothing() -> None:
    """Return at once."""


def _pipe(me: Operator) -> None:
    me.ctx.pipe_to_self(nothing(), lambda _: "piped")


def _become(me: Operator) -> None:
    me.ctx.become(lambda ctx, message: None, push=True)
    me.ctx.unbecome()


def _set_trap_exit(me: Operator) -> None:
    me.ctx.trap_exit = True


def _set_capacity(me: Operator) -> None:
    me.ctx.stash_capacity = 7


def _killed(ref: Ref) -> Ref:
    ref.kill()
    return ref


SAMPLES: dict[str, Callable[[Operator], Any]] = {
    "ctx.self": lambda me: me.ctx.self,
    "ctx.name": lambda me: me.ctx.name,
    "ctx.parent": lambda me: me.ctx.parent,
    "ctx.system": lambda me: me.ctx.system,
    "ctx.env": lambda me: me.ctx.env,
    "ctx.log": lambda me: me.ctx.log.debug("nothing"),
    "ctx.sender": lambda me: me.ctx.sender,
    "ctx.lane": lambda me: me.ctx.lane,
    "ctx.blocking": lambda me: me.ctx.blocking().__enter__,
    "ctx.timers": lambda me: me.ctx.timers,
    "ctx.pipe_to_self": _pipe,
    "ctx.reply": lambda me: me.ctx.reply("replied"),
    "ctx.fail_reply": lambda me: me.ctx.fail_reply(ValueError("on purpose")),
    "ctx.defer_reply": lambda me: me.ctx.defer_reply().send("deferred"),
    "ctx.forward": lambda me: me.ctx.forward(me.other),
    "ctx.stash": lambda me: me.ctx.stash(),
    "ctx.unstash": lambda me: me.ctx.unstash(0),
    "ctx.unstash_all": lambda me: me.ctx.unstash_all(),
    "ctx.stash_capacity": lambda me: me.ctx.stash_capacity,
    "ctx.stash_capacity=": _set_capacity,
    "ctx.now": lambda me: me.ctx.now(),
    "ctx._stop_child": lambda me: me.ctx.stop(me.child),
    "ctx._begin_pipe": _pipe,
    "ctx._take_piped": lambda me: me.ctx._take_piped("piped"),
    "ctx._end_pipe": lambda me: me.ctx._end_pipe("no pipe"),
    "ctx.stop": lambda me: me.ctx.stop(),
    "ctx.become": _become,
    "ctx.unbecome": _become,
    "ctx.spawn": lambda me: me.ctx.spawn(Operator, me.other),
    "ctx.spawn_meta": lambda me: me.ctx.spawn_meta(None),  # type: ignore[arg-type]
    "ctx.children": lambda me: me.ctx.children,
    "ctx.watch": lambda me: me.ctx.watch(me.other),
    "ctx.unwatch": lambda me: me.ctx.unwatch(me.other),
    "ctx.monitor": lambda me: me.ctx.monitor(me.other),
    "ctx.demonitor": lambda me: me.ctx.demonitor(me.ctx.monitor(me.other)),
    "ctx.link": lambda me: me.ctx.link(me.child),
    "ctx.unlink": lambda me: me.ctx.unlink(me.child),
    "ctx.trap_exit": lambda me: me.ctx.trap_exit,
    "ctx.trap_exit=": _set_trap_exit,
    "ctx.send_after": lambda me: me.ctx.send_after(1000.0, me.other, "late"),
    "ctx.send_every": lambda me: me.ctx.send_every(1000.0, me.other, "late"),
    "ctx.set_receive_timeout": lambda me: me.ctx.set_receive_timeout(None),
    "ctx.metas": lambda me: me.ctx.metas,
    "ctx.watch_fd": lambda me: me.ctx.watch_fd(0, 1),
    "ctx.unwatch_fd": lambda me: me.ctx.unwatch_fd(0),
    "ctx._publish": lambda me: me.ctx._publish("to nobody"),
    "ctx._owe": lambda me: me.ctx.defer_reply().send("deferred"),
    "ctx._hand_on": lambda me: me.ctx.forward(me.other),
    "timers.start": lambda me: me.ctx.timers.start("key", 1000.0, "late"),
    "timers.cancel": lambda me: me.ctx.timers.cancel("key"),
    "timers.cancel_all": lambda me: me.ctx.timers.cancel_all(),
    "timers.is_active": lambda me: me.ctx.timers.is_active("key"),
    "timers.active": lambda me: me.ctx.timers.active,
    "timer.cancel": lambda me: me.ctx.send_after(1000.0, me.other, "late").cancel(),
    "timer.active": lambda me: me.ctx.send_after(1000.0, me.other, "late").active,
    "ref.id": lambda me: me.other.id,
    "ref.name": lambda me: me.other.name,
    "ref.path": lambda me: me.other.path,
    "ref.parent": lambda me: me.other.parent,
    "ref.tell": lambda me: me.other.tell("told", lane=Lane.CONTROL),
    "ref.__lshift__": lambda me: me.other << "told",
    "ref.ask": lambda me: me.other.ask("asked").cancel(),
    "ref.ask_sync": lambda me: me.other.ask_sync("asked"),
    "ref.state": lambda me: me.other.state,
    "ref.is_alive": lambda me: me.other.is_alive,
    "ref.history": lambda me: me.other.history,
    "ref.stop": lambda me: me.child.stop(),
    "ref.kill": lambda me: me.child.kill(),
    "ref.fail": lambda me: me.child.fail(ValueError("on purpose")),
    "ref.restart": lambda me: me.child.restart(),
    "ref._fail_by_pipe": lambda me: me.child._fail_by_pipe(ValueError("on purpose")),
    "ref.send": lambda me: me.other.send("sent"),
    "ref.started": lambda me: me.other.started(),
    "ref.terminated": lambda me: _killed(me.child).terminated(),
    "ref.inspect": lambda me: me.other.inspect(),
    "ref.send_sync": lambda me: me.other.send_sync("sent"),
    "ref.started_sync": lambda me: me.other.started_sync(),
    "ref.terminated_sync": lambda me: _killed(me.child).terminated_sync(),
    "ref.inspect_sync": lambda me: me.other.inspect_sync(),
    "system.name": lambda me: me.ctx.system.name,
    "system.shutdown": lambda me: me.ctx.system.shutdown,
    "system.phase": lambda me: me.ctx.system.phase,
    "system.token": lambda me: me.ctx.system.token,
    "system.spawn": lambda me: me.ctx.system.spawn(Operator, me.other),
    "system.actor": lambda me: me.ctx.system.actor("/nobody"),
    "system.actors": lambda me: me.ctx.system.actors(),
    "system.ledger": lambda me: me.ctx.system.ledger(),
    "system.tree": lambda me: me.ctx.system.tree(),
    "system.snapshot": lambda me: me.ctx.system.snapshot().actors,
    "system.stop": lambda me: me.ctx.system.stop(),
    "system.fail": lambda me: me.ctx.system.fail(ValueError("on purpose")),
    "system._request_end": lambda me: me.ctx.system.shutdown(),
    "system.settle_sync": lambda me: me.ctx.system.settle_sync(),
}
"""For each operation, code that carries it out."""
ENDS = ("system.stop", "system.fail", "system._request_end")
"""Those that end the system."""


class Operator(Actor[Any, Any]):
    """Carries out the operation that it is asked for, and tells `other` what it was and what it raised."""

    other: Ref
    child: Ref

    def __init__(self, other: Ref) -> None:
        self.other = other

    def receive(self, message: Any) -> Any:
        if message not in SAMPLES:
            return None
        self.child = self.ctx.spawn(Child)
        error = self.attempt(message)
        return self._await(message, error) if asyncio.iscoroutine(error) else self.other.tell((message, error))

    def attempt(self, key: str) -> Any:
        """What an operation raised, by name; or what it returned, if that is to be awaited."""
        try:
            done = SAMPLES[key](self)
        except Exception as exc:
            return type(exc).__name__
        return done if asyncio.iscoroutine(done) else None

    async def _await(self, key: str, done: Any) -> None:
        await done
        self.other.tell((key, None))


class Child(Actor[Any, Any]):
    """Somebody to stop."""

    def receive(self, message: Any) -> None: ...
