"""Lives, bonds, restarts and supervision, with actors in worker processes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import pytest

from greenroom import (
    ActorSystem,
    ActorTerminated,
    AutoShutdown,
    Backoff,
    Behaviors,
    ChildInfo,
    ChildSpec,
    Context,
    DeathPact,
    Down,
    Drain,
    DynamicSupervisor,
    Exit,
    ExitKind,
    LinkBroken,
    MailboxConfig,
    ManualClock,
    MonotonicClock,
    OnRestart,
    ReceiveTimeout,
    Restart,
    Scope,
    StartChild,
    Supervision,
    Supervisor,
    SystemConfig,
    SystemFailed,
    SystemStopped,
    WhichChildren,
)
from greenroom.errors import ConfigError, MessageDropped, NameTaken, NotAnActor, StashFull
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import (
    AT_ONCE,
    BAD,
    CREATED,
    FAILED,
    RESTARTING,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    TERMINATED,
    actor_at,
    assert_legal,
)
from tests.system.dispatchers.processes.conformance.home import (
    ESCALATE,
    RESUME,
    STOPS,
    Ear,
    Eye,
    Gate,
    away,
    held,
    pass_time,
)
from tests.system.dispatchers.processes.puppets import (
    AsyncLively,
    AsyncPuppet,
    Bag,
    Careful,
    Door,
    Leaving,
    Lively,
    Pact,
    Puppet,
    Ref,
    Served,
    Stubborn,
    Watcher,
    all_of,
    answering,
    attempt,
    began,
    call,
    closed,
    consult,
    do,
    generates,
    later,
    say,
    use,
)
from tests.system.dispatchers.processes.test_messages import ONE


async def test_hooks_run_in_the_states_they_are_named_after(system: ActorSystem) -> None:  # M1, M3
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


@pytest.mark.config(supervision=STOPS)
async def test_every_way_to_end_leads_through_its_states(system: ActorSystem) -> None:  # M1, J5
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


async def test_stop_acts_after_the_message_in_hand_and_in_order_after_what_is_queued(system: ActorSystem) -> None:
    # M2, M10
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


@pytest.mark.config(supervision=STOPS)
async def test_a_constructor_that_raises_leaves_no_zombie(system: ActorSystem) -> None:  # case 53
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


async def test_no_message_is_handled_before_pre_start_is_done_and_none_when_it_stops(system: ActorSystem) -> None:
    # cases 54, 55
    heard: list[Any] = []
    gate, leaving = Gate(system), Gate(system)
    ref = away(system, AsyncLively, system.spawn(Ear, heard), "x", {"pre_start": gate.hold, "pre_stop": leaving.hold})
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


async def test_a_parent_ends_after_every_descendant(system: ActorSystem) -> None:  # case 56, M5
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


@pytest.mark.config(stop_timeout=0.1)
async def test_a_handler_that_awaits_is_cancelled_at_the_deadline_of_its_stop(system: ActorSystem) -> None:  # case 57
    probe = TestProbe(system)
    ref = away(system, Stubborn, probe.ref)
    ref.tell("await")
    await probe.expect("begun")
    ref.stop()
    await probe.expect("cancelled")
    await probe.expect("post_stop")
    assert (await ref.terminated()).kind in (ExitKind.NORMAL, ExitKind.KILLED)


@pytest.mark.config(stop_timeout=3.0)
async def test_an_actor_that_stops_itself_may_take_its_time_for_the_message_in_hand(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 57
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


@pytest.mark.config(supervision=STOPS)
async def test_a_told_handler_that_returns_a_generator_fails(system: ActorSystem) -> None:  # J9
    ref = away(system, generates, name="generates")
    ref.tell(1)
    reason = await ref.terminated()
    assert isinstance(reason.cause, NotAnActor)
    assert "/generates returned the generator generates" in str(reason.cause)


HOOKS = ["init", "pre_start", "post_start", "receive", "pre_stop", "post_stop", "pre_restart", "post_restart"]


async def test_each_hook_may_raise_and_the_actor_ends_all_the_same(system: ActorSystem, caplog: Any) -> None:
    # case 58, M3
    caplog.set_level(logging.CRITICAL)
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
        outcome = await ref.ask(attempt(do("system.shutdown")))
        assert outcome is None, outcome
        await system.stopped()
    assert_ledger_balanced(system)


async def test_a_name_is_taken_until_its_actor_has_ended_and_free_before_that_is_told(system: ActorSystem) -> None:
    # case 60
    probe = TestProbe(system)
    one = away(system, Puppet, name="one")
    with pytest.raises(NameTaken):
        system.spawn(Puppet, name="one")
    parent = away(system, AsyncPuppet, name="parent")
    child = await parent.ask(do("spawn", Puppet, name="one", dispatcher="process"))
    assert child.path == "/parent/one"
    assert isinstance(await parent.ask(attempt(do("spawn", Puppet, name="one"))), NameTaken)
    watcher = away(system, Watcher, probe.ref, "", do("system.actor", "/one"))
    await watcher.ask(do("watch", one))
    one.stop()
    await probe.expect(("terminated", one, "None"))
    await probe.expect(("then", None))
    new = away(system, Puppet, name="one")
    assert new != one
    assert await new.ask("here") == "here"


async def test_an_actor_can_spawn_others_at_the_top_under_a_name(system: ActorSystem) -> None:  # case 60, J4
    far = away(system, AsyncPuppet)
    one = await far.ask(attempt(do("system.spawn", Puppet, name="one", dispatcher="process")))
    assert getattr(one, "path", one) == "/one"
    assert system.actor("one") == one
    assert isinstance(await far.ask(attempt(do("system.spawn", Puppet, name="one"))), NameTaken)


async def test_a_watch_is_told_once_and_at_once_of_one_that_is_dead(system: ActorSystem) -> None:  # cases 13, 14, M8
    heard: list[Any] = []
    watcher = away(system, Watcher, system.spawn(Ear, heard))
    for place in (None, "process"):
        other = system.spawn(Puppet, dispatcher=place, supervision=STOPS)
        for _ in range(2):
            await watcher.ask(do("watch", other))
        other.tell(BAD)
        await other.terminated()
        await system.settle()
        assert heard == [("terminated", other, repr(BAD))]
        await watcher.ask(all_of(do("watch", other), do("watch", other)))
        await system.settle()
        assert heard == [("terminated", other, repr(BAD))] * 2
        await watcher.ask(do("watch", other, "a message of mine"))
        await system.settle()
        assert heard.pop() == "a message of mine"
        heard.clear()


async def test_two_monitors_are_told_twice_and_one_that_was_given_up_is_not(system: ActorSystem) -> None:
    # cases 13, 15, E11
    heard: list[Any] = []
    ref, other = away(system, Puppet, system.spawn(Ear, heard)), away(system, Puppet, supervision=STOPS)
    one, two, three = [await ref.ask(do("monitor", other)) for _ in range(3)]
    assert len({one, two, three}) == 3
    assert await ref.ask(do("demonitor", three)) is True
    other.tell(BAD)
    reason = await other.terminated()
    await system.settle()
    assert [(type(down), down.mref, down.ref, down.reason.kind) for down in heard] == [
        (Down, mref, other, ExitKind.FAIL) for mref in (one, two)
    ]
    assert repr(heard[0].reason.cause) == repr(reason.cause) == repr(BAD)
    late = await ref.ask(do("monitor", other))
    await system.settle()
    assert heard[2].mref == late


async def test_what_is_taken_back_is_not_delivered_though_it_is_queued(system: ActorSystem) -> None:  # cases 16, 21
    for bond in ("watch", "watch with", "monitor", "link"):
        ref, gate, heard = await held(system)
        other = away(system, Puppet, supervision=STOPS)
        gate.open()
        await ref.ask(do("set", "trap_exit", True))
        word = ["a message"] if bond == "watch with" else []
        made = await ref.ask(do(bond.partition(" ")[0], other, *word))
        again = Gate(system)
        taking_back = {"monitor": do("demonitor", made), "link": do("unlink", other)}
        ref.tell(all_of(again.hold, taking_back.get(bond, do("unwatch", other))))
        await again.entered.wait()
        ref.tell("before")
        other.tell(BAD)
        await other.terminated()
        ref.tell("behind")
        again.open()
        await system.settle()
        assert heard == ["before", "behind"], bond


async def test_a_restart_tells_no_watcher_and_an_end_tells_all(system: ActorSystem) -> None:  # case 17
    heard: list[Any] = []
    watcher = away(system, Watcher, system.spawn(Ear, heard))
    other = away(system, Puppet, supervision=Supervision(max_restarts=2, backoff=None))
    await watcher.ask(do("set", "trap_exit", True))
    for bond in ("watch", "monitor", "link"):
        await watcher.ask(do(bond, other))
    for _ in range(2):
        other.tell(BAD)
    other.restart()
    assert await other.ask("alive") == "alive"
    await system.settle()
    assert heard == []
    other.tell(BAD)
    await other.terminated()
    await system.settle()
    assert Counter(type(one).__name__ for one in heard) == {"tuple": 1, "Down": 1, "Exit": 1}


async def test_the_watches_of_an_actor_outlive_its_restart_and_its_monitors_do_not(system: ActorSystem) -> None:
    # case 17, M6, 014
    heard: list[Any] = []
    other = away(system, Puppet)
    watcher = away(system, Watcher, system.spawn(Ear, heard), supervision=AT_ONCE)
    await watcher.ask(do("watch", other))
    await watcher.ask(do("monitor", other))
    watcher.tell(BAD)
    assert await watcher.ask("again") == "again"
    other.stop()
    await other.terminated()
    await system.settle()
    assert heard == ["again", ("terminated", other, "None")]


@pytest.mark.config(max_actors=2)
async def test_a_stale_ref_never_reaches_the_new_actor(system: ActorSystem) -> None:  # case 18, J14
    sender = away(system, AsyncPuppet)
    old = away(system, Bag)
    await old.ask("seen")
    old.stop()
    await old.terminated()
    new = away(system, Bag)
    await new.started()
    old.tell(1)
    await sender.ask(call(old, "tell", 2))
    await sender.ask(call(old, "send", 3))
    for asked in (old.ask(4), sender.ask(attempt(call(old, "ask", 5)))):
        try:
            outcome = await asked
        except ActorTerminated as exc:
            outcome = exc
        assert isinstance(outcome, ActorTerminated)
    for order in ("stop", "kill", "restart"):
        await sender.ask(call(old, order))
    await system.settle()
    assert await new.ask("seen") == []
    letters = system.dead_letters.recent()
    assert sorted(letter.message for letter in letters) == [1, 2, 3, 4, 5]
    assert {letter.recipient for letter in letters} == {old}


async def test_a_linked_peers_normal_end_is_nothing_and_its_failure_is_mine(system: ActorSystem) -> None:
    # case 19, E11
    for side in ("mine", "theirs"):
        me = away(system, Puppet, supervision=STOPS)
        for end in ("stop", "fail"):
            other = away(system, Puppet, supervision=STOPS)
            await (me if side == "mine" else other).ask(do("link", other if side == "mine" else me))
            getattr(other, end)(*([BAD] if end == "fail" else []))
            await other.terminated()
            if end == "stop":
                assert await me.ask("I live") == "I live"
        reason = await me.terminated()
        assert (reason.kind, repr(reason.cause)) == (ExitKind.FAIL, repr(BAD))


async def test_an_actor_that_traps_exits_is_told_of_every_end_but_its_own_kill(system: ActorSystem) -> None:
    # cases 19, 20
    heard: list[Any] = []
    me = away(system, Puppet, system.spawn(Ear, heard), supervision=STOPS)
    await me.ask(do("set", "trap_exit", True))
    kinds = {"stop": ExitKind.NORMAL, "kill": ExitKind.KILLED, "fail": ExitKind.FAIL}
    for end, kind in kinds.items():
        other = away(system, Puppet, supervision=STOPS)
        await me.ask(do("link", other))
        getattr(other, end)(*([BAD] if end == "fail" else []))
        await other.terminated()
        await system.settle()
        told = heard.pop()
        assert (type(told), told.ref, told.reason.kind) == (Exit, other, kind)
        assert heard == []
    peer = away(system, Puppet, supervision=STOPS)
    await me.ask(do("link", peer))
    me.kill()
    assert (await me.terminated()).kind is ExitKind.KILLED
    reason = await peer.terminated()
    assert isinstance(reason.cause, LinkBroken)
    assert heard == []


async def test_after_unlink_nothing_comes_of_the_others_end(system: ActorSystem) -> None:  # case 21
    me, other = away(system, Puppet, supervision=STOPS), away(system, Puppet, supervision=STOPS)
    await me.ask(do("link", other))
    await me.ask(do("unlink", other))
    other.tell(BAD)
    await other.terminated()
    await system.settle()
    assert await me.ask("I live") == "I live"


async def test_the_links_and_watches_of_an_actor_whose_start_failed_are_honoured(system: ActorSystem) -> None:
    # case 22
    heard: list[Any] = []
    witness = system.spawn(Ear, heard)
    peer = away(system, Puppet, supervision=STOPS)
    watcher = away(system, Watcher, witness)
    acts = {"pre_start": all_of(do("link", peer), BAD)}
    ref = away(system, Lively, witness, "x", acts, supervision=STOPS)
    await watcher.ask(do("watch", ref))
    with pytest.raises(ValueError, match="on purpose"):
        await ref.started()
    reason = await peer.terminated()
    assert repr(reason.cause) == repr(BAD)
    await system.settle()
    assert ("terminated", ref, repr(BAD)) in heard


async def test_an_end_that_nobody_hears_is_a_death_pact(system: ActorSystem) -> None:  # M8
    other = away(system, Puppet)
    pact = away(system, Pact, other, supervision=STOPS)
    await pact.started()
    asked = pact.ask(do("self.name"))
    assert await asked == pact.name
    await pact.ask(do("unwatch", other))
    other.stop()
    await other.terminated()
    assert await pact.ask("alive") == "alive"
    await pact.ask(do("watch", other))
    reason = await pact.terminated()
    assert reason.kind is ExitKind.FAIL
    assert isinstance(reason.cause, DeathPact)


GONE = ["pre_restart", "post_stop"]
BORN_AGAIN = ["init", "pre_start", "post_restart", "post_start"]


@pytest.mark.config(supervision=AT_ONCE)
async def test_a_restart_keeps_ref_and_mailbox_and_runs_its_hooks_in_order(system: ActorSystem) -> None:  # case 45, M6
    for kind, how in product((Lively, AsyncLively), ("raise", "fail", "restart", "behavior")):
        heard: list[Any] = []
        ref = away(system, kind, system.spawn(Ear, heard), "x", name="x")
        gate = Gate(system)
        before = (ref.id, ref.path, hash(ref), ref.name)
        if kind is AsyncLively:
            ref.tell(gate.hold)
            await gate.entered.wait()
        else:
            await ref.started()
        if how == "fail":
            ref.fail(BAD)
        elif how == "restart":
            ref.restart(BAD)
        else:
            ref.tell(BAD if how == "raise" else say("failed", BAD))
        asked = [ref.ask(("m", n)) for n in (2, 3)]
        gate.open()
        assert [await one for one in asked] == [("m", 2), ("m", 3)]
        await system.settle()
        hooks = [hook for _, hook, *_ in heard if hook not in ("snapshot", "restore")]
        assert hooks == ["init", "pre_start", "post_start", *GONE, *BORN_AGAIN, 2, 3]
        assert ("x", "pre_restart", repr(BAD)) in heard
        assert (ref.id, ref.path, hash(ref), ref.name) == before
        assert await ref.ask(do("self")) == ref
        assert_legal(ref.history)
        assert system.ledger(ref).failed == (1 if how in ("raise", "behavior") else 0)
        (shown,) = [one for one in system.snapshot().actors if one.name == "x"]
        assert shown.restarts == (0 if how == "restart" else 1)
        ref.stop()
        await ref.terminated()


async def test_with_clear_what_was_queued_is_dead_letters_and_what_comes_then_is_kept(system: ActorSystem) -> None:
    # case 46
    clears = Supervision(backoff=None, mailbox=OnRestart.CLEAR)
    ref, gate, heard = await held(system, supervision=clears)
    for message in (BAD, 2, 3):
        ref.tell(message)
    asked = ref.ask(4, timeout=None)
    gate.open()
    with pytest.raises(MessageDropped):
        await asked
    assert await ref.ask("later") == "later"
    await system.settle()
    assert heard == ["later"]
    assert [letter.message for letter in system.dead_letters.recent()] == [2, 3, 4]


@pytest.mark.config(supervision=AT_ONCE)
async def test_children_are_stopped_before_the_new_incarnation_starts(system: ActorSystem) -> None:  # case 47
    heard: list[Any] = []
    witness, gate = system.spawn(Ear, heard), Gate(system)
    child = do("spawn", AsyncLively, witness, "child", {"post_stop": gate.hold}, name="c", dispatcher="process")
    ref = away(system, AsyncLively, witness, "x", {"pre_start": child}, name="x")
    await ref.started()
    old = actor_at(system, "/x/c")
    await old.started()
    ref.tell(BAD)
    ref.tell(("queued",))
    await gate.entered.wait()
    assert ref.state is RESTARTING
    assert [hook for name, hook, *_ in heard if name == "x"] == ["init", "pre_start", "post_start", "pre_restart"]
    gate.open()
    assert (await old.terminated()).kind is ExitKind.SHUTDOWN
    assert await ref.ask("again") == "again"
    await system.settle()
    assert system.actor("/x/c") not in (None, old)
    order = [(name, hook) for name, hook, *_ in (one for one in heard if len(one) > 1)]
    assert order.index(("child", "post_stop")) < order.index(("x", "post_stop"))
    assert ("queued",) in heard


@pytest.mark.config(supervision=AT_ONCE)
async def test_a_pre_restart_that_raises_is_logged_and_the_restart_goes_on(system: ActorSystem, caplog: Any) -> None:
    # case 48
    heard: list[Any] = []
    acts = {"pre_restart": LookupError("in the hook"), "snapshot": LookupError("in the snapshot")}
    for kind in (Lively, AsyncLively):
        ref = away(system, kind, system.spawn(Ear, heard), "x", acts)
        ref.tell(BAD)
        assert await ref.ask(("again",)) == ("again",)
        assert RUNNING is ref.state
        assert_legal(ref.history)
    await system.settle()
    assert [hook for _, hook, *_ in (one for one in heard if len(one) > 1)].count("post_restart") == 2
    await system.shutdown()
    assert any("in the hook" in record.getMessage() + str(record.exc_text) for record in caplog.records) or any(
        record.exc_info and "in the hook" in str(record.exc_info[1]) for record in caplog.records
    )


@pytest.mark.config(supervision=AT_ONCE)
async def test_a_snapshot_is_restored_after_a_restart_and_an_inspection_shows_it(system: ActorSystem) -> None:  # M6
    heard: list[Any] = []
    ref = away(system, Lively, system.spawn(Ear, heard), "x")
    assert await ref.ask("hello") == "hello"
    assert await ref.inspect("a", "b") == {"word": "hello", "items": ("a", "b")}
    ref.tell(BAD)
    assert (await ref.inspect())["word"] == "hello"
    await system.settle()
    assert ("x", "restore", "hello") in heard
    far = away(system, AsyncPuppet)
    assert (await far.ask(call(ref, "inspect", "c")))["items"] == ("c",)


@pytest.mark.config(supervision=AT_ONCE)
async def test_a_tick_that_is_queued_and_not_wanted_any_more_is_not_delivered(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 49, J11
    for how in ("cancelled", "re-keyed", "restarted", "set anew"):
        ref, gate, heard = await held(system)
        gate.open()
        again = Gate(system)
        if how == "set anew":
            await ref.ask(do("set_receive_timeout", 1.0))
        else:
            await ref.ask(do("timers.start", "key", 1.0, "old"))
            await ref.ask(do("send_after", 1.0, ref, "other"))
        ref.tell(
            all_of(
                again.hold,
                {
                    "cancelled": all_of(do("timers.cancel", "key"), use(1, "cancel")),
                    "re-keyed": all_of(do("timers.start", "key", 1.0, "new"), use(1, "cancel")),
                    "restarted": BAD,
                    "set anew": do("set_receive_timeout", None),
                }[how],
            )
        )
        await again.entered.wait()
        await clock.advance(1.0)
        again.open()
        await pass_time(system, clock, 1.0)
        assert heard == (["new"] if how == "re-keyed" else [])
        dropped = {"cancelled": 2, "re-keyed": 2, "restarted": 2, "set anew": 0}[how]
        assert system.ledger(ref).dropped == dropped


async def test_timers_ring_in_order_and_end_with_their_actor(system: ActorSystem, clock: ManualClock) -> None:
    # case 49, J11
    heard: list[Any] = []
    witness = system.spawn(Ear, heard)
    ref = away(system, Puppet, witness)
    for word in "ab":
        await ref.ask(do("send_after", 2.0, ref, word))
    await ref.ask(do("send_after", 1.0, ref, "first"))
    await ref.ask(do("send_every", 1.5, ref, "tick"))
    await ref.ask(do("timers.start", "key", 100.0, "never"))
    assert await ref.ask(use(0, "active")) is True
    await pass_time(system, clock, 2.0)
    assert heard == ["first", "tick", "a", "b"]
    assert await ref.ask(use(0, "active")) is False
    assert await ref.ask(use(3, "cancel")) is True
    assert await ref.ask(use(3, "cancel")) is False
    await pass_time(system, clock, 10.0)
    assert heard == ["first", "tick", "a", "b"]
    await ref.ask(do("send_after", 5.0, witness, "from the dead"))
    assert await ref.ask(do("timers.active")) == ["key"]
    ref.stop()
    await ref.terminated()
    await pass_time(system, clock, 200.0)
    assert heard == ["first", "tick", "a", "b"]
    assert system.dead_letters.count == 0


async def test_a_periodic_timer_and_a_slow_handler_make_no_backlog(system: ActorSystem, clock: ManualClock) -> None:
    # case 50
    for fixed_rate in (False, True):
        ref, gate, heard = await held(system)
        gate.open()
        await ref.ask(do("send_every", 1.0, ref, "tick", fixed_rate=fixed_rate))
        slow = Gate(system)
        ref.tell(slow.hold)
        await slow.entered.wait()
        await clock.advance(10.0)
        slow.open()
        await system.settle()
        late = len(heard)
        assert late == (2 if fixed_rate else 1)
        await pass_time(system, clock, 1.0)
        assert heard == ["tick"] * (late + 1)
        await ref.ask(use(0, "cancel"))


async def test_a_receive_timeout_comes_when_nothing_else_does(system: ActorSystem, clock: ManualClock) -> None:  # J11
    heard: list[Any] = []
    ref = away(system, Puppet, system.spawn(Ear, heard))
    await ref.ask(do("set_receive_timeout", 2.0))
    await pass_time(system, clock, 1.5)
    await ref.ask("something")
    await pass_time(system, clock, 1.5)
    assert heard == ["something"]
    await pass_time(system, clock, 0.5)
    assert heard == ["something", ReceiveTimeout()]
    await ref.ask(do("set_receive_timeout", None))
    await pass_time(system, clock, 10.0)
    assert len(heard) == 2


@pytest.mark.config(supervision=AT_ONCE)
async def test_what_is_put_aside_comes_back_in_order_ahead_of_newer_messages(system: ActorSystem) -> None:  # case 51
    heard: list[Any] = []
    ref = away(system, Door, system.spawn(Ear, heard), mailbox=MailboxConfig(capacity=10))
    far = away(system, Puppet)
    for n in range(20):
        await ref.send(n)
    await far.ask(call(ref, "tell", "from afar"))
    asked = ref.ask("asked", timeout=None)
    await system.settle()
    assert system.ledger(ref).queued == 22
    ref.tell(BAD)  # it is kept over a restart
    opened = ref.ask("open")
    ref.tell("newer")
    assert await opened == 22
    assert await asked == ("answer", "asked")
    await system.settle()
    assert [message for message, _ in heard] == [*range(20), "from afar", "asked", "newer"]
    assert [sender for message, sender in heard if message == "from afar"] == [far]
    ledger = system.ledger(ref)
    assert (ledger.handled, ledger.failed, ledger.queued) == (24, 1, 0)


@pytest.mark.config(supervision=STOPS)
async def test_a_stash_is_served_one_at_a_time_in_order_with_as_much_work_as_messages(system: ActorSystem) -> None:
    # case 51
    for count in (50, 200):
        ref = away(system, Served)
        for number in range(count):
            ref.tell(number)
        for number in range(count):
            assert await ref.ask([1]) == [1 if number < count - 1 else 0]
        await system.settle()
        assert await ref.ask("log") == (list(range(count)), 3 * count)
    several = away(system, Served)
    for number in range(8):
        several.tell(number)
    asked = several.ask([3])
    several.tell("newer")
    assert await asked == [3]
    await system.settle()
    assert (await several.ask("log"))[0] == [0, 1, 2, 3]
    assert await several.ask([1, 1]) == [1, 1]  # the second goes ahead of the first
    assert await several.ask([9]) == [3]
    await system.settle()
    assert (await several.ask("log"))[0] == [0, 1, 2, 3, 5, 4, 6, 7, "newer"]
    assert system.ledger(several).queued == 0


@pytest.mark.config(supervision=STOPS)
async def test_a_full_stash_is_an_error_and_nothing_is_lost(system: ActorSystem) -> None:  # case 51
    heard: list[Any] = []
    witness = system.spawn(Ear, heard)
    careful = away(system, Careful, witness, 2)
    asks = [careful.ask(n) for n in range(2)]
    assert "StashFull" in await careful.ask("no room")
    assert await careful.ask("open") == 2
    assert [await one for one in asks] == [("answer", 0), ("answer", 1)]
    ref = away(system, Door, witness, 2)
    waiting = [ref.ask(n, timeout=None) for n in range(4)]
    reason = await ref.terminated()
    assert isinstance(reason.cause, StashFull)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in outcomes] == [ActorTerminated, ActorTerminated, StashFull, ActorTerminated]
    await system.settle()
    ledger = system.ledger(ref)
    assert (ledger.failed, ledger.dead_lettered, ledger.queued) == (1, 3, 0)


@pytest.mark.config(supervision=AT_ONCE)
async def test_an_actor_becomes_another_and_is_itself_again(system: ActorSystem, clock: ManualClock) -> None:  # M13, J3
    for factory in (answering, Behaviors.receive(answering), Behaviors.setup(began)):
        ref = away(system, factory)
        assert await ref.ask(1) == ("answering", 1)
        ref.tell("close")
        assert await ref.ask(2) == ("closed", 2)
        ref.tell("open")
        assert await ref.ask(3) == ("answering", 3)
        assert await ref.ask("next") is None
        assert await ref.ask(4) == ("closed", 4)
        ref.tell(BAD)
        assert await ref.ask(5) == ("answering", 5)  # a restart begins anew
    resumed = away(system, Behaviors.supervise(Behaviors.receive(answering), Supervision(RESUME)))
    resumed.tell("close")
    resumed.tell(BAD)
    assert await resumed.ask(6) == ("closed", 6)
    layers = away(system, answering)
    await layers.ask("close")
    assert await layers.ask("deeper") == ("deeper", 1)
    layers.tell("open")
    assert await layers.ask(1) == ("closed", 1)  # what was pushed
    layers.tell("open")
    assert await layers.ask(1) == ("answering", 1)
    puppet = away(system, Puppet)
    await puppet.ask(do("become", Behaviors.receive(closed)))
    assert await puppet.ask(7) == ("closed", 7)
    puppet.tell("open")
    assert await puppet.ask(8) == 8


async def test_what_is_piped_to_an_actor_itself_comes_as_a_message(system: ActorSystem) -> None:  # M12
    probe = TestProbe(system)
    ref = away(system, Puppet, probe.ref, supervision=STOPS)
    ref.tell(later("value"))
    await probe.expect("value")
    ref.tell(later("value", mapped=True))
    await probe.expect(("mapped", "value"))
    ref.tell(later(BAD, mapped=True))
    word, error = await probe.receive()
    assert (word, repr(error)) == ("mapped", repr(BAD))
    ref.tell(later(BAD))
    reason = await ref.terminated()
    assert (reason.kind, repr(reason.cause)) == (ExitKind.FAIL, repr(BAD))


async def test_three_in_five_seconds_trip_at_the_fourth_and_every_six_never(
    system: ActorSystem, clock: ManualClock
) -> None:  # cases 30, 31
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


async def test_at_the_limit_a_failure_may_be_escalated_instead(system: ActorSystem) -> None:  # cases 30, 41
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
        self.acts = {hook: consult(self.ref) for _, hook in plans}

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


async def test_a_restart_that_fails_is_counted_and_retried_and_the_supervisor_answers_meanwhile(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 32
    heard: list[Any] = []
    director = Director(system, {("a", "pre_start"): [None, BAD, BAD]})
    children = specs(system.spawn(Ear, heard), "a", director.acts, backoff=Backoff(min=1.0, max=1.0))
    top = system.spawn(Supervisor, Supervisor.spec(children, intensity=3, period=60.0), name="top")
    await top.started()
    ref = actor_at(system, "/top/a")
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


async def test_who_is_restarted_with_one_that_fails(system: ActorSystem) -> None:  # cases 33, 34
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


async def test_plain_siblings_are_restarted_together_and_once(system: ActorSystem) -> None:  # cases 33, 34, 43
    for scope in (Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE):
        heard: list[Any] = []
        witness, parent = system.spawn(Ear, heard), away(system, Puppet)
        together = Supervision(scope=scope, backoff=None, max_restarts=None)
        refs = [
            away(system, AsyncLively, witness, name, name=name, parent=parent, supervision=together) for name in "abc"
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


async def test_who_comes_back_after_which_end(system: ActorSystem) -> None:  # case 35
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


async def test_when_the_third_cannot_start_the_first_two_are_stopped_in_reverse(system: ActorSystem) -> None:  # case 36
    heard: list[Any] = []
    director = Director(system, {("c", "pre_start"): [BAD]})
    children = specs(system.spawn(Ear, heard), "abcd", director.acts)
    top = system.spawn(Supervisor, Supervisor.spec(children), supervision=STOPS)
    with pytest.raises(ValueError, match="on purpose"):
        await top.started()
    assert repr((await top.terminated()).cause) == repr(BAD)
    await system.settle()
    assert comings(heard) == "+a+b-c-b-a"


async def test_at_its_limit_a_supervisor_stops_its_children_and_its_own_supervisor_decides(system: ActorSystem) -> None:
    # case 37
    heard: list[Any] = []
    witness = system.spawn(Ear, heard)
    inner = Supervisor.spec(specs(witness, "ab"), intensity=1, period=60.0)
    outer = Supervisor.spec([ChildSpec("inner", Supervisor, (inner,))], intensity=1, period=60.0)
    top = system.spawn(Supervisor, outer, name="top", supervision=STOPS)
    await top.started()
    for _ in range(2):
        child = actor_at(system, "/top/inner/a")
        child.tell(BAD)
        await system.settle()
    assert comings(heard) == "+a+b-a+a-a-b+a+b"
    assert infos(await top.ask(WhichChildren()))["inner"].restarts == 1
    for _ in range(2):
        child = actor_at(system, "/top/inner/a")
        child.tell(BAD)
        await system.settle()
    reason = await top.terminated()
    assert (reason.kind, repr(reason.cause)) == (ExitKind.FAIL, repr(BAD))
    assert system.actor("/top/inner/a") is None


async def test_a_dynamic_child_is_restarted_with_the_same_arguments(system: ActorSystem) -> None:  # case 38
    heard: list[Any] = []
    witness = system.spawn(Ear, heard)
    top = system.spawn(DynamicSupervisor, ChildSpec("one", AsyncLively, dispatcher="process"))
    one, two = [await top.ask(StartChild(witness, name)) for name in ("one", "two")]
    one.tell(BAD)
    await system.settle()
    assert await one.ask("here") == "here"
    assert await two.ask("here") == "here"
    assert [name for name, hook, *_ in heard[:-2] if hook == "init"] == ["one", "two", "one"]


async def test_a_supervisor_ends_with_its_significant_children(system: ActorSystem) -> None:  # case 39
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


async def test_resume_keeps_state_and_mailbox_and_loses_only_the_failed_message(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 40
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
        assert [one for one in heard if len(one) != 1] == [("x", hook) for hook in ("init", "pre_start", "post_start")]
        assert await ref.ask(do("children")) == [child]
        assert set(ref.history) == {CREATED, STARTING, RUNNING, FAILED}
        assert system.ledger(ref).failed == 5


async def test_a_failure_reaches_the_first_supervisor_that_decides_otherwise(system: ActorSystem) -> None:  # case 41
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


async def test_the_backoff_doubles_to_its_limit_and_begins_anew_after_a_quiet_window(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 42
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


async def test_while_one_waits_for_its_backoff_its_kin_is_served(system: ActorSystem, clock: ManualClock) -> None:
    # case 44
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
