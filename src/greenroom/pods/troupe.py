"""`Troupe`: a static manifest of pods, wired at once and played as a whole."""

from __future__ import annotations

import asyncio
import time
from _thread import get_ident
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from inspect import iscoroutinefunction
from threading import RLock
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

from greenroom.errors import BadArgument, SystemFailed, SystemStopped, TroupeFailed, WaitsForItself, WrongThread
from greenroom.lanes import Lane
from greenroom.pods.assembly import Assembly
from greenroom.pods.kubelet.heartbeat import Heartbeat
from greenroom.pods.kubelet.parking import Park
from greenroom.pods.manifest.drawing import Description
from greenroom.pods.manifest.handles import Handles
from greenroom.pods.manifest.manifest import Manifest, read_manifest
from greenroom.pods.manifest.settings import KubeletConfig, ShutdownMode
from greenroom.system.config import OnExit, SystemConfig
from greenroom.system.ending.report import Phase
from greenroom.system.eventloop import loop_factory
from greenroom.system.system import CALL_TIMEOUT, ActorSystem
from greenroom.validation import require_seconds

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Generic, Self

    from typing_extensions import TypeVar

    from greenroom._core.scheduler.loop import Loop
    from greenroom.pods.kubelet.podrecord import PodStatus
    from greenroom.system.loops.thread import CallingThread

    E = TypeVar("E", bound=Handles, default=Any)

    class _Typed(Generic[E]): ...

else:
    E = Any

    class _Typed:
        """At run time, `Troupe[Front]` is `Troupe` with a note."""

        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)


_GLANCE = 0.25
"""Seconds after which the thread that called `play()` looks again whether the time is up."""


class MainLoop:
    """What a program's own main loop has to call, so that the MAIN pod gets its turns.

    The loop of a GUI, say, runs on the thread that calls `play()`. It has to call `poll_once()` again and again, from a
    timer for one, and to return when `is_over`. docs/pods.md shows how.
    """

    def __init__(self, aio: asyncio.AbstractEventLoop, loop: Loop | None, is_over: Callable[[], bool]) -> None:
        self._aio = aio
        self._loop = loop
        self._is_over = is_over
        self._thread = get_ident()

    def poll_once(self) -> Park:
        """Handle what has come for the MAIN pod, for two milliseconds or so at most, and do not wait for more.

        It is one cycle: control, management, control again, data; then what asyncio has ready, and `park()`. Returns
        `Park.BUSY` if there is more to do.
        """
        if get_ident() != self._thread:
            raise WrongThread("poll_once()", "call it on the thread that has called play()")
        if asyncio._get_running_loop() is not None:
            raise WaitsForItself("poll_once() was called by the MAIN pod itself, or in a coroutine")
        if self._aio.is_closed():
            return Park.IDLE  # a late timer of a GUI
        self._aio.call_soon(self._aio.stop)
        self._aio.run_forever()
        return Park.BUSY if self._loop is not None and self._loop.has_work() else Park.IDLE

    @property
    def is_over(self) -> bool:
        """Whether the troupe ends, or has ended: the main loop is to return."""
        return self._is_over()


