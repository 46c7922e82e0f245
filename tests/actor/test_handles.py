"""`@handles`: dispatch by message type, exact first and then by the message's bases."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from enum import Enum
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Protocol,
    TypedDict,
    TypeVar,
    Union,  # noqa: F401 - an annotation below names it
)

import pytest

from greenroom import Actor, ActorSystem, Behaviors, Context, Request, Terminated, handles
from greenroom.errors import BadArgument, HandlerConflict, NotAnActor, Unhandled


class Event: ...


class Click(Event): ...


class DoubleClick(Click): ...


class Printable: ...


class Both(Printable, Click): ...


class Get(Request[int]): ...


class Desk(Actor[Any, Any]):
    @handles(Event)
    def event(self, message: Event) -> str:
        return "event"

    @handles(Click)
    async def click(self, message: Click) -> str:
        await asyncio.sleep(0)
        return "click"

    @handles(Printable)
    def printable(self, message: Printable) -> str:
        return "printable"

    @handles(int, str)
    def scalar(self, message: int | str) -> str:
        return "scalar"

    @handles(Get)
    def get(self, message: Get) -> int:
        return 7


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (Event(), "event"),
        (Click(), "click"),
        (DoubleClick(), "click"),  # the nearest base
        (Both(), "printable"),  # the order of its bases
        (1, "scalar"),
        ("x", "scalar"),
        (True, "scalar"),  # bool is an int
        (Get(), 7),
    ],
)
async def test_a_message_goes_to_the_method_of_its_type_or_of_its_nearest_base(
    system: ActorSystem, message: Any, answer: Any
) -> None:
    desk = system.spawn(Desk)
    assert await desk.ask(message) == answer
    assert await desk.ask(message) == answer  # found again


@pytest.mark.parametrize("message", [1.5, b"x", None, object(), Exception("x"), Desk, int])
async def test_an_unhandled_type_goes_to_dead_letters_and_fails_an_ask_at_once(
    system: ActorSystem, message: Any
) -> None:  # case 25
    desk = system.spawn(Desk, name="desk")
    desk.tell(message)
    with pytest.raises(Unhandled) as caught:
        await desk.ask(message, timeout=None)
    error = caught.value
    assert (error.code, error.ref, error.message) == ("unhandled", desk, message)
    assert "/desk" in str(error)
    assert f"@handles({type(message).__name__})" in str(error)
    letters = system.dead_letters.recent()
    assert [letter.message for letter in letters] == [message, message]
    assert {letter.reason for letter in letters} == {"unhandled"}
    assert {letter.recipient for letter in letters} == {desk}
    assert system.ledger(desk).unhandled == 2
    assert desk.is_alive  # and it goes on
    assert await desk.ask(1) == "scalar"


async def test_an_unhandled_message_shows_who_sent_it(system: ActorSystem) -> None:
    def sender(ctx: Context, message: Any) -> None:
        message.tell(1.5)

    desk, other = system.spawn(Desk), system.spawn(sender)
    other.tell(desk)
    await system.settle()
    (letter,) = system.dead_letters.recent()
    assert letter.sender == other


async def test_a_handler_for_object_takes_what_no_other_does(system: ActorSystem) -> None:
    class CatchAll(Desk):
        @handles(object)
        def rest(self, message: object) -> str:
            return "rest"

    ref = system.spawn(CatchAll)
    assert [await ref.ask(message) for message in (1.5, None, 3, Click())] == ["rest", "rest", "scalar", "click"]


async def test_a_class_may_change_while_its_methods_are_looked_for(system: ActorSystem) -> None:
    looked_at: list[type] = []

    class Changing:
        """An attribute that, when looked at, does what another thread might do at that moment."""

        def __getattr__(self, name: str) -> object:
            for kind in looked_at:
                kind.noted = True  # type: ignore[attr-defined]
            raise AttributeError(name)

    class Late(Desk):
        changing = Changing()

        @handles(float)
        def number(self, message: float) -> str:
            return "float"

    looked_at.append(Late)
    assert await system.spawn(Late).ask(1.5) == "float"
    assert hasattr(Late, "noted")


async def test_a_subclass_adds_handlers_and_overrides_by_name_and_by_type(system: ActorSystem) -> None:
    class Extended(Desk):
        @handles(float)
        def number(self, message: float) -> str:
            return "float"

        def event(self, message: Event) -> str:  # not marked again: it stays the method for Event
            return f"new {super().event(message)}"

        @handles(int)
        def whole(self, message: int) -> str:  # another name: it takes the type over
            return "whole"

    ref = system.spawn(Extended)
    answers = [await ref.ask(message) for message in (1.5, Event(), 3, "x", Click())]
    assert answers == ["float", "new event", "whole", "scalar", "click"]
    base = system.spawn(Desk)  # the base is as it was
    assert [await base.ask(message) for message in (Event(), 3)] == ["event", "scalar"]
    with pytest.raises(Unhandled):
        await base.ask(1.5)


async def test_handlers_may_come_from_mixins(system: ActorSystem) -> None:
    class Mixin:
        @handles(bytes)
        def raw(self, message: bytes) -> str:
            return "raw"

    class Mixed(Mixin, Desk): ...

    class OnlyMixed(Mixin, Actor[bytes, str]): ...

    assert await system.spawn(Mixed).ask(b"x") == "raw"
    assert await system.spawn(OnlyMixed).ask(b"x") == "raw"


async def test_two_methods_of_one_class_for_one_type_are_refused_by_name(system: ActorSystem) -> None:  # J9
    class Torn(Actor[Any, Any]):
        @handles(int)
        def first(self, message: int) -> None: ...

        @handles(str, int)
        def second(self, message: int | str) -> None: ...

    with pytest.raises(HandlerConflict) as caught:
        system.spawn(Torn)
    error = caught.value
    assert error.code == "handler_conflict"
    assert error.message_type is int
    assert isinstance(error, TypeError)
    for word in ("Torn", "first", "second", "int", "leave it to one"):
        assert word in str(error)
    assert system.actors() == []


async def test_a_type_named_twice_on_one_method_is_no_conflict(system: ActorSystem) -> None:
    class Twice(Actor[Any, Any]):
        @handles(str)
        @handles(int)
        def both(self, message: int | str) -> str:
            return type(message).__name__

    ref = system.spawn(Twice)
    assert [await ref.ask(1), await ref.ask("x")] == ["int", "str"]


@pytest.mark.parametrize("types", [(), (3,), (int, "str"), (int | str,), ([int],)])
def test_handles_without_types_says_how_it_is_written(types: Any) -> None:  # J9
    with pytest.raises(TypeError, match=r"@handles\(Deposit, Withdraw\)"):
        handles(*types)


def test_a_bare_handles_says_how_it_is_written() -> None:  # J9
    with pytest.raises(TypeError, match=r"@handles\(Deposit, Withdraw\)"):

        @handles  # type: ignore[arg-type]
        def method(self: object, message: int) -> None: ...


async def test_a_class_with_neither_receive_nor_handles_is_refused(system: ActorSystem) -> None:  # J9
    class Mute(Actor[Any, Any]):
        def pre_start(self) -> None: ...

    with pytest.raises(NotAnActor) as caught:
        system.spawn(Mute)
    assert caught.value.code == "not_an_actor"
    for word in ("Mute", "receive", "@handles"):
        assert word in str(caught.value)
    assert system.actors() == []


class Fallback(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return Behaviors.unhandled if message is None else "receive"


class AsyncFallback(Fallback):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return super().receive(message)


class MarkedBase(Desk, Fallback): ...


class MarkedLater(AsyncFallback, Desk): ...


class AddsReceive(Desk):
    def receive(self, message: Any) -> Any:
        return Behaviors.unhandled if message is None else "receive"


class AddsMethods(Fallback):
    @handles(int, str)
    def scalar(self, message: int | str) -> str:
        return "scalar"

    @handles(Click)
    def click(self, message: Click) -> str:
        return "click"


@pytest.mark.parametrize("kind", [MarkedBase, MarkedLater, AddsReceive, AddsMethods])
async def test_receive_takes_what_no_marked_method_does_wherever_both_are_defined(
    system: ActorSystem, kind: Any
) -> None:
    ref = system.spawn(kind)
    for _ in range(2):
        answers = [await ref.ask(message) for message in (1, 1.5, DoubleClick(), b"x", object())]
        assert answers == ["scalar", "receive", "click", "receive", "receive"]
        with pytest.raises(Unhandled):
            await ref.ask(None)


async def test_what_a_type_goes_to_does_not_depend_on_what_came_before(system: ActorSystem) -> None:
    class Above: ...

    class Left(Above): ...

    class Right(Above): ...

    class Below(Left, Right): ...

    class Finder(Actor[Any, Any]):
        @handles(Above)
        def above(self, message: Above) -> str:
            return "above"

        @handles(Right)
        def right(self, message: Right) -> str:
            return "right"

    ref = system.spawn(Finder)
    assert [await ref.ask(message) for message in (Left(), Below())] == ["above", "right"]


async def test_an_override_of_a_marked_method_that_is_a_generator_is_refused(system: ActorSystem) -> None:
    class Generating(Desk):
        def event(self, message: Event) -> Any:
            yield message

    with pytest.raises(NotAnActor, match=r"Generating\.event is a generator"):
        system.spawn(Generating)


T = TypeVar("T")


class Speaks(Protocol):
    def speak(self) -> str: ...


class Shape(ABC):
    @abstractmethod
    def area(self) -> float: ...


class Kind(Enum):
    ONE = 1


class Named(NamedTuple):
    name: str


class Table(TypedDict):
    name: str


class Envelope(Generic[T]): ...


def class_with(annotation: Any, *types: type) -> type:
    """A class that handles `types` with a method whose parameter is annotated so."""

    def take(self: Any, message: Any) -> None: ...

    take.__annotations__ = {} if annotation is ... else {"message": annotation}
    return type("Desk", (Actor,), {"take": handles(*types)(take)})


@pytest.mark.parametrize(
    ("annotation", "types", "words"),
    [
        (str, (Get,), "Desk.take handles Get, but its parameter `message` is annotated str"),
        ("str", (Get,), "annotated str: write @handles(str), or annotate it Get"),
        (int | str, (Get,), "annotated int | str"),
        ("Union[int, None]", (Get,), "handles Get"),
        (Annotated[str, "text"], (Get,), "handles Get"),
        (int, (int, str), "handles str"),
        (None, (Get,), "handles Get"),
        (Kind, (Get,), "annotated Kind"),
        (int, (float,), "handles float"),
        (Named, (Get,), "annotated Named"),
        ("Desk", (Get,), "annotated Desk"),  # its own class, which is being made
    ],
)
def test_a_method_for_a_type_that_its_parameter_cannot_be_is_refused_at_once(
    annotation: Any, types: tuple[type, ...], words: str
) -> None:
    with pytest.raises(BadArgument) as caught:
        class_with(annotation, *types)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "types"),
    [
        (..., (Get, int)),
        (Any, (Get, int)),
        (object, (Get, int)),
        ("NotYetDefined", (Get,)),
        ("this is no annotation", (Get,)),
        (T, (Get,)),
        (Speaks, (Get,)),
        (Shape, (Get,)),  # which may be registered there later
        (Table, (dict,)),
        (Envelope[int], (Envelope,)),
        (list[int], (list, Get)),
        (Event | Printable, (Click, Both, Event)),
        (int | str, (int, str, bool)),
        (float, (int, bool, float)),
        (complex, (int, float)),
        (bytes, (bytearray,)),
        (Click, (Event,)),  # of all events, only clicks may come
        (Named, (tuple,)),
        (Literal["a"], (str,)),
        (NewType("Id", int), (str,)),
        (type(None), (type(None),)),
        (None, (type(None),)),
    ],
)
def test_in_doubt_an_annotation_says_nothing_against_a_type(annotation: Any, types: tuple[type, ...]) -> None:
    class_with(annotation, *types)


async def test_the_types_of_a_mixin_are_looked_at_when_it_is_spawned(system: ActorSystem) -> None:
    class Mixin:
        @handles(Get)
        def get(self, message: str) -> None: ...

    class Mixed(Mixin, Actor[Any, Any]): ...

    with pytest.raises(BadArgument, match=r"Mixin\.get handles Get"):
        system.spawn(Mixed)


@pytest.mark.parametrize("suspends", [False, True])
async def test_a_marked_method_may_return_a_behavior(system: ActorSystem, suspends: bool) -> None:  # J3
    class Door(Actor[Any, Any]):
        @handles(int)
        def number(self, message: int) -> Any:
            return self.later() if suspends else Behaviors.unhandled

        async def later(self) -> Any:
            await asyncio.sleep(0)
            return Behaviors.unhandled

        @handles(str)
        def text(self, message: str) -> Any:
            return Behaviors.stopped

    door = system.spawn(Door)
    with pytest.raises(Unhandled):
        await door.ask(1)
    assert await door.ask("close") is None
    await door.terminated()


async def test_a_watchs_message_is_dispatched_by_its_type(system: ActorSystem) -> None:
    """Notices reach `receive`; a `Terminated` goes to `on_terminated` instead."""

    class Watcher(Actor[Any, Any]):
        heard: Any = None

        @handles(Event)
        def event(self, message: Event) -> None:
            self.heard = message

        @handles(Terminated)
        def never(self, message: Terminated) -> None:
            self.heard = "a Terminated"

        @handles(str)
        def ask_for(self, message: str) -> Any:
            return self.heard

        @handles(Printable)
        def begin(self, message: Any) -> None:
            self.ctx.watch(message.ref, message.notice)

    class Begin(Printable):
        ref: Any
        notice: Any

    desk, watcher = system.spawn(Desk), system.spawn(Watcher)
    begin = Begin()
    begin.ref, begin.notice = desk, Click()
    await watcher.ask(begin)
    desk.stop()
    await desk.terminated()
    assert await watcher.ask("heard") is begin.notice


def nothing(self: Any) -> None: ...
def two(self: Any, message: int, other: int) -> None: ...
def named(self: Any, message: int, *, other: int) -> None: ...


@pytest.mark.parametrize("method", [nothing, two, named])
def test_a_method_that_cannot_be_called_with_a_message_is_refused_at_once(method: Any) -> None:
    with pytest.raises(BadArgument, match=r"Counter\.add handles int, but cannot be called with a message: write"):
        type("Counter", (Actor,), {"add": handles(int)(method)})


def optional(self: Any, message: int, other: int = 1, *, third: int = 2) -> None: ...
def anything(self: Any, *messages: int) -> None: ...
def all_of_it(*everything: Any, **more: Any) -> None: ...


@pytest.mark.parametrize("method", [optional, anything, all_of_it])
def test_a_method_may_take_more_than_a_message_if_it_need_not(method: Any) -> None:
    made = type("Counter", (Actor,), {"add": handles(int)(method)})
    assert made.__name__ == "Counter"
