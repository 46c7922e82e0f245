"""Exceptions that an actor declares as answers: the asker gets them, and the actor has not failed (refusals)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar

import pytest

from greenroom import Actor, ActorSystem, Behaviors, Context, Directive, ExitKind, ManualClock, Supervision
from greenroom.errors import BadArgument, WorkerLost
from greenroom.runtimelog import LOG_PERIOD, LOGGED_PER_PERIOD
from greenroom.testing import ActorHarness, Simulation, faults
from tests.conformance.sending import ANYWHERE, ask_from, outcome

Caplog = pytest.LogCaptureFixture


class SoldOut(Exception):
    """A refusal."""


class NoSuchShow(SoldOut):
    """A refusal of a more special kind."""


BAD = RuntimeError("bad")


class Booking(Actor[Any, Any]):
    """Counts its messages; raises what it is told, and does what it is told."""

    answers: ClassVar[tuple[type[Exception], ...]] = (SoldOut, ValueError)

    def __init__(self) -> None:
        self.count = 0

    def receive(self, message: Any) -> Any:
        self.count += 1
        if isinstance(message, BaseException):
            raise message.with_traceback(None)
        return message(self.ctx) if callable(message) else self.count


class Awaiting(Booking):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return super().receive(message)


class Returning(Booking):
    def receive(self, message: Any) -> Any:
        self.count += 1
        return Behaviors.failed(message) if isinstance(message, BaseException) else self.count


def book(ctx: Context, message: Any) -> Any:
    if isinstance(message, BaseException):
        raise message.with_traceback(None)
    count = ctx.env["count"]
    count.append(message)
    return len(count)


KINDS = pytest.mark.parametrize("kind", [Booking, Awaiting, Returning])


def warnings(caplog: Caplog) -> list[Any]:
    return [record for record in caplog.records if record.levelno == logging.WARNING]


def errors(caplog: Caplog) -> list[Any]:
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


@KINDS
@pytest.mark.parametrize("where", ANYWHERE)
@pytest.mark.config(supervision=Supervision(max_restarts=0))
async def test_an_asker_gets_the_refusal_and_the_actor_goes_on(
    system: ActorSystem, kind: Any, where: str, caplog: Caplog
) -> None:
    ref = system.spawn(kind)
    first = SoldOut("none left")
    assert await outcome(ask_from(where, system, ref, first)) is first
    for cause in [NoSuchShow("what?"), *([ValueError("one"), UnicodeError("two")] * 5)]:
        assert await outcome(ref.ask(cause)) is cause
    assert await ref.ask("how many?") == 13  # it has kept its state
    ledger = system.ledger(ref)
    assert (ledger.handled, ledger.failed, ledger.refused) == (13, 0, 12)
    (snapshot,) = (one for one in system.snapshot().actors if one.id == ref.id)
    assert (snapshot.incarnation, snapshot.restarts, snapshot.last_failure) == (1, 0, None)
    assert snapshot.ledger.refused == system.ledger().refused == 12
    await system.shutdown()
    assert warnings(caplog) == errors(caplog) == []


@KINDS
async def test_a_told_refusal_is_logged_once_and_counted(system: ActorSystem, kind: Any, caplog: Caplog) -> None:
    ref = system.spawn(kind, name="booking")
    ref.tell(NoSuchShow("none left"))
    assert await ref.ask("how many?") == 2
    assert system.ledger(ref).refused == 1
    await system.shutdown()
    (record,) = warnings(caplog)
    text = record.getMessage()
    assert (record.actor, record.message_type, record.declared) == ("/booking", "NoSuchShow", "SoldOut")
    for part in ("/booking", "NoSuchShow: none left", "declared in `answers` as SoldOut"):
        assert part in text
    assert record.exc_info is None
    assert errors(caplog) == []


async def test_what_is_told_again_and_again_is_logged_now_and_then(
    system: ActorSystem, clock: ManualClock, caplog: Caplog
) -> None:
    ref = system.spawn(Booking)
    for _ in range(LOGGED_PER_PERIOD + 7):
        ref.tell(SoldOut("none left"))
    await system.settle()
    assert len(warnings(caplog)) == LOGGED_PER_PERIOD
    await clock.advance(LOG_PERIOD)
    ref.tell(SoldOut("none left"))
    await system.settle()
    assert warnings(caplog)[-1].not_logged == 7
    assert "7 refusals before this one were not logged" in warnings(caplog)[-1].getMessage()
    assert system.ledger(ref).refused == LOGGED_PER_PERIOD + 8


@pytest.mark.parametrize("how", ["reply", "defer_reply", "gave up"])
async def test_a_refusal_that_no_asker_gets_is_logged(system: ActorSystem, how: str, caplog: Caplog) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    class Late(Booking):
        async def receive(self, message: Any) -> Any:
            if how == "reply":
                self.ctx.reply("yes")
            elif how == "defer_reply":
                self.ctx.defer_reply().send("yes")
            else:
                begun.set()
                await gate.wait()
            raise SoldOut("after all")

    ref = system.spawn(Late, dispatcher="concurrent")
    asked = asyncio.ensure_future(ref.ask(1, timeout=None))
    if how == "gave up":
        await begun.wait()
        asked.cancel()
        await asyncio.wait([asked])
        gate.set()
    else:
        assert await asked == "yes"
    await system.settle()
    assert (system.ledger(ref).failed, system.ledger(ref).refused) == (0, 1)
    await system.shutdown()
    assert len(warnings(caplog)) == 1


async def test_who_was_forwarded_an_ask_refuses_it_by_its_own_answers(system: ActorSystem) -> None:
    class Desk(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            self.ctx.forward(message[0])

    class Strict(Booking):
        answers = ()

        def receive(self, message: Any) -> Any:
            raise message[1]

    class Lenient(Strict):
        answers = (SoldOut,)  # type: ignore[assignment] # mypy infers the base's from its value

    desk, strict, lenient = system.spawn(Desk), system.spawn(Strict), system.spawn(Lenient)
    cause = SoldOut("no")
    assert await outcome(desk.ask((lenient, cause))) is cause
    assert await outcome(desk.ask((strict, cause))) is cause
    await strict.terminated()
    assert lenient.is_alive
    assert desk.is_alive


async def test_a_message_put_aside_before_its_handler_refuses_stays_there(system: ActorSystem, caplog: Caplog) -> None:
    class Door(Booking):
        def receive(self, message: Any) -> Any:
            if message == "open":
                return self.ctx.unstash_all()
            self.count += 1
            if self.count == 1:
                self.ctx.stash()
                raise SoldOut("not yet")
            return "in"

    ref = system.spawn(Door)
    asked = ref.ask("knock", timeout=None)
    assert await ref.ask("open") == 1
    assert await asked == "in"
    await system.shutdown()
    assert len(warnings(caplog)) == 1


async def test_a_behavior_declares_its_own_answers_and_those_of_the_class_hold_too(system: ActorSystem) -> None:
    def answers_and_back(ctx: Context, message: Any) -> Any:
        if isinstance(message, BaseException):
            if not ctx.env.get("never"):
                ctx.become(Behaviors.receive(patient, answers=(KeyError,)))
                ctx.forward(ctx.self)
            return None
        return message

    def patient(ctx: Context, message: Any) -> Any:
        if message == "back":
            ctx.become(impatient)
            return None
        raise message

    def impatient(ctx: Context, message: Any) -> Any:
        raise message

    plain = system.spawn(Behaviors.receive(book, answers=(SoldOut,)), env={"count": []})
    for _ in range(5):
        with pytest.raises(SoldOut):
            await plain.ask(SoldOut("no"))
    assert await plain.ask("x") == 1
    ref = system.spawn(Booking, env={"count": []})
    await ref.ask(lambda ctx: ctx.become(Behaviors.receive(book, answers=(KeyError,))))
    for cause in (SoldOut("no"), KeyError("no"), ValueError("no")):
        assert await outcome(ref.ask(cause)) is cause
    await ref.ask("x")
    assert system.ledger(ref).refused == 3
    ref.tell(LookupError("no"))
    assert (await ref.terminated()).kind is ExitKind.FAIL
    back = system.spawn(answers_and_back)
    assert isinstance(await outcome(back.ask(KeyError("no"))), KeyError)
    await back.ask("back")
    back.tell(KeyError("no"))
    assert (await back.terminated()).kind is ExitKind.FAIL


class InHooks(Booking):
    def pre_start(self) -> None:
        raise ValueError("in a hook")


class OnSignal(Booking):
    def on_terminated(self, ref: object, cause: object) -> None:
        raise ValueError("in a hook")


@pytest.mark.parametrize("how", ["pre_start", "on_terminated", "pipe", "watch message", "fail"])
async def test_only_the_handler_of_a_message_can_refuse(system: ActorSystem, how: str) -> None:
    async def breaks() -> None:
        raise ValueError("in a pipe")

    kind = {"pre_start": InHooks, "on_terminated": OnSignal}.get(how, Booking)
    ref = system.spawn(kind)
    if how in ("on_terminated", "watch message"):
        other = system.spawn(Booking)
        message = None if how == "on_terminated" else ValueError("told by a watch")
        await ref.ask(lambda ctx: ctx.watch(other, message))
        other.stop()
    elif how == "pipe":
        ref.tell(lambda ctx: ctx.pipe_to_self(breaks()) and None)
    elif how == "fail":
        ref.fail(ValueError("from outside"))
    reason = await ref.terminated()
    assert reason.kind is ExitKind.FAIL
    assert isinstance(reason.cause, ValueError)


async def test_what_the_runtime_says_about_a_handler_is_never_its_answer(system: ActorSystem) -> None:
    class Anything(Booking):
        answers = (Exception,)

        def receive(self, message: Any) -> Any:
            return asyncio.Future() if message == "future" else super().receive(message)

    ref = system.spawn(Anything)
    assert isinstance(await outcome(ref.ask(KeyError("no"))), KeyError)
    ref.tell(WorkerLost("gone"))
    assert (await ref.terminated()).kind is ExitKind.PANIC
    # What is not declared may still not be an `Exception` at all.
    other = system.spawn(Anything)
    other.tell(GeneratorExit())
    assert (await other.terminated()).kind is ExitKind.PANIC


async def test_a_subclass_replaces_the_answers_of_its_base_and_a_mixin_may_bring_them(system: ActorSystem) -> None:
    class Mixin:
        answers: ClassVar[tuple[type[Exception], ...]] = (KeyError,)

    class Mixed(Mixin, Booking): ...

    class Added(Booking):
        answers = (*Booking.answers, KeyError)

    for kind, refused in ((Mixed, {KeyError}), (Added, {SoldOut, ValueError, KeyError}), (Booking, {SoldOut})):
        for cause in refused:
            ref = system.spawn(kind)
            with pytest.raises(cause):
                await ref.ask(cause("no"))
            assert await ref.ask("x") == 2
    mixed = system.spawn(Mixed)
    mixed.tell(SoldOut("no"))
    assert (await mixed.terminated()).kind is ExitKind.FAIL


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (SoldOut, r"as in \(SoldOut,\), not SoldOut"),
        ([SoldOut], r"must be a tuple of exception types"),
        ((SoldOut("x"),), r"SoldOut\('x'\) is none"),
        ((int,), "int is none"),
        ((SoldOut, "ValueError"), "'ValueError' is none"),
        ((KeyboardInterrupt,), "KeyboardInterrupt is none: it ends a task or the whole system"),
        ((asyncio.CancelledError,), "CancelledError is none"),
        (None, "must be a tuple"),
    ],
)
def test_what_cannot_be_an_answer_is_refused_when_the_class_is_made(given: Any, part: str) -> None:
    with pytest.raises(BadArgument, match=part):
        type("Wrong", (Booking,), {"answers": given})
    with pytest.raises(BadArgument, match=part):
        Behaviors.receive(book, answers=given)

    class Careless:
        def __init_subclass__(cls) -> None:
            """Does not call the next one."""

    wrong = type("Wrong", (Careless, Booking), {"answers": given})
    with pytest.raises(BadArgument, match=rf"Wrong\.answers .*{part}"):
        ActorSystem().spawn(wrong)


async def test_the_limit_that_ends_an_actor_is_one_error_that_says_what_to_set(
    system: ActorSystem, clock: ManualClock, caplog: Caplog
) -> None:
    ref = system.spawn(Booking, name="booking", supervision=Supervision(max_restarts=2, within=5.0))
    for _ in range(3):
        ref.tell(BAD)
        await clock.advance(1.0)
    assert not ref.is_alive
    await system.shutdown()
    last = [record for record in errors(caplog) if "more than" in record.getMessage()]
    assert last == errors(caplog)[-1:]
    text = last[0].getMessage()
    for part in (
        "/booking failed on RuntimeError",
        "RuntimeError: bad (",
        "as before); more than 2 restarts in 5 s: it is stopped",
        "If RuntimeError only refuses a request, declare it in Booking: `answers = (SoldOut, ValueError, ",
        "raise `max_restarts` or `within`",
        "`on_limit=Directive.ESCALATE`",
    ):
        assert part in text
    assert "answers" not in errors(caplog)[0].getMessage()


@pytest.mark.parametrize("how", ["function", "start", "escalates"])
async def test_the_remedy_is_one_that_helps(system: ActorSystem, how: str, caplog: Caplog) -> None:
    on_limit = Directive.ESCALATE if how == "escalates" else Directive.STOP
    limit = Supervision(max_restarts=0, on_limit=on_limit)
    above = system.spawn(Booking)
    kind: Any = {"function": book, "start": InHooks}.get(how, Booking)
    ref = system.spawn(kind, supervision=limit, parent=above, env={"count": []})
    ref.tell(BAD)
    await ref.terminated()
    await system.shutdown()
    text = errors(caplog)[0].getMessage()
    assert ("declare it in Behaviors.receive(): `answers = (RuntimeError,)`" in text) is (how == "function")
    assert ("declare it" in text) is (how != "start")
    assert ("on_limit" in text) is (how != "escalates")


def test_a_harness_shows_a_refusal_as_an_answer_and_no_failure() -> None:
    with ActorHarness(Booking) as harness:
        with pytest.raises(SoldOut):
            harness.ask(SoldOut("no"))
        harness.tell(SoldOut("no"))
        assert harness.ask("x") == 3
        assert harness.failures == []
        assert [event.kind for event in harness.trace].count("declined") == 1


def test_a_simulation_notes_a_told_refusal_and_a_fault_is_none() -> None:
    class Anything(Booking):
        answers = (Exception,)

    async def program(system: ActorSystem) -> list[int]:
        ref = system.spawn(Anything, name="any", supervision=Supervision())
        ref.tell(SoldOut("no"))
        first = await ref.ask("x")
        ref.tell("crash")
        await system.settle()
        return [first, await ref.ask("x")]

    simulation = Simulation(3, faults=[faults.crash("any", at=3)])
    assert simulation.run(program) == [2, 1]
    kinds = [event.kind for event in simulation.trace]
    assert kinds.count("declined") == kinds.count("failed") == kinds.count("restarted") == 1
