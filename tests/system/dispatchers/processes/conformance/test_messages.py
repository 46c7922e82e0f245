"""Asks, mailboxes and the order of messages, with actors in worker processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from greenroom import (
    ActorSystem,
    ActorTerminated,
    AskDeadlock,
    AskTimeout,
    ExitKind,
    Lane,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    Overflow,
    Process,
    Supervision,
)
from greenroom.errors import AlreadyReplied, HandlerBroken, MessageDropped, SendTimeout, Unhandled
from greenroom.testing import TestProbe
from tests.conformance.lives import AT_ONCE, BAD, FAILED, RESTARTING, TERMINATED, assert_legal
from tests.conformance.sending import until
from tests.conftest import Play
from tests.system.dispatchers.processes.conformance.home import (
    ESCALATE,
    RESTART,
    RESUME,
    STOP,
    STOPS,
    Ear,
    Eye,
    Gate,
    away,
    held,
)
from tests.system.dispatchers.processes.puppets import (
    Asker,
    AsyncBooking,
    AsyncPuppet,
    Bag,
    Booking,
    Bouncer,
    Door,
    Endless,
    Full,
    Puppet,
    Typed,
    Watcher,
    all_of,
    attempt,
    call,
    do,
    say,
    use,
)


@pytest.mark.parametrize("kind", [Booking, AsyncBooking])
@pytest.mark.config(supervision=STOPS)
async def test_an_asker_gets_a_declared_refusal_and_the_actor_goes_on(
    system: ActorSystem, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
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


async def test_no_reply_in_time_is_an_ask_timeout_and_the_late_one_a_dead_letter(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 23
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


async def test_a_target_that_dies_mid_ask_is_told_at_once_with_the_reason(system: ActorSystem) -> None:  # case 24
    far = away(system, AsyncPuppet)
    for end, kind in (("stop", ExitKind.NORMAL), ("kill", ExitKind.KILLED), ("fail", ExitKind.FAIL)):
        ref, gate, _ = await held(system, supervision=STOPS)
        other = away(system, Puppet, supervision=STOPS)
        waiting = [
            ref.ask("queued", timeout=None),
            other.ask(do("defer_reply"), timeout=None),
            far.ask(attempt(call(other, "ask", do("defer_reply"), timeout=None)), timeout=None),
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


async def test_an_ask_that_is_not_handled_fails_at_once_and_the_message_is_a_dead_letter(system: ActorSystem) -> None:
    # case 25, J3
    ref, puppet = away(system, Typed), away(system, Puppet)
    far = away(system, AsyncPuppet)
    assert await ref.ask(True) == ("bool", True)
    assert await ref.ask(1.5) == ("number", 1.5)
    with pytest.raises(Unhandled):
        await ref.ask("nobody knows this")
    assert isinstance(await far.ask(attempt(call(ref, "ask", "nor this"))), Unhandled)
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
def test_a_chain_of_asks_is_no_deadlock_and_a_circle_is_one(play: Play, length: int, workers: int) -> None:  # case 25
    async def program(system: ActorSystem) -> None:
        circle, end = [away(system, Asker) for _ in range(length)], away(system, Puppet)
        chain = [*circle[1:], end]
        assert await circle[0].ask(chain, timeout=None) == "the end"
        with pytest.raises(AskDeadlock) as told:  # no time passes, so nothing else can end it
            await circle[0].ask([*circle[1:], circle[0], end], timeout=None)
        assert set(told.value.cycle) == set(circle)
        assert await circle[0].ask(chain, timeout=None) == "the end"

    play(program, clock=ManualClock(), dispatchers={"process": Process(workers=workers)})


async def test_a_reply_that_is_put_off_is_given_later_and_once(system: ActorSystem) -> None:  # case 26, M12
    ref = away(system, AsyncPuppet)
    asked = [ref.ask(do("defer_reply")) for _ in range(2)]
    assert await ref.ask("others go on") == "others go on"
    other = away(system, Puppet)
    other.tell(call(ref, "tell", use(0, "send", "from another")))
    assert await asked[0] == "from another"
    assert isinstance(await ref.ask(attempt(use(0, "send", "again"))), AlreadyReplied)
    await ref.ask(use(1, "fail", KeyError("none")))
    with pytest.raises(KeyError, match="none"):
        await asked[1]
    assert isinstance(await ref.ask(attempt(use(1, "send", "after all"))), AlreadyReplied)
    assert await ref.ask(all_of(do("reply", "early"), "what is returned")) == "early"
    with pytest.raises(LookupError):
        await ref.ask(all_of(do("fail_reply", LookupError("no")), "what is returned"))


async def test_a_reply_that_is_owed_fails_with_a_restart(system: ActorSystem) -> None:  # cases 24, 26, 014
    ref = away(system, Puppet, supervision=AT_ONCE)
    asked = ref.ask(do("defer_reply"), timeout=None)
    ref.tell(BAD)
    with pytest.raises(HandlerBroken, match="deferred"):
        await asked
    assert await ref.ask("again") == "again"


async def test_a_parent_that_waits_for_a_child_that_escalates_waits_no_longer(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7, 015
    parent = away(system, AsyncPuppet, supervision=STOPS)
    child = away(system, Puppet, parent=parent, supervision=Supervision(ESCALATE))
    await child.started()
    asked = parent.ask(call(child, "ask", do("defer_reply"), timeout=None), timeout=None)
    await until(lambda: system.ledger(child).handled == 1)
    child.tell(BAD)
    with pytest.raises(HandlerBroken, match="waits for this answer"):
        await asked
    assert repr((await parent.terminated()).cause) == repr(BAD)


async def test_a_forwarded_question_is_answered_by_who_got_it(system: ActorSystem) -> None:  # M12, J8
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


async def test_the_asker_gets_what_the_handler_raised_and_the_supervision_acts_too(system: ActorSystem) -> None:
    # case 27
    far = away(system, AsyncPuppet)
    for strategy, alive in ((RESTART, True), (RESUME, True), (STOP, False)):
        for kind in (Puppet, AsyncPuppet):
            ref = away(system, kind, supervision=Supervision(strategy, backoff=None))
            with pytest.raises(ValueError, match="on purpose"):
                await ref.ask(BAD)
            await system.settle()
            assert ref.is_alive is alive
            if alive:
                error = await far.ask(attempt(call(ref, "ask", say("failed", LookupError("said")))))
                assert repr(error) == repr(LookupError("said"))
            history = {RESTART: RESTARTING, RESUME: FAILED, STOP: TERMINATED}
            assert history[strategy] in ref.history
            assert_legal(ref.history)


async def test_the_reply_to_a_cancelled_asker_is_a_dead_letter(system: ActorSystem) -> None:  # case 28
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
async def test_the_reply_to_an_asker_that_was_killed_is_a_dead_letter(system: ActorSystem, place: str | None) -> None:
    # case 28
    ref, gate, far = system.spawn(AsyncPuppet, dispatcher=place), Gate(system), away(system, AsyncPuppet)
    far.tell(call(ref, "ask", all_of(gate.hold, do("name")), timeout=None))
    await gate.entered.wait()
    far.kill()
    await far.terminated()
    gate.open()
    await system.settle()
    assert [letter.message for letter in system.dead_letters.recent()] == [ref.name]
    assert system.ledger().late_replies == 1


async def test_ten_thousand_asks_of_one_slow_actor_all_end(system: ActorSystem) -> None:  # case 29
    ref, gate, _ = await held(system, mailbox=MailboxConfig(capacity=100))
    asked = [asyncio.ensure_future(ref.ask(n, timeout=0.2)) for n in range(50)]
    asked += [asyncio.ensure_future(ref.ask(n, timeout=120.0)) for n in range(50, 10_000)]
    await asyncio.wait(asked[:50])
    gate.open()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    kinds = Counter(type(one) for one in outcomes)
    assert kinds == {AskTimeout: 50, int: 50, MailboxFull: 9_900}


async def test_a_second_tell_to_a_mailbox_of_one_gives_the_message_back(system: ActorSystem) -> None:  # case 8, J7
    eye = Eye()
    system.observers.add(eye)
    ref, gate, heard = await held(system, mailbox=MailboxConfig(capacity=1))
    ref.tell("first")
    with pytest.raises(MailboxFull) as told:
        ref.tell("second")
    with pytest.raises(MailboxFull) as asked:
        await ref.ask("second")
    for caught in (told, asked):
        assert (caught.value.message, caught.value.ref, caught.value.code) == ("second", ref, "mailbox_full")
    assert eye.full == [(ref, "second", Lane.DATA)] * 2
    gate.open()
    await system.settle()
    assert heard == ["first"]
    assert system.ledger(ref).rejected == 2
    assert await ref.ask("third") == "third"


async def test_a_sender_in_a_process_hears_of_a_full_mailbox_if_it_asks_and_goes_on(system: ActorSystem) -> None:
    # case 8, J7
    heard: list[Any] = []
    ref, gate, _ = await held(system, mailbox=MailboxConfig(capacity=1))
    ref.tell("first")
    sender = away(system, AsyncPuppet, system.spawn(Ear, heard))
    asked = await sender.ask(attempt(call(ref, "ask", "asked")))
    assert isinstance(asked, MailboxFull)
    assert (asked.message, asked.ref) == ("asked", ref)
    waited = await sender.ask(attempt(call(ref, "send", "sent", timeout=0.01)))
    assert isinstance(waited, SendTimeout)
    told = await sender.ask(attempt(call(ref, "tell", "told")))
    assert await sender.ask("still there") == "still there"
    gate.open()
    await system.settle()
    assert told is None  # it has gone on by then: that is a dead letter
    assert [(one.message, one.reason) for one in system.dead_letters.recent()] == [("told", "mailbox full")]


async def test_a_dropping_policy_drops_exactly_one_for_one_too_many(system: ActorSystem) -> None:  # cases 9, 25
    for policy, dropped, handled in ((Overflow.DROP_OLD, 0, [1, 2, 3]), (Overflow.DROP_NEW, 3, [0, 1, 2])):
        eye = Eye()
        system.observers.add(eye)
        ref, gate, heard = await held(system, mailbox=MailboxConfig(capacity=3, overflow=policy))
        asks = [ref.ask(n) for n in range(4)]
        with pytest.raises(MessageDropped):
            await asks[dropped]
        assert eye.dropped == [(ref, dropped, Lane.DATA)]
        gate.open()
        await system.settle()
        assert [await asks[n] for n in handled] == heard == handled
        ledger = system.ledger(ref)
        assert (ledger.sent, ledger.handled, ledger.dropped, ledger.rejected) == (5, 4, 1, 0)
        assert system.dead_letters.count == 0


async def test_those_who_wait_for_room_are_let_in_in_order_and_one_who_gives_up_leaves_nothing(
    system: ActorSystem,
) -> None:  # case 10
    ref, gate, heard = await held(system, mailbox=MailboxConfig(capacity=1))
    ref.tell("first")
    sending = [asyncio.ensure_future(ref.send(n)) for n in range(5)]
    await asyncio.sleep(0)
    sender = away(system, AsyncPuppet)
    far = asyncio.ensure_future(sender.ask(call(ref, "send", "from afar"), timeout=None))
    await sender.started()
    assert isinstance(await away(system, AsyncPuppet).ask(attempt(call(ref, "send", 9, timeout=0.01))), SendTimeout)
    assert not any(one.done() for one in sending)
    sending[2].cancel()
    gate.open()
    for one in (*sending[:2], *sending[3:], far):
        await one
    await system.settle()
    assert heard == ["first", 0, 1, 3, 4, "from afar"]
    assert system.ledger(ref).sent == 7


async def test_orders_and_notices_are_accepted_however_full_the_mailbox_is(system: ActorSystem) -> None:  # case 11, M2
    for end in ("stop", "kill", "fail", "restart"):
        ref, gate, heard = await held(system, mailbox=MailboxConfig(capacity=1), supervision=STOPS)
        other = away(system, Puppet)
        notified = away(system, Watcher, system.spawn(Ear, heard), mailbox=MailboxConfig(capacity=1))
        second = Gate(system)
        await notified.ask(do("watch", other))
        notified.tell(second.hold)
        await second.entered.wait()
        notified.tell("full")
        ref.tell("full")
        other.stop()
        await other.terminated()
        second.open()
        getattr(ref, end)(*([BAD] if end == "fail" else []))
        gate.open()
        if end == "restart":
            await ref.send("again")
        else:
            kinds = {"stop": ExitKind.NORMAL, "kill": ExitKind.KILLED, "fail": ExitKind.FAIL}
            assert (await ref.terminated()).kind is kinds[end]
        await system.settle()
        assert heard.count("full") == (2 if end == "restart" else 1)
        assert ("terminated", other, "None") in heard
        assert heard.index("full") < heard.index(("terminated", other, "None"))


async def test_threads_that_race_into_a_mailbox_are_admitted_or_refused(system: ActorSystem) -> None:  # case 12, J15
    ref, gate, heard = await held(system, mailbox=MailboxConfig(capacity=64))
    outcomes: Counter[str] = Counter()

    def send(who: int) -> Counter[str]:
        mine: Counter[str] = Counter()
        for n in range(10):
            try:
                ref.tell((who, n))
                mine["admitted"] += 1
            except MailboxFull:
                mine["rejected"] += 1
        return mine

    for one in await asyncio.gather(*(asyncio.to_thread(send, who) for who in range(64))):
        outcomes += one
    gate.open()
    await system.settle()
    assert (outcomes["admitted"], outcomes["rejected"]) == (64, 576)
    assert len(heard) == 64
    assert system.ledger(ref).rejected == 576
    for who in range(64):
        mine = [n for one, n in heard if one == who]
        assert mine == sorted(mine)


async def test_each_of_64_senders_keeps_its_order(system: ActorSystem) -> None:  # case 1
    far, near = away(system, Bag), system.spawn(Bag)
    senders = [system.spawn(Puppet, dispatcher=place) for place in (None, "process") for _ in range(32)]
    for first in range(0, 20, 5):
        for who, sender in enumerate(senders):
            words = [call(bag, "tell", (who, n)) for n in range(first, first + 5) for bag in (far, near)]
            sender.tell(all_of(*words))
    await system.settle()
    for bag in (far, near):
        seen = await bag.ask("seen")
        assert len(seen) == 64 * 20
        for who in range(64):
            assert [n for sender, n in seen if sender == who] == list(range(20))


async def test_a_message_of_a_higher_lane_comes_next_in_a_flood(system: ActorSystem) -> None:  # case 2
    ref, gate, heard = await held(system)
    for n in range(50):
        ref.tell(n)
    for lane in (Lane.LOG, Lane.MANAGEMENT, Lane.CONTROL):
        ref.tell(str(lane), lane=lane)
    gate.open()
    await system.settle()
    assert heard == [str(Lane.CONTROL), str(Lane.MANAGEMENT), *range(50), str(Lane.LOG)]


async def test_control_that_arrives_in_a_running_flood_is_handled_after_the_message_in_hand(
    system: ActorSystem,
) -> None:  # case 2
    for at in (0, 70):
        heard: list[Any] = []
        ref = away(system, AsyncPuppet, system.spawn(Ear, heard))
        hurrier = system.spawn(Puppet)
        urgent = call(hurrier, "ask", call(ref, "tell", "urgent", lane=Lane.CONTROL))
        for n in range(200):
            ref.tell(urgent if n == at else n)
        await system.settle()
        assert heard.index("urgent") == at
        heard.remove("urgent")
        assert heard == [n for n in range(200) if n != at]


async def test_every_64th_pick_serves_a_lower_lane(system: ActorSystem) -> None:  # case 3
    ref, gate, heard = await held(system)
    for message, lane in (("log", Lane.LOG), ("data", Lane.DATA), ("management", Lane.MANAGEMENT)):
        ref.tell(message, lane=lane)
    for _ in range(64 * 3):
        ref.tell("flood", lane=Lane.CONTROL)
    gate.open()
    await system.settle()
    assert [heard.index(message) for message in ("log", "data", "management")] == [63, 127, 191]


async def test_data_moves_under_a_control_flood_that_never_ends(system: ActorSystem) -> None:  # case 3
    ref = away(system, Endless, Lane.CONTROL, 4)
    for n in range(4):
        ref.tell(n)
    for _ in range(3):
        ref.tell("flood", lane=Lane.CONTROL)
    await system.settle()
    heard = await ref.ask("heard")
    assert [one for one in heard if one != "flood"] == [0, 1, 2, 3]


async def test_the_smallest_key_comes_first_and_equal_keys_in_order(system: ActorSystem) -> None:  # case 4, M15
    def key(message: Any) -> int:
        return message[0] if isinstance(message, tuple) else -1

    ref, gate, heard = await held(system, mailbox=MailboxConfig(priority=key))
    sent = [(number % 3, number) for number in range(60)]
    for message in sent:
        ref.tell(message)
    ref.tell("urgent", lane=Lane.CONTROL)
    gate.open()
    await system.settle()
    assert heard == ["urgent", *sorted(sent)]


@pytest.mark.config(max_msgs_per_actor=10)
async def test_a_third_actor_is_served_while_two_keep_each_other_busy(system: ActorSystem) -> None:
    # case 5: a third runs
    probe = TestProbe(system)
    one, two, third = away(system, Bouncer, probe.ref), away(system, Bouncer, probe.ref), away(system, Bag)
    one.tell((300, two))
    for n in range(20):
        assert await third.ask(("n", n)) is None
    await probe.expect(tuple)


async def test_a_childs_message_is_handled_before_the_notice_of_its_death(system: ActorSystem) -> None:  # case 6
    heard: list[Any] = []
    parent = away(system, Watcher, system.spawn(Ear, heard))
    for place in (None, "process"):
        child = await parent.ask(do("spawn", Puppet, supervision=STOPS, dispatcher=place))
        await parent.ask(do("watch", child))
        child.tell(all_of(call(parent, "tell", "m"), BAD))
        await child.terminated()
        await system.settle()
        notice = ("terminated", child, repr(BAD))
        assert heard == ["m", notice, ("child terminated", child, repr(BAD))]
        heard.clear()


async def test_a_self_send_is_handled_later_and_never_recursively(system: ActorSystem) -> None:  # case 7
    probe = TestProbe(system)
    one, two = away(system, Bouncer, probe.ref), away(system, Bouncer, probe.ref)
    one.tell((1_500, None))
    assert await probe.receive(timeout=120.0) == ("deepest", 1)
    one.tell((200, two))
    assert await probe.receive(timeout=120.0) == ("deepest", 1)
    heard: list[Any] = []
    ref = away(system, Puppet, system.spawn(Ear, heard))
    for message in (all_of(do("self.tell", "to myself"), call(two, "tell", (0, None))), "queued", "and this"):
        ref.tell(message)
    await system.settle()
    assert heard == ["queued", "and this", "to myself"]
