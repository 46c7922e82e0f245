"""Actors that do what messages say, wherever they run: what a test says with a closure at home, it says here with data.

`do("watch", ref)` is something to do with a context, `call(ref, "tell", 1)` something to do with a ref; `say(...)` is
what a handler returns. `Puppet` and its kin obey them, raise what is an exception, and tell a witness of anything else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from operator import attrgetter
from typing import Any

from greenroom import Actor, ActorRef, Behavior, Behaviors, Context, handles

Ref = ActorRef[Any, Any]


@dataclass(frozen=True)
class Act:
    """Something that a puppet can do: a method of its, and the arguments."""

    how: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def do(what: str, *args: Any, **kwargs: Any) -> Act:
    """Something to do with a context: the way to an attribute of it, and the arguments if that is a method."""
    return Act("do", (what, *args), kwargs)


def call(ref: Ref, what: str, *args: Any, **kwargs: Any) -> Act:
    """Something to do with a ref."""
    return Act("call", (ref, what, *args), kwargs)


def use(index: int, what: str, *args: Any) -> Act:
    """Something to do with what an actor has kept, a timer or a reply, counted from 0."""
    return Act("use", (index, what, *args))


def say(what: str, *args: Any) -> Act:
    """A behavior to return: `Behaviors.stopped`, say."""
    return Act("say", (what, *args))


def all_of(*acts: Any) -> Act:
    """Several things to do; the result is that of the last."""
    return Act("all_of", acts)


def attempt(act: Any) -> Act:
    """Something to do that may fail: the exception is then the result. What it returns is not awaited outside of it."""
    return Act("attempt", (act,))


def consult(ref: Ref) -> Act:
    """Ask this one what to do, and do that; for those that can await."""
    return Act("consult", (ref,))


def later(outcome: Any, mapped: bool = False) -> Act:
    """Have something come later as a message to oneself: a value, or an exception."""
    return Act("later", (outcome, mapped))


_KEPT = ("send_after", "send_every", "timers.start", "defer_reply", "monitor")
"""What has a result that cannot be sent, or is needed where it was made."""
_HERE = ("timers.start", "send_after", "send_every", "defer_reply")


class Puppet(Actor[Any, Any]):
    """Does what it is told, raises what is an exception, tells its witness of anything else and answers with it."""

    def __init__(self, witness: Ref | None = None, name: str = "") -> None:
        self.witness = witness
        self.name = name
        self.kept: list[Any] = []

    def tell(self, *words: Any) -> None:
        """Tell the witness."""
        if self.witness is not None:
            self.witness.tell(words if len(words) != 1 else words[0])

    def receive(self, message: Any) -> Any:
        result = self.obey(message)
        if result is _PLAIN:
            self.tell(message)
            return message
        return result

    def obey(self, act: Any) -> Any:
        """Do it; something to await, if it takes a while."""
        if isinstance(act, BaseException):
            raise act
        return getattr(self, act.how)(*act.args, **act.kwargs) if isinstance(act, Act) else _PLAIN

    def do(self, what: str, *args: Any, **kwargs: Any) -> Any:
        if what == "set":
            return setattr(self.ctx, *args)
        found = attrgetter(what)(self.ctx)
        result = found(*args, **kwargs) if callable(found) else found
        if what in _KEPT:
            self.kept.append(result)
        return None if what in _HERE else result

    def call(self, ref: Ref, what: str, *args: Any, **kwargs: Any) -> Any:
        found = getattr(ref, what)
        return found(*args, **kwargs) if callable(found) else found

    def use(self, index: int, what: str, *args: Any) -> Any:
        found = getattr(self.kept[index], what)
        return found(*args) if callable(found) else found

    def say(self, what: str, *args: Any) -> Any:
        found: Any = getattr(Behaviors, what)
        return found(*args) if args else found

    def all_of(self, *acts: Any) -> Any:
        return [self.obey(one) for one in acts][-1]

    def attempt(self, act: Any) -> Any:
        try:
            return self.obey(act)
        except Exception as exc:
            return exc

    def later(self, outcome: Any, mapped: bool) -> Any:
        map_result = _mapped if mapped else None
        self.ctx.pipe_to_self(_after_a_turn(outcome), map=map_result, on_error=map_result)


_PLAIN: Any = object()
"""What comes of a message that is nothing to do."""


async def _after_a_turn(outcome: Any) -> Any:
    await asyncio.sleep(0)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _mapped(result: Any) -> Any:
    return "mapped", result


class AsyncPuppet(Puppet):
    """The same, suspending at each message, and awaiting what there is to await."""

    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        result = await self.carry_out(message)
        if result is _PLAIN:
            self.tell(message)
            return message
        return result

    async def carry_out(self, act: Any) -> Any:
        """Do it, to its end."""
        result = self.obey(act)
        return await result if isawaitable(result) else result

    async def consult(self, ref: Ref) -> Any:
        return await self.carry_out(await ref.ask((self.name, "consults")))

    async def attempt(self, act: Any) -> Any:
        try:
            return await self.carry_out(act)
        except Exception as exc:
            return exc

    async def all_of(self, *acts: Any) -> Any:
        return [await self.carry_out(one) for one in acts][-1]


class Watcher(AsyncPuppet):
    """Tells its witness of the ends it hears of; then does `then`, and tells what came of it."""

    def __init__(self, witness: Ref, name: str = "", then: Any = None) -> None:
        super().__init__(witness, name)
        self.then = then

    async def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        self.tell("terminated", ref, repr(cause))
        if self.then is not None:
            self.tell("then", await self.carry_out(self.then))

    def on_child_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        self.tell("child terminated", ref, repr(cause))


class Pact(Puppet):
    """Watches somebody from its start on, and hears of no end: that is its own."""

    def __init__(self, other: Ref) -> None:
        super().__init__()
        self.other = other

    def pre_start(self) -> None:
        self.ctx.watch(self.other)


class Lively(Puppet):
    """Tells its witness which of its hooks run, and does what `acts` says there: `{"pre_start": do(...)}`."""

    def __init__(self, witness: Ref, name: str = "", acts: Mapping[str, Any] | None = None) -> None:
        super().__init__(witness, name)
        self.acts = acts or {}
        self.word: Any = None
        self.tell(name, "init")
        if "init" in self.acts:
            self.obey(self.acts["init"])

    def play(self, hook: str, *more: Any) -> Any:
        """Tell of a hook; do what is to be done there, and tell what came of it."""
        self.tell(self.name, hook, *more)
        result = self.obey(self.acts[hook]) if hook in self.acts else None
        if result is not None:
            self.tell("came of it", result)

    def pre_start(self) -> Any:
        self.play("pre_start")

    def post_start(self) -> Any:
        self.play("post_start")

    def pre_stop(self) -> Any:
        self.play("pre_stop")

    def post_stop(self) -> Any:
        self.play("post_stop")

    def pre_restart(self, cause: BaseException | None) -> Any:
        self.play("pre_restart", repr(cause))

    def post_restart(self) -> Any:
        self.play("post_restart")

    def on_terminated(self, ref: Ref, cause: BaseException | None) -> Any:
        self.play("on_terminated")

    def snapshot(self) -> Any:
        self.play("snapshot")
        return self.word

    def restore(self, state: Any) -> None:
        self.word = state
        self.play("restore", state)

    def inspect(self, *items: str) -> dict[str, Any]:
        return {"word": self.word, "items": items}

    def receive(self, message: Any) -> Any:
        if isinstance(message, str):
            self.word = message
            self.tell(self.name, "receive", message)
            return message
        return super().receive(message)


class AsyncLively(AsyncPuppet):
    """The same with `async def`: every hook suspends, and its act may be to ask what to do."""

    def __init__(self, witness: Ref, name: str = "", acts: Mapping[str, Any] | None = None) -> None:
        super().__init__(witness, name)
        self.acts = acts or {}
        self.tell(name, "init")

    async def play(self, hook: str, *more: Any) -> None:
        """Tell of a hook, and do what is to be done there."""
        self.tell(self.name, hook, *more)
        await asyncio.sleep(0)
        act = self.acts.get(hook)
        if isinstance(act, Act) and act.how == "consult":
            act = await act.args[0].ask((self.name, hook), timeout=None)
        result = None if act is None else await self.carry_out(act)
        if result is not None:
            self.tell("came of it", result)

    async def pre_start(self) -> None:
        await self.play("pre_start")

    async def post_start(self) -> None:
        await self.play("post_start")

    async def pre_stop(self) -> None:
        await self.play("pre_stop")

    async def post_stop(self) -> None:
        await self.play("post_stop")

    async def pre_restart(self, cause: BaseException | None) -> None:
        await self.play("pre_restart", repr(cause))

    async def post_restart(self) -> None:
        await self.play("post_restart")


class Bag(Actor[Any, Any]):
    """Keeps what it gets, in order, until it is asked."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def receive(self, message: Any) -> Any:
        if message == "seen":
            return self.seen
        self.seen.append(message)
        return None


