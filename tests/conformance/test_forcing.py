"""What does not stop by itself is forced to, in time, and named (case 57, M5, M11)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, ActorTerminated, Context, ExitKind, ManualClock, OnExit, State, SystemConfig
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import Hooked, HookedAsync, Plain, assert_is_a_life, ended, report_of
from tests.conformance.sending import until
from tests.gates import Gate, turns

STOP_TIMEOUT = 3.0
GRACE = 2.0
"""More than enough for a cancelled handler, before it is abandoned."""
PATIENCE = 120.0


class Deaf(Actor[Any, Any]):
    """Its handler and hooks wait for something that never happens; `stubborn` ones swallow their cancellation."""

    def __init__(self, log: list[str], hangs_in: str = "receive", stubborn: bool = False) -> None:
        self.log = log
        self.hangs_in = hangs_in
        self.stubborn = stubborn

    async def play(self, what: str) -> None:
        self.log.append(what)
        if what != self.hangs_in:
            return
        try:
            while True:
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    self.log.append(f"{what} cancelled")
                    if not self.stubborn:
                        raise
        finally:
            self.log.append(f"{what} left")

    async def receive(self, message: Any) -> Any:
        await self.play("receive")
        return message

    async def pre_start(self) -> None:
        await self.play("pre_start")

    async def post_start(self) -> None:
        await self.play("post_start")

    async def pre_stop(self) -> None:
        await self.play("pre_stop")

    async def post_stop(self) -> None:
        await self.play("post_stop")


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.config(stop_timeout=STOP_TIMEOUT, history=True)
async def test_a_handler_that_ignores_a_stop_is_cancelled_at_the_deadline(
    system: ActorSystem, clock: ManualClock, stubborn: bool
) -> None:  # case 57
    log: list[str] = []
    probe = TestProbe(system)
    ref = system.spawn(Deaf, log, "receive", stubborn, name="deaf")
    await probe.watch(ref)
    asked = ref.ask("hang", timeout=None)
    ref.tell("queued")
    await clock.advance(0.0)
    ref.stop()
    await clock.advance(STOP_TIMEOUT - 0.1)
    assert ref.is_alive
    assert "receive cancelled" not in log
    await clock.advance(0.2)
    assert "receive cancelled" in log
    await clock.advance(GRACE)
    reason = await ended(system, ref)
    # The cancellation was asked for: that is no failure of the actor.
    assert reason.kind in (ExitKind.NORMAL, ExitKind.KILLED)
    assert State.FAILED not in ref.history
    assert_is_a_life(ref.history, killed=True)
    await probe.expect_terminated(ref)
    with pytest.raises(ActorTerminated):
        await asked
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.failed, ledger.dead_lettered) == (1, 1)
    await system.shutdown()
    assert system.report is not None
    assert (system.report.forced, system.report.forced_count) == (("/deaf",), 1)
    assert log.count("receive left") == 1
    assert log[-1] == "post_stop"


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.parametrize("hangs_in", ["pre_start", "post_start", "receive", "pre_stop", "post_stop"])
@pytest.mark.parametrize("how", ["stop", "kill", "by its parent", "shutdown"])
@pytest.mark.config(stop_timeout=STOP_TIMEOUT, history=True)
async def test_nothing_that_hangs_keeps_an_actor_from_ending(
    system: ActorSystem, clock: ManualClock, how: str, hangs_in: str, stubborn: bool
) -> None:  # case 57, M3, M5
    log: list[str] = []
    parent = system.spawn(Plain, name="parent")
    ref = system.spawn(Deaf, log, hangs_in, stubborn, name="deaf", parent=parent)
    if hangs_in == "receive":
        ref.tell("hang")
    await clock.advance(0.0)
    shutdown: asyncio.Future[None] | None = None
    if how == "by its parent":
        parent.stop()
    elif how == "shutdown":
        shutdown = asyncio.ensure_future(system.shutdown(drain=False))
        await turns(5)
    else:
        getattr(ref, how)()
    await clock.advance(STOP_TIMEOUT + 2 * GRACE)
    reason = await ended(system, ref)
    if how == "kill":
        assert reason.kind is ExitKind.KILLED
    assert_is_a_life(ref.history, killed=True)
    if how == "by its parent":
        await ended(system, parent)
    if shutdown is not None:
        await shutdown
    await system.shutdown()
    assert system.report is not None
    assert system.report.terminated == system.report.started == 2
    if not (how == "kill" and hangs_in == "pre_stop"):  # a kill leaves that one out
        assert f"{hangs_in} cancelled" in log
        assert log.count(f"{hangs_in} left") == 1
    if stubborn or how != "kill":
        assert "/parent/deaf" in system.report.forced or (how, hangs_in) == ("kill", "pre_stop")


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_the_deadlines_of_a_shutdown_follow_a_manual_clock(system: ActorSystem, clock: ManualClock) -> None:
    # case 57, M11
    log: list[str] = []
    ref = system.spawn(Deaf, log, "receive", True, name="deaf")
    ref.tell("hang")
    await clock.advance(0.0)
    system.stop()
    await clock.advance(STOP_TIMEOUT + GRACE)
    try:
        async with asyncio.timeout(120.0):
            await system.stopped()
    finally:
        await clock.advance(60.0)
    assert system.report is not None
    assert system.report.forced == ("/deaf",)
    assert STOP_TIMEOUT <= system.report.seconds <= STOP_TIMEOUT + GRACE
    assert log[-1] == "post_stop"


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_an_order_to_end_is_no_reason_to_force_an_actor_that_has_ended(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 57
    gate = Gate()
    ref = system.spawn(HookedAsync)
    ref.tell(lambda _: gate)
    await clock.advance(0.0)
    ref.stop()
    await clock.advance(STOP_TIMEOUT - 1.0)
    gate.set_result(None)
    await ended(system, ref)
    other = system.spawn(HookedAsync)  # in the same slot
    other.tell(lambda _: asyncio.get_running_loop().create_future())
    await clock.advance(10 * STOP_TIMEOUT)
    assert other.is_alive
    other.kill()
    await system.shutdown()
    assert report_of(system).forced == ()


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_the_rest_of_a_tree_stops_gently_though_one_leaf_does_not(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 57
    log: list[str] = []
    top = system.spawn(Hooked, log, name="top")
    system.spawn(Hooked, log, parent=top)
    deaf = system.spawn(Deaf, [], "receive", True, parent=top, name="deaf")
    deaf.tell("hang")
    await clock.advance(0.0)
    log.clear()
    top.stop()
    await clock.advance(STOP_TIMEOUT - 0.1)
    assert log == ["pre_stop", "pre_stop", "post_stop"]  # the parent's own comes last, after the deaf one's end
    await clock.advance(2 * GRACE)
    assert (await ended(system, top)).kind is ExitKind.NORMAL
    await system.shutdown()
    assert log[-1] == "post_stop"
    assert len(log) == 4
    assert report_of(system).forced == ("/top/deaf",)


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_a_forced_actor_is_named_in_the_log(
    system: ActorSystem, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:  # M11
    with caplog.at_level(logging.INFO, logger="greenroom"):
        ref = system.spawn(Deaf, [], "receive", True, name="deaf")
        ref.tell("hang")
        await clock.advance(0.0)
        ref.stop()
        await clock.advance(STOP_TIMEOUT + GRACE)
        await ended(system, ref)
        await system.shutdown()
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert any("/deaf" in line for line in warnings)
    assert "/deaf" in warnings[-1]  # the shutdown's own account
    assert "1 forced" in warnings[-1]


async def test_a_shutdown_with_less_time_than_its_actors_forces_them(system: ActorSystem) -> None:  # case 57, M11
    log: list[str] = []
    parent = system.spawn(Plain, name="parent")
    ref = system.spawn(Deaf, log, "receive", True, name="deaf", parent=parent)
    asked = ref.ask("hang", timeout=None)
    ref.tell("queued")
    await until(lambda: system.ledger(ref).in_hand)
    await system.shutdown(timeout=0.05)
    assert system.phase == "stopped"
    with pytest.raises(ActorTerminated):
        await asked
    assert not ref.is_alive
    assert not parent.is_alive
    assert system.report is not None
    assert "/parent/deaf" in system.report.forced
    assert (system.report.started, system.report.terminated) == (2, 2)
    assert "receive left" in log


@pytest.mark.real
async def test_a_shutdown_ends_in_time_though_the_systems_clock_stands_still(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 57, M11
    ref = system.spawn(Deaf, [], "receive", True, name="deaf")
    ref.tell("hang")
    await until(lambda: system.ledger(ref).in_hand)
    await system.shutdown(timeout=0.01)
    assert report_of(system).forced == ("/deaf",)


@pytest.mark.parametrize("kind", [Plain, Hooked, HookedAsync])
async def test_a_shutdown_without_any_time_ends_everybody_all_the_same(system: ActorSystem, kind: Any) -> None:
    # case 57, M11
    refs = [system.spawn(kind) for _ in range(50)]
    children = [system.spawn(kind, parent=ref) for ref in refs]
    await system.settle()
    for ref in refs + children:
        ref.tell("queued")
    await system.shutdown(timeout=0)
    assert not any(ref.is_alive for ref in refs + children)
    assert system.report is not None
    assert (system.report.started, system.report.terminated) == (100, 100)


@pytest.mark.real
async def test_a_handler_that_is_always_busy_is_forced_too(system: ActorSystem, clock: ManualClock) -> None:  # case 57
    async def spin(ctx: Context, message: Any) -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)

    system.spawn(spin, name="spinning").tell("go")
    quiet = system.spawn(Plain, name="quiet")
    assert await quiet.ask("hello") == "hello"
    stopping = asyncio.ensure_future(system.shutdown(timeout=PATIENCE, drain=False))
    await quiet.terminated()
    while not stopping.done():
        clock.step(clock.now() + PATIENCE)  # from deadline to deadline; advance() would wait until nobody is busy
        await asyncio.sleep(0)
    await system.shutdown()
    assert report_of(system).forced == ("/spinning",)


class Blocker(Actor[Any, Any]):
    """Holds the system's thread."""

    def __init__(self, held: threading.Event, release: threading.Event, hook: str = "receive") -> None:
        self.held = held
        self.release = release
        self.hook = hook

    def block(self, what: str) -> None:
        if what == self.hook:
            self.held.set()
            assert self.release.wait(PATIENCE)

    def receive(self, message: Any) -> str:
        self.block("receive")
        return "at last"

    def pre_start(self) -> None:
        self.block("pre_start")

    def pre_stop(self) -> None:
        self.block("pre_stop")


