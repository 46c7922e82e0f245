"""Actors that are hard on their worker process, and those that wait in it."""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import threading
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    AskDeadlock,
    Directive,
    Drain,
    ExitKind,
    Lane,
    MailboxConfig,
    ManualClock,
    Process,
    Supervision,
    SystemConfig,
)
from greenroom.errors import (
    AskTimeout,
    FailedElsewhere,
    FrameTooLarge,
    MailboxFull,
    NotSendable,
    SendTimeout,
    WaitsForItself,
    WaitTimeout,
    WorkerLost,
)
from greenroom.testing import assert_ledger_balanced
from tests.conformance.sending import Holding
from tests.system.dispatchers.processes.actors import (
    AsyncBlocker,
    Blocker,
    Clerk,
    Echo,
    Fragile,
    Odd,
    Picky,
    Slow,
    Stasher,
    Troubled,
    Unreadable,
    witness_in,
)
from tests.system.dispatchers.processes.conformance.home import Ear
from tests.system.dispatchers.processes.puppets import Bag

LARGE = MailboxConfig(capacity=100_000)


async def test_a_message_that_cannot_be_read_among_thousands_is_the_only_one_that_is_not_handled(
    system: ActorSystem,
) -> None:
    ref = system.spawn(Bag, dispatcher="process", mailbox=LARGE)
    for number in range(5_000):
        ref.tell(number)
    await system.settle()
    for number in range(5_000, 20_000):
        ref.tell(number)
        if number % 5_000 == 1_000:
            ref.tell(Unreadable())
    await system.settle()
    assert await ref.ask("seen") == list(range(20_000))
    await system.settle()
    assert system.ledger(ref).unhandled == 3
    assert_ledger_balanced(system)


@pytest.mark.parametrize("directive", [Directive.RESTART, Directive.RESUME, Directive.STOP])
async def test_after_a_failure_nothing_is_handled_before_it_is_decided_and_nothing_twice(
    system: ActorSystem, directive: Directive
) -> None:
    heard: list[Any] = []
    supervision = Supervision(directive, backoff=None, max_restarts=None)
    ear = system.spawn(Ear, heard, mailbox=LARGE)
    ref = system.spawn(Fragile, ear, 100, dispatcher="process", mailbox=LARGE, supervision=supervision)
    for number in range(3_000):
        ref.tell(number)
        if number % 50 == 0:
            await asyncio.sleep(0)
    await system.settle()
    ledger = system.ledger(ref)
    numbers = [number for number, _ in heard]
    assert numbers == sorted(set(numbers)), "each once, and in order"
    assert len(numbers) == ledger.handled
    if directive is Directive.STOP:
        assert (ledger.failed, ledger.handled) == (1, 100)
    else:
        assert numbers == [number for number in range(3_000) if number % 101 != 100]
    assert_ledger_balanced(system)


@pytest.mark.parametrize("what", ["picky", "picky inside", "unreadable"])
async def test_what_home_cannot_read_costs_its_sender_nothing_else(system: ActorSystem, what: str) -> None:
    heard: list[Any] = []
    ear = system.spawn(Ear, heard)
    ref, other = (system.spawn(Troubled, dispatcher="process") for _ in range(2))
    pid = await other.ask("pid")
    if what == "picky":
        with pytest.raises(NotSendable, match="made again"):
            await ref.ask(("tell", ear, what))
    else:
        await ref.ask(("tell", ear, what))
    ref.tell("log")
    assert await ref.ask("pid") == await other.ask("pid") == pid
    await system.settle()
    assert heard == []
    assert_ledger_balanced(system)


@pytest.mark.parametrize(("what", "error"), [("picky", NotSendable), ("unreadable", ImportError)])
async def test_a_reply_that_cannot_be_read_is_an_error_to_the_asker_alone(
    system: ActorSystem, what: str, error: type[Exception]
) -> None:
    ref = system.spawn(Troubled, dispatcher="process")
    pid = await ref.ask("pid")
    with pytest.raises(error):
        await ref.ask(("reply", what))
    assert await ref.ask("pid") == pid


