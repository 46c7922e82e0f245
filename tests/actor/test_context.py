"""`Context`: what an actor finds out about itself, its kin and the message in hand."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Behaviors, Context, ExitKind, Lane, ManualClock
from greenroom.errors import GreenroomError, NoMessage
from greenroom.testing import TestProbe

if TYPE_CHECKING:
    from tests.conftest import Play

CONTRACT = [
    *("self", "sender", "lane", "parent", "children", "system", "name", "env", "now", "log"),
    *("spawn", "stop", "watch", "unwatch", "reply", "fail_reply", "defer_reply", "forward"),
    *("send_after", "send_every", "timers", "set_receive_timeout"),
    *("become", "unbecome", "stash", "unstash", "unstash_all", "pipe_to_self"),
]


@pytest.mark.parametrize("name", CONTRACT)
def test_the_context_has_what_the_contract_says(name: str) -> None:
    assert getattr(Context, name).__doc__, f"Context.{name} says nothing of itself"


class Mirror(Actor[Any, Any]):
    """Runs a function of its context, and answers with its result."""

    def receive(self, message: Any) -> Any:
        return message(self.ctx)


class AsyncMirror(Mirror):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return message(self.ctx)


mirrors = pytest.mark.parametrize("mirror", [Mirror, AsyncMirror])


def mirror_function(ctx: Context, message: Any) -> Any:
    return message(ctx)


# Who and where


@pytest.mark.parametrize("mirror", [Mirror, AsyncMirror, mirror_function])
async def test_an_actor_knows_itself_its_name_its_parent_and_its_system(system: ActorSystem, mirror: Any) -> None:
    ref = system.spawn(mirror, name="me")
    assert await ref.ask(lambda ctx: (ctx.self, ctx.name, ctx.parent)) == (ref, "me", None)
    assert await ref.ask(lambda ctx: ctx.system is system)
    child = await ref.ask(lambda ctx: ctx.spawn(mirror, name="kid"))
    assert await child.ask(lambda ctx: (ctx.self, ctx.name, ctx.parent)) == (child, "kid", ref)
    assert child.path == "/me/kid"


@mirrors
async def test_children_are_those_alive_eldest_first(system: ActorSystem, mirror: type[Mirror]) -> None:
    ref = system.spawn(mirror)
    assert await ref.ask(lambda ctx: ctx.children) == []
    born = [await ref.ask(lambda ctx: ctx.spawn(mirror)) for _ in range(4)]
    assert await ref.ask(lambda ctx: ctx.children) == born
    born[1].stop()
    await born[1].terminated()
    assert await ref.ask(lambda ctx: ctx.children) == [born[0], born[2], born[3]]
    grandchild = await born[0].ask(lambda ctx: ctx.spawn(mirror))
    assert grandchild not in await ref.ask(lambda ctx: ctx.children)
    mine = await ref.ask(lambda ctx: ctx.children.clear() or ctx.children)  # a list of one's own to spoil
    assert len(mine) == 3


async def test_a_child_that_stops_is_a_child_until_it_has_ended(system: ActorSystem) -> None:
    leaving, gate = asyncio.Event(), asyncio.Event()

    class Slow(Mirror):
        async def post_stop(self) -> None:
            leaving.set()
            await gate.wait()

    ref = system.spawn(Mirror)
    child = await ref.ask(lambda ctx: ctx.spawn(Slow))
    child.stop()
    await leaving.wait()
    assert await ref.ask(lambda ctx: ctx.children) == [child]
    gate.set()
    await child.terminated()
    assert await ref.ask(lambda ctx: ctx.children) == []


@pytest.mark.config(env={"a": "system", "b": "system"})
async def test_env_is_the_configs_under_the_parents_under_ones_own(system: ActorSystem) -> None:  # M4: inheritance
    async def env_of(ref: ActorRef[Any, Any]) -> dict[str, Any]:
        return dict(await ref.ask(lambda ctx: ctx.env))

    given = {"b": "parent", "c": "parent"}
    plain = system.spawn(Mirror)
    assert await env_of(plain) == {"a": "system", "b": "system"}
    parent = system.spawn(Mirror, env=given)
    given["c"] = "changed later"
    assert await env_of(parent) == {"a": "system", "b": "parent", "c": "parent"}
    heir = await parent.ask(lambda ctx: ctx.spawn(Mirror))
    assert await env_of(heir) == {"a": "system", "b": "parent", "c": "parent"}
    child = await parent.ask(lambda ctx: ctx.spawn(Mirror, env={"c": "child"}))
    assert await env_of(child) == {"a": "system", "b": "parent", "c": "child"}
    grandchild = await child.ask(lambda ctx: ctx.spawn(mirror_function))
    assert await env_of(grandchild) == {"a": "system", "b": "parent", "c": "child"}
    adopted = system.spawn(Mirror, parent=child, env={"d": "own"})
    assert await env_of(adopted) == {"a": "system", "b": "parent", "c": "child", "d": "own"}
    assert await env_of(parent) == {"a": "system", "b": "parent", "c": "parent"}  # nobody's was changed
    assert await env_of(system.spawn(Mirror)) == {"a": "system", "b": "system"}


def test_now_is_the_systems_clock(play: Play) -> None:
    clock = ManualClock(100.0)

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Mirror)
        assert await ref.ask(lambda ctx: ctx.now()) == 100.0
        await clock.advance(2.5)
        assert await ref.ask(lambda ctx: ctx.now()) == 102.5

    play(program, clock=clock)


@mirrors
async def test_log_records_say_which_actor_logs(
    system: ActorSystem, mirror: type[Mirror], caplog: pytest.LogCaptureFixture
) -> None:
    ref = system.spawn(mirror, name="chatty")
    child = await ref.ask(lambda ctx: ctx.spawn(mirror, name="kid"))
    assert isinstance(await ref.ask(lambda ctx: ctx.log), logging.LoggerAdapter)
    with caplog.at_level(logging.INFO):
        await child.ask(lambda ctx: ctx.log.info("it is %d o'clock", 12, extra={"hour": 12}))
    (record,) = [record for record in caplog.records if "o'clock" in record.getMessage()]
    fields: Any = record
    assert (fields.actor, fields.actor_id, fields.system) == ("/chatty/kid", child.id, "test")
    assert fields.hour == 12  # with those of the call
    assert "it is 12 o'clock" in record.getMessage()


# The message in hand


@mirrors
async def test_the_sender_is_the_actor_that_told_or_asked(system: ActorSystem, mirror: type[Mirror]) -> None:  # J8
    probe = TestProbe(system)
    one, two = system.spawn(mirror), system.spawn(mirror)

    def tell_probe(ctx: Context) -> None:
        probe.ref.tell(ctx.sender)

    await one.ask(lambda ctx: two.tell(tell_probe))
    await probe.expect(one)
    assert probe.last_sender == two
    await one.ask(lambda ctx: two.tell(tell_probe, sender=probe.ref))  # another may be named
    await probe.expect(probe.ref)
    await one.ask(lambda ctx: two << tell_probe)
    await probe.expect(one)
    two.tell(tell_probe)  # from outside of any actor
    assert await probe.receive() is None
    two.tell(tell_probe, sender=one)
    await probe.expect(one)

    async def ask_two(ctx: Context, message: str) -> Any:
        return await two.ask(lambda ctx: ctx.sender)

    asker = system.spawn(ask_two)
    assert await asker.ask("go") == asker


async def test_what_a_hook_tells_is_from_its_actor(system: ActorSystem) -> None:
    probe = TestProbe(system)

    class Polite(Actor[Any, Any]):
        def pre_start(self) -> None:
            probe.ref.tell("hello")

        async def post_start(self) -> None:
            await asyncio.sleep(0)
            probe.ref.tell("ready")

        def receive(self, message: Any) -> None: ...

        async def post_stop(self) -> None:
            await asyncio.sleep(0)
            probe.ref.tell("bye")

    ref = system.spawn(Polite)
    for word in ("hello", "ready"):
        await probe.expect(word)
        assert probe.last_sender == ref
    ref.stop()
    await probe.expect("bye")
    assert probe.last_sender == ref


async def test_sender_and_lane_stay_those_of_the_message_while_its_handler_is_suspended(system: ActorSystem) -> None:
    gate = asyncio.Event()
    other = system.spawn(Mirror)
    seen: list[Any] = []

    class Patient(Actor[str, None]):
        async def receive(self, message: str) -> None:
            before = (self.ctx.sender, self.ctx.lane)
            await gate.wait()
            seen.append((message, before, (self.ctx.sender, self.ctx.lane)))

    first, second = system.spawn(Patient), system.spawn(Patient)
    first.tell("a", sender=other, lane=Lane.CONTROL)
    second.tell("b", lane=Lane.LOG)
    first.tell("c", sender=second)
    await other.ask(lambda ctx: None)
    gate.set()
    await system.settle()
    control, log, data = (other, Lane.CONTROL), (None, Lane.LOG), (second, Lane.DATA)
    assert sorted(seen, key=str) == sorted([("a", control, control), ("b", log, log), ("c", data, data)], key=str)


@mirrors
@pytest.mark.parametrize("lane", list(Lane))
async def test_the_lane_is_the_one_the_message_came_by(system: ActorSystem, mirror: type[Mirror], lane: Lane) -> None:
    probe = TestProbe(system)
    ref = system.spawn(mirror)
    assert await ref.ask(lambda ctx: ctx.lane, lane=lane) is lane
    ref.tell(lambda ctx: probe.ref.tell(ctx.lane), lane=lane)
    await probe.expect(lane)
    await ref.send(lambda ctx: probe.ref.tell(ctx.lane), lane=lane)
    await probe.expect(lane)
    assert await ref.ask(lambda ctx: ctx.lane) is Lane.DATA  # and the next one by its own
    with pytest.raises(ZeroDivisionError):
        await ref.ask(lambda ctx: 1 / 0, lane=lane)


async def test_in_a_hook_there_is_no_message_and_no_sender(system: ActorSystem) -> None:  # J9
    seen: list[Any] = []

    class Hooked(Mirror):
        def pre_start(self) -> None:
            seen.append(self.ctx.sender)
            for call in (
                lambda: self.ctx.reply(1),
                lambda: self.ctx.fail_reply(ValueError()),
                self.ctx.defer_reply,
                lambda: self.ctx.forward(self.ctx.self),
                self.ctx.stash,
            ):
                try:
                    call()
                except GreenroomError as exc:
                    seen.append(exc)

    await system.spawn(Hooked, name="hooked").started()
    sender, *errors = seen
    assert sender is None
    assert len(errors) == 5
    for error, call in zip(errors, ("reply()", "fail_reply()", "defer_reply()", "forward()", "stash()"), strict=True):
        assert isinstance(error, NoMessage)
        assert error.code == "no_message"
        for word in ("/hooked", call, "within a handler"):
            assert word in str(error)
    seen.clear()


async def test_a_context_used_from_outside_has_no_message_in_hand(system: ActorSystem) -> None:
    ref = system.spawn(Mirror)
    ctx = await ref.ask(lambda ctx: ctx)
    with pytest.raises(NoMessage):
        ctx.reply("nobody asked")
    assert ctx.sender is None
    with pytest.raises(NoMessage):
        await system.spawn(Mirror).ask(lambda _: ctx.reply("in another's handler"))


# Stopping


@mirrors
async def test_stop_ends_the_actor_itself_after_the_message_in_hand(system: ActorSystem, mirror: type[Mirror]) -> None:
    ref = system.spawn(mirror)

    def stop(ctx: Context) -> str:
        ctx.stop()
        ctx.stop()  # twice is once
        return "still here"

    asked = ref.ask(stop)
    ref.tell(lambda ctx: pytest.fail("handled after the stop"))
    assert await asked == "still here"
    assert (await ref.terminated()).kind is ExitKind.NORMAL
    assert system.dead_letters.count == 1


@mirrors
async def test_stop_of_a_child_leaves_the_actor_and_its_other_children(
    system: ActorSystem, mirror: type[Mirror]
) -> None:
    ref = system.spawn(mirror)
    kept, stopped = [await ref.ask(lambda ctx: ctx.spawn(mirror)) for _ in range(2)]
    await ref.ask(lambda ctx: ctx.stop(stopped))
    assert (await stopped.terminated()).kind is ExitKind.NORMAL
    await ref.ask(lambda ctx: ctx.stop(stopped))  # it is over: nothing happens
    assert await ref.ask(lambda ctx: ctx.children) == [kept]


async def test_stop_of_somebody_elses_child_is_refused(system: ActorSystem) -> None:  # J9
    ref, other = system.spawn(Mirror, name="me"), system.spawn(Mirror, name="other")
    child = await ref.ask(lambda ctx: ctx.spawn(Mirror))
    grandchild = await child.ask(lambda ctx: ctx.spawn(Mirror, name="grandchild"))

    def attempt(target: Any) -> Any:
        def try_it(ctx: Context) -> Any:
            try:
                ctx.stop(target)
            except Exception as exc:
                return exc
            return Behaviors.same

        return try_it

    for target in (other, grandchild, ref):
        error = await ref.ask(attempt(target))
        assert isinstance(error, ValueError)
        for word in ("/me", str(target), "ref.stop()"):
            assert word in str(error)
    assert other.is_alive
    assert grandchild.is_alive
    assert ref.is_alive


@pytest.mark.parametrize("arguments", [(), ("coins",)])
async def test_a_name_with_a_percent_sign_can_be_logged(
    system: ActorSystem, caplog: pytest.LogCaptureFixture, arguments: tuple[object, ...]
) -> None:
    def pay(ctx: Context, message: str) -> None:
        ctx.log.warning(message, *arguments, extra=None)

    system.spawn(pay, name="50%").tell("took %s")
    await system.settle()
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.getMessage() == "/50%: took " + (arguments[0] if arguments else "%s")  # type: ignore[operator]
    assert (record.funcName, getattr(record, "actor", None)) == ("pay", "/50%")
