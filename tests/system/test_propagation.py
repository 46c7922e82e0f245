"""`SystemConfig(propagate=[...])`: context variables of the sender that its messages bring along."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Behaviors,
    Context,
    Drain,
    Lane,
    MailboxConfig,
    ManualClock,
    Overflow,
    Supervision,
    SystemConfig,
)
from greenroom.errors import ConfigError
from greenroom.testing import Simulation, TestProbe, assert_ledger_balanced
from tests.gates import Event, turns

if TYPE_CHECKING:
    from tests.conftest import Play

DEADLINE = 120.0
request: ContextVar[str] = ContextVar("request")
user: ContextVar[str] = ContextVar("user", default="nobody")
other: ContextVar[str] = ContextVar("other")
BOTH = [request, user]
UNSET = "not set"
DISPATCHERS = ["concurrent", "parallel", "pinned"]
each_dispatcher = pytest.mark.parametrize("dispatcher", DISPATCHERS)


def here() -> str:
    return request.get(UNSET)


def within(value: str, action: Any, *args: Any, **kwargs: Any) -> Any:
    """Do something where the request is this one."""

    def do() -> Any:
        request.set(value)
        return action(*args, **kwargs)

    return copy_context().run(do)


class Noting(Actor[Any, Any]):
    """Notes the request that each message belongs to."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def receive(self, message: Any) -> Any:
        self.seen.append((message, here()))
        return here()


class NotingLater(Noting):
    async def receive(self, message: Any) -> Any:
        before = here()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert here() == before
        return super().receive(message)


each_kind = pytest.mark.parametrize("kind", [Noting, NotingLater])


@each_kind
@each_dispatcher
@pytest.mark.config(propagate=BOTH)
async def test_what_is_told_and_asked_brings_it_along(system: ActorSystem, kind: type[Noting], dispatcher: str) -> None:
    seen: list[Any] = []
    ref = system.spawn(kind, seen, dispatcher=dispatcher)
    within("a", ref.tell, 1)
    ref.tell(2)
    within("b", ref.tell, 3, lane=Lane.DATA)
    await system.settle()
    within("c", ref.tell, 4, lane=Lane.CONTROL)
    assert await within("d", ref.ask, 5) == "d"
    assert await ref.ask(6) == UNSET
    await within("e", lambda: asyncio.create_task(ref.send(7)))
    await system.settle()
    assert seen == [(1, "a"), (2, UNSET), (3, "b"), (4, "c"), (5, "d"), (6, UNSET), (7, "e")]
    assert_ledger_balanced(system)


@each_kind
@each_dispatcher
def test_threads_bring_theirs_along(kind: type[Noting], dispatcher: str) -> None:
    seen: list[Any] = []
    with ActorSystem(config=SystemConfig(propagate=BOTH)) as system:
        ref = system.spawn(kind, seen, dispatcher=dispatcher)
        within("a", ref.tell, 1)
        assert within("b", ref.ask_sync, 2, timeout=DEADLINE) == "b"
        within("c", ref.send_sync, 3, timeout=DEADLINE)
        assert within("d", ref.ask_sync, 4, timeout=DEADLINE, wait_for_room=True) == "d"
        ref.tell(5)

        async def ask() -> str:
            answer: str = await within("e", ref.ask, 6)
            return answer

        assert asyncio.run(ask()) == "e"
        system.settle_sync(DEADLINE)
        assert seen == [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, UNSET), (6, "e")]


@each_dispatcher
@pytest.mark.config(propagate=BOTH)
async def test_only_those_that_were_chosen_travel_and_defaults_stay_defaults(
    system: ActorSystem, dispatcher: str
) -> None:
    def look(ctx: Context, message: Any) -> Any:
        set_ones = [one.name for one in (request, user, other) if one in copy_context()]
        return set_ones, user.get()

    ref = system.spawn(look, dispatcher=dispatcher)
    other.set("stays here")
    assert await ref.ask("?") == ([], "nobody")
    user.set("ada")
    assert await ref.ask("?") == (["user"], "ada")


