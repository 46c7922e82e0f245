"""The part of a ref that messages pass through. `ActorRef` adds everything else, and the types."""

from __future__ import annotations

from typing import Any

from greenroom._core.build import COMPILED
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.messaging.question import Asked, put_question
from greenroom.actor.messaging.waiting import block_for_answer
from greenroom.lanes import Lane
from greenroom.tracebacks import SHOWS_ALL, drop_outer

# As in `question`.
__tracebackhide__ = not SHOWS_ALL

_DATA = Lane.DATA


class Address:
    """Stands for one actor, through all its restarts and after its end."""

    __slots__ = ("__weakref__", "_cell", "_name", "_parent")

    # Set by `Lifecycle`, which makes refs, and never again. There is no method for it: without C methods a ref needs no
    # table of them, and is 16 bytes smaller.
    _cell: Cell
    _name: str | tuple[str]
    """The name that was given, or the label of a nameless actor's kind, in a tuple."""
    _parent: Address | None

    def tell(self, message: object, *, lane: Lane = _DATA, sender: Address | None = None) -> None:
        """Send a message. Never blocks; from any thread.

        Inside a handler, the sender is the actor itself unless another is named. A full mailbox raises `MailboxFull`,
        or does what its overflow policy says; a dead actor's message is a dead letter. `ref << message` does the same.

        >>> import asyncio
        >>> from greenroom import ActorSystem, Lane
        >>> async def main() -> list[str]:
        ...     heard: list[str] = []
        ...     async with ActorSystem() as system:
        ...         ref = system.spawn(lambda ctx, message: heard.append(message))
        ...         ref.tell("hello")
        ...         ref.tell("this first", lane=Lane.CONTROL)
        ...         await system.settle()
        ...     return heard
        >>> asyncio.run(main())
        ['this first', 'hello']
        """
        self._cell.accept(message, sender, lane)

    def __lshift__(self, message: object) -> Address:
        self._cell.accept(message, None, _DATA)
        return self

    def ask(
        self, message: object, *, timeout: float | None = 5.0, lane: Lane = _DATA, wait_for_room: bool = False
    ) -> Asked:
        """Send a message now, and return an awaitable of its reply.

        Awaiting it raises what the handler raised; `AskTimeout` after `timeout` seconds, which None makes endless;
        `ActorTerminated` when the actor ends; `AskDeadlock` when actors wait for one another in a circle; `MailboxFull`
        when there is no room. With `wait_for_room` the message waits for room, within the same timeout.

        >>> import asyncio
        >>> from greenroom import ActorSystem
        >>> async def main() -> str:
        ...     async with ActorSystem() as system:
        ...         ref = system.spawn(lambda ctx, message: message.upper())
        ...         return await ref.ask("hello", timeout=1.0)
        >>> asyncio.run(main())
        'HELLO'
        """
        return put_question(self._cell, message, timeout, lane, wait_for_room)

    def ask_sync(
        self, message: object, *, timeout: float | None = 5.0, lane: Lane = _DATA, wait_for_room: bool = False
    ) -> Any:
        """Send a message and block until its reply comes: for plain threads, refused on a loop's own.

        It raises what awaiting an `ask` would raise.

        >>> from greenroom import ActorSystem
        >>> with ActorSystem() as system:
        ...     system.spawn(lambda ctx, message: message.upper()).ask_sync("hello")
        'HELLO'
        """
        try:
            return block_for_answer(self._cell, message, timeout, lane, wait_for_room)
        except Exception as exc:
            drop_outer(exc)
            if COMPILED:
                raise exc  # without its name, it would have the old traceback again
            raise

    @property
    def id(self) -> int:
        """Its number: never given to another actor of this system."""
        return self._cell.id

    def __hash__(self) -> int:
        return self._cell.id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Address):
            return NotImplemented
        mine, theirs = self._cell, other._cell
        # Two cells of one id: a ref to an ended actor came back from a pickle.
        return mine is theirs or (mine.id == theirs.id and mine.runq is theirs.runq)


def tell_message(ref: Address, message: object) -> object:
    """What `tell` does with a message alone."""
    return ref._cell.accept(message, None, _DATA)  # type: ignore[func-returns-value]


def ask_message(ref: Address, message: object) -> object:
    """What `ask` does with a message alone."""
    return put_question(ref._cell, message, 5.0, _DATA, False)


def direct(ref: Address, cell: Cell, name: str | tuple[str], parent: Address | None) -> None:
    """Make a ref that `Lifecycle` has not made stand for the actor of `cell`."""
    ref._cell = cell
    ref._name = name
    ref._parent = parent


def lend_methods(subclass: type) -> None:
    """Give `subclass` the methods as its own.

    The interpreter has a shortcut for calls of a compiled method, but only for instances of the very class that has it;
    without this, a tell through a ref costs 15 % more instructions (callgrind, ping-pong).

    `inspect.signature` looks up defaults among the imported modules, by a full name: it does not know `_DATA`.
    """
    if COMPILED:
        for number, name in enumerate(("tell", "ask", "ask_sync")):
            method = vars(Address)[name]
            signature = method.__text_signature__.replace("_DATA", "greenroom.Lane.DATA")
            doc = f"{name}{signature}\n--\n\n{method.__doc__}"
            setattr(subclass, name, own_method(subclass, method, number, doc.encode(), tell_message, ask_message))
