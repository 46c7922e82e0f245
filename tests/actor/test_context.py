"""`Context`: what an actor finds out, becomes, and pipes to itself; and a context that outlives its actor."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Behaviors,
    Context,
    ExitKind,
    Lane,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    ReceiveTimeout,
    Signal,
    State,
    handles,
)
from greenroom.actor.api.behavior import MOST_BEHAVIORS
from greenroom.errors import BadArgument, GreenroomError, InvalidDelay, NoMessage, NotAnActor
from greenroom.testing import TestProbe

CONTRACT = [
    *("self", "sender", "lane", "parent", "children", "system", "name", "env", "now", "log"),
    *("spawn", "stop", "watch", "unwatch", "reply", "fail_reply", "defer_reply", "forward"),
    *("send_after", "send_every", "timers", "set_receive_timeout"),
    *("become", "unbecome", "stash", "unstash", "unstash_all", "pipe_to_self"),
]


@pytest.mark.parametrize("name", CONTRACT)
def test_the_context_has_what_the_contract_says(name: str) -> None:
    assert getattr(Context, name).__doc__, f"Context.{name} says nothing of itself"


class Mirror(Actor[Any, Any]):
    """Answers with the result of a function of its context, and with anything else itself."""

    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else message


class AsyncMirror(Mirror):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return super().receive(message)


mirrors = pytest.mark.parametrize("mirror", [Mirror, AsyncMirror])


def mirror_function(ctx: Context, message: Any) -> Any:
    return message(ctx)


# Who and where
@pytest.mark.parametrize("mirror", [Mirror, AsyncMirror, mirror_function])
async def test_an_actor_knows_itself_its_name_its_parent_and_its_system(system: ActorSystem, mirror: Any) -> None:
    ref = system.spawn(mirror, name="me")
    assert await ref.ask(lambda ctx: (ctx.self, ctx.name, ctx.parent)) == (ref, "me", None)
    assert await ref.ask(lambda ctx: ctx.system is system)
    child = await ref.ask(lambda ctx: ctx.spawn(mirror, name="kid"))
    assert await child.ask(lambda ctx: (ctx.self, ctx.name, ctx.parent)) == (child, "kid", ref)
    assert child.path == "/me/kid"


@mirrors
async def test_children_are_those_alive_eldest_first(system: ActorSystem, mirror: type[Mirror]) -> None:
    ref = system.spawn(mirror)
    assert await ref.ask(lambda ctx: ctx.children) == []
    born = [await ref.ask(lambda ctx: ctx.spawn(mirror)) for _ in range(4)]
    assert await ref.ask(lambda ctx: ctx.children) == born
    born[1].stop()
    await born[1].terminated()
    assert await ref.ask(lambda ctx: ctx.children) == [born[0], born[2], born[3]]
    grandchild = await born[0].ask(lambda ctx: ctx.spawn(mirror))
    assert grandchild not in await ref.ask(lambda ctx: ctx.children)
    mine = await ref.ask(lambda ctx: ctx.children.clear() or ctx.children)  # a list of one's own to spoil
    assert len(mine) == 3


async def test_a_child_that_stops_is_a_child_until_it_has_ended(system: ActorSystem) -> None:
    leaving, gate = asyncio.Event(), asyncio.Event()

    class Slow(Mirror):
        async def post_stop(self) -> None:
            leaving.set()
            await gate.wait()

    ref = system.spawn(Mirror)
    child = await ref.ask(lambda ctx: ctx.spawn(Slow))
    child.stop()
    await leaving.wait()
    assert await ref.ask(lambda ctx: ctx.children) == [child]
    gate.set()
    await child.terminated()
    assert await ref.ask(lambda ctx: ctx.children) == []


@mirrors
async def test_log_records_say_which_actor_logs(
    system: ActorSystem, mirror: type[Mirror], caplog: pytest.LogCaptureFixture
) -> None:
    ref = system.spawn(mirror, name="chatty")
    child = await ref.ask(lambda ctx: ctx.spawn(mirror, name="kid"))
    assert isinstance(await ref.ask(lambda ctx: ctx.log), logging.LoggerAdapter)
    with caplog.at_level(logging.INFO):
        await child.ask(lambda ctx: ctx.log.info("it is %d o'clock", 12, extra={"hour": 12}))
    (record,) = [record for record in caplog.records if "o'clock" in record.getMessage()]
    fields: Any = record
    assert (fields.actor, fields.actor_id, fields.system) == ("/chatty/kid", child.id, "test")
    assert fields.hour == 12  # with those of the call
    assert "it is 12 o'clock" in record.getMessage()


# The message in hand
@mirrors
async def test_the_sender_is_the_actor_that_told_or_asked(system: ActorSystem, mirror: type[Mirror]) -> None:  # J8
    probe = TestProbe(system)
    one, two = system.spawn(mirror), system.spawn(mirror)

    def tell_probe(ctx: Context) -> None:
        probe.ref.tell(ctx.sender)

    await one.ask(lambda ctx: two.tell(tell_probe))
    await probe.expect(one)
    assert probe.last_sender == two
    await one.ask(lambda ctx: two.tell(tell_probe, sender=probe.ref))  # another may be named
    await probe.expect(probe.ref)
    await one.ask(lambda ctx: two << tell_probe)
    await probe.expect(one)
    two.tell(tell_probe)  # from outside of any actor
    assert await probe.receive() is None
    two.tell(tell_probe, sender=one)
    await probe.expect(one)

    async def ask_two(ctx: Context, message: str) -> Any:
        return await two.ask(lambda ctx: ctx.sender)

    asker = system.spawn(ask_two)
    assert await asker.ask("go") == asker


async def test_what_a_hook_tells_is_from_its_actor(system: ActorSystem) -> None:
    probe = TestProbe(system)

    class Polite(Actor[Any, Any]):
        def pre_start(self) -> None:
            probe.ref.tell("hello")

        async def post_start(self) -> None:
            await asyncio.sleep(0)
            probe.ref.tell("ready")

        def receive(self, message: Any) -> None: ...

        async def post_stop(self) -> None:
            await asyncio.sleep(0)
            probe.ref.tell("bye")

    ref = system.spawn(Polite)
    for word in ("hello", "ready"):
        await probe.expect(word)
        assert probe.last_sender == ref
    ref.stop()
    await probe.expect("bye")
    assert probe.last_sender == ref


async def test_sender_and_lane_stay_those_of_the_message_while_its_handler_is_suspended(system: ActorSystem) -> None:
    gate = asyncio.Event()
    other = system.spawn(Mirror)
    seen: list[Any] = []

    class Patient(Actor[str, None]):
        async def receive(self, message: str) -> None:
            before = (self.ctx.sender, self.ctx.lane)
            await gate.wait()
            seen.append((message, before, (self.ctx.sender, self.ctx.lane)))

    first, second = system.spawn(Patient), system.spawn(Patient)
    first.tell("a", sender=other, lane=Lane.CONTROL)
    second.tell("b", lane=Lane.LOG)
    first.tell("c", sender=second)
    await other.ask(lambda ctx: None)
    gate.set()
    await system.settle()
    control, log, data = (other, Lane.CONTROL), (None, Lane.LOG), (second, Lane.DATA)
    assert sorted(seen, key=str) == sorted([("a", control, control), ("b", log, log), ("c", data, data)], key=str)


@mirrors
@pytest.mark.parametrize("lane", list(Lane))
async def test_the_lane_is_the_one_the_message_came_by(system: ActorSystem, mirror: type[Mirror], lane: Lane) -> None:
    probe = TestProbe(system)
    ref = system.spawn(mirror)
    assert await ref.ask(lambda ctx: ctx.lane, lane=lane) is lane
    ref.tell(lambda ctx: probe.ref.tell(ctx.lane), lane=lane)
    await probe.expect(lane)
    await ref.send(lambda ctx: probe.ref.tell(ctx.lane), lane=lane)
    await probe.expect(lane)
    assert await ref.ask(lambda ctx: ctx.lane) is Lane.DATA  # and the next one by its own
    with pytest.raises(ZeroDivisionError):
        await ref.ask(lambda ctx: 1 / 0, lane=lane)


async def test_in_a_hook_there_is_no_message_and_no_sender(system: ActorSystem) -> None:  # J9
    seen: list[Any] = []

    class Hooked(Mirror):
        def pre_start(self) -> None:
            seen.append(self.ctx.sender)
            for call in (
                lambda: self.ctx.reply(1),
                lambda: self.ctx.fail_reply(ValueError()),
                self.ctx.defer_reply,
                lambda: self.ctx.forward(self.ctx.self),
                self.ctx.stash,
            ):
                try:
                    call()
                except GreenroomError as exc:
                    seen.append(exc)

    await system.spawn(Hooked, name="hooked").started()
    sender, *errors = seen
    assert sender is None
    assert len(errors) == 5
    for error, call in zip(errors, ("reply()", "fail_reply()", "defer_reply()", "forward()", "stash()"), strict=True):
        assert isinstance(error, NoMessage)
        assert error.code == "no_message"
        for word in ("/hooked", call, "within a handler"):
            assert word in str(error)
    seen.clear()


async def test_a_context_used_from_outside_has_no_message_in_hand(system: ActorSystem) -> None:
    ref = system.spawn(Mirror)
    ctx = await ref.ask(lambda ctx: ctx)
    with pytest.raises(NoMessage):
        ctx.reply("nobody asked")
    assert ctx.sender is None
    with pytest.raises(NoMessage):
        await system.spawn(Mirror).ask(lambda _: ctx.reply("in another's handler"))


async def test_stop_of_somebody_elses_child_is_refused(system: ActorSystem) -> None:  # J9
    ref, other = system.spawn(Mirror, name="me"), system.spawn(Mirror, name="other")
    child = await ref.ask(lambda ctx: ctx.spawn(Mirror))
    grandchild = await child.ask(lambda ctx: ctx.spawn(Mirror, name="grandchild"))

    def attempt(target: Any) -> Any:
        def try_it(ctx: Context) -> Any:
            try:
                ctx.stop(target)
            except Exception as exc:
                return exc
            return Behaviors.same

        return try_it

    for target in (other, grandchild, ref):
        error = await ref.ask(attempt(target))
        assert isinstance(error, ValueError)
        for word in ("/me", str(target), "ref.stop()"):
            assert word in str(error)
    assert other.is_alive
    assert grandchild.is_alive
    assert ref.is_alive


@pytest.mark.parametrize("arguments", [(), ("coins",)])
async def test_a_name_with_a_percent_sign_can_be_logged(
    system: ActorSystem, caplog: pytest.LogCaptureFixture, arguments: tuple[object, ...]
) -> None:
    def pay(ctx: Context, message: str) -> None:
        ctx.log.warning(message, *arguments, extra=None)

    system.spawn(pay, name="50%").tell("took %s")
    await system.settle()
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.getMessage() == "/50%: took " + (arguments[0] if arguments else "%s")  # type: ignore[operator]
    assert (record.funcName, getattr(record, "actor", None)) == ("pay", "/50%")


def mirror(ctx: Context, message: Any) -> Any:
    return message(ctx) if callable(message) else f"first {message}"


class Chameleon(Actor[Any, Any]):
    """An actor that does what a function of its context says, in each of its shapes."""

    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else f"first {message}"

    def second(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else f"second {message}"

    async def third(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return message(self.ctx) if callable(message) else f"third {message}"

    def post_stop(self) -> None:
        self.ctx.log.info("gone")

    def inspect(self, *items: str) -> dict[str, Any]:
        return {"kind": "chameleon"}


def changed(ctx: Context, message: Any) -> Any:
    return message(ctx) if callable(message) else f"changed {message}"


async def async_changed(ctx: Context, message: Any) -> Any:
    await asyncio.sleep(0)
    return message(ctx) if callable(message) else f"changed {message}"


class Other:
    """Something else whose methods take messages."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def handle(self, message: Any) -> Any:
        return changed(self.ctx, message)

    def handle_in_context(self, ctx: Context, message: Any) -> Any:
        return changed(ctx, message)


