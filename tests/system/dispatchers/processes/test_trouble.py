"""What is hard on those who carry messages between processes, and costs nobody else anything."""

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
from greenroom.errors import FailedElsewhere, FrameTooLarge, NotSendable, WorkerLost
from greenroom.testing import assert_ledger_balanced
from tests.system.dispatchers.processes.guests import (
    Bag,
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
from tests.system.dispatchers.processes.test_messages import ONE

LARGE = MailboxConfig(capacity=100_000)


class Hearer(Actor[Any, Any]):
    """Keeps what it hears, at home."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def receive(self, message: Any) -> None:
        self.heard.append(message)


async def test_a_message_that_cannot_be_read_among_thousands_is_the_only_one_that_is_not_handled() -> None:
    async with ActorSystem(config=ONE) as system:
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
async def test_after_a_failure_nothing_is_handled_before_it_is_decided_and_nothing_twice(directive: Directive) -> None:
    heard: list[Any] = []
    supervision = Supervision(directive, backoff=None, max_restarts=None)
    async with ActorSystem(config=ONE) as system:
        ear = system.spawn(Hearer, heard, mailbox=LARGE)
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
async def test_what_home_cannot_read_costs_its_sender_nothing_else(what: str) -> None:
    heard: list[Any] = []
    async with ActorSystem(config=ONE) as system:
        ear = system.spawn(Hearer, heard)
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
async def test_a_reply_that_cannot_be_read_is_an_error_to_the_asker_alone(what: str, error: type[Exception]) -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Troubled, dispatcher="process")
        pid = await ref.ask("pid")
        with pytest.raises(error):
            await ref.ask(("reply", what))
        assert await ref.ask("pid") == pid


async def test_a_guest_that_has_more_to_say_than_home_can_hear_waits() -> None:
    heard: list[Any] = []
    async with ActorSystem(config=ONE) as system:
        ear = system.spawn(Hearer, heard)
        ref = system.spawn(Troubled, dispatcher="process")
        memory = await ref.ask(("flood", ear, 200, 2_000_000), timeout=None)
        assert memory < 200_000_000, "of four hundred"
        await system.settle()
        assert len(heard) == 200


async def test_an_exception_larger_than_a_frame_arrives_as_its_beginning() -> None:
    config = SystemConfig(
        dispatchers={"process": Process(workers=1, frame_limit=1 << 16)}, supervision=Supervision(backoff=None)
    )
    async with ActorSystem(config=config) as system:
        ref = system.spawn(Troubled, dispatcher="process")
        with pytest.raises(FailedElsewhere, match="xxx"):
            await ref.ask(("raise", 200_000))
        assert await ref.ask("seen") == []


async def test_an_environment_larger_than_a_frame_is_a_failed_start() -> None:
    config = SystemConfig(
        dispatchers={"process": Process(workers=1, frame_limit=1 << 16)}, supervision=Supervision(Directive.STOP)
    )
    async with ActorSystem(config=config) as system:
        ref = system.spawn(Troubled, dispatcher="process", env={"large": "x" * 100_000})
        with pytest.raises(FrameTooLarge):
            await ref.started()


@pytest.mark.parametrize("left", range(10))
async def test_a_machine_without_fds_is_a_failed_start_and_the_next_one_is_none(left: int) -> None:
    config = SystemConfig(dispatchers={"process": Process(workers=1)}, supervision=Supervision(Directive.STOP))
    async with ActorSystem(config=config) as system:
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
async def test_a_machine_without_threads_is_a_failed_start_and_the_next_one_is_none(
    which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SystemConfig(dispatchers={"process": Process(workers=1)}, supervision=Supervision(Directive.STOP))
    real, count = threading.Thread.start, itertools.count()

    def start(self: threading.Thread) -> None:
        if next(count) == which:
            raise RuntimeError("can't start new thread")
        real(self)

    async with ActorSystem(config=config) as system:
        ref = system.spawn(Troubled, dispatcher="process")
        monkeypatch.setattr(threading.Thread, "start", start)
        if which == 0:
            with pytest.raises(WorkerLost, match="can't start new thread"):
                await ref.started()
        else:
            await ref.started()
        assert await system.spawn(Troubled, dispatcher="process").ask("seen") == []


@pytest.mark.parametrize("directive", [Directive.RESTART, Directive.RESUME])
async def test_a_message_that_is_put_aside_before_its_handler_raises_stays_put_aside(directive: Directive) -> None:
    async with ActorSystem(config=ONE) as system:
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
async def test_a_message_that_is_put_aside_and_wanted_back_at_once_is_handled_again(behind: int) -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Troubled, dispatcher="process")
        ref.tell(("stash and unstash", 0))
        for number in range(behind):
            ref.tell(number)
        await system.settle()
        assert await ref.ask("seen") == [1, "again", *range(behind)]
        assert_ledger_balanced(system)


async def test_one_that_waits_for_those_in_a_circle_is_not_in_it() -> None:
    async with ActorSystem(config=ONE) as system:
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


async def test_a_thread_of_a_guest_can_ask_and_wait() -> None:
    async with ActorSystem(config=ONE) as system:
        ref, other = (system.spawn(Troubled, dispatcher="process") for _ in range(2))
        await ref.ask(("ask in a thread", other))
        while not (seen := await ref.ask("seen")):
            await system.settle()
        assert seen == [("asked", await other.ask("pid"))]


async def test_messages_redirected_or_timed_that_cannot_be_sent_are_dead_letters() -> None:
    clock = ManualClock()
    config = SystemConfig(dispatchers={"process": Process(workers=1)}, clock=clock)
    async with ActorSystem(config=config) as system:
        ref = system.spawn(Bag, dispatcher="process")
        await ref.started()
        home = system.spawn(Hearer, [], drain=Drain.REDIRECT(ref))
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


async def test_the_end_of_one_that_failed_with_an_odd_exception_is_told_all_the_same() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Troubled, dispatcher="process")
        other = system.spawn(Echo, supervision=Supervision(Directive.STOP))
        await ref.ask(("watch", other))
        other.fail(Odd("odd one", threading.Lock()))
        await other.terminated()
        await system.settle()
        assert await ref.ask("seen") == ["FailedElsewhere"]


async def test_a_refusal_whose_constructor_wants_something_else_reaches_the_asker() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Troubled, dispatcher="process")
        with pytest.raises(Picky, match="1 and 2"):
            await ref.ask("picky")


async def test_a_worker_that_dies_while_it_is_looked_at_is_a_panic_too() -> None:
    async with ActorSystem(config=ONE) as system:
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
async def test_something_urgent_leaves_the_message_in_hand_where_it_is(urgent: str) -> None:
    async with ActorSystem(config=ONE) as system:
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