@each_dispatcher
@pytest.mark.config(propagate=BOTH)
async def test_what_a_handler_sets_does_not_reach_the_next_message_nor_another_actor(
    system: ActorSystem, dispatcher: str
) -> None:
    seen: list[Any] = []

    class Setting(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            seen.append((message, here(), other.get(UNSET)))
            request.set("my own")
            other.set("my own")

    class SettingLater(Setting):
        async def receive(self, message: Any) -> Any:
            super().receive(message)
            await asyncio.sleep(0)

    refs = [system.spawn(kind, dispatcher=dispatcher) for kind in (Setting, SettingLater, Setting)]
    for number in range(3):
        for ref in refs:
            ref.tell(number)
    await system.settle()
    assert {one[1:] for one in seen} == {(UNSET, UNSET)}
    assert len(seen) == 9
    assert here() == UNSET


@each_dispatcher
@pytest.mark.config(propagate=BOTH)
async def test_it_goes_from_actor_to_actor(system: ActorSystem, dispatcher: str) -> None:
    seen: list[Any] = []
    last = system.spawn(Noting, seen)
    asked = system.spawn(Noting, seen, dispatcher=dispatcher)

    class Passing(Actor[Any, Any]):
        async def receive(self, message: Any) -> Any:
            last.tell("told")
            self.ctx.spawn(Noting, seen).tell("to a child")
            request.set(here() + "!")
            await last.send("sent")
            assert await asked.ask("asked") == here()
            self.ctx.forward(last)

    ref = system.spawn(Passing, dispatcher=dispatcher)
    assert await within("a", ref.ask, "forwarded", timeout=None) == "a"
    ref.tell("forwarded")
    await system.settle()
    assert sorted(seen[:5]) == sorted(
        [("told", "a"), ("to a child", "a"), ("sent", "a!"), ("asked", "a!"), ("forwarded", "a")]
    )
    assert {value for _, value in seen[5:]} == {UNSET, UNSET + "!"}


@each_dispatcher
@pytest.mark.config(propagate=BOTH)
async def test_a_reply_by_telling_brings_it_along(system: ActorSystem, dispatcher: str) -> None:
    seen: list[Any] = []
    listener = system.spawn(Noting, seen)

    def answer(ctx: Context, message: Any) -> None:
        ctx.reply("reply")

    ref = system.spawn(answer, dispatcher=dispatcher)
    within("a", ref.tell, "?", sender=listener)
    await system.settle()
    assert seen == [("reply", "a")]


@each_dispatcher
async def test_timers_bring_along_what_was_set_when_they_were_started(dispatcher: str) -> None:
    seen: list[Any] = []
    clock = ManualClock()

    class Timing(Noting):
        def receive(self, message: Any) -> Any:
            if message == "start":
                self.ctx.send_after(1.0, self.ctx.self, "once")
                self.ctx.send_every(2.0, self.ctx.self, "again")
                self.ctx.timers.start("key", 1.5, "by key")
                request.set("later")
                self.ctx.send_after(1.0, self.ctx.self, "later")
            else:
                assert self.ctx.sender == self.ctx.self
                super().receive(message)

    config = SystemConfig(clock=clock, propagate=BOTH)
    async with asyncio.timeout(DEADLINE), ActorSystem(config=config) as system:
        ref = system.spawn(Timing, seen, dispatcher=dispatcher)
        within("a", ref.tell, "start")
        await clock.advance(4.5)
        assert seen == [("once", "a"), ("later", "later"), ("by key", "a"), ("again", "a"), ("again", "a")]
        seen.clear()
        plain = system.spawn(Timing, seen, dispatcher=dispatcher)
        plain.tell("start")
        ref.stop()
        await within("b", lambda: asyncio.create_task(clock.advance(1.0)))
        assert seen == [("once", UNSET), ("later", "later")]


@each_dispatcher
@pytest.mark.config(propagate=BOTH)
async def test_pipes_and_stashed_messages_keep_it(system: ActorSystem, dispatcher: str) -> None:
    seen: list[Any] = []
    opened = Event()

    class Busy(Noting):
        is_open = False

        def receive(self, message: Any) -> Any:
            match message:
                case "pipe":
                    self.ctx.pipe_to_self(wait())
                case "open":
                    self.is_open = True
                    self.ctx.unstash_all()
                case _ if not self.is_open and message != "piped":
                    self.ctx.stash()
                case _:
                    super().receive(message)

    async def wait() -> str:
        await opened.wait()
        return "piped"

    ref = system.spawn(Busy, seen, dispatcher=dispatcher)
    if dispatcher != "parallel":
        within("a", ref.tell, "pipe")
    within("b", ref.tell, 1)
    ref.tell(2)
    await turns()
    opened.set()
    await system.settle()
    await turns(20)
    within("c", ref.tell, "open")
    await system.settle()
    assert [one for one in seen if one[0] != "piped"] == [(1, "b"), (2, UNSET)]
    if dispatcher != "parallel":
        assert ("piped", "a") in seen


@each_dispatcher
@pytest.mark.config(propagate=BOTH)
async def test_messages_that_waited_for_room_or_were_redirected_keep_it(system: ActorSystem, dispatcher: str) -> None:
    seen: list[Any] = []

    class Holding(Noting):
        async def receive(self, message: Any) -> Any:
            if message == "hold":
                entered.set()
                await released.wait()
            return super().receive(message)

    entered, released = Event(), Event()
    heir = system.spawn(Noting, seen)
    one = MailboxConfig(capacity=1)
    ref = system.spawn(Holding, seen, dispatcher=dispatcher, mailbox=one, drain=Drain.REDIRECT(heir))
    ref.tell("hold")
    await entered.wait()
    within("a", ref.tell, 1)
    sent = within("b", lambda: asyncio.create_task(ref.send(2)))
    await asyncio.sleep(0)
    asked = within("c", ref.ask, 3, timeout=None, wait_for_room=True)
    plain = asyncio.create_task(ref.send(4))
    await turns()
    within("d", released.set)
    await asyncio.gather(sent, plain)
    assert await asked == "c"
    await system.settle()
    assert seen == [("hold", UNSET), (1, "a"), (2, "b"), (3, "c"), (4, UNSET)]
    seen.clear()
    entered.clear()
    released.clear()
    ref.tell("hold")
    await entered.wait()
    within("e", ref.tell, 5)
    ref.stop()
    released.set()
    await ref.terminated()
    await system.settle()
    assert (5, "e") in seen


@each_dispatcher
@pytest.mark.config(propagate=BOTH)
async def test_what_is_redirected_after_a_failure_has_nothing_of_the_failed_message(
    system: ActorSystem, dispatcher: str
) -> None:
    seen: list[Any] = []

    class Failing(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            raise ValueError("on purpose")

    heir = system.spawn(Noting, seen)
    ref = system.spawn(Failing, dispatcher=dispatcher, drain=Drain.REDIRECT(heir))
    within("a", ref.tell, 1)
    ref.tell(2)
    within("b", ref.tell, 3)
    await ref.terminated()
    await system.settle()
    assert seen == [(2, UNSET), (3, "b")]


def test_what_others_are_shown_is_the_message_and_its_sender(play: Play) -> None:
    shown: list[Any] = []

    class Watcher:
        def mailbox_full(self, ref: Any, message: Any, lane: Any) -> None:
            shown.append(("full", message))

        def message_dropped(self, ref: Any, message: Any, lane: Any) -> None:
            shown.append(("dropped", message))

        def dead_letter(self, recipient: Any, message: Any, sender: Any, why: str) -> None:
            shown.append(("dead", message, sender))

    async def program(system: ActorSystem) -> None:
        system.observers.add(Watcher())
        probe = TestProbe(system)
        request.set("a")
        probe.ref.tell("hello", sender=probe.ref)
        await probe.expect("hello")
        assert probe.last_sender == probe.ref
        gone = system.spawn(Noting, [])
        gone.stop()
        await gone.terminated()
        gone.tell("late", sender=probe.ref)
        (letter,) = [one for one in system.dead_letters.recent() if one.message == "late"]
        assert letter.sender == probe.ref
        assert ("dead", "late", probe.ref) in shown
        seen: list[Any] = []
        keyed = system.spawn(Noting, seen, mailbox=MailboxConfig(priority=lambda message: -message))
        for number in (1, 3, 2):
            keyed.tell(number)
        await system.settle()
        assert seen == [(3, "a"), (2, "a"), (1, "a")]
        full = system.spawn(Noting, [], mailbox=MailboxConfig(capacity=1, overflow=Overflow.DROP_OLD))
        full.tell("first", sender=probe.ref)
        full.tell("second", sender=probe.ref)
        assert ("dropped", "first") in shown
        await system.settle()
        assert_ledger_balanced(system)

    if not play.is_elsewhere:
        play(program, propagate=BOTH)


@each_dispatcher
@pytest.mark.config(propagate=BOTH, supervision=Supervision(max_restarts=None, backoff=None))
async def test_a_request_reaches_the_log_of_the_handler_and_of_its_failure(
    system: ActorSystem, dispatcher: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Filter(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            record.request = here()
            return True

    class Logging(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            logging.getLogger("program").warning("by a logger")
            self.ctx.log.warning("by ctx.log")
            if message == "fail":
                raise ValueError("on purpose")

    class LoggingLater(Logging):
        async def receive(self, message: Any) -> Any:
            await asyncio.sleep(0)
            super().receive(message)

    caplog.handler.addFilter(Filter())
    for kind in (Logging, LoggingLater):
        ref = system.spawn(kind, dispatcher=dispatcher)
        within("a", ref.tell, "log")
        await system.settle()
        ref.tell("log")
        await system.settle()
        within("b", ref.tell, "fail")
        await system.settle()
    await system.shutdown()
    found = [(record.getMessage(), record.request) for record in caplog.records]  # type: ignore[attr-defined]
    assert [value for text, value in found if "by " in text] == 2 * ["a", "a", UNSET, UNSET, "b", "b"]
    assert [value for text, value in found if "failed on" in text] == ["b", "b"]


def test_hooks_and_notices_have_nothing_of_a_message(play: Play) -> None:
    seen: list[Any] = []

    class Hooked(Actor[Any, Any]):
        async def pre_start(self) -> None:
            seen.append(("pre_start", here()))
            request.set("of a hook")

        async def receive(self, message: Any) -> None:
            seen.append((message, here()))
            if isinstance(message, ActorRef):
                self.ctx.watch(message)

        async def on_terminated(self, ref: Any, cause: Any) -> None:
            seen.append(("on_terminated", here()))

        async def post_stop(self) -> None:
            seen.append(("post_stop", here()))

    async def program(system: ActorSystem) -> None:
        ref = within("a", system.spawn, Hooked)
        ended = system.spawn(Noting, [])
        within("b", ref.tell, ended)
        await system.settle()
        within("c", ended.stop)
        await ended.terminated()
        await system.settle()
        ref.tell("plain")
        await system.settle()
        within("d", ref.stop)
        await ref.terminated()
        assert [one for one in seen if one[0] != ended] == [
            ("pre_start", UNSET),
            ("on_terminated", "of a hook"),
            ("plain", UNSET),
            ("post_stop", "of a hook"),
        ]
        assert (ended, "b") in seen

    if not play.is_elsewhere:
        play(program, propagate=BOTH)


def test_behaviors_and_tasks_of_a_handler_have_it_too(play: Play) -> None:
    seen: list[Any] = []

    async def program(system: ActorSystem) -> None:
        async def note(what: str) -> None:
            await asyncio.sleep(0)
            seen.append((what, here()))

        async def second(ctx: Context, message: Any) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(note("in a group"))
            seen.append((message, here()))

        def first(ctx: Context, message: Any) -> Any:
            seen.append((message, here()))
            return Behaviors.receive(second)

        ref = system.spawn(first)
        within("a", ref.tell, 1)
        within("b", ref.tell, 2)
        await system.settle()
        assert seen == [(1, "a"), ("in a group", "b"), (2, "b")]

    if not play.is_elsewhere:
        play(program, propagate=BOTH)


def test_a_simulation_repeats_it() -> None:
    async def program(system: ActorSystem) -> list[Any]:
        seen: list[Any] = []
        one = system.spawn(Noting, seen)
        two = system.spawn(NotingLater, seen, dispatcher="parallel")
        for number in range(5):
            within(str(number), one.tell, number)
            within(str(number), two.tell, number)
        await system.settle()
        return seen

    config = SystemConfig(propagate=BOTH)
    runs = [Simulation(seed=3, config=config) for _ in range(2)]
    seen = [run.run(program) for run in runs]
    assert seen[0] == seen[1]
    assert {(message, str(message)) for message in range(5)} == set(seen[0])
    assert runs[0].trace.digest == runs[1].trace.digest
    assert "Told" not in runs[0].trace.mermaid()


def test_systems_have_their_own_choice() -> None:
    seen: list[Any] = []
    with (
        ActorSystem("propagates", config=SystemConfig(propagate=[request])) as one,
        ActorSystem("does not") as two,
    ):
        ref = one.spawn(Noting, seen)
        plain = two.spawn(Noting, seen)
        passing = one.spawn(lambda ctx, message: plain.ask_sync(message, timeout=DEADLINE), dispatcher="parallel")
        assert within("a", ref.ask_sync, 1, timeout=DEADLINE) == "a"
        assert within("a", plain.ask_sync, 2, timeout=DEADLINE) == UNSET
        assert within("a", passing.ask_sync, 3, timeout=DEADLINE) == UNSET
        back = two.spawn(lambda ctx, message: ref.tell(message))
        within("a", back.ask_sync, 4, timeout=DEADLINE)
        one.settle_sync(DEADLINE)
    assert seen == [(1, "a"), (2, UNSET), (3, UNSET), (4, UNSET)]


def test_many_threads_do_not_mix_theirs_up() -> None:
    seen: list[Any] = []
    with ActorSystem(config=SystemConfig(propagate=BOTH)) as system:
        refs = [system.spawn(kind, seen, dispatcher=name) for kind in (Noting, NotingLater) for name in DISPATCHERS]

        def use(who: int) -> None:
            request.set(str(who))
            for number in range(20):
                refs[(who + number) % len(refs)].tell(who)

        threads = [threading.Thread(target=use, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        system.settle_sync(DEADLINE)
    assert len(seen) == 160
    assert all(str(message) == value for message, value in seen)


@pytest.mark.parametrize("given", ["request", None, 5, [request, "user"], [request, request], request])
def test_a_bad_choice_is_a_config_error(given: Any) -> None:
    with pytest.raises(ConfigError, match="propagate"):
        SystemConfig(propagate=given)


def test_a_config_keeps_its_variables_in_a_tuple() -> None:
    chosen = [request]
    config = SystemConfig(propagate=chosen)
    chosen.append(user)
    assert config.propagate == (request,)
    assert SystemConfig().propagate == ()
    with pytest.raises(ConfigError, match="GREENROOM_PROPAGATE"):
        SystemConfig.load(environ={"GREENROOM_PROPAGATE": "request"})