class Bouncer(Actor[Any, Any]):
    """Sends a number back, one smaller, until it is 0; then tells a witness how deep its stack has been."""

    def __init__(self, witness: Ref) -> None:
        self.witness = witness
        self.depth = 0
        self.deepest = 0

    def receive(self, message: Any) -> None:
        left, to = message
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        if left:
            (to or self.ctx.self).tell((left - 1, None if to is None else self.ctx.self))
        else:
            self.witness.tell(("deepest", self.deepest))
        self.depth -= 1


class Endless(Actor[Any, Any]):
    """Keeps a lane above that of data full, until it has heard enough of the data."""

    def __init__(self, lane: Any, enough: int) -> None:
        self.lane = lane
        self.enough = enough
        self.heard: list[Any] = []

    def receive(self, message: Any) -> Any:
        if message == "heard":
            return self.heard
        self.heard.append(message)
        if message == "flood" and sum(one != "flood" for one in self.heard) < self.enough:
            self.ctx.self.tell("flood", lane=self.lane)
        return None


class Full(Exception):
    """Says no, and is no failure."""


class Booking(Actor[Any, Any]):
    """Counts its messages, and refuses some."""

    answers = (Full, ValueError)

    def __init__(self) -> None:
        self.count = 0

    def receive(self, message: Any) -> Any:
        self.count += 1
        if isinstance(message, BaseException):
            raise message
        return self.count


