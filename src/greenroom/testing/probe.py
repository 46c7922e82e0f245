"""`TestProbe`: an actor whose mailbox a test can read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, overload

from greenroom.actor.actor import Actor
from greenroom.actor.ref import ActorRef
from greenroom.actor.signals import Terminated
from greenroom.system.system import ActorSystem

__all__ = ["TestProbe"]

T = TypeVar("T")


class _Ear(Actor[Any, Any]):
    """Hands everything on to its probe."""

    def __init__(self, probe: TestProbe) -> None:
        self.probe = probe

    def receive(self, message: Any) -> None:
        self.probe._hear(message, self.ctx.sender)

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        pass

    def on_signal(self, signal: Any) -> None:
        if isinstance(signal, Terminated):
            self.probe._hear(signal, None)


class TestProbe:
    """Stands in for an actor: `probe.ref` takes messages, and the test says what it expects of them.

    >>> import asyncio
    >>> from greenroom import ActorSystem
    >>> async def main():
    ...     async with ActorSystem() as system:
    ...         probe = TestProbe(system)
    ...         probe.ref.tell("hello")
    ...         return await probe.expect("hello")
    >>> asyncio.run(main())
    'hello'

    Waiting is in real seconds, and only as long as nothing comes: a test that passes hardly waits at all.
    """

    __test__ = False  # what pytest should not collect

    def __init__(self, system: ActorSystem, *, name: str | None = None) -> None:
        self.system = system
        self.last_sender: ActorRef[Any, Any] | None = None
        self._heard: deque[tuple[Any, Any]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self.ref: ActorRef[Any, Any] = system.spawn(_Ear, self, name=name)

    def _hear(self, message: Any, sender: Any) -> None:
        self._heard.append((message, sender))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def messages(self) -> list[Any]:
        """What came and was not expected yet."""
        return [message for message, _ in self._heard]

    async def receive(self, timeout: float = 3.0) -> Any:
        """The next message; an AssertionError if none comes."""
        if not self._heard:
            await self._wait(timeout)
        if not self._heard:
            raise AssertionError(f"{self.ref} got no message within {timeout} s")
        message, self.last_sender = self._heard.popleft()
        return message

    async def _wait(self, timeout: float) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                await self._waiter
        except TimeoutError:
            pass
        finally:
            self._waiter = None

    @overload
    async def expect(self, wanted: type[T], timeout: float = ...) -> T: ...
    @overload
    async def expect(self, wanted: T, timeout: float = ...) -> T: ...
    async def expect(self, wanted: Any, timeout: float = 3.0) -> Any:
        """The next message, which must equal `wanted` or, if that is a type, be of it."""
        message = await self.receive(timeout)
        matches = isinstance(message, wanted) if isinstance(wanted, type) else message == wanted
        if not matches:
            raise AssertionError(f"{self.ref} expected {wanted!r} and got {message!r}")
        return message

    async def expect_no_message(self, within: float = 0.0) -> None:
        """Nothing came, and nothing comes: until the system has settled, and `within` more seconds."""
        await self.system.settle()
        if not self._heard and within > 0.0:
            await self._wait(within)
        if self._heard:
            raise AssertionError(f"{self.ref} expected no message and got {self._heard[0][0]!r}")

    async def expect_terminated(self, ref: ActorRef[Any, Any], timeout: float = 3.0) -> Terminated:
        """The next message is the notice that `ref`, which the probe watches, has ended."""
        notice = await self.expect(Terminated, timeout)
        if notice.ref != ref:
            raise AssertionError(f"{self.ref} expected the end of {ref}, and {notice.ref} ended")
        return notice

    async def fish(self, wanted: Callable[[Any], bool], timeout: float = 3.0) -> Any:
        """The first message for which `wanted` is true; those before it are let go."""
        while True:
            message = await self.receive(timeout)
            if wanted(message):
                return message

    async def watch(self, ref: ActorRef[Any, Any]) -> None:
        """Watch `ref`; its end comes as a `Terminated`."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def order(cell: Any) -> None:
            cell.body.watch(ref)
            if not done.done():
                done.set_result(None)

        self.ref._cell.order(order)
        await done
