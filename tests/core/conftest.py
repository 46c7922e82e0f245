"""A loop on its stage: inside asyncio and inside uvloop, with everything it says about its cells written down.

A test that is an `async def` with a `stage` runs on either event loop within a deadline. Afterwards the loop is held to
what is always true: nothing was raised into asyncio, every message is in exactly one column, and no task is left as the
current one. `@pytest.mark.config(limits=…)` and the fixture `clock` say what its loop is like. `run(main)` does the
same with a function `main(stage)`, for a test that has something to do afterwards.

`loop` is a loop on its own, on a `clock` moved by hand, with its `host`.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple

import pytest

from greenroom._core.behavior import BehaviorBase
from greenroom._core.limits import Limits
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.host import Host
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.clock import Clock, ManualClock
from greenroom.lanes import Lane, MailboxConfig
from greenroom.ledger import Ledger
from tests.core.kit import Letters, Recorder, Returned

DEADLINE = 120.0
"""Seconds a test may wait for anything. Never reached unless something is wrong."""

BACKENDS = ["asyncio"] if sys.platform == "win32" else ["asyncio", "uvloop"]


class Failure(NamedTuple):
    """A cell let `cause` out while it handled `message`."""

    cell: Cell
    message: object
    cause: BaseException


class DeadLetter(NamedTuple):
    """A message that was never handled."""

    cell: Cell
    message: object
    why: str


class Script(Host):
    """Writes down what becomes of the cells; like the host of bare cells, it ends those that fail."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self.results: list[object] = []
        self.dead_letters: list[DeadLetter] = []
        self.dropped_messages: list[object] = []
        self.waiting: dict[Cell, asyncio.Future[object]] = {}

    def behavior_returned(self, cell: Cell, behavior: BehaviorBase) -> None:
        assert isinstance(behavior, Returned)
        if cell in self.waiting:
            self.waiting.pop(cell).set_result(behavior.value)
        else:
            self.results.append(behavior.value)

    def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
        if isinstance(cause, KeyboardInterrupt | SystemExit):
            raise cause
        if cell in self.waiting:
            self.waiting.pop(cell).set_exception(Failed(cause))
        else:
            self.failures.append(Failure(cell, message, cause))
        cell.loop.retire(cell)

    def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
        self.dead_letters.append(DeadLetter(cell, message, why))

    def dropped(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        self.dropped_messages.append(message)


class Failed(Exception):
    """A handler raised `.cause`; wrapped, as a future could not carry a CancelledError as such."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(repr(cause))
        self.cause = cause


class Stage:
    """One loop, attached to the running asyncio loop unless told otherwise."""

    def __init__(self, clock: Clock | None = None, limits: Limits | None = None) -> None:
        self.script = Script()
        self.loop = Loop(limits=limits, clock=clock, host=self.script)
        self.poller = Poller(self.loop)

    def spawn(self, handler: Any, subject: object = None, mailbox: MailboxConfig | None = None) -> Cell:
        return self.loop.spawn(handler, subject, mailbox)

    def perform(self, act: Callable[[], Coroutine[Any, Any, object]]) -> tuple[Cell, asyncio.Future[object]]:
        """Let a new cell perform `act` in an async handler; the future is what it returned, or `Failed`."""
        cell = self.spawn(_perform)
        self.script.waiting[cell] = outcome = asyncio.get_running_loop().create_future()
        cell.tell(act)
        return cell, outcome

    async def outcome(self, act: Callable[[], Coroutine[Any, Any, object]]) -> object:
        """What `act` returns when it is performed in an async handler."""
        return await self.perform(act)[1]

    async def settled(self) -> None:
        """Return when neither the loop nor asyncio has anything ready, and nothing new has come of it."""
        for _ in range(10):
            await self.poller.idle()
            await asyncio.sleep(0)
        await self.poller.idle()

    def counts(self) -> Ledger:
        return count_loop(self.loop)

    def strike(self) -> None:
        """Take the stage down and check what always holds."""
        self.poller.detach()
        self.loop.adopt()
        assert self.counts().balanced, self.counts()
        self.loop.close()
        counts = self.counts()
        assert counts.balanced, counts
        assert counts.queued == 0, counts


async def _perform(_: object, act: Callable[[], Coroutine[Any, Any, object]]) -> object:
    result = await act()
    return Returned("nothing" if result is None else result)


Main = Callable[[Stage], Coroutine[Any, Any, None]]


class Run:
    """Runs a test's coroutine on one kind of event loop."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        # What a callback raised into asyncio; a test that means it to takes it out of here.
        self.raised: list[dict[str, Any]] = []

    def loop_factory(self) -> asyncio.AbstractEventLoop:
        if self.backend == "uvloop":
            import uvloop

            made: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return made
        return asyncio.new_event_loop()

    def __call__(self, main: Main, *, clock: Clock | None = None, limits: Limits | None = None) -> None:
        async def bounded() -> None:
            aio = asyncio.get_running_loop()
            aio.set_exception_handler(lambda _, context: self.raised.append(context))
            stage = Stage(clock, limits)
            stage.poller.attach()
            me = asyncio.current_task()
            async with asyncio.timeout(DEADLINE):
                try:
                    await main(stage)
                finally:
                    assert asyncio.current_task() is me
                    stage.strike()

        self.bare(bounded)

    def bare(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `main()` without a stage."""
        with asyncio.Runner(loop_factory=self.loop_factory) as runner:
            runner.run(main())
        gc.collect()  # what should have been awaited or closed complains now, in the test that made it
        assert self.raised == []


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Run:
    """Runs `main(stage)` on asyncio, and on uvloop."""
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    return Run(request.param)


@pytest.fixture
def stage(run: Run) -> Run:
    """For a test that is an `async def`: the stage that it runs on."""
    return run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on its stage."""
    run = pyfuncitem.funcargs.get("run")
    if not isinstance(run, Run) or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    mark = pyfuncitem.get_closest_marker("config")
    config = {} if mark is None else mark.kwargs
    if "clock" in arguments:
        config = {**config, "clock": arguments["clock"]}
    run(lambda stage: pyfuncitem.obj(**{**arguments, "stage": stage}), **config)
    return True


class Threads:
    """Threads of a test, every one of which is joined within the deadline and may not fail."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._raised: list[BaseException] = []

    def start(self, target: Callable[[], object]) -> threading.Thread:
        def guarded() -> None:
            try:
                target()
            except BaseException as exc:
                self._raised.append(exc)

        thread = threading.Thread(target=guarded, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def join(self) -> None:
        """Wait for all, and raise what one of them raised."""
        for thread in self._threads:
            thread.join(DEADLINE)
            assert not thread.is_alive(), "a thread of the test hangs"
        self._threads.clear()
        if self._raised:
            raise self._raised.pop()


@pytest.fixture
def threads() -> Any:
    """Starts threads that the test cannot forget."""
    made = Threads()
    yield made
    made.join()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets, of which the first does not block."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def host() -> Recorder:
    return Recorder()


@pytest.fixture
def loop(clock: ManualClock, host: Recorder) -> Loop:
    return Loop(None, clock, host)


@pytest.fixture
def letters() -> Letters:
    return Letters()


@pytest.fixture
def heard() -> list[Any]:
    """What handlers have heard, in order: `loop.spawn(list.append, heard)`."""
    return []
