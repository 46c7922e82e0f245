"""Ticks that are not wanted any more, or find nobody to handle them, and what becomes of their timers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, Drain, MailboxConfig, ManualClock, Overflow, Timer, handles
from greenroom.testing import assert_ledger_balanced
from tests.conformance.cast import Listener
from tests.conformance.timekeepers import Tick, Timed, Waiting, after, cancel, every
from tests.gates import Event

UNWANTED: dict[str, Callable[[Context, Timer], object]] = {
    "cancelled": lambda ctx, timer: timer.cancel(),
    "cancelled_twice": lambda ctx, timer: (timer.cancel(), timer.cancel()),
    "key_cancelled": lambda ctx, timer: ctx.timers.cancel("key"),
    "all_keys_cancelled": lambda ctx, timer: ctx.timers.cancel_all(),
    "rekeyed": lambda ctx, timer: ctx.timers.start("key", 100.0, "much later"),
}


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("unwanted", UNWANTED.values(), ids=UNWANTED)
async def test_a_queued_tick_of_a_timer_that_is_ended_is_not_delivered(
    system: ActorSystem, clock: ManualClock, unwanted: Callable[[Context, Timer], object], periodic: bool
) -> None:  # case 49
    ticks: list[Tick] = []
    gate = Event()
    ref = system.spawn(Waiting, ticks)
    timer: Timer = await ref.ask(lambda ctx: ctx.timers.start("key", 1.0, "tick", every=1.0 if periodic else None))
    ref.tell(("hold", gate, lambda ctx: unwanted(ctx, timer)))
    await clock.advance(1.0)
    assert system.ledger(ref).queued == 1  # the tick
    ref.tell("after it")
    assert timer.active
    gate.set()
    await system.settle()
    assert not timer.active
    await clock.advance(50.0)
    assert [message for _, message in ticks] == ["after it"]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.dropped, ledger.dead_lettered) == (1, 0)
    assert system.dead_letters.count == 0
    ref.stop()


@pytest.mark.parametrize("periodic", [False, True])
async def test_a_timer_cancelled_in_the_handler_of_its_own_tick_ticks_no_more(
    system: ActorSystem, clock: ManualClock, periodic: bool
) -> None:  # case 49
    ticks: list[Tick] = []
    timers: list[Timer] = []
    said: list[bool] = []
    ref = system.spawn(Timed, ticks, lambda: said.append(timers[0].cancel()))
    timers.append(await ref.ask(every(1.0, "tick") if periodic else after(1.0, "tick")))
    await clock.advance(10.0)
    assert len(ticks) == 1
    assert not timers[0].active
    assert said == [True] or not periodic
    assert assert_ledger_balanced(system, ref).dropped == 0


@pytest.mark.parametrize("end", ["stop", "kill", "fail"])
async def test_the_timers_of_an_actor_end_with_it(
    system: ActorSystem, clock: ManualClock, end: str
) -> None:  # J11, case 49
    heard: list[Any] = []
    target = system.spawn(Listener, heard)
    await target.started()  # on a thread of its own, it has a deadline for that
    owner = system.spawn(Timed, [])
    timers: list[Timer] = [
        await owner.ask(after(1.0, "own")),
        await owner.ask(every(1.0, "own")),
        await owner.ask(lambda ctx: ctx.send_after(1.0, target, "other")),
        await owner.ask(lambda ctx: ctx.send_every(1.0, target, "other", fixed_rate=True)),
        await owner.ask(lambda ctx: ctx.timers.start("key", 1.0, "other", target=target)),
    ]
    await owner.ask(lambda ctx: ctx.set_receive_timeout(1.0))
    owner.fail(ValueError("bad")) if end == "fail" else getattr(owner, end)()
    await owner.terminated()
    assert not any(timer.active for timer in timers)
    assert system.snapshot().timers == 0
    await clock.advance(10.0)
    assert heard == []
    assert system.dead_letters.count == 0
    assert assert_ledger_balanced(system).dropped == 0


@pytest.mark.parametrize("hook", ["pre_stop", "post_stop"])
async def test_timers_started_on_the_way_out_are_freed_too(
    system: ActorSystem, clock: ManualClock, hook: str
) -> None:  # J11
    heard: list[Any] = []
    timers: list[Timer] = []
    target = system.spawn(Listener, heard)

    class Late(Listener):
        def start_some(self) -> None:
            timers.append(self.ctx.send_after(1.0, target, "after"))
            timers.append(self.ctx.send_every(1.0, target, "every"))
            timers.append(self.ctx.timers.start("key", 1.0, "key", target=target))
            self.ctx.set_receive_timeout(1.0)

    setattr(Late, hook, Late.start_some)
    ref = system.spawn(Late, [])
    await target.started()  # on a thread of its own, it has a deadline for that
    await ref.started()
    ref.stop()
    await ref.terminated()
    assert len(timers) == 3
    assert not any(timer.active for timer in timers)
    assert system.snapshot().timers == 0
    await clock.advance(10.0)
    assert heard == []


async def test_a_tick_queued_elsewhere_is_not_delivered_when_its_owner_has_ended(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 49, J11
    ticks: list[Tick] = []
    gate = Event()
    target = system.spawn(Waiting, ticks)
    owner = system.spawn(Timed, [])
    await owner.ask(lambda ctx: ctx.send_after(1.0, target, "tick"))
    target.tell(("hold", gate, id))
    await clock.advance(1.0)
    owner.stop()
    await owner.terminated()
    gate.set()
    await system.settle()
    assert ticks == []
    ledger = assert_ledger_balanced(system, target)
    assert (ledger.dropped, ledger.dead_lettered) == (1, 0)


async def test_a_tick_for_an_actor_that_has_ended_is_a_dead_letter_from_its_owner(
    system: ActorSystem, clock: ManualClock
) -> None:  # J8, J11
    target = system.spawn(Listener, [])
    owner = system.spawn(Timed, [])
    timer: Timer = await owner.ask(lambda ctx: ctx.send_after(1.0, target, "tick"))
    target.stop()
    await target.terminated()
    await clock.advance(1.0)
    letter = system.dead_letters.recent()[-1]
    assert (letter.message, letter.recipient, letter.time) == ("tick", target, 1.0)
    assert not timer.active
    assert assert_ledger_balanced(system, target).dead_lettered == 1
    assert letter.sender == owner


@pytest.mark.parametrize("fixed_rate", [False, True])
@pytest.mark.parametrize(
    ("policy", "column"),
    [(Overflow.REJECT, "dead_lettered"), (Overflow.DROP_NEW, "dropped"), (Overflow.DROP_OLD, "dropped")],
)
async def test_a_periodic_timer_outlives_a_full_mailbox(
    system: ActorSystem, clock: ManualClock, policy: Overflow, column: str, fixed_rate: bool
) -> None:  # J11, B4
    ticks: list[Tick] = []
    gate = Event()
    ref = system.spawn(Waiting, ticks, mailbox=MailboxConfig(capacity=1, overflow=policy))
    timer: Timer = await ref.ask(every(1.0, "tick", fixed_rate))
    ref.tell(("hold", gate, id))
    await clock.advance(0.0)
    if policy is not Overflow.DROP_OLD:
        ref.tell("in the way")
    await clock.advance(1.0)
    if policy is Overflow.DROP_OLD:
        ref.tell("in the way")
    gate.set()
    await system.settle()
    assert [message for _, message in ticks] == ["in the way"]
    ledger = assert_ledger_balanced(system, ref)
    assert getattr(ledger, column) == 1
    assert ledger.rejected == 0  # nobody could be told
    await clock.advance(2.0)
    assert [now for now, message in ticks if message == "tick"] == [2.0, 3.0]
    await ref.ask(cancel(timer))


@pytest.mark.parametrize("fails", [False, True])
async def test_a_periodic_timer_outlives_a_tick_that_is_not_handled_well(
    system: ActorSystem, clock: ManualClock, fails: bool
) -> None:  # J11
    heard: list[float] = []

    class Deaf(Actor[Any, Any]):
        @handles(int)
        def count(self, message: int) -> None: ...

    def broken(ctx: Context, message: Any) -> None:
        heard.append(ctx.now())
        raise ValueError("bad")

    target: ActorRef[Any, Any] = system.spawn(broken) if fails else system.spawn(Deaf)
    owner = system.spawn(Timed, [])
    await owner.ask(lambda ctx: ctx.send_every(1.0, target, "tick"))
    await clock.advance(3.5)
    ledger = assert_ledger_balanced(system, target)
    if fails:
        assert (ledger.failed, heard) == (1, [1.0])  # it has ended, so later ones are dead letters
    else:
        assert ledger.unhandled == 3


@pytest.mark.parametrize("redirected", [False, True])
async def test_a_cancelled_tick_that_is_still_stashed_when_its_actor_stops_is_dropped(
    system: ActorSystem, clock: ManualClock, redirected: bool
) -> None:  # case 49, B4
    """ "A tick discarded after its timer was cancelled is `dropped`": neither a dead letter nor anybody else's."""
    heard: list[Any] = []

    class Hoarder(Timed):
        def receive(self, message: Any) -> Any:
            if message == "tick":
                self.ctx.stash()
                return None
            return super().receive(message)

    heir = system.spawn(Listener, heard)
    ref = system.spawn(Hoarder, [], drain=Drain.REDIRECT(heir) if redirected else None)
    timer: Timer = await ref.ask(after(1.0, "tick"))
    await clock.advance(1.0)
    assert system.ledger(ref).queued == 1
    assert await ref.ask(cancel(timer))
    ref.stop()
    await ref.terminated()
    await system.settle()
    assert heard == []
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.dropped, ledger.dead_lettered, ledger.redirected) == (1, 0, 0)
    assert system.dead_letters.count == 0