async def test_a_guest_that_has_more_to_say_than_home_can_hear_waits(system: ActorSystem) -> None:
    heard: list[Any] = []
    ear = system.spawn(Ear, heard)
    ref = system.spawn(Troubled, dispatcher="process")
    memory = await ref.ask(("flood", ear, 200, 2_000_000), timeout=None)
    assert memory < 200_000_000, "of four hundred"
    await system.settle()
    assert len(heard) == 200


@pytest.mark.config(
    dispatchers={"process": Process(workers=1, frame_limit=1 << 16)}, supervision=Supervision(backoff=None)
)
async def test_an_exception_larger_than_a_frame_arrives_as_its_beginning(system: ActorSystem) -> None:
    ref = system.spawn(Troubled, dispatcher="process")
    with pytest.raises(FailedElsewhere, match="xxx"):
        await ref.ask(("raise", 200_000))
    assert await ref.ask("seen") == []


@pytest.mark.config(
    dispatchers={"process": Process(workers=1, frame_limit=1 << 16)}, supervision=Supervision(Directive.STOP)
)
async def test_an_environment_larger_than_a_frame_is_a_failed_start(system: ActorSystem) -> None:
    ref = system.spawn(Troubled, dispatcher="process", env={"large": "x" * 100_000})
    with pytest.raises(FrameTooLarge):
        await ref.started()


@pytest.mark.parametrize("left", range(10))
@pytest.mark.config(supervision=Supervision(Directive.STOP))
async def test_a_machine_without_fds_is_a_failed_start_and_the_next_one_is_none(system: ActorSystem, left: int) -> None:
    ref = system.spawn(Troubled, dispatcher="process")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_highest_but(left), hard))
    error = None
    try:
        await ref.started()
    except WorkerLost as exc:
        error = exc
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if error is None:
        assert left > 4, "a socket pair, a pipe, and the page"
    else:
        assert "Too many open files" in str(error)
        assert (await ref.terminated()).kind is ExitKind.PANIC
    assert await system.spawn(Troubled, dispatcher="process").ask("seen") == []


def _highest_but(count: int) -> int:
    """A limit for descriptors that leaves so many free."""
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(count + 1)]
    for fd in opened:
        os.close(fd)
    return opened[-1]


