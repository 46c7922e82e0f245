"""The conformance cases, with actors in worker processes: the same promises, kept by other means.

Left out, by their numbers, for what they are about has no counterpart in another process:

- 5: the rounds of a run queue cannot be counted from home, which sees only that a third actor is served; that is here.
- 25: circles of asks are found exactly on one loop only; here they end by their timeouts. The rest of it is here.
- 26: a `Reply` belongs to its process, and cannot be sent to another actor; who has it can give it later. That is here.
- 42: jitter is drawn at home, wherever the actor runs. The series and its reset are here.
- 52: there is no state machine yet.
- 61 to 68: pods and metas are no actors of a dispatcher.

Some hold at home alone, whatever the dispatcher, and are held there: priorities that raise, observers that raise.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise, product
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    AskTimeout,
    AutoShutdown,
    Backoff,
    Behaviors,
    ChildInfo,
    ChildSpec,
    Context,
    DeathPact,
    Directive,
    Down,
    Drain,
    DynamicSupervisor,
    Exit,
    ExitKind,
    Lane,
    LinkBroken,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    OnRestart,
    Overflow,
    ReceiveTimeout,
    Reply,
    Restart,
    Scope,
    StartChild,
    State,
    Supervision,
    Supervisor,
    SystemConfig,
    SystemFailed,
    SystemStopped,
    WhichChildren,
)
from greenroom.errors import AlreadyReplied, ConfigError, MessageDropped, NameTaken, SendTimeout, StashFull, Unhandled
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import TRANSITIONS
from tests.system.dispatchers.processes.cast import (
    Asker,
    AsyncLively,
    AsyncPuppet,
    Bag,
    Bouncer,
    Careful,
    Consult,
    Door,
    Endless,
    Later,
    Lively,
    Pact,
    Puppet,
    Ref,
    Stubborn,
    Try,
    Typed,
    Watcher,
    all_of,
    answering,
    began,
    call,
    closed,
    do,
    say,
    use,
)
from tests.system.dispatchers.processes.test_messages import ONE

STOP, RESUME, ESCALATE, RESTART = Directive.STOP, Directive.RESUME, Directive.ESCALATE, Directive.RESTART
AT_ONCE = Supervision(backoff=None, max_restarts=None)
STOPS = Supervision(STOP)
BAD = ValueError("on purpose")
CREATED, STARTING, RUNNING, FAILED = State.CREATED, State.STARTING, State.RUNNING, State.FAILED
RESTARTING, STOPPING, STOPPED, TERMINATED = State.RESTARTING, State.STOPPING, State.STOPPED, State.TERMINATED


@asynccontextmanager
async def stage(**options: Any) -> AsyncIterator[ActorSystem]:
    """A system with one worker, whose books are in order at the end."""
    given: dict[str, Any] = {"dispatchers": ONE.dispatchers, "supervision": ONE.supervision, "history": True}
    async with ActorSystem(config=SystemConfig(**{**given, **options})) as system:
        yield system
        await system.settle()
        assert_ledger_balanced(system)
    assert_ledger_balanced(system)


def away(system: ActorSystem, factory: Any, *args: Any, **options: Any) -> Ref:
    """An actor in another process."""
    ref: Ref = system.spawn(factory, *args, dispatcher="process", **options)
    return ref


class Ear(Actor[Any, Any]):
    """Keeps what it is told, at home."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def receive(self, message: Any) -> None:
        self.heard.append(message)


class Gate:
    """Where actors elsewhere wait until the test lets them go on: what they do for that is `hold`."""

    def __init__(self, system: ActorSystem) -> None:
        self.entered = asyncio.Event()
        self._waiting: list[Reply] = []
        self._is_open = False
        self.ref: Ref = system.spawn(self._keep)
        self.hold = call(self.ref, "ask", "hold", timeout=None)

    def _keep(self, ctx: Context, message: Any) -> None:
        reply = ctx.defer_reply()
        self.entered.set()
        if self._is_open:
            reply.send(None)
        else:
            self._waiting.append(reply)

    def open(self) -> None:
        """Let them go on."""
        self._is_open = True
        for reply in self._waiting:
            reply.send(None)
        self._waiting.clear()


