"""What blocks its thread: `send_sync`, `started_sync`, `terminated_sync`, `inspect_sync`, `settle_sync`, `ask_sync`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Context,
    Lane,
    MailboxConfig,
    ManualClock,
    Parallel,
    Supervision,
    SystemConfig,
)
from greenroom.errors import (
    ActorTerminated,
    AskDeadlock,
    AskTimeout,
    BadArgument,
    InvalidDelay,
    NotStarted,
    SendTimeout,
    SettleTimeout,
    WaitsForItself,
    WaitTimeout,
)
from greenroom.exits import ExitKind
from greenroom.policy.directives import Directive
from greenroom.testing import assert_ledger_balanced
from tests.conformance.sending import until

DEADLINE = 120.0
ONE = MailboxConfig(capacity=1)
THREADS = ["parallel", "pinned"]
BLOCKING = {
    "send_sync": lambda ref: ref.send_sync("x", timeout=DEADLINE),
    "started_sync": lambda ref: ref.started_sync(DEADLINE),
    "terminated_sync": lambda ref: ref.terminated_sync(DEADLINE),
    "inspect_sync": lambda ref: ref.inspect_sync(timeout=DEADLINE),
    "ask_sync": lambda ref: ref.ask_sync("x", timeout=DEADLINE),
}


class Held(Actor[Any, Any]):
    """Holds its first message until it is let go, and keeps all that come."""

    def __init__(self, opened: threading.Event, entered: threading.Event, heard: list[Any]) -> None:
        self.opened = opened
        self.entered = entered
        self.heard = heard

    def receive(self, message: Any) -> Any:
        if message == "hold":
            self.entered.set()
            assert self.opened.wait(DEADLINE)
        else:
            self.heard.append(message)
        return message

    def inspect(self, *items: str) -> Mapping[str, Any]:
        return {"heard": list(self.heard), "items": items}


class Hold:
    """A `Held` actor on a thread of its own, with a full mailbox of one."""

    def __init__(self, system: ActorSystem, dispatcher: str = "pinned", mailbox: MailboxConfig = ONE) -> None:
        self.opened, self.entered = threading.Event(), threading.Event()
        self.heard: list[Any] = []
        self.ref = system.spawn(Held, self.opened, self.entered, self.heard, dispatcher=dispatcher, mailbox=mailbox)
        self.ref.tell("hold")
        assert self.entered.wait(DEADLINE)
        self.ref.send_sync("first", timeout=DEADLINE)


def do(ctx: Context, message: Callable[[Context], object]) -> object:
    return message(ctx)


def thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(8)


# -- plain threads


def test_a_thread_waits_for_room() -> None:  # case 10, M17
    with ActorSystem() as system, thread() as threads:
        hold = Hold(system)
        sends = [threads.submit(hold.ref.send_sync, number, timeout=DEADLINE) for number in range(5)]
        assert not any(send.done() for send in sends)
        hold.opened.set()
        for send in sends:
            assert send.result(DEADLINE) is None
        system.settle_sync(DEADLINE)
        assert hold.heard[0] == "first"
        assert sorted(hold.heard[1:]) == [0, 1, 2, 3, 4]
        ledger = assert_ledger_balanced(system, hold.ref)
        assert (ledger.sent, ledger.handled, ledger.rejected) == (7, 7, 0)


def test_what_one_thread_sends_arrives_in_its_order_whether_it_had_to_wait_or_not() -> None:  # case 10, J15
    heard: list[Any] = []
    with ActorSystem() as system:
        ref = system.spawn(lambda ctx, message: heard.append(message), mailbox=MailboxConfig(capacity=3))
        for number in range(500):
            ref.send_sync(number, timeout=DEADLINE)
        system.settle_sync(DEADLINE)
        assert heard == list(range(500))
        assert assert_ledger_balanced(system, ref).rejected == 0


def test_a_send_that_is_late_gives_the_message_back_and_leaves_nothing_behind() -> None:  # case 10
    with ActorSystem() as system:
        hold = Hold(system)
        for timeout in (0.0, 0.01):
            with pytest.raises(SendTimeout) as caught:
                hold.ref.send_sync("late", timeout=timeout)
            assert caught.value.message == "late"
        hold.opened.set()
        system.settle_sync(DEADLINE)
        assert hold.heard == ["first"]
        assert assert_ledger_balanced(system, hold.ref).sent == 2


def test_a_thread_can_wait_for_room_in_every_lane() -> None:
    with ActorSystem() as system, thread() as threads:
        hold = Hold(system, mailbox=MailboxConfig(capacity=1, lanes={Lane.LOG: 1}))
        hold.ref.send_sync("log", lane=Lane.LOG, timeout=DEADLINE)
        more = threads.submit(hold.ref.send_sync, "more", lane=Lane.LOG, timeout=DEADLINE)
        with pytest.raises(BadArgument):
            hold.ref.send_sync("?", lane="data")  # type: ignore[arg-type]
        hold.opened.set()
        more.result(DEADLINE)
        system.settle_sync(DEADLINE)
        assert hold.heard == ["first", "log", "more"]


def test_a_message_that_waits_for_room_when_the_actor_ends_is_a_dead_letter() -> None:  # M10
    with ActorSystem() as system, thread() as threads:
        hold = Hold(system)
        late = threads.submit(hold.ref.send_sync, "late", timeout=DEADLINE)
        hold.ref.stop()
        hold.opened.set()
        assert late.result(DEADLINE) is None
        assert hold.ref.terminated_sync(DEADLINE).kind is ExitKind.NORMAL
        hold.ref.send_sync("too late", timeout=DEADLINE)
        assert "too late" in [letter.message for letter in system.dead_letters.recent()]
    assert_ledger_balanced(system)


def test_a_thread_waits_for_a_start_and_an_end() -> None:
    opened = threading.Event()

    class Slow(Actor[Any, Any]):
        def pre_start(self) -> None:
            assert opened.wait(DEADLINE)

        def receive(self, message: Any) -> None:
            raise ValueError("on purpose")

    with ActorSystem(config=SystemConfig(supervision=Supervision(Directive.STOP))) as system, thread() as threads:
        ref = system.spawn(Slow, dispatcher="parallel", name="slow")
        with pytest.raises(WaitTimeout, match=r"/slow had not started after 0\.01 s"):
            ref.started_sync(timeout=0.01)
        started = threads.submit(ref.started_sync)
        ended = threads.submit(ref.terminated_sync)
        opened.set()
        assert started.result(DEADLINE) is None
        with pytest.raises(WaitTimeout, match="/slow had not ended"):
            ref.terminated_sync(timeout=0.01)
        ref.tell("fail")
        reason = ended.result(DEADLINE)
        assert (reason.kind, str(reason.cause)) == (ExitKind.FAIL, "on purpose")
        assert ref.terminated_sync() == reason
        with pytest.raises(ValueError, match="on purpose"):
            ref.started_sync()


def test_a_start_that_fails_raises_what_prevented_it() -> None:
    def make() -> Any:
        raise KeyError("no such thing")

    with ActorSystem(config=SystemConfig(supervision=Supervision(Directive.STOP))) as system:
        with pytest.raises(KeyError, match="no such thing"):
            system.spawn(make).started_sync(DEADLINE)
        ref = system.spawn(do)
        ref.stop()
        ref.terminated_sync(DEADLINE)
        with pytest.raises(ActorTerminated):
            ref.started_sync()


def test_a_thread_can_inspect_an_actor() -> None:
    with ActorSystem() as system:
        hold = Hold(system)
        with pytest.raises(AskTimeout):
            hold.ref.inspect_sync(timeout=0.01)
        hold.opened.set()
        assert hold.ref.inspect_sync("a", timeout=DEADLINE)["items"] == ("a",)
        hold.ref.stop()
        hold.ref.terminated_sync(DEADLINE)
        with pytest.raises(ActorTerminated):
            hold.ref.inspect_sync()


def test_a_thread_waits_until_its_system_has_settled() -> None:
    done: list[int] = []

    async def slowly(ctx: Context, message: int) -> None:
        await asyncio.sleep(0)
        done.append(message)
        if message:
            ctx.self.tell(message - 1)

    with ActorSystem("busy") as system:
        ref = system.spawn(slowly)
        ref.tell(50)
        system.settle_sync()
        assert done == list(range(50, -1, -1))
        hold = Hold(system)
        with pytest.raises(SettleTimeout, match="busy"):
            system.settle_sync(timeout=0.01)
        hold.opened.set()
        system.settle_sync(DEADLINE)
    system.settle_sync()  # nothing is left to do


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), "soon"])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    with ActorSystem() as system:
        ref = system.spawn(do)
        waits: list[Callable[..., object]] = [ref.started_sync, ref.terminated_sync, system.settle_sync]
        waits += [ref.inspect_sync, partial(ref.send_sync, id)]
        for wait in waits:
            with pytest.raises(InvalidDelay):
                wait(timeout=timeout)


# -- where nobody may block


@pytest.mark.parametrize("name", BLOCKING)
def test_a_system_that_was_not_started_is_not_waited_for(name: str) -> None:
    system = ActorSystem()
    ref = system.spawn(do)
    with pytest.raises(NotStarted, match=name):
        BLOCKING[name](ref)
    with pytest.raises(NotStarted, match="settle_sync"):
        system.settle_sync()
    if name != "ask_sync":
        with thread() as threads, pytest.raises(NotStarted):
            threads.submit(BLOCKING[name], ref).result(DEADLINE)


@pytest.mark.parametrize("name", BLOCKING)
@pytest.mark.anyio
async def test_a_thread_that_runs_asyncio_is_told_to_await(name: str) -> None:
    async with ActorSystem() as system:
        ref = system.spawn(lambda ctx, message: None)
        with pytest.raises(WaitsForItself, match=f"{name}.* write `await ref.{name.removesuffix('_sync')}"):
            BLOCKING[name](ref)
        with pytest.raises(WaitsForItself, match=r"write `await system.settle\(\)`"):
            system.settle_sync()
        with pytest.raises(WaitsForItself):
            await system.spawn(lambda ctx, message: BLOCKING[name](ref)).ask("block the loop")
        await asyncio.to_thread(BLOCKING["started_sync"], ref)


@pytest.mark.parametrize("name", BLOCKING)
@pytest.mark.anyio
async def test_another_systems_loop_is_not_blocked_either(name: str) -> None:
    with ActorSystem("other") as other:
        ref = other.spawn(lambda ctx, message: None)
        with pytest.raises(WaitsForItself, match="await"):
            BLOCKING[name](ref)
        with pytest.raises(WaitsForItself, match="await"):
            other.settle_sync()


# -- inside handlers, on other threads


@pytest.mark.parametrize("dispatcher", THREADS)
def test_a_plain_handler_on_another_thread_may_block(dispatcher: str) -> None:
    seen: list[Any] = []

    class Target(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            seen.append((message, self.ctx.sender))
            return message

        def inspect(self, *items: str) -> Mapping[str, Any]:
            return {"seen": len(seen)}

    with ActorSystem() as system:
        target = system.spawn(Target)
        ref = system.spawn(do, dispatcher=dispatcher)

        def use(ctx: Context) -> list[Any]:
            child = ctx.spawn(do)
            child.started_sync(DEADLINE)
            target.send_sync("sent", timeout=DEADLINE)
            answer = target.ask_sync("asked", timeout=DEADLINE)
            child.stop()
            return [answer, target.inspect_sync(timeout=DEADLINE), child.terminated_sync(DEADLINE).kind]

        assert ref.ask_sync(use, timeout=DEADLINE) == ["asked", {"seen": 2}, ExitKind.NORMAL]
        assert seen == [("sent", ref), ("asked", ref)]


@pytest.mark.parametrize("dispatcher", THREADS)
def test_a_handler_on_another_thread_waits_for_room(dispatcher: str) -> None:  # case 10, M17
    with ActorSystem() as system:
        hold = Hold(system)
        ref = system.spawn(do, dispatcher=dispatcher)
        sent = threading.Event()

        def send(ctx: Context) -> None:
            hold.ref.send_sync("second", timeout=DEADLINE)
            sent.set()

        with pytest.raises(SendTimeout):
            ref.ask_sync(lambda ctx: hold.ref.send_sync("late", timeout=0.0), timeout=DEADLINE)
        ref.tell(send)
        assert not sent.is_set()
        hold.opened.set()
        assert sent.wait(DEADLINE)
        system.settle_sync(DEADLINE)
        assert hold.heard == ["first", "second"]
        assert_ledger_balanced(system)


def test_a_coroutine_on_a_pinned_thread_is_told_to_await() -> None:
    with ActorSystem() as system:
        target = system.spawn(lambda ctx, message: message)

        async def block(ctx: Context, name: str) -> None:
            BLOCKING[name](target)

        for name in BLOCKING:
            with pytest.raises(WaitsForItself, match="await"):
                system.spawn(block, dispatcher="pinned").ask_sync(name, timeout=DEADLINE)


@pytest.mark.parametrize("dispatcher", THREADS)
def test_a_handler_that_would_wait_for_itself_is_refused(dispatcher: str) -> None:
    config = SystemConfig(supervision=Supervision(Directive.RESUME))

    class Early(Actor[Any, Any]):
        def pre_start(self) -> None:
            self.ctx.self.started_sync(DEADLINE)

        def receive(self, message: Any) -> None: ...

    with ActorSystem(config=config) as system:
        ref = system.spawn(do, dispatcher=dispatcher, mailbox=ONE, name="self")
        ref.ask_sync(lambda ctx: ctx.self.started_sync(), timeout=DEADLINE)  # it has started
        with pytest.raises(WaitsForItself, match="/self awaits its own end"):
            ref.ask_sync(lambda ctx: ctx.self.terminated_sync(), timeout=DEADLINE)
        with pytest.raises(WaitsForItself, match="inspect"):
            ref.ask_sync(lambda ctx: ctx.self.inspect_sync(), timeout=DEADLINE)
        with pytest.raises(WaitsForItself, match="system to be idle"):
            ref.ask_sync(lambda ctx: ctx.system.settle_sync(), timeout=DEADLINE)
        with pytest.raises(AskDeadlock):
            ref.ask_sync(lambda ctx: ctx.self.ask_sync(id, timeout=DEADLINE), timeout=DEADLINE)
        system.settle_sync(DEADLINE)

        def fill(ctx: Context) -> None:
            ctx.self.send_sync(id)
            ctx.self.send_sync(id)

        with pytest.raises(WaitsForItself, match="/self waits for room in its own full mailbox"):
            ref.ask_sync(fill, timeout=DEADLINE)
        system.settle_sync(DEADLINE)

        def fill_and_ask(ctx: Context) -> None:
            ctx.self.tell(id)
            ctx.self.ask_sync(id, timeout=DEADLINE, wait_for_room=True)

        with pytest.raises(AskDeadlock):
            ref.ask_sync(fill_and_ask, timeout=DEADLINE)
        system.settle_sync(DEADLINE)
        with pytest.raises(WaitsForItself, match="its own start"):
            system.spawn(Early, dispatcher=dispatcher, supervision=Supervision(Directive.STOP)).started_sync(DEADLINE)
        system.settle_sync(DEADLINE)
        assert_ledger_balanced(system)


def test_the_pool_has_another_thread_for_each_that_waits_for_room() -> None:
    config = SystemConfig(dispatchers={"one": Parallel(threads=1)})
    with ActorSystem(config=config) as system:
        opened, entered = threading.Event(), threading.Event()
        heard: list[Any] = []
        ref = system.spawn(Held, opened, entered, heard, dispatcher="pinned", mailbox=ONE)
        ref.tell("hold")
        assert entered.wait(DEADLINE)
        ref.send_sync("first", timeout=DEADLINE)
        sender = system.spawn(do, dispatcher="one")
        sender.tell(lambda ctx: ref.send_sync("second", timeout=DEADLINE))
        other = system.spawn(do, dispatcher="one")
        assert other.ask_sync(lambda ctx: "not held up", timeout=DEADLINE) == "not held up"
        opened.set()
        system.settle_sync(DEADLINE)
        assert heard == ["first", "second"]


@pytest.mark.parametrize("dispatcher", THREADS)
@pytest.mark.anyio
async def test_a_clock_that_is_turned_by_hand_goes_on_while_a_handler_blocks(dispatcher: str) -> None:  # M19
    clock = ManualClock()
    log: list[Any] = []

    async def silent(ctx: Context, message: Any) -> None:
        await asyncio.get_running_loop().create_future()

    async with asyncio.timeout(DEADLINE), ActorSystem(config=SystemConfig(clock=clock)) as system:
        full = system.spawn(silent, mailbox=ONE)
        full.tell("in hand")
        await until(lambda: full._cell.task is not None)
        full.tell("queued")
        ref = system.spawn(do, dispatcher=dispatcher)

        def block(ctx: Context) -> None:
            for wait in (
                lambda: full.send_sync("late", timeout=5.0),
                lambda: full.terminated_sync(timeout=5.0),
                lambda: full.inspect_sync(timeout=5.0),
                lambda: full.ask_sync("late", timeout=5.0, wait_for_room=True),
            ):
                with pytest.raises(TimeoutError):
                    wait()
                log.append(ctx.now())

        ref.tell(block)
        await clock.advance(100.0, patience=DEADLINE)
        assert log == [5.0, 10.0, 15.0, 20.0]
        assert_ledger_balanced(system)
        full.kill()


def test_who_waits_is_told_when_the_system_stops() -> None:
    with thread() as threads:
        with ActorSystem(config=SystemConfig(stop_timeout=DEADLINE)) as system:
            hold = Hold(system)
            ended = threads.submit(hold.ref.terminated_sync)
            send = threads.submit(hold.ref.send_sync, "late")
            hold.opened.set()
        assert ended.result(DEADLINE).kind in (ExitKind.SHUTDOWN, ExitKind.NORMAL)
        assert send.result(DEADLINE) is None
    assert_ledger_balanced(system)


def test_ask_sync_can_wait_for_room() -> None:  # case 10, M17
    with ActorSystem() as system, thread() as threads:
        hold = Hold(system)
        asked = threads.submit(hold.ref.ask_sync, "asked", timeout=DEADLINE, wait_for_room=True)
        with pytest.raises(AskTimeout):
            hold.ref.ask_sync("late", timeout=0.01, wait_for_room=True)
        hold.opened.set()
        assert asked.result(DEADLINE) == "asked"
        assert hold.ref.ask_sync("there is room", timeout=DEADLINE, wait_for_room=True) == "there is room"
        system.settle_sync(DEADLINE)
        assert "late" not in hold.heard
        assert assert_ledger_balanced(system, hold.ref).rejected == 0


def test_threads_of_all_kinds_wait_for_room_at_once_and_nothing_is_lost() -> None:
    heard: list[Any] = []
    with ActorSystem() as system, thread() as threads:
        ref: ActorRef[Any, Any] = system.spawn(lambda ctx, message: heard.append(message), mailbox=ONE)

        def use(who: int) -> None:
            for number in range(50):
                if who < 3:
                    ref.send_sync((who, number), timeout=DEADLINE)
                else:
                    ref.ask_sync((who, number), timeout=DEADLINE, wait_for_room=True)

        for done in [threads.submit(use, who) for who in range(6)]:
            done.result(DEADLINE)
        system.settle_sync(DEADLINE)
        for who in range(6):
            assert [number for whose, number in heard if whose == who] == list(range(50))
        ledger = assert_ledger_balanced(system, ref)
        assert (ledger.sent, ledger.rejected) == (300, 0)
