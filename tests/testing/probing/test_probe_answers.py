"""A `TestProbe` as a part of the conversation: it sends, and it answers (M19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, ActorTerminated, AskTimeout, Context, Lane, ManualClock
from greenroom.testing import TestProbe, assert_ledger_balanced

if TYPE_CHECKING:
    from tests.conftest import Play


class Client(Actor[str, str]):
    """Asks its server, and passes the answer on."""

    def __init__(self, server: ActorRef[Any, Any]) -> None:
        self.server = server

    async def receive(self, message: str) -> str:
        try:
            return f"{message}: {await self.server.ask(message)}"
        except ConnectionError as exc:
            return f"{message}: {exc}"


def test_a_probe_answers_whoever_asked_it(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        server = TestProbe(system)
        client = system.spawn(Client, server.ref)
        asked = client.ask("time")
        await server.expect("time")
        assert server.last_sender == client
        assert not asked.done()
        server.reply("noon")
        assert await asked == "time: noon"
        from_outside = server.ref.ask("place")
        await server.expect("place")
        assert server.last_sender is None
        server.reply(None)
        assert await from_outside is None

    play(program)


def test_a_probe_answers_what_it_read_last(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        server = TestProbe(system)
        first, second = server.ref.ask("first"), server.ref.ask("second")
        await server.expect("first")
        server.reply(1)
        await server.expect("second")
        server.reply(2)
        assert [await first, await second] == [1, 2]

    play(program)


def test_a_probe_can_let_an_ask_fail(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        server = TestProbe(system)
        asked = system.spawn(Client, server.ref).ask("time")
        await server.expect("time")
        server.fail_reply(ConnectionError("no line"))
        assert await asked == "time: no line"
        assert server.ref.is_alive

    play(program)


def test_an_ask_that_a_probe_does_not_answer_ends_like_any_other(play: Play) -> None:
    clock = ManualClock()

    async def program(system: ActorSystem) -> None:
        server = TestProbe(system)
        late, lost = server.ref.ask("late"), server.ref.ask("lost", timeout=100.0)
        await server.expect("late")
        await clock.advance(5.0)
        with pytest.raises(AskTimeout):
            await late
        server.reply("too late")
        assert system.dead_letters.by_reason == {"late reply": 1}
        server.ref.stop()
        with pytest.raises(ActorTerminated):
            await lost

    play(program, clock=clock)


def test_a_probe_tells_its_reply_to_an_actor_that_told_it_something(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe, other = TestProbe(system), TestProbe(system)
        other.send(probe.ref, "hello")
        await probe.expect("hello")
        for number in range(2):  # a tell can be answered more than once
            probe.reply(number)
            await other.expect(number)
        assert other.last_sender == probe.ref

    play(program)


def test_a_probe_sends_as_itself_and_by_any_lane(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)

        def echo(ctx: Context, message: str) -> None:
            ctx.reply((message, ctx.lane))

        ref = system.spawn(echo)
        probe.send(ref, "slow")
        probe.send(ref, "fast", lane=Lane.CONTROL)
        assert await probe.receive() == ("fast", Lane.CONTROL)
        assert await probe.receive() == ("slow", Lane.DATA)
        assert probe.last_sender == ref

    play(program)


def test_a_probe_that_cannot_answer_says_why(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system, name="probe")
        for answer in (lambda: probe.reply(1), lambda: probe.fail_reply(ValueError())):
            with pytest.raises(AssertionError, match="/probe has read no message to reply to"):
                answer()
        probe.ref.tell("hello")
        await probe.expect("hello")
        with pytest.raises(AssertionError, match="/probe has nobody to reply to: 'hello' was told from outside"):
            probe.reply(1)
        with pytest.raises(AssertionError, match="/probe cannot fail the reply to 'hello'"):
            probe.fail_reply(ValueError())
        asked = probe.ref.ask("question")
        await probe.expect("question")
        probe.reply("answer")
        for answer in (lambda: probe.reply(1), lambda: probe.fail_reply(ValueError())):
            with pytest.raises(AssertionError, match="/probe has answered 'question' already"):
                answer()
        assert await asked == "answer"
        assert_ledger_balanced(system)

    play(program)


def test_a_probe_can_stand_in_the_middle(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        middle = TestProbe(system)
        real = system.spawn(lambda ctx, message: f"{message}!")
        asked = system.spawn(Client, middle.ref).ask("time")
        middle.reply(await real.ask(await middle.receive()))
        assert await asked == "time: time!"

    play(program)