class Eye:
    """Sees what observers are told."""

    def __init__(self) -> None:
        self.dropped: list[Any] = []
        self.full: list[Any] = []
        self.stopped: list[Ref] = []

    def message_dropped(self, ref: Ref, message: Any, lane: Lane) -> None:
        self.dropped.append((ref, message, lane))

    def mailbox_full(self, ref: Ref, message: Any, lane: Lane) -> None:
        self.full.append((ref, message, lane))

    def actor_stopped(self, ref: Ref, reason: Any) -> None:
        self.stopped.append(ref)


def assert_legal(history: tuple[State, ...]) -> None:
    """Only transitions that there are."""
    assert history[0] is CREATED
    for one, next_one in pairwise(history):
        assert next_one in TRANSITIONS[one], history


async def pass_time(system: ActorSystem, clock: ManualClock, seconds: float) -> None:
    """Let time pass, and everybody do what comes of it."""
    await system.settle()
    await clock.advance(seconds)
    await system.settle()


async def held(system: ActorSystem, **options: Any) -> tuple[Ref, Gate, list[Any]]:
    """An actor elsewhere with a message in hand, its gate, and what it tells at home."""
    heard: list[Any] = []
    gate = Gate(system)
    ref = away(system, Watcher, system.spawn(Ear, heard), **options)
    ref.tell(gate.hold)
    await gate.entered.wait()
    return ref, gate, heard


# -- ordering and lanes


async def test_each_of_64_senders_keeps_its_order() -> None:  # case 1
    async with stage() as system:
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


async def test_a_message_of_a_higher_lane_comes_next_in_a_flood() -> None:  # case 2
    async with stage() as system:
        ref, gate, heard = await held(system)
        for n in range(50):
            ref.tell(n)
        for lane in (Lane.LOG, Lane.MANAGEMENT, Lane.CONTROL):
            ref.tell(str(lane), lane=lane)
        gate.open()
        await system.settle()
        assert heard == [str(Lane.CONTROL), str(Lane.MANAGEMENT), *range(50), str(Lane.LOG)]


async def test_control_that_arrives_in_a_running_flood_is_handled_after_the_message_in_hand() -> None:  # case 2
    async with stage() as system:
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


async def test_every_64th_pick_serves_a_lower_lane() -> None:  # case 3
    async with stage() as system:
        ref, gate, heard = await held(system)
        for message, lane in (("log", Lane.LOG), ("data", Lane.DATA), ("management", Lane.MANAGEMENT)):
            ref.tell(message, lane=lane)
        for _ in range(64 * 3):
            ref.tell("flood", lane=Lane.CONTROL)
        gate.open()
        await system.settle()
        assert [heard.index(message) for message in ("log", "data", "management")] == [63, 127, 191]


async def test_data_moves_under_a_control_flood_that_never_ends() -> None:  # case 3
    async with stage() as system:
        ref = away(system, Endless, Lane.CONTROL, 4)
        for n in range(4):
            ref.tell(n)
        for _ in range(3):
            ref.tell("flood", lane=Lane.CONTROL)
        await system.settle()
        heard = await ref.ask("heard")
        assert [one for one in heard if one != "flood"] == [0, 1, 2, 3]


async def test_the_smallest_key_comes_first_and_equal_keys_in_order() -> None:  # case 4, M15
    def key(message: Any) -> int:
        return message[0] if isinstance(message, tuple) else -1

    async with stage() as system:
        ref, gate, heard = await held(system, mailbox=MailboxConfig(priority=key))
        sent = [(number % 3, number) for number in range(60)]
        for message in sent:
            ref.tell(message)
        ref.tell("urgent", lane=Lane.CONTROL)
        gate.open()
        await system.settle()
        assert heard == ["urgent", *sorted(sent)]


async def test_a_third_actor_is_served_while_two_keep_each_other_busy() -> None:  # case 5: a third runs
    async with stage(max_msgs_per_actor=10) as system:
        probe = TestProbe(system)
        one, two, third = away(system, Bouncer, probe.ref), away(system, Bouncer, probe.ref), away(system, Bag)
        one.tell((300, two))
        for n in range(20):
            assert await third.ask(("n", n)) is None
        await probe.expect(tuple)


async def test_a_childs_message_is_handled_before_the_notice_of_its_death() -> None:  # case 6
    async with stage() as system:
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


