"""How an actor answers: by returning, by its context, later, by somebody else; once (case 26)."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    AskTimeout,
    Behaviors,
    Context,
    Drain,
    ExitKind,
    Lane,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    Overflow,
    Reply,
    Request,
    handles,
)
from greenroom.errors import (
    AlreadyReplied,
    GreenroomError,
    MessageDropped,
    NoMessage,
    NotAwaited,
    Unhandled,
    WaitsForItself,
    WrongThread,
)
from greenroom.testing import TestProbe
from tests.conformance.sending import (
    ANYWHERE,
    FOREIGN,
    Echo,
    Gated,
    Keeper,
    Ref,
    ask_from,
    in_thread,
    outcome,
    pass_time,
    until,
)
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
async def test_what_the_handler_does_is_the_answer(system: ActorSystem, suspended: bool, answer: str) -> None:  # M12
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


async def test_fail_reply_leaves_the_actor_alone(system: ActorSystem) -> None:  # M12
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


async def test_a_request_is_answered_as_it_declares(system: ActorSystem) -> None:  # B7, M12
    cell = system.spawn(Cell)
    before: int = await cell.ask(Get())
    assert await outcome(cell.ask(Set(5))) is None
    after: int = await cell.ask(Get())
    assert (before, after) == (0, 5)


@pytest.mark.parametrize("where", ANYWHERE)
async def test_an_unhandled_ask_fails_at_once(system: ActorSystem, where: str) -> None:  # case 25, M12
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
async def test_an_answer_that_must_be_awaited_is_an_error_to_both(system: ActorSystem) -> None:  # M12
    echo = system.spawn(Echo)
    careless: Ref = system.spawn(lambda ctx, message: echo.ask(message))
    assert isinstance(await outcome(careless.ask("?", timeout=None)), NotAwaited)
    assert (await careless.terminated()).kind is ExitKind.FAIL


# -- messages that are not let in


@pytest.mark.parametrize("where", ANYWHERE)
@pytest.mark.parametrize("overflow", Overflow)
async def test_an_ask_whose_message_is_not_kept_fails_at_once(
    system: ActorSystem, overflow: Overflow, where: str
) -> None:  # case 25, M12
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
async def test_asks_of_a_stopped_actor_go_where_its_drain_says(system: ActorSystem, drain: str, stashed: bool) -> None:
    # M10, M12
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


async def test_a_stashed_ask_is_answered_when_its_turn_comes(system: ActorSystem) -> None:  # M12
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
async def test_the_sender_of_a_message_is_known_even_after_its_end(system: ActorSystem, asked: str) -> None:
    # J8, M10, M12
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
    # M12
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
async def test_a_forwarded_ask_ends_as_if_it_had_been_put_to_the_other(system: ActorSystem, lane: Lane) -> None:  # M12
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


class Delegate(Actor[Any, Any]):
    """Lets another actor answer."""

    def __init__(self, worker: Ref) -> None:
        self.worker = worker

    def receive(self, message: Any) -> str:
        self.worker.tell((self.ctx.defer_reply(), message))
        return "not the answer"


class Worker(Actor[Any, Any]):
    async def receive(self, message: tuple[Reply, Any]) -> None:
        reply, question = message
        await asyncio.sleep(0)
        if isinstance(question, Exception):
            reply.fail(question)
        else:
            reply.send(question)


@pytest.mark.parametrize("question", ["?", None, BAD])
@pytest.mark.parametrize("where", ANYWHERE)
async def test_another_actor_can_give_the_reply(system: ActorSystem, where: str, question: Any) -> None:  # case 26
    delegate = system.spawn(Delegate, system.spawn(Worker))
    assert await ask_from(where, system, delegate, question, timeout=None) is question
    assert delegate.is_alive
    assert system.ledger().late_replies == system.dead_letters.count == 0


@pytest.mark.real
@pytest.mark.parametrize("where", ANYWHERE)
async def test_another_thread_can_give_the_reply(system: ActorSystem, where: str) -> None:  # case 26
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)
    for act, expected in ((lambda reply: reply.send(1), 1), (lambda reply: reply.fail(BAD), BAD)):
        if where == "handler" and (old := system.actor("asker")) is not None:
            old.stop()
            await old.terminated()
        asking = asyncio.create_task(ask_from(where, system, keeper, "?", timeout=None))
        await until(lambda: kept)
        reply = kept.pop()
        await in_thread(lambda act=act, reply=reply: act(reply))  # type: ignore[misc]
        assert await asking == expected


@pytest.mark.parametrize("first", ["send", "fail"])
@pytest.mark.parametrize("second", ["send", "fail"])
async def test_a_second_reply_is_an_error(system: ActorSystem, first: str, second: str) -> None:  # case 26: once
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)
    values = {"send": 1, "fail": BAD}
    asked = keeper.ask("?")
    await system.settle()
    getattr(kept[0], first)(values[first])
    with pytest.raises(AlreadyReplied):
        getattr(kept[0], second)(values[second])
    assert await outcome(asked) == values[first]


@pytest.mark.real
async def test_of_many_threads_one_gives_the_reply(system: ActorSystem) -> None:  # case 26: once
    kept: list[Reply] = []
    asked = system.spawn(Keeper, kept).ask("?", timeout=None)
    await system.settle()
    start = threading.Barrier(8)

    def send(number: int) -> int | None:
        start.wait(10.0)
        try:
            kept[0].send(number)
        except AlreadyReplied:
            return None
        return number

    given = await asyncio.gather(*(in_thread(lambda number=number: send(number)) for number in range(8)))  # type: ignore[misc]
    [winner] = [number for number in given if number is not None]
    assert await asked == winner


def reply_twice(ctx: Context) -> None:
    ctx.reply(1)
    ctx.reply(2)


def fail_after_reply(ctx: Context) -> None:
    ctx.reply(1)
    ctx.fail_reply(BAD)


def defer_after_reply(ctx: Context) -> None:
    ctx.reply(1)
    ctx.defer_reply().send(2)


def reply_after_defer(ctx: Context) -> None:
    reply = ctx.defer_reply()
    reply.send(1)
    ctx.reply(2)


def defer_twice(ctx: Context) -> None:
    ctx.defer_reply().send(1)
    ctx.defer_reply().send(2)


@pytest.mark.parametrize("act", [reply_twice, fail_after_reply, defer_after_reply, reply_after_defer, defer_twice])
async def test_a_message_is_answered_once_by_whatever_means(system: ActorSystem, act: Any) -> None:  # case 26: once
    errors: list[AlreadyReplied] = []

    def receive(ctx: Context, message: Any) -> None:
        try:
            act(ctx)
        except AlreadyReplied as exc:
            errors.append(exc)

    ref: Ref = system.spawn(receive)
    assert await outcome(ref.ask("?")) == 1
    await system.settle()
    assert len(errors) == 1


async def test_a_reply_that_fails_needs_an_exception(system: ActorSystem) -> None:
    kept: list[Reply] = []
    asked = system.spawn(Keeper, kept).ask("?")
    await system.settle()
    with pytest.raises(TypeError):
        kept[0].fail("no exception")  # type: ignore[arg-type]
    kept[0].send("still open")
    assert await asked == "still open"


async def test_there_is_nothing_to_answer_outside_a_message(system: ActorSystem) -> None:
    class Eager(Echo):
        def __init__(self, errors: list[Any]) -> None:
            self.errors = errors

        def pre_start(self) -> None:
            target: Ref = self.ctx.self
            for act in (self.ctx.defer_reply, lambda: self.ctx.reply(1), lambda: self.ctx.fail_reply(BAD)):
                with pytest.raises(NoMessage):
                    act()
                self.errors.append(True)
            with pytest.raises(NoMessage):
                self.ctx.forward(target)

    errors: list[Any] = []
    ref = system.spawn(Eager, errors)
    await ref.started()
    assert errors == [True] * 3


@pytest.mark.parametrize("how", ["stop", "kill", "raise", "shutdown"])
async def test_an_actor_that_ends_owes_nothing_any_more(system: ActorSystem, how: str) -> None:  # case 24, 26
    kept: list[Reply] = []

    def defer(ctx: Context, message: Any) -> Any:
        kept.append(ctx.defer_reply())
        if message == "raise":
            raise BAD.with_traceback(None)

    ref: Ref = system.spawn(defer)
    asked = ref.ask(how, timeout=None)
    await until(lambda: kept)
    if how in ("stop", "kill"):
        getattr(ref, how)()
    elif how == "shutdown":
        await system.shutdown()
    error = await outcome(asked)
    assert isinstance(error, ActorTerminated)
    assert error.reason == await ref.terminated()
    if how == "raise":
        assert (await ref.terminated()).cause is BAD


async def test_a_deferred_reply_of_an_ended_actor_is_a_dead_letter(system: ActorSystem) -> None:  # late_replies
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)
    asked = keeper.ask("?")
    await system.settle()
    keeper.stop()
    assert isinstance(await outcome(asked), ActorTerminated)
    kept[0].send("nobody waits any more")
    await system.settle()
    assert [letter.message for letter in system.dead_letters.recent()] == ["nobody waits any more"]
    assert system.ledger().late_replies == 1


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_a_deferred_reply_to_what_was_told_goes_to_its_sender(system: ActorSystem, foreign: bool) -> None:  # M12
    kept: list[Reply] = []
    probe = TestProbe(system)
    keeper = system.spawn(Keeper, kept)
    keeper.tell("?", sender=probe.ref)
    await system.settle()
    if foreign:
        await in_thread(lambda: kept[0].send("later"))
    else:
        kept[0].send("later")
    assert await probe.receive() == "later"
    assert probe.last_sender == keeper
    with pytest.raises(AlreadyReplied):
        kept[0].send("again")


async def test_late_replies_are_counted_one_by_one_and_told_to_subscribers(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 23
    kept: list[Reply] = []
    letters: list[Any] = []
    system.dead_letters.subscribe(letters.append)
    probe = TestProbe(system)
    system.dead_letters.subscribe(probe.ref)
    keeper = system.spawn(Keeper, kept)
    asked = [keeper.ask(number, timeout=1.0) for number in range(10)]
    await clock.advance(0.5)
    for number in range(5):
        kept[number].send(number)
    await clock.advance(0.5)
    ends = [await outcome(one) for one in asked]
    assert ends[:5] == list(range(5))
    assert [type(end) for end in ends[5:]] == [AskTimeout] * 5
    for number in range(5, 10):
        kept[number].send(number)
    await system.settle()
    assert [letter.message for letter in letters] == list(range(5, 10))
    assert [letter.message for letter in probe.messages] == list(range(5, 10))
    assert {letter.time for letter in letters} == {1.0}
    ledger = system.ledger()
    assert (ledger.late_replies, ledger.dead_lettered, ledger.balanced) == (5, 0, True)  # outside the balance
    assert system.dead_letters.count == 5


async def test_neither_an_ask_nor_a_reply_can_be_pickled(system: ActorSystem) -> None:
    kept: list[Reply] = []
    asked = system.spawn(Keeper, kept).ask("?")
    await system.settle()
    for thing in (asked, kept[0]):
        with pytest.raises(TypeError):
            pickle.dumps(thing)
    asked.cancel()


# -- asking without a loop


def test_a_plain_program_asks_by_ask_sync() -> None:
    with ActorSystem() as system:
        ref = system.spawn(Echo)
        assert [ref.ask_sync(number) for number in range(100)] == list(range(100))
        kept: list[Reply] = []
        keeper = system.spawn(Keeper, kept)
        with pytest.raises(AskTimeout) as caught:
            keeper.ask_sync("?", timeout=0.0)
        assert (caught.value.ref, caught.value.timeout) == (keeper, 0.0)
        assert ref.ask_sync("goes on", timeout=None) == "goes on"
        kept[0].send("late")
        assert ref.ask_sync("taken in") == "taken in"
        assert [letter.message for letter in system.dead_letters.recent()] == ["late"]
        assert system.ledger().late_replies == 1
        ref.stop()
        with pytest.raises(ActorTerminated):
            ref.ask_sync("?", timeout=None)
    with pytest.raises(ActorTerminated):
        keeper.ask_sync("?", timeout=3.0)


@pytest.mark.real
async def test_ask_without_a_loop_says_to_use_ask_sync(system: ActorSystem) -> None:  # J9
    ref = system.spawn(Echo)
    with pytest.raises(WrongThread, match="ask_sync"):
        await in_thread(lambda: ref.ask("?"))
    assert system.ledger(ref).sent == 0


@pytest.mark.at_home
async def test_ask_sync_is_refused_on_the_systems_own_thread(system: ActorSystem) -> None:  # J9
    ref = system.spawn(Echo)
    with pytest.raises(WaitsForItself):
        ref.ask_sync("?")
    handler: Ref = system.spawn(lambda ctx, message: ref.ask_sync(message))
    assert isinstance(await outcome(handler.ask("?")), WaitsForItself)
    assert system.ledger(ref).sent == 0


@pytest.mark.real
async def test_ask_sync_is_refused_on_the_thread_of_any_loop(system: ActorSystem) -> None:
    # the contract: a plain thread
    ref = system.spawn(Echo)

    async def elsewhere() -> Any:
        return ref.ask_sync("?", timeout=1.0)

    with pytest.raises((WaitsForItself, WrongThread)):
        await in_thread(lambda: asyncio.run(elsewhere()))
    assert system.ledger(ref).sent == 0


@pytest.mark.real
async def test_the_clock_of_the_system_times_ask_sync_too(system: ActorSystem, clock: ManualClock) -> None:
    # nothing reads the wall clock by itself
    keeper = system.spawn(Keeper, [])
    asking = asyncio.create_task(ask_from("plain thread", system, keeper, "?", timeout=1000.0))
    async with asyncio.timeout(120.0):
        error = await pass_time(clock, asking)
    assert isinstance(error, AskTimeout)
    assert error.timeout == 1000.0