@pytest.mark.parametrize("which", range(3))
@pytest.mark.config(supervision=Supervision(Directive.STOP))
async def test_a_machine_without_threads_is_a_failed_start_and_the_next_one_is_none(
    system: ActorSystem, which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, count = threading.Thread.start, itertools.count()

    def start(self: threading.Thread) -> None:
        if next(count) == which:
            raise RuntimeError("can't start new thread")
        real(self)

    ref = system.spawn(Troubled, dispatcher="process")
    monkeypatch.setattr(threading.Thread, "start", start)
    if which == 0:
        with pytest.raises(WorkerLost, match="can't start new thread"):
            await ref.started()
    else:
        await ref.started()
    assert await system.spawn(Troubled, dispatcher="process").ask("seen") == []


@pytest.mark.parametrize("directive", [Directive.RESTART, Directive.RESUME])
async def test_a_message_that_is_put_aside_before_its_handler_raises_stays_put_aside(
    system: ActorSystem, directive: Directive
) -> None:
    supervision = Supervision(directive, backoff=None)
    ref = system.spawn(Troubled, dispatcher="process", supervision=supervision)
    ref.tell("stash and raise")
    ref.tell("next")
    if directive is Directive.RESUME:
        await system.settle()
        assert await ref.ask("seen") == ["next"]
        await system.settle()
        ledger = system.ledger(ref)
        assert (ledger.queued, ledger.failed, ledger.handled) == (1, 0, 2)
        assert_ledger_balanced(system)
    else:
        ref.stop()
        await ref.terminated()
        assert_ledger_balanced(system)


@pytest.mark.parametrize("behind", [0, 10])
async def test_a_message_that_is_put_aside_and_wanted_back_at_once_is_handled_again(
    system: ActorSystem, behind: int
) -> None:
    ref = system.spawn(Troubled, dispatcher="process")
    ref.tell(("stash and unstash", 0))
    for number in range(behind):
        ref.tell(number)
    await system.settle()
    assert await ref.ask("seen") == [1, "again", *range(behind)]
    assert_ledger_balanced(system)


async def test_one_that_waits_for_those_in_a_circle_is_not_in_it(system: ActorSystem) -> None:
    goes_on = Supervision(Directive.RESUME)
    one, two, three = (system.spawn(Clerk, dispatcher="process", supervision=goes_on) for _ in range(3))
    for _ in range(5):
        asked = [
            one.ask(("ask", two, ("ask", three, ("ask", two, "round", 2.0), 2.0), 2.0)),
            two.ask(("ask", three, ("ask", two, "round", 2.0), 2.0)),
            three.ask(("ask", two, ("ask", three, "round", 2.0), 2.0)),
        ]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert any(isinstance(outcome, AskDeadlock) for outcome in outcomes)
        await system.settle()


async def test_a_thread_of_a_guest_can_ask_and_wait(system: ActorSystem) -> None:
    ref, other = (system.spawn(Troubled, dispatcher="process") for _ in range(2))
    await ref.ask(("ask in a thread", other))
    while not (seen := await ref.ask("seen")):
        await system.settle()
    assert seen == [("asked", await other.ask("pid"))]


@pytest.mark.config(supervision=Supervision())
async def test_messages_redirected_or_timed_that_cannot_be_sent_are_dead_letters(
    system: ActorSystem, clock: ManualClock
) -> None:
    ref = system.spawn(Bag, dispatcher="process")
    await ref.started()
    home = system.spawn(Ear, [], drain=Drain.REDIRECT(ref))
    for message in (1, lambda: 2, 3):
        home.tell(message)
    home.kill()
    await home.terminated()
    timer = system.spawn(Timing, ref)
    await timer.ask("start")
    await clock.advance(1.0)
    await system.settle()
    assert await ref.ask("seen") == [1, 3, "tick"]
    reasons = [letter.reason for letter in system.dead_letters.recent()]
    assert len(reasons) == 2
    assert all("cannot be sent" in reason for reason in reasons)
    await system.settle()
    assert_ledger_balanced(system)


class Timing(Actor[Any, Any]):
    """Sends two messages in a while."""

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def receive(self, message: Any) -> None:
        self.ctx.send_after(0.5, self.ref, lambda: 1)
        self.ctx.send_after(0.5, self.ref, "tick")


async def test_the_end_of_one_that_failed_with_an_odd_exception_is_told_all_the_same(system: ActorSystem) -> None:
    ref = system.spawn(Troubled, dispatcher="process")
    other = system.spawn(Echo, supervision=Supervision(Directive.STOP))
    await ref.ask(("watch", other))
    other.fail(Odd("odd one", threading.Lock()))
    await other.terminated()
    await system.settle()
    assert await ref.ask("seen") == ["FailedElsewhere"]


async def test_a_refusal_whose_constructor_wants_something_else_reaches_the_asker(system: ActorSystem) -> None:
    ref = system.spawn(Troubled, dispatcher="process")
    with pytest.raises(Picky, match="1 and 2"):
        await ref.ask("picky")


async def test_a_worker_that_dies_while_it_is_looked_at_is_a_panic_too(system: ActorSystem) -> None:
    ref = system.spawn(Troubled, dispatcher="process")
    pid = await ref.ask("pid")
    with pytest.raises(WorkerLost):
        await ref.inspect("die")
    ref.tell("kept")
    await system.settle()
    assert await ref.ask("seen") == ["kept"]
    assert await ref.ask("pid") != pid
    await system.settle()
    assert system.ledger(ref).failed == 0


@pytest.mark.parametrize("urgent", ["control", "restart", "fail", "stop"])
async def test_something_urgent_leaves_the_message_in_hand_where_it_is(system: ActorSystem, urgent: str) -> None:
    busy = system.spawn(Slow, dispatcher="process")
    ref = system.spawn(Stasher, dispatcher="process")
    await ref.started()
    witness, begun = witness_in(system)
    busy.tell(("block", 0.1, witness))
    await begun.wait()
    asked = ref.ask("seen", timeout=None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if urgent == "control":
        ref.tell("urgent", lane=Lane.CONTROL)
    else:
        getattr(ref, urgent)(*([ValueError("on purpose")] if urgent == "fail" else []))
    assert await asked == []
    await system.settle()
    assert_ledger_balanced(system)


ONE_MESSAGE = MailboxConfig(capacity=1)
DISPATCHERS = {"process": Process(workers=1), "other": Process(workers=1)}
CONFIG = SystemConfig(dispatchers=DISPATCHERS, supervision=Supervision(Directive.RESUME))
PATIENCE = 120.0


async def test_a_plain_handler_may_block_its_worker() -> None:
    async with ActorSystem(config=CONFIG) as system:
        holding = Holding(system)
        target = holding.ref
        ref = system.spawn(Blocker, dispatcher="process")
        await ref.ask(("send", target, "sent", None))
        assert await ref.ask(("ask", target, "asked", PATIENCE, False)) == "asked"
        assert holding.heard == ["sent", "asked"]
        assert holding.senders == [ref, ref]
        assert await ref.ask(("started", target)) is None
        assert await ref.ask(("inspect", target)) == {}
        other = system.spawn(Blocker, dispatcher="other")
        assert await ref.ask(("ask", other, "echo", PATIENCE, False)) == "echo"
        other.stop()
        assert (await ref.ask(("terminated", other, None))).kind is ExitKind.NORMAL
        assert await ref.ask("echo") == "echo"
        assert_ledger_balanced(system)


async def test_a_plain_handler_waits_for_room() -> None:  # case 10, M17
    async with ActorSystem(config=CONFIG) as system:
        holding = Holding(system, mailbox=ONE_MESSAGE)
        target = await holding.begin()
        target.tell("first")
        ref = system.spawn(Blocker, dispatcher="process")
        with pytest.raises(SendTimeout) as caught:
            await ref.ask(("send", target, "late", 0.0))
        assert caught.value.message == "late"
        with pytest.raises(AskTimeout):
            await ref.ask(("ask", target, "late", 0.0, True))
        with pytest.raises(MailboxFull):
            await ref.ask(("ask", target, "refused", None, False))
        with pytest.raises(WaitTimeout):
            await ref.ask(("terminated", target, 0.0))
        asked = ref.ask(("ask", target, "asked", None, True))
        sent = ref.ask(("send", target, "sent", None))
        holding.released.set()
        assert await asked == "asked"
        assert await sent is None
        await system.settle()
        assert holding.heard == ["first", "asked", "sent"]
        assert_ledger_balanced(system)


async def test_an_async_handler_asks_and_waits_for_room() -> None:  # case 10
    async with ActorSystem(config=CONFIG) as system:
        holding = Holding(system, mailbox=ONE_MESSAGE)
        target = await holding.begin()
        target.tell("first")
        ref = system.spawn(AsyncBlocker, dispatcher="process")
        asked = ref.ask(("ask", target, "asked"))
        assert await ref.ask(("give up", target, "gone")) == "gave up"
        assert await ref.ask(("from a thread", target, "by a thread")) == "AskTimeout"
        with pytest.raises(AskTimeout):  # at home, that ask ends later than in the worker, but before this one
            await target.ask("at home", timeout=0.01, wait_for_room=True)
        holding.released.set()
        assert await asked == "asked"
        await system.settle()
        assert holding.heard == ["first", "asked"]
        assert_ledger_balanced(system)


async def test_an_actor_in_a_worker_is_asked_when_it_has_room() -> None:  # case 10
    async with ActorSystem(config=CONFIG) as system:
        gate = Holding(system)
        opener = await gate.begin()
        ref: ActorRef[Any, Any] = system.spawn(Blocker, dispatcher="process", mailbox=ONE_MESSAGE)
        await ref.started()
        ref.tell(("ask", opener, "go on", None, False))
        asked = [ref.ask(number, timeout=None, wait_for_room=True) for number in range(10)]
        with pytest.raises(NotSendable):
            await ref.ask(lambda: None, timeout=None, wait_for_room=True)
        gate.released.set()
        assert await asyncio.gather(*asked) == list(range(10))
        assert assert_ledger_balanced(system, ref).rejected == 0


async def test_an_async_handler_is_told_to_await() -> None:
    async with ActorSystem(config=CONFIG) as system:
        target = system.spawn(lambda ctx, message: message)
        ref = system.spawn(AsyncBlocker, dispatcher="process")
        for name in ("send_sync", "ask_sync", "started_sync", "terminated_sync", "inspect_sync"):
            with pytest.raises(WaitsForItself, match=f"write `await ref.{name.removesuffix('_sync')}"):
                await ref.ask(("block", name, target))


async def test_who_would_wait_for_itself_is_refused() -> None:
    async with ActorSystem(config=CONFIG) as system:
        ref = system.spawn(Blocker, dispatcher="process", mailbox=ONE_MESSAGE, name="self")
        with pytest.raises(WaitsForItself, match="/self awaits its own end"):
            await ref.ask(("terminated", ref, None))
        with pytest.raises(WaitsForItself, match="inspect"):
            await ref.ask(("inspect", ref))
        with pytest.raises(WaitsForItself, match="system to be idle"):
            await ref.ask("settle")
        with pytest.raises(AskDeadlock):
            await ref.ask(("ask", ref, "me", None, False))
        await system.settle()
        with pytest.raises(WaitsForItself, match="/self waits for room in its own full mailbox"):
            await ref.ask(("fill itself", ref))
        await system.settle()
        assert_ledger_balanced(system)


async def test_who_would_wait_for_one_of_the_same_worker_is_refused() -> None:
    async with ActorSystem(config=CONFIG) as system:
        ref = system.spawn(Blocker, dispatcher="process")
        mate: ActorRef[Any, Any] = system.spawn(Blocker, dispatcher="process", name="mate")
        await mate.started()
        for message in (("ask", mate, "?", None, False), ("terminated", mate, None), ("inspect", mate)):
            with pytest.raises(WaitsForItself, match="/mate is in the same worker process"):
                await ref.ask(message)
        await ref.ask(("started", mate))
        await ref.ask(("send", mate, "there is room", None))
        assert await ref.ask("alive") == "alive"


@pytest.mark.parametrize("how", ["send", "ask", "terminated"])
async def test_a_clock_that_is_turned_by_hand_goes_on_while_a_worker_blocks(how: str) -> None:  # M19
    clock = ManualClock()
    config = SystemConfig(dispatchers=DISPATCHERS, clock=clock, supervision=Supervision(Directive.RESUME))
    async with asyncio.timeout(PATIENCE), ActorSystem(config=config) as system:
        holding = Holding(system, mailbox=ONE_MESSAGE)
        target = await holding.begin()
        target.tell("first")
        ref = system.spawn(Blocker, dispatcher="process")
        await ref.started()
        what = {"send": ("late", 5.0), "ask": ("late", 5.0, True), "terminated": (5.0,)}[how]
        asked = ref.ask(("note the time", (how, target, *what)), timeout=None)
        await clock.advance(20.0, patience=PATIENCE)
        assert await asked == 5.0
        holding.released.set()


def test_threads_of_a_program_without_asyncio_wait_for_actors_in_workers() -> None:
    class Slow(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            assert opened.wait(PATIENCE)
            return message

    opened = threading.Event()
    with ActorSystem(config=CONFIG) as system:
        ref = system.spawn(Blocker, dispatcher="process", mailbox=ONE_MESSAGE)
        ref.started_sync(PATIENCE)
        slow = system.spawn(Slow, dispatcher="parallel")
        ref.tell(("ask", slow, "hold", None, False))
        threads = [threading.Thread(target=ref.send_sync, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        opened.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert ref.ask_sync("last", timeout=PATIENCE, wait_for_room=True) == "last"
        system.settle_sync(PATIENCE)
        assert assert_ledger_balanced(system, ref).handled == 7
        assert ref.inspect_sync(timeout=PATIENCE) == {}
        ref.stop()
        assert ref.terminated_sync(PATIENCE).kind is ExitKind.NORMAL