async def test_a_self_send_is_handled_later_and_never_recursively() -> None:  # case 7
    async with stage() as system:
        probe = TestProbe(system)
        one, two = away(system, Bouncer, probe.ref), away(system, Bouncer, probe.ref)
        one.tell((1_500, None))
        assert await probe.receive(timeout=20.0) == ("deepest", 1)
        one.tell((200, two))
        assert await probe.receive(timeout=20.0) == ("deepest", 1)
        heard: list[Any] = []
        ref = away(system, Puppet, system.spawn(Ear, heard))
        for message in (all_of(do("self.tell", "to myself"), call(two, "tell", (0, None))), "queued", "and this"):
            ref.tell(message)
        await system.settle()
        assert heard == ["queued", "and this", "to myself"]


# -- mailboxes


async def test_a_second_tell_to_a_mailbox_of_one_gives_the_message_back() -> None:  # case 8, J7
    async with stage() as system:
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


async def test_a_sender_in_a_process_hears_of_a_full_mailbox_if_it_asks_and_goes_on() -> None:  # case 8, J7
    async with stage() as system:
        heard: list[Any] = []
        ref, gate, _ = await held(system, mailbox=MailboxConfig(capacity=1))
        ref.tell("first")
        sender = away(system, AsyncPuppet, system.spawn(Ear, heard))
        asked = await sender.ask(Try(call(ref, "ask", "asked")))
        assert isinstance(asked, MailboxFull)
        assert (asked.message, asked.ref) == ("asked", ref)
        waited = await sender.ask(Try(call(ref, "send", "sent", timeout=0.01)))
        assert isinstance(waited, SendTimeout)
        told = await sender.ask(Try(call(ref, "tell", "told")))
        assert await sender.ask("still there") == "still there"
        gate.open()
        await system.settle()
        assert told is None  # it has gone on by then: that is a dead letter
        assert [(one.message, one.reason) for one in system.dead_letters.recent()] == [("told", "mailbox full")]


async def test_a_dropping_policy_drops_exactly_one_for_one_too_many() -> None:  # cases 9, 25
    async with stage() as system:
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


async def test_those_who_wait_for_room_are_let_in_in_order_and_one_who_gives_up_leaves_nothing() -> None:  # case 10
    async with stage() as system:
        ref, gate, heard = await held(system, mailbox=MailboxConfig(capacity=1))
        ref.tell("first")
        sending = [asyncio.ensure_future(ref.send(n)) for n in range(5)]
        await asyncio.sleep(0)
        sender = away(system, AsyncPuppet)
        far = asyncio.ensure_future(sender.ask(call(ref, "send", "from afar"), timeout=None))
        await sender.started()
        assert isinstance(await away(system, AsyncPuppet).ask(Try(call(ref, "send", 9, timeout=0.01))), SendTimeout)
        assert not any(one.done() for one in sending)
        sending[2].cancel()
        gate.open()
        for one in (*sending[:2], *sending[3:], far):
            await one
        await system.settle()
        assert heard == ["first", 0, 1, 3, 4, "from afar"]
        assert system.ledger(ref).sent == 7


async def test_orders_and_notices_are_accepted_however_full_the_mailbox_is() -> None:  # case 11, M2
    async with stage() as system:
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


async def test_threads_that_race_into_a_mailbox_are_admitted_or_refused() -> None:  # case 12, J15
    async with stage() as system:
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


# -- watches, monitors, links


async def test_a_watch_is_told_once_and_at_once_of_one_that_is_dead() -> None:  # cases 13, 14, M8
    async with stage() as system:
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


async def test_two_monitors_are_told_twice_and_one_that_was_given_up_is_not() -> None:  # cases 13, 15, E11
    async with stage() as system:
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


async def test_what_is_taken_back_is_not_delivered_though_it_is_queued() -> None:  # cases 16, 21
    async with stage() as system:
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


async def test_a_restart_tells_no_watcher_and_an_end_tells_all() -> None:  # case 17
    async with stage() as system:
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


async def test_the_bonds_of_an_actor_outlive_its_restart() -> None:  # case 17, M6
    async with stage() as system:
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
        assert heard[0] == "again"
        assert ("terminated", other, "None") in heard
        assert [type(one) for one in heard].count(Down) == 1
        assert len(heard) == 3


async def test_a_stale_ref_never_reaches_the_new_actor() -> None:  # case 18, J14
    async with stage(max_actors=2) as system:
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
        for asked in (old.ask(4), sender.ask(Try(call(old, "ask", 5)))):
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


async def test_a_linked_peers_normal_end_is_nothing_and_its_failure_is_mine() -> None:  # case 19, E11
    async with stage() as system:
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


