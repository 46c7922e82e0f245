"""A system of several loops: where actors live, and that all holds across loops as on one."""

from __future__ import annotations

import asyncio
import pickle
import sysconfig
import threading
from collections.abc import Callable
from threading import Barrier, get_ident
from typing import Any

import pytest

from greenroom import (
    COMPILED,
    Actor,
    ActorRef,
    ActorSystem,
    Backoff,
    Context,
    Directive,
    Exit,
    ManualClock,
    Scope,
    Supervision,
    SystemConfig,
)
from greenroom.errors import (
    AskDeadlock,
    AskTimeout,
    ConfigError,
    MailboxFull,
    NameTaken,
    SettleTimeout,
    TooManyActors,
    TooManyTimers,
    WaitsForItself,
)
from greenroom.lanes import Lane, MailboxConfig
from greenroom.system.dispatchers.settings import Loop
from greenroom.testing import Simulation, assert_ledger_balanced
from tests.conformance.sending import Listener, outcome
from tests.conftest import Play
from tests.gates import Event, Gate, turns
from tests.system.loops.conftest import LOOPS


class Doer(Actor[Any, Any]):
    """Does what it is told: calls a function with its context. Writes down all else."""

    def __init__(self, log: list[Any] | None = None) -> None:
        self.log: list[Any] = [] if log is None else log

    async def receive(self, message: Any) -> Any:
        if callable(message):
            result = message(self.ctx)
            return await result if asyncio.iscoroutine(result) else result
        self.log.append((message, self.ctx.sender))
        return None

    def on_terminated(self, ref: ActorRef, cause: BaseException | None) -> None:
        self.log.append(("terminated", ref))


def thread_here(ctx: Context) -> str:
    return threading.current_thread().name


def spread(system: ActorSystem, number: int = LOOPS, **options: Any) -> list[ActorRef]:
    """Actors of which each lives on another loop."""
    return [system.spawn(Doer, dispatcher="spread", **options) for _ in range(number)]


# Where actors live


async def test_actors_are_spread_over_all_loops_and_each_has_a_thread(system: ActorSystem) -> None:
    threads = [await ref.ask(thread_here) for ref in spread(system, 2 * LOOPS)]
    assert len(set(threads)) == LOOPS
    assert threads[:LOOPS] == threads[LOOPS:]  # the one with the fewest actors, in turn


async def test_an_actor_without_a_dispatcher_lives_on_the_first_loop(system: ActorSystem) -> None:
    here = threading.current_thread().name
    assert [await system.spawn(Doer).ask(thread_here) for _ in range(4)] == [here] * 4
    assert await system.spawn(Doer, dispatcher="concurrent").ask(thread_here) == here


async def test_children_live_where_their_parent_does(system: ActorSystem) -> None:
    for parent in spread(system):
        child = await parent.ask(lambda ctx: ctx.spawn(Doer))
        other = await parent.ask(lambda ctx: ctx.spawn(Doer, dispatcher="spread"))
        grandchild = await child.ask(lambda ctx: ctx.spawn(Doer))
        outside = system.spawn(Doer, parent=parent)
        where = await parent.ask(thread_here)
        assert [await ref.ask(thread_here) for ref in (child, other, grandchild, outside)] == [where] * 4


@pytest.mark.config(loops=1)
async def test_with_one_loop_spread_is_that_one(system: ActorSystem) -> None:
    assert await system.spawn(Doer, dispatcher="spread").ask(thread_here) == threading.current_thread().name


@pytest.mark.config(placement={"/worker-*": "spread"})
async def test_a_placement_spreads_actors_by_their_paths(system: ActorSystem) -> None:
    workers = [system.spawn(Doer, name=f"worker-{number}") for number in range(LOOPS)]
    assert len({await ref.ask(thread_here) for ref in workers}) == LOOPS
    assert await system.spawn(Doer, name="other").ask(thread_here) == threading.current_thread().name


