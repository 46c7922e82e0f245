"""Restarts, the stash and timers, with actors in worker processes."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import pytest

from greenroom import (
    ActorTerminated,
    Behaviors,
    ExitKind,
    MailboxConfig,
    ManualClock,
    OnRestart,
    ReceiveTimeout,
    Supervision,
)
from greenroom.errors import MessageDropped, StashFull
from greenroom.testing import TestProbe
from tests.system.dispatchers.processes.cast import (
    AsyncLively,
    AsyncPuppet,
    Careful,
    Door,
    Later,
    Lively,
    Puppet,
    Served,
    all_of,
    answering,
    began,
    call,
    closed,
    do,
    say,
    use,
)
from tests.system.dispatchers.processes.conformance.stage import (
    AT_ONCE,
    BAD,
    RESTARTING,
    RESUME,
    RUNNING,
    STOPS,
    Ear,
    Gate,
    assert_legal,
    away,
    held,
    pass_time,
    stage,
)

GONE = ["pre_restart", "post_stop"]
BORN_AGAIN = ["init", "pre_start", "post_restart", "post_start"]


async def test_a_restart_keeps_ref_and_mailbox_and_runs_its_hooks_in_order() -> None:  # case 45, M6
    async with stage(supervision=AT_ONCE) as system:
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


async def test_with_clear_what_was_queued_is_dead_letters_and_what_comes_then_is_kept() -> None:  # case 46
    async with stage() as system:
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


async def test_children_are_stopped_before_the_new_incarnation_starts() -> None:  # case 47
    async with stage(supervision=AT_ONCE) as system:
        heard: list[Any] = []
        witness, gate = system.spawn(Ear, heard), Gate(system)
        child = do("spawn", AsyncLively, witness, "child", {"post_stop": gate.hold}, name="c", dispatcher="process")
        ref = away(system, AsyncLively, witness, "x", {"pre_start": child}, name="x")
        await ref.started()
        old = system.actor("/x/c")
        assert old is not None
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


async def test_a_pre_restart_that_raises_is_logged_and_the_restart_goes_on(caplog: Any) -> None:  # case 48
    async with stage(supervision=AT_ONCE) as system:
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
    assert any("in the hook" in record.getMessage() + str(record.exc_text) for record in caplog.records) or any(
        record.exc_info and "in the hook" in str(record.exc_info[1]) for record in caplog.records
    )


async def test_a_snapshot_is_restored_after_a_restart_and_an_inspection_shows_it() -> None:  # M6
    async with stage(supervision=AT_ONCE) as system:
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


async def test_a_tick_that_is_queued_and_not_wanted_any_more_is_not_delivered() -> None:  # case 49, J11
    clock = ManualClock()
    async with stage(clock=clock, supervision=AT_ONCE) as system:
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


async def test_timers_ring_in_order_and_end_with_their_actor() -> None:  # case 49, J11
    clock = ManualClock()
    async with stage(clock=clock) as system:
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


async def test_a_periodic_timer_and_a_slow_handler_make_no_backlog() -> None:  # case 50
    clock = ManualClock()
    async with stage(clock=clock) as system:
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


async def test_a_receive_timeout_comes_when_nothing_else_does() -> None:  # J11
    clock = ManualClock()
    async with stage(clock=clock) as system:
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


async def test_what_is_put_aside_comes_back_in_order_ahead_of_newer_messages() -> None:  # case 51
    async with stage(supervision=AT_ONCE) as system:
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


async def test_a_stash_is_served_one_at_a_time_in_order_with_as_much_work_as_messages() -> None:  # case 51
    async with stage(supervision=STOPS) as system:
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


async def test_a_full_stash_is_an_error_and_nothing_is_lost() -> None:  # case 51
    async with stage(supervision=STOPS) as system:
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


async def test_an_actor_becomes_another_and_is_itself_again() -> None:  # M13, J3
    clock = ManualClock()
    async with stage(clock=clock, supervision=AT_ONCE) as system:
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


async def test_what_is_piped_to_an_actor_itself_comes_as_a_message() -> None:  # M12
    async with stage() as system:
        probe = TestProbe(system)
        ref = away(system, Puppet, probe.ref, supervision=STOPS)
        ref.tell(Later("value"))
        await probe.expect("value")
        ref.tell(Later("value", mapped=True))
        await probe.expect(("mapped", "value"))
        ref.tell(Later(BAD, mapped=True))
        word, error = await probe.receive()
        assert (word, repr(error)) == ("mapped", repr(BAD))
        ref.tell(Later(BAD))
        reason = await ref.terminated()
        assert (reason.kind, repr(reason.cause)) == (ExitKind.FAIL, repr(BAD))
