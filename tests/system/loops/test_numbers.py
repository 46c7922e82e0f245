"""A number that goes to another loop arrives as it was; without a GIL, in memory of that loop's thread.

CPython keeps the memory of a number for the thread that lets go of it. Numbers that two threads work with would come to
stand side by side, and both threads would wait for one cache line: four times as long, for two actors that only add.
"""

from __future__ import annotations

import sysconfig
from typing import Any

import pytest

from greenroom import COMPILED, Actor, ActorRef, ActorSystem
from tests.conftest import Play
from tests.system.loops.conftest import LOOPS


class Whole(int):
    pass


class Part(float):
    pass


SMALL = ["0", "-5", "256"]
KEPT_FOR_THE_THREAD = ["257", "-70000", "1073741823", "-1073741823"]
LARGE = ["1073741824", "-9223372036854775808", "1" + 40 * "0"]
FLOATS = ["1.5", "-0.0", "inf", "nan", "5e-324"]


class Echo(Actor[Any, Any]):
    """Notes what it hears, and says it again."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def receive(self, message: Any) -> Any:
        self.heard.append(message)
        return message


class Asker(Actor[Any, Any]):
    """Asks another what it is asked."""

    def __init__(self, other: ActorRef[Any, Any], heard: list[Any]) -> None:
        self.other = other
        self.heard = heard

    async def receive(self, message: Any) -> None:
        answer = await self.other.ask(message)
        self.heard.append(answer)


def carry(play: Play, number: object) -> list[Any]:
    """The number as an actor of another loop has heard it, as its answer came here, and as it came to other loops."""
    heard: list[Any] = []

    async def program(system: ActorSystem) -> None:
        system.spawn(Echo, [], dispatcher="spread")  # lives on the first loop, so the next does not
        echo = system.spawn(Echo, heard, dispatcher="spread")
        answer = await echo.ask(number)
        heard.append(answer)
        answers: list[Any] = []
        for asker in [system.spawn(Asker, echo, answers, dispatcher="spread") for _ in range(LOOPS)]:
            await asker.ask(number)
        heard.extend(answers)

    play(program)
    return heard


@pytest.mark.parametrize(
    "number",
    [
        *map(int, SMALL + KEPT_FOR_THE_THREAD + LARGE),
        *map(float, FLOATS),
        True,
        Whole(1000),
        Part(2.5),
        1000j,
    ],
    ids=repr,
)
def test_a_number_arrives_as_it_was(play: Play, number: object) -> None:
    heard = carry(play, number)
    assert [(type(one), repr(one)) for one in heard] == [(type(number), repr(number))] * (2 + 2 * LOOPS)


@pytest.mark.skipif(
    not COMPILED or not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="threads do not keep memory for themselves"
)
@pytest.mark.parametrize("number", [*map(int, KEPT_FOR_THE_THREAD), *map(float, FLOATS)], ids=repr)
def test_without_a_gil_each_thread_has_a_number_of_its_own(play: Play, number: object) -> None:
    heard = carry(play, number)
    assert len({id(one) for one in [number, *heard[:2]]}) == 3


@pytest.mark.parametrize("number", [10**40, Whole(1000), Part(2.5), 1000j], ids=repr)
def test_any_other_object_is_handed_over_as_it_is(play: Play, number: object) -> None:
    assert all(one is number for one in carry(play, number))
