"""Actors on worker threads: side by side, but never on two at once."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    AskDeadlock,
    ChildSpec,
    Context,
    Directive,
    ExitKind,
    Lane,
    MailboxConfig,
    MailboxFull,
    OnExit,
    Parallel,
    Reply,
    Supervision,
    Supervisor,
    Timer,
)
from greenroom.errors import StaysAtHome
from greenroom.testing import Simulation
from tests.conftest import Play

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
async def test_an_actor_is_never_on_two_threads_at_once_and_every_sender_s_order_holds(
    system: ActorSystem,
) -> None:  # M9, R2
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
    assert system.report is not None
    assert system.report.forced == ("/stuck",)
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
    assert system.report is not None
    assert sorted(system.report.forced) == ["/parallel", "/pinned"]
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
