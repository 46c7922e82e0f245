"""Lives and their ends, with actors in worker processes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from greenroom import (
    ActorSystem,
    ActorTerminated,
    Backoff,
    Drain,
    ExitKind,
    ManualClock,
    MonotonicClock,
    Supervision,
    SystemConfig,
    SystemStopped,
)
from greenroom.errors import NameTaken, NotAnActor
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.system.dispatchers.processes.cast import (
    AsyncLively,
    AsyncPuppet,
    Leaving,
    Lively,
    Puppet,
    Ref,
    Stubborn,
    Try,
    Watcher,
    call,
    do,
    generates,
    say,
)
from tests.system.dispatchers.processes.conformance.stage import (
    BAD,
    CREATED,
    FAILED,
    RESTARTING,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    STOPS,
    TERMINATED,
    Ear,
    Eye,
    Gate,
    assert_legal,
    away,
    held,
    stage,
)
from tests.system.dispatchers.processes.test_messages import ONE


async def test_hooks_run_in_the_states_they_are_named_after() -> None:  # M1, M3
    async with stage() as system:
        for kind in (Lively, AsyncLively):
            heard: list[Any] = []
            witness = system.spawn(Ear, heard)
            hooks = ("pre_start", "post_start", "pre_stop", "post_stop")
            acts = {hook: do("self.state") for hook in hooks}
            ref = away(system, kind, witness, "x", acts)
            assert [ref.state, *ref.history] == [CREATED, CREATED]
            assert await ref.ask(do("self.state")) is RUNNING
            ref.stop()
            assert (await ref.terminated()).kind is ExitKind.NORMAL
            await system.settle()
            assert [one[1] for one in heard if one[0] == "x"] == ["init", *hooks]
            states = [one for one in heard if one[0] == "came of it"]
            assert [state for _, state in states] == [STARTING, STARTING, STOPPING, STOPPING]
            assert ref.history == (CREATED, STARTING, RUNNING, STOPPING, STOPPED, TERMINATED)


async def test_every_way_to_end_leads_through_its_states() -> None:  # M1, J5
    async with stage(supervision=STOPS) as system:
        ways: dict[str, tuple[Callable[[Ref], None], ExitKind]] = {
            "stop": (lambda ref: ref.stop(), ExitKind.NORMAL),
            "stop in order": (lambda ref: ref.stop(after_queued=True), ExitKind.NORMAL),
            "stop by itself": (lambda ref: ref.tell(do("stop")), ExitKind.NORMAL),
            "behavior": (lambda ref: ref.tell(say("stopped")), ExitKind.NORMAL),
            "raise": (lambda ref: ref.tell(BAD), ExitKind.FAIL),
            "failed": (lambda ref: ref.tell(say("failed", BAD)), ExitKind.FAIL),
            "fail": (lambda ref: ref.fail(BAD), ExitKind.FAIL),
            "panic": (lambda ref: ref.tell(GeneratorExit("out")), ExitKind.PANIC),
            "kill": (lambda ref: ref.kill(), ExitKind.KILLED),
        }
        for way, (end, kind) in ways.items():
            for factory in (Puppet, AsyncPuppet):
                ref = away(system, factory)
                await ref.started()
                end(ref)
                assert (await ref.terminated()).kind is kind, way
                middle = {ExitKind.NORMAL: (STOPPING, STOPPED), ExitKind.KILLED: ()}.get(kind, (FAILED,))
                assert ref.history[: 3 + len(middle)] == (CREATED, STARTING, RUNNING, *middle), way
                assert (ref.state, ref.is_alive) == (TERMINATED, False)
                if kind is not ExitKind.KILLED:
                    assert_legal(ref.history)


async def test_stop_acts_after_the_message_in_hand_and_in_order_after_what_is_queued() -> None:  # M2, M10
    async with stage() as system:
        drains = {"dead": None, "dropped": Drain.DROP, "redirected": Drain.REDIRECT}
        for name in drains:
            rest: list[Any] = []
            heir = system.spawn(Ear, rest)
            drain = {"dead": None, "dropped": Drain.DROP, "redirected": Drain.REDIRECT(heir)}[name]
            ref, gate, heard = await held(system, drain=drain)
            ref.tell(1)
            ref.tell(2)
            ref.stop()
            gate.open()
            await ref.terminated()
            await system.settle()
            assert heard == []
            ledger = system.ledger(ref)
            columns = (ledger.dead_lettered, ledger.dropped, ledger.redirected)
            assert columns == {"dead": (2, 0, 0), "dropped": (0, 2, 0), "redirected": (0, 0, 2)}[name]
            assert rest == ([1, 2] if name == "redirected" else [])
        ref, gate, heard = await held(system)
        ref.tell(1)
        ref.stop(after_queued=True)
        ref.tell(2)
        gate.open()
        await ref.terminated()
        await system.settle()
        assert heard == [1]
        assert system.ledger(ref).dead_lettered == 1


async def test_a_constructor_that_raises_leaves_no_zombie() -> None:  # case 53
    async with stage(supervision=STOPS) as system:
        probe = TestProbe(system)
        ref = away(system, Lively, system.spawn(Ear, []), "x", {"init": BAD}, name="unborn")
        await probe.watch(ref)
        ref.tell("never")
        asked = ref.ask("never", timeout=None)
        assert repr((await probe.expect_terminated(ref)).cause) == repr(BAD)
        with pytest.raises(ActorTerminated):
            await asked
        with pytest.raises(ValueError, match="on purpose"):
            await ref.started()
        assert system.actor("unborn") is None
        assert ref.history[:3] == (CREATED, STARTING, FAILED)
        assert RUNNING not in ref.history
        await system.settle()
        assert system.ledger(ref).dead_lettered == 2
        again = away(system, Puppet, name="unborn")
        assert await again.ask("here") == "here"


async def test_no_message_is_handled_before_pre_start_is_done_and_none_when_it_stops() -> None:  # cases 54, 55
    async with stage() as system:
        heard: list[Any] = []
        gate, leaving = Gate(system), Gate(system)
        ref = away(
            system, AsyncLively, system.spawn(Ear, heard), "x", {"pre_start": gate.hold, "pre_stop": leaving.hold}
        )
        asked = ref.ask(("m", 1))
        await gate.entered.wait()
        ref.tell(("m", 2))
        assert ref.state is STARTING
        gate.open()
        assert await asked == ("m", 1)
        await system.settle()
        assert heard == [("x", "init"), ("x", "pre_start"), ("x", "post_start"), ("m", 1), ("m", 2)]
        ref.stop()
        await leaving.entered.wait()
        assert ref.state is STOPPING
        ref.tell("too late")
        far = away(system, AsyncPuppet)
        await far.ask(call(ref, "tell", "from afar"))
        with pytest.raises(ActorTerminated):
            await ref.ask("and this")
        leaving.open()
        await ref.terminated()
        ref.tell("dead")
        await system.settle()
        letters = [letter.message for letter in system.dead_letters.recent()]
        assert letters == ["too late", "from afar", "and this", "dead"]
        assert system.ledger(ref).dead_lettered == 4


async def test_a_parent_ends_after_every_descendant() -> None:  # case 56, M5
    async with stage() as system:
        heard: list[Any] = []
        witness = system.spawn(Ear, heard)
        top = away(system, AsyncLively, witness, "top", name="top")
        below = [top]
        for name in ("middle", "low"):
            parents, below = below, []
            for parent in parents:
                below += [away(system, AsyncLively, witness, f"{name}", parent=parent) for _ in range(2)]
        for ref in below:
            await ref.started()
        top.stop()
        await top.terminated()
        await system.settle()
        ends = [name for name, hook, *_ in heard if hook == "post_stop"]
        assert Counter(ends) == {"low": 4, "middle": 2, "top": 1}
        assert ends[-1] == "top"
        assert ends.index("middle") >= 2
        assert system.actors() == [witness]


@pytest.mark.parametrize("how", ["await", "block"])
async def test_a_handler_that_ignores_a_shutdown_is_forced_and_the_shutdown_is_in_time(how: str) -> None:  # case 57
    eye = Eye()
    clock = ManualClock() if how == "await" else MonotonicClock()
    system = ActorSystem(config=SystemConfig(dispatchers=ONE.dispatchers, clock=clock, stop_timeout=0.2))
    async with asyncio.timeout(120.0), system:
        probe = TestProbe(system)
        system.observers.add(eye)
        ref = away(system, Stubborn, probe.ref, name="deaf")
        polite = away(system, Puppet, name="polite")
        await polite.started()
        asked = asyncio.ensure_future(ref.ask(how, timeout=None))
        await probe.expect("begun")
        stopping = asyncio.ensure_future(system.shutdown(timeout=120.0 if how == "await" else 2.0, drain=False))
        if isinstance(clock, ManualClock):
            await polite.terminated()
            await clock.advance(120.0, patience=120.0)
        await stopping
        with pytest.raises(ActorTerminated):
            await asked
    assert system.report is not None
    assert "/deaf" in system.report.forced
    assert "/polite" not in system.report.forced or how == "block"
    assert ref in eye.stopped
    assert (await ref.terminated()).kind in (ExitKind.KILLED, ExitKind.SHUTDOWN)
    assert_ledger_balanced(system)


async def test_a_handler_that_awaits_is_cancelled_at_the_deadline_of_its_stop() -> None:  # case 57
    async with stage(stop_timeout=0.1) as system:
        probe = TestProbe(system)
        ref = away(system, Stubborn, probe.ref)
        ref.tell("await")
        await probe.expect("begun")
        ref.stop()
        await probe.expect("cancelled")
        await probe.expect("post_stop")
        assert (await ref.terminated()).kind in (ExitKind.NORMAL, ExitKind.KILLED)


async def test_an_actor_that_stops_itself_may_take_its_time_for_the_message_in_hand() -> None:  # case 57
    clock = ManualClock()
    async with stage(stop_timeout=3.0, clock=clock) as system:
        gate = Gate(system)
        ref = away(system, Leaving)
        asked = ref.ask(gate.hold)
        await gate.entered.wait()
        await clock.advance(100.0, patience=120.0)
        gate.open()
        assert await asked == "done"
        assert (await ref.terminated()).kind is ExitKind.NORMAL
        # A spawn from there says how long as well.
        far = away(system, Puppet)
        hasty = await far.ask(do("spawn", Puppet, stop_timeout=0.5))
        await hasty.started()
        assert hasty._cell.record.settings().stop_timeout == 0.5


async def test_a_told_handler_that_returns_a_generator_fails() -> None:  # J9
    async with stage(supervision=STOPS) as system:
        ref = away(system, generates, name="generates")
        ref.tell(1)
        reason = await ref.terminated()
        assert isinstance(reason.cause, NotAnActor)
        assert "/generates returned the generator generates" in str(reason.cause)


HOOKS = ["init", "pre_start", "post_start", "receive", "pre_stop", "post_stop", "pre_restart", "post_restart"]


async def test_each_hook_may_raise_and_the_actor_ends_all_the_same(caplog: Any) -> None:  # case 58, M3
    caplog.set_level(logging.CRITICAL)
    async with stage() as system:
        heard: list[Any] = []
        watcher = away(system, Watcher, system.spawn(Ear, heard))
        witness = system.spawn(Ear, [])
        for kind, hook in product((Lively, AsyncLively), HOOKS):
            limited = Supervision(max_restarts=1, backoff=None) if "restart" in hook else STOPS
            if hook == "init" and kind is AsyncLively:
                continue
            ref = away(system, kind, witness, "x", {hook: BAD}, name=hook, supervision=limited)
            await watcher.ask(do("watch", ref))
            if hook in ("receive", "pre_restart", "post_restart"):
                ref.tell(BAD)
            if hook in ("pre_stop", "post_stop", "pre_restart"):
                ref.stop()
            reason = await ref.terminated()
            stopped = hook in ("pre_stop", "post_stop", "pre_restart")
            assert reason.kind is (ExitKind.NORMAL if stopped else ExitKind.FAIL), hook
            await system.settle()
            assert [one[:2] for one in heard] == [("terminated", ref)], hook
            heard.clear()
            assert system.actor(hook) is None
            assert_legal(ref.history)


@pytest.mark.parametrize("moment", ["handler", "spawning", "restarting"])
async def test_a_shutdown_ends_once_whenever_it_is_asked_for(moment: str) -> None:  # case 59, M11
    slow = Supervision(backoff=Backoff(min=60.0, max=60.0))
    system = ActorSystem(config=SystemConfig(dispatchers=ONE.dispatchers, supervision=slow, history=True))
    async with asyncio.timeout(120.0), system:
        refs = [away(system, Puppet) for _ in range(3)]
        if moment == "handler":
            refs[0].tell(do("system.stop"))
            refs[0].tell("queued")
            await system.stopped()
        elif moment == "spawning":
            system.stop()
        else:
            refs[0].tell(BAD)
            while refs[0].state is not RESTARTING:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0)
        await asyncio.gather(system.shutdown(), system.shutdown())
        with pytest.raises(SystemStopped):
            system.spawn(Puppet)
    assert system.report is not None
    assert (system.report.terminated, system.report.forced) == (3, ())
    assert system.actors() == []
    for ref in refs:
        assert_legal(ref.history)
        assert ref.history[-1] is TERMINATED
    assert_ledger_balanced(system)


async def test_an_actor_can_shut_its_system_down_from_inside_a_handler() -> None:  # case 59
    async with asyncio.timeout(120.0), ActorSystem(config=ONE) as system:
        ref = away(system, AsyncPuppet)
        outcome = await ref.ask(Try(do("system.shutdown")))
        assert outcome is None, outcome
        await system.stopped()
    assert_ledger_balanced(system)


async def test_a_name_is_taken_until_its_actor_has_ended_and_free_before_that_is_told() -> None:  # case 60
    async with stage() as system:
        probe = TestProbe(system)
        one = away(system, Puppet, name="one")
        with pytest.raises(NameTaken):
            system.spawn(Puppet, name="one")
        parent = away(system, AsyncPuppet, name="parent")
        child = await parent.ask(do("spawn", Puppet, name="one", dispatcher="process"))
        assert child.path == "/parent/one"
        assert isinstance(await parent.ask(Try(do("spawn", Puppet, name="one"))), NameTaken)
        watcher = away(system, Watcher, probe.ref, "", do("system.actor", "/one"))
        await watcher.ask(do("watch", one))
        one.stop()
        await probe.expect(("terminated", one, "None"))
        await probe.expect(("then", None))
        new = away(system, Puppet, name="one")
        assert new != one
        assert await new.ask("here") == "here"


async def test_an_actor_can_spawn_others_at_the_top_under_a_name() -> None:  # case 60, J4
    async with stage() as system:
        far = away(system, AsyncPuppet)
        one = await far.ask(Try(do("system.spawn", Puppet, name="one", dispatcher="process")))
        assert getattr(one, "path", one) == "/one"
        assert system.actor("one") == one
        assert isinstance(await far.ask(Try(do("system.spawn", Puppet, name="one"))), NameTaken)
