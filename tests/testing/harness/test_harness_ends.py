"""`ActorHarness`: failures, restarts, children and relations of the actor under test, and how a test ends (M19)."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Behaviors,
    ChildSpec,
    Context,
    CountChildren,
    DeathPact,
    Directive,
    Down,
    Drain,
    Exit,
    ExitKind,
    MailboxConfig,
    ManualClock,
    State,
    Supervision,
    Supervisor,
    SystemConfig,
    WhichChildren,
)
from greenroom.errors import BadArgument, ConfigError, NameTaken, SystemStopped
from greenroom.testing import ActorHarness, capture_logs, detect_leaks
from greenroom.testing.effects import (
    Demonitored,
    Failed,
    Linked,
    Monitored,
    Sent,
    Spawned,
    Stopped,
    TimerStarted,
    Unlinked,
    Unwatched,
    Watched,
)

Ref = ActorRef[Any, Any]
AT_ONCE = Supervision(backoff=None)


class Fragile(Actor[Any, Any]):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def receive(self, message: Any) -> Any:
        match message:
            case BaseException():
                raise message
            case "child":
                return self.ctx.spawn(Fragile)
        self.seen.append(message)
        return None

    def pre_restart(self, cause: BaseException | None) -> Any:
        log.append(f"pre_restart {cause}")

    def post_restart(self) -> None:
        log.append("post_restart")

    def snapshot(self) -> Any:
        return self.seen

    def restore(self, state: Any) -> None:
        self.seen = state


class AsyncFragile(Fragile):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return super().receive(message)

    async def pre_restart(self, cause: BaseException | None) -> None:
        await asyncio.sleep(0)
        super().pre_restart(cause)


log: list[str] = []
FRAGILE = pytest.mark.parametrize("fragile", [Fragile, AsyncFragile])


@pytest.fixture(autouse=True)
def clean_log() -> None:
    log.clear()


# -- failures
@FRAGILE
def test_a_failed_actor_is_restarted_as_its_supervision_says(fragile: type[Fragile]) -> None:
    with ActorHarness(fragile) as harness:
        harness.tell("kept")
        first = harness.actor
        child = harness.ask("child")
        cause = ValueError("bad")
        harness.tell(cause)
        assert harness.ref.state is State.RESTARTING  # time stands still, and there is a backoff
        assert [(failed.cause, failed.doing, failed.decision) for failed in harness.failures] == [
            (cause, "on ValueError", Directive.RESTART)
        ]
        assert harness.stopped == [child]
        harness.advance(0.01)
        assert harness.state is State.RUNNING
        assert harness.actor is not first
        assert harness.actor.seen == ["kept"]
        assert log == ["pre_restart bad", "post_restart"]


def test_each_decision_is_told() -> None:
    for supervision, decision, state in (
        (AT_ONCE, Directive.RESTART, State.RUNNING),
        (Supervision(Directive.RESUME), Directive.RESUME, State.RUNNING),
        (Supervision(Directive.STOP), Directive.STOP, State.TERMINATED),
        (Supervision(Directive.ESCALATE), Directive.ESCALATE, State.TERMINATED),
        (Supervision(max_restarts=0), Directive.STOP, State.TERMINATED),
        (Supervision(max_restarts=0, on_limit=Directive.ESCALATE), Directive.ESCALATE, State.TERMINATED),
    ):
        with ActorHarness(Fragile, supervision=supervision) as harness:
            harness.tell(ValueError("bad"))
            assert [failed.decision for failed in harness.failures] == [decision]
            assert harness.state is state


def test_one_restart_too_many_ends_it() -> None:
    with ActorHarness(Fragile, supervision=AT_ONCE) as harness:
        for number in range(4):
            harness.tell(ValueError(number))
        assert [failed.decision for failed in harness.failures] == 3 * [Directive.RESTART] + [Directive.STOP]
        assert harness.ended is not None
        assert str(harness.ended) == "fail: ValueError: 3"
        assert repr(harness.failures[0]) == "<Failed on ValueError: ValueError: 0, Directive.RESTART>"


def test_a_failure_of_a_parent_is_escalated_to_a_stand_in() -> None:
    with ActorHarness() as harness, capture_logs(quiet=True):
        boss = harness.inbox("boss")
        harness.start(Fragile, parent=boss.ref, supervision=Supervision(Directive.ESCALATE))
        harness.tell(ValueError("bad"))
        assert [failed.decision for failed in harness.failures] == [Directive.ESCALATE]
        assert harness.state is State.TERMINATED
        assert harness.stopped == []
        harness.advance(1.0)
        assert boss.ref.is_alive


def test_the_test_can_have_it_fail_and_restarted() -> None:
    with ActorHarness(Fragile, supervision=AT_ONCE) as harness:
        harness.fail(OSError("no disk"))
        assert [(failed.doing, failed.decision) for failed in harness.effects if isinstance(failed, Failed)] == [
            ("as it was told to", Directive.RESTART)
        ]
        harness.restart()
        harness.restart(KeyError("why"))
        assert len(harness.failures) == 1
        assert [line for line in log if line != "post_restart"] == [
            "pre_restart no disk",
            "pre_restart None",
            "pre_restart 'why'",
        ]


def test_a_child_that_escalates_fails_its_parent() -> None:
    class Parent(Fragile):
        def receive(self, message: Any) -> Any:
            return self.ctx.spawn(Fragile, supervision=Supervision(Directive.ESCALATE))

    with ActorHarness(Parent, supervision=AT_ONCE) as harness:
        child = harness.ask("child")
        cause = OSError("no disk")
        child.fail(cause)
        harness.settle()
        assert [(failed.cause, failed.decision) for failed in harness.failures] == [(cause, Directive.RESTART)]
        assert harness.children == []


def test_watching_without_a_hook_is_a_death_pact() -> None:
    def watching(ctx: Context, message: Any) -> None:
        ctx.watch(message)

    with ActorHarness(watching) as harness:
        other = harness.inbox("other")
        harness.tell(other.ref)
        harness.end(other.ref)
        assert [type(failed.cause) for failed in harness.failures] == [DeathPact]


def test_a_failure_that_nobody_looks_at_fails_the_test() -> None:
    cause = ValueError("bad")
    with (
        pytest.raises(
            AssertionError, match=r"/f failed.*on ValueError: ValueError: bad \(Directive.RESTART\)"
        ) as caught,
        ActorHarness(Fragile, name="f") as harness,
    ):
        harness.tell(cause)
    assert caught.value.__cause__ is cause
    harness = ActorHarness(Fragile)
    harness.tell(cause)
    with pytest.raises(AssertionError, match="has not looked"):
        harness.close()
    harness.close()


def test_a_failure_that_was_looked_at_is_none_of_the_tests() -> None:
    def by_list(harness: ActorHarness[Any], cause: BaseException) -> None:
        harness.tell(cause)
        assert len(harness.failures) == 1

    def by_effects(harness: ActorHarness[Any], cause: BaseException) -> None:
        harness.tell(cause)
        assert len(harness.effects) == 1

    def by_asking(harness: ActorHarness[Any], cause: BaseException) -> None:
        with pytest.raises(ValueError, match="bad"):
            harness.ask(cause)

    def by_wish(harness: ActorHarness[Any], cause: BaseException) -> None:
        harness.fail(cause)

    for look in (by_list, by_effects, by_asking, by_wish):
        with ActorHarness(Fragile) as harness:
            look(harness, ValueError("bad"))


def test_the_exception_of_the_test_is_what_is_seen() -> None:
    def careless() -> None:
        with ActorHarness(Fragile) as harness:
            harness.tell(ValueError("bad"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        careless()


# -- supervisors
def test_a_supervisor_can_be_under_test() -> None:
    class NeverMade(Actor[str]):
        def __init__(self) -> None:
            raise SystemError("a child's code runs")

        def receive(self, message: str) -> None: ...

    spec = Supervisor.spec([ChildSpec("a", NeverMade), ChildSpec("b", NeverMade)], intensity=1)
    with ActorHarness(Supervisor, spec) as harness, capture_logs(quiet=True):
        assert harness.state is State.RUNNING
        assert [spawned.name for spawned in harness.spawned] == ["a", "b"]
        a, b = harness.children
        harness.end(a, OSError("no disk"))
        assert a.state is State.RUNNING  # again
        assert harness.ask(CountChildren()).active == 2
        assert [child.restarts for child in harness.ask(WhichChildren())] == [1, 0]
        assert harness.failures == []
        harness.end(b, OSError("no disk"))  # one too many
        assert [failed.decision for failed in harness.failures] == [Directive.RESTART]
        assert harness.stopped == [a]


# -- all of it, in order
def test_effects_are_in_order() -> None:
    class Busy(Actor[str]):
        def __init__(self, other: Ref) -> None:
            self.other = other

        async def receive(self, message: str) -> None:
            self.other.tell(1)
            child = self.ctx.spawn(Fragile)
            self.ctx.watch(child)
            child.tell(2)
            self.ctx.send_after(1.0, child, 3)
            self.ctx.stop(child)
            self.other.tell(4)
            await asyncio.sleep(0)
            raise ValueError(message)

        def on_terminated(self, ref: Ref, cause: BaseException | None) -> None: ...

    with ActorHarness() as harness:
        other = harness.inbox("other")
        harness.start(Busy, other.ref)
        harness.tell("bad")
        expected = [Sent, Spawned, Watched, Sent, TimerStarted, Stopped, Sent, Failed]
        assert [type(effect) for effect in harness.effects] == expected
        assert other.messages == [1, 4]
        harness.clear()
        assert not any((harness.effects, harness.sent, harness.spawned, harness.stopped, harness.failures))


def test_the_trace_shows_everybodys_part() -> None:
    with ActorHarness(Fragile, name="f") as harness:
        harness.tell("hello")
        assert "/f handles 'hello'" in str(harness.trace)
    assert "/f has ended: shutdown" in str(harness.trace)


def test_chance_is_drawn_from_the_seed() -> None:
    def draw(ctx: Context, message: Any) -> tuple[float, float]:
        return random.random(), ctx.system.random.random()

    def drawn(seed: int) -> Any:
        with ActorHarness(draw, seed=seed) as harness:
            return harness.ask("draw")

    assert drawn(1) == drawn(1) != drawn(2)


# -- how it ends
def test_closing_leaves_nothing_behind_and_logs_no_warning() -> None:
    class Stuck(Actor[str]):
        def __init__(self, other: Ref) -> None:
            self.other = other
            self.broken_off = False

        async def receive(self, message: str) -> None:
            self.ctx.spawn(Fragile)
            self.ctx.send_every(1.0, self.ctx.self, "tick")
            self.ctx.pipe_to_self(self.other.ask("pipe", timeout=None))
            try:
                await self.other.ask(message, timeout=None)
            finally:
                self.broken_off = True

    with detect_leaks(), capture_logs(quiet=True) as logs:
        with ActorHarness() as harness:
            other = harness.inbox("other")
            harness.start(Stuck, other.ref)
            harness.tell("wait")
            assert harness.is_suspended
        assert harness.actor.broken_off
        assert harness.ended is not None
        assert harness.ended.kind is ExitKind.KILLED
        assert not other.ref.is_alive
        logs.assert_none(level=logging.WARNING)
    assert [sent.message for sent in harness.sent] == ["pipe", "wait"]  # still to be seen
    assert harness.dead_letters == []


def test_closing_stops_an_idle_actor_in_order() -> None:
    class Tidy(Actor[str]):
        seen: tuple[str, ...] = ()

        def receive(self, message: str) -> None: ...

        async def pre_stop(self) -> None:
            await asyncio.sleep(0)
            self.seen += ("pre_stop",)

        def post_stop(self) -> None:
            self.seen += ("post_stop",)

    with ActorHarness(Tidy) as harness:
        actor = harness.actor
    assert actor.seen == ("pre_stop", "post_stop")


def test_a_start_that_waits_is_broken_off() -> None:
    class Starting(Actor[str]):
        async def pre_start(self) -> None:
            await asyncio.Event().wait()

        def receive(self, message: str) -> None: ...

    with capture_logs(quiet=True) as logs, ActorHarness(Starting) as harness:
        assert harness.state is State.STARTING
        assert harness.is_suspended
    logs.assert_none(level=logging.WARNING)


def test_a_harness_that_is_closed_does_nothing_more() -> None:
    with ActorHarness(Fragile) as harness:
        pass
    harness.close()
    for act in (harness.settle, harness.step, harness.inbox, lambda: harness.tell(1), lambda: harness.start(Fragile)):
        with pytest.raises(SystemStopped):
            act()


def test_a_harness_has_one_actor() -> None:
    with ActorHarness() as harness:
        assert repr(harness) == "<ActorHarness of nobody yet>"
        for act in (lambda: harness.tell(1), lambda: harness.state, harness.stop, lambda: harness.ask(1)):
            with pytest.raises(BadArgument, match="no actor under test yet"):
                act()
        harness.settle()
        harness.start(Fragile, name="f")
        with pytest.raises(BadArgument, match="is for one actor, and this one has /f"):
            harness.start(Fragile)
        assert repr(harness) == "<ActorHarness of /f>"


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="clock"):
        ActorHarness(Fragile, config=SystemConfig(clock=ManualClock()))
    with pytest.raises(ConfigError, match="seed"):
        ActorHarness(Fragile, seed="one")  # type: ignore[call-overload]
    with pytest.raises(BadArgument, match="the actor first"):
        ActorHarness(None, 1)
    with pytest.raises(TypeError, match="neither an Actor class"):
        ActorHarness(42)


@pytest.mark.parametrize("how", ["told", "slept"])
def test_an_actor_that_never_rests_is_told_of(how: str) -> None:
    class Restless(Actor[str]):
        async def receive(self, message: str) -> None:
            if message == "slept":
                while True:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            self.ctx.self.tell(message)

    with ActorHarness(Restless, name="r") as harness:
        for _ in range(2):
            with pytest.raises(AssertionError, match="/r and what it began do not come to rest"):
                harness.tell(how)


def test_an_actor_may_shut_its_system_down() -> None:
    async def leaving(ctx: Context, message: Any) -> None:
        await ctx.system.shutdown()

    with ActorHarness(leaving) as harness:
        other = harness.inbox("other")
        harness.tell("go")
        assert harness.state is State.TERMINATED
        assert not other.ref.is_alive
        harness.tell("late")
        assert [letter.message for letter in harness.dead_letters] == ["late"]


def test_a_system_of_the_actors_own_is_left_alone() -> None:
    class Inner(Actor[str, str]):
        def receive(self, message: str) -> str:
            return message.upper()

    async def outer(ctx: Context, message: str) -> str:
        async with ActorSystem("inner") as system:
            return await system.spawn(Inner).ask(message)

    with ActorHarness(outer) as harness:
        assert harness.ask("tea") == "TEA"
        assert harness.effects == []


@pytest.mark.anyio
async def test_a_harness_can_be_used_where_asyncio_runs() -> None:
    with ActorHarness(Behaviors.receive(lambda ctx, message: message + 1)) as harness:
        assert harness.ask(1) == 2
    await asyncio.sleep(0)


def test_nobody_is_kept_alive_by_a_closed_harness() -> None:
    with ActorHarness() as harness:
        other = harness.inbox("other")
        harness.start(AsyncFragile)
        system, actor = weakref.ref(harness.system), weakref.ref(harness.actor)
        harness.tell(other.ref)
        harness.restart()
        harness.end(other.ref)
        other.ref.tell("late")
        assert harness.actor.seen == [other.ref]
    del harness, other
    gc.collect()
    assert system() is actor() is None


# -- whom it brings up, and whom it cares for
class NeverMade(Actor[Any, Any]):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise SystemError("a child's code runs")

    def receive(self, message: Any) -> None: ...


class Parent(Actor[Any, Any]):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def receive(self, message: Any) -> Any:
        match message:
            case ("spawn", name):
                child = self.ctx.spawn(NeverMade, 1, name=name, color="red")
                child.tell("welcome")
                return child
            case ("stop", child):
                self.ctx.stop(child)
            case ("stop ref", other):
                other.stop()
            case (what, *rest):
                return getattr(self.ctx, what)(*rest)
            case _:
                self.seen.append(message)
        return None

    def on_child_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        self.seen.append(("child", ref, cause))

    def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        self.seen.append(("watched", ref, cause))


def test_the_options_of_a_spawn_are_seen() -> None:
    supervision, mailbox = Supervision(Directive.STOP), MailboxConfig(capacity=5)

    def parent(ctx: Context, message: Any) -> None:
        ctx.spawn(NeverMade, supervision=supervision, mailbox=mailbox, env={"b": 2}, drain=Drain.DROP)
        ctx.spawn(NeverMade)

    config = SystemConfig(mailbox=MailboxConfig(capacity=7))
    with ActorHarness(parent, env={"a": 1}, supervision=Supervision(Directive.RESUME), config=config) as harness:
        harness.tell("go")
        given, inherited = harness.spawned
        assert (given.supervision, given.mailbox, given.drain) == (supervision, mailbox, Drain.DROP)
        assert given.env == {"a": 1, "b": 2}
        assert inherited.supervision == Supervision(Directive.RESUME)
        assert (inherited.mailbox, inherited.env, inherited.drain) == (config.mailbox, {"a": 1}, Drain.DEAD_LETTER)
        assert given.dispatcher == inherited.dispatcher == "concurrent"


def test_an_end_has_an_exception_for_its_cause_or_none() -> None:
    with ActorHarness(Parent) as harness:
        other = harness.inbox("other")
        with pytest.raises(BadArgument, match="an exception, or of nothing, not of 'x'"):
            harness.end(other.ref, "x")  # type: ignore[arg-type]
        assert other.ref.is_alive


def test_children_are_seen_and_never_run() -> None:
    with ActorHarness(Parent) as harness:
        child = harness.ask(("spawn", "kid"))
        (spawned,) = harness.spawned
        assert (spawned.ref, spawned.name, spawned.factory) == (child, "kid", NeverMade)
        assert (spawned.args, spawned.kwargs) == ((1,), {"color": "red"})
        assert spawned.messages == ["welcome"]
        assert harness.children == [child]
        assert child.state is State.RUNNING
        with pytest.raises(NameTaken):
            harness.ask(("spawn", "kid"))
        assert harness.spawned == [spawned]
        assert repr(spawned) == "<Spawned /Parent$0/kid>"


def test_a_child_can_be_waited_for_and_asked() -> None:
    async def parent(ctx: Context, message: Any) -> Any:
        child = ctx.spawn(NeverMade)
        await child.started()
        answer = await child.ask(message)
        child.stop()
        return answer, (await child.terminated()).kind

    with ActorHarness(parent) as harness:
        asked = harness.begin_ask("well?")
        harness.sent[0].reply("well")
        assert asked.result() == ("well", ExitKind.NORMAL)
        assert harness.stopped == [harness.spawned[0].ref]


def test_a_spawn_that_is_refused_is_no_effect() -> None:
    with ActorHarness(Parent, config=SystemConfig(max_actors=1)) as harness:
        harness.tell(("spawn", "kid"))
        assert len(harness.failures) == 1
        assert harness.spawned == harness.children == []


def test_children_that_it_stops_have_ended() -> None:
    with ActorHarness(Parent) as harness:
        child = harness.ask(("spawn", "kid"))
        harness.tell(("stop", child))
        assert harness.stopped == [child]
        assert harness.children == []
        assert harness.actor.seen == [("child", child, None)]
        second, other = harness.ask(("spawn", "kid")), harness.inbox("other").ref
        harness.tell(("stop ref", second))
        harness.tell(("stop ref", other))
        assert harness.stopped == [child, second, other]


def test_children_end_as_the_test_says() -> None:
    with ActorHarness(Parent) as harness:
        first, second = harness.ask(("spawn", "first")), harness.ask(("spawn", "second"))
        cause = OSError("no disk")
        harness.end(first)
        harness.end(second, cause)
        assert harness.actor.seen == [("child", first, None), ("child", second, cause)]
        assert harness.stopped == []  # not by its doing
        harness.end(first)  # which changes nothing
        with pytest.raises(BadArgument, match="is the actor under test"):
            harness.end(harness.ref)
        with pytest.raises(BadArgument, match="takes the ref"):
            harness.end("first")  # type: ignore[arg-type]


def test_whom_it_watches_is_seen_and_it_is_told_of_their_end() -> None:
    with ActorHarness(Parent) as harness:
        one, two, three = (harness.inbox(name).ref for name in ("one", "two", "three"))
        for ref in (one, two):
            harness.tell(("watch", ref))
        harness.tell(("watch", three, "three is gone"))
        harness.tell(("unwatch", two))
        harness.tell(("unwatch", two))
        assert harness.watched == [one, three]
        assert harness.effects == [Watched(one), Watched(two), Watched(three, "three is gone"), Unwatched(two)]
        for ref in (one, two, three):
            harness.end(ref, ValueError())
        assert [seen if isinstance(seen, str) else seen[:2] for seen in harness.actor.seen] == [
            ("watched", one),
            "three is gone",
        ]
        assert harness.watched == []


def test_whom_it_monitors_is_seen_and_it_is_told_of_their_end() -> None:
    with ActorHarness(Parent) as harness:
        other = harness.inbox("other").ref
        first, second = harness.ask(("monitor", other)), harness.ask(("monitor", other))
        assert harness.monitored == [other, other]
        assert harness.ask(("demonitor", first))
        assert not harness.ask(("demonitor", first))
        assert harness.monitored == [other]
        assert harness.effects == [Monitored(other, first), Monitored(other, second), Demonitored(other, first)]
        harness.end(other)
        (down,) = harness.actor.seen
        assert isinstance(down, Down)
        assert down.mref == second
        assert harness.monitored == []


def test_whom_it_is_linked_to_is_seen_and_they_share_their_fate() -> None:
    class Linking(Parent):
        def pre_start(self) -> None:
            self.ctx.trap_exit = True

    with ActorHarness(Linking) as harness:
        one, two = harness.inbox("one").ref, harness.inbox("two").ref
        harness.tell(("link", one))
        harness.tell(("link", two))
        harness.tell(("unlink", two))
        harness.tell(("unlink", two))
        assert harness.linked == [one]
        assert harness.effects == [Linked(one), Linked(two), Unlinked(two)]
        harness.end(one, OSError("no disk"))
        (exit_notice,) = harness.actor.seen
        assert isinstance(exit_notice, Exit)
        assert exit_notice.ref == one


def test_who_does_not_trap_exits_fails_with_whom_it_is_linked_to() -> None:
    with ActorHarness(Parent) as harness:
        one = harness.inbox("one").ref
        harness.tell(("link", one))
        cause = OSError("no disk")
        harness.end(one, cause)
        assert [failed.cause for failed in harness.failures] == [cause]


def test_the_end_of_the_actor_means_nothing_to_a_stand_in_that_is_linked_to_it() -> None:
    with ActorHarness(Parent) as harness, capture_logs(quiet=True) as logs:
        one = harness.inbox("one").ref
        harness.tell(("link", one))
        harness.kill()
        assert one.is_alive
        logs.assert_none(level=logging.WARNING)


RESUME = Supervision(Directive.RESUME)
SHARED = ValueError("the one of this module")


class FailsOnRequest(Actor[Any]):
    def receive(self, message: Any) -> None:
        if isinstance(message, BaseException):
            raise message


class SoreLoser(FailsOnRequest):
    """Raises in the hooks that nobody waits for."""

    def pre_stop(self) -> Any:
        raise ValueError("in pre_stop")

    def post_stop(self) -> Any:
        raise ValueError("in post_stop")

    def pre_restart(self, cause: BaseException | None) -> Any:
        raise ValueError("in pre_restart")


class SlowLoser(SoreLoser):
    async def pre_stop(self) -> None:
        await asyncio.sleep(0)
        super().pre_stop()

    async def post_stop(self) -> None:
        await asyncio.sleep(0)
        super().post_stop()

    async def pre_restart(self, cause: BaseException | None) -> None:
        await asyncio.sleep(0)
        super().pre_restart(cause)


EITHER_LOSER = pytest.mark.parametrize("loser", [SoreLoser, SlowLoser])


# -- clear()
def test_a_failure_that_nobody_looked_at_survives_clearing() -> None:
    def clearing() -> None:
        with ActorHarness(FailsOnRequest, supervision=RESUME) as harness:
            harness.tell(ValueError("bad"))
            harness.clear()
            harness.tell("fine")

    with pytest.raises(AssertionError, match="on ValueError: ValueError: bad"):
        clearing()


def test_it_can_still_be_looked_at_then() -> None:
    with ActorHarness(FailsOnRequest, supervision=RESUME) as harness:
        harness.tell(ValueError("bad"))
        harness.clear()
        assert [str(failed.cause) for failed in harness.failures] == ["bad"]
        harness.clear()
        assert harness.failures == harness.effects == []


# -- hooks
@EITHER_LOSER
def test_what_a_hook_raises_that_changes_nothing_is_a_failure(loser: type[SoreLoser]) -> None:
    with capture_logs(quiet=True), ActorHarness(loser) as harness:
        harness.restart()
        assert [(failed.doing, str(failed.cause), failed.decision) for failed in harness.failures] == [
            ("in pre_restart", "in pre_restart", None),
            ("in post_stop", "in post_stop", None),
        ]
        harness.clear()
        harness.stop()
        assert [effect.doing for effect in harness.effects if isinstance(effect, Failed)] == [
            "in pre_stop",
            "in post_stop",
        ]
        assert repr(harness.failures[0]) == "<Failed in pre_stop: ValueError: in pre_stop>"


@EITHER_LOSER
def test_nobody_has_to_have_stopped_it_for_that(loser: type[SoreLoser]) -> None:
    with (
        capture_logs(quiet=True),
        pytest.raises(AssertionError, match=r"in pre_stop: ValueError: in pre_stop \(which changed nothing\); in post"),
        ActorHarness(loser) as harness,
    ):
        harness.tell("fine")
    assert [failed.doing for failed in harness.failures] == ["in pre_stop", "in post_stop"]


def test_the_decision_about_a_failure_is_not_taken_for_one_about_a_hook() -> None:
    with capture_logs(quiet=True), ActorHarness(SoreLoser, supervision=Supervision(backoff=None)) as harness:
        harness.tell(ValueError("bad"))
        assert [(failed.doing, failed.decision) for failed in harness.failures] == [
            ("on ValueError", Directive.RESTART),
            ("in pre_restart", None),
            ("in post_stop", None),
        ]
        harness.kill()
        assert [failed.doing for failed in harness.failures[3:]] == ["in post_stop"]


def test_a_hook_that_is_broken_off_has_not_failed() -> None:
    class Waits(FailsOnRequest):
        async def pre_stop(self) -> None:
            await asyncio.Event().wait()

    with capture_logs(quiet=True), ActorHarness(Waits) as harness:
        harness.stop()
        assert harness.is_suspended


# -- exceptions that are raised again
def test_an_exception_that_is_raised_again_is_another_failure() -> None:
    def by_asking(harness: ActorHarness[Any]) -> None:
        with pytest.raises(ValueError, match="the one"):
            harness.ask(SHARED)

    def by_wish(harness: ActorHarness[Any]) -> None:
        harness.fail(SHARED)

    def by_looking(harness: ActorHarness[Any]) -> None:
        harness.tell(SHARED)
        assert len(harness.failures) == 1

    def looking_once(look: Callable[[ActorHarness[Any]], None]) -> None:
        with ActorHarness(FailsOnRequest, supervision=RESUME) as harness:
            look(harness)
            harness.tell(SHARED)

    for look in (by_asking, by_wish, by_looking):
        with pytest.raises(AssertionError, match="on ValueError: ValueError: the one of this module"):
            looking_once(look)


def test_an_answer_that_is_looked_at_twice_is_one_failure() -> None:
    def careless() -> None:
        with ActorHarness(FailsOnRequest, supervision=RESUME) as harness:
            answer = harness.begin_ask(SHARED)
            harness.tell(SHARED)
            for _ in range(2):
                with pytest.raises(ValueError, match="the one"):
                    answer.result()

    with pytest.raises(AssertionError, match="has not looked at that"):
        careless()


# -- a harness that is not closed
def test_a_harness_that_is_let_go_without_closing_it_warns() -> None:
    def forget() -> None:
        harness = ActorHarness(FailsOnRequest, name="forgotten", supervision=RESUME)
        with capture_logs(quiet=True):  # a record of the failure would keep everybody alive
            harness.tell(ValueError("bad"))

    forget()
    with pytest.warns(ResourceWarning) as warned:
        gc.collect()
    (said,) = [str(one.message) for one in warned if "harness" in str(one.message).lower()]
    assert "/forgotten" in said
    assert "`with ActorHarness(...) as harness:`" in said
    assert "on ValueError: ValueError: bad" in said


@pytest.mark.filterwarnings("error::ResourceWarning", "error::pytest.PytestUnraisableExceptionWarning")
def test_one_that_was_closed_or_never_came_about_does_not() -> None:
    with ActorHarness(FailsOnRequest):
        pass
    with pytest.raises(TypeError):
        ActorHarness(42)
    gc.collect()
