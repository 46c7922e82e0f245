"""Those who wait around a restart: askers, `settle()`, receive timeouts, and the account of a shutdown (M6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    Backoff,
    ChildSpec,
    ExitKind,
    ManualClock,
    MonotonicClock,
    ReceiveTimeout,
    State,
    Supervision,
    errors,
)
from greenroom.errors import SettleTimeout
from tests.conformance.askers import outcome, until
from tests.conformance.incarnations import AT_ONCE, BAD, AsyncPhoenix, Book, Gate, Phoenix, Ref, runs, slow, soon, turns
from tests.conformance.lives import ended
from tests.supervision.staff import Panic, child_of, supervise

if TYPE_CHECKING:
    from tests.conftest import Play

STOP_TIMEOUT = 3.0


# -- settle()


@pytest.mark.parametrize("supervised", [False, True], ids=["plain", "by a supervisor"])
@pytest.mark.config(clock=MonotonicClock())
async def test_settle_waits_for_what_is_queued_behind_a_restart_and_for_no_other_restart(
    play: Play, system: ActorSystem, supervised: bool
) -> None:  # M6
    book = Book()
    resting: Ref = system.spawn(Phoenix, Book(), supervision=slow(60.0))
    resting.tell(BAD)
    ref: Ref
    if supervised:
        child = ChildSpec("a", Phoenix, (book,), backoff=Backoff(min=0.02, max=0.02))
        ref = await child_of(await supervise(system, [child], intensity=None), "a")
    else:
        ref = system.spawn(Phoenix, book, supervision=slow(0.02, max_restarts=None))
    for message in ("first", BAD, "second", BAD, "third"):
        ref.tell(message)
    await system.settle()
    assert book.heard == ["first", "second", "third"]
    assert (book.lives, ref.state, resting.state) == (3, State.RUNNING, State.RESTARTING)
    if play.backend != "spread":  # to look at another loop takes time
        await system.settle(timeout=0.0)
    assert system.ledger().queued == 0


@pytest.mark.config(clock=MonotonicClock())
async def test_settle_that_waits_too_long_for_a_restart_says_whose(system: ActorSystem) -> None:  # M6
    system.spawn(Phoenix, Book(), name="idle", supervision=slow(60.0)).tell(BAD)
    await system.settle()
    ref: Ref = system.spawn(Phoenix, Book(), name="slow", supervision=slow(60.0))
    ref.tell(BAD)
    ref.tell("queued")
    with pytest.raises(SettleTimeout) as caught:
        await system.settle(timeout=0.05)
    assert "/slow" in str(caught.value)
    assert "/slow" in caught.value.busy
    assert "/idle" not in caught.value.busy
    ref.restart()
    await system.settle()
    assert runs(ref)


@pytest.mark.parametrize("how", ["stop", "kill", "restart"])
@pytest.mark.config(clock=MonotonicClock())
async def test_settle_goes_on_when_the_restart_that_it_waits_for_is_given_up_or_comes_sooner(
    system: ActorSystem, how: str
) -> None:  # M6
    ref: Ref = system.spawn(Phoenix, Book(), supervision=slow(60.0))
    ref.tell(BAD)
    ref.tell("queued")
    settling = asyncio.ensure_future(system.settle())
    await until(lambda: ref.state is State.RESTARTING)
    await turns(20)
    assert not settling.done()
    getattr(ref, how)()
    await soon(system, settling)
    assert ref.state is (State.RUNNING if how == "restart" else State.TERMINATED)


async def test_settle_does_not_wait_for_a_clock_that_stands_still(
    system: ActorSystem, clock: ManualClock
) -> None:  # M6
    book = Book()
    ref: Ref = system.spawn(Phoenix, book, supervision=slow(1.0))
    ref.tell(BAD)
    ref.tell("queued")
    await soon(system, system.settle())
    assert (ref.state, book.heard) == (State.RESTARTING, [])
    await clock.advance(1.0)
    assert (ref.state, book.heard) == (State.RUNNING, ["queued"])


# -- receive timeouts that floating point rounds


class Watchful(ManualClock):
    """Notices that it is read again and again at one moment; then it creeps on, for nobody else would get a turn."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: dict[float, int] = {}
        self.stuck: set[float] = set()

    def now(self) -> float:
        moment = super().now()
        self.reads[moment] = reads = self.reads.get(moment, 0) + 1
        if reads > 10_000:
            self.stuck.add(moment)
            return moment + 1e-6
        return moment