class Troupe(_Typed[E]):
    """A static manifest: its class body declares pods.

    >>> from greenroom import Actor
    >>> from greenroom.pods import Handles, Pod, ServiceHandle, ThreadModel, Troupe
    >>> class Peers(Handles):
    ...     printer: ServiceHandle[str]
    >>> class Ticker(Actor[int, None]):
    ...     peers: Peers
    ...     def receive(self, message: int) -> None:
    ...         self.peers.printer.send(f"tick {message}")
    >>> class Printer(Actor[str, None]):
    ...     def receive(self, message: str) -> object:
    ...         print(message)
    ...         self.ctx.stop()
    >>> class Clock(Troupe):
    ...     ticker = Pod(Ticker, expose=True)
    ...     printer = Pod(Printer, thread=ThreadModel.MAIN)
    >>> clock = Clock.new()
    >>> clock.exposed().ticker.send(1)
    >>> clock.play()
    tick 1

    `new()` makes everything and connects it, `exposed()` has the handles for code outside, and `play()` runs until the
    MAIN pod has ended, all pods have, or `stop()` is called. `with troupe:` and `async with troupe:` run it for a
    block. `Troupe[Front]`, with a subclass of `Handles`, gives `exposed()` its type.
    """

    manifest: ClassVar[Manifest] = Manifest("Troupe")
    # What the rooms below know a troupe by.
    __greenroom_is_troupe__: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        bases = [base.manifest for base in reversed(cls.__mro__[1:]) if issubclass(base, Troupe)]
        cls.manifest = read_manifest(cls.__name__, dict(vars(cls)), bases, _exposes(cls), _TAKEN)

    def __init__(
        self, *, kubelet: KubeletConfig | None = None, config: SystemConfig | None = None, name: str | None = None
    ) -> None:
        if kubelet is not None and not isinstance(kubelet, KubeletConfig):
            raise BadArgument(f"kubelet={kubelet!r}: must be a KubeletConfig, as in KubeletConfig(max_restarts=10)")
        if config is not None and not isinstance(config, SystemConfig):
            raise BadArgument(f"config={config!r}: must be a SystemConfig, as in SystemConfig(stop_timeout=1.0)")
        manifest = type(self).manifest
        self.name = manifest.name if name is None else name
        self._kubelet = KubeletConfig() if kubelet is None else kubelet
        self.system = ActorSystem(self.name, config=_fitting(config, self._kubelet))
        self.system._end_timeout = self.system.config.stop_timeout
        self.system._stuck_advice = _ADVICE
        # Whose failure ended the troupe; and whether its kubelet has a thread of its own.
        self._failed_pod: str | None = None
        self._own_thread = False
        # Held by who begins to run it, or ends it without.
        self._lock = RLock()
        self._has_begun = False
        self._is_playing = False
        # Whether the end was requested; and the thread that has called `play()`.
        self._is_ending = False
        self._caller = 0
        # What the main loop of a program has left with, to end it.
        self._exit: BaseException | None = None
        self._parts = Assembly(self.name, manifest, self._kubelet, self)

    @classmethod
    def new(
        cls, *, kubelet: KubeletConfig | None = None, config: SystemConfig | None = None, name: str | None = None
    ) -> Self:
        """Make a troupe: all its rings are allocated and connected now, and nothing of it runs yet."""
        return cls(kubelet=kubelet, config=config, name=name)

    # -- what others see

    @classmethod
    def describe(cls) -> Description:
        """A drawing of the manifest: `print` it, or take its `.mermaid()` or `.svg()`."""
        return Description(cls.manifest)

    def exposed(self) -> E:
        """The handles of the actors that are exposed, by name. The same ones each time; `clone()` makes others."""
        return self._parts.exposed  # type: ignore[return-value]

    @property
    def status(self) -> Mapping[str, PodStatus]:
        """The phase of each pod, by name; those of a troupe within are called `outer.inner`. From any thread."""
        return {record.slot.name: record.shown for record in self._parts.records()}

    @property
    def heartbeat(self) -> Heartbeat | None:
        """When its kubelet was last seen to be well; None if it does not run. From any thread."""
        return self._parts.heart.look()

    def __repr__(self) -> str:
        return f"<Troupe {self.name}: {', '.join(f'{name} {one.phase.value}' for name, one in self.status.items())}>"

    # -- running

    def play(self, mainloop: Callable[[MainLoop], object] | None = None) -> None:
        """Run until the MAIN pod has ended, all pods have, or `stop()` is called. On the calling thread.

        The MAIN pod runs on this thread; the kubelet has one of its own. Ctrl-C and SIGTERM end the troupe in the
        ordinary way. When a failure has ended it, `TroupeFailed` is raised from that.

        With `mainloop`, that is called on this thread, and has to call `poll_once()` of what it is given again and
        again: a GUI's timer can do that. When it returns, or calls `sys.exit`, the troupe ends; when it raises, the
        troupe has failed.
        """
        if asyncio._get_running_loop() is not None:
            raise WaitsForItself("play() would hold up the asyncio loop of this thread: use `async with troupe:` here")
        given: object = mainloop
        if given is not None and (not callable(given) or iscoroutinefunction(given)):
            why = "must be a plain function that takes a MainLoop, and calls its poll_once() again and again"
            raise BadArgument(f"mainloop={given!r}: {why}")
        self._begin(own_thread=True)
        self._caller = get_ident()
        with self._to_the_end():
            calls = None if mainloop is None else partial(self._call, mainloop)
            _play(self.system, self._main_thread(), calls, partial(self.stop, self._kubelet.shutdown))
        if self._exit is not None:
            raise self._exit

    def _begin(self, own_thread: bool) -> None:
        with self._lock:
            phase = self.system.phase
            if phase == Phase.RUNNING or (phase == Phase.NEW and self._has_begun):
                raise WaitsForItself(f"the troupe {self.name!r} is running already")
            if phase != Phase.NEW:
                raise SystemStopped(self.name, "troupe", f"make another, with {type(self).__name__}.new()")
            if own_thread:
                self.system._loop.world.require_threads(
                    "running a troupe on threads of its own", "use `async with troupe:` here"
                )
            self._has_begun = True
            self._own_thread = own_thread
            self._is_playing = True

    def _end(self) -> None:
        self._conclude()
        self._has_begun = self.system.phase != Phase.NEW
        self._caller = 0

    def _conclude(self) -> None:
        self._is_playing = False
        for record in self._parts.records():
            record.conclude()

    def _call(self, mainloop: Callable[[MainLoop], object], aio: asyncio.AbstractEventLoop) -> None:
        thread = self._main_thread()
        try:
            mainloop(MainLoop(aio, None if thread is None else thread.loop, lambda: self.system.phase != Phase.RUNNING))
        except (SystemExit, KeyboardInterrupt) as exc:
            self._exit = exc
            self.stop(self._kubelet.shutdown)
        except BaseException as exc:
            self.system.fail(exc)
        else:
            self.stop(self._kubelet.shutdown)

    def _main_thread(self) -> CallingThread | None:
        main = type(self).manifest.main
        if main is None:
            return None
        host = self._parts.pods[main.name].slot.loop.host
        return self.system._loops.thread_of(host)  # type: ignore[return-value]

    def __enter__(self) -> Self:
        main = type(self).manifest.main
        if main is not None:
            why = f"`with` runs {self.name} on threads of its own, but its pod {main.name!r} is MAIN"
            raise BadArgument(f"{why}: use play(), or `async with`")
        self._begin(own_thread=True)
        try:
            self.system.__enter__()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._to_the_end():
            self._refuse_what_is_not_drained(self._kubelet.shutdown if kind is None else ShutdownMode.IMMEDIATE)
            return self.system.__exit__(kind, exc, traceback)

    async def __aenter__(self) -> Self:
        self._begin(own_thread=False)
        thread = self._main_thread() if self.system._loop.world.is_real else None
        try:
            with _taking_part(thread):
                await self.system.__aenter__()
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._to_the_end():
            self._refuse_what_is_not_drained(self._kubelet.shutdown if kind is None else ShutdownMode.IMMEDIATE)
            return await self.system.__aexit__(kind, exc, traceback)

    @contextmanager
    def _to_the_end(self) -> Iterator[None]:
        """The system runs in this block, or ends; after it, the system is over. Its failure is the troupe's."""
        try:
            yield
        except SystemFailed as failed:
            cause = failed.__cause__ if failed.__cause__ is not None else failed
            raise TroupeFailed(self.name, cause, self._failed_pod) from failed.__cause__
        finally:
            self._end()

    # -- the end

    def _ends(self, cause: BaseException | None, pod: str | None) -> None:
        """The kubelet says that the troupe is over: with a cause and the name of a pod, if it has failed."""
        if self.system.phase not in (Phase.RUNNING, Phase.DRAINING):
            return  # it is being ended; what fails because of that is no cause of it
        if cause is not None:
            self._failed_pod = pod
            self.system.fail(cause)
        elif self.system.phase == Phase.RUNNING:
            self.stop(self._kubelet.shutdown)

    def stop(self, mode: ShutdownMode = ShutdownMode.IMMEDIATE, timeout: float | None = None) -> None:
        """Request the end, and return at once. From any thread, and from inside an actor.

        `mode` says what becomes of messages that wait; they have `timeout` seconds, or `KubeletConfig.drain_timeout`.
        Then the actors have `SystemConfig.stop_timeout` seconds to stop, or `timeout` if that is less.
        """
        if not isinstance(mode, ShutdownMode):
            raise BadArgument(f"mode={mode!r}: must be one of {', '.join(map(str, ShutdownMode))}")
        if timeout is not None:
            require_seconds("timeout", timeout)
        self._refuse_what_is_not_drained(mode)
        to_drain, to_stop = self._times(mode, timeout)
        with self._lock:
            if self.system.phase == Phase.NEW and not self._has_begun:
                for part in self.system._loops.lives:
                    part.loop.adopt()  # nothing runs yet: its end happens here and now
                self.system._request_shutdown(to_stop, None)
                self._conclude()
                return
        self.system._request_shutdown(to_drain + to_stop, None, to_drain)

    def _times(self, mode: ShutdownMode, timeout: float | None) -> tuple[float, float]:
        """Seconds for the messages that wait, and then for the actors to stop."""
        limit = self.system.config.stop_timeout
        to_drain, to_stop = (self._kubelet.drain_timeout, limit) if timeout is None else (timeout, min(timeout, limit))
        return 0.0 if mode is ShutdownMode.IMMEDIATE else to_drain, max(to_stop, 0.001)

    def _refuse_what_is_not_drained(self, mode: ShutdownMode) -> None:
        """The troupe ends: let nothing more be sent that would not be handled."""
        self._is_ending = True
        why = f"the troupe {self.name!r} is being shut down"
        for record in self._parts.records():
            if mode is ShutdownMode.IMMEDIATE:
                record.slot.mark_gone(why)
            elif mode is ShutdownMode.DRAIN_CONTROL:
                record.slot.close_lanes((Lane.DATA, Lane.LOG), why)

    def close(self, mode: ShutdownMode = ShutdownMode.DRAIN_ALL, timeout: float | None = None) -> None:
        """Stop the troupe, and block until it has ended. From a plain thread."""
        is_here = self._caller == get_ident() or asyncio._get_running_loop() is not None
        if is_here or self.system._is_in_handler():
            remedy = "use `stop()` in an actor or a main loop, and `await troupe.shutdown()` in a coroutine"
            raise WaitsForItself(f"close() would hold up what it waits for: {remedy}")
        self.stop(mode, timeout)
        limit = sum(self._times(mode, timeout)) + self.system.config.stop_timeout + 1.0
        if not self.system._shutdown.over.wait(limit) and not self.system._loop_answers():
            self.system._shutdown.leave_behind()

    async def shutdown(self, mode: ShutdownMode = ShutdownMode.DRAIN_ALL, timeout: float | None = None) -> None:
        """Stop the troupe, and return when it has ended."""
        self.stop(mode, timeout)
        if not self.system._is_in_handler():
            await self.system._shutdown.wait()


