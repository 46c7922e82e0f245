"""The lives of actors in worker processes: hooks, supervision, ends, and what their contexts do."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
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
    Exit,
    ExitKind,
    ManualClock,
    Process,
    ReceiveTimeout,
    State,
    Supervision,
    Supervisor,
    SystemConfig,
    props,
)
from greenroom.errors import NotSendable, WorkerLost
from greenroom.testing import assert_ledger_balanced
from tests.culprits import Picky
from tests.system.dispatchers.processes.guests import (
    BadStart,
    Bag,
    Clerk,
    Counter,
    Echo,
    Hooked,
    Keeper,
    Slow,
    meet,
    switching,
    witness_in,
)
from tests.system.dispatchers.processes.test_messages import ONE

QUICK = Supervision(backoff=None)


class Witness(Actor[Any, Any]):
    """Keeps what it is told, at home."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def receive(self, message: Any) -> None:
        self.heard.append(message)


async def test_hooks_run_there_in_their_order() -> None:
    heard: list[Any] = []
    async with ActorSystem(config=ONE) as system:
        witness = system.spawn(Witness, heard)
        ref = system.spawn(Hooked, witness, dispatcher="process")
        pid = await ref.ask(7)
        assert await ref.inspect("a", "b") == {"state": 7, "items": ("a", "b"), "pid": pid}
        ref.tell(KeyError("gone"))
        await system.settle()
        assert (await ref.inspect())["state"] == 7
        ref.stop()
        assert (await ref.terminated()).kind is ExitKind.NORMAL
        await system.settle()
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


async def test_one_that_cannot_be_made_fails_as_any_other() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(BadStart, dispatcher="process", supervision=Supervision(Directive.STOP))
        with pytest.raises(ValueError, match="no way"):
            await ref.started()
        reason = await ref.terminated()
        assert reason.kind is ExitKind.FAIL


async def test_a_function_can_be_an_actor_there_and_become_another() -> None:
    async with ActorSystem(config=ONE) as system:
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


async def test_a_killed_worker_is_a_panic_and_its_actors_are_back_in_a_fresh_one() -> None:
    config = SystemConfig(dispatchers={"process": Process(workers=1)}, supervision=QUICK)
    async with ActorSystem(config=config) as system:
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
async def test_the_end_of_a_worker_is_told_to_askers_watchers_and_links(how: str, told: str) -> None:
    heard: list[Any] = []
    async with ActorSystem(config=ONE) as system:
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


async def test_one_that_would_be_resumed_is_restarted_when_its_process_is_gone() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Counter, dispatcher="process", supervision=Supervision(Directive.RESUME, backoff=None))
        ref.tell(1)
        with pytest.raises(ValueError, match="on purpose"):
            await ref.ask("crash")
        assert await ref.ask("count") == 1
        os.kill(await ref.ask("pid"), signal.SIGKILL)
        assert await _ask_until_answered(ref, "count") == 0


async def test_a_supervisor_may_have_children_in_processes() -> None:
    async with ActorSystem(config=ONE) as system:
        specs = [ChildSpec("a", props(Counter), dispatcher="process"), ChildSpec("b", props(Bag))]
        top = system.spawn(Supervisor, Supervisor.spec(specs), name="top")
        await top.started()
        ref = system.actor("/top/a")
        assert ref is not None
        pid = await ref.ask("pid")
        assert pid != os.getpid()
        os.kill(pid, signal.SIGKILL)
        assert await _ask_until_answered(ref, "pid") not in (pid, os.getpid())
        assert "process" in system.tree()


async def test_its_context_spawns_watches_and_stops_at_home() -> None:
    async with ActorSystem(config=ONE) as system:
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


async def test_it_can_monitor_link_and_trap() -> None:
    async with ActorSystem(config=ONE) as system:
        ref, other, third = (system.spawn(one, dispatcher="process") for one in (Keeper, Echo, Echo))
        assert await ref.ask(("trap", True)) is True
        mref = await ref.ask(("monitor", other))
        ref.tell(("link", other))
        ref.tell(("watch with", third, "gone"))
        await system.settle()
        other.kill()
        third.stop()
        await system.settle()
        told = await ref.ask("told")
        assert {type(one) for one in told} == {Down, Exit, str}
        down = next(one for one in told if isinstance(one, Down))
        assert down.mref == mref
        assert "gone" in told


