"""What may go wrong on other threads, and that nothing worse comes of it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    Backoff,
    Behaviors,
    Context,
    Directive,
    ExitKind,
    MailboxConfig,
    Parallel,
    ReceiveTimeout,
    Reply,
    Supervision,
    SystemConfig,
)
from greenroom.errors import HandlerAbandoned, NoThread, WaitsForItself, WorkerLost
from greenroom.testing import assert_ledger_balanced
from tests.system.dispatchers.test_parallel import PATIENCE, do

ELSEWHERE = pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
AT_ONCE = Supervision(backoff=None)


@ELSEWHERE
@pytest.mark.config(stop_timeout=0.05)
async def test_an_abandoned_handler_has_no_say_any_more(system: ActorSystem, dispatcher: str) -> None:
    entered, opened, done = threading.Event(), threading.Event(), threading.Event()
    refused: list[str] = []

    class Stubborn(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            if message != "block":
                return "the same behavior"
            entered.set()
            opened.wait(PATIENCE)
            ctx = self.ctx
            acts = {
                "stash": ctx.stash,
                "become": lambda: ctx.become(lambda ctx, message: "another"),
                "spawn": lambda: ctx.spawn(do),
                "timers": lambda: ctx.timers.start("key", 1.0, "tick"),
                "send_after": lambda: ctx.send_after(1.0, ctx.self, "tick"),
                "stop": ctx.stop,
                "unstash": ctx.unstash_all,
                "sender": lambda: ctx.reply("late"),
            }
            for name, act in acts.items():
                try:
                    act()
                except HandlerAbandoned:
                    refused.append(name)
            done.set()
            return Behaviors.receive(lambda ctx, message: "another")

    ref = system.spawn(Stubborn, dispatcher=dispatcher, supervision=AT_ONCE)
    ref.tell("block")
    await asyncio.to_thread(entered.wait, PATIENCE)
    ref.restart()
    assert await ref.ask("hello", timeout=PATIENCE) == "the same behavior"
    opened.set()
    assert await asyncio.to_thread(done.wait, PATIENCE)
    assert await ref.ask("hello") == "the same behavior"
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.failed, ledger.queued) == (1, 0)
    assert ref.is_alive
    assert len(system.actors()) == 1
    await system.shutdown()
    assert refused == ["stash", "become", "spawn", "timers", "send_after", "stop", "unstash", "sender"]


class Ends(Actor[str, Any]):
    """Has its thread end under it."""

    def receive(self, message: str) -> Any:
        aio = asyncio.get_running_loop()
        if message == "exit":
            self.task = aio.create_task(exits())
        elif message == "stop":
            aio.stop()
        return threading.current_thread().name


async def exits() -> None:
    raise SystemExit(1)


@pytest.mark.parametrize("how", ["exit", "stop"])
async def test_an_actor_whose_thread_has_ended_gets_another_and_its_supervisor_knows(
    system: ActorSystem, how: str
) -> None:  # J10: a panic
    ref = system.spawn(Ends, dispatcher="pinned", supervision=AT_ONCE)
    assert await ref.ask(how) == "test pinned 1"
    while True:
        try:
            answer = await ref.ask("where?", timeout=PATIENCE)
        except WorkerLost:
            continue
        if answer != "test pinned 1":
            break
    assert answer == "test pinned 2"
    assert system.dispatchers.threads == {"pinned": 1}


async def test_the_loss_of_a_thread_in_the_middle_of_a_handler_is_a_panic(system: ActorSystem) -> None:  # J10
    async def hangs(ctx: Context, message: Any) -> None:
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)
        await asyncio.get_running_loop().create_future()

    ref = system.spawn(hangs, dispatcher="pinned", supervision=Supervision(Directive.STOP))
    with pytest.raises(WorkerLost, match="has ended, and cannot run"):
        await ref.ask("hang")
    reason = await ref.terminated()
    assert reason.kind is ExitKind.PANIC
    assert isinstance(reason.cause, WorkerLost)


@ELSEWHERE
async def test_a_thread_that_cannot_be_started_fails_its_actor_and_no_other(
    system: ActorSystem, dispatcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start
    refusals = [1]

    def refuse_once(thread: threading.Thread) -> None:
        if thread.name.startswith("test ") and refusals:
            refusals.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_once)
    ref = system.spawn(do, dispatcher=dispatcher, supervision=AT_ONCE)
    other = system.spawn(do, dispatcher=dispatcher)
    with pytest.raises(NoThread, match=dispatcher):
        await ref.ask(lambda ctx: "served")
    assert await other.ask(lambda ctx: "served") == "served"
    assert await ref.ask(lambda ctx: "served") == "served"


async def test_what_is_put_aside_comes_back_in_order_whoever_calls_for_it(system: ActorSystem) -> None:  # case 51
    many = 3000
    heard: list[Any] = []
    began = threading.Event()

    class Stashing(Actor[Any, None]):
        def receive(self, message: Any) -> None:
            if message == "aside":
                self.ctx.stash()
            elif message == "pipe":
                self.ctx.pipe_to_self(self.later())
            elif message is not None:
                began.set()
                heard.append(message)
                self.ctx.become(self.after)

        def after(self, message: Any) -> None:
            if message is not None:
                heard.append(message)

        async def later(self) -> None:
            while not began.is_set():  # noqa: ASYNC110 - it is set by a handler, wherever that runs
                await asyncio.sleep(0)
            self.ctx.unstash_all()

    ref = system.spawn(Stashing, dispatcher="pinned")
    ref.tell("aside")
    ref.tell("pipe")
    for number in range(many):
        ref.tell(number)
    await system.settle()
    while "aside" not in heard:  # noqa: ASYNC110 - what is piped is waited for by nobody
        await asyncio.sleep(0)
    await system.settle()
    ledger = assert_ledger_balanced(system, ref)
    assert ledger.handled == ledger.sent
    await system.shutdown()
    assert [one for one in heard if one != "aside"] == list(range(many))
    assert heard.count("aside") == 1


@pytest.mark.config(stop_timeout=0.05)
async def test_a_coroutine_that_blocks_its_own_thread_does_not_hold_up_a_restart(
    system: ActorSystem,
) -> None:  # case 57
    entered, opened = threading.Event(), threading.Event()

    class Blocking(Actor[str, str]):
        async def receive(self, message: str) -> str:
            if message == "block":
                entered.set()
                opened.wait(PATIENCE)
            return threading.current_thread().name

    ref = system.spawn(Blocking, dispatcher="pinned", supervision=AT_ONCE)
    ref.tell("block")
    await asyncio.to_thread(entered.wait, PATIENCE)
    ref.restart()
    assert await ref.ask("where?", timeout=PATIENCE) == "test pinned 2"
    opened.set()


@ELSEWHERE
async def test_what_is_done_needs_no_room_though_it_has_not_come_home(
    system: ActorSystem, dispatcher: str
) -> None:  # case 8
    def chatty(ctx: Context, message: int) -> None:
        if message < 2:
            ctx.self.tell(message + 2)

    ref = system.spawn(chatty, dispatcher=dispatcher, mailbox=MailboxConfig(capacity=2))
    await ref.started()
    ref.tell(0)
    ref.tell(1)
    await system.settle()
    ledger = system.ledger(ref)
    assert (ledger.sent, ledger.handled, ledger.rejected) == (4, 4, 0)


@pytest.mark.config(dispatchers={"two": Parallel(2)})
async def test_threads_that_wait_for_an_answer_are_no_bound_to_those_who_give_it(system: ActorSystem) -> None:
    both = threading.Barrier(2)
    third = system.spawn(do, dispatcher="two")
    askers = [system.spawn(do, dispatcher="two") for _ in range(2)]

    def ask(ctx: Context) -> Any:
        both.wait(PATIENCE)  # both threads of the pool are taken
        return third.ask_sync(lambda ctx: "answered", timeout=PATIENCE)

    assert await asyncio.gather(*(one.ask(ask, timeout=None) for one in askers)) == ["answered"] * 2
    while system.dispatchers.threads["two"] > 2:
        await third.ask(lambda ctx: None)


@pytest.mark.config(dispatchers={"one": Parallel(1)})
async def test_an_actor_that_waits_for_a_thread_is_not_forced_but_stopped(system: ActorSystem) -> None:
    entered, opened = threading.Event(), threading.Event()

    def block(ctx: Context) -> None:
        entered.set()
        opened.wait(PATIENCE)

    innocent = system.spawn(do, dispatcher="one", name="innocent")
    await innocent.started()
    blocking = system.spawn(do, dispatcher="one")
    asked = blocking.ask(block)
    await asyncio.to_thread(entered.wait, PATIENCE)
    innocent.tell(lambda ctx: None)
    innocent.tell(lambda ctx: None)
    await asyncio.sleep(0)
    innocent.stop()
    assert (await innocent.terminated()).kind is ExitKind.NORMAL
    ledger = system.ledger(innocent)
    assert (ledger.sent, ledger.failed, ledger.dead_lettered) == (2, 0, 2)
    opened.set()
    await asked
    await system.shutdown()
    assert system.report is not None
    assert system.report.forced == ()


async def test_a_kill_that_comes_before_the_thread_has_begun_is_heard_there(system: ActorSystem) -> None:
    ended: list[BaseException] = []

    async def hang(ctx: Context, message: Any) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except BaseException as exc:
            ended.append(exc)
            raise

    for _ in range(20):
        ref = system.spawn(hang, dispatcher="pinned")
        await ref.started()
        ref.tell("hang")
        await asyncio.sleep(0)
        ref.kill()
        await ref.terminated()
    assert all(isinstance(exc, asyncio.CancelledError) for exc in ended)


@pytest.mark.parametrize("dispatcher", ["concurrent", "parallel", "pinned"])
async def test_a_thread_of_the_handler_s_own_sees_the_same_sender(system: ActorSystem, dispatcher: str) -> None:
    class Helped(Actor[Any, Any]):
        async def receive(self, message: Any) -> Any:
            return await asyncio.to_thread(lambda: self.ctx.sender)

    ref = system.spawn(Helped, dispatcher=dispatcher)
    for name in ("a", "b", "c"):
        asker = system.spawn(do, name=name)

        async def ask(ctx: Context) -> Any:
            return await ref.ask("who?")

        assert await asker.ask(ask) == asker


def test_a_handler_cannot_wait_for_its_system_to_close() -> None:
    with ActorSystem("sync") as system:
        ref = system.spawn(lambda ctx, message: ctx.system.close(), dispatcher="parallel")
        with pytest.raises(WaitsForItself, match="close"):
            ref.ask_sync("close")


def test_a_system_that_is_dropped_is_not_kept_by_the_watchdog() -> None:
    async def main() -> weakref.ref[ActorSystem]:
        system = await ActorSystem("dropped", config=SystemConfig(stuck_after=30.0)).start()
        return weakref.ref(system)

    dropped = asyncio.run(main())
    gc.collect()
    assert dropped() is None


async def test_an_asyncio_program_inside_a_handler_is_the_handler_s_own_business(system: ActorSystem) -> None:
    silent = system.spawn(lambda ctx, message: kept.append(ctx.defer_reply()))
    kept: list[Reply] = []
    quick = system.spawn(lambda ctx, message: "quick")
    heard: list[Any] = []

    class Both(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            if message == "piped":
                heard.append(message)
                return None
            return asyncio.run(self.ask_both())

        async def ask_both(self) -> Any:
            self.ctx.pipe_to_self(answer("piped"))
            asks = [asyncio.ensure_future(wait_for(one)) for one in (silent, quick)]
            done, pending = await asyncio.wait(asks, return_when=asyncio.FIRST_COMPLETED)
            for one in pending:
                one.cancel()
            return done.pop().result()

    async def wait_for(ref: Any) -> Any:
        return await ref.ask("?", timeout=PATIENCE)

    async def answer(value: Any) -> Any:
        return value

    assert await system.spawn(Both, dispatcher="parallel").ask("go") == "quick"
    while not heard:  # noqa: ASYNC110 - what is piped is waited for by nobody
        await asyncio.sleep(0)


@pytest.mark.parametrize("dispatcher", ["concurrent", "pinned"])
async def test_what_a_coroutine_sets_is_set_for_the_next(system: ActorSystem, dispatcher: str) -> None:
    colour = contextvars.ContextVar("colour", default="none")

    class Painter(Actor[str, str]):
        async def pre_start(self) -> None:
            colour.set("red")

        async def receive(self, message: str) -> str:
            if message == "crash":
                raise ValueError("on purpose")
            before = colour.get()
            colour.set(message)
            return before

    ref = system.spawn(Painter, dispatcher=dispatcher, supervision=AT_ONCE)
    assert [await ref.ask(one) for one in ("green", "blue")] == ["red", "green"]
    ref.tell("crash")
    assert await ref.ask("black") == "red"  # a fresh one


@ELSEWHERE
async def test_what_a_notice_makes_of_an_actor_is_made_there(system: ActorSystem, dispatcher: str) -> None:
    seen: list[str] = []

    def set_up(ctx: Context) -> Any:
        seen.append(threading.current_thread().name)
        return Behaviors.receive(lambda ctx, message: "another")

    class Waiting(Actor[Any, Any]):
        def pre_start(self) -> None:
            self.ctx.set_receive_timeout(0.001)

        def receive(self, message: Any) -> Any:
            if isinstance(message, ReceiveTimeout):
                self.ctx.set_receive_timeout(None)
                return Behaviors.setup(set_up)
            return "the first"

    ref = system.spawn(Waiting, dispatcher=dispatcher)
    while not seen:  # noqa: ASYNC110 - the timeout tells nobody but the actor
        await asyncio.sleep(0)
    assert await ref.ask("?") == "another"
    assert seen[0].startswith(f"test {dispatcher} ")


async def test_a_backoff_is_counted_by_the_system_s_clock_wherever_the_actor_is(system: ActorSystem) -> None:
    supervision = Supervision(backoff=Backoff(min=0.01, max=0.01))
    ref = system.spawn(do, dispatcher="parallel", supervision=supervision)
    with pytest.raises(ZeroDivisionError):
        await ref.ask(lambda ctx: 1 / 0)
    assert await ref.ask(lambda ctx: "back") == "back"