_TAKEN = frozenset({*dir(Troupe), "name", "system", "kubelet"})
"""What no pod can be called: what a troupe has, and its kubelet."""

_ADVICE = (
    "all COOPERATIVE pods wait for it. Give its pod `thread=ThreadModel.DEDICATED`, or let it return sooner, or await "
    "what it waits for, as in `await asyncio.to_thread(...)`"
)
"""What the watchdog says of a handler that holds the kubelet's thread."""


def _fitting(config: SystemConfig | None, kubelet: KubeletConfig) -> SystemConfig:
    """A system's config, with what the kubelet's says of the end."""
    on_exit = OnExit.DISCARD if kubelet.shutdown is ShutdownMode.IMMEDIATE else OnExit.DRAIN
    return replace(config or SystemConfig(), drain_timeout=kubelet.drain_timeout, on_exit=on_exit)


def _exposes(cls: type) -> type[Handles] | None:
    """The subclass of `Handles` in `Troupe[...]`, if there is one."""
    for base in getattr(cls, "__orig_bases__", ()):
        origin = get_origin(base)
        if isinstance(origin, type) and issubclass(origin, Troupe):
            given = base.__args__[0]
            return given if isinstance(given, type) and issubclass(given, Handles) else None
    return None


# -- how `play()` runs a troupe


