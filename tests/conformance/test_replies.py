"""How an actor answers: by returning, by its context, later, by somebody else; once (case 26, M12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    Behaviors,
    Context,
    Drain,
    ExitKind,
    Lane,
    MailboxConfig,
    MailboxFull,
    Overflow,
    Request,
    handles,
)
from greenroom.errors import GreenroomError, MessageDropped, NotAwaited, Unhandled
from greenroom.testing import TestProbe
from tests.conformance.askers import ANYWHERE, Echo, Gated, Keeper, Ref, ask_from, outcome, until
from tests.gates import Event

BAD = ValueError("bad")

# -- what a handler may do to answer


def become(ctx: Context, message: Any) -> str:
    return "changed"


def reply_and_raise(ctx: Context) -> Any:
    ctx.reply(1)
    raise BAD.with_traceback(None)


def reply(value: Any, result: Any) -> Callable[[Context], Any]:
    def act(ctx: Context) -> Any:
        ctx.reply(value)
        return result

    return act


def fail_reply_and_return(ctx: Context) -> Any:
    ctx.fail_reply(BAD)
    return 2


def defer_and_return(ctx: Context) -> Any:
    ctx.defer_reply().send(1)
    return 2


ANSWERS: dict[str, tuple[Callable[[Context], Any], Any]] = {
    "a value": (lambda ctx: 1, 1),
    "nothing": (lambda ctx: None, None),
    "an exception, returned": (lambda ctx: BAD, BAD),
    "same": (lambda ctx: Behaviors.same, None),
    "stopped": (lambda ctx: Behaviors.stopped, None),
    "a new behavior": (lambda ctx: Behaviors.receive(become), None),
    "failed": (lambda ctx: Behaviors.failed(BAD), BAD),
    "reply": (lambda ctx: ctx.reply(1), 1),
    "reply with None": (reply(None, 2), None),
    "reply, and a value": (reply(1, 2), 1),
    "reply, and a behavior": (reply(1, Behaviors.stopped), 1),
    "reply, and raise": (reply_and_raise, 1),
    "fail_reply": (lambda ctx: ctx.fail_reply(BAD), BAD),
    "fail_reply, and a value": (fail_reply_and_return, BAD),
    "deferred, sent at once": (lambda ctx: ctx.defer_reply().send(1), 1),
    "deferred, failed at once": (lambda ctx: ctx.defer_reply().fail(BAD), BAD),
    "deferred, sent, and a value": (defer_and_return, 1),
}
ENDS_WITH = {"stopped", "failed", "reply, and a behavior", "reply, and raise"}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("suspended", [False, True])
async def test_what_the_handler_does_is_the_answer(system: ActorSystem, suspended: bool, answer: str) -> None:
    act, expected = ANSWERS[answer]

    def receive(ctx: Context, message: Any) -> Any:
        return act(ctx)

    async def receive_later(ctx: Context, message: Any) -> Any:
        await asyncio.sleep(0)
        result = act(ctx)
        await asyncio.sleep(0)
        return result

    ref: Ref = system.spawn(receive_later if suspended else receive)
    assert await outcome(ref.ask("?", timeout=None)) == expected
    await system.settle()
    assert ref.is_alive is (answer not in ENDS_WITH)
    assert system.ledger().late_replies == system.dead_letters.count == 0
    if answer == "a new behavior":
        assert await ref.ask("?") == "changed"


async def test_fail_reply_leaves_the_actor_alone(system: ActorSystem) -> None:
    ref: Ref = system.spawn(lambda ctx, message: ctx.fail_reply(message))
    assert await outcome(ref.ask(BAD)) is BAD
    assert isinstance(await outcome(ref.ask("no exception")), TypeError)


class Get(Request[int]):
    pass


class Set(Request[None]):
    def __init__(self, value: int) -> None:
        self.value = value


class Cell(Actor[Get | Set | str, Any]):
    value = 0

    @handles(Get)
    def get(self, message: Get) -> int:
        return self.value

    @handles(Set)
    async def set(self, message: Set) -> None:
        self.value = message.value


async def test_a_request_is_answered_as_it_declares(system: ActorSystem) -> None:  # B7
    cell = system.spawn(Cell)
    before: int = await cell.ask(Get())
    assert await outcome(cell.ask(Set(5))) is None
    after: int = await cell.ask(Get())
    assert (before, after) == (0, 5)


@pytest.mark.parametrize("where", ANYWHERE)
async def test_an_unhandled_ask_fails_at_once(system: ActorSystem, where: str) -> None:  # case 25
    said: Ref = system.spawn(lambda ctx, message: Behaviors.unhandled)
    for ref in (system.spawn(Cell), said):
        error = await ask_from(where, system, ref, "what?", timeout=None)
        assert isinstance(error, Unhandled)
        assert (error.ref, error.message) == (ref, "what?")
        assert system.dead_letters.recent()[-1].message == "what?"
        assert (system.ledger(ref).unhandled, ref.is_alive) == (1, True)
        if where == "handler":
            break


@pytest.mark.at_home
async def test_an_answer_that_must_be_awaited_is_an_error_to_both(system: ActorSystem) -> None:
    echo = system.spawn(Echo)
    careless: Ref = system.spawn(lambda ctx, message: echo.ask(message))
    assert isinstance(await outcome(careless.ask("?", timeout=None)), NotAwaited)
    assert (await careless.terminated()).kind is ExitKind.FAIL


# -- messages that are not let in


@pytest.mark.parametrize("where", ANYWHERE)
@pytest.mark.parametrize("overflow", Overflow)
async def test_an_ask_whose_message_is_not_kept_fails_at_once(
    system: ActorSystem, overflow: Overflow, where: str
) -> None:  # case 25
    gate = Event()

    async def hold(ctx: Context, message: Any) -> Any:
        await gate.wait()
        return message

    ref: Ref = system.spawn(hold, mailbox=MailboxConfig(capacity=1, overflow=overflow))
    ref.tell("in hand")
    await until(lambda: system.ledger(ref).in_hand)
    first = ref.ask("first", timeout=None)
    second = asyncio.create_task(ask_from(where, system, ref, "second", timeout=None))
    if overflow is Overflow.DROP_OLD:
        lost, kept = await outcome(first), second
    else:
        lost, kept = await second, asyncio.ensure_future(outcome(first))
    if overflow is Overflow.REJECT:
        assert isinstance(lost, MailboxFull)
        assert (lost.ref, lost.message) == (ref, "second")
        assert system.ledger(ref).rejected == 1
    else:
        assert isinstance(lost, MessageDropped)
        assert lost.ref == ref
        assert system.ledger(ref).dropped == 1
    gate.set()
    assert await kept == ("second" if overflow is Overflow.DROP_OLD else "first")


@pytest.mark.parametrize("drain", ["DROP", "DEAD_LETTER", "REDIRECT", "REDIRECT to the dead", "REDIRECT to the full"])
@pytest.mark.parametrize("stashed", [False, True])
async def test_asks_of_a_stopped_actor_go_where_its_drain_says(
    system: ActorSystem, drain: str, stashed: bool
) -> None:  # M10
    gate, arrived = Event(), Event()
    heir = system.spawn(Gated, gate, arrived, mailbox=MailboxConfig(capacity=1))
    if drain.endswith("full"):
        heir.tell("in hand")
        await arrived.wait()
        heir.tell("no room")
    else:
        gate.set()
    if drain.endswith("dead"):
        heir.stop()
        await heir.terminated()
    strategy = Drain.REDIRECT(heir) if drain.startswith("REDIRECT") else getattr(Drain, drain)
    ref: Ref = system.spawn(lambda ctx, message: ctx.stash(), drain=strategy)
    if stashed:
        await ref.started()
    asked = ref.ask("?", timeout=None)
    if stashed:
        await until(lambda: system.ledger(ref).queued and not system.ledger(ref).in_hand)
        await asyncio.sleep(0)
        assert not asked.done()
    ref.stop()
    result = await outcome(asked)
    gate.set()
    if drain == "REDIRECT":
        assert result == "?"
    elif drain == "DROP":
        assert isinstance(result, MessageDropped)
    elif drain.endswith("full"):
        assert isinstance(result, GreenroomError)
        assert not isinstance(result, ActorTerminated)  # the heir is alive
    else:
        assert isinstance(result, ActorTerminated)
        assert result.ref == (heir if drain.endswith("dead") else ref)


async def test_a_stashed_ask_is_answered_when_its_turn_comes(system: ActorSystem) -> None:
    class Shy(Actor[Any, Any]):
        ready = False

        def receive(self, message: Any) -> Any:
            if message == "ready":
                self.ready = True
                return self.ctx.unstash_all()
            return message if self.ready else self.ctx.stash()

    ref = system.spawn(Shy)
    asked = [ref.ask(number) for number in range(5)]
    assert await ref.ask("ready") == 5
    assert [await one for one in asked] == list(range(5))


# -- told, not asked


async def test_a_reply_to_what_was_told_is_told_to_its_sender(system: ActorSystem) -> None:  # M12
    def answer(ctx: Context, message: str) -> Any:
        if message == "reply":
            ctx.reply(message)
        elif message == "defer":
            ctx.defer_reply().send(message)
        return "what is returned goes nowhere"

    probe = TestProbe(system)
    ref: Ref = system.spawn(answer)
    for message in ("reply", "return", "defer"):
        ref.tell(message, sender=probe.ref)
    await system.settle()
    assert probe.messages == ["reply", "defer"]
    await probe.receive()
    assert probe.last_sender == ref
    ref.tell("reply")  # from nobody
    await system.settle()
    assert [letter.message for letter in system.dead_letters.recent()] == ["reply"]
    assert system.ledger().late_replies == 0


@pytest.mark.parametrize("asked", ["asked", "told"])
async def test_the_sender_of_a_message_is_known_even_after_its_end(system: ActorSystem, asked: str) -> None:  # J8, M10
    gate = Event()
    senders: list[Any] = []

    async def note(ctx: Context, message: Any) -> Any:
        await gate.wait()
        senders.append(ctx.sender)
        return "the reply"

    target: Ref = system.spawn(note)

    async def send(ctx: Context, message: Any) -> Any:
        return await target.ask("?") if asked == "asked" else target.tell("?")

    sender: Ref = system.spawn(send)
    sender.tell("go")
    await until(lambda: system.ledger(target).in_hand)
    sender.kill()
    await sender.terminated()
    gate.set()
    await system.settle()
    assert senders == [sender]
    if asked == "asked":
        [letter] = system.dead_letters.recent()
        assert (letter.message, letter.sender, letter.recipient) == ("the reply", target, sender)


@pytest.mark.parametrize("asked", ["asked", "told"])
@pytest.mark.parametrize("sender", ["an actor", "nobody"])
async def test_a_forwarded_message_is_from_its_first_sender(system: ActorSystem, sender: str, asked: str) -> None:
    senders: list[Any] = []

    def note(ctx: Context, message: Any) -> Any:
        senders.append(ctx.sender)
        return message

    end: Ref = system.spawn(note)
    middle: Ref = system.spawn(lambda ctx, message: ctx.forward(end))
    first: Ref = system.spawn(lambda ctx, message: ctx.forward(middle))

    async def send() -> Any:
        return await first.ask("?") if asked == "asked" else first.tell("?")

    async def receive(ctx: Context, message: Any) -> Any:
        return await send()

    starter: Ref = system.spawn(receive)
    result = await (starter.ask(None) if sender == "an actor" else send())
    await system.settle()
    assert result == ("?" if asked == "asked" else None)
    assert senders == [starter if sender == "an actor" else None]
    assert system.ledger().handled == (4 if sender == "an actor" else 3)


@pytest.mark.at_home
@pytest.mark.parametrize("lane", Lane)
async def test_a_forwarded_ask_ends_as_if_it_had_been_put_to_the_other(system: ActorSystem, lane: Lane) -> None:
    dead = system.spawn(Echo)
    dead.stop()
    await dead.terminated()
    lanes: dict[Lane, int] = {one: 1 for one in Lane if one is not Lane.DATA}
    full = system.spawn(Keeper, [], mailbox=MailboxConfig(capacity=1, lanes=lanes))
    silent, picky = system.spawn(Keeper, []), system.spawn(Cell)

    def pass_on(ctx: Context, message: Ref) -> str:
        if message == full:
            full.tell("no room", lane=lane)
        ctx.forward(message)
        if message == dead:
            raise BAD.with_traceback(None)  # no business of the asker any more
        return "ignored"

    def ask(ref: Ref, timeout: float | None = None) -> Any:
        return outcome(system.spawn(pass_on).ask(ref, timeout=timeout, lane=lane))

    error = await ask(dead)
    assert isinstance(error, ActorTerminated)
    assert error.ref == dead
    error = await ask(full)
    assert isinstance(error, MailboxFull)
    assert error.ref == full
    error = await ask(picky)
    assert isinstance(error, Unhandled)
    assert error.ref == picky
    asking = asyncio.create_task(ask(silent))
    await until(lambda: system.ledger(silent).handled)
    silent.fail(BAD)
    error = await asking
    assert isinstance(error, ActorTerminated)
    assert error.ref == silent