@pytest.mark.parametrize("hook", ["receive", "pre_start", "pre_stop"])
def test_a_sync_handler_that_blocks_is_named_and_left_behind(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    # case 57
    held, release = threading.Event(), threading.Event()
    with ActorSystem() as system:
        others = [system.spawn(Plain) for _ in range(3)]
        ref = system.spawn(Blocker, held, release, hook, name="blocker")
        if hook == "receive":
            ref.tell("hold it")
        elif hook == "pre_stop":
            ref.stop()
        assert held.wait(PATIENCE)
        closed = threading.Event()

        def close() -> None:
            system.close(timeout=0.1)
            closed.set()

        closer = threading.Thread(target=close, daemon=True)
        closer.start()
        try:
            assert closed.wait(PATIENCE), "close() did not return while a handler held the thread"
            assert report_of(system).forced == ("/blocker",)
            assert any("/blocker" in record.getMessage() for record in caplog.records)
        finally:
            release.set()
            closer.join(PATIENCE)
    # Let go, it ends as it should have; the second close() of the `with` has waited for that.
    assert not ref.is_alive
    assert not any(other.is_alive for other in others)
    assert_ledger_balanced(system)


def test_a_blocking_handler_that_returns_in_time_is_waited_for() -> None:  # case 57
    held, release = threading.Event(), threading.Event()
    with ActorSystem() as system:
        ref = system.spawn(Blocker, held, release, name="blocker")
        ref.tell("hold it")
        assert held.wait(PATIENCE)
        closer = threading.Thread(target=system.close, daemon=True)
        closer.start()
        release.set()
        closer.join(PATIENCE)
        assert not closer.is_alive()
    assert report_of(system).forced == ()
    assert system.ledger(ref).handled == 1
    assert_ledger_balanced(system)


def test_an_async_handler_that_never_ends_does_not_hold_up_a_sync_program() -> None:  # case 57
    log: list[str] = []
    begun = threading.Event()
    act: Callable[[], None]

    class Heard(Deaf):
        async def receive(self, message: Any) -> Any:
            begun.set()
            return await super().receive(message)

    with ActorSystem(config=SystemConfig(stop_timeout=0.05, on_exit=OnExit.DISCARD)) as system:
        system.spawn(Heard, log, name="deaf").tell("hang")
        assert begun.wait(PATIENCE)
        act = system.close
        act()
        act()  # and again
    assert report_of(system).forced == ("/deaf",)
    assert_ledger_balanced(system)