async def test_its_timers_go_by_the_clock_of_its_system() -> None:
    clock = ManualClock()
    config = SystemConfig(dispatchers={"process": Process(workers=1)}, clock=clock)
    async with ActorSystem(config=config) as system:
        ref = system.spawn(Keeper, dispatcher="process")
        assert await ref.ask("now") == clock.now()
        ref.tell(("after", 5.0, "five"))
        assert await ref.ask(("every", 2.0, "tick")) == ["tick"]
        await system.settle()
        await clock.advance(5.0)
        await system.settle()
        assert await ref.ask("told") == ["tick", "tick", "five"]
        assert await ref.ask(("cancel", "tick")) == (True, [])
        ref.tell(("quiet", 3.0))
        await system.settle()
        await clock.advance(3.0)
        await system.settle()
        assert (await ref.ask("told"))[-1] == ReceiveTimeout()


async def test_what_it_pipes_to_itself_comes_as_a_message() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Keeper, dispatcher="process")
        witness, begun = witness_in(system)
        ref.tell(("pipe", 42, witness))
        await begun.wait()
        assert await ref.ask("told") == [("piped", 42)]


async def test_what_it_logs_is_logged_at_home(caplog: pytest.LogCaptureFixture) -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Keeper, dispatcher="process", name="keeper")
        await ref.ask("log")
        await system.settle()
    (record,) = [one for one in caplog.records if "from afar" in one.getMessage()]
    assert record.__dict__["actor"] == "/keeper"
    assert record.process != os.getpid()


async def test_refs_there_know_the_state_of_others_and_can_wait_for_their_end() -> None:
    async with ActorSystem(config=ONE) as system:
        clerk, other = system.spawn(Clerk, dispatcher="process"), system.spawn(Echo)
        assert await clerk.ask(("state", other)) == (State.RUNNING, True)
        waiting = clerk.ask(("end of", other))
        assert not waiting.done()
        other.stop()
        assert (await waiting).kind is ExitKind.NORMAL
        assert await clerk.ask(("state", other)) == (State.TERMINATED, False)


async def test_a_handler_that_awaits_is_cancelled_by_a_kill_and_the_worker_lives_on() -> None:
    async with ActorSystem(config=ONE) as system:
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


async def test_a_stop_waits_for_the_message_in_hand_and_not_for_those_behind_it() -> None:
    async with ActorSystem(config=ONE) as system:
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


async def test_one_that_will_not_be_interrupted_is_ended_with_its_process_and_the_others_are_back() -> None:
    config = SystemConfig(dispatchers={"process": Process(workers=1)}, supervision=QUICK, stop_timeout=0.2)
    async with ActorSystem(config=config) as system:
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


async def test_actors_are_spread_over_the_workers() -> None:
    config = SystemConfig(dispatchers={"process": Process(workers=2)})
    async with ActorSystem(config=config) as system:
        refs = [system.spawn(Echo, dispatcher="process") for _ in range(4)]
        pids = [await ref.ask("pid") for ref in refs]
        assert len(set(pids)) == 2
        assert sorted(pids.count(pid) for pid in set(pids)) == [2, 2]
        assert sorted(system.dispatchers.processes["process"]) == sorted(set(pids))


async def test_a_class_of_a_local_scope_is_refused_where_it_is_spawned() -> None:
    class Local(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            """Never called."""

    async with ActorSystem(config=ONE) as system:
        for factory in (Local, lambda ctx, message: None):
            with pytest.raises(NotSendable, match="top of a module"):
                system.spawn(factory, dispatcher="process")
        with pytest.raises(NotSendable, match=r"^Local cannot be sent to another process: "):
            system.spawn(Local, dispatcher="process")
        assert await system.spawn(Echo, dispatcher="process").ask(1) == 1
        assert len(system.actors()) == 1


@pytest.mark.parametrize("as_keyword", [False, True])
async def test_an_argument_that_cannot_be_sent_is_named(as_keyword: bool) -> None:
    def spawn(factory: Any, value: Any) -> Any:
        arguments = {"count": value} if as_keyword else {}
        return system.spawn(factory, *(() if as_keyword else (value,)), dispatcher="process", **arguments)

    async with ActorSystem(config=ONE) as system:
        bad = lambda: 1  # noqa: E731 - what cannot be sent
        with pytest.raises(NotSendable, match=r"^the argument `count` of Picky\(\.\.\.\) cannot be sent") as caught:
            spawn(Picky, bad)
        assert caught.value.message is bad
        assert "top of a module" in str(caught.value)
        assert await spawn(Picky, 7).ask("how many") == 7


async def test_a_worker_that_cannot_start_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ActorSystem(config=ONE) as system:
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


async def test_two_busy_actors_run_at_the_same_time(tmp_path: Path) -> None:
    config = SystemConfig(dispatchers={"process": Process(workers=2)})
    async with ActorSystem(config=config) as system:
        one, two = (system.spawn(meet, dispatcher="process") for _ in range(2))
        here, there = tmp_path / "here", tmp_path / "there"
        assert all(await asyncio.gather(one.ask((here, there)), two.ask((there, here))))
