"""Actors on worker threads and on threads of their own: side by side, but never on two at once."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import os
import threading
import time
import weakref
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    AskDeadlock,
    Backoff,
    Behaviors,
    ChildSpec,
    Context,
    Directive,
    ExitKind,
    Lane,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    OnExit,
    Parallel,
    Pinned,
    ReceiveTimeout,
    Reply,
    Supervision,
    Supervisor,
    SystemConfig,
    Timer,
)
from greenroom.actor.life.stopping import GRACE
from greenroom.errors import HandlerAbandoned, NoThread, StaysAtHome, WaitsForItself, WorkerLost
from greenroom.testing import Simulation, assert_ledger_balanced
from tests.conformance.lives import report_of
from tests.conftest import Play
from tests.gates import Event
from tests.logs import logged

PATIENCE = 120.0
"""Seconds that threads wait for one another; never needed unless something is wrong."""
SENDERS = 16


def do(ctx: Context, message: Any) -> Any:
    """A handler that does what it is sent."""
    return message(ctx)


class Careful(Actor[int, None]):
    """Asserts in its handler that it is the only one in there."""

    def __init__(self, log: list[int]) -> None:
        self.log = log
        self.inside = 0
        self.threads: set[int] = set()

    def receive(self, message: int) -> None:
        self.inside += 1
        assert self.inside == 1
        time.sleep(0)  # lets other threads have the interpreter
        assert self.inside == 1
        self.threads.add(threading.get_ident())
        self.log.append(message)
        self.inside -= 1


@pytest.mark.config(max_msgs_per_actor=7)
async def test_an_actor_is_never_on_two_threads_at_once_and_every_sender_s_order_holds(system: ActorSystem) -> None:
    # M9, R2
    log: list[int] = []
    each = 200
    target = system.spawn(Careful, log, dispatcher="parallel")
    others = [system.spawn(Careful, [], dispatcher="parallel") for _ in range(4)]

    def send(sender: int) -> None:
        for number in range(each):
            target.tell(sender * each + number)
            others[number % 4].tell(number)

    await asyncio.gather(*(asyncio.to_thread(send, sender) for sender in range(SENDERS)))
    await system.settle()
    ledger = system.ledger(target)
    assert (ledger.handled, ledger.failed) == (SENDERS * each, 0)
    for sender in range(SENDERS):
        own = [number for number in log if number // each == sender]
        assert own == sorted(own)
        assert len(own) == each


@pytest.mark.config(dispatchers={"four": Parallel(4)})
async def test_handlers_that_block_run_side_by_side(system: ActorSystem) -> None:
    threads = 4
    barrier = threading.Barrier(threads)
    refs = [system.spawn(do, dispatcher="four") for _ in range(threads)]
    places = await asyncio.gather(*(ref.ask(lambda ctx: barrier.wait(PATIENCE)) for ref in refs))
    assert sorted(places) == list(range(threads))  # all of them were in there at once
    assert system.dispatchers.threads == {"four": threads}


@pytest.mark.config(dispatchers={"two": Parallel(2)})
async def test_there_are_no_more_threads_than_are_needed_or_allowed(system: ActorSystem) -> None:
    refs = [system.spawn(do, dispatcher="two") for _ in range(50)]
    assert system.dispatchers.threads == {}
    await refs[0].ask(lambda ctx: None)
    assert system.dispatchers.threads == {"two": 1}
    seen = await asyncio.gather(*(ref.ask(lambda ctx: threading.current_thread().name) for ref in refs))
    assert set(seen) <= {"test two 1", "test two 2"}
    assert system.dispatchers.threads["two"] <= 2


async def test_every_thread_ends_with_the_system(system: ActorSystem) -> None:
    before = set(threading.enumerate())
    for dispatcher in ("parallel", "pinned"):
        await system.spawn(do, dispatcher=dispatcher).ask(lambda ctx: None)
    assert len(set(threading.enumerate()) - before) >= 2
    await system.shutdown()
    assert set(threading.enumerate()) <= before


@pytest.mark.config(dispatchers={"one": Parallel(1)})
async def test_constructor_hooks_and_handler_run_there_and_coroutines_at_home(system: ActorSystem) -> None:
    seen: dict[str, str] = {}

    class Hooked(Actor[str, str]):
        def __init__(self) -> None:
            self.note("constructor")

        def note(self, what: str) -> None:
            seen[what] = threading.current_thread().name

        def pre_start(self) -> None:
            self.note("pre_start")

        async def post_start(self) -> None:
            await asyncio.sleep(0)
            self.note("post_start")

        def post_stop(self) -> None:
            self.note("post_stop")

        def inspect(self, *items: str) -> dict[str, Any]:
            self.note("inspect")
            return {}

        def receive(self, message: str) -> str:
            self.note("receive")
            return message

    ref = system.spawn(Hooked, dispatcher="one")
    assert await ref.ask("hello") == "hello"
    await ref.inspect()
    await system.shutdown()
    home = threading.current_thread().name
    assert seen == {
        "constructor": "test one 1",
        "pre_start": "test one 1",
        "post_start": home,
        "receive": "test one 1",
        "inspect": "test one 1",
        "post_stop": "test one 1",
    }


async def test_the_system_s_own_loop_goes_on_while_a_handler_blocks(system: ActorSystem) -> None:
    opened = threading.Event()
    blocked = system.spawn(do, dispatcher="parallel")
    asked = blocked.ask(lambda ctx: opened.wait(PATIENCE))
    quick = system.spawn(do)
    assert await quick.ask(lambda ctx: "served") == "served"
    assert not asked.done()
    opened.set()
    assert await asked is True


async def test_the_bound_of_the_mailbox_holds_while_messages_are_carried_away(system: ActorSystem) -> None:  # case 8
    entered, opened = threading.Event(), threading.Event()
    heard: list[int] = []

    def slow(ctx: Context, message: int) -> None:
        entered.set()
        opened.wait(PATIENCE)
        heard.append(message)

    ref = system.spawn(slow, dispatcher="parallel", mailbox=MailboxConfig(capacity=3))
    ref.tell(0)
    ref.tell(1)
    ref.tell(2)
    await asyncio.to_thread(entered.wait, PATIENCE)
    ref.tell(3)  # for one of the three is in hand
    with pytest.raises(MailboxFull):
        ref.tell(4)
    ledger = system.ledger(ref)
    assert (ledger.queued, ledger.in_hand, ledger.handled) == (3, 1, 0)
    opened.set()
    await system.settle()
    await system.shutdown()
    assert heard == [0, 1, 2, 3]


@pytest.mark.parametrize("urgent", ["control", "stop"])
async def test_what_is_urgent_comes_after_the_message_in_hand(system: ActorSystem, urgent: str) -> None:  # case 2, M2
    entered, opened = threading.Event(), threading.Event()
    heard: list[Any] = []

    def slow(ctx: Context, message: Any) -> None:
        heard.append(message)
        entered.set()
        opened.wait(PATIENCE)

    ref = system.spawn(slow, dispatcher="parallel")
    for number in range(10):
        ref.tell(number)
    await asyncio.to_thread(entered.wait, PATIENCE)
    if urgent == "control":
        ref.tell("urgent", lane=Lane.CONTROL)
    else:
        ref.stop()
    opened.set()
    await system.settle()
    await asyncio.sleep(0)
    if urgent == "control":
        assert heard == [0, "urgent", *range(1, 10)]
    else:
        assert (await ref.terminated()).kind is ExitKind.NORMAL
        assert heard == [0]
        assert system.ledger(ref).dead_lettered == 9


async def test_a_stop_by_its_own_handler_is_not_overtaken_by_what_came_along(system: ActorSystem) -> None:
    heard: list[int] = []

    def quits(ctx: Context, message: int) -> None:
        heard.append(message)
        if message == 3:
            ctx.stop()

    ref = system.spawn(quits, dispatcher="parallel")
    for number in range(10):
        ref.tell(number)
    await ref.terminated()
    await system.shutdown()
    assert heard == [0, 1, 2, 3]


async def test_what_a_handler_sends_comes_from_its_actor(system: ActorSystem) -> None:  # J8
    teller = system.spawn(do, dispatcher="parallel", name="teller")
    listener = system.spawn(lambda ctx, message: ctx.sender, name="listener")
    seen: list[Any] = []
    hearer = system.spawn(lambda ctx, message: seen.append(ctx.sender), dispatcher="pinned")
    assert await teller.ask(lambda ctx: listener.ask_sync("who?")) == teller
    await teller.ask(lambda ctx: hearer.tell("who?"))
    await system.settle()
    assert seen == [teller]


@pytest.mark.config(supervision=Supervision(Directive.RESUME))
async def test_the_context_does_what_it_does_everywhere(system: ActorSystem) -> None:
    heard: list[Any] = []
    deferred: list[Reply] = []

    async def answer() -> None:
        while not deferred:  # noqa: ASYNC110 - the handler tells nobody
            await asyncio.sleep(0)
        deferred[0].send("deferred")

    class Busy(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            if callable(message):
                return message(self.ctx)
            heard.append(message)
            return None

    ref = system.spawn(Busy, dispatcher="parallel", name="busy")
    child: ActorRef[Any, Any] = await ref.ask(lambda ctx: ctx.spawn(do, name="child"))
    assert child.path == "/busy/child"
    assert await ref.ask(lambda ctx: ctx.children) == [child]
    await ref.ask(lambda ctx: ctx.watch(child, "gone"))
    timer: Timer = await ref.ask(lambda ctx: ctx.send_every(60.0, ctx.self, "tick"))
    assert timer.active
    assert await ref.ask(lambda ctx: timer.cancel()) is True
    await ref.ask(lambda ctx: ctx.timers.start("key", 0.0, "keyed"))
    await ref.ask(lambda ctx: ctx.send_after(0.0, ctx.self, "later"))
    assert await ref.ask(lambda ctx: ctx.reply("once")) == "once"
    reply, _ = await asyncio.gather(ref.ask(lambda ctx: deferred.append(ctx.defer_reply())), answer())
    assert reply == "deferred"
    ref.tell(lambda ctx: ctx.stop(child))
    await child.terminated()
    await system.settle()
    assert sorted(heard) == ["gone", "keyed", "later"]


async def test_what_is_put_aside_comes_back_before_the_rest(system: ActorSystem) -> None:  # case 51
    heard: list[str] = []

    def door(ctx: Context, message: str) -> None:
        if message == "open":
            ctx.become(opened)
            ctx.unstash_all()
        else:
            ctx.stash()

    def opened(ctx: Context, message: str) -> None:
        heard.append(message)

    ref = system.spawn(door, dispatcher="parallel")
    for message in ("a", "b", "open", "c", "d"):
        ref.tell(message)
    await system.settle()
    ledger = system.ledger(ref)
    assert (ledger.sent, ledger.handled) == (5, 5)
    await system.shutdown()
    assert heard == ["a", "b", "c", "d"]


async def test_a_failure_there_is_supervised_here(system: ActorSystem) -> None:
    lives: list[int] = []

    class Fragile(Actor[str, int]):
        def __init__(self) -> None:
            lives.append(threading.get_ident())

        def receive(self, message: str) -> int:
            if message == "crash":
                raise ValueError("on purpose")
            return len(lives)

    ref = system.spawn(Fragile, dispatcher="parallel", supervision=Supervision(backoff=None))
    ref.tell("crash")
    ref.tell("kept")
    assert await ref.ask("hello") == 2
    ledger = system.ledger(ref)
    assert (ledger.failed, ledger.handled) == (1, 2)


async def test_a_supervisor_has_children_by_any_dispatcher(system: ActorSystem) -> None:
    names = ["concurrent", "parallel", "pinned"]
    children = [ChildSpec(name, do, dispatcher=name) for name in names]
    boss = system.spawn(Supervisor, Supervisor.spec(children=children), name="boss")
    await boss.started()
    for name in names:
        ref: Any = system.actor(f"/boss/{name}")
        where = await ref.ask(lambda ctx: threading.current_thread().name)
        assert (where == threading.current_thread().name) is (name == "concurrent")
        ref.kill()  # an abnormal exit, after which a permanent child comes back
        assert await ref.ask(lambda ctx: "back") == "back"
    assert [one.dispatcher for one in system.snapshot().actors] == ["concurrent", *names]


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
async def test_a_supervisor_itself_stays_where_it_is(system: ActorSystem, dispatcher: str) -> None:
    with pytest.raises(StaysAtHome, match="Supervisor is the runtime's own"):
        system.spawn(Supervisor, Supervisor.spec(children=[]), dispatcher=dispatcher)


@pytest.mark.config(
    dispatchers={"disk": Parallel(1)}, placement={"/uploads/*": "disk", "/Render$*": "pinned", "/named": "disk"}
)
async def test_a_placement_says_which_dispatcher_an_actor_gets(system: ActorSystem) -> None:
    def thread_of(ctx: Context, message: Any) -> str:
        return threading.current_thread().name.partition(" ")[2].partition(" ")[0]

    class Render(Actor[Any, str]):
        def receive(self, message: Any) -> str:
            return threading.current_thread().name.partition(" ")[2].partition(" ")[0]

    parent = system.spawn(do, name="uploads")
    child: Any = await parent.ask(lambda ctx: ctx.spawn(thread_of, name="one"))
    assert await child.ask("?") == "disk"
    assert await system.spawn(Render).ask("?") == "pinned"
    assert await system.spawn(Render, name="other").ask("?") == ""
    assert await system.spawn(Render, name="named", dispatcher="parallel").ask("?") == "parallel"
    assert await system.spawn(Render, dispatcher="concurrent").ask("?") == ""


@pytest.mark.config(supervision=Supervision(Directive.RESUME))
async def test_a_circle_of_waiting_threads_is_a_deadlock(system: ActorSystem) -> None:  # case 25
    refs: list[ActorRef[Any, Any]] = []

    def ask_the_other(ctx: Context, message: int) -> Any:
        return refs[message % 2].ask_sync(message - 1, timeout=PATIENCE) if message else "the end"

    refs += [system.spawn(ask_the_other, dispatcher="parallel", name=name) for name in ("a", "b")]
    with pytest.raises(AskDeadlock, match="/b"):
        await refs[0].ask(3)
    with pytest.raises(AskDeadlock, match="/a"):
        await refs[0].ask(2)  # itself


def test_a_handler_that_never_returns_is_left_behind_and_its_thread_replaced(
    play: Play,
    caplog: pytest.LogCaptureFixture,
) -> None:  # case 57
    entered, opened = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def stuck(ctx: Context, message: Any) -> None:
        threads.append(threading.current_thread())
        entered.set()
        opened.wait(3 * PATIENCE)

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(stuck, dispatcher="one", name="stuck")
        waiting = system.spawn(do, dispatcher="one")
        ref.tell("in hand")
        ref.tell("queued")
        await asyncio.to_thread(entered.wait, PATIENCE)
        asked = waiting.ask(lambda ctx: threading.current_thread().name, timeout=PATIENCE)
        ref.kill()
        assert (await ref.terminated()).kind is ExitKind.KILLED
        assert await asked == "test one 2"
        ledger = system.ledger(ref)
        assert (ledger.failed, ledger.dead_lettered) == (1, 1)

    with caplog.at_level(logging.WARNING):
        system = play(program, dispatchers={"one": Parallel(1)})
    assert report_of(system).forced == ("/stuck",)
    assert "/stuck did not stop though its handler was cancelled: it is abandoned" in caplog.text
    opened.set()
    threads[0].join(PATIENCE)
    assert not threads[0].is_alive()


@pytest.mark.config(stop_timeout=0.05, on_exit=OnExit.DISCARD)
async def test_a_shutdown_returns_though_a_handler_does_not(
    system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:  # case 57, M11
    entered, opened = threading.Event(), threading.Event()

    def stuck(ctx: Context, message: Any) -> None:
        entered.set()
        opened.wait(3 * PATIENCE)

    began = time.monotonic()
    for dispatcher in ("parallel", "pinned"):
        entered.clear()
        system.spawn(stuck, dispatcher=dispatcher, name=dispatcher).tell("in hand")
        await asyncio.to_thread(entered.wait, PATIENCE)
    await system.shutdown()
    assert time.monotonic() - began < PATIENCE
    assert sorted(report_of(system).forced) == ["/parallel", "/pinned"]
    opened.set()


def test_a_simulation_runs_them_all_on_one_thread() -> None:
    seen: list[tuple[str, int]] = []

    async def program(system: ActorSystem) -> int:
        refs = [system.spawn(do, name=name, dispatcher=name) for name in ("parallel", "pinned")]
        seen[:] = [(ref.name, await ref.ask(lambda ctx: threading.get_ident())) for ref in refs]
        assert [one.dispatcher for one in system.snapshot().actors] == ["parallel", "pinned"]
        return len(seen)

    assert Simulation(seed=3).run(program) == 2
    assert {thread for _, thread in seen} == {threading.get_ident()}


async def test_an_actor_that_has_ended_is_kept_by_no_thread(system: ActorSystem) -> None:
    async def live_and_die() -> None:
        ref = system.spawn(Careful, [], dispatcher="parallel")
        await system.settle()
        ref.stop()
        await ref.terminated()

    def alive() -> int:
        return sum(isinstance(one, Careful) for one in gc.get_objects())

    for _ in range(3):
        await live_and_die()
    while alive():
        await asyncio.sleep(0)
        gc.collect()
    assert alive() == 0


class Native(Actor[str, Any]):
    """Tells where it is."""

    def __init__(self) -> None:
        self.born = threading.get_ident()
        self.loop = asyncio.get_running_loop()

    async def receive(self, message: str) -> Any:
        if message == "crash":
            raise ValueError("on purpose")
        await asyncio.sleep(0)
        assert asyncio.get_running_loop() is self.loop
        assert threading.get_ident() == self.born
        return self.born


async def test_everything_of_one_actor_runs_on_one_thread_with_one_asyncio_loop(system: ActorSystem) -> None:
    refs = [system.spawn(Native, dispatcher="pinned") for _ in range(3)]
    threads = [await ref.ask("where?") for ref in refs for _ in range(3)]
    assert threads[0::3] == threads[1::3] == threads[2::3]
    assert len({*threads, threading.get_ident()}) == 4


async def test_a_restart_keeps_the_thread_and_the_end_lets_it_go(system: ActorSystem) -> None:
    ref = system.spawn(Native, dispatcher="pinned", supervision=Supervision(backoff=None))
    before = await ref.ask("where?")
    ref.tell("crash")
    assert await ref.ask("where?") == before
    assert system.dispatchers.threads == {"pinned": 1}
    ref.stop()
    await ref.terminated()
    assert system.dispatchers.threads == {}
    while before in {thread.ident for thread in threading.enumerate()}:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0)


async def test_tasks_of_its_own_run_on_between_its_messages(system: ActorSystem) -> None:
    class Ticking(Actor[str, int]):
        def pre_start(self) -> None:
            self.ticks = 0
            self.task = asyncio.get_running_loop().create_task(self.tick())
            self.enough = asyncio.Event()

        async def tick(self) -> None:
            while True:
                await asyncio.sleep(0)
                self.ticks += 1
                if self.ticks == 10:
                    self.enough.set()

        async def receive(self, message: str) -> int:
            await self.enough.wait()
            return self.ticks

    assert await system.spawn(Ticking, dispatcher="pinned").ask("how many?") >= 10


async def test_a_pipe_runs_where_the_actor_does_and_ends_with_it(system: ActorSystem) -> None:
    cancelled = threading.Event()
    heard: list[Any] = []

    async def work() -> int:
        return threading.get_ident()

    async def hang() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    class Piping(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            if message == "pipe":
                self.ctx.pipe_to_self(work())
                self.ctx.pipe_to_self(hang())
                return threading.get_ident()
            heard.append(message)
            return None

    ref = system.spawn(Piping, dispatcher="pinned")
    where = await ref.ask("pipe")
    while not heard:  # noqa: ASYNC110 - what is piped is waited for by nobody
        await asyncio.sleep(0)
    assert heard == [where]
    ref.stop()
    assert await asyncio.to_thread(cancelled.wait, PATIENCE)


@pytest.mark.config(stop_timeout=5.0)
async def test_a_coroutine_that_is_in_the_way_of_a_stop_is_cancelled(system: ActorSystem, clock: ManualClock) -> None:
    # case 57
    seen: list[str] = []
    entered = threading.Event()

    async def hang(ctx: Context, message: Any) -> None:
        entered.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append(threading.current_thread().name)
            raise

    ref = system.spawn(hang, dispatcher="pinned")
    ref.tell("hang")
    await asyncio.to_thread(entered.wait, PATIENCE)
    ref.stop()
    await clock.advance(5.0)
    assert (await ref.terminated()).kind is ExitKind.KILLED
    assert seen == ["test pinned 1"]
    assert system.ledger(ref).failed == 1


async def test_a_circle_of_waiting_coroutines_is_a_deadlock(system: ActorSystem) -> None:  # case 25
    refs: list[Any] = []

    async def ask_the_other(ctx: Context, message: int) -> Any:
        return await refs[message % 2].ask(message - 1, timeout=PATIENCE) if message else "the end"

    refs += [system.spawn(ask_the_other, dispatcher="pinned", name=name) for name in ("a", "b")]
    with pytest.raises(AskDeadlock, match="/b"):
        await refs[0].ask(3)


@pytest.mark.parametrize("answer", ["reply", "fail_reply"])
async def test_an_answer_on_its_way_ends_the_waiting_for_it(system: ActorSystem, answer: str) -> None:  # case 25
    """Its system learns that the asker waits, that it has been answered, and that the other asks back: all at once."""
    asked, held, waits, asks_back = (threading.Event() for _ in range(4))

    def hold_up_the_system(ctx: Context, message: Any) -> None:
        held.set()
        assert asks_back.wait(PATIENCE)

    holder = system.spawn(hold_up_the_system)

    async def ask(ctx: Context, ref: Any) -> Any:
        if ref is None:
            return "the end"
        question = ref.ask("?", timeout=None)
        assert asked.wait(PATIENCE)
        holder.tell("now")
        assert held.wait(PATIENCE)
        asyncio.get_running_loop().call_soon(waits.set)
        try:
            return await question
        except ValueError:
            return "no"

    async def answer_and_ask_back(ctx: Context, message: Any) -> None:
        asked.set()
        assert waits.wait(PATIENCE)
        if answer == "reply":
            ctx.reply("yes")
        else:
            ctx.fail_reply(ValueError("no"))
        asyncio.get_running_loop().call_soon(asks_back.set)
        heard.append(await asker.ask(None, timeout=None))

    heard: list[Any] = []
    asker = system.spawn(ask, dispatcher="pinned")
    other = system.spawn(answer_and_ask_back, dispatcher="pinned")
    assert await asker.ask(other, timeout=None) == ("yes" if answer == "reply" else "no")
    await system.settle()
    assert heard == ["the end"]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system cannot keep a thread on a processor")
def test_a_thread_can_be_kept_on_one_processor(play: Play) -> None:  # K8
    core = min(os.sched_getaffinity(0))

    async def program(system: ActorSystem) -> None:
        assert await system.spawn(do, dispatcher="kept").ask(lambda ctx: os.sched_getaffinity(0)) == {core}
        assert await system.spawn(do, dispatcher="pinned").ask(lambda ctx: os.sched_getaffinity(0)) != set()

    play(program, dispatchers={"kept": Pinned(core)})
    assert core in os.sched_getaffinity(0)


@pytest.mark.config(dispatchers={"kept": Pinned(core=4000)})
async def test_a_processor_that_is_not_there_is_told_of_and_the_actor_runs(
    system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert await system.spawn(do, dispatcher="kept").ask(lambda ctx: "runs") == "runs"
        await system.shutdown()
    assert "cannot be kept on processor 4000" in caplog.text


async def test_threads_of_actors_that_come_and_go_do_not_add_up(system: ActorSystem) -> None:
    before = threading.active_count()
    for _ in range(30):
        ref = system.spawn(do, dispatcher="pinned")
        await ref.ask(lambda ctx: None)
        ref.stop()
        await ref.terminated()
    assert system.dispatchers.threads == {}
    await system.shutdown()
    assert threading.active_count() <= before


async def test_a_clock_that_is_moved_by_hand_need_not_wait_for_who_only_waits(
    system: ActorSystem, clock: ManualClock
) -> None:
    log: list[str] = []

    async def wait(ctx: Context, gate: Event) -> None:
        await asyncio.sleep(0)
        log.append("waits")
        await gate.wait()
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
        log.append("goes on")

    ref = system.spawn(wait, dispatcher="pinned")
    for _ in range(20):
        gate = Event()
        ref.tell(gate)
        await clock.advance(1.0)
        assert log == ["waits"]
        gate.set()
        await clock.advance(1.0)
        assert log == ["waits", "goes on"]
        log.clear()


def test_a_sync_program_has_them_too() -> None:
    with ActorSystem("sync", config=SystemConfig()) as system:
        names = [
            system.spawn(do, dispatcher=name).ask_sync(lambda ctx: threading.current_thread().name)
            for name in ("concurrent", "parallel", "pinned")
        ]
    assert names == ["sync", "sync parallel 1", "sync pinned 1"]


def test_a_pinned_actor_that_never_ran_leaves_no_thread() -> None:
    system = ActorSystem("test")
    system.spawn(do, dispatcher="pinned")
    assert system.dispatchers.threads == {}


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
async def test_a_coroutine_that_blocks_its_own_thread_does_not_hold_up_a_restart(system: ActorSystem) -> None:
    # case 57
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
async def test_what_is_done_needs_no_room_though_it_has_not_come_home(system: ActorSystem, dispatcher: str) -> None:
    # case 8
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
    assert report_of(system).forced == ()


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


QUICK = SystemConfig(stop_timeout=0.05, supervision=Supervision(Directive.RESUME))


class Blocked(Actor[Any, Any]):
    """Blocks its thread until the test lets it go on."""

    def __init__(self, begun: threading.Event, go_on: threading.Event) -> None:
        self.begun = begun
        self.go_on = go_on

    def receive(self, message: Any) -> Any:
        if message == "block":
            self.begun.set()
            self.go_on.wait(PATIENCE)
        return message


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
def test_one_that_is_resumed_handles_the_next_message_while_the_abandoned_handler_still_runs(dispatcher: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), ActorSystem(config=QUICK) as system:
            ref = system.spawn(Blocked, begun, go_on, dispatcher=dispatcher)
            ref.tell("block")
            await asyncio.to_thread(begun.wait, PATIENCE)
            ref.fail(ValueError("on purpose"))
            assert [await ref.ask(number, timeout=PATIENCE) for number in range(3)] == [0, 1, 2]
            go_on.set()
            await system.settle()
            assert system.ledger(ref).failed == 1
            assert_ledger_balanced(system)

    try:
        asyncio.run(main())
    finally:
        go_on.set()


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
@pytest.mark.parametrize("directive", [Directive.RESUME, Directive.RESTART])
def test_a_handler_that_ends_while_the_loop_is_held_up_is_not_abandoned(
    dispatcher: str, directive: Directive, caplog: pytest.LogCaptureFixture
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    config = SystemConfig(stop_timeout=0.05, supervision=Supervision(directive, backoff=None))

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), ActorSystem(config=config) as system:
            ref = system.spawn(Blocked, begun, go_on, dispatcher=dispatcher)
            ref.tell("block")
            asked = [ref.ask(number, timeout=PATIENCE) for number in range(5)]
            await asyncio.to_thread(begun.wait, PATIENCE)
            with logged("its handler is cancelled") as cancelled:
                ref.fail(ValueError("on purpose"))
                await cancelled.wait()
            go_on.set()
            time.sleep(GRACE + 0.2)  # noqa: ASYNC251 - this is what holds the loop up
            assert await asyncio.gather(*asked) == [0, 1, 2, 3, 4]
            await system.settle()
            assert system.ledger(ref).handled == 6
            assert_ledger_balanced(system)

    asyncio.run(main())
    assert "is abandoned" not in caplog.text