class AsyncBooking(Booking):
    """The same, after it has awaited something."""

    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return super().receive(message)


class Door(Actor[Any, Any]):
    """Puts everything aside until it is opened; tells a witness what comes then, and answers."""

    def __init__(self, witness: Ref, capacity: int | None = None) -> None:
        self.witness = witness
        self.capacity = capacity
        self.open = False

    def pre_start(self) -> None:
        if self.capacity is not None:
            self.ctx.stash_capacity = self.capacity

    def receive(self, message: Any) -> Any:
        if message in ("open", "close"):
            self.open = message == "open"
            return self.ctx.unstash_all() if self.open else None
        if isinstance(message, BaseException):
            raise message
        if not self.open:
            self.ctx.stash()
            return "not an answer"
        self.witness.tell((message, self.ctx.sender))
        return "answer", message


class Served(Actor[Any, Any]):
    """Handles one request at a time, and puts the others aside until it is told how many it can take."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.free = 1
        self.calls = 0

    def receive(self, message: Any) -> Any:
        self.calls += 1
        if message == "log":
            return self.log, self.calls
        if isinstance(message, list):  # that many are done, by one call each
            self.free += sum(message)
            return [self.ctx.unstash(n) for n in message]
        if self.free:
            self.free -= 1
            self.log.append(message)
        else:
            self.ctx.stash()
        return None


class Leaving(Actor[Any, Any]):
    """Stops itself in the middle of a message, and goes on with it when the gate is open."""

    async def receive(self, hold: Any) -> Any:
        self.ctx.stop()
        try:
            await hold.args[0].ask("hold", timeout=None)
        except asyncio.CancelledError:
            return "cancelled"
        return "done"


def generates(ctx: Context, message: Any) -> Any:
    """Returns a generator."""
    return (one for one in [message])


class Careful(Door):
    """A door that says so when there is no room."""

    def receive(self, message: Any) -> Any:
        try:
            return super().receive(message)
        except Exception as exc:
            return repr(exc)


class Asker(AsyncPuppet):
    """Asks another what it is asked: so two of them can make a circle."""

    async def receive(self, message: Any) -> Any:
        if not isinstance(message, list):
            return await super().receive(message)
        first, *rest = message
        return await first.ask(rest, timeout=None) if rest else await first.ask("the end", timeout=None)


class Stubborn(Actor[Any, Any]):
    """Begins something that takes for ever: awaiting, or blocking; tells its witness when, and of its end."""

    def __init__(self, witness: Ref) -> None:
        self.witness = witness

    async def receive(self, message: Any) -> Any:
        self.witness.tell("begun")
        if message == "block":
            time.sleep(600)  # noqa: ASYNC251 - that is the point
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.witness.tell("cancelled")
            raise

    def post_stop(self) -> None:
        self.witness.tell("post_stop")


class Typed(Actor[Any, Any]):
    """Has a method for each type it knows: exact, then the nearest above."""

    @handles(bool)
    def on_bool(self, message: bool) -> Any:
        return "bool", message

    @handles(int, float)
    def on_number(self, message: float) -> Any:
        return "number", message


def answering(ctx: Context, message: Any) -> Any:
    """Answers with what it became: `closed`, at a word."""
    if message == "close":
        ctx.become(closed)
        return None
    if message == "next":
        return Behaviors.receive(closed)
    if isinstance(message, BaseException):
        raise message
    return "answering", message


def closed(ctx: Context, message: Any) -> Any:
    """What `answering` becomes, and is again at another word."""
    if message == "deeper":
        ctx.become(deeper, push=True)
        ctx.become(Behaviors.receive(deeper))  # in its place
        return "deeper", 1
    if message == "open":
        ctx.unbecome()
        return None
    if isinstance(message, BaseException):
        raise message
    return "closed", message


def deeper(ctx: Context, message: Any) -> Any:
    """What `closed` becomes on top of itself."""
    if message == "open":
        ctx.unbecome()
        return None
    return "deeper", message


def began(ctx: Context) -> Behavior:
    """Sets up what an actor is when it is there."""
    ctx.send_after(1.0, ctx.self, "tick")
    return Behaviors.receive(answering)