async def test_an_actor_that_traps_exits_is_told_of_every_end_but_its_own_kill() -> None:  # cases 19, 20
    async with stage() as system:
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


async def test_after_unlink_nothing_comes_of_the_others_end() -> None:  # case 21
    async with stage() as system:
        me, other = away(system, Puppet, supervision=STOPS), away(system, Puppet, supervision=STOPS)
        await me.ask(do("link", other))
        await me.ask(do("unlink", other))
        other.tell(BAD)
        await other.terminated()
        await system.settle()
        assert await me.ask("I live") == "I live"


async def test_the_links_and_watches_of_an_actor_whose_start_failed_are_honoured() -> None:  # case 22
    async with stage() as system:
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


async def test_an_end_that_nobody_hears_is_a_death_pact() -> None:  # M8
    async with stage() as system:
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


# -- asks


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


async def test_a_chain_of_asks_is_no_deadlock_and_a_circle_ends_in_time() -> None:  # case 25
    clock = ManualClock()
    async with stage(clock=clock) as system:
        one, two, end = away(system, Asker), away(system, Asker), away(system, Puppet)
        assert await one.ask([two, end]) == "the end"
        assert await two.ask([one, end]) == "the end"
        circle = [
            asyncio.ensure_future(one.ask(Try(call(one, "ask", "myself")), timeout=None)),
            asyncio.ensure_future(two.ask([end], timeout=None)),
        ]
        assert await circle[1] == "the end"
        while not circle[0].done():
            await clock.advance(1.0)
        assert type(circle[0].result()).__name__ in ("AskDeadlock", "AskTimeout")
        await system.settle()


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


async def test_a_reply_that_is_owed_can_be_given_after_a_restart_by_nobody() -> None:  # cases 24, 26
    async with stage() as system:
        ref = away(system, Puppet, supervision=AT_ONCE)
        asked = ref.ask(do("defer_reply"), timeout=None)
        ref.tell(BAD)
        assert await ref.ask("again") == "again"
        ref.stop()
        with pytest.raises(ActorTerminated):
            await asked


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
        asked += [asyncio.ensure_future(ref.ask(n, timeout=20.0)) for n in range(50, 10_000)]
        await asyncio.wait(asked[:50])
        gate.open()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        kinds = Counter(type(one) for one in outcomes)
        assert kinds == {AskTimeout: 50, int: 50, MailboxFull: 9_900}


# -- supervision


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


# -- restarts, the stash, timers

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


# -- lives and ends


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
    system = ActorSystem(config=SystemConfig(dispatchers=ONE.dispatchers, stop_timeout=0.2))
    async with asyncio.timeout(10), system:
        probe = TestProbe(system)
        system.observers.add(eye)
        ref = away(system, Stubborn, probe.ref, name="deaf")
        polite = away(system, Puppet, name="polite")
        await polite.started()
        asked = asyncio.ensure_future(ref.ask(how, timeout=None))
        await probe.expect("begun")
        await system.shutdown(timeout=2.0)
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
    async with asyncio.timeout(10), system:
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
    async with asyncio.timeout(10), ActorSystem(config=ONE) as system:
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


# -- all of it at once


@pytest.mark.parametrize("meanwhile", ["control", "log", "restart", "inspect"])
async def test_whatever_comes_in_between_each_message_is_handled_once_and_in_order(
    meanwhile: str,
) -> None:  # cases 1, 2
    dice = random.Random(7)
    lanes = {"control": Lane.CONTROL, "log": Lane.LOG}
    async with stage(supervision=AT_ONCE) as system:
        heard: list[Any] = []
        ref = away(system, Puppet, system.spawn(Ear, heard))
        await ref.started()
        others: list[Any] = []
        for n in range(600):
            ref.tell(n)
            if dice.random() < 0.2:
                if meanwhile in lanes:
                    ref.tell((meanwhile, n), lane=lanes[meanwhile])
                    others.append((meanwhile, n))
                elif meanwhile == "restart":
                    ref.restart()
                else:
                    others.append(asyncio.ensure_future(ref.inspect()))
            for _ in range(dice.randrange(8)):  # so that some of it is under way, and some is done
                await asyncio.sleep(0)
        await system.settle()
        assert [one for one in heard if isinstance(one, int)] == list(range(600))
        if meanwhile in lanes:
            assert [one for one in heard if not isinstance(one, int)] == others
        else:
            await asyncio.gather(*others)
