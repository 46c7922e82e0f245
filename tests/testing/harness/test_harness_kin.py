"""`ActorHarness`: whom the actor under test brings up, and whom it cares for (M19)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    Context,
    Directive,
    Down,
    Drain,
    Exit,
    ExitKind,
    MailboxConfig,
    State,
    Supervision,
    SystemConfig,
)
from greenroom.errors import BadArgument, NameTaken
from greenroom.testing import ActorHarness, capture_logs
from greenroom.testing.effects import (
    Demonitored,
    Linked,
    Monitored,
    Unlinked,
    Unwatched,
    Watched,
)

Ref = ActorRef[Any, Any]


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
