"""Replaces time and randomness while a simulation runs, on its own thread only.

**Patched**: `time.time`, `monotonic`, `perf_counter` and their `_ns` twins, `gmtime`, `localtime` and `ctime` follow
the virtual clock, and `time.sleep` moves it; `random`'s own functions, `random.Random()` without a seed, `os.urandom`,
and so `uuid.uuid4` and `secrets`, draw from the seed; asyncio runs on `VirtualEventLoop`.

**Refused**: starting threads and processes, making sockets, waiting for another thread, and using real systems. Real
systems on this thread are suspended meanwhile.

**Not patched**: `datetime.now()`, `time.strftime` without a time, `clock_gettime`, `uuid.uuid1`, `os.getrandom`;
functions that a module imported before, as in `from time import sleep`; blocking locks and `select`; C code that calls
the operating system; and the order of sets of strings (it differs from process to process unless PYTHONHASHSEED is set)
and of objects that hash by address. Files are read and written as usual.

All threads share the patched modules, so only one simulation runs at a time. Another thread waits for its turn.
"""

from __future__ import annotations

import _thread
import asyncio
import gc
import math
import os
import random
import signal
import sys
import threading
import time
from _thread import get_ident
from collections.abc import Awaitable, Callable, Container, Iterable
from functools import cache, partial
from time import monotonic, sleep  # by name: the module's own are replaced
from typing import TYPE_CHECKING, TypeVar

from greenroom._core.simulation.director import Director
from greenroom._core.simulation.schedules import SplitMix
from greenroom._core.world import VirtualClock, worlds
from greenroom.actor.records.systems import systems
from greenroom.errors import SimulationRefused, WaitsForItself, WrongThread

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess
    from types import ModuleType

    from greenroom._core.scheduler.loop import Loop

    AllTasks = Callable[[asyncio.AbstractEventLoop | None], set[asyncio.Task[object]]]
    Wait = Callable[[threading.Condition, float], bool]

T = TypeVar("T")

EPOCH = 946_684_800.0
"""What `time.time()` returns when a simulation begins: 1 January 2000."""

_NO_THREADS = "threads are not simulated: spawn an actor instead, or await a coroutine"
_NO_SOCKETS = "sockets are not simulated: put an actor in the peer's place, and send it messages"
_NO_SIGNALS = "signals are not simulated: call what the signal would call"
_NO_CHILDREN = "processes are not simulated: put an actor in the program's place"
_REFUSED = {
    "_thread.start_new_thread": ("a thread is started", _NO_THREADS),
    "_thread.start_joinable_thread": ("a thread is started", _NO_THREADS),
    "socket.__new__": ("a socket is made", _NO_SOCKETS),
    "socket.getaddrinfo": ("a host is looked up", _NO_SOCKETS),
    "socket.gethostbyname": ("a host is looked up", _NO_SOCKETS),
    "socket.gethostbyaddr": ("a host is looked up", _NO_SOCKETS),
    "socket.getnameinfo": ("a host is looked up", _NO_SOCKETS),
    "subprocess.Popen": ("a process is started", _NO_CHILDREN),
    "os.fork": ("a process is started", _NO_CHILDREN),
    "os.forkpty": ("a process is started", _NO_CHILDREN),
    "os.posix_spawn": ("a process is started", _NO_CHILDREN),
    "os.spawn": ("a process is started", _NO_CHILDREN),
    "os.system": ("a process is started", _NO_CHILDREN),
    "os.exec": ("a process is started", _NO_CHILDREN),
}


# The functions that start a thread, in various Python versions. Before 3.12 there is no audit event for that.
_START = ("start_new_thread", "start_joinable_thread", "_start_new_thread", "_start_joinable_thread")


def _audit(
    event: str,
    args: tuple[object, ...],
    refused: dict[str, tuple[str, str]] = _REFUSED,
    worlds: Container[int] = worlds,
    get_ident: Callable[[], int] = get_ident,
) -> None:
    # The hook is called to the last moment of the interpreter, when this module's own names are gone.
    if event in refused and get_ident() in worlds:
        raise SimulationRefused(*refused[event])


@cache
def _install_audit_hook() -> None:
    """Install the audit hook of all simulations, once: an audit hook cannot be removed."""
    sys.addaudithook(_audit)


_PATIENCE = 600.0
"""How many seconds a simulation waits for one on another thread."""
_POLL_INTERVAL = 0.002


