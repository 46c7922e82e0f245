"""A restart, in place: which hooks run, what is kept, what becomes of messages, and how it ends (decision 014; M6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    ActorSystem,
    ActorTerminated,
    Behaviors,
    ChildSpec,
    Context,
    Directive,
    Down,
    Exit,
    ExitKind,
    Lane,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    OnRestart,
    ReceiveTimeout,
    Reply,
    State,
    Supervision,
    Supervisor,
)
from greenroom.errors import BadArgument, HandlerBroken
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import (
    AT_ONCE,
    BAD,
    BORN_AGAIN,
    CLEARING,
    GONE,
    AsyncPhoenix,
    Bird,
    Book,
    Gate,
    Phoenix,
    Plain,
    Ref,
    actor_at,
    assert_is_a_life,
    assert_legal,
    ended,
    every_phoenix,
    raises,
    report_of,
    runs,
    slow,
    soon,
)
from tests.conformance.sending import FOREIGN, in_thread, outcome, run_threads_while_blocked, until
from tests.conftest import Play
from tests.gates import turns


@every_phoenix
@pytest.mark.parametrize("how", ["raise", "fail", "restart", "behavior"])
@pytest.mark.config(supervision=AT_ONCE, history=True)
async def test_the_hooks_of_a_restart_run_in_their_order(system: ActorSystem, kind: Any, how: str) -> None:
    # M6, case 47
    book = Book()
    cause = BAD
    ref = system.spawn(kind, book)
    await ref.ask(lambda me: me.ctx.spawn(kind, Book("child's ", book.log)))
    await system.settle()
    book.take()
    if how == "fail":
        ref.fail(cause)
    elif how == "restart":
        ref.restart(cause)
    else:
        ref.tell(cause if how == "raise" else lambda _: Behaviors.failed(cause))
    assert await ref.ask("next") == "next"
    assert book.take() == [
        "pre_restart 1",
        "snapshot 1",
        "child's pre_stop 1",
        "child's post_stop 1",
        "post_stop 1",
        *BORN_AGAIN,
    ]
    assert book.actors[0].cause is cause
    assert book.actors[1].state == "state of 1"
    assert book.actors[0] is not book.actors[1]
    assert_legal(ref.history)
    assert runs(ref)


@every_phoenix
@pytest.mark.config(history=True)
async def test_the_old_incarnation_goes_at_once_and_the_new_one_comes_after_the_backoff(
    system: ActorSystem, clock: ManualClock, kind: Any
) -> None:  # M6
    book = Book()
    ref = system.spawn(kind, book, name="one", supervision=slow(0.5))
    await ref.ask("hello")
    before = (ref.id, ref.path, hash(ref), ref.name)
    book.take()
    ref.tell(BAD)
    end = asyncio.ensure_future(ref.terminated())
    started = asyncio.ensure_future(ref.started())
    await clock.advance(0.25)
    assert book.take() == GONE
    assert ref.state is State.RESTARTING
    assert ref.is_alive
    assert system.actor("/one") == ref
    assert ref in system.actors()
    await clock.advance(0.25)
    assert book.take() == BORN_AGAIN
    assert runs(ref)
    assert (ref.id, ref.path, hash(ref), ref.name) == before
    assert await ref.ask(lambda me: me.ctx.self) == ref
    await started
    assert not end.done()
    ref.stop()
    await end
    assert ref.history == (
        State.CREATED,
        State.STARTING,
        State.RUNNING,
        State.FAILED,
        State.RESTARTING,
        State.STARTING,
        State.RUNNING,
        State.STOPPING,
        State.STOPPED,
        State.TERMINATED,
    )


@pytest.mark.config(supervision=AT_ONCE)
async def test_children_are_stopped_before_the_new_incarnation_starts(system: ActorSystem) -> None:  # case 47, M6
    book = Book()
    gate = Gate()
    slow_child = Book("child's ", book.log, post_stop=gate.wait)

    def bear(me: Any) -> None:
        me.ctx.spawn(AsyncPhoenix, slow_child, name="child")  # the name is free again, each time

    book.acts["pre_start"] = bear
    ref = system.spawn(Phoenix, book, name="one")
    await ref.ask("hello")
    child = actor_at(system, "/one/child")
    book.take()
    ref.restart()
    ref.tell("queued")
    await gate.entered.wait()
    await turns()
    assert "post_stop 1" not in book.log
    assert book.lives == 1
    assert ref.state is State.RESTARTING
    assert book.heard == ["hello"]
    gate.opened.set()
    assert await ref.ask("next") == "next"
    assert not child.is_alive
    assert system.actor("/one/child") not in (None, child)
    await ended(system, child)
    log = book.take()
    assert log.index("child's post_stop 1") < log.index("post_stop 1") < log.index("init 2")
    assert book.heard == ["hello", "queued", "next"]


@pytest.mark.config(supervision=AT_ONCE)
async def test_children_born_in_pre_restart_are_stopped_too(system: ActorSystem) -> None:  # M6, case 47
    born: list[Any] = []
    book = Book(pre_restart=lambda me: born.append(me.ctx.spawn(Phoenix, Book())))
    ref = system.spawn(Phoenix, book)
    ref.restart()
    assert await ref.ask(lambda me: me.ctx.children) == []
    assert not born[0].is_alive


@pytest.mark.config(supervision=AT_ONCE)
async def test_functions_and_behaviors_are_restarted_too(system: ActorSystem) -> None:  # M6, M13
    setups: list[Any] = []
    signals: list[Any] = []

    def set_up(ctx: Context) -> Any:
        setups.append(ctx.self)
        counts: list[Any] = []

        def count(ctx: Context, message: Any) -> Any:
            if isinstance(message, BaseException):
                raise message
            counts.append(message)
            return len(counts)

        return Behaviors.receive(count, on_signal=lambda _, signal: signals.append(type(signal).__name__))

    def plain(ctx: Context, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        return message

    ref = system.spawn(Behaviors.setup(set_up))
    function = system.spawn(plain)
    assert [await ref.ask(1), await ref.ask(2), await function.ask(3)] == [1, 2, 3]
    signals.clear()
    for one in (ref, function):
        with pytest.raises(ValueError, match="on purpose"):
            await one.ask(BAD)
    assert [await ref.ask(1), await function.ask(3)] == [1, 3]  # the count begins anew
    assert setups == [ref, ref]
    assert signals == ["PreRestart", "PostStop", "PreStart", "PostRestart", "PostStart"]


@pytest.mark.config(supervision=Supervision(backoff=None))
async def test_observers_hear_of_restarts_and_of_no_end(system: ActorSystem) -> None:  # J16
    class Eye:
        seen: list[Any]

        def __init__(self) -> None:
            self.seen = []

        def actor_started(self, ref: Any) -> None:
            self.seen.append(("started", ref))

        def actor_restarted(self, ref: Any, cause: Any) -> None:
            self.seen.append(("restarted", ref, cause))

        def actor_stopped(self, ref: Any, reason: Any) -> None:
            self.seen.append(("stopped", ref))

    eye = Eye()
    system.observers.add(eye)
    ref = system.spawn(Phoenix, Book())
    ref.tell(BAD)
    await system.settle()
    ref.restart()
    await ref.ask("hello")
    assert eye.seen == [("started", ref), ("restarted", ref, BAD), ("restarted", ref, None)]


@every_phoenix
@pytest.mark.parametrize("how", ["failure", "restart"])
async def test_a_receive_timeout_stays_set_and_begins_anew(
    system: ActorSystem, clock: ManualClock, kind: Any, how: str
) -> None:  # M6, decision 014
    book = Book()
    ref = system.spawn(kind, book, supervision=AT_ONCE)
    await ref.ask(lambda me: me.ctx.set_receive_timeout(2.0))
    await clock.advance(1.5)
    ref.restart() if how == "restart" else ref.fail(BAD)
    await clock.advance(1.5)
    assert book.lives == 2
    assert book.heard == []
    await clock.advance(0.5)
    assert book.heard == [ReceiveTimeout()]
    await clock.advance(2.0)
    assert book.heard == [ReceiveTimeout()] * 2


async def test_a_receive_timeout_does_not_run_during_the_backoff_and_a_new_one_wins(
    system: ActorSystem, clock: ManualClock
) -> None:  # M6
    book = Book()
    book.acts["pre_start 3"] = lambda me: me.ctx.set_receive_timeout(5.0)
    ref = system.spawn(Phoenix, book, supervision=slow(10.0, max_restarts=None))
    await ref.ask(lambda me: me.ctx.set_receive_timeout(2.0))
    ref.fail(BAD)
    await clock.advance(11.5)
    assert book.heard == []
    await clock.advance(0.5)
    assert book.heard == [ReceiveTimeout()]
    ref.fail(BAD)
    await clock.advance(14.5)
    assert book.heard == [ReceiveTimeout()]
    await clock.advance(0.5)
    assert book.heard == [ReceiveTimeout()] * 2


@pytest.mark.config(supervision=AT_ONCE)
async def test_behaviors_it_became_end_with_it(system: ActorSystem) -> None:  # M6, M13
    def other(ctx: Context, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        return "other"

    for turn_into in (lambda me: me.ctx.become(other), lambda _: Behaviors.receive(other)):
        book = Book()
        ref = system.spawn(Phoenix, book)
        await ref.ask(turn_into)
        assert await ref.ask("x") == "other"
        ref.tell(BAD)
        assert await ref.ask("x") == "x"
        assert book.log.count("pre_restart 1") == book.log.count("post_stop 1") == 1
        assert await ref.ask(lambda me: me.ctx.unbecome()) is None
        assert await ref.ask("y") == "y"


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
@pytest.mark.config(supervision=AT_ONCE)
async def test_a_piped_awaitable_of_the_old_instance_never_reaches_the_new_one(
    system: ActorSystem, fails: bool, stubborn: bool
) -> None:  # M6, decision 014
    book = Book()
    gate = Gate(stubborn)

    async def work() -> str:
        await gate.wait()
        if fails:
            raise LookupError("of the old instance")
        return "result"

    ref = system.spawn(Phoenix, book)
    await ref.ask(lambda me: me.ctx.pipe_to_self(work()) and None)
    await gate.entered.wait()
    ref.tell(BAD)
    await ref.ask("next")
    await turns()
    assert gate.cancelled == 1
    gate.opened.set()  # it has swallowed its cancellation, and ends all the same
    await turns()
    await system.settle()
    assert book.heard == ["next"]
    assert book.lives == 2


RESTARTS: dict[str, Callable[[Ref], object]] = {
    "failure": lambda ref: ref.tell(BAD),
    "told to fail": lambda ref: ref.fail(BAD),
    "restart": lambda ref: ref.restart(BAD),
    "restart without a cause": lambda ref: ref.restart(),
}


@every_phoenix
@pytest.mark.parametrize("how", RESTARTS)
async def test_replies_it_owes_fail_with_the_old_instance(
    system: ActorSystem, clock: ManualClock, kind: Any, how: str
) -> None:  # case 26, decision 014
    book = Book()
    ref = system.spawn(kind, book, supervision=slow(10.0))
    kept: list[Reply] = []
    asked = [ref.ask(lambda me: kept.append(me.ctx.defer_reply()), timeout=None) for _ in range(3)]
    book.acts["post_stop 1"] = lambda me: kept[0].send("the last word")
    await system.settle()
    RESTARTS[how](ref)
    await clock.advance(0.0)
    assert await soon(system, asked[0]) == "the last word"
    for question in asked[1:]:  # at once, not when the backoff is over
        with pytest.raises(HandlerBroken, match="deferred") as caught:
            await soon(system, question)
        assert caught.value.__cause__ is (None if "without" in how else BAD)
    kept[1].send("too late")
    await clock.advance(10.0)
    assert await soon(system, ref.ask(lambda me: me.number)) == 2
    assert [(letter.message, letter.reason) for letter in system.dead_letters.recent()] == [("too late", "late reply")]


async def test_replies_it_owes_can_still_be_given_by_one_that_is_resumed(system: ActorSystem) -> None:  # M7, case 26
    ref = system.spawn(Phoenix, Book(), supervision=Supervision(Directive.RESUME))
    kept: list[Reply] = []
    asked = [ref.ask(lambda me: kept.append(me.ctx.defer_reply()), timeout=None) for _ in range(2)]
    ref.tell(BAD)
    assert await ref.ask(lambda me: me.number) == 1
    kept[0].send("late, but given")
    assert await asked[0] == "late, but given"
    assert not asked[1].done()
    ref.stop()
    with pytest.raises(ActorTerminated):
        await asked[1]


async def test_a_reply_that_a_supervisors_child_owes_fails_when_it_comes_back(system: ActorSystem) -> None:  # J10, 014
    for end in (lambda ref: ref.stop(), lambda ref: ref.kill(), lambda ref: ref.tell(BAD)):
        book = Book()
        spec = Supervisor.spec([ChildSpec("one", Phoenix, (book,), backoff=None)])
        supervisor = system.spawn(Supervisor, spec)
        await supervisor.started()
        child = actor_at(system, f"{supervisor.path}/one")
        kept: list[Reply] = []
        asked = child.ask(lambda me, kept=kept: kept.append(me.ctx.defer_reply()), timeout=None)
        await system.settle()
        end(child)
        with pytest.raises(HandlerBroken, match="deferred"):
            await soon(system, asked)
        assert await soon(system, child.ask(lambda me: me.number)) == 2


@every_phoenix
@pytest.mark.config(supervision=AT_ONCE)
async def test_watches_survive_in_both_directions_and_so_do_monitors_of_it(system: ActorSystem, kind: Any) -> None:
    # case 17, 014
    book = Book()
    probe = TestProbe(system)
    ref = system.spawn(kind, book)
    other_book = Book()
    other, holder = system.spawn(Phoenix, Book()), system.spawn(Phoenix, other_book)
    await probe.watch(ref)
    mref = await holder.ask(lambda me: me.ctx.monitor(ref))
    await ref.ask(lambda me: me.ctx.watch(other))
    for _ in range(3):
        ref.tell(BAD)
    ref.restart()
    assert await ref.ask(lambda me: me.number) == 5
    await probe.expect_no()
    assert other_book.heard == []
    other.restart()
    await other.ask("still there")
    await system.settle()
    assert book.heard == []
    ref.tell(lambda _: Behaviors.stopped)
    await probe.expect_terminated(ref)
    await system.settle()
    down = [heard for heard in other_book.heard if isinstance(heard, Down)]
    assert [(one.mref, one.ref) for one in down] == [(mref, ref)]
    await system.shutdown()
    assert book.heard == []


@every_phoenix
@pytest.mark.config(supervision=AT_ONCE)
async def test_what_the_old_instance_watched_is_told_to_the_new_one(system: ActorSystem, kind: Any) -> None:
    # M8, decision 014
    book = Book()
    ref = system.spawn(kind, book)
    other = system.spawn(Phoenix, Book())
    await ref.ask(lambda me: me.ctx.watch(other))
    await ref.ask(lambda me: me.ctx.monitor(other))
    ref.tell(BAD)
    await system.settle()
    other.stop()
    await ended(system, other)
    await system.settle()
    assert book.lives == 2
    assert book.heard == [("terminated", other)]


async def test_a_notice_that_comes_during_the_backoff_waits(system: ActorSystem, clock: ManualClock) -> None:
    # M8: notices are never refused
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(1.0))
    other = system.spawn(Phoenix, Book())
    await ref.ask(lambda me: me.ctx.watch(other))
    ref.tell(BAD)
    await clock.advance(0.5)
    other.stop()
    await clock.advance(0.25)
    assert book.heard == []
    await clock.advance(0.25)
    assert book.heard == [("terminated", other)]


@pytest.mark.config(supervision=AT_ONCE)
async def test_a_link_outlives_restarts_and_fires_at_the_end(system: ActorSystem) -> None:  # case 19, decision 017
    ref = system.spawn(Phoenix, Book())
    peer = system.spawn(Phoenix, Book(), supervision=Supervision(max_restarts=0))
    await peer.started()
    await ref.ask(lambda me: me.ctx.link(peer))
    ref.tell(BAD)
    assert await ref.ask(lambda me: me.number) == 2
    assert peer.state is State.RUNNING
    ref.kill()
    assert (await ended(system, peer)).kind is ExitKind.FAIL


async def test_exits_are_trapped_by_the_instance_that_said_so(system: ActorSystem) -> None:  # case 19, decision 014
    book = Book()

    def trap(me: Any) -> None:
        me.ctx.trap_exit = True

    ref = system.spawn(Phoenix, book, supervision=Supervision(backoff=None))
    peers = [system.spawn(Bird, Book()) for _ in range(2)]
    await ref.ask(trap)
    await ref.ask(lambda me: [me.ctx.link(peer) for peer in peers])
    peers[0].fail(LookupError("trapped"))
    await ended(system, peers[0])
    await system.settle()
    assert [type(heard) for heard in book.heard] == [Exit]
    ref.restart()
    assert await ref.ask(lambda me: me.ctx.trap_exit) is False
    peers[1].fail(BAD)
    await ended(system, peers[1])
    await system.settle()
    assert book.lives == 3
    assert book.actors[1].cause is BAD


@every_phoenix
@pytest.mark.config(supervision=AT_ONCE)
async def test_queued_messages_are_handled_in_order_and_the_failed_one_is_not_replayed(
    system: ActorSystem, kind: Any
) -> None:  # cases 45, 46, 49
    book = Book()
    tried: list[int] = []

    def fail(me: Any) -> None:
        tried.append(me.number)
        raise BAD.with_traceback(None)

    ref = system.spawn(kind, book)
    for message in (fail, "m2", "m3"):
        ref.tell(message)
    ref.tell("urgent", lane=Lane.MANAGEMENT)
    ref.tell("log", lane=Lane.LOG)
    asked = ref.ask(lambda me: me.number)
    assert await asked == 2
    await system.settle()
    assert tried == [1]
    assert book.heard == ["urgent", "m2", "m3", "log"]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.failed, ledger.handled, ledger.dead_lettered) == (1, 5, 0)


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_messages_sent_while_it_waits_are_queued_behind_those_it_had(
    system: ActorSystem, clock: ManualClock, foreign: bool
) -> None:  # cases 45, 46, 49
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(1.0))
    ref.tell(BAD)
    ref.tell(1)
    await clock.advance(0.5)
    ref.tell(2)
    if foreign:
        run_threads_while_blocked(lambda: ref.tell(3))
    else:
        ref.tell(3)
    await clock.advance(0.25)
    assert book.heard == []
    assert assert_ledger_balanced(system, ref).queued == 3
    await ref.send(4)
    await clock.advance(0.25)
    assert book.heard == [1, 2, 3, 4]


async def test_a_mailbox_is_as_bounded_while_its_actor_waits(system: ActorSystem, clock: ManualClock) -> None:
    # cases 8, 45, 46, 49, M6
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(1.0), mailbox=MailboxConfig(capacity=2))
    ref.tell(BAD)
    await clock.advance(0.5)
    ref.tell(1)
    ref.tell(2)
    with pytest.raises(MailboxFull):
        ref.tell(3)
    waiting = asyncio.ensure_future(ref.send(4))
    await turns()
    assert not waiting.done()
    await clock.advance(0.5)
    await waiting
    await system.settle()
    assert book.heard == [1, 2, 4]


@every_phoenix
@pytest.mark.config(supervision=CLEARING)
async def test_with_clear_they_are_dead_letters(system: ActorSystem, kind: Any) -> None:  # cases 45, 46, 49
    book = Book()
    letters: list[Any] = []
    system.dead_letters.subscribe(letters.append)
    ref = system.spawn(kind, book)
    await ref.ask("hello")

    def stash(me: Any) -> None:
        me.ctx.stash()

    ref.tell(stash)
    ref.tell(BAD)
    ref.tell("m2")
    ref.tell("m3", lane=Lane.LOG)
    asked = ref.ask("m4", timeout=None)
    error = await outcome(asked)
    assert isinstance(error, Exception)
    assert not isinstance(error, TimeoutError)
    assert await ref.ask("after") == "after"
    assert book.heard == ["hello", "after"]
    assert sorted(str(letter.message) for letter in letters if letter.message is not stash) == ["m2", "m3", "m4"]
    assert {letter.recipient for letter in letters} == {ref}
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.dead_lettered, ledger.failed, ledger.handled) == (4, 1, 2)


async def test_a_clear_lets_waiting_senders_in_and_leaves_notices_alone(system: ActorSystem) -> None:
    # cases 11, 45, 46, 49
    book = Book()
    gate = Gate()
    ref = system.spawn(AsyncPhoenix, book, supervision=CLEARING, mailbox=MailboxConfig(capacity=2))
    other = system.spawn(Bird, Book())
    await ref.ask(lambda me: me.ctx.watch(other))

    async def hold(me: Any) -> None:
        await gate.wait()
        raise BAD.with_traceback(None)

    ref.tell(hold)
    await gate.entered.wait()
    other.stop()
    await ended(system, other)
    ref.tell(1)
    ref.tell(2)
    waiting = asyncio.ensure_future(ref.send(3))
    await turns()
    assert not waiting.done()
    gate.opened.set()
    await waiting
    await system.settle()
    assert sorted(map(str, book.heard)) == sorted(["3", str(("terminated", other))])


async def test_what_comes_after_a_clear_is_kept(system: ActorSystem, clock: ManualClock) -> None:
    # cases 45 and 49, case 46: a restart must not lose messages
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(1.0, mailbox=OnRestart.CLEAR))
    ref.tell(BAD)
    ref.tell("cleared")
    await clock.advance(0.5)
    assert system.dead_letters.count == 1
    ref.tell("kept")
    await clock.advance(0.5)
    assert book.heard == ["kept"]


@every_phoenix
@pytest.mark.config(supervision=AT_ONCE)
async def test_stashed_messages_are_not_lost_and_come_before_newer_ones(system: ActorSystem, kind: Any) -> None:
    # cases 45, 46, 49, 51, M6
    book = Book()
    ref = system.spawn(kind, book)
    seen: list[Any] = []

    def put_aside(name: str) -> Any:
        def act(me: Any) -> str:
            if me.number == 1:
                me.ctx.stash()
            else:
                seen.append(name)
            return name

        return act

    asked = ref.ask(put_aside("s1"))
    ref.tell(put_aside("s2"))
    ref.tell(BAD)
    ref.tell(lambda _: seen.append("newer"))
    assert await asked == "s1"
    await system.settle()
    assert seen == ["s1", "s2", "newer"]


@every_phoenix
async def test_timers_end_with_the_instance_that_started_them(
    system: ActorSystem, clock: ManualClock, kind: Any
) -> None:  # cases 45, 46, 49, J11, M6
    book, other_book = Book(), Book()
    other = system.spawn(Bird, other_book)
    ref = system.spawn(kind, book, supervision=AT_ONCE)

    def start(me: Any) -> None:
        me.ctx.send_after(1.0, me.ctx.self, "after")
        me.ctx.send_every(1.0, me.ctx.self, "every")
        me.ctx.timers.start("key", 1.0, "by key", every=1.0)
        me.ctx.send_after(1.0, other, "to another")

    await ref.ask(start)
    await clock.advance(0.5)
    ref.tell(BAD)
    await clock.advance(10.0)
    assert book.heard == other_book.heard == []
    assert system.snapshot().timers == 0
    assert await ref.ask(lambda me: me.ctx.timers.active) == []
    await ref.ask(start)
    await clock.advance(1.0)
    assert book.heard == ["after", "every", "by key"]
    assert other_book.heard == ["to another"]


@pytest.mark.parametrize("policy", list(OnRestart))
async def test_a_tick_that_is_queued_when_its_actor_restarts_is_not_delivered(
    system: ActorSystem, clock: ManualClock, policy: OnRestart
) -> None:  # cases 45 and 46
    # case 49
    book = Book()
    gate = Gate()
    ref = system.spawn(AsyncPhoenix, book, supervision=Supervision(backoff=None, mailbox=policy))

    async def hold(me: Any) -> None:
        me.ctx.send_after(1.0, me.ctx.self, "tick")
        me.ctx.send_every(1.0, me.ctx.self, "tick", fixed_rate=True)
        me.ctx.timers.start("key", 1.0, "tick")
        await gate.wait()
        raise BAD.with_traceback(None)

    ref.tell(hold)
    await clock.advance(1.0)
    assert assert_ledger_balanced(system, ref).queued >= 3
    gate.opened.set()
    await until(lambda: book.lives == 2)
    await clock.advance(10.0)
    assert book.heard == []
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.dropped, ledger.dead_lettered, ledger.queued) == (3, 0, 0)


async def test_a_timer_of_another_actor_goes_on(system: ActorSystem, clock: ManualClock) -> None:
    # cases 45, 46, 49, J11, M6
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(1.0))
    other = system.spawn(Bird, Book())
    await other.ask(lambda me: me.ctx.send_after(1.5, ref, "tick"))
    await clock.advance(1.0)
    ref.tell(BAD)
    await clock.advance(1.0)
    assert book.heard == ["tick"]


async def test_asks_that_are_queued_are_answered_by_the_next_incarnation(
    system: ActorSystem, clock: ManualClock
) -> None:  # cases 45, 46, 49
    ref = system.spawn(AsyncPhoenix, Book(), supervision=slow(1.0))
    failed = ref.ask(BAD)
    asked = ref.ask(lambda me: me.number, timeout=30.0)
    late = ref.ask(lambda me: me.number, timeout=0.5)
    await clock.advance(1.0)
    assert await outcome(failed) is BAD
    assert await asked == 2
    assert isinstance(await outcome(late), TimeoutError)


@every_phoenix
async def test_a_restart_from_outside_counts_for_no_limit_and_waits_for_no_backoff(
    system: ActorSystem, clock: ManualClock, kind: Any
) -> None:  # M6, M7
    book = Book()
    ref = system.spawn(kind, book, supervision=slow(1.0, max_restarts=1, within=100.0))
    for number in range(1, 11):
        ref.restart()
        await clock.advance(0.0)
        assert runs(ref)
        assert book.lives == number + 1
        assert book.actors[number - 1].cause is None
    ref.tell(BAD)
    await clock.advance(1.0)
    assert book.lives == 12
    ref.restart()
    ref.tell(BAD)
    assert (await ended(system, ref)).cause is BAD
    assert book.lives == 13


async def test_restarting_does_not_lengthen_the_next_backoff(system: ActorSystem, clock: ManualClock) -> None:
    # M7: what counts as a restart
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(1.0))
    for _ in range(5):
        ref.restart()
    await system.settle()
    lives = book.lives
    ref.tell(BAD)
    await clock.advance(1.0)
    assert book.lives == lives + 1
    assert runs(ref)


@every_phoenix
async def test_a_restart_acts_after_the_message_in_hand_and_before_what_is_queued(
    system: ActorSystem, kind: Any
) -> None:  # M2, M6
    book = Book()
    ref = system.spawn(kind, book)

    def ask_for_it(me: Any) -> int:
        ref.restart()
        me.book.write("goes on", me.number)
        number: int = me.number
        return number

    asked = ref.ask(ask_for_it)
    number = ref.ask(lambda me: me.number)
    assert (await asked, await number) == (1, 2)
    log = book.take()
    assert log.index("goes on 1") < log.index("pre_restart 1") < log.index("init 2")


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.config(history=True)
async def test_a_restart_waits_for_a_suspended_handler(system: ActorSystem, foreign: bool) -> None:  # M2, M6
    book = Book()
    gate = Gate()
    ref = system.spawn(AsyncPhoenix, book)
    asked = ref.ask(gate.wait)
    await gate.entered.wait()
    if foreign:
        await in_thread(lambda: ref.restart(BAD))
    else:
        ref.restart(BAD)
    ref.restart()
    await turns()
    assert "pre_restart 1" not in book.log
    gate.opened.set()
    assert await asked is None
    assert await ref.ask("next") == "next"
    assert book.actors[0].cause is BAD
    assert gate.cancelled == 0
    assert_legal(ref.history)


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.config(stop_timeout=3.0, history=True)
async def test_a_handler_that_ignores_a_restart_is_broken_off_at_the_deadline(
    system: ActorSystem, clock: ManualClock, stubborn: bool
) -> None:  # M5, M6
    book = Book()
    gate = Gate(stubborn)
    ref = system.spawn(AsyncPhoenix, book)
    asked = ref.ask(gate.wait, timeout=None)
    ref.tell("queued")
    await clock.advance(0.0)
    ref.restart()
    await clock.advance(2.5)
    assert book.lives == 1
    assert gate.cancelled == 0
    await clock.advance(5.0)
    assert gate.cancelled == 1
    assert book.lives == 2
    assert runs(ref)
    assert book.heard == ["queued"]
    with pytest.raises((Exception, asyncio.CancelledError)):
        await asked
    assert_legal(ref.history)
    gate.opened.set()


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.config(history=True)
async def test_a_restart_of_one_that_waits_for_its_backoff_starts_it_at_once(
    system: ActorSystem, clock: ManualClock, foreign: bool
) -> None:  # M6
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(10.0))
    ref.tell(BAD)
    await clock.advance(1.0)
    assert ref.state is State.RESTARTING
    book.take()
    await in_thread(ref.restart) if foreign else ref.restart()
    await clock.advance(0.0)
    assert runs(ref)
    assert book.take() == BORN_AGAIN
    await clock.advance(100.0)  # the alarm of the backoff is off
    assert book.take() == []
    assert book.lives == 2
    assert_legal(ref.history)


@every_phoenix
@pytest.mark.config(history=True)
async def test_a_restart_right_after_the_spawn_still_leaves_a_running_actor(system: ActorSystem, kind: Any) -> None:
    # M1, M6
    book = Book()
    ref = system.spawn(kind, book)
    ref.restart()
    assert await ref.ask("hello") == "hello"
    assert runs(ref)
    assert_legal(ref.history)
    born = [line for line in book.log if line.startswith("init")]
    gone = [line for line in book.log if line.startswith("post_stop")]
    assert len(born) == len(gone) + 1


@pytest.mark.parametrize("hook", ["pre_start", "post_start", "pre_restart", "snapshot", "post_stop", "post_restart"])
def test_a_restart_asked_for_in_a_hook_leads_to_a_running_actor(play: Play, hook: str) -> None:  # M6
    for kind in (Phoenix, AsyncPhoenix):
        book = Book()

        async def program(system: ActorSystem, kind: Any = kind, book: Book = book) -> None:
            number = 2 if hook == "post_restart" else 1
            book.acts[f"{hook} {number}"] = lambda me: me.ctx.self.restart()
            ref = system.spawn(kind, book)
            await ref.ask("first")
            ref.restart()
            assert await ref.ask("second") == "second"
            assert runs(ref)
            assert 2 <= book.lives <= 3
            assert_legal(ref.history)

        play(program, history=True)


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_an_actor_that_has_ended_is_not_restarted(system: ActorSystem, foreign: bool) -> None:  # M6
    book = Book()
    probe = TestProbe(system)
    ref = system.spawn(Phoenix, book)
    await probe.watch(ref)
    ref.stop()
    ref.restart()
    await ended(system, ref)
    ref.restart(BAD)
    if foreign:
        await in_thread(ref.restart)
    await system.settle()
    assert book.lives == 1
    await probe.expect_terminated(ref)
    await probe.expect_no()


@pytest.mark.parametrize("cause", ["a text", ValueError, 3])
async def test_the_cause_of_a_restart_is_an_exception(system: ActorSystem, cause: Any) -> None:  # J9
    ref = system.spawn(Phoenix, Book())
    with pytest.raises(BadArgument):
        ref.restart(cause)
    assert await ref.ask("unharmed") == "unharmed"


LEAVING = ["pre_restart 1", "snapshot 1", "post_stop 1"]
COMING = ["init 2", "pre_start 2", "restore 2", "post_restart 2", "post_start 2"]
ENDS = ["stop", "kill", "parent", "shutdown"]
every_end = pytest.mark.parametrize("how", ENDS)
KINDS = {"stop": ExitKind.NORMAL, "kill": ExitKind.KILLED}


async def end(system: ActorSystem, ref: Ref, how: str) -> asyncio.Future[Any]:
    if how == "parent":
        assert ref.parent is not None
        ref.parent.stop()
        return asyncio.ensure_future(ref.parent.terminated())
    if how == "shutdown":
        task = asyncio.ensure_future(system.shutdown(drain=False))
        await turns(3)
        return task
    getattr(ref, how)()
    return asyncio.ensure_future(ref.terminated())


@every_phoenix
@every_end
@pytest.mark.config(history=True)
async def test_an_end_during_the_backoff_ends_the_waiting_restart(
    system: ActorSystem, clock: ManualClock, kind: Any, how: str
) -> None:  # cases 57 and 58, M3, M5
    # decision 015, case 59
    book = Book()
    probe = TestProbe(system)
    parent = system.spawn(Plain)
    ref = system.spawn(kind, book, parent=parent, supervision=slow(60.0))
    await probe.watch(ref)
    ref.tell(BAD)
    asked = ref.ask("queued", timeout=None)
    await clock.advance(1.0)
    book.take()
    done = await end(system, ref, how)
    if how == "shutdown":
        await done  # at once: nothing has to be waited for
    reason = await ended(system, ref)
    if how in KINDS:
        assert reason.kind is KINDS[how]
    assert book.take() == []  # the old instance is gone already, and has had its post_stop
    assert isinstance(await outcome(asked), ActorTerminated)
    if how != "shutdown":
        await done
        await probe.expect_terminated(ref)
        await clock.advance(100.0)
        await probe.expect_no()
    assert book.lives == 1
    assert_is_a_life(ref.history, killed=how == "kill")
    await system.shutdown()
    assert report_of(system).forced == ()


@every_end
@pytest.mark.parametrize("hook", [*LEAVING, *COMING[1:]])
@pytest.mark.config(history=True)
async def test_an_end_while_a_hook_of_a_restart_is_suspended_ends_the_actor(
    system: ActorSystem, clock: ManualClock, hook: str, how: str
) -> None:  # cases 57 and 58, M3, M5
    # case 59: it ends, once
    book = Book()
    probe = TestProbe(system)
    gate = Gate()
    book.acts[hook] = gate.wait
    parent = system.spawn(Plain)
    ref = system.spawn(AsyncPhoenix, book, parent=parent, supervision=AT_ONCE)
    await probe.watch(ref)
    ref.tell(BAD)
    asked = ref.ask("queued", timeout=None)
    await clock.advance(0.0)
    assert gate.entered.is_set()
    done = await end(system, ref, how)
    await clock.advance(0.5)
    gate.opened.set()
    await clock.advance(0.0)
    reason = await ended(system, ref)
    await done
    if how in KINDS:
        assert reason.kind is KINDS[how]
    assert isinstance(await outcome(asked), ActorTerminated)
    assert book.lives == (2 if hook in COMING else 1)
    number = book.lives
    assert [line for line in book.log if line.startswith("post_stop")] == [
        f"post_stop {one}" for one in range(1, number + 1)
    ]
    if how != "shutdown":
        await probe.expect_terminated(ref)
        await probe.expect_no()
    assert_is_a_life(ref.history, killed=how == "kill")


@pytest.mark.parametrize(
    "asked",
    [["restart"], ["stop"], ["restart", "stop"], ["stop", "restart"], ["restart", "restart", "stop"]],
    ids=" ".join,
)
@pytest.mark.parametrize("hook", LEAVING)
@pytest.mark.config(history=True)
async def test_a_kill_overtakes_what_was_asked_for_before_it(system: ActorSystem, hook: str, asked: list[str]) -> None:
    # cases 58 and 59, M3, M5
    # case 57, M2
    book = Book()
    gate = Gate()
    book.acts[hook] = gate.wait
    ref = system.spawn(AsyncPhoenix, book)
    await ref.started()
    ref.restart()
    await gate.entered.wait()
    for order in asked:
        getattr(ref, order)()
    ref.kill()
    assert (await ended(system, ref)).kind is ExitKind.KILLED
    assert book.lives == 1
    assert "pre_stop 1" not in book.log
    assert book.log.count("post_stop 1") == 1
    assert_legal(ref.history, killed=True)


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@every_end
@pytest.mark.parametrize("hook", [*LEAVING, *COMING[1:]])
@pytest.mark.config(history=True, stop_timeout=3.0)
async def test_an_end_forces_a_hook_of_a_restart_that_hangs(
    system: ActorSystem, clock: ManualClock, hook: str, how: str, stubborn: bool
) -> None:  # case 58, M3, M5
    # case 57, case 59
    book = Book()
    gate = Gate(stubborn)
    book.acts[hook] = gate.wait
    parent = system.spawn(Plain)
    ref = system.spawn(AsyncPhoenix, book, parent=parent, supervision=AT_ONCE)
    ref.tell(BAD)
    await clock.advance(0.0)
    done = await end(system, ref, how)
    await clock.advance(10.0)
    reason = await ended(system, ref)
    await done
    if how == "kill":
        assert reason.kind is ExitKind.KILLED
    assert gate.cancelled >= 1
    assert_is_a_life(ref.history, killed=True)
    gate.opened.set()


@every_phoenix
@pytest.mark.config(supervision=AT_ONCE)
async def test_a_stop_that_is_asked_for_by_the_message_that_fails_wins(system: ActorSystem, kind: Any) -> None:
    # cases 57, 58, 59, M3, M5: decision 015
    book = Book()
    ref = system.spawn(kind, book)

    def stop_and_fail(me: Any) -> None:
        me.ctx.stop()
        raise BAD.with_traceback(None)

    ref.tell(stop_and_fail)
    await ended(system, ref)
    assert book.lives == 1
    assert book.log.count("post_stop 1") == 1
    assert "pre_restart 1" not in book.log


@every_phoenix
@pytest.mark.parametrize("hook", ["pre_stop", "post_stop"])
@pytest.mark.config(supervision=AT_ONCE)
async def test_a_hook_that_raises_at_the_end_leads_to_no_restart(system: ActorSystem, kind: Any, hook: str) -> None:
    # cases 57, 58, 59, M3, M5
    book = Book(**{hook: raises(BAD)})
    probe = TestProbe(system)
    ref = system.spawn(kind, book)
    await probe.watch(ref)
    ref.stop()
    assert (await ended(system, ref)).kind is ExitKind.NORMAL
    await probe.expect_terminated(ref)
    assert book.lives == 1


@pytest.mark.parametrize("kind", [Phoenix, AsyncPhoenix])
def test_a_shutdown_asked_for_by_a_hook_of_a_restart_ends_the_system(play: Play, kind: Any) -> None:
    # cases 57, 58, 59, M3, M5
    for hook in (*LEAVING, *COMING[1:]):
        book = Book()

        async def program(system: ActorSystem, hook: str = hook, book: Book = book) -> None:
            def shut_down(me: Any) -> None:
                ctx: Context = me.ctx
                ctx.system.stop()
                ctx.system.stop()

            book.acts[hook] = shut_down
            ref = system.spawn(kind, book)
            ref.tell(BAD)
            ref.tell("queued")
            await system.stopped()
            assert_is_a_life(ref.history)

        system = play(program, supervision=AT_ONCE, history=True)
        assert system.report is not None
        assert (system.report.started, system.report.terminated, system.report.forced) == (1, 1, ())


@pytest.mark.parametrize("second", list(Directive))
@pytest.mark.config(history=True)
async def test_a_failure_asked_for_while_it_waits_neither_shortens_the_backoff_nor_makes_a_zombie(
    system: ActorSystem, clock: ManualClock, second: Directive
) -> None:  # cases 57, 58, 59, M3, M5: decisions 009 and 014
    book = Book()

    def decide(cause: BaseException) -> Directive:
        return Directive.RESTART if cause is BAD else second

    parent = system.spawn(Plain, supervision=Supervision(Directive.RESUME))
    waiting = slow(1.0, strategy=decide, max_restarts=None)
    ref = system.spawn(Phoenix, book, parent=parent, supervision=waiting)
    ref.tell(BAD)
    await clock.advance(0.5)
    assert ref.state is State.RESTARTING
    ref.fail(LookupError("again"))
    ref.tell("queued")
    await clock.advance(0.25)
    assert book.lives == 1
    assert book.heard == []
    await clock.advance(1.0)
    assert_legal(ref.history)
    assert book.log.count("post_stop 1") == 1
    if second is not Directive.STOP:
        assert runs(ref)
        assert book.heard == ["queued"]
        assert book.lives == 2


@pytest.mark.config(history=True)
async def test_failures_asked_for_in_one_go_are_one_restart(system: ActorSystem) -> None:
    # cases 57, 58, 59, M3, M5, decision 009, M7
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=Supervision(max_restarts=None, backoff=None))
    await ref.ask("hello")
    for number in range(3):
        ref.fail(LookupError(f"number {number}"))
    assert await soon(system, ref.ask("next")) == "next"
    assert 2 <= book.lives <= 4
    assert_legal(ref.history)
    lines = [line for line in book.log if line.startswith("post_stop")]
    assert lines == [f"post_stop {number}" for number in range(1, book.lives)]
