"""What is logged of a failure: one record for each actor it concerns, and one traceback."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Backoff,
    Behaviors,
    ChildSpec,
    Context,
    Directive,
    ManualClock,
    Restart,
    Scope,
    Supervision,
    Supervisor,
    SupervisorSpec,
    SystemConfig,
    SystemFailed,
)
from greenroom.runtimelog import LOG_PERIOD, LOGGED_PER_PERIOD
from tests.conformance.relations import BAD
from tests.culprits import Culprit, Unmakeable, go_wrong
from tests.system.observing import HandClock

if TYPE_CHECKING:
    from tests.conftest import Play

Ref = ActorRef[Any, Any]
Caplog = pytest.LogCaptureFixture
RESUME = Supervision(Directive.RESUME)


class Deposit:
    """A message on which `Account` fails."""

    def __init__(self, cause: BaseException = BAD, act: Callable[[], object] = lambda: None) -> None:
        self.cause = cause
        self.act = act


class Account(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        if isinstance(message, Deposit):
            message.act()
            raise message.cause
        return message(self.ctx) if callable(message) else message


class AsyncAccount(Account):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return super().receive(message)


def failures(caplog: Caplog) -> list[Any]:
    """The records of failures so far."""
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("kind", [Account, AsyncAccount])
async def test_a_failure_is_one_record_with_all_there_is_to_know(
    system: ActorSystem, kind: Any, caplog: Caplog
) -> None:  # J10, M7
    parent = system.spawn(kind, name="bank")
    ref = system.spawn(kind, name="account", parent=parent)
    await ref.ask("hello")
    ref.tell(Deposit(ValueError("not enough")))
    await ref.terminated()
    (record,) = failures(caplog)
    assert record.name == "greenroom"
    assert (record.actor, record.incarnation, record.message_type) == ("/bank/account", 1, "Deposit")
    assert 0.0 <= record.handling_time < 10.0
    assert isinstance(record.decision, str)
    assert record.acts_in == 0.0
    assert record.exc_info[1].args == ("not enough",)
    text = record.getMessage()
    for part in ("/bank/account", "Deposit", "ValueError: not enough", record.decision):
        assert part in text


DECISIONS: dict[str, tuple[Supervision, float, str]] = {
    "stop": (Supervision(Directive.STOP), 0.0, "stopped"),
    "resume": (RESUME, 0.0, "goes on"),
    "restart": (Supervision(), 0.01, "restarted in 0.01 s"),
    "restart later": (Supervision(backoff=Backoff(min=2.5, max=9.0)), 2.5, "restarted in 2.5 s"),
    "restart at once": (Supervision(backoff=None), 0.0, "restarted at once"),
    "restart all": (Supervision(scope=Scope.ONE_FOR_ALL), 0.01, "siblings"),
    "escalate": (Supervision(Directive.ESCALATE), 0.0, "escalated to its parent /parent"),
    "limit": (Supervision(max_restarts=0), 0.0, "stopped"),
    "limit escalates": (Supervision(max_restarts=0, on_limit=Directive.ESCALATE), 0.0, "escalated"),
    "by the exception": (Supervision(lambda exc: Directive.RESUME), 0.0, "goes on"),
}


@pytest.mark.parametrize("case", DECISIONS)
@pytest.mark.parametrize("start", [False, True])
async def test_the_record_says_what_was_decided_and_when_it_acts(  # J10, M7
    system: ActorSystem, clock: ManualClock, case: str, start: bool, caplog: Caplog
) -> None:
    class Unable(Account):
        def pre_start(self) -> None:
            raise BAD

    supervision, acts_in, words = DECISIONS[case]
    if start and "goes on" in words:  # there is nothing to go on with
        acts_in, words = 0.01, "restarted"
    parent = system.spawn(Account, name="parent")
    ref = system.spawn(Unable if start else Account, name="ref", parent=parent, supervision=supervision)
    ref.tell(Deposit())
    await system.settle()
    record, *others = (one for one in failures(caplog) if one.actor == "/parent/ref")
    assert bool(others) is (start and case == "restart at once")  # which then fails again
    assert record.acts_in == pytest.approx(acts_in)
    assert words in record.decision
    assert record.decision in record.getMessage()
    if "limit" in case:
        assert "more than 0 restarts in 1 s" in record.getMessage()
    if start:
        assert record.message_type is None
        assert "start" in record.getMessage()


@pytest.mark.config(supervision=Supervision(backoff=None))
async def test_the_record_says_in_which_life_it_was(
    system: ActorSystem, caplog: Caplog
) -> None:  # J10, M7, restarts are seen
    ref = system.spawn(Account)
    ref.tell(Deposit())
    await system.settle()
    ref.restart()
    ref.tell(Deposit())
    await system.settle()
    assert [record.incarnation for record in failures(caplog)] == [1, 3]
    assert "3" in failures(caplog)[1].getMessage()


async def test_an_escalation_is_one_record_for_each_actor_it_concerns(
    system: ActorSystem, caplog: Caplog
) -> None:  # J10, M7, case 41
    grand = system.spawn(Account, name="grand")
    parent = system.spawn(Account, name="parent", parent=grand, supervision=Supervision(Directive.ESCALATE))
    child = system.spawn(Account, name="child", parent=parent)
    child.tell(Deposit())
    await grand.terminated()
    records = failures(caplog)
    assert [record.actor for record in records] == ["/grand/parent/child", "/grand/parent", "/grand"]
    assert [record.message_type for record in records] == ["Deposit", None, None]
    assert "/grand/parent/child escalated" in records[1].getMessage()
    assert "/grand/parent escalated" in records[2].getMessage()
    assert "it is stopped" in records[2].decision
    assert all(record.exc_info[1] is BAD for record in records)


# -- how long it took
def test_the_handling_time_is_that_of_the_message_alone(play: Play, caplog: Caplog) -> None:  # J10, M7
    clock = HandClock()

    def work(seconds: float) -> Callable[..., None]:
        def act(*_: Any) -> None:
            clock.time += seconds

        return act

    async def program(system: ActorSystem) -> None:
        refs = [system.spawn(Account), system.spawn(Account)]
        for ref in refs:
            ref.tell(work(5.0))
            ref.tell(Deposit(act=work(1.5)))
            ref.tell(work(3.0))
            ref.tell(Deposit(act=work(0.25)))
        await system.settle()

    play(program, clock=clock, max_tick_time=1000.0, supervision=RESUME)
    records = failures(caplog)
    for path in {record.actor for record in records}:
        first, second = (record for record in records if record.actor == path)
        assert (first.handling_time, second.handling_time) == (pytest.approx(1.5), pytest.approx(0.25))
        assert "1.5 s" in first.getMessage()
        assert "250 ms" in second.getMessage()
    assert len(records) == 4


async def test_the_handling_time_of_an_async_handler_is_from_its_beginning_to_its_failure(
    system: ActorSystem, clock: ManualClock, caplog: Caplog
) -> None:  # J10, M7
    gates = [asyncio.Event() for _ in range(3)]

    async def slow(ctx: Context, message: int) -> None:
        for gate in gates[: message + 1]:
            await gate.wait()
        raise BAD

    refs = [system.spawn(slow) for _ in gates]
    for number, ref in enumerate(refs):
        ref.tell(number)
    for gate in gates:
        await clock.advance(2.0)
        gate.set()
    await system.settle()
    assert [record.handling_time for record in failures(caplog)] == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("hook", ["pre_start", "post_start"])
async def test_a_start_that_took_long_says_so(
    system: ActorSystem, clock: ManualClock, hook: str, caplog: Caplog
) -> None:  # J10, M7
    gate = asyncio.Event()

    async def act(self: Any) -> None:
        await gate.wait()
        raise BAD

    ref = system.spawn(type("Slow", (Account,), {hook: act}), name="slow")
    await clock.advance(3.0)
    gate.set()
    await ref.terminated()
    (record,) = failures(caplog)
    assert (record.handling_time, record.message_type) == (3.0, None)
    assert "/slow failed while it started" in record.getMessage()


# -- what it failed on
def watch_somebody(ctx: Context) -> None:
    ctx.watch(ctx.system.spawn(lambda ctx, message: Behaviors.stopped))
    ctx.system.actors()[-1].stop()


def link_to_somebody(ctx: Context) -> None:
    peer = ctx.system.spawn(Account, name="peer")
    ctx.link(peer)
    peer.kill()


async def boom() -> None:
    raise BAD


def raise_bad(*_: Any) -> Any:
    raise BAD


OCCASIONS: dict[str, tuple[Any, str]] = {
    "told to fail": (lambda ctx: ctx.self.fail(BAD), "told to"),
    "Behaviors.failed": (lambda ctx: Behaviors.failed(BAD), "function"),
    "a pact": (watch_somebody, "Terminated"),
    "a link": (link_to_somebody, "/peer"),
    "a timer": (lambda ctx: ctx.send_after(0.0, ctx.self, Deposit()) and None, "Deposit"),
    "a pipe": (lambda ctx: ctx.pipe_to_self(boom()) and None, "failed because what it piped to itself raised"),
    "a behavior": (lambda ctx: ctx.become(lambda ctx, message: raise_bad()), "str"),
}


@pytest.mark.parametrize("occasion", OCCASIONS)
async def test_whatever_the_occasion_there_is_one_record(
    system: ActorSystem, occasion: str, caplog: Caplog
) -> None:  # J10, M7
    act, words = OCCASIONS[occasion]
    ref = system.spawn(Account, name="one")
    ref.tell(act)
    ref.tell("and then")
    reason = await ref.terminated()
    (record,) = failures(caplog)
    assert record.actor == "/one"
    assert record.exc_info[1] is reason.cause
    assert words in record.getMessage()


class Hooked(Account):
    async def pre_stop(self) -> None:
        raise KeyError("farewell")

    def post_stop(self) -> None:
        raise KeyError("farewell")

    def pre_restart(self, cause: BaseException | None) -> None:
        raise KeyError("farewell")


@pytest.mark.parametrize("hook", ["pre_stop", "post_stop"])
async def test_a_hook_that_fails_at_the_end_is_named(
    system: ActorSystem, hook: str, caplog: Caplog
) -> None:  # J10, M7, M3, case 58
    ref = system.spawn(Hooked, name="hooked")
    await ref.started()
    ref.stop()
    await ref.terminated()
    assert len(failures(caplog)) == 2
    (record,) = (one for one in failures(caplog) if hook in one.getMessage())
    assert "/hooked" in record.getMessage()
    assert isinstance(record.exc_info[1], KeyError)


@pytest.mark.config(supervision=Supervision(backoff=None))
async def test_a_pre_restart_that_fails_is_named_and_does_not_end_the_actor(
    system: ActorSystem, caplog: Caplog
) -> None:  # J10, M7, case 48
    ref = system.spawn(Hooked, name="hooked")
    ref.tell(Deposit())
    assert await ref.ask("still here") == "still here"
    (record,) = (one for one in failures(caplog) if "pre_restart" in one.getMessage())
    assert "/hooked" in record.getMessage()
    assert "ends" not in record.getMessage()


# -- not too many
@pytest.mark.config(supervision=RESUME)
async def test_an_actor_that_fails_again_and_again_does_not_fill_the_log(
    system: ActorSystem, clock: ManualClock, caplog: Caplog
) -> None:  # J10, M7
    ref, other = system.spawn(Account), system.spawn(Account)
    for _ in range(LOGGED_PER_PERIOD + 7):
        ref.tell(Deposit())
        await system.settle()
    assert len(failures(caplog)) == LOGGED_PER_PERIOD
    assert all(record.not_logged == 0 for record in failures(caplog))
    other.tell(Deposit())  # which is another actor's affair
    await system.settle()
    assert failures(caplog)[-1].actor == other.path
    caplog.clear()
    await clock.advance(LOG_PERIOD - 0.125)
    ref.tell(Deposit())
    await system.settle()
    assert failures(caplog) == []
    await clock.advance(0.125)
    for _ in range(LOGGED_PER_PERIOD + 1):
        ref.tell(Deposit())
    await system.settle()
    first, *others = failures(caplog)
    assert len(others) == LOGGED_PER_PERIOD - 1
    assert first.not_logged == 8
    assert "8 failures before this one were not logged" in first.getMessage()
    assert [record.not_logged for record in others] == [0] * len(others)


@pytest.mark.parametrize("last", [Directive.STOP, Directive.ESCALATE])
async def test_what_ends_an_actor_or_goes_further_up_is_always_told(
    system: ActorSystem, clock: ManualClock, last: Directive, caplog: Caplog
) -> None:  # J10, M7
    parent = system.spawn(Account)
    supervision = Supervision(max_restarts=20, within=60.0, backoff=None, on_limit=last)
    ref = system.spawn(Account, parent=parent, supervision=supervision)
    for _ in range(21):
        ref.tell(Deposit())
    await ref.terminated()
    records = [record for record in failures(caplog) if record.actor == ref.path]
    assert len(records) == LOGGED_PER_PERIOD + 1
    assert records[-1].not_logged == 20 - LOGGED_PER_PERIOD
    assert records[-1].incarnation == 21
    assert "more than 20 restarts in 60 s" in records[-1].getMessage()


class Worker(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        raise message


async def employ(system: ActorSystem, spec: SupervisorSpec) -> list[Ref]:
    """The workers of a supervisor called `boss`."""
    boss = system.spawn(Supervisor, spec, name="boss")
    await boss.started()
    found = [system.actor(f"/boss/{child.name}") for child in spec.children]
    return [ref for ref in found if ref is not None]


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("delay", [0.0, 2.5])
async def test_the_record_says_what_the_supervisor_does_and_when(
    system: ActorSystem, clock: ManualClock, scope: Scope, delay: float, caplog: Caplog
) -> None:  # J10
    backoff = Backoff(min=delay, max=delay) if delay else None
    spec = Supervisor.spec([ChildSpec(name, Worker) for name in "abc"], scope=scope, backoff=backoff)
    refs = await employ(system, spec)
    refs[1].tell(BAD)
    await system.settle()
    await clock.advance(delay)
    assert all(ref.is_alive for ref in refs)
    (record,) = failures(caplog)
    assert (record.actor, record.incarnation, record.message_type) == ("/boss/b", 1, "ValueError")
    assert record.acts_in == delay
    assert "/boss restarts" in record.decision
    assert ("in 2.5 s" if delay else "at once") in record.decision
    for part in ("/boss/b", "ValueError", "bad", record.decision):
        assert part in record.getMessage()


async def test_a_child_that_is_not_restarted_is_told_of_as_such(system: ActorSystem, caplog: Caplog) -> None:  # J10
    (ref,) = await employ(system, Supervisor.spec([ChildSpec("a", Worker, restart=Restart.TEMPORARY)]))
    ref.tell(BAD)
    await ref.terminated()
    (record,) = failures(caplog)
    assert record.actor == "/boss/a"
    assert "not" in record.decision
    assert "restart" in record.decision


async def test_one_restart_too_many_is_a_record_of_the_child_and_one_of_the_supervisor(
    system: ActorSystem, caplog: Caplog
) -> None:  # J10, case 37
    (ref,) = await employ(system, Supervisor.spec([ChildSpec("a", Worker)], intensity=1, period=5.0))
    ref.tell(BAD)
    ref.tell(BAD)
    await ref.terminated()
    await system.settle()
    assert not ref.is_alive
    records = failures(caplog)
    assert [(record.actor, record.incarnation) for record in records] == [("/boss/a", 1), ("/boss/a", 2), ("/boss", 1)]
    assert "more than 1 restart in 5 s" in records[1].getMessage()
    assert "/boss" in records[1].decision
    assert "it is stopped" in records[2].decision
    assert records[2].exc_info[1] is BAD


async def test_a_child_in_a_crash_loop_does_not_fill_the_log(
    system: ActorSystem, clock: ManualClock, caplog: Caplog
) -> None:  # J10
    (ref,) = await employ(system, Supervisor.spec([ChildSpec("a", Worker)], intensity=20, period=60.0))
    for _ in range(21):
        ref.tell(BAD)
    await ref.terminated()
    await system.settle()
    records = [record for record in failures(caplog) if record.actor == "/boss/a"]
    assert len(records) == LOGGED_PER_PERIOD + 1
    assert records[-1].not_logged == 20 - LOGGED_PER_PERIOD
    assert "more than 20 restarts" in records[-1].decision


@pytest.mark.parametrize("kill", [True, False])
async def test_a_failure_that_the_supervisor_does_not_live_to_decide_is_told_too(
    system: ActorSystem, kill: bool, caplog: Caplog
) -> None:  # J10
    gate = asyncio.Event()

    class Slow(Worker):
        async def post_stop(self) -> None:
            entered.set()
            await gate.wait()

    entered = asyncio.Event()
    (ref,) = await employ(system, Supervisor.spec([ChildSpec("a", Slow)]))
    boss = system.actor("/boss")
    assert boss is not None
    ref.tell(BAD)
    await entered.wait()
    if kill:
        boss.kill()
    else:
        boss.stop()
    gate.set()
    await boss.terminated()
    (record,) = (one for one in failures(caplog) if one.actor == "/boss/a" and "decision" in one.__dict__)
    assert record.message_type == "ValueError"
    assert record.exc_info[1] is BAD


async def test_ends_that_are_no_failures_are_no_errors(system: ActorSystem, caplog: Caplog) -> None:  # J10
    (ref,) = await employ(system, Supervisor.spec([ChildSpec("a", Worker)]))
    ref.stop()
    await system.settle()
    ref.kill()
    await system.settle()
    assert ref.is_alive
    assert failures(caplog) == []


Program = Callable[[ActorSystem], Awaitable[None]]
STOP = Supervision(Directive.STOP)
ESCALATE = Supervision(Directive.ESCALATE)
HEADING = "Traceback (most recent call last)"


def shown(caplog: Caplog) -> list[str]:
    """The records of failures, as they would be printed."""
    return [logging.Formatter().format(one) for one in caplog.records if one.levelno >= logging.ERROR]


def run(program: Program, **settings: Any) -> None:
    async def main() -> None:
        async with ActorSystem(config=SystemConfig(**settings)) as system:
            await asyncio.wait_for(program(system), 120)

    asyncio.run(main())


class Parent(Actor[Any, Any]):
    def pre_start(self) -> None:
        self.child = self.ctx.spawn(Culprit, name="child")

    def receive(self, message: Any) -> Any:
        self.child.tell(message)


class Friend(Actor[Any, Any]):
    """Watches, or is linked."""

    def receive(self, message: Any) -> Any:
        how, ref = message
        getattr(self.ctx, how)(ref)


async def asked(system: ActorSystem) -> None:
    with pytest.raises(ValueError, match="now"):
        await system.spawn(Culprit).ask("now")


async def asked_elsewhere(system: ActorSystem) -> None:
    with pytest.raises(ValueError, match="now"):
        await system.spawn(Culprit, dispatcher="process").ask("now", timeout=120)


async def never_started(system: ActorSystem) -> None:
    with pytest.raises(ValueError, match="not today"):
        await system.spawn(Unmakeable).started()


async def never_started_again(system: ActorSystem) -> None:
    await system.spawn(Unmakeable, supervision=Supervision(backoff=None)).terminated()


async def given_up(system: ActorSystem) -> None:
    spec = Supervisor.spec(children=[ChildSpec("child", Culprit)], intensity=2)
    boss = system.spawn(Supervisor, spec, name="boss", supervision=STOP)
    await boss.started()
    child = system.actor("/boss/child")
    assert child is not None
    for _ in range(3):
        child.tell("again")
    await boss.terminated()


async def watched(system: ActorSystem) -> None:
    await befriend(system, "watch")


async def linked(system: ActorSystem) -> None:
    await befriend(system, "link")


async def befriend(system: ActorSystem, how: str) -> None:
    friend, culprit = system.spawn(Friend), system.spawn(Culprit)
    await friend.ask((how, culprit))
    culprit.tell("alas")
    await friend.terminated()


SHOWN_ONCE: dict[str, tuple[Program, int]] = {
    "asked": (asked, 1),
    "asked, in another process": (asked_elsewhere, 1),
    "its constructor": (never_started, 1),
    "its constructor, four times": (never_started_again, 4),
    "a supervisor that gives up": (given_up, 4),
    "watched": (watched, 2),
    "linked": (linked, 2),
}


@pytest.mark.parametrize("occasion", SHOWN_ONCE)
def test_a_failure_is_shown_with_one_traceback(occasion: str, caplog: Caplog) -> None:  # M7
    program, records = SHOWN_ONCE[occasion]
    run(program, supervision=STOP)
    texts = shown(caplog)
    assert len(texts) == records
    assert [text.count(HEADING) for text in texts] == [1] + [0] * (records - 1)


def test_an_escalation_to_the_top_is_shown_with_one_traceback_and_raised_with_its_cause(caplog: Caplog) -> None:  # M7
    async def program(system: ActorSystem) -> None:
        system.spawn(Parent, name="parent").tell("up")
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        run(program, supervision=ESCALATE)
    assert isinstance(caught.value.__cause__, ValueError)
    child, parent = shown(caplog)
    assert (child.count(HEADING), parent.count(HEADING)) == (1, 0)
    assert "/parent failed because /parent/child escalated: ValueError: up" in parent


def test_a_record_without_its_traceback_still_has_the_exception_and_names_the_line(caplog: Caplog) -> None:  # M7
    run(never_started_again)
    records = [one for one in caplog.records if one.levelno >= logging.ERROR]
    for record in records:
        assert record.exc_info is not None
        assert isinstance(record.exc_info[1], ValueError)
    line = go_wrong.__code__.co_firstlineno + 2
    assert all(f"culprits.py:{line}, as before" in record.getMessage() for record in records[1:])


def test_a_failure_in_another_place_is_shown_in_full(caplog: Caplog) -> None:  # M7
    class Manifold(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            if message == "here":
                go_wrong(message)
            go_wrong(message)

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Manifold)
        for message in ("here", "there", "there", "here"):
            ref.tell(message)
        await system.settle()

    run(program, supervision=Supervision(Directive.RESUME))
    assert [text.count(HEADING) for text in shown(caplog)] == [1, 1, 0, 1]


def test_after_a_while_the_same_failure_is_shown_in_full_again(caplog: Caplog) -> None:  # M7
    clock = ManualClock()

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Culprit)
        for wait in (0.0, 1.0, LOG_PERIOD):
            await clock.advance(wait)
            ref.tell("once more")
            await system.settle()

    run(program, supervision=Supervision(Directive.RESUME), clock=clock)
    assert [text.count(HEADING) for text in shown(caplog)] == [1, 0, 1]