SHAPES: dict[str, Callable[[Context], Any]] = {
    "function": lambda ctx: changed,
    "async function": lambda ctx: async_changed,
    "lambda": lambda ctx: lambda ctx, message: changed(ctx, message),
    "lambda of the message": lambda ctx: lambda message: changed(ctx, message),
    "behavior": lambda ctx: Behaviors.receive(changed),
    "async behavior": lambda ctx: Behaviors.receive(async_changed),
    "setup": lambda ctx: Behaviors.setup(lambda ctx: Behaviors.receive(changed)),
    "with_stash": lambda ctx: Behaviors.with_stash(3, lambda stash: Behaviors.receive(changed)),
    "with_timers": lambda ctx: Behaviors.with_timers(lambda timers: Behaviors.receive(changed)),
    "method": lambda ctx: Other(ctx).handle,
    "method with context": lambda ctx: Other(ctx).handle_in_context,
}


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("start", [Chameleon, mirror, Behaviors.receive(mirror)])
async def test_an_actor_becomes_what_it_is_told_and_goes_back(
    system: ActorSystem, start: Any, shape: str
) -> None:  # M13
    ref = system.spawn(start)

    def change(ctx: Context) -> str:
        ctx.become(SHAPES[shape](ctx))
        return "from the next message on"

    assert await ref.ask("x") == "first x"
    assert await ref.ask(change) == "from the next message on"
    assert await ref.ask("x") == "changed x"
    await ref.ask(lambda ctx: ctx.unbecome())
    assert await ref.ask("x") == "first x"


