"""Asks and their replies, with actors in worker processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from greenroom import (
    ActorTerminated,
    AskDeadlock,
    AskTimeout,
    ExitKind,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    Process,
    Supervision,
)
from greenroom.errors import AlreadyReplied, HandlerBroken, Unhandled
from tests.conformance.askers import until
from tests.system.dispatchers.processes.cast import (
    Asker,
    AsyncBooking,
    AsyncPuppet,
    Booking,
    Door,
    Full,
    Puppet,
    Try,
    Typed,
    all_of,
    call,
    do,
    say,
    use,
)
from tests.system.dispatchers.processes.conformance.stage import (
    AT_ONCE,
    BAD,
    ESCALATE,
    FAILED,
    RESTART,
    RESTARTING,
    RESUME,
    STOP,
    STOPS,
    TERMINATED,
    Ear,
    Gate,
    assert_legal,
    away,
    held,
    stage,
)


@pytest.mark.parametrize("kind", [Booking, AsyncBooking])
async def test_an_asker_gets_a_declared_refusal_and_the_actor_goes_on(
    kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage(supervision=STOPS) as system:
        ref = away(system, kind, name="booking")
        for cause in [Full("none left"), UnicodeError("what?")] * 3:
            with pytest.raises(type(cause), match=str(cause)):
                await ref.ask(cause)
        asked = [ref.ask(message) for message in (1, Full("x"), 2)]  # they travel together
        assert await asked[0] == 7
        with pytest.raises(Full):
            await asked[1]
        assert await asked[2] == 9
        for _ in range(3):
            ref.tell(Full("told"))
        assert await ref.ask("how many?") == 13
        await system.settle()
        ledger = system.ledger(ref)
        assert (ledger.handled, ledger.failed, ledger.refused) == (13, 0, 10)
        told = [record for record in caplog.records if "refused" in record.getMessage()]
        assert len(told) == 3
        assert "/booking refused Full" in told[0].getMessage()
        assert "Full: told (declared in `answers` as Full)" in told[0].getMessage()
        ref.tell(KeyError("not declared"))
        assert (await ref.terminated()).kind is ExitKind.FAIL


async def test_no_reply_in_time_is_an_ask_timeout_and_the_late_one_a_dead_letter() -> None:  # case 23
    clock = ManualClock()
    async with stage(clock=clock) as system:
        for late, asker in enumerate(("home", "away"), start=1):
            ref = away(system, Puppet)
            if asker == "home":
                asked = asyncio.ensure_future(ref.ask(do("defer_reply"), timeout=2.0))
            else:
                far = away(system, AsyncPuppet)
                asked = asyncio.ensure_future(far.ask(call(ref, "ask", do("defer_reply"), timeout=2.0), timeout=None))
            while system.ledger(ref).handled == 0:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0)
            await clock.advance(1.5)
            assert not asked.done()
            await clock.advance(0.5)
            with pytest.raises(AskTimeout):
                await asked
            await ref.ask(use(0, "send", "too late"))
            await system.settle()
            assert [letter.message for letter in system.dead_letters.recent()] == ["too late"] * late
            assert system.ledger().late_replies == late


async def test_a_target_that_dies_mid_ask_is_told_at_once_with_the_reason() -> None:  # case 24
    async with stage() as system:
        far = away(system, AsyncPuppet)
        for end, kind in (("stop", ExitKind.NORMAL), ("kill", ExitKind.KILLED), ("fail", ExitKind.FAIL)):
            ref, gate, _ = await held(system, supervision=STOPS)
            other = away(system, Puppet, supervision=STOPS)
            waiting = [
                ref.ask("queued", timeout=None),
                other.ask(do("defer_reply"), timeout=None),
                far.ask(Try(call(other, "ask", do("defer_reply"), timeout=None)), timeout=None),
            ]
            while system.ledger(other).handled < 2:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0)
            for one in (ref, other):
                getattr(one, end)(*([BAD] if end == "fail" else []))
            gate.open()
            for asked in waiting:
                try:
                    error = await asked
                except ActorTerminated as exc:
                    error = exc
                assert isinstance(error, ActorTerminated)
                assert error.reason.kind is kind  # type: ignore[attr-defined]
            with pytest.raises(ActorTerminated):
                await ref.ask("dead")


async def test_an_ask_that_is_not_handled_fails_at_once_and_the_message_is_a_dead_letter() -> None:  # case 25, J3
    async with stage() as system:
        ref, puppet = away(system, Typed), away(system, Puppet)
        far = away(system, AsyncPuppet)
        assert await ref.ask(True) == ("bool", True)
        assert await ref.ask(1.5) == ("number", 1.5)
        with pytest.raises(Unhandled):
            await ref.ask("nobody knows this")
        assert isinstance(await far.ask(Try(call(ref, "ask", "nor this"))), Unhandled)
        with pytest.raises(Unhandled):
            await puppet.ask(say("unhandled"))
        ref.tell("told")
        await system.settle()
        letters = system.dead_letters.recent()
        assert [letter.message for letter in letters if letter.recipient == ref] == [
            "nobody knows this",
            "nor this",
            "told",
        ]
        assert system.ledger(ref).unhandled == 3
        assert ref.is_alive


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("length", [1, 2, 3])
async def test_a_chain_of_asks_is_no_deadlock_and_a_circle_is_one(length: int, workers: int) -> None:  # case 25
    async with stage(clock=ManualClock(), dispatchers={"process": Process(workers=workers)}) as system:
        circle, end = [away(system, Asker) for _ in range(length)], away(system, Puppet)
        chain = [*circle[1:], end]
        assert await circle[0].ask(chain, timeout=None) == "the end"
        with pytest.raises(AskDeadlock) as told:  # no time passes, so nothing else can end it
            await circle[0].ask([*circle[1:], circle[0], end], timeout=None)
        assert set(told.value.cycle) == set(circle)
        assert await circle[0].ask(chain, timeout=None) == "the end"


async def test_a_reply_that_is_put_off_is_given_later_and_once() -> None:  # case 26, M12
    async with stage() as system:
        ref = away(system, AsyncPuppet)
        asked = [ref.ask(do("defer_reply")) for _ in range(2)]
        assert await ref.ask("others go on") == "others go on"
        other = away(system, Puppet)
        other.tell(call(ref, "tell", use(0, "send", "from another")))
        assert await asked[0] == "from another"
        assert isinstance(await ref.ask(Try(use(0, "send", "again"))), AlreadyReplied)
        await ref.ask(use(1, "fail", KeyError("none")))
        with pytest.raises(KeyError, match="none"):
            await asked[1]
        assert isinstance(await ref.ask(Try(use(1, "send", "after all"))), AlreadyReplied)
        assert await ref.ask(all_of(do("reply", "early"), "what is returned")) == "early"
        with pytest.raises(LookupError):
            await ref.ask(all_of(do("fail_reply", LookupError("no")), "what is returned"))


async def test_a_reply_that_is_owed_fails_with_a_restart() -> None:  # cases 24, 26, 014
    async with stage() as system:
        ref = away(system, Puppet, supervision=AT_ONCE)
        asked = ref.ask(do("defer_reply"), timeout=None)
        ref.tell(BAD)
        with pytest.raises(HandlerBroken, match="deferred"):
            await asked
        assert await ref.ask("again") == "again"


async def test_a_parent_that_waits_for_a_child_that_escalates_waits_no_longer() -> None:  # M7, 015
    clock = ManualClock()  # which stands still: a stop_timeout would never pass
    async with stage(clock=clock) as system:
        parent = away(system, AsyncPuppet, supervision=STOPS)
        child = away(system, Puppet, parent=parent, supervision=Supervision(ESCALATE))
        await child.started()
        asked = parent.ask(call(child, "ask", do("defer_reply"), timeout=None), timeout=None)
        await until(lambda: system.ledger(child).handled == 1)
        child.tell(BAD)
        with pytest.raises(HandlerBroken, match="waits for this answer"):
            await asked
        assert repr((await parent.terminated()).cause) == repr(BAD)


async def test_a_forwarded_question_is_answered_by_who_got_it() -> None:  # M12, J8
    async with stage() as system:
        heard: list[Any] = []
        end = away(system, Door, system.spawn(Ear, heard))
        await end.ask("open")
        middle = away(system, AsyncPuppet)
        far = away(system, AsyncPuppet)
        act = do("forward", end)
        assert await middle.ask(act) == ("answer", act)
        assert await far.ask(call(middle, "ask", act)) == ("answer", act)
        far.tell(call(middle, "tell", act))
        await system.settle()
        assert [sender for _, sender in heard] == [None, far, far]


async def test_the_asker_gets_what_the_handler_raised_and_the_supervision_acts_too() -> None:  # case 27
    async with stage() as system:
        far = away(system, AsyncPuppet)
        for strategy, alive in ((RESTART, True), (RESUME, True), (STOP, False)):
            for kind in (Puppet, AsyncPuppet):
                ref = away(system, kind, supervision=Supervision(strategy, backoff=None))
                with pytest.raises(ValueError, match="on purpose"):
                    await ref.ask(BAD)
                await system.settle()
                assert ref.is_alive is alive
                if alive:
                    error = await far.ask(Try(call(ref, "ask", say("failed", LookupError("said")))))
                    assert repr(error) == repr(LookupError("said"))
                history = {RESTART: RESTARTING, RESUME: FAILED, STOP: TERMINATED}
                assert history[strategy] in ref.history
                assert_legal(ref.history)


async def test_the_reply_to_a_cancelled_asker_is_a_dead_letter() -> None:  # case 28
    async with stage() as system:
        ref = away(system, AsyncPuppet)
        gate = Gate(system)
        asked = asyncio.ensure_future(ref.ask(all_of(gate.hold, do("name")), timeout=None))
        await gate.entered.wait()
        asked.cancel()
        await asyncio.wait([asked])
        gate.open()
        await system.settle()
        assert [letter.message for letter in system.dead_letters.recent()] == [ref.name]
        assert system.ledger().late_replies == 1


@pytest.mark.parametrize("place", [None, "process"], ids=["home", "away"])
async def test_the_reply_to_an_asker_that_was_killed_is_a_dead_letter(place: str | None) -> None:  # case 28
    async with stage() as system:
        ref, gate, far = system.spawn(AsyncPuppet, dispatcher=place), Gate(system), away(system, AsyncPuppet)
        far.tell(call(ref, "ask", all_of(gate.hold, do("name")), timeout=None))
        await gate.entered.wait()
        far.kill()
        await far.terminated()
        gate.open()
        await system.settle()
        assert [letter.message for letter in system.dead_letters.recent()] == [ref.name]
        assert system.ledger().late_replies == 1


async def test_ten_thousand_asks_of_one_slow_actor_all_end() -> None:  # case 29
    async with stage() as system:
        ref, gate, _ = await held(system, mailbox=MailboxConfig(capacity=100))
        asked = [asyncio.ensure_future(ref.ask(n, timeout=0.2)) for n in range(50)]
        asked += [asyncio.ensure_future(ref.ask(n, timeout=120.0)) for n in range(50, 10_000)]
        await asyncio.wait(asked[:50])
        gate.open()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        kinds = Counter(type(one) for one in outcomes)
        assert kinds == {AskTimeout: 50, int: 50, MailboxFull: 9_900}
