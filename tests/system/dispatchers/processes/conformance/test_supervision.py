"""Supervision, with actors in worker processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from greenroom import (
    ActorSystem,
    AutoShutdown,
    Backoff,
    ChildInfo,
    ChildSpec,
    Context,
    DynamicSupervisor,
    ExitKind,
    ManualClock,
    Restart,
    Scope,
    StartChild,
    Supervision,
    Supervisor,
    SystemFailed,
    WhichChildren,
)
from greenroom.errors import ConfigError
from greenroom.testing import assert_ledger_balanced
from tests.system.dispatchers.processes.cast import (
    AsyncLively,
    Consult,
    Lively,
    Puppet,
    Ref,
    do,
    say,
)
from tests.system.dispatchers.processes.conformance.stage import (
    AT_ONCE,
    BAD,
    CREATED,
    ESCALATE,
    FAILED,
    RESTARTING,
    RESUME,
    RUNNING,
    STARTING,
    STOPS,
    Ear,
    assert_legal,
    away,
    pass_time,
    stage,
)
from tests.system.dispatchers.processes.test_messages import ONE


async def test_three_in_five_seconds_trip_at_the_fourth_and_every_six_never() -> None:  # cases 30, 31
    clock = ManualClock()
    async with stage(clock=clock) as system:
        limited = Supervision(max_restarts=3, within=5.0, backoff=None)
        ref, other = away(system, Puppet, supervision=limited), away(system, Puppet, supervision=limited)
        none = away(system, Puppet, supervision=Supervision(max_restarts=0))
        for _ in range(4):
            assert ref.is_alive
            ref.tell(BAD)
            await pass_time(system, clock, 1.0)
        assert not ref.is_alive
        assert repr((await ref.terminated()).cause) == repr(BAD)
        for _ in range(6):
            other.tell(BAD)
            await pass_time(system, clock, 6.0)
        assert other.state is RUNNING
        none.tell(BAD)
        assert (await none.terminated()).kind is ExitKind.FAIL
        assert RESTARTING not in none.history


async def test_at_the_limit_a_failure_may_be_escalated_instead() -> None:  # cases 30, 41
    async with stage() as system:
        parent = away(system, Puppet, name="parent", supervision=AT_ONCE)
        options = {"dispatcher": "process", "name": "child"}
        once = Supervision(max_restarts=1, backoff=None, on_limit=ESCALATE)
        child = await parent.ask(do("spawn", Puppet, supervision=once, **options))
        child.tell(BAD)
        assert await child.ask("again") == "again"
        assert RESTARTING not in parent.history
        child.tell(BAD)
        await child.terminated()
        assert await parent.ask("again") == "again"
        assert RESTARTING in parent.history
        assert await parent.ask(do("children")) == []


class Director:
    """Says, at home, what actors elsewhere do in their hooks: by `plans`, one thing after the other."""

    def __init__(self, system: ActorSystem, plans: Mapping[tuple[str, str], list[Any]]) -> None:
        self.plans = {key: list(acts) for key, acts in plans.items()}
        self.ref: Ref = system.spawn(self._answer)
        self.acts = {hook: Consult(self.ref) for _, hook in plans}

    def _answer(self, ctx: Context, message: Any) -> Any:
        plan = self.plans.get(message)
        act = plan.pop(0) if plan else None
        ctx.reply(act)


def infos(children: list[ChildInfo]) -> dict[str, ChildInfo]:
    """Children, by their names."""
    return {one.name: one for one in children}


def specs(witness: Ref, names: str, acts: Mapping[str, Any] | None = None, **options: Any) -> list[ChildSpec]:
    """Children in other processes, with these names."""
    return [
        ChildSpec(name, AsyncLively, (witness, name, acts or {}), dispatcher="process", **options) for name in names
    ]


def comings(heard: list[Any]) -> str:
    """Who came and who left, in their order: `+a-a`."""
    signs = {"post_start": "+", "post_stop": "-"}
    return "".join(signs[hook] + name for name, hook, *_ in heard if hook in signs)


async def test_a_restart_that_fails_is_counted_and_retried_and_the_supervisor_answers_meanwhile() -> None:  # case 32
    clock = ManualClock()
    async with stage(clock=clock) as system:
        heard: list[Any] = []
        director = Director(system, {("a", "pre_start"): [None, BAD, BAD]})
        children = specs(system.spawn(Ear, heard), "a", director.acts, backoff=Backoff(min=1.0, max=1.0))
        top = system.spawn(Supervisor, Supervisor.spec(children, intensity=3, period=60.0), name="top")
        await top.started()
        ref = system.actor("/top/a")
        assert ref is not None
        ref.tell(BAD)
        for restarts in (1, 2):
            await pass_time(system, clock, 0.5)
            info = infos(await top.ask(WhichChildren()))["a"]
            assert (info.state, info.next_attempt) != (RUNNING, None)
            await pass_time(system, clock, 0.5)
            assert infos(await top.ask(WhichChildren()))["a"].restarts == restarts
        await pass_time(system, clock, 1.0)
        info = infos(await top.ask(WhichChildren()))["a"]
        assert (info.ref, info.state, info.restarts) == (ref, RUNNING, 3)
        assert comings(heard).count("+a") == 2


SCOPES = {
    Scope.ONE_FOR_ONE: "-b+b",
    Scope.REST_FOR_ONE: "-c-b+b+c",
    Scope.ONE_FOR_ALL: "-c-b-a+a+b+c",
}


async def test_who_is_restarted_with_one_that_fails() -> None:  # cases 33, 34
    async with stage() as system:
        for scope, expected in SCOPES.items():
            heard: list[Any] = []
            witness = system.spawn(Ear, heard)
            top = system.spawn(Supervisor, Supervisor.spec(specs(witness, "abc"), scope=scope), name="top")
            await top.started()
            await system.settle()
            assert comings(heard) == "+a+b+c"
            before = infos(await top.ask(WhichChildren()))
            heard.clear()
            failed = before["b"].ref
            assert failed is not None
            failed.tell(BAD)
            await system.settle()
            left, plus, came = comings(heard).partition("+")
            assert plus + came == expected[expected.index("+") :]
            # Who has failed leaves at once; the others in reverse.
            assert left == "-b" + expected[: expected.index("+")].replace("-b", "")
            after = infos(await top.ask(WhichChildren()))
            assert {name for name, info in after.items() if info.state is RUNNING} == set("abc")
            heard.clear()
            top.stop()
            await top.terminated()
            await system.settle()
            assert comings(heard) == "-c-b-a"


async def test_plain_siblings_are_restarted_together_and_once() -> None:  # cases 33, 34, 43
    async with stage() as system:
        for scope in (Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE):
            heard: list[Any] = []
            witness, parent = system.spawn(Ear, heard), away(system, Puppet)
            together = Supervision(scope=scope, backoff=None, max_restarts=None)
            refs = [
                away(system, AsyncLively, witness, name, name=name, parent=parent, supervision=together)
                for name in "abc"
            ]
            for ref in refs:
                await ref.started()
            await system.settle()
            heard.clear()
            for ref in refs[1:]:
                ref.fail(ValueError("on purpose"))  # by a message, the second might come after the first restart
            await system.settle()
            counts = Counter(comings(heard)[at : at + 2] for at in range(0, len(comings(heard)), 2))
            group = "abc" if scope is Scope.ONE_FOR_ALL else "bc"
            assert set(counts) == {sign + name for sign in "+-" for name in group}
            assert set(counts.values()) == {1}
            assert comings(heard).endswith("".join(f"+{name}" for name in group))
            assert [await ref.ask(do("name")) for ref in refs] == ["a", "b", "c"]
            for ref in refs:
                assert_legal(ref.history)


async def test_who_comes_back_after_which_end() -> None:  # case 35
    async with stage() as system:
        heard: list[Any] = []
        witness = system.spawn(Ear, heard)
        for end in ("stop", "fail", "kill"):
            children = [
                ChildSpec(kind.value, AsyncLively, (witness, kind.value), dispatcher="process", restart=kind)
                for kind in Restart
            ]
            top = system.spawn(Supervisor, Supervisor.spec(children))
            await top.started()
            for info in await top.ask(WhichChildren()):
                assert info.ref is not None
                getattr(info.ref, end)(*([BAD] if end == "fail" else []))
                await system.settle()
            after = infos(await top.ask(WhichChildren()))
            assert (after["permanent"].state, after["permanent"].restarts) == (RUNNING, 1)
            assert "temporary" not in after
            assert (after["transient"].state is RUNNING) is (end != "stop")
            assert after["transient"].restarts == (0 if end == "stop" else 1)
            top.stop()
            await top.terminated()


async def test_when_the_third_cannot_start_the_first_two_are_stopped_in_reverse() -> None:  # case 36
    async with stage() as system:
        heard: list[Any] = []
        director = Director(system, {("c", "pre_start"): [BAD]})
        children = specs(system.spawn(Ear, heard), "abcd", director.acts)
        top = system.spawn(Supervisor, Supervisor.spec(children), supervision=STOPS)
        with pytest.raises(ValueError, match="on purpose"):
            await top.started()
        assert repr((await top.terminated()).cause) == repr(BAD)
        await system.settle()
        assert comings(heard) == "+a+b-c-b-a"


async def test_at_its_limit_a_supervisor_stops_its_children_and_its_own_supervisor_decides() -> None:  # case 37
    async with stage() as system:
        heard: list[Any] = []
        witness = system.spawn(Ear, heard)
        inner = Supervisor.spec(specs(witness, "ab"), intensity=1, period=60.0)
        outer = Supervisor.spec([ChildSpec("inner", Supervisor, (inner,))], intensity=1, period=60.0)
        top = system.spawn(Supervisor, outer, name="top", supervision=STOPS)
        await top.started()
        for _ in range(2):
            child = system.actor("/top/inner/a")
            assert child is not None
            child.tell(BAD)
            await system.settle()
        assert comings(heard) == "+a+b-a+a-a-b+a+b"
        assert infos(await top.ask(WhichChildren()))["inner"].restarts == 1
        for _ in range(2):
            child = system.actor("/top/inner/a")
            assert child is not None
            child.tell(BAD)
            await system.settle()
        reason = await top.terminated()
        assert (reason.kind, repr(reason.cause)) == (ExitKind.FAIL, repr(BAD))
        assert system.actor("/top/inner/a") is None


async def test_a_dynamic_child_is_restarted_with_the_same_arguments() -> None:  # case 38
    async with stage() as system:
        heard: list[Any] = []
        witness = system.spawn(Ear, heard)
        top = system.spawn(DynamicSupervisor, ChildSpec("one", AsyncLively, dispatcher="process"))
        one, two = [await top.ask(StartChild(witness, name)) for name in ("one", "two")]
        one.tell(BAD)
        await system.settle()
        assert await one.ask("here") == "here"
        assert await two.ask("here") == "here"
        assert [name for name, hook, *_ in heard[:-2] if hook == "init"] == ["one", "two", "one"]


async def test_a_supervisor_ends_with_its_significant_children() -> None:  # case 39
    async with stage() as system:
        for mode in (AutoShutdown.ANY, AutoShutdown.ALL):
            witness = system.spawn(Ear, [])
            children = specs(witness, "ab", restart=Restart.TRANSIENT, significant=True) + specs(witness, "c")
            with pytest.raises(ConfigError):
                Supervisor.spec(children)
            with pytest.raises(ConfigError):
                specs(witness, "d", significant=True)
            top = system.spawn(Supervisor, Supervisor.spec(children, auto_shutdown=mode), name="top")
            await top.started()
            for name in "ab":
                child = system.actor(f"/top/{name}")
                if child is not None:
                    child.tell(say("stopped"))
                    await child.terminated()
                    await system.settle()
                assert top.is_alive is (mode is AutoShutdown.ALL and name == "a")
            assert (await top.terminated()).kind in (ExitKind.NORMAL, ExitKind.SHUTDOWN)
            assert system.actor("/top/c") is None


async def test_resume_keeps_state_and_mailbox_and_loses_only_the_failed_message() -> None:  # case 40
    clock = ManualClock()
    async with stage(clock=clock) as system:
        for kind in (Lively, AsyncLively):
            heard: list[Any] = []
            ref = away(system, kind, system.spawn(Ear, heard), "x", supervision=Supervision(RESUME, max_restarts=0))
            child = await ref.ask(do("spawn", Puppet, dispatcher="process"))
            await ref.ask(do("send_after", 1.0, ref, ("tick",)))
            for turn in range(5):
                ref.tell(BAD if turn % 2 else say("failed", BAD))
                ref.tell((turn,))
                ref.fail(BAD)
                ref.tell((turn + 0.5,))
            await system.settle()
            assert [one[0] for one in heard if len(one) == 1] == [turn / 2 for turn in range(10)]
            await pass_time(system, clock, 1.0)
            assert heard[-1] == ("tick",)
            assert [one for one in heard if len(one) != 1] == [
                ("x", hook) for hook in ("init", "pre_start", "post_start")
            ]
            assert await ref.ask(do("children")) == [child]
            assert set(ref.history) == {CREATED, STARTING, RUNNING, FAILED}
            assert system.ledger(ref).failed == 5


async def test_a_failure_reaches_the_first_supervisor_that_decides_otherwise() -> None:  # case 41
    async with stage() as system:
        heard: list[Any] = []
        witness = system.spawn(Ear, heard)
        escalates = Supervision(ESCALATE)
        options: dict[str, Any] = {"dispatcher": "process"}
        top = away(system, AsyncLively, witness, "top", supervision=AT_ONCE)
        middle = await top.ask(do("spawn", AsyncLively, witness, "middle", supervision=escalates, **options))
        low = await middle.ask(do("spawn", AsyncLively, witness, "low", supervision=escalates, **options))
        await low.started()
        await system.settle()
        heard.clear()
        low.tell(BAD)
        await low.terminated()
        await middle.terminated()
        assert await top.ask(do("children")) == []
        await system.settle()
        ends = [name for name, hook, *_ in heard if hook == "post_stop"]
        assert ends == ["low", "middle", "top"]
        assert [(name, hook) for name, hook, *_ in heard if hook == "post_restart"] == [("top", "post_restart")]


async def test_at_the_top_the_system_stops_with_the_cause() -> None:  # case 41
    system = ActorSystem(config=ONE)

    async def program() -> None:
        async with system:
            ref = away(system, Puppet, supervision=Supervision(ESCALATE))
            child = await ref.ask(do("spawn", Puppet, dispatcher="process", supervision=Supervision(ESCALATE)))
            child.tell(BAD)
            await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        await program()
    assert repr(caught.value.__cause__) == repr(BAD)
    assert_ledger_balanced(system)


async def test_the_backoff_doubles_to_its_limit_and_begins_anew_after_a_quiet_window() -> None:  # case 42
    clock = ManualClock()
    async with stage(clock=clock) as system:
        backoff = Backoff(min=0.01, max=1.0, factor=2.0)
        ref = away(system, Puppet, supervision=Supervision(max_restarts=None, within=1.0, backoff=backoff))
        delays: list[float] = []
        for number in range(10):
            if number == 9:
                await pass_time(system, clock, 1.0)
            ref.tell(BAD)
            await system.settle()
            await clock.advance(0.0)
            failed_at = clock.now()
            while ref.state is not RUNNING:
                assert clock.now() - failed_at < 1.1
                clock.step(clock.now() + 5.0)
                await clock.advance(0.0)
            delays.append(clock.now() - failed_at)
        assert delays == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 0.01])


async def test_while_one_waits_for_its_backoff_its_kin_is_served() -> None:  # case 44
    clock = ManualClock()
    async with stage(clock=clock) as system:
        slow = Supervision(backoff=Backoff(min=9.0, max=9.0))
        parent = away(system, Puppet)
        one, two = (away(system, Puppet, parent=parent, supervision=slow) for _ in range(2))
        one.tell(BAD)
        one.tell("queued")
        while one.state is not RESTARTING:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)
        await clock.advance(1.0)
        assert one.state is RESTARTING
        assert await two.ask("hello") == "hello"
        assert await parent.ask(do("children")) == [one, two]
        await clock.advance(8.0)
        assert await one.ask("back") == "back"