class Layered(Chameleon):
    def pre_start(self) -> None:
        self.ctx.become(self.second)  # a hook may, too


async def test_become_replaces_and_unbecome_goes_back_to_the_first(system: ActorSystem) -> None:  # M13
    ref = system.spawn(Layered)
    for _ in range(3):
        await ref.ask(lambda ctx: ctx.become(changed))
        assert await ref.ask("x") == "changed x"
        await ref.ask(lambda ctx: ctx.become(mirror))
        assert await ref.ask("x") == "first x"
    await ref.ask(lambda ctx: ctx.become(changed))
    for _ in range(2):
        await ref.ask(lambda ctx: ctx.unbecome())
        assert await ref.ask("x") == "first x"
    await ref.ask(lambda ctx: ctx.become(changed, push=True))
    await ref.ask(lambda ctx: ctx.become(mirror))  # in the place of what was pushed
    await ref.ask(lambda ctx: ctx.unbecome())
    assert await ref.ask("x") == "first x"


async def test_behaviors_that_take_turns_do_not_pile_up(system: ActorSystem) -> None:  # M13
    def ping(ctx: Context, message: Any) -> str:
        ctx.become(pong)
        return "ping"

    def pong(ctx: Context, message: Any) -> str:
        if message == "back":
            ctx.unbecome()
        else:
            ctx.become(Behaviors.receive(ping))
        return "pong"

    ref = system.spawn(ping)
    for _ in range(MOST_BEHAVIORS):
        assert [await ref.ask("x"), await ref.ask("x")] == ["ping", "pong"]
    await ref.ask("x")
    assert [await ref.ask("back"), await ref.ask("x")] == ["pong", "ping"]


