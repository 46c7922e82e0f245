"""Actors in worker processes: their lives, their context, and what ends their worker."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter as Tally
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    Behaviors,
    ChildSpec,
    Directive,
    Down,
    ExitKind,
    MailboxConfig,
    MailboxFull,
    Process,
    State,
    Supervision,
    Supervisor,
    SystemConfig,
    props,
)
from greenroom.errors import NotSendable, WorkerLost
from greenroom.testing import assert_ledger_balanced
from tests.conformance.lives import actor_at
from tests.culprits import Picky
from tests.system.dispatchers.processes.actors import (
    Clerk,
    Counter,
    Echo,
    Hooked,
    Keeper,
    Relay,
    Slow,
    Stasher,
    meet,
    switching,
    witness_in,
)
from tests.system.dispatchers.processes.conformance.home import Ear
from tests.system.dispatchers.processes.conftest import children, fds
from tests.system.dispatchers.processes.puppets import Bag
from tests.system.dispatchers.processes.test_messages import ONE

QUICK = Supervision(backoff=None)


async def test_hooks_run_there_in_their_order(system: ActorSystem) -> None:
    heard: list[Any] = []
    witness = system.spawn(Ear, heard)
    ref = system.spawn(Hooked, witness, dispatcher="process")
    pid = await ref.ask(7)
    assert await ref.inspect("a", "b") == {"state": 7, "items": ("a", "b"), "pid": pid}
    ref.tell(KeyError("gone"))
    await system.settle()
    assert (await ref.inspect())["state"] == 7
    ref.stop()
    assert (await ref.terminated()).kind is ExitKind.NORMAL
    await system.settle()
    await system.shutdown()
    assert heard == [
        ("pre_start",),
        ("post_start",),
        ("pre_restart", "KeyError('gone')"),
        ("post_stop",),
        ("pre_start",),
        ("restore", 7),
        ("post_restart",),
        ("post_start",),
        ("pre_stop",),
        ("post_stop",),
    ]
    assert pid != os.getpid()


async def test_a_function_can_be_an_actor_there_and_become_another(system: ActorSystem) -> None:
    ref = system.spawn(switching, dispatcher="process")
    other = system.spawn(Echo)
    assert await ref.ask(1) == "first"
    ref.tell("switch")
    assert await ref.ask(1) == "second"
    ref.tell(other)
    other.stop()
    await system.settle()
    assert await ref.ask(1) == "second"
    ref.tell("back")
    assert await ref.ask(1) == "first"
    behavior = system.spawn(Behaviors.receive(switching), dispatcher="process")
    assert await behavior.ask(1) == "first"


@pytest.mark.config(supervision=QUICK)
async def test_a_killed_worker_is_a_panic_and_its_actors_are_back_in_a_fresh_one(system: ActorSystem) -> None:
    first, second = (system.spawn(Counter, 5, dispatcher="process") for _ in range(2))
    pid = await first.ask("pid")
    first.tell(1)
    assert await second.ask("pid") == pid
    assert await first.ask("count") == 6
    os.kill(pid, signal.SIGKILL)
    new = await _ask_until_answered(first, "pid")
    assert new != pid
    assert await second.ask("pid") == new
    assert await first.ask("count") == 5
    assert [one.restarts for one in system.snapshot().actors] == [1, 1]
    await system.settle()
    assert_ledger_balanced(system)


async def _ask_until_answered(ref: Any, question: Any) -> Any:
    """An ask that was under way when its worker died fails; the next does not."""
    while True:
        try:
            return await ref.ask(question)
        except (WorkerLost, ActorTerminated):
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("how", "told"), [("die", "SIGKILL"), ("exit", "code 3"), ("segfault", "SIGSEGV")], ids=["killed", "exit", "crash"]
)
async def test_the_end_of_a_worker_is_told_to_askers_watchers_and_links(
    system: ActorSystem, how: str, told: str
) -> None:
    heard: list[Any] = []
    ref = system.spawn(Echo, dispatcher="process", supervision=Supervision(Directive.STOP))
    keeper = system.spawn(Watcher, ref, heard)
    await keeper.started()
    await ref.started()
    for message in range(10):
        ref.tell(message)
    with pytest.raises(WorkerLost, match=told):
        await ref.ask(how)
    reason = await ref.terminated()
    assert reason.kind is ExitKind.PANIC
    assert isinstance(reason.cause, WorkerLost)
    await system.settle()
    kinds = [type(one) for one in heard]
    assert kinds == [tuple, Down]
    assert system.ledger(ref).lost >= 1
    assert system.ledger(ref).handled + system.ledger(ref).lost == 11
    assert_ledger_balanced(system)


class Watcher(Actor[Any, Any]):
    """Watches, monitors."""

    def __init__(self, ref: Any, heard: list[Any]) -> None:
        self.ref = ref
        self.heard = heard

    def pre_start(self) -> None:
        self.ctx.watch(self.ref)
        self.ctx.monitor(self.ref)

    def on_terminated(self, ref: Any, cause: BaseException | None) -> None:
        self.heard.append(("terminated", ref, cause))

    def receive(self, message: Any) -> None:
        self.heard.append(message)


async def test_one_that_would_be_resumed_is_restarted_when_its_process_is_gone(system: ActorSystem) -> None:
    ref = system.spawn(Counter, dispatcher="process", supervision=Supervision(Directive.RESUME, backoff=None))
    ref.tell(1)
    with pytest.raises(ValueError, match="on purpose"):
        await ref.ask("crash")
    assert await ref.ask("count") == 1
    os.kill(await ref.ask("pid"), signal.SIGKILL)
    assert await _ask_until_answered(ref, "count") == 0


async def test_a_supervisor_may_have_children_in_processes(system: ActorSystem) -> None:
    specs = [ChildSpec("a", props(Counter), dispatcher="process"), ChildSpec("b", props(Bag))]
    top = system.spawn(Supervisor, Supervisor.spec(specs), name="top")
    await top.started()
    ref = actor_at(system, "/top/a")
    pid = await ref.ask("pid")
    assert pid != os.getpid()
    os.kill(pid, signal.SIGKILL)
    assert await _ask_until_answered(ref, "pid") not in (pid, os.getpid())
    assert "process" in system.tree()


async def test_its_context_spawns_watches_and_stops_at_home(system: ActorSystem) -> None:
    ref = system.spawn(Keeper, dispatcher="process", name="keeper")
    child = await ref.ask(("spawn", Echo, {"name": "child"}))
    far = await ref.ask(("spawn", Echo, {"name": "far", "dispatcher": "process"}))
    assert child.path == "/keeper/child"
    assert await child.ask("pid") == os.getpid()
    assert await far.ask("pid") != os.getpid()
    assert await ref.ask("children") == [child, far]
    ref.tell(("watch", far))
    ref.tell(("stop child", child))
    far.tell("stop")
    await far.terminated()
    await child.terminated()
    await system.settle()
    told = await ref.ask("told")
    assert ("terminated", far, None) in told
    assert ("child", "child") in told
    tree, name, me = await ref.ask("tree")
    assert "keeper" in tree
    assert (name, me) == (system.name, ref)


async def test_what_it_logs_is_logged_at_home(system: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    ref = system.spawn(Keeper, dispatcher="process", name="keeper")
    await ref.ask("log")
    await system.settle()
    await system.shutdown()
    (record,) = [one for one in caplog.records if "from afar" in one.getMessage()]
    assert record.__dict__["actor"] == "/keeper"
    assert record.process != os.getpid()


async def test_refs_there_know_the_state_of_others_and_can_wait_for_their_end(system: ActorSystem) -> None:
    clerk, other = system.spawn(Clerk, dispatcher="process"), system.spawn(Echo)
    assert await clerk.ask(("state", other)) == (State.RUNNING, True)
    waiting = clerk.ask(("end of", other))
    assert not waiting.done()
    other.stop()
    assert (await waiting).kind is ExitKind.NORMAL
    assert await clerk.ask(("state", other)) == (State.TERMINATED, False)


async def test_a_handler_that_awaits_is_cancelled_by_a_kill_and_the_worker_lives_on(system: ActorSystem) -> None:
    ref, other = system.spawn(Slow, dispatcher="process"), system.spawn(Slow, dispatcher="process")
    pid = await other.ask("pid")
    ref.tell(("await", 60.0))
    ref.tell("never")
    await other.ask("turn")
    ref.kill()
    assert (await ref.terminated()).kind is ExitKind.KILLED
    assert await other.ask("pid") == pid
    await system.settle()
    assert_ledger_balanced(system)


async def test_a_stop_waits_for_the_message_in_hand_and_not_for_those_behind_it(system: ActorSystem) -> None:
    ref = system.spawn(Slow, dispatcher="process")
    witness, begun = witness_in(system)
    asked = ref.ask(("block", 0.2, witness))
    await begun.wait()
    for _ in range(1000):
        ref.tell(("block", 0.2, witness))
    ref.stop()
    assert await asked == ("block", 0.2, witness)
    assert (await ref.terminated()).kind is ExitKind.NORMAL
    await system.settle()
    ledger = system.ledger(ref)
    assert ledger.dead_lettered >= 998
    assert_ledger_balanced(system)


@pytest.mark.config(supervision=QUICK, stop_timeout=0.2)
async def test_one_that_will_not_be_interrupted_is_ended_with_its_process_and_the_others_are_back(
    system: ActorSystem,
) -> None:
    ref, other = system.spawn(Slow, dispatcher="process"), system.spawn(Slow, dispatcher="process")
    pid = await other.ask("pid")
    witness, begun = witness_in(system)
    ref.tell(("block", 600.0, witness))
    await begun.wait()
    ref.stop()
    assert (await ref.terminated()).kind is ExitKind.KILLED
    assert await _ask_until_answered(other, "pid") != pid
    await system.settle()
    assert_ledger_balanced(system)


async def test_a_system_that_stops_ends_a_worker_that_will_not() -> None:
    config = SystemConfig(dispatchers={"process": Process(workers=1)}, stop_timeout=0.1)
    system = ActorSystem(config=config)
    async with system:
        ref = system.spawn(Slow, dispatcher="process")
        witness, begun = witness_in(system)
        ref.tell(("block", 600.0, witness))
        await begun.wait()
    assert system.ledger().balanced


@pytest.mark.config(dispatchers={"process": Process(workers=2)}, supervision=Supervision())
async def test_actors_are_spread_over_the_workers(system: ActorSystem) -> None:
    refs = [system.spawn(Echo, dispatcher="process") for _ in range(4)]
    pids = [await ref.ask("pid") for ref in refs]
    assert len(set(pids)) == 2
    assert sorted(pids.count(pid) for pid in set(pids)) == [2, 2]
    assert sorted(system.dispatchers.processes["process"]) == sorted(set(pids))


async def test_a_class_of_a_local_scope_is_refused_where_it_is_spawned(system: ActorSystem) -> None:
    class Local(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            """Never called."""

    for factory in (Local, lambda ctx, message: None):
        with pytest.raises(NotSendable, match="top of a module"):
            system.spawn(factory, dispatcher="process")
    with pytest.raises(NotSendable, match=r"^Local cannot be sent to another process: "):
        system.spawn(Local, dispatcher="process")
    assert await system.spawn(Echo, dispatcher="process").ask(1) == 1
    assert len(system.actors()) == 1


@pytest.mark.parametrize("as_keyword", [False, True])
async def test_an_argument_that_cannot_be_sent_is_named(system: ActorSystem, as_keyword: bool) -> None:
    def spawn(factory: Any, value: Any) -> Any:
        arguments = {"count": value} if as_keyword else {}
        return system.spawn(factory, *(() if as_keyword else (value,)), dispatcher="process", **arguments)

    bad = lambda: 1  # noqa: E731 - what cannot be sent
    with pytest.raises(NotSendable, match=r"^the argument `count` of Picky\(\.\.\.\) cannot be sent") as caught:
        spawn(Picky, bad)
    assert caught.value.message is bad
    assert "top of a module" in str(caught.value)
    assert await spawn(Picky, 7).ask("how many") == 7


async def test_a_worker_that_cannot_start_is_an_error_that_says_so(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    ref = system.spawn(Echo, dispatcher="process", supervision=Supervision(Directive.STOP))
    ref.tell("kept")
    with pytest.raises(WorkerLost, match="cannot be started"):
        await ref.started()
    assert (await ref.terminated()).kind is ExitKind.PANIC
    monkeypatch.undo()
    assert await system.spawn(Echo, dispatcher="process").ask(1) == 1
    await system.settle()
    assert system.ledger(ref).dead_lettered == 1
    assert_ledger_balanced(system)


@pytest.mark.config(dispatchers={"process": Process(workers=2)}, supervision=Supervision())
async def test_two_busy_actors_run_at_the_same_time(system: ActorSystem, tmp_path: Path) -> None:
    one, two = (system.spawn(meet, dispatcher="process") for _ in range(2))
    here, there = tmp_path / "here", tmp_path / "there"
    assert all(await asyncio.gather(one.ask((here, there)), two.ask((there, here))))


KILLS = 10
ACTORS = 4


class Collector(Actor[Any, Any]):
    """Takes what passed through the workers, at home; sees whether it comes in order, and never twice."""

    def __init__(self, last: list[int], arrived: Tally[int]) -> None:
        self.last = last
        self.arrived = arrived

    def receive(self, message: tuple[int, int]) -> None:
        who, number = message
        assert number > self.last[who], (who, number, self.last[who])
        self.last[who] = number
        self.arrived[who] += 1


class Source(Actor[Any, Any]):
    """Sends numbered messages to all, as long as they take them, and goes on."""

    def __init__(self, targets: list[Any], sent: list[int]) -> None:
        self.targets = targets
        self.sent = sent

    def receive(self, message: str) -> None:
        if message == "stop":
            self.ctx.stop()
            return
        for who, ref in enumerate(self.targets):
            try:
                for _ in range(50):
                    ref.tell((who, self.sent[who]))
                    self.sent[who] += 1
            except MailboxFull:
                pass
        self.ctx.self.tell("go on")


@pytest.mark.parametrize("kills", [KILLS, pytest.param(100, marks=pytest.mark.slow)])
def test_a_worker_killed_under_traffic_loses_nothing_that_the_ledger_does_not_know(
    kills: int, caplog: pytest.LogCaptureFixture
) -> None:  # R6
    caplog.set_level("CRITICAL")
    before, started = len(fds()), children()
    asyncio.run(asyncio.wait_for(_kill_under_traffic(kills), 30.0 + 3.0 * kills))
    assert len(fds()) <= before + 2  # what asyncio itself may hold on to
    assert children() <= started


async def _kill_under_traffic(kills: int) -> None:
    dice = random.Random(6)
    config = SystemConfig(
        dispatchers={"process": Process(workers=2)},
        supervision=Supervision(backoff=None, max_restarts=10 * kills, within=1.0),
    )
    last, sent, arrived = [-1] * ACTORS, [0] * ACTORS, Tally[int]()
    async with ActorSystem(config=config) as system:
        collector = system.spawn(Collector, last, arrived, mailbox=MailboxConfig(capacity=10_000_000))
        refs = [
            system.spawn(Relay, collector, dispatcher="process", mailbox=MailboxConfig(capacity=500))
            for _ in range(ACTORS)
        ]
        for ref in refs:
            await ref.started()
        source = system.spawn(Source, refs, sent)
        source.tell("go on")
        for _ in range(kills):
            await asyncio.sleep(dice.uniform(0.0, 0.05))  # random moments: there is nothing to wait for
            pids = system.dispatchers.processes.get("process", [])
            if pids:
                os.kill(dice.choice(pids), signal.SIGKILL)
            for ref in refs:
                while True:
                    handled = system.ledger(ref).handled
                    await asyncio.sleep(0)
                    if system.ledger(ref).handled > handled:
                        break  # it is back, and works
        source.tell("stop")
        await source.terminated()
        await system.settle()
        assert_ledger_balanced(system)
        for who, ref in enumerate(refs):
            ledger = system.ledger(ref)
            assert ledger.sent == sent[who]
            assert ledger.handled + ledger.lost == ledger.sent, ledger
            # What is known to be handled has had its effect; of what is lost, nobody knows.
            assert ledger.handled <= arrived[who] <= ledger.handled + ledger.lost
        assert system.ledger().lost > 0
        assert sum(one.restarts for one in system.snapshot().actors) >= kills


def test_what_is_to_be_done_when_a_program_ends_is_done_by_a_worker_too(tmp_path: Path) -> None:
    with ActorSystem(config=ONE) as system:
        ref = system.spawn(Relay, tmp_path, dispatcher="process")
        assert ref.ask_sync("atexit") is None
    deadline = monotonic() + 120.0
    while not (tmp_path / "left").exists():
        assert monotonic() < deadline
        sleep(0.01)


@pytest.mark.parametrize("behind", [0, 3])
async def test_an_ask_that_a_guest_has_stashed_outlives_its_worker(system: ActorSystem, behind: int) -> None:
    ref = system.spawn(Stasher, dispatcher="process")
    asked = ref.ask("kept")
    for number in range(behind):
        ref.tell(number)
    await system.settle()
    (pid,) = system.dispatchers.processes["process"]
    os.kill(pid, signal.SIGKILL)
    while not system.snapshot().actors[0].restarts:  # noqa: ASYNC110 - nobody tells when
        await asyncio.sleep(0)
    assert await ref.ask("open") == 1 + behind
    assert await asked is None
    await system.settle()
    assert system.ledger(ref).lost == 0
    assert_ledger_balanced(system)


DEADLINE = 120.0


class Starts(Actor[str, int]):
    """Starts another program, or a child of its own, terminates it, and answers how that ended."""

    def receive(self, message: str) -> int:
        if message == "program":
            program = subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(120)"])
            program.terminate()
            return program.wait()
        child = os.fork()
        if child == 0:
            signal.pause()
        os.kill(child, signal.SIGTERM)
        return -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_worker_works_on_when_its_whole_group_is_signalled(number: signal.Signals) -> None:
    config = SystemConfig(dispatchers={"process": Process(workers=1)})
    async with asyncio.timeout(DEADLINE), ActorSystem(config=config) as system:
        ref = system.spawn(Echo, dispatcher="process")
        worker = await ref.ask("pid", timeout=DEADLINE)
        for _ in range(3):
            os.kill(worker, number)
        assert await ref.ask("pid", timeout=DEADLINE) == worker
    assert system.ledger().lost == 0


@pytest.mark.parametrize("what", ["program", "child"])
def test_what_an_actor_in_a_worker_starts_can_be_terminated(what: str) -> None:
    with ActorSystem() as system:
        ref = system.spawn(Starts, dispatcher="process")
        assert abs(ref.ask_sync(what, timeout=DEADLINE)) == signal.SIGTERM
