"""Ends that are hindered: handlers and hooks that are cancelled at a deadline, and those that must not be."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    ChildSpec,
    Context,
    Down,
    Drain,
    Exit,
    ExitKind,
    ExitReason,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    Restart,
    Supervision,
    Supervisor,
    SystemConfig,
)
from greenroom.errors import ConfigError
from greenroom.testing import TestProbe
from tests.conformance.lives import HookedAsync, actor_at, ended, report_of
from tests.conformance.sending import until
from tests.culprits import Culprit, Stuck, StuckInHook
from tests.gates import Gate, turns

PLACES = pytest.mark.parametrize("dispatcher", ["concurrent", "parallel", "pinned", "process"])
BRIEF = SystemConfig(stop_timeout=0.05)


class Observing(Actor[Any, Any]):
    """Watches, monitors and is linked to one actor, and hears when that has begun."""

    def __init__(self, begun: asyncio.Event) -> None:
        self.begun = begun
        self.seen: list[Any] = []

    def receive(self, message: Any) -> Any:
        match message:
            case "begun":
                self.begun.set()
            case "seen":
                return self.seen
            case Down(reason=reason) | Exit(reason=reason):
                self.seen.append((type(message).__name__, reason))
            case ref:
                self.ctx.trap_exit = True
                self.ctx.watch(ref)
                self.ctx.monitor(ref)
                self.ctx.link(ref)
        return None

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.seen.append(("Terminated", cause))


class Scene:
    """A stuck actor, and somebody who observes it."""

    def __init__(self, system: ActorSystem, stuck: ActorRef[Any, Any]) -> None:
        self.system = system
        self.stuck = stuck
        self.begun = asyncio.Event()
        self.observing = system.spawn(Observing, self.begun)

    async def check(self, forced: tuple[str, ...]) -> ExitReason:
        """How it ended, which must be the same to all."""
        reason = await asyncio.wait_for(self.stuck.terminated(), 120)
        await self.system.settle()
        assert reason.kind is ExitKind.KILLED
        seen = await self.observing.ask("seen")
        assert sorted(seen, key=str) == [("Down", reason), ("Exit", reason), ("Terminated", None)]
        assert tuple(self.system._life.forced.paths()) == forced
        return reason


@PLACES
@pytest.mark.parametrize("order", ["stop", "after queued", "shutdown"])
async def test_a_handler_that_is_cancelled_at_the_deadline_was_killed(dispatcher: str, order: str) -> None:
    # case 57, M11, M5
    async with ActorSystem(config=BRIEF) as system:
        scene = Scene(system, system.spawn(Stuck, dispatcher=dispatcher, name="stuck"))
        stuck = scene.stuck
        await scene.observing.ask(stuck)
        asks = [stuck.ask(scene.observing, timeout=None)]
        await asyncio.wait_for(scene.begun.wait(), 120)
        if order == "after queued":
            stuck.stop(after_queued=True)
            asks.append(stuck.ask(scene.observing, timeout=None))
            stuck.stop()
        elif order == "stop":
            asks.append(stuck.ask(scene.observing, timeout=None))
            stuck.stop()
        else:
            asks.append(stuck.ask(scene.observing, timeout=None))
            await system.shutdown(drain=False)
            assert (await stuck.terminated()).kind is ExitKind.KILLED
        for ask in asks:
            with pytest.raises(ActorTerminated) as caught:
                await ask
            assert isinstance(caught.value.reason, ExitReason)
            assert caught.value.reason.kind is ExitKind.KILLED
        if order != "shutdown":
            await scene.check(("/stuck",))
    assert report_of(system).forced == ("/stuck",)


@PLACES
async def test_a_hook_that_is_cancelled_at_the_deadline_was_killed(dispatcher: str) -> None:  # case 57, M11, M5
    async with ActorSystem(config=BRIEF) as system:
        scene = Scene(system, system.spawn(StuckInHook, dispatcher=dispatcher, name="stuck"))
        await scene.observing.ask(scene.stuck)
        await scene.stuck.ask(scene.observing, timeout=None)
        scene.stuck.stop()
        await scene.check(("/stuck",))


async def test_one_that_fails_as_it_is_cancelled_has_failed() -> None:  # case 57, M11, M5
    class Spiteful(Actor[Any, Any]):
        async def receive(self, message: Any) -> Any:
            begun.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                raise ValueError("so there")

    begun = asyncio.Event()
    async with ActorSystem(config=BRIEF) as system:
        ref = system.spawn(Spiteful, name="spiteful")
        ask = ref.ask("wait", timeout=None)
        await begun.wait()
        ref.stop()
        with pytest.raises(ValueError, match="so there"):
            await ask
        assert (await ref.terminated()).kind is ExitKind.FAIL
    assert report_of(system).forced == ("/spiteful",)


async def test_a_transient_child_that_was_forced_is_restarted_and_then_stops_as_any() -> None:  # case 57, M11, M5
    class Transient(Stuck):
        def post_restart(self) -> None:
            again.set()

    begun, again = asyncio.Event(), asyncio.Event()
    spec = Supervisor.spec(children=[ChildSpec("child", Transient, restart=Restart.TRANSIENT, shutdown=0.05)])
    async with ActorSystem(config=BRIEF) as system:
        await system.spawn(Supervisor, spec, name="boss").started()
        child = actor_at(system, "/boss/child")
        child.tell(system.spawn(Observing, begun))
        await begun.wait()
        child.stop()
        await asyncio.wait_for(again.wait(), 120)
        child.stop()
        assert (await child.terminated()).kind is ExitKind.NORMAL


async def test_one_that_stops_in_time_was_not_killed() -> None:  # case 57, M11, M5
    async with ActorSystem(config=SystemConfig(supervision=Supervision(backoff=None))) as system:
        ref = system.spawn(Culprit)
        await ref.started()
        ref.stop()
        assert (await ref.terminated()).kind is ExitKind.NORMAL


STOP_TIMEOUT = 3.0


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_an_actor_is_not_forced_unless_it_was_told_to_end(system: ActorSystem, clock: ManualClock) -> None:
    # case 57
    gate = Gate()

    async def inspect_myself(ctx: Context, message: Any) -> str:
        look = ctx.self.inspect(timeout=None)  # which waits for this handler to end
        inspecting.append(asyncio.ensure_future(look))
        return str(await gate)

    inspecting: list[asyncio.Future[Any]] = []
    ref = system.spawn(inspect_myself)
    asked = ref.ask("go", timeout=None)
    for _ in range(10):
        await turns(1)
        await clock.advance(10 * STOP_TIMEOUT)
    assert not asked.done()
    gate.set_result("still there")
    assert await asked == "still there"
    assert ref.is_alive
    await system.shutdown()
    assert report_of(system).forced == ()


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_a_handler_that_is_cancelled_may_clean_up(system: ActorSystem, clock: ManualClock, how: str) -> None:
    # case 57
    cleaning = Gate()

    async def tidy(ctx: Context, message: Any) -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await cleaning
        return "tidied up"

    ref = system.spawn(tidy)
    asked = ref.ask("go", timeout=None)
    await clock.advance(0.0)
    getattr(ref, how)()
    await clock.advance(0.0 if how == "kill" else STOP_TIMEOUT)
    cleaning.set_result(None)
    assert await asked == "tidied up"
    assert (await ended(system, ref)).kind is ExitKind.KILLED
    assert system.ledger(ref).handled == 1


async def test_a_killed_asker_leaves_a_late_reply_behind(system: ActorSystem) -> None:  # case 57, case 28
    gate = Gate()
    slow = system.spawn(HookedAsync)
    asker = system.spawn(HookedAsync)

    async def ask_and_wait(ctx: Context) -> Any:
        return await slow.ask(lambda _: gate, timeout=None)

    asked = asker.ask(ask_and_wait, timeout=None)
    await until(lambda: system.ledger(slow).in_hand)
    asker.kill()
    with pytest.raises(ActorTerminated):
        await asked
    assert (await ended(system, asker)).kind is ExitKind.KILLED
    gate.set_result("too late")
    await system.settle()
    assert system.ledger().late_replies == 1
    assert [letter.message for letter in system.dead_letters.recent()] == ["too late"]
    assert slow.is_alive


@pytest.mark.parametrize("hook", ["pre_start", "receive", "pre_stop"])
async def test_a_kill_while_a_kill_is_under_way_changes_nothing(
    system: ActorSystem, clock: ManualClock, hook: str
) -> None:  # case 57
    cancellations: list[str] = []

    async def swallow(_: Context) -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                cancellations.append("cancelled")

    ref = system.spawn(HookedAsync, None, name="deaf", **({} if hook == "receive" else {hook: swallow}))
    if hook == "receive":
        ref.tell(swallow)
    elif hook == "pre_stop":
        ref.stop()
    await clock.advance(0.0)
    for _ in range(3):
        ref.kill()
        ref.stop()
        await clock.advance(0.1)
    assert cancellations == ["cancelled"]
    await clock.advance(2.0)
    assert (await ended(system, ref)).kind is ExitKind.KILLED
    await system.shutdown()
    assert report_of(system).forced == ("/deaf",)


class Leaving(Actor[Any, Any]):
    """Stops itself in the middle of a message, and takes its time for the rest."""

    def __init__(self, gate: Gate, log: list[str], first: bool = True) -> None:
        self.gate = gate
        self.log = log
        self.first = first

    async def receive(self, message: Any) -> str:
        if not self.first:
            await asyncio.sleep(0)
        self.ctx.stop()
        try:
            await self.gate
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        self.log.append("done")
        return "done"


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_an_actor_that_stops_itself_may_take_its_time_for_the_message_in_hand(
    system: ActorSystem, clock: ManualClock, first: bool
) -> None:  # case 57, M5
    gate, log = Gate(), list[str]()
    ref = system.spawn(Leaving, gate, log, first)
    asked = ref.ask("go", timeout=None)
    ref.tell("too late")
    for _ in range(3):
        await clock.advance(10 * STOP_TIMEOUT)
    assert log == []
    gate.set_result(None)
    assert await asked == "done"
    assert (await ended(system, ref)).kind is ExitKind.NORMAL
    assert log == ["done"]
    assert system.ledger(ref).dead_lettered == 1
    await system.shutdown()
    assert report_of(system).forced == ()


@pytest.mark.parametrize("how", ["stop", "parent", "shutdown"])
@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_whoever_stops_it_from_outside_waits_no_longer_for_that(
    system: ActorSystem, clock: ManualClock, how: str
) -> None:  # case 57, M5
    gate, log = Gate(), list[str]()
    parent = system.spawn(HookedAsync)
    ref = system.spawn(Leaving, gate, log, parent=parent)
    ref.tell("go")
    await clock.advance(10 * STOP_TIMEOUT)
    assert log == []
    if how == "shutdown":
        ending = asyncio.ensure_future(system.shutdown(drain=False))
    else:
        (ref if how == "stop" else parent).stop()
        ending = asyncio.ensure_future(ref.terminated())  # type: ignore[arg-type]
    await clock.advance(STOP_TIMEOUT)
    await clock.advance(0.0)
    await ending
    assert log == ["cancelled"]


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_the_deadline_of_a_hook_starts_when_the_actor_that_stops_itself_comes_to_it(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 57
    gate, log = Gate(), list[str]()

    class Slow(Leaving):
        async def pre_stop(self) -> None:
            self.log.append("pre_stop")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.log.append("left")

    ref = system.spawn(Slow, gate, log)
    ref.tell("go")
    await clock.advance(10 * STOP_TIMEOUT)
    gate.set_result(None)
    await clock.advance(0.9 * STOP_TIMEOUT)
    assert log == ["done", "pre_stop"]
    await clock.advance(0.2 * STOP_TIMEOUT)
    await ended(system, ref)
    assert log == ["done", "pre_stop", "left"]


@pytest.mark.parametrize(
    ("given", "of_parent", "seconds"),
    [
        (1.0, None, 1.0),
        (10, None, 10.0),
        (None, 20.0, 20.0),
        (2.0, 20.0, 2.0),
        (None, None, STOP_TIMEOUT),
        (0, None, 0.0),
    ],
)
@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_a_spawn_says_how_long_its_actor_and_the_children_of_that_have_to_stop(
    system: ActorSystem, clock: ManualClock, given: Any, of_parent: float | None, seconds: float
) -> None:  # case 57, M5
    log: list[str] = []

    class Hanging(Actor[Any, Any]):
        async def receive(self, message: Any) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                log.append("left")

    parent = system.spawn(HookedAsync, stop_timeout=of_parent)
    ref = system.spawn(Hanging, parent=parent, stop_timeout=given)
    ref.tell("go")
    await clock.advance(0.0)
    ref.stop()
    if seconds:
        await clock.advance(0.9 * seconds)
        assert log == []
    await clock.advance(0.2 * seconds)
    await ended(system, ref)
    assert log == ["left"]


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_a_parent_waits_for_its_children_as_long_as_its_spawn_says(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 57, M5
    gate, log = Gate(), list[str]()

    class Slow(HookedAsync):
        async def post_stop(self) -> None:
            await gate
            log.append("done")

    parent = system.spawn(HookedAsync, stop_timeout=100.0)
    child = system.spawn(Slow, parent=parent)
    await child.started()
    parent.stop()
    await clock.advance(10 * STOP_TIMEOUT)
    gate.set_result(None)
    assert (await ended(system, parent)).kind is ExitKind.NORMAL
    assert log == ["done"]
    await system.shutdown()
    assert report_of(system).forced == ()


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_a_childs_spec_says_it_before_its_supervisors_spawn(system: ActorSystem, clock: ManualClock) -> None:
    # case 57, J10
    gate, log = Gate(), list[str]()

    class Hung(Leaving):
        async def receive(self, message: Any) -> str:
            try:
                await self.gate
            except asyncio.CancelledError:
                self.log.append("cancelled")
            return ""

    spec = Supervisor.spec([ChildSpec("slow", Hung, (gate, log), shutdown=1.0)])
    supervisor = system.spawn(Supervisor, spec, stop_timeout=100.0)
    await supervisor.started()
    child = actor_at(system, f"{supervisor.path}/slow")
    child.tell("go")
    await clock.advance(0.0)
    supervisor.stop()
    await clock.advance(1.1)
    await ended(system, supervisor)
    assert log == ["cancelled"]


@pytest.mark.parametrize("wrong", [-1, float("inf"), float("nan"), "5", True])
async def test_a_wrong_stop_timeout_is_refused_by_spawn(system: ActorSystem, wrong: Any) -> None:  # case 57, J9
    with pytest.raises(ConfigError, match=r"stop_timeout=.* must be a number of seconds, zero or more"):
        system.spawn(HookedAsync, stop_timeout=wrong)
    assert system.actors() == []


PATIENCE = 120.0
BRIEFLY = 1.0


async def ignore_cancellation() -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()


async def pass_deadlines(clock: ManualClock) -> None:
    for _ in range(5):
        await clock.advance(BRIEFLY + 1.0)


@pytest.mark.config(stop_timeout=BRIEFLY)
async def test_what_a_forced_actor_had_stashed_is_accounted_for(system: ActorSystem, clock: ManualClock) -> None:
    # case 57, B4, M11, M3, M5
    seen: list[str] = []

    class Stubborn(Actor[Any, Any]):
        async def receive(self, message: Any) -> None:
            self.ctx.stash()
            await ignore_cancellation()

        def post_stop(self) -> None:
            seen.append("post_stop")

    ref = system.spawn(Stubborn)
    asked = ref.ask("x", timeout=None)
    await clock.advance(0.0)
    ref.stop()
    await pass_deadlines(clock)
    async with asyncio.timeout(PATIENCE):
        assert (await ref.terminated()).kind is ExitKind.KILLED
        with pytest.raises(ActorTerminated):
            await asked
    ledger = system.ledger(ref)
    assert (ledger.sent, ledger.dead_lettered, ledger.queued) == (1, 1, 0)
    await system.shutdown()
    assert seen == ["post_stop"]


@pytest.mark.parametrize("hook", ["pre_stop", "on_terminated"])
@pytest.mark.config(stop_timeout=BRIEFLY)
async def test_a_hook_that_hangs_does_not_keep_what_is_queued_from_its_drain(
    system: ActorSystem, clock: ManualClock, hook: str
) -> None:  # B4, M10, M11, M3, M5
    other: Any = None

    class Hanging(Actor[Any, Any]):
        async def receive(self, message: Any) -> None:
            if message == "watch":
                self.ctx.watch(other)
                other.stop()
            else:
                self.ctx.stash()

    async def hang(self: Any, *arguments: Any) -> None:
        await ignore_cancellation()

    setattr(Hanging, hook, hang)
    probe = TestProbe(system)
    other = system.spawn(lambda ctx, message: None)
    ref = system.spawn(Hanging, drain=Drain.REDIRECT(probe.ref))
    ref.tell("stashed")
    if hook == "on_terminated":
        ref.tell("watch")
    await clock.advance(0.0)
    ref.stop()
    await pass_deadlines(clock)
    assert (await ref.terminated()).kind is ExitKind.KILLED
    await probe.expect("stashed")


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, ValueError])
@pytest.mark.parametrize("hooked", [True, False])
async def test_a_dead_letter_subscriber_that_raises_hinders_no_end(
    system: ActorSystem, error: Any, hooked: bool
) -> None:  # B4, M11, M3, M5, M8
    seen: list[str] = []

    class Plain(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            pass

    class Hooked(Plain):
        def post_stop(self) -> None:
            seen.append("post_stop")

    def raises(letter: object) -> None:
        raise error

    system.dead_letters.subscribe(raises)
    probe = TestProbe(system)
    ref = system.spawn(Hooked if hooked else Plain)
    await probe.watch(ref)
    ref.tell(1)
    ref.stop()
    await probe.expect_terminated(ref)
    assert seen == (["post_stop"] if hooked else [])


async def test_an_observer_that_raises_a_cancellation_is_taken_off_and_harms_nobody(system: ActorSystem) -> None:
    # B4, J16, M11, M3, M5
    class Observer:
        def actor_started(self, ref: object) -> None:
            raise asyncio.CancelledError

    system.observers.add(Observer())
    assert await system.spawn(lambda ctx, message: message).ask(1) == 1


async def test_a_dead_subscriber_is_told_of_no_more_dead_letters(system: ActorSystem) -> None:  # B4, M10, M11, M3, M5
    subscriber, target = system.spawn(lambda ctx, message: None), system.spawn(lambda ctx, message: None)
    system.dead_letters.subscribe(subscriber)
    for ref in (subscriber, target):
        ref.stop()
        await ref.terminated()
    for number in range(5):
        target.tell(number)
    assert system.ledger().dead_lettered == system.dead_letters.count == 5


@pytest.mark.config(stop_timeout=BRIEFLY)
async def test_a_cancellation_as_the_cause_of_a_failure_is_a_failure(system: ActorSystem, clock: ManualClock) -> None:
    # B4, J5, M11, M3, M5
    async def waits(ctx: Context, message: object) -> None:
        await asyncio.get_running_loop().create_future()

    ref = system.spawn(waits)
    ref.tell("in hand")
    await clock.advance(0.0)
    cause = asyncio.CancelledError()
    ref.fail(cause)
    await pass_deadlines(clock)
    async with asyncio.timeout(PATIENCE):
        assert (await ref.terminated()).cause is cause


async def test_whom_the_shutdown_cancels_did_not_fail(system: ActorSystem) -> None:  # case 57, B4, M11, M3, M5
    async def waits(ctx: Context, message: object) -> None:
        await asyncio.get_running_loop().create_future()

    ref = system.spawn(waits, name="one")
    ref.tell("in hand")
    await asyncio.sleep(0)
    ended = asyncio.ensure_future(ref.terminated())
    await asyncio.sleep(0)
    await system.shutdown(timeout=0.0)
    assert (await ended).kind in (ExitKind.SHUTDOWN, ExitKind.KILLED)
    assert report_of(system).forced == ("/one",)


@pytest.mark.real
@pytest.mark.parametrize("dead", ["the actor", "the system"])
async def test_threads_that_do_not_see_the_end_hold_nobody_up(system: ActorSystem, dead: str) -> None:
    # B4, J15, M11, M3, M5
    goal = 5_000 if dead == "the actor" else 100  # a full mailbox makes them wait for one another
    over, far_enough = threading.Event(), threading.Barrier(3)
    told: list[int] = []
    ref = system.spawn(lambda ctx, message: None, mailbox=MailboxConfig(capacity=10))
    if dead == "the actor":
        ref.stop()
        await ref.terminated()

    def flood() -> None:
        count = 0
        while not over.is_set():
            with contextlib.suppress(MailboxFull):
                ref.tell(count)
                count += 1
                if count == goal:
                    far_enough.wait(PATIENCE)
        told.append(count)

    floods = [asyncio.create_task(asyncio.to_thread(flood)) for _ in range(2)]
    enough = asyncio.create_task(asyncio.to_thread(far_enough.wait, PATIENCE))
    try:
        async with asyncio.timeout(PATIENCE):
            while not enough.done():
                await asyncio.sleep(0)
                assert system.ledger(ref).queued <= 64  # what waits to be taken in counts as queued
            if dead == "the system":
                await system.shutdown(timeout=5.0)
    finally:
        over.set()
        await asyncio.gather(enough, *floods)
    if dead == "the actor":
        await system.settle()
        assert system.ledger(ref).dead_lettered == sum(told) == system.dead_letters.count
    assert system.ledger().sent == sum(told) >= 2 * goal