async def test_there_is_a_limit_to_what_is_pushed(system: ActorSystem) -> None:
    ref = system.spawn(Chameleon, name="deep")

    def push(ctx: Context) -> None:
        for _ in range(MOST_BEHAVIORS):
            ctx.become(mirror, push=True)

    await ref.ask(push)
    with pytest.raises(BadArgument, match=r"/deep has 1,000 behaviors .* `unbecome\(\)`"):
        await ref.ask(lambda ctx: ctx.become(changed, push=True))


async def test_a_pushed_behavior_piles_up_and_unbecome_takes_down(system: ActorSystem) -> None:
    ref = system.spawn(Layered)
    assert await ref.ask("x") == "second x"
    await ref.ask(lambda ctx: ctx.become(changed, push=True))
    assert await ref.ask("x") == "changed x"
    for expected in ("second x", "first x", "first x"):  # at the bottom, nothing happens
        await ref.ask(lambda ctx: ctx.unbecome())
        assert await ref.ask("x") == expected


async def test_a_class_becomes_one_of_its_own_methods_and_keeps_its_hooks(system: ActorSystem) -> None:
    ended: list[str] = []

    class Mortal(Chameleon):
        def turn(self, ctx: Context) -> None:
            ctx.become(self.third)

        def post_stop(self) -> None:
            ended.append(self.ctx.name)

    kept = Mortal()
    ref = system.spawn(lambda: kept, name="mortal")
    await ref.ask(kept.turn)
    assert await ref.ask("x") == "third x"
    assert await ref.inspect() == {"kind": "chameleon"}
    ref.stop()
    await ref.terminated()
    assert ended == ["mortal"]