# Which thread is simulated now. No lock: a thread interrupted in `Lock.acquire` cannot know whether it has it.
_simulated: dict[str, int] = {}


def _acquire(thread: int) -> None:
    """Wait until no other thread is simulated, and take its place."""
    until = monotonic() + _PATIENCE
    while _simulated.setdefault("thread", thread) != thread:
        if monotonic() > until:
            raise SimulationRefused("waiting for one on another thread", "run one at a time")
        sleep(_POLL_INTERVAL)


def _release(thread: int) -> None:
    if _simulated.get("thread") == thread:
        _simulated.clear()


def _reset_in_child() -> None:
    """In a forked process: the threads that were simulated do not exist."""
    _simulated.clear()
    worlds.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)


class Patches:
    """Patches time and randomness for this thread inside a `with` statement. It can be entered again."""

    def __init__(self, director: Director, seed: int) -> None:
        self._director = director
        self._prng = SplitMix(seed).fork()
        self._thread = get_ident()
        self._originals: list[tuple[object, str, object]] = []
        # The state of `random` outside the simulation, and inside when it was last left.
        self._random_state_outside: tuple[object, ...] | None = None
        self._random_state_inside: tuple[object, ...] | None = None
        # The event loop that runs this thread outside, and the task there that simulates.
        self._running: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[object] | None = None
        self._loops_aside: list[Loop] = []
        self._collected = False
        self._is_in = False

    def require_free(self) -> None:
        """Raise if this thread is simulated already, or is not the thread that the simulation began on."""
        if get_ident() != self._thread:
            raise WrongThread("a simulation")
        if self._thread in worlds:
            raise WaitsForItself("a simulation inside a simulation: run them one after the other")

    def __enter__(self) -> None:
        self.require_free()
        _install_audit_hook()
        self._is_in = True
        try:
            _acquire(self._thread)
            self._begin()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exc_info: object) -> None:
        interrupt: KeyboardInterrupt | None = None
        while self._is_in:
            try:
                self._put_back()
            except KeyboardInterrupt as exc:  # the patches must be undone all the same
                interrupt = exc
        if interrupt is not None:
            raise interrupt

    def _begin(self) -> None:
        # A pytest-asyncio test may run a simulation: its event loop is blocked meanwhile.
        self._running = asyncio._get_running_loop()
        self._loops_aside = [system._loop for system in systems() if _is_held_up(system._loop)]
        for loop in self._loops_aside:
            loop.step_aside()
        self._random_state_outside = random.getstate()
        # When the garbage collector runs finalizers depends on everything that the process did before.
        self._collected = gc.isenabled()
        gc.disable()
        if self._running is not None:
            # From 3.14 on, a thread has one current task, whichever of its event loops that is of.
            self._task = asyncio.current_task()
            if self._task is not None:
                asyncio.tasks._leave_task(self._running, self._task)
        asyncio._set_running_loop(None)
        if self._random_state_inside is None:
            random.seed(self._prng.draw())
        else:
            random.setstate(self._random_state_inside)
        self._replace_all()
        worlds[self._thread] = self._director

    def _put_back(self) -> None:
        """Undo what `_begin` did, even if that was interrupted. Call it again if it is interrupted itself."""
        if worlds.pop(self._thread, None) is not None:
            self._random_state_inside = random.getstate()
        while self._originals:
            setattr(*self._originals[-1])
            self._originals.pop()
        if self._random_state_outside is not None:
            random.setstate(self._random_state_outside)
            asyncio._set_running_loop(self._running)
            if self._task is not None and self._running is not None and asyncio.current_task() is None:
                asyncio.tasks._enter_task(self._running, self._task)
            if self._collected:
                gc.enable()
            self._random_state_outside = self._running = self._task = None
        while self._loops_aside:
            self._loops_aside[-1].adopt()
            self._loops_aside.pop()
        self._is_in = False
        _release(self._thread)

    def _replace_all(self) -> None:
        clock = self._director.clock
        self._replace(time, "time", lambda: EPOCH + clock.time)
        self._replace(time, "time_ns", lambda: int((EPOCH + clock.time) * 1e9))
        for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
            self._replace(time, name, lambda: clock.time)
            self._replace(time, f"{name}_ns", lambda: int(clock.time * 1e9))
        for name in ("gmtime", "localtime", "ctime"):
            self._replace(time, name, partial(_of_now, getattr(time, name), clock))
        self._replace(time, "sleep", self._sleep)
        self._replace(os, "urandom", self._draw_bytes)
        self._replace(random, "_urandom", self._draw_bytes)
        self._replace_method(random.Random, "seed", self._seed)
        self._replace_method(threading.Condition, "wait", _refuse_to_wait)
        self._replace_method(threading.Thread, "start", _refuse_to_start)
        for module in (_thread, threading):
            for name in _START:
                if hasattr(module, name):
                    self._replace(module, name, partial(_refuse, "a thread is started", _NO_THREADS))
        for name in ("signal", "alarm", "setitimer", "pause", "sigwait", "sigtimedwait"):
            if hasattr(signal, name):
                self._replace(signal, name, partial(_refuse, f"signal.{name}()", _NO_SIGNALS))
        for module in (asyncio, asyncio.tasks):
            self._replace(module, "all_tasks", partial(_in_order, asyncio.tasks.all_tasks))
            self._replace(module, "as_completed", partial(_as_listed, asyncio.tasks.as_completed))
        processes = sys.modules.get("multiprocessing.process")
        if processes is not None:
            self._replace_method(processes.BaseProcess, "start", _refuse_to_start_process)

    def _replace(self, owner: ModuleType | type, name: str, replacement: Callable[..., object]) -> None:
        """Patch `owner.name` for this thread; every other thread still gets the original."""
        original = getattr(owner, name)
        own_thread = self._thread

        def patched(*args: object, **kwargs: object) -> object:
            return replacement(*args, **kwargs) if get_ident() == own_thread else original(*args, **kwargs)

        self._originals.append((owner, name, original))
        setattr(owner, name, patched)

    def _replace_method(self, cls: type, name: str, replacement: Callable[..., object]) -> None:
        """Patch a method; `replacement` gets the original as its first argument."""
        self._replace(cls, name, partial(replacement, getattr(cls, name)))

    def _sleep(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if math.isnan(seconds):
            raise ValueError("Invalid value NaN (not a number)")
        if math.isinf(seconds):
            raise OverflowError("timestamp too large to convert to C _PyTime_t")
        clock = self._director.clock
        clock.move_to(clock.time + seconds)
        self._director.time_moved()

    def _draw_bytes(self, count: int) -> bytes:
        return b"".join(self._prng.draw().to_bytes(8, "little") for _ in range(count // 8 + 1))[:count]

    def _seed(
        self, original: Callable[..., object], generator: random.Random, a: object = None, version: int = 2
    ) -> None:
        original(generator, self._prng.draw() if a is None else a, version)


def _is_held_up(loop: Loop) -> bool:
    """Whether a real loop of this thread is blocked by the simulation. A loop in a tick has called us, and is not."""
    return loop.world.is_real and loop.runq.thread == get_ident() and not loop.closed and not loop.ticking


def _of_now(original: Callable[[float], T], clock: VirtualClock, seconds: float | None = None) -> T:
    return original(EPOCH + clock.time if seconds is None else seconds)


def _in_order(original: AllTasks, loop: asyncio.AbstractEventLoop | None = None) -> set[asyncio.Task[object]]:
    """The tasks in a set whose order is the same in each run. The order of a set depends on its history."""
    return set(dict.fromkeys(sorted(original(loop), key=hash)))


def _as_listed(original: Callable[..., object], fs: Iterable[Awaitable[object]], **options: object) -> object:
    """Make tasks in the order of `fs`; asyncio makes them in the order of a set of coroutines."""
    if asyncio.isfuture(fs) or asyncio.iscoroutine(fs):
        return original(fs, **options)
    return original([asyncio.ensure_future(one) for one in dict.fromkeys(fs)], **options)


def _refuse(what: str, instead: str, *args: object, **kwargs: object) -> None:
    raise SimulationRefused(what, instead)


def _refuse_to_start(original: object, thread: threading.Thread) -> None:
    raise SimulationRefused(f"the thread {thread.name!r} is started", _NO_THREADS)


def _refuse_to_start_process(original: object, process: BaseProcess) -> None:
    raise SimulationRefused(f"the process {process.name!r} is started", _NO_CHILDREN)


def _refuse_to_wait(original: Wait, condition: threading.Condition, timeout: float | None = None) -> bool:
    if timeout is not None and timeout <= 0:  # it does not wait
        return original(condition, timeout)
    raise SimulationRefused("waiting for another thread", "there is none: await a future, or an actor's answer")