@pytest.mark.parametrize("by", ["setting", "message"])
def test_a_receive_timeout_comes_once_whatever_its_time_is_rounded_to(play: Play, by: str) -> None:  # M6, J11
    tenths = [number / 10 for number in range(1, 21)]
    came: list[tuple[float, float, float]] = []

    class Silent(Actor[Any, Any]):
        def __init__(self, start: float, seconds: float) -> None:
            self.start, self.seconds = start, seconds

        def receive(self, message: Any) -> None:
            if message == ReceiveTimeout():
                came.append((self.start, self.seconds, self.ctx.now()))
                self.ctx.set_receive_timeout(None)
            elif message == "set":
                self.ctx.set_receive_timeout(self.seconds)

    for start in tenths:
        clock = Watchful()

        async def program(system: ActorSystem, start: float = start, clock: Watchful = clock) -> None:
            # By a message, the timeout has begun before, and begins anew.
            waits = tenths if by == "setting" else [seconds for seconds in tenths if seconds > start]
            refs: list[Ref] = [system.spawn(Silent, start, seconds) for seconds in waits]
            if by == "message":
                for ref in refs:
                    ref.tell("set")
            await clock.advance(start)
            for ref in refs:
                ref.tell("set" if by == "setting" else "hello")
            await clock.advance(5.0)
            assert clock.stuck == set()
            assert [seconds for _, seconds, _ in came] == waits
            for begun, seconds, moment in came:
                assert moment == pytest.approx(begun + seconds, abs=1e-9)
            came.clear()

        play(program, clock=clock)


# -- handlers that were broken off


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_who_asked_what_was_broken_off_for_a_restart_is_told_so_and_of_no_end(
    system: ActorSystem, clock: ManualClock, stubborn: bool
) -> None:  # M6, case 26
    ref: Ref = system.spawn(AsyncPhoenix, Book())
    gate = Gate(stubborn)
    asked = ref.ask(gate.wait, timeout=None)
    await gate.entered.wait()
    ref.restart()
    await clock.advance(STOP_TIMEOUT + 2.0)
    error = await soon(system, outcome(asked))
    gate.opened.set()
    assert isinstance(error, errors.HandlerBroken), error
    assert (error.code, error.ref) == ("handler_broken", ref)
    if not stubborn:
        assert isinstance(error.__cause__, asyncio.CancelledError)
    assert runs(ref)
    assert await soon(system, ref.ask("there", timeout=None)) == "there"


CAUSES: list[BaseException] = [Panic("on purpose"), asyncio.CancelledError("on purpose"), GeneratorExit("on purpose")]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: type(cause).__name__)
@pytest.mark.parametrize("kind", [Phoenix, AsyncPhoenix], ids=["sync", "async"])
async def test_what_is_no_exception_reaches_an_asker_wrapped_and_as_an_end_only_if_it_is_one(
    system: ActorSystem, kind: Any, cause: BaseException
) -> None:  # M6, M7, case 26
    def fail(_: Any) -> None:
        raise cause.with_traceback(None)

    ended_too: Ref = system.spawn(kind, Book())
    error = await soon(system, outcome(ended_too.ask(fail, timeout=None)))
    assert isinstance(error, ActorTerminated), error
    assert error.__cause__ is cause
    ref: Ref = system.spawn(kind, Book(), supervision=AT_ONCE)
    error = await soon(system, outcome(ref.ask(fail, timeout=None)))
    assert isinstance(error, errors.HandlerBroken), error
    assert (error.ref, error.__cause__) == (ref, cause)
    assert type(cause).__name__ in str(error)
    assert await soon(system, ref.ask(lambda me: me.number, timeout=None)) == 2


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_who_asked_one_that_was_told_to_stop_hears_of_its_end_though_a_restart_was_asked_for_too(
    system: ActorSystem,
    clock: ManualClock,
) -> None:  # M5, M6, case 57
    async def broken_off(system: ActorSystem, *orders: str) -> tuple[Ref, Any]:
        ref: Ref = system.spawn(AsyncPhoenix, Book())
        gate = Gate()
        asked = ref.ask(gate.wait, timeout=None)
        await gate.entered.wait()
        for order in orders:
            getattr(ref, order)()
        await clock.advance(STOP_TIMEOUT + 2.0)
        return ref, await soon(system, outcome(asked))

    ref, error = await broken_off(system, "stop")
    assert isinstance(error, ActorTerminated), error
    assert (await ended(system, ref)).kind is ExitKind.KILLED
    ref, error = await broken_off(system, "restart")
    assert isinstance(error, errors.HandlerBroken), error
    assert runs(ref)
    ref, error = await broken_off(system, "stop", "restart")
    assert isinstance(error, ActorTerminated), error
    assert (await ended(system, ref)).kind is ExitKind.KILLED


@pytest.mark.config(stop_timeout=STOP_TIMEOUT, supervision=Supervision(max_restarts=None))
async def test_only_those_are_reported_as_forced_whose_end_was(
    system: ActorSystem, clock: ManualClock
) -> None:  # M11, M6, case 57
    async def break_off(ref: Ref, order: str) -> None:
        gate = Gate()
        asked = ref.ask(gate.wait, timeout=None)
        await gate.entered.wait()
        getattr(ref, order)()
        await clock.advance(STOP_TIMEOUT + 2.0)
        assert gate.cancelled == 1
        assert isinstance(await soon(system, outcome(asked)), Exception)

    gentle, forced, both = (system.spawn(AsyncPhoenix, Book(), name=name) for name in ("gentle", "forced", "both"))
    await break_off(gentle, "restart")
    await break_off(forced, "stop")
    await break_off(both, "restart")
    await break_off(both, "stop")
    assert [runs(ref) for ref in (gentle, forced, both)] == [True, False, False]
    assert await soon(system, gentle.ask("there", timeout=None)) == "there"
    await system.shutdown()
    assert system.report is not None
    assert sorted(system.report.forced) == ["/both", "/forced"]