def no_arguments() -> None: ...


def three_arguments(one: Any, two: Any, three: Any) -> None: ...


@pytest.mark.parametrize(
    "what",
    [None, 3, "text", no_arguments, three_arguments, Behaviors.same],
    ids=lambda what: getattr(what, "__name__", repr(what)),
)
async def test_what_cannot_handle_messages_is_refused_and_nothing_changes(system: ActorSystem, what: Any) -> None:  # J9
    def attempt(ctx: Context) -> Any:
        try:
            ctx.become(what)
        except Exception as exc:
            return exc
        return None

    ref = system.spawn(Chameleon)
    error = await ref.ask(attempt)
    assert isinstance(error, NotAnActor)
    assert error.code == "not_an_actor"
    assert "cannot handle messages" in str(error)
    assert "message)" in str(error) or "Behaviors.receive" in str(error)
    assert await ref.ask("x") == "first x"


# Silence
class Waiting(Actor[Any, Any]):
    def __init__(self, seconds: float | None, probe: ActorRef[Any, Any]) -> None:
        self.seconds = seconds
        self.probe = probe

    def pre_start(self) -> None:
        self.ctx.set_receive_timeout(self.seconds)

    def receive(self, message: Any) -> Any:
        if callable(message):
            return message(self.ctx)
        self.probe.tell((message, self.ctx.now()))
        return None


def _times(probe: TestProbe) -> list[float]:
    assert {type(message) for message, _ in probe.messages} <= {ReceiveTimeout}
    return [moment for _, moment in probe.messages]


async def test_a_silence_nobody_handles_is_a_dead_letter(system: ActorSystem, clock: ManualClock) -> None:
    """`An unhandled type goes to dead letters as Unhandled, never silently`."""

    class Deaf(Actor[Any, Any]):
        def pre_start(self) -> None:
            self.ctx.set_receive_timeout(1.0)

        @handles(str)
        def text(self, message: str) -> str:
            return message

    ref = system.spawn(Deaf)
    await ref.started()
    await clock.advance(1.0)
    (letter,) = system.dead_letters.recent()
    assert isinstance(letter.message, ReceiveTimeout)
    assert (letter.recipient, letter.reason) == (ref, "unhandled")
    assert await ref.ask("alive") == "alive"


async def test_a_refused_timeout_leaves_the_one_there_was(system: ActorSystem, clock: ManualClock) -> None:
    probe = TestProbe(system)
    ref = system.spawn(Waiting, 1.0, probe.ref)

    def attempt(ctx: Context) -> None:
        with pytest.raises(InvalidDelay):
            ctx.set_receive_timeout(-1.0)

    await ref.ask(attempt)
    await clock.advance(1.0)
    assert _times(probe) == [1.0]


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), "1", 0])
async def test_a_timeout_that_is_no_time_is_refused(system: ActorSystem, seconds: Any) -> None:  # J9
    def attempt(ctx: Context) -> Any:
        try:
            ctx.set_receive_timeout(seconds)
        except Exception as exc:
            return exc
        return None

    ref = system.spawn(Chameleon)
    error = await ref.ask(attempt)
    assert isinstance(error, InvalidDelay)
    assert error.code == "invalid_delay"
    assert repr(seconds) in str(error)
    if seconds == 0:
        assert "zero or more" not in str(error)  # that would be no remedy