def _play(
    system: ActorSystem,
    caller: CallingThread | None,
    mainloop: Callable[[asyncio.AbstractEventLoop], object] | None,
    on_signal: Callable[[], object],
) -> None:
    """Run a system on a thread of its own; this one runs the loop of `caller`, or waits, and handles signals.

    `mainloop` is called here in between, and has to run asyncio's loop now and then. `on_signal` is called for the
    first signal.
    """
    system._require_signals()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        if system._handles_signals is not False:
            system._take_signals(on_signal, aio=runner.get_loop())
        try:
            runner.run(_begin(system, caller))
            if mainloop is not None:
                mainloop(runner.get_loop())
            runner.run(_end(system, caller))
        except KeyboardInterrupt:
            if system._signals is None or not system._signals.forced:
                raise
        finally:
            system._release_signals()
    if system._thread is not None and system._shutdown.over.is_set():
        system._thread.join(CALL_TIMEOUT)
    system._raise_failure()


@contextmanager
def _taking_part(caller: CallingThread | None) -> Iterator[None]:
    """Lend this thread to a system that starts here; not if that fails."""
    if caller is not None:
        caller.begin()
    try:
        yield
    except BaseException:
        if caller is not None:
            caller.undo()
        raise


async def _begin(system: ActorSystem, caller: CallingThread | None) -> None:
    with _taking_part(caller):
        system.__enter__()


async def _end(system: ActorSystem, caller: CallingThread | None) -> None:
    try:
        if await _has_ended(system) and caller is not None:
            await caller.wait()
    except asyncio.CancelledError:
        await system.shutdown()
        raise


async def _has_ended(system: ActorSystem) -> bool:
    """Return True when the system has stopped; False when a handler holds its thread after the time is up.

    Such a handler cannot be waited for: it is left behind.
    """
    over = asyncio.ensure_future(system._shutdown.wait())
    try:
        while True:
            await asyncio.wait((over,), timeout=_GLANCE)
            if over.done():
                return True
            is_late = time.monotonic() >= system._end_due and system._shutdown.phase != Phase.STOPPED
            if is_late and not await asyncio.to_thread(system._loop_answers):
                system._shutdown.leave_behind()
                return False
    finally:
        over.cancel()
