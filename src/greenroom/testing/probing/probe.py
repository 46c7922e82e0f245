"""`TestProbe`: an actor whose mailbox a test can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, overload

from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.messaging.signals import Terminated
from greenroom.actor.messaging.waiting import End, on_loop
from greenroom.actor.records.record import ActorRecord
from greenroom.clock import ManualClock
from greenroom.errors import AlreadyReplied, BadArgument, SettleTimeout
from greenroom.lanes import Lane
from greenroom.system.ending.report import Phase
from greenroom.system.system import ActorSystem
from greenroom.testing.probing.inbox import Envelope, Inbox, ProbeActor
from greenroom.testing.probing.matching import in_words, listed, match_all, matches, shown
from greenroom.testing.probing.settling import settle
from greenroom.validation import require_delay

if TYPE_CHECKING:
    from greenroom.actor.api.context import Context
    from greenroom.actor.records.record import Tombstone

T = TypeVar("T")
M = TypeVar("M")

_SETTLE_TIMEOUT = 30.0
_ROUNDING = 0.001
_ANYTHING = object()


class _WithinBlock(NamedTuple):
    """A limit that `within` sets, for the task that enters it and for tasks started inside."""

    probe: TestProbe
    seconds: float
    until: float


_within_blocks: ContextVar[tuple[_WithinBlock, ...]] = ContextVar("greenroom.testing.within", default=())


class TestProbe:
    """An actor whose messages a test reads: `probe.ref` receives them, and the test says what it expects.

    >>> import asyncio
    >>> from greenroom import ActorSystem
    >>> async def main():
    ...     async with ActorSystem() as system:
    ...         probe = TestProbe(system)
    ...         probe.ref.tell("hello")
    ...         return await probe.expect("hello")
    >>> asyncio.run(main())
    'hello'

    A test expects a value, which the message must equal; a type, which it must have; or a function, which must return
    true for it. `timeout` is in real seconds (3 by default). A probe waits only until a message comes, so a test that
    passes hardly waits at all. A probe that has ended is not waited for. Who asks the probe gets an answer when the
    test calls `reply`.
    """

    __test__ = False  # so that pytest does not collect it

    def __init__(self, system: ActorSystem, *, name: str | None = None, timeout: float = 3.0) -> None:
        require_delay("timeout", timeout)
        _require_hearing(system, name)
        self.system = system
        self.timeout = timeout
        self._inbox = Inbox()
        self._last: Envelope | None = None
        self._watched: list[ActorRef] = []
        self.ref: ActorRef = system.spawn(ProbeActor, self._inbox, name=name)
        # A hook could not tell the inbox: none runs when an end is forced.
        end = End(self.ref._cell)
        end.finish = lambda reason, _: self._inbox.end(reason)  # type: ignore[arg-type]
        on_loop(self.ref._cell, end.begin)

    def __repr__(self) -> str:
        return f"<TestProbe {self.ref}, {len(self.messages)} unread>"

    # -- reading

    @property
    def messages(self) -> list[Any]:
        """The messages that came and were not read yet."""
        return [envelope.message for envelope in self._inbox.unread()]

    @property
    def last_sender(self) -> ActorRef | None:
        """The actor that sent the message read last, if an actor did."""
        return None if self._last is None else self._last.sender

    async def receive(self, timeout: float | None = None) -> Any:
        """Return the next message. Raise AssertionError if none comes."""
        return await self._next(self._deadline(timeout), lambda: "")

    @overload
    async def expect(self, wanted: type[T], timeout: float | None = ...) -> T: ...
    @overload
    async def expect(self, wanted: Callable[[Any], bool], timeout: float | None = ...) -> Any: ...
    @overload
    async def expect(self, wanted: T, timeout: float | None = ...) -> T: ...
    async def expect(self, wanted: object, timeout: float | None = None) -> Any:
        """Return the next message, which must match `wanted`."""
        message = await self._next(self._deadline(timeout), lambda: f"; it expected {in_words(wanted)}")
        if not matches(wanted, message):
            raise self._unexpected(in_words(wanted))
        return message

    async def expect_any_of(self, *wanted: object, timeout: float | None = None) -> Any:
        """Return the next message, which must match one of `wanted`."""
        _require_some(wanted, "expect_any_of()")
        message = await self._next(self._deadline(timeout), lambda: f"; it expected one of {listed(wanted)}")
        if not any(matches(one, message) for one in wanted):
            raise self._unexpected(f"one of {listed(wanted)}")
        return message

    async def expect_all(self, *wanted: object, timeout: float | None = None) -> list[Any]:
        """Return the next messages, which must match `wanted` in any order. The result is in the order of `wanted`."""
        _require_some(wanted, "expect_all()")
        deadline = self._deadline(timeout)
        came: list[object] = []
        places: list[int] = []

        def missing() -> str:
            return listed(one for place, one in enumerate(wanted) if place not in places)

        while len(came) < len(wanted):
            came.append(await self._next(deadline, lambda: f"; of what it expected, {missing()} did not come"))
            found = match_all(wanted, came)
            if found is None:
                raise self._unexpected(f"{missing()} in any order")
            places = found
        return [came[places.index(place)] for place in range(len(wanted))]

    async def expect_terminated(self, ref: ActorRef, timeout: float | None = None) -> Terminated:
        """Return the next message, which must be the notice that `ref` has ended. The probe must watch it."""
        unwatched = "" if ref in self._watched else ", which it does not watch: `await probe.watch(ref)` first"
        notice = await self._next(self._deadline(timeout), lambda: f"; it expected the end of {ref}{unwatched}")
        if not isinstance(notice, Terminated):
            raise self._unexpected(f"the end of {ref}")
        if notice.ref != ref:
            raise AssertionError(f"{self.ref} expected the end of {ref}, and {notice.ref} ended ({notice.reason})")
        return notice

    @overload
    async def fish(self, wanted: type[T], timeout: float | None = ...) -> T: ...
    @overload
    async def fish(self, wanted: Callable[[Any], bool], timeout: float | None = ...) -> Any: ...
    @overload
    async def fish(self, wanted: T, timeout: float | None = ...) -> T: ...
    async def fish(self, wanted: object, timeout: float | None = None) -> Any:
        """Return the first message that matches `wanted`, and drop those before it. `timeout` is for all of it."""
        until, said = self._deadline(timeout)
        dropped = 0

        def fished() -> str:
            return f"; it fished for {in_words(wanted)}, and let {dropped} go"

        unread: int | None = None
        while unread is None or unread > 0:
            message = await self._next((until, said), fished)
            if matches(wanted, message):
                return message
            dropped += 1
            if unread is not None:
                unread -= 1
            elif asyncio.get_running_loop().time() >= until:
                unread = len(self.messages)  # messages that are here already are still checked, but no later ones
        raise AssertionError(f"{self.ref} got nothing of the kind {said}{fished()}")

    async def expect_no(
        self, what: object = _ANYTHING, /, *, unwanted: object = _ANYTHING, within: float = 0.0
    ) -> None:
        """Fail if a message is unread, or comes before the system has settled and `within` more seconds have passed.

        With `unwanted` (a value, type or function; also as the first argument), only matching messages count. Messages
        stay unread. Actors that wait for a probe's answer count as settled here. What `ctx.pipe_to_self` waits for has
        not been sent yet, and is not waited for.
        """
        if isinstance(what, int | float) and not isinstance(what, bool):
            raise BadArgument(f"expect_no({what}): say `within={what}` for seconds, `unwanted={what}` for a message")
        if what is not _ANYTHING:
            unwanted = what
        require_delay("timeout", within)
        self._refuse(unwanted)
        await self._settle(unwanted)
        self._refuse(unwanted)
        wanted = asyncio.get_running_loop().time() + within
        until, said = self._deadline(within)
        if until < wanted - _ROUNDING:
            raise AssertionError(f"{self.ref} cannot wait for {within} s to tell that no message comes {said}")
        while within > 0.0 and self._inbox.ended is None:
            arrivals = self._inbox.arrivals
            self._refuse(unwanted)
            if not await self._inbox.wait_for_arrival(until, arrivals):
                break
        self._refuse(unwanted)

    def within(self, seconds: float) -> AbstractAsyncContextManager[None]:
        """`async with probe.within(0.5):` limits all waits for this probe inside to 0.5 seconds together.

        A `timeout` inside, or another `within`, can shorten the limit, never extend it. It limits waiting only: a
        message that is there already is taken even after the limit.
        """
        require_delay("timeout", seconds)
        return self._within(seconds)

    @asynccontextmanager
    async def _within(self, seconds: float) -> AsyncIterator[None]:
        block = _WithinBlock(self, seconds, asyncio.get_running_loop().time() + seconds)
        _within_blocks.set((*_within_blocks.get(), block))
        try:
            yield
        finally:
            _within_blocks.set(tuple(other for other in _within_blocks.get() if other is not block))

    def ignore(self, *unwanted: object) -> None:
        """Drop messages that match one of these, unread ones too. A later call replaces these patterns."""
        self._inbox.ignored = unwanted

    # -- acting

    def send(self, ref: ActorRef[M, Any], message: M, *, lane: Lane = Lane.DATA) -> None:
        """Tell `ref` a message with the probe as its sender, so that the probe gets the reply."""
        ref.tell(message, lane=lane, sender=self.ref)

    def reply(self, value: object) -> None:
        """Answer the message read last. An ask can be answered once; for a tell, its sender is told `value`."""
        last = self._require_last()
        if last.reply is not None:
            self._give(last, last.reply.send, value)
        elif last.sender is not None:
            last.sender.tell(value, sender=self.ref)
        else:
            raise AssertionError(f"{self.ref} has nobody to reply to: {shown(last.message)} was told from outside")

    def fail_reply(self, cause: BaseException) -> None:
        """Fail the ask that was read last with `cause`."""
        last = self._require_last()
        if last.reply is None:
            raise AssertionError(f"{self.ref} cannot fail the reply to {shown(last.message)}: it was told, not asked")
        self._give(last, last.reply.fail, cause)

    def _require_last(self) -> Envelope:
        if self._last is None:
            raise AssertionError(f"{self.ref} has read no message to reply to: `receive` or `expect` one first")
        return self._last

    def _give(self, last: Envelope, give: Callable[[T], None], value: T) -> None:
        try:
            give(value)
        except AlreadyReplied:
            text = f"{self.ref} has answered {shown(last.message)} already: an ask is answered once"
            raise AssertionError(text) from None

    async def watch(self, ref: ActorRef) -> None:
        """Watch `ref`. When it ends, the probe receives a `Terminated`."""

        def begin() -> None:
            record: ActorRecord | Tombstone = self.ref._cell.record
            if not isinstance(record, ActorRecord):
                raise AssertionError(f"{self.ref} has ended ({record.reason}), and cannot watch {ref}")
            cast("Context", record).watch(ref)

        self.system._call("watch()", begin)
        self._watched.append(ref)

    # -- waiting

    def _deadline(self, timeout: float | None) -> tuple[float, str]:
        """When a wait that begins now ends, in the time of the running asyncio loop, and its description for errors."""
        if timeout is not None:
            require_delay("timeout", timeout)
        now = asyncio.get_running_loop().time()
        mine = [block for block in _within_blocks.get() if block.probe is self]
        seconds = timeout if timeout is not None else inf if mine else self.timeout
        until, said = now + seconds, f"within {seconds} s"
        for block in mine:
            if block.until < until:
                until = block.until
                said = f"in the {max(0.0, until - now):.3g} s that were left of within({block.seconds})"
        return until, said

    async def _next(self, deadline: tuple[float, str], wanted: Callable[[], str]) -> Any:
        """Read a message, or raise and say why there is none."""
        until, said = deadline
        inbox = self._inbox
        in_time = True
        while True:
            arrivals, ended = inbox.arrivals, inbox.ended
            envelope = inbox.take()
            if envelope is not None:
                self._last = envelope
                return envelope.message
            if ended is not None:
                raise AssertionError(f"{self.ref} has ended ({ended}), and no message comes any more{wanted()}")
            if not in_time:
                raise AssertionError(f"{self.ref} got no message {said}{wanted()}{self._why_silent()}")
            in_time = await inbox.wait_for_arrival(until, arrivals)

    async def _settle(self, unwanted: object) -> None:
        """Wait until the system has settled."""
        loop = asyncio.get_running_loop()
        until, _ = self._deadline(_SETTLE_TIMEOUT)
        try:
            # The check fails at once when an unwanted message comes, however busy the system remains.
            await settle(self.system, max(0.0, until - loop.time()), lambda: self._refuse(unwanted))
        except SettleTimeout as exc:
            raise AssertionError(f"{self.ref} cannot tell that no message comes: {exc}") from exc

    # -- errors

    def _refuse(self, unwanted: object) -> None:
        for envelope in self._inbox.unread():
            if unwanted is _ANYTHING or matches(unwanted, envelope.message):
                what = "no message" if unwanted is _ANYTHING else f"nothing like {in_words(unwanted)}"
                raise AssertionError(f"{self.ref} expected {what} and got {shown(envelope.message)}{_origin(envelope)}")

    def _unexpected(self, wanted: str) -> AssertionError:
        last = self._require_last()
        unread = self.messages
        after = f"; after it came {', '.join(map(shown, unread[:3]))}{', ...' if unread[3:] else ''}" if unread else ""
        return AssertionError(
            f"{self.ref} expected {wanted} and got {shown(last.message)}{_origin(last)}{after} "
            "(`fish` lets other messages go by, `ignore` keeps them out)"
        )

    def _why_silent(self) -> str:
        if self.system.phase == Phase.NEW:
            return f" (the system {self.system.name!r} does not run yet: enter it with `async with`)"
        if isinstance(self.system.clock, ManualClock):
            return " (time stands still: what a timer brings comes after `await clock.advance(...)`)"
        return ""


def _origin(envelope: Envelope) -> str:
    return "" if envelope.sender is None else f" from {envelope.sender}"


def _require_hearing(system: ActorSystem, name: str | None) -> None:
    interceptor = getattr(system._loop.world, "faults", None)
    if interceptor is not None and not interceptor.lets_handle(system._loop):
        raise BadArgument(
            "a probe in the system of a harness would be a stand-in like everybody there, and hear nothing: use "
            f"`harness.inbox({'' if name is None else repr(name)})`, which has `.ref`, `.messages` and `.reply(...)`"
        )


def _require_some(wanted: tuple[object, ...], what: str) -> None:
    if not wanted:
        raise BadArgument(f"{what} takes what is expected, as in {what[:-2]}(Deposit, Withdraw)")