async def test_a_receive_timeout_is_a_signal_that_on_signal_hears_of_too(
    system: ActorSystem, clock: ManualClock
) -> None:
    """`on_signal` gets every `Signal`."""
    heard: list[Any] = []

    class Listener(Waiting):
        def on_signal(self, signal: Signal) -> None:
            heard.append(type(signal))

    probe = TestProbe(system)
    await system.spawn(Listener, 1.0, probe.ref).started()
    await clock.advance(1.0)
    assert _times(probe) == [1.0]
    assert (ReceiveTimeout in heard) == issubclass(ReceiveTimeout, Signal)


class Piper(Actor[Any, Any]):
    """Does what a function of its context says; everything else, as what is piped, it hands on."""

    def __init__(self, to: ActorRef[Any, Any] | None = None) -> None:
        self.to = to

    def receive(self, message: Any) -> Any:
        if callable(message):
            return message(self.ctx)
        if self.to is not None:
            self.to.tell(message)
        return None


class AsyncPiper(Piper):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return super().receive(message)


pipers = pytest.mark.parametrize("piper", [Piper, AsyncPiper])


async def give(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


async def fail(error: BaseException) -> Any:
    await asyncio.sleep(0)
    raise error


@pipers
async def test_the_result_comes_as_a_message(system: ActorSystem, piper: type[Piper]) -> None:
    probe = TestProbe(system)
    ref = system.spawn(piper, probe.ref)
    await ref.ask(lambda ctx: ctx.pipe_to_self(give("done")) and None)
    await probe.expect("done")
    await ref.ask(lambda ctx: ctx.pipe_to_self(give(3), lambda number: number * 2) and None)
    await probe.expect(6)
    await ref.ask(lambda ctx: ctx.pipe_to_self(give(None), map=lambda nothing: "nothing came") and None)
    await probe.expect("nothing came")
    await ref.ask(lambda ctx: ctx.pipe_to_self(give(None)) and None)
    assert await probe.receive() is None
    await probe.expect_no()


async def test_the_actor_handles_other_messages_meanwhile(system: ActorSystem) -> None:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    probe = TestProbe(system)
    ref = system.spawn(Piper, probe.ref)
    await ref.ask(lambda ctx: ctx.pipe_to_self(future) and None)
    ref << "first"
    await probe.expect("first")
    await probe.expect_no()
    future.set_result("second")
    await probe.expect("second")


async def test_coroutines_futures_tasks_and_asks_can_be_piped(system: ActorSystem) -> None:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    future.set_result("future")
    task = asyncio.create_task(give("task"))
    other = system.spawn(lambda ctx, message: message)
    probe = TestProbe(system)
    ref = system.spawn(Piper, probe.ref)

    def pipe_all(ctx: Context) -> None:
        ctx.pipe_to_self(give("coroutine"))
        ctx.pipe_to_self(future)
        ctx.pipe_to_self(task)
        ctx.pipe_to_self(other.ask("asked"))

    await ref.ask(pipe_all)
    assert sorted([await probe.receive() for _ in range(4)]) == ["asked", "coroutine", "future", "task"]


async def test_an_actor_may_ask_itself_through_a_pipe(system: ActorSystem) -> None:  # what AskDeadlock recommends
    probe = TestProbe(system)
    ref = system.spawn(Piper, probe.ref)
    await ref.ask(lambda ctx: ctx.pipe_to_self(ctx.self.ask(lambda ctx: "own answer")) and None)
    await probe.expect("own answer")


async def test_a_hook_may_pipe(system: ActorSystem) -> None:
    class Loading(Piper):
        def pre_start(self) -> None:
            self.ctx.pipe_to_self(give("loaded"))

    probe = TestProbe(system)
    system.spawn(Loading, probe.ref)
    await probe.expect("loaded")


@pytest.mark.parametrize("where", ["awaitable", "map", "on_error"])
@pipers
async def test_what_is_raised_on_the_way_fails_the_actor(system: ActorSystem, piper: type[Piper], where: str) -> None:
    error = LookupError(where)

    def complain(value: Any) -> Any:
        raise error

    def pipe(ctx: Context) -> None:
        if where == "awaitable":
            ctx.pipe_to_self(fail(error))
        elif where == "map":
            ctx.pipe_to_self(give(1), complain)
        else:
            ctx.pipe_to_self(fail(ValueError("first")), on_error=complain)

    probe = TestProbe(system)
    ref = system.spawn(piper)
    await probe.watch(ref)
    await ref.ask(pipe)
    notice = await probe.expect_terminated(ref)
    assert notice.cause is error
    assert notice.reason.kind is ExitKind.FAIL


@pytest.mark.parametrize("where", ["awaitable", "map"])
@pipers
async def test_on_error_makes_a_message_of_what_is_raised(system: ActorSystem, piper: type[Piper], where: str) -> None:
    error = LookupError(where)

    def complain(value: Any) -> Any:
        raise error

    def pipe(ctx: Context) -> None:
        if where == "awaitable":
            ctx.pipe_to_self(fail(error), on_error=lambda exc: ("failed", exc))
        else:
            ctx.pipe_to_self(give(1), complain, on_error=lambda exc: ("failed", exc))

    probe = TestProbe(system)
    ref = system.spawn(piper, probe.ref)
    await ref.ask(pipe)
    await probe.expect(("failed", error))


@pytest.mark.parametrize("told", [False, True])
async def test_a_cancellation_nobody_asked_for_is_a_failure_too(system: ActorSystem, told: bool) -> None:
    """`If it raises, on_error makes a message of that; without on_error the actor fails with it`: never silence."""
    probe = TestProbe(system)
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    ref = system.spawn(Piper)
    await probe.watch(ref)

    def pipe(ctx: Context) -> None:
        ctx.pipe_to_self(future, on_error=(lambda exc: probe.ref.tell(exc)) if told else None)

    await ref.ask(pipe)
    await asyncio.sleep(0)  # it waits now
    future.cancel()
    if told:
        assert isinstance(await probe.receive(), asyncio.CancelledError)
    else:
        notice = await probe.expect_terminated(ref)
        assert isinstance(notice.cause, asyncio.CancelledError)
        assert notice.reason.kind is ExitKind.FAIL


@pytest.mark.parametrize("ending", ["stop", "kill", "fail"])
async def test_what_is_under_way_when_the_actor_ends_is_cancelled(system: ActorSystem, ending: str) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def wait_for_ever() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    ref = system.spawn(Piper)
    await ref.ask(lambda ctx: ctx.pipe_to_self(wait_for_ever()) and None)
    await begun.wait()
    if ending == "stop":
        ref.stop()
    elif ending == "kill":
        ref.kill()
    else:
        ref.fail(ValueError("x"))
    await ref.terminated()
    await cancelled.wait()
    assert system.dead_letters.count == 0


async def test_an_on_error_is_not_told_of_the_actors_own_end(system: ActorSystem) -> None:
    errors: list[BaseException] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    ref = system.spawn(Piper)
    await ref.ask(lambda ctx: ctx.pipe_to_self(future, on_error=errors.append) and None)
    ref.stop()
    await ref.terminated()
    await system.settle()
    assert future.cancelled()
    assert errors == []


@pytest.mark.parametrize("ending", ["stop", "kill", "raise"])
async def test_a_pipe_that_never_got_to_run_leaves_no_coroutine_behind(
    system: ActorSystem, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An un-awaited coroutine would complain, and fail this test."""

    def pipe_and_end(ctx: Context) -> None:
        ctx.pipe_to_self(give("never"))
        if ending == "stop":
            ctx.stop()
        elif ending == "kill":
            ctx.self.kill()
        else:
            raise LookupError("no more")

    ref = system.spawn(Piper)
    ref.tell(pipe_and_end)
    await ref.terminated()
    caplog.clear()  # of tracebacks that know the coroutine
    gc.collect()


async def test_a_result_without_room_is_never_lost_in_silence(system: ActorSystem) -> None:
    """The mailbox refuses, and there is no sender to be told but the actor itself."""
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    held, gate = asyncio.Event(), asyncio.Event()
    ref = system.spawn(Piper, mailbox=MailboxConfig(capacity=1))

    async def hold() -> None:
        held.set()
        await gate.wait()

    await ref.ask(lambda ctx: ctx.pipe_to_self(future) and None)
    ref.tell(lambda ctx: hold())
    await held.wait()
    ref.tell("fills it")
    future.set_result("no room")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gate.set()
    reason = await ref.terminated()
    assert isinstance(reason.cause, MailboxFull)
    assert reason.cause.message == "no room"


ACTS: dict[str, Callable[[Context, ActorRef[Any, Any]], Any]] = {
    "watch": lambda ctx, other: ctx.watch(other),
    "watch with message": lambda ctx, other: ctx.watch(other, "ended"),
    "unwatch": lambda ctx, other: ctx.unwatch(other),
    "spawn": lambda ctx, other: ctx.spawn(Mirror),
    "stop": lambda ctx, other: ctx.stop(),
    "become": lambda ctx, other: ctx.become(lambda ctx, message: None),
    "unbecome": lambda ctx, other: ctx.unbecome(),
    "send_after": lambda ctx, other: ctx.send_after(1.0, other, "from a ghost"),
    "send_every": lambda ctx, other: ctx.send_every(1.0, other, "from a ghost"),
    "timers": lambda ctx, other: ctx.timers.start("key", 1.0, "to itself", every=1.0),
    "receive timeout": lambda ctx, other: ctx.set_receive_timeout(1.0),
    "pipe": lambda ctx, other: ctx.pipe_to_self(give(1)),
    "unstash": lambda ctx, other: ctx.unstash(),
    "unstash_all": lambda ctx, other: ctx.unstash_all(),
    "stash": lambda ctx, other: ctx.stash(),
    "reply": lambda ctx, other: ctx.reply(1),
    "log": lambda ctx, other: ctx.log.info("from a ghost"),
    "looks": lambda ctx, other: (
        ctx.self,
        ctx.name,
        ctx.parent,
        ctx.children,
        ctx.env,
        ctx.now(),
        ctx.sender,
        ctx.lane,
    ),
}


@pytest.mark.parametrize("act", list(ACTS))
@pytest.mark.parametrize("ending", ["stop", "kill"])
async def test_a_ghost_harms_nobody(system: ActorSystem, clock: ManualClock, act: str, ending: str) -> None:
    probe = TestProbe(system)
    ghost, other = system.spawn(Mirror), system.spawn(Mirror)
    ctx = await ghost.ask(lambda ctx: ctx)
    getattr(ghost, ending)()
    await ghost.terminated()
    with contextlib.suppress(GreenroomError):  # or nothing comes of it
        ACTS[act](ctx, other)
    await probe.watch(other)
    await system.settle()
    assert await other.ask("alive") == "alive"
    for _ in range(3):
        await clock.advance(1.0)
    assert await other.ask("alive") == "alive"
    assert not ghost.is_alive
    assert ghost.state is State.TERMINATED
    other.stop()
    await other.terminated()
    await probe.expect_terminated(other)
    assert system.actors() == [probe.ref]


@pytest.mark.parametrize("act", ["send_after", "send_every", "timers"])
async def test_no_timer_fires_for_a_dead_actor(system: ActorSystem, clock: ManualClock, act: str) -> None:  # J11
    probe = TestProbe(system)
    ghost = system.spawn(Mirror)
    ctx = await ghost.ask(lambda ctx: ctx)
    ghost.stop()
    await ghost.terminated()
    try:
        ACTS[act](ctx, probe.ref)
    except GreenroomError:
        return
    await clock.advance(10.0)
    assert probe.messages == []
    assert system.snapshot().timers == 0  # all freed at stop


@pytest.mark.parametrize("wait", ["started", "terminated", "inspect"])
async def test_a_handler_may_wait_for_another_actors_life(system: ActorSystem, wait: str) -> None:
    async def waiting(ctx: Context, message: ActorRef[Any, Any]) -> str:
        if wait == "terminated":
            message.stop()
        await getattr(message, wait)()
        return f"{wait}, {message.state.value}"

    other = system.spawn(Mirror)
    expected = "terminated" if wait == "terminated" else "running"
    assert await system.spawn(waiting).ask(other) == f"{wait}, {expected}"
