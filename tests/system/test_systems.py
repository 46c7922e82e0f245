"""More than one system, and systems where a loop runs already, as in a notebook (J2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, SystemConfig
from greenroom.errors import ConfigError, GreenroomError, WrongLoop
from greenroom.testing import assert_ledger_balanced

if TYPE_CHECKING:
    from tests.conftest import Play


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


class AsyncEcho(Actor[Any, Any]):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return message


def test_systems_can_be_nested_and_their_actors_can_talk(play: Play) -> None:  # J2
    async def main() -> None:
        async with ActorSystem("outer") as outer, ActorSystem("inner") as inner:

            class Asker(Actor[str, str]):
                async def receive(self, message: str) -> str:
                    return f"outer {await inside.ask(message)}"

            inside: ActorRef[Any, Any] = inner.spawn(AsyncEcho)
            assert await outer.spawn(Asker).ask("hello") == "outer hello"
        assert_ledger_balanced(inner)
        assert_ledger_balanced(outer)

    play.bare(main)


async def test_a_system_inside_an_actor_of_another_runs_and_ends(system: ActorSystem) -> None:
    async def host(ctx: Context, message: Any) -> Any:
        async with ActorSystem("guest") as guest:
            return await guest.spawn(Echo).ask(message)

    assert await system.spawn(host).ask("hello") == "hello"


def test_two_systems_in_one_loop_know_nothing_of_each_others_actors(play: Play) -> None:
    async def main() -> None:
        async with ActorSystem("same") as one, ActorSystem("same") as two:
            mine = one.spawn(Echo, name="echo")
            theirs = two.spawn(Echo, name="echo")
            assert mine != theirs
            assert (one.actor("echo"), two.actor("echo")) == (mine, theirs)
            for wrong in (
                lambda: one.spawn(Echo, parent=theirs),
                lambda: one.ledger(theirs),
            ):
                with pytest.raises(WrongLoop):
                    wrong()
            theirs.tell(1)
            await two.settle()
            assert (one.ledger().sent, two.ledger().sent) == (0, 1)
            await one.shutdown()
            assert await theirs.ask(2) == 2

    play.bare(main)


async def test_actors_of_two_systems_on_two_threads_can_talk(system: ActorSystem) -> None:
    with ActorSystem("other") as other:
        far = other.spawn(AsyncEcho)

        async def ask_far(ctx: Context, message: Any) -> Any:
            return await far.ask(message)

        near = system.spawn(ask_far)
        assert await asyncio.gather(*(near.ask(number) for number in range(100))) == list(range(100))
        assert other.ledger(far).handled == 100


@pytest.mark.parametrize("wrong", [5, "echo", Echo])
async def test_what_is_no_ref_has_no_ledger_and_no_children(system: ActorSystem, wrong: Any) -> None:
    with pytest.raises((GreenroomError, TypeError)):
        system.ledger(wrong)
    with pytest.raises(ConfigError, match="parent="):
        system.spawn(Echo, parent=wrong)


# -- in a notebook


def test_a_system_can_be_entered_in_one_cell_and_left_in_another(play: Play) -> None:
    """As in a notebook: one loop runs piece by piece, and stands still in between."""
    loop = play.loop_factory()
    try:
        system = ActorSystem("notebook", config=SystemConfig(seed=1))
        loop.run_until_complete(system.__aenter__())
        ref = system.spawn(AsyncEcho)
        ref.tell("sent between two cells")

        async def cell(message: Any) -> Any:
            return await ref.ask(message)

        assert loop.run_until_complete(cell(1)) == 1
        assert loop.run_until_complete(cell(2)) == 2
        loop.run_until_complete(system.settle())
        assert system.ledger().handled == 3
        loop.run_until_complete(system.__aexit__(None, None, None))
        assert system.phase == "stopped"
        assert_ledger_balanced(system)
    finally:
        loop.close()


def test_inside_a_running_loop_a_plain_with_has_a_thread_of_its_own(play: Play) -> None:
    async def main() -> None:
        with ActorSystem() as system:
            ref = system.spawn(AsyncEcho)
            assert await ref.ask(1) == 1
            assert await asyncio.to_thread(ref.ask_sync, 2) == 2

    play.bare(main)


def test_inside_a_running_loop_run_is_refused(play: Play) -> None:
    async def main() -> None:
        with pytest.raises((RuntimeError, GreenroomError)):
            ActorSystem().run()

    play.bare(main)
