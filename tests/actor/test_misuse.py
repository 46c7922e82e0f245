"""One error model (J9): whatever is used wrongly raises a `GreenroomError` with a code, and says what to do instead."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Behaviors, Context, Drain, handles
from greenroom.errors import GreenroomError

if TYPE_CHECKING:
    from tests.conftest import Play


class Stage(NamedTuple):
    """What a misuse can get hold of, inside a handler of the actor `/me`."""

    system: ActorSystem
    ctx: Context
    other: ActorRef[Any, Any]


class Me(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else message


wrong: Any = "not a ref"
nothing: Any = None

MISUSES: dict[str, tuple[Callable[[Stage], Any], list[str]]] = {
    # what is made
    "handles of nothing": (lambda on: handles(), ["@handles("]),
    "failed without exception": (lambda on: Behaviors.failed(wrong), ["Behaviors.failed()", "exception"]),
    "receive of no function": (lambda on: Behaviors.receive(wrong), ["function"]),
    "setup of no function": (lambda on: Behaviors.setup(wrong), ["Behaviors.setup()", "function"]),
    "redirect to no ref": (lambda on: Drain.REDIRECT(wrong), ["Drain.REDIRECT()", "ref"]),
    "subscribe of nothing": (lambda on: on.system.dead_letters.subscribe(nothing), ["ref or a function"]),
    # what is spawned
    "spawn of an instance": (lambda on: on.ctx.spawn(Me()), ["Me", "pass the class"]),  # type: ignore[call-overload]
    "spawn of nothing": (lambda on: on.ctx.spawn(nothing), ["None", "Actor"]),
    "spawn with no name": (lambda on: on.ctx.spawn(Me, name=""), ["''", "not empty"]),
    "spawn with a path": (lambda on: on.ctx.spawn(Me, name="a/b"), ["'a/b'", "'/'"]),
    "spawn with a taken name": (lambda on: on.system.spawn(Me, name="other"), ["/other", "another name"]),
    "spawn with no mailbox": (lambda on: on.ctx.spawn(Me, mailbox=wrong), ["mailbox", "MailboxConfig"]),
    "spawn with no env": (lambda on: on.ctx.spawn(Me, env=wrong), ["env", "mapping"]),
    "spawn with no drain": (lambda on: on.ctx.spawn(Me, drain=wrong), ["drain", "Drain.DROP"]),
    "spawn with no parent": (lambda on: on.system.spawn(Me, parent=wrong), ["parent", "ref"]),
    "spawn with no dispatcher": (lambda on: on.ctx.spawn(Me, dispatcher=wrong), ["dispatcher", "'not a ref'"]),
    # what a ref is used for
    "fail without exception": (lambda on: on.other.fail(wrong), ["exception"]),
    "ask with a negative timeout": (lambda on: on.other.ask(1, timeout=-1), ["timeout=-1", "zero or more"]),
    "ask with no timeout": (lambda on: on.other.ask(1, timeout=wrong), ["timeout", "seconds"]),
    "ask_sync in a handler": (lambda on: on.other.ask_sync(1), ["ask_sync()", "await ref.ask"]),
    "tell by no lane": (lambda on: on.other.tell(1, lane=wrong), ["Lane", "'not a ref'"]),
    "pickle of an ask": (lambda on: pickle.dumps(on.ctx.self.ask(1)), ["ask", "await it"]),
    # what a context is used for
    "watch of no ref": (lambda on: on.ctx.watch(wrong), ["watch", "ref"]),
    "unwatch of no ref": (lambda on: on.ctx.unwatch(wrong), ["watch", "ref"]),
    "stop of no child": (lambda on: on.ctx.stop(on.other), ["/me", "/other", "ref.stop()"]),
    "stop of no ref": (lambda on: on.ctx.stop(wrong), ["child", "ref"]),
    "forward to no ref": (lambda on: on.ctx.forward(wrong), ["forward", "ref"]),
    "fail_reply without exception": (lambda on: on.ctx.fail_reply(wrong), ["exception"]),
    "defer and fail without exception": (lambda on: on.ctx.defer_reply().fail(wrong), ["exception"]),
    "send_after to no ref": (lambda on: on.ctx.send_after(1.0, wrong, 1), ["ref"]),
    "send_after into the past": (lambda on: on.ctx.send_after(-1.0, on.other, 1), ["-1.0", "zero or more"]),
    "send_after at no time": (lambda on: on.ctx.send_after(wrong, on.other, 1), ["seconds"]),
    "send_every to no ref": (lambda on: on.ctx.send_every(1.0, wrong, 1), ["ref"]),
    "send_every all the time": (lambda on: on.ctx.send_every(0.0, on.other, 1), ["0.0", "at least 1e-6"]),
    "timers.start to no ref": (lambda on: on.ctx.timers.start("key", 1.0, 1, target=wrong), ["ref"]),
    "timers.start into the past": (lambda on: on.ctx.timers.start("key", -1.0, 1), ["-1.0", "zero or more"]),
    "set_receive_timeout in the past": (lambda on: on.ctx.set_receive_timeout(-1.0), ["-1.0"]),
    "set_receive_timeout at no time": (lambda on: on.ctx.set_receive_timeout(wrong), ["seconds"]),
    "become nothing": (lambda on: on.ctx.become(nothing), ["None", "cannot handle messages"]),
    "stash of no size": (lambda on: setattr(on.ctx, "stash_capacity", 0), ["stash", "at least 1"]),
    "pipe of nothing": (lambda on: on.ctx.pipe_to_self(wrong), ["pipe_to_self", "await"]),
    "settle in a handler": (lambda on: _step(on.system.settle()), ["handler"]),
}


def _step(coroutine: Any) -> None:
    try:
        coroutine.send(None)
    finally:
        coroutine.close()


@pytest.mark.parametrize("misuse", list(MISUSES))
def test_a_misuse_is_an_error_with_a_code_and_a_remedy_and_harms_nobody(play: Play, misuse: str) -> None:
    act, words = MISUSES[misuse]

    async def program(system: ActorSystem) -> None:
        me, other = system.spawn(Me, name="me"), system.spawn(Me, name="other")
        await other.started()
        caught: list[BaseException] = []

        def handler(ctx: Context) -> str:
            try:
                act(Stage(system, ctx, other))
            except Exception as exc:
                caught.append(exc)
            return "went on"

        await me.ask(handler, timeout=None) if "defer" not in misuse else me.tell(handler)
        await system.settle()
        assert await me.ask("alive") == "alive"
        assert await other.ask("alive") == "alive"
        (error,) = caught
        for word in words:
            assert word in str(error)
        assert isinstance(error, GreenroomError), repr(error)
        assert error.code != GreenroomError.code

    play(program)