def test_a_dispatcher_can_have_a_loop_of_its_own(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        mine = [system.spawn(Doer, dispatcher="mine") for _ in range(3)]
        theirs = [await ref.ask(thread_here) for ref in spread(system)]
        (where,) = {await ref.ask(thread_here) for ref in mine}
        assert where not in {*theirs, threading.current_thread().name}

    for loops in (1, LOOPS):
        play(program, loops=loops, dispatchers={"mine": Loop(core=0)})


@pytest.mark.config(dispatchers={"mine": Loop()})
async def test_a_child_cannot_be_sent_to_another_loop_by_name(system: ActorSystem) -> None:
    with pytest.raises(ConfigError, match=r"a child lives on the loop of its parent: bring it up by system\.spawn"):
        await system.spawn(Doer).ask(lambda ctx: ctx.spawn(Doer, dispatcher="mine"))


@pytest.mark.parametrize("loops", [0, -1, 1.5, True, "many", 5000, None])
def test_a_number_of_loops_that_makes_no_sense_is_refused(loops: Any) -> None:
    with pytest.raises(ConfigError, match='must be a whole number from 1 to 1024, or "cores"'):
        SystemConfig(loops=loops)


def test_there_can_be_as_many_loops_as_processors() -> None:
    assert SystemConfig(loops="cores").loop_count() >= 1
    assert SystemConfig.load(environ={"GREENROOM_LOOPS": "cores"}).loops == "cores"
    assert SystemConfig.load(environ={"GREENROOM_LOOPS": "3"}).loops == 3


# Names, ids, limits


async def test_a_name_is_taken_on_all_loops_and_free_again_after_the_end(system: ActorSystem) -> None:
    for ref in spread(system):
        await ref.ask(lambda ctx: None)
    first = system.spawn(Doer, name="only", dispatcher="spread")
    for _ in range(LOOPS):
        with pytest.raises(NameTaken):
            system.spawn(Doer, name="only", dispatcher="spread")
    first.stop()
    await first.terminated()
    assert await system.spawn(Doer, name="only", dispatcher="spread").ask(lambda ctx: ctx.name) == "only"


async def test_actors_are_found_by_path_name_id_and_pickle_wherever_they_live(system: ActorSystem) -> None:
    refs = [system.spawn(Doer, name=f"a{number}", dispatcher="spread") for number in range(LOOPS)]
    refs += spread(system)
    refs += [await ref.ask(lambda ctx: ctx.spawn(Doer, name="child")) for ref in refs]
    assert len({ref.id for ref in refs}) == len(refs)
    for ref in refs:
        assert system.actor(ref.path) is system.actor(ref.id) is pickle.loads(pickle.dumps(ref)) is ref
    assert {*system.actors()} == {*refs}
    assert {actor.path for actor in system.snapshot().actors} == {ref.path for ref in refs}
    assert all(f"a{number} (Doer), running, spread" in system.tree() for number in range(LOOPS))


@pytest.mark.config(max_actors=LOOPS, max_timers=2)
async def test_limits_are_those_of_the_system(system: ActorSystem) -> None:
    refs = spread(system)
    with pytest.raises(TooManyActors):
        spread(system, 1)
    for ref in refs[:2]:
        await ref.ask(lambda ctx: ctx.send_after(1000.0, ctx.self, "tick") and None, timeout=None)
    with pytest.raises(TooManyTimers):
        await refs[2].ask(lambda ctx: ctx.send_after(1000.0, ctx.self, "tick") and None, timeout=None)


# Messages


async def test_messages_between_two_actors_come_in_order_and_from_their_sender(system: ActorSystem) -> None:
    log: list[Any] = []
    (sender,), (receiver,) = spread(system, 1), spread(system, 1, mailbox=MailboxConfig(100_000))
    receiver = system.spawn(Doer, log, dispatcher="spread")

    def send(ctx: Context) -> None:
        for number in range(1000):
            receiver.tell(number)

    await sender.ask(send)
    await system.settle()
    assert log == [(number, sender) for number in range(1000)]


async def test_a_more_urgent_lane_is_served_first(system: ActorSystem) -> None:
    log: list[Any] = []
    began, gate = threading.Event(), threading.Event()
    spread(system, 2)
    busy = system.spawn(Doer, log, dispatcher="spread")

    def hold(ctx: Context) -> None:
        began.set()
        gate.wait()

    busy.tell(hold)
    began.wait()  # so that its loop takes both in at once
    busy.tell("data")
    busy.tell("control", lane=Lane.CONTROL)
    gate.set()
    await system.settle()
    assert [message for message, _ in log] == ["control", "data"]


async def test_a_full_mailbox_refuses_at_once_and_a_send_waits_for_room(system: ActorSystem) -> None:
    log: list[Any] = []
    sender, _ = spread(system, 2)
    gate = threading.Event()
    full = system.spawn(Doer, log, dispatcher="spread", mailbox=MailboxConfig(capacity=2))
    began = threading.Event()

    def hold(ctx: Context) -> None:
        began.set()
        gate.wait()

    full.tell(hold)
    began.wait()

    async def fill(ctx: Context) -> str:
        full.tell(1)
        full.tell(2)
        with pytest.raises(MailboxFull):
            full.tell(3)
        gate.set()
        await full.send(4)
        return "sent"

    assert await sender.ask(fill) == "sent"
    await system.settle()
    assert log == [(1, sender), (2, sender), (4, sender)]
    assert system.ledger(full).rejected == 1


# Asks


async def test_an_answer_comes_back_to_the_asker_and_so_does_a_failure(system: ActorSystem) -> None:
    asker, asked = spread(system, 2)

    async def ask(ctx: Context) -> tuple[Any, str]:
        answer = await asked.ask(lambda other: (other.name, str(other.sender)))
        with pytest.raises(ZeroDivisionError) as raised:
            await asked.ask(lambda other: 1 / 0)
        return answer, str(raised.value)

    answer, error = await asker.ask(ask)
    assert answer == (asked.name, str(asker))
    assert error == "division by zero"


async def test_an_ask_has_a_deadline_and_a_late_answer_is_counted(system: ActorSystem, clock: ManualClock) -> None:
    asker, asked = spread(system, 2)
    gates: list[Callable[[], object]] = []

    async def ask(ctx: Context) -> str:
        with pytest.raises(AskTimeout):
            await asked.ask(slow, timeout=5.0)
        return "gave up"

    async def slow(ctx: Context) -> str:
        aio, gate = asyncio.get_running_loop(), asyncio.Event()
        gates.append(lambda: aio.call_soon_threadsafe(gate.set))
        await gate.wait()
        return "late"

    waiting = asyncio.ensure_future(asker.ask(ask, timeout=None))
    while not gates:  # noqa: ASYNC110 - another thread fills it
        await asyncio.sleep(0)
    await clock.advance(10.0)
    assert await waiting == "gave up"
    gates[0]()
    await system.settle()
    assert system.ledger().late_replies == 1


@pytest.mark.parametrize("length", [2, 3, 5])
async def test_actors_that_ask_in_a_circle_across_loops_are_told(system: ActorSystem, length: int) -> None:
    ring = spread(system, length)

    def ask_next(number: int) -> Callable[[Context], Any]:
        async def ask(ctx: Context) -> Any:
            return await ring[number % length].ask(ask_next(number + 1), timeout=None)

        return ask

    with pytest.raises(AskDeadlock) as raised:
        await ring[0].ask(ask_next(1), timeout=None)
    assert {str(ref) for ref in raised.value.cycle} == {str(ref) for ref in ring}


async def test_a_long_chain_of_asks_is_no_circle(system: ActorSystem) -> None:
    chain = spread(system, 4 * LOOPS)

    def ask_next(number: int) -> Callable[[Context], Any]:
        async def ask(ctx: Context) -> Any:
            return "end" if number == len(chain) else await chain[number].ask(ask_next(number + 1), timeout=None)

        return ask

    assert await chain[0].ask(ask_next(1), timeout=None) == "end"


async def test_a_message_is_forwarded_and_a_reply_deferred_across_loops(system: ActorSystem) -> None:
    asker, middle, last = spread(system)
    owed: list[Any] = []
    last_words: list[Any] = []

    def question(ctx: Context) -> Any:
        if ctx.self == middle:
            ctx.forward(last)
        elif not owed:
            last_words.append(ctx.sender)
            owed.append(ctx.defer_reply())
        return "no answer"

    async def ask(ctx: Context) -> Any:
        return await middle.ask(question, timeout=None)

    waiting = asyncio.ensure_future(asker.ask(ask, timeout=None))
    while not owed:  # noqa: ASYNC110 - another thread fills it
        await asyncio.sleep(0)
    owed[0].send("in the end")
    assert await waiting == "in the end"
    assert last_words == [asker]


# Watches, links, monitors, timers


@pytest.mark.parametrize("dead", [False, True], ids=["alive", "dead already"])
async def test_an_end_is_told_to_watchers_on_other_loops(system: ActorSystem, dead: bool) -> None:
    log: list[Any] = []
    (target,) = spread(system, 1)
    watcher = system.spawn(Doer, log, dispatcher="spread")
    if dead:
        target.stop()
        await target.terminated()
    await watcher.ask(lambda ctx: ctx.watch(target))
    target.stop()
    await target.terminated()
    watcher.tell("next")
    await system.settle()
    assert [message for message, _ in log] == ["terminated", "next"]


async def test_who_unwatches_is_not_told(system: ActorSystem) -> None:
    log: list[Any] = []
    (target,) = spread(system, 1)
    watcher = system.spawn(Doer, log, dispatcher="spread")
    await watcher.ask(lambda ctx: ctx.watch(target) or ctx.unwatch(target))
    target.stop()
    await target.terminated()
    await system.settle()
    assert log == []


async def test_a_link_and_a_monitor_reach_across(system: ActorSystem) -> None:
    log: list[Any] = []
    target, victim = spread(system, 2)
    observer = system.spawn(Doer, log, dispatcher="spread")

    def begin(ctx: Context) -> None:
        ctx.trap_exit = True
        ctx.link(target)
        ctx.monitor(target)

    await observer.ask(begin)
    await victim.ask(lambda ctx: ctx.link(target))
    target.fail(ValueError("bad"))
    await target.terminated()
    assert (await victim.terminated()).abnormal
    await system.settle()
    assert sorted(type(message).__name__ for message, _ in log) == ["Down", "Exit"]
    assert all(message.reason.abnormal for message, _ in log)
    assert any(isinstance(message, Exit) and message.ref == target for message, _ in log)


async def test_a_timer_rings_on_another_loop_until_it_is_cancelled(system: ActorSystem, clock: ManualClock) -> None:
    log: list[Any] = []
    (owner,) = spread(system, 1)
    target = system.spawn(Doer, log, dispatcher="spread")
    timers: list[Any] = []
    await owner.ask(lambda ctx: timers.append(ctx.send_every(1.0, target, "tick")))
    await clock.advance(3.0)
    assert log == [("tick", owner)] * 3
    await owner.ask(lambda ctx: timers[0].cancel() and None)
    await clock.advance(3.0)
    assert log == [("tick", owner)] * 3


# The whole system


async def test_every_handler_may_look_at_the_whole_system_at_once(system: ActorSystem) -> None:
    refs = spread(system, 2 * LOOPS)

    def look(ctx: Context) -> int:
        ctx.system.snapshot()
        ctx.system.ledger()
        return len(ctx.system.actors())

    for _ in range(20):
        assert await asyncio.gather(*(ref.ask(look) for ref in refs)) == [len(refs)] * len(refs)


async def test_handlers_spawn_on_one_anothers_loops_at_once(system: ActorSystem) -> None:
    refs = spread(system)

    def spawn(ctx: Context) -> list[ActorRef]:
        return [ctx.system.spawn(Doer, dispatcher="spread") for _ in range(10)]

    born = await asyncio.gather(*(ref.ask(spawn) for ref in refs))
    threads = [await ref.ask(thread_here) for refs in born for ref in refs]
    assert len(set(threads)) == LOOPS


async def test_settle_waits_for_messages_that_hop_from_loop_to_loop(system: ActorSystem) -> None:
    hops: list[int] = []
    refs = spread(system)

    def hop(left: int) -> Callable[[Context], None]:
        def go_on(ctx: Context) -> None:
            hops.append(left)
            if left:
                refs[left % LOOPS].tell(hop(left - 1))

        return go_on

    for ref in refs:
        ref.tell(hop(300))
    await system.settle()
    assert len(hops) == LOOPS * 301


async def test_the_end_waits_for_the_work_of_all_loops_and_leaves_no_thread(system: ActorSystem) -> None:
    before = set(threading.enumerate())
    log: list[Any] = []
    for ref in [system.spawn(Doer, log, dispatcher="spread") for _ in range(LOOPS)]:
        for number in range(100):
            ref.tell(number)
    await system.shutdown()
    assert len(log) == 300
    assert system.report is not None
    assert (system.report.started, system.report.terminated) == (LOOPS, LOOPS)
    assert {thread for thread in threading.enumerate() if "loop" in thread.name} <= before


def test_a_failure_that_ends_the_system_may_come_from_any_loop(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        *_, last = spread(system)
        last.tell(lambda ctx: ctx.system.fail(ValueError("the end")))
        await system.stopped()

    with pytest.raises(Exception, match="the end"):
        play(program)


async def test_a_handler_that_waits_for_the_end_of_its_system_is_refused_on_any_thread(
    system: ActorSystem,
) -> None:
    for parent in spread(system):
        for ref in (parent, system.spawn(Doer, parent=parent, dispatcher="pinned")):
            error = await ref.ask(lambda ctx: outcome(ctx.system.stopped()), timeout=None)
            assert isinstance(error, WaitsForItself)


def test_a_plain_program_has_several_loops_too() -> None:
    with ActorSystem("plain", config=SystemConfig(loops=LOOPS)) as system:
        refs = spread(system, 2 * LOOPS)
        assert len({ref.ask_sync(thread_here) for ref in refs}) == LOOPS
        system.settle_sync()
    assert_ledger_balanced(system)


async def test_a_hundred_thousand_messages_between_loops_are_all_accounted_for(system: ActorSystem) -> None:
    class Hopper(Actor[int, None]):
        def __init__(self, refs: list[ActorRef]) -> None:
            self.refs = refs

        def receive(self, message: int) -> None:
            if message:
                self.refs[message % len(self.refs)].tell(message - 1)

    refs: list[ActorRef] = []
    refs += [system.spawn(Hopper, refs, dispatcher="spread") for _ in range(30)]
    for ref in refs:
        ref.tell(1000)
    await system.settle()
    ledger = assert_ledger_balanced(system)
    assert ledger.sent == ledger.handled == 30 * 1001


def test_a_simulation_has_as_many_loops_no_threads_and_the_same_results() -> None:
    async def main() -> list[int]:
        async with ActorSystem("simulated", config=SystemConfig(loops=LOOPS)) as system:
            refs = spread(system, 2 * LOOPS)
            assert len({ref._cell.loop for ref in refs}) == LOOPS
            assert {await ref.ask(thread_here) for ref in refs} == {threading.current_thread().name}
            return [await ref.ask(lambda ctx, number=number: number) for number, ref in enumerate(refs)]

    before = threading.active_count()
    assert Simulation(seed=1).run_main(main) == list(range(2 * LOOPS))
    assert threading.active_count() == before


# CPython keeps the memory of a number for the thread that lets go of it. Numbers that two threads work with would come
# to stand side by side, and both threads would wait for one cache line: four times as long, for two that only add.


class Whole(int):
    pass


class Part(float):
    pass


SMALL = ["0", "-5", "256"]
KEPT_FOR_THE_THREAD = ["257", "-70000", "1073741823", "-1073741823"]
LARGE = ["1073741824", "-9223372036854775808", "1" + 40 * "0"]
FLOATS = ["1.5", "-0.0", "inf", "nan", "5e-324"]


class Asker(Actor[Any, Any]):
    """Asks another what it is asked."""

    def __init__(self, other: ActorRef[Any, Any], heard: list[Any]) -> None:
        self.other = other
        self.heard = heard

    async def receive(self, message: Any) -> None:
        answer = await self.other.ask(message)
        self.heard.append(answer)


def carry(play: Play, number: object) -> list[Any]:
    """The number as an actor of another loop has heard it, as its answer came here, and as it came to other loops."""
    heard: list[Any] = []

    async def program(system: ActorSystem) -> None:
        system.spawn(Listener, [], dispatcher="spread")  # lives on the first loop, so the next does not
        echo = system.spawn(Listener, heard, dispatcher="spread")
        answer = await echo.ask(number)
        heard.append(answer)
        answers: list[Any] = []
        for asker in [system.spawn(Asker, echo, answers, dispatcher="spread") for _ in range(LOOPS)]:
            await asker.ask(number)
        heard.extend(answers)

    play(program)
    return heard


@pytest.mark.parametrize(
    "number",
    [
        *map(int, SMALL + KEPT_FOR_THE_THREAD + LARGE),
        *map(float, FLOATS),
        True,
        Whole(1000),
        Part(2.5),
        1000j,
    ],
    ids=repr,
)
def test_a_number_arrives_as_it_was(play: Play, number: object) -> None:
    heard = carry(play, number)
    assert [(type(one), repr(one)) for one in heard] == [(type(number), repr(number))] * (2 + 2 * LOOPS)


@pytest.mark.skipif(
    not COMPILED or not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="threads do not keep memory for themselves"
)
@pytest.mark.parametrize("number", [*map(int, KEPT_FOR_THE_THREAD), *map(float, FLOATS)], ids=repr)
def test_without_a_gil_each_thread_has_a_number_of_its_own(play: Play, number: object) -> None:
    heard = carry(play, number)
    assert len({id(one) for one in [number, *heard[:2]]}) == 3


@pytest.mark.parametrize("number", [10**40, Whole(1000), Part(2.5), 1000j], ids=repr)
def test_any_other_object_is_handed_over_as_it_is(play: Play, number: object) -> None:
    assert all(one is number for one in carry(play, number))


Log = list[tuple[str, int]]


class Member(Actor[Any, Any]):
    """Writes down when it is made, and when it leaves."""

    def __init__(self, number: int, log: Log) -> None:
        self.number = number
        self.log = log
        log.append(("made", number))

    def pre_restart(self, cause: BaseException | None) -> None:
        self.log.append(("left", self.number))

    async def receive(self, message: Any) -> int:
        if message == "fail":
            raise LookupError("on purpose")
        if isinstance(message, Barrier):
            message.wait(60)
            raise LookupError("on purpose, at the same time")
        if isinstance(message, Gate):
            self.log.append(("waits", self.number))
            await message
        return get_ident()


def together(scope: Scope, **policy: Any) -> Supervision:
    return Supervision(Directive.RESTART, scope=scope, **{"backoff": None, **policy})


async def spawn_all(system: ActorSystem, supervision: Supervision, log: Log) -> list[ActorRef[Any, Any]]:
    """One on each loop."""
    refs = [system.spawn(Member, number, log, supervision=supervision, dispatcher="spread") for number in range(LOOPS)]
    assert len({await ref.ask("where") for ref in refs}) == LOOPS
    log.clear()
    return refs


@pytest.mark.parametrize("failing", range(LOOPS))
async def test_one_for_all_restarts_all_and_none_before_all_have_left(system: ActorSystem, failing: int) -> None:
    log: Log = []
    refs = await spawn_all(system, together(Scope.ONE_FOR_ALL), log)
    refs[failing].tell("fail")
    await system.settle()
    for ref in refs:
        assert await ref.ask("where")
    assert sorted(log[:LOOPS]) == [("left", number) for number in range(LOOPS)]
    assert sorted(log[LOOPS:]) == [("made", number) for number in range(LOOPS)]


@pytest.mark.parametrize("failing", range(LOOPS))
async def test_rest_for_one_restarts_those_that_were_spawned_later_on_whichever_loop(
    system: ActorSystem, failing: int
) -> None:
    log: Log = []
    refs = await spawn_all(system, together(Scope.REST_FOR_ONE), log)
    refs[failing].tell("fail")
    await system.settle()
    assert sorted(number for what, number in log if what == "made") == list(range(failing, LOOPS))


@pytest.mark.config(stop_timeout=120.0)
async def test_none_is_started_while_one_has_a_message_in_hand(system: ActorSystem) -> None:
    log: Log = []
    refs = await spawn_all(system, together(Scope.ONE_FOR_ALL), log)
    gate = Gate()
    slow = asyncio.ensure_future(refs[1].ask(gate, timeout=None))
    while log != [("waits", 1)]:
        await turns(1)
    log.clear()
    refs[0].tell("fail")
    while ("left", 0) not in log or ("left", 2) not in log:
        await turns(1)
    assert [what for what, _ in log] == ["left", "left"]
    gate.set_result(None)
    await slow
    await system.settle()
    assert sorted(log[:LOOPS]) == [("left", number) for number in range(LOOPS)]
    assert sorted(log[LOOPS:]) == [("made", number) for number in range(LOOPS)]


@pytest.mark.parametrize("scope", [Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE])
async def test_those_that_fail_at_the_same_time_on_different_loops_all_come_back(
    system: ActorSystem, scope: Scope
) -> None:
    log: Log = []
    refs = await spawn_all(system, together(scope, max_restarts=1000), log)
    for _ in range(30):
        at_once = Barrier(LOOPS)
        for ref in refs:
            ref.tell(at_once)
        await system.settle()
        assert len({await ref.ask("where") for ref in refs}) == LOOPS


async def test_the_backoff_of_one_holds_for_all(system: ActorSystem, clock: ManualClock) -> None:
    log: Log = []
    refs = await spawn_all(system, together(Scope.ONE_FOR_ALL, backoff=Backoff(min=5.0, max=5.0, jitter=0.0)), log)
    refs[2].tell("fail")
    await system.settle()
    assert sorted(log) == [("left", number) for number in range(LOOPS)]
    await clock.advance(4.9)
    assert len(log) == LOOPS
    await clock.advance(0.2)
    await system.settle()
    assert sorted(log[LOOPS:]) == [("made", number) for number in range(LOOPS)]
    assert all([await ref.ask("where") for ref in refs])


async def test_one_that_has_ended_is_not_waited_for(system: ActorSystem) -> None:
    log: Log = []
    refs = await spawn_all(system, together(Scope.ONE_FOR_ALL), log)
    refs[1].stop()
    await refs[1].terminated()
    refs[0].tell("fail")
    await system.settle()
    assert sorted(number for what, number in log if what == "made") == [0, 2]


async def test_children_are_restarted_with_siblings_of_their_own_alone(system: ActorSystem) -> None:
    class Parent(Actor[Any, Any]):
        def __init__(self, log: Log, offset: int) -> None:
            self.log, self.offset = log, offset

        def pre_start(self) -> None:
            policy = together(Scope.ONE_FOR_ALL)
            self.members = [
                self.ctx.spawn(Member, self.offset + number, self.log, supervision=policy) for number in range(2)
            ]

        def receive(self, message: Any) -> Any:
            self.members[0].tell(message)

    log: Log = []
    parents = [system.spawn(Parent, log, 10 * number, dispatcher="spread") for number in range(LOOPS)]
    await system.settle()
    log.clear()
    parents[1].tell("fail")
    await system.settle()
    assert sorted(number for what, number in log if what == "made") == [10, 11]


PATIENCE = 120.0
ROUNDS = 50

Ref = ActorRef[Any, Any]


def spread_named(system: ActorSystem) -> list[Ref]:
    """Actors of which each lives on another loop, the first on the home loop."""
    return [system.spawn(Doer, dispatcher="spread", name=f"doer-{number}") for number in range(LOOPS)]


async def settle_at_once(system: ActorSystem) -> None:
    def tell_all(ctx: Context) -> None:
        for ref in refs:
            ref.tell(lambda ctx: None)

    await system.settle()
    await system.settle(timeout=0.0)
    refs = spread_named(system)
    await system.settle()
    for _ in range(ROUNDS):
        await system.settle(timeout=0.0)
        await refs[-1].ask(tell_all)
        await system.settle()


def test_settle_returns_at_once_when_all_loops_are_at_rest(play: Play) -> None:
    play(settle_at_once)


@pytest.mark.parametrize("seed", range(10))
def test_settle_returns_at_once_when_all_simulated_loops_are_at_rest(seed: int) -> None:
    Simulation(seed, config=SystemConfig(loops=LOOPS)).run(settle_at_once)


@pytest.mark.parametrize("loops", [1, LOOPS])
def test_so_does_settle_sync(loops: int) -> None:
    with ActorSystem("plain", config=SystemConfig(loops=loops)) as system:
        spread_named(system)
        system.settle_sync()
        for _ in range(ROUNDS):
            system.settle_sync(0.0)


async def test_a_thread_that_is_late_is_waited_for_if_its_loop_is_at_rest(system: ActorSystem) -> None:
    released = threading.Event()
    *_, last = spread_named(system)
    there = await last.ask(lambda ctx: asyncio.get_running_loop())
    await system.settle()
    there.call_soon_threadsafe(released.wait, PATIENCE)
    asyncio.get_running_loop().call_later(0.2, released.set)
    await system.settle(timeout=0.01)
    assert released.is_set()


@pytest.mark.parametrize("timeout", [0.0, 0.02])
async def test_one_that_is_busy_on_another_loop_is_named(system: ActorSystem, timeout: float) -> None:
    gate, begun = Event(), Event()

    async def wait(ctx: Context) -> None:
        begun.set()
        await gate.wait()

    *_, last = spread_named(system)
    last.tell(wait)
    await begun.wait()
    with pytest.raises(SettleTimeout) as caught:
        await system.settle(timeout)
    assert caught.value.busy == "/doer-2"
    gate.set()
    await system.settle()
    await system.settle(0.0)


@pytest.mark.parametrize("timeout", [0.0, 0.02])
async def test_a_handler_that_holds_another_loop_is_not_waited_for(system: ActorSystem, timeout: float) -> None:
    released, begun = threading.Event(), Event()

    def hold(ctx: Context) -> None:
        begun.set()
        released.wait(PATIENCE)

    *_, last = spread_named(system)
    last.tell(hold)
    await begun.wait()
    with pytest.raises(SettleTimeout):
        await system.settle(timeout)
    assert not released.is_set()
    released.set()
    await system.settle()


async def test_actors_that_never_rest_are_not_waited_for(system: ActorSystem) -> None:
    going = [True]
    refs = spread_named(system)

    def spin(ctx: Context) -> None:
        if going:
            ctx.self.tell(spin)

    for ref in refs[1:]:
        ref.tell(spin)
    with pytest.raises(SettleTimeout):
        await system.settle(0.05)
    going.clear()
    await system.settle()
