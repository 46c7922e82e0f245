"""`Simulation` runs a program on a virtual clock and a seeded scheduler; a test drives a `Session` step by step.

A schedule decides what a real run leaves to the machine: which actor runs next, how many messages it handles, and when
code outside the actors runs. It draws these choices from the seed. The clock stands still while anything can run, and
then jumps to the next deadline: hours pass in seconds.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from greenroom._core.scheduler.stepping import HandlerTask
from greenroom._core.simulation.director import Director
from greenroom._core.simulation.schedules import Pct, Schedule, Scripted, Shuffled, SplitMix
from greenroom._core.world import VirtualClock
from greenroom.clock import slack
from greenroom.errors import BadArgument, ConfigError, SimulationEndless, SimulationRefused, SimulationStuck
from greenroom.errortext import add_note, in_words
from greenroom.system.config import SystemConfig
from greenroom.system.system import ActorSystem
from greenroom.testing.checks.ledgers import assert_ledger_balanced
from greenroom.testing.eventloop import MainEventLoop
from greenroom.testing.faults import Fault
from greenroom.testing.injection import Injector
from greenroom.testing.patches import Patches
from greenroom.testing.probing.settling import suspended
from greenroom.testing.trace import Trace
from greenroom.validation import require_delay, require_whole

T = TypeVar("T")
Program = Callable[[ActorSystem], Coroutine[Any, Any, T]]
Script = Mapping[int, tuple[int, int, int]]
"""A schedule, as its deviations from first come, first served: {step: (position, messages, pause)}.

At a step that chooses between loops, the position is that of a loop. At one that decides whether a tick takes in what
other loops have brought, it is 1 if that is left for the next tick.
"""

Fatal = type[BaseException] | tuple[type[BaseException], ...]
"""One exception type or a tuple of them, as for `isinstance`."""

_DEPTH = 3
"""The bug depth for `pct`: how many events must happen in a certain order."""
SCHEDULES: dict[str, Callable[[int], Schedule]] = {
    "random": Shuffled,
    "pct": lambda seed: Pct(seed, _DEPTH),
    "fifo": lambda seed: Schedule(),
}
"""The named schedules, made with a seed."""

Main = Callable[[], Coroutine[Any, Any, T]]
"""A function whose coroutine is run, as by `asyncio.run`."""
_PROGRAM = "the program"
_TO_WIND_UP = 100_000
"""How many more steps a cancelled program has to end its actors, and turns of the event loop to end its tasks."""
_MOVES_TO_WIND_UP = 10_000
"""How often the clock may move meanwhile: a task that sleeps so often after its cancellation never ends."""
_ASYNCIO = str(Path(asyncio.__file__).parent)
_WILL_NOT_END = "tasks were cancelled when all else was over, and went on as if nothing had happened"


class Simulation:
    """Runs a program of actors so that the run can be repeated exactly.

    >>> import asyncio
    >>> from greenroom import Actor, ActorSystem
    >>> class Sleeper(Actor[float, float]):
    ...     async def receive(self, message: float) -> float:
    ...         await asyncio.sleep(message)
    ...         return self.ctx.now()
    >>> async def program(system: ActorSystem) -> float:
    ...     return await system.spawn(Sleeper).ask(3600.0, timeout=None)
    >>> simulation = Simulation(seed=7)
    >>> simulation.run(program)         # an hour, at once
    3600.0
    >>> first = simulation.trace.digest
    >>> simulation.run(program)
    3600.0
    >>> simulation.trace.digest == first
    True

    - `schedule`: `"random"` (any runnable actor, for any number of messages), `"pct"` (priorities that change a few
      times; finds rare orders sooner), `"fifo"` (as the real loop), or a `Script`.
    - `faults`: made by `greenroom.testing.faults`.
    - `config`: the system's config. A clock and seed that it does not set are the simulation's.
    - `keep`: how many events the trace keeps, the last ones.
    - `fatal`: exceptions of these types fail the simulation. Supervision handles them as usual, but they are raised
      here at the end, unless code that asked, or awaited the start, got them. A failed `assert` is, by default.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        schedule: str | Script = "random",
        faults: Iterable[Fault] = (),
        config: SystemConfig | None = None,
        keep: int = 10_000,
        max_steps: int = 1_000_000,
        fatal: Fatal = AssertionError,
    ) -> None:
        require_whole("seed", seed)
        _require_schedule(schedule)
        require_whole("keep", keep, "a whole number, 0 or more", 0)
        require_whole("max_steps", max_steps, "a whole number, 1 or more", 1)
        self.seed = seed
        self.schedule = schedule
        self.faults = require_faults(faults)
        self.config = SystemConfig() if config is None else config
        self.keep = keep
        self.max_steps = max_steps
        self.fatal = require_fatal(fatal)
        # Of the last run; before the first, of a director that has decided nothing.
        self.has_run = False
        self.system: ActorSystem | None = None
        self._director = Director(Schedule(), VirtualClock(), 0, 0, 1)
        self._trace: Trace | None = None
        self._records_choices = False

    def __repr__(self) -> str:
        parts = [f"seed={self.seed}"]
        if self.schedule != "random":
            parts.append(f"schedule={self.schedule!r}")
        if self.faults:
            parts.append(f"faults={list(self.faults)!r}")
        if self.fatal != (AssertionError,):
            parts.append(f"fatal={shown_fatal(self.fatal)}")
        return f"Simulation({', '.join(parts)})"

    def run(self, program: Program[T]) -> T:
        """Run `program(system)`, shut the system down, and return the program's result or raise what it raised."""
        __tracebackhide__ = True
        require_program(program)

        async def main() -> T:
            # Made inside the simulation, where a system finds its director.
            self.system = system = ActorSystem("simulation", config=self.config)
            async with system:
                return await _called(program, system)

        return self.run_main(main)

    def run_main(self, main: Main[T]) -> T:
        """Run `main()` as `asyncio.run` does. Every system that it makes is simulated."""
        __tracebackhide__ = True
        with SimulationRunner(self._direct(), self.seed) as runner:
            return runner.run(main)

    def open(self) -> Session:
        """Begin a run that the caller drives step by step."""
        return Session(SimulationRunner(self._direct(), self.seed), self.config)

    def _direct(self) -> Director:
        prng = SplitMix(self.seed)
        schedule = _schedule_of(self.schedule, prng.draw())
        director = Director(schedule, VirtualClock(), prng.draw(), self.keep, self.max_steps)
        director.fatal = self.fatal
        if self.faults:
            director.faults = Injector(self.faults, prng.fork(), director)
        if self._records_choices:
            director.choices = {}
        self._director = director
        self._trace = None
        self.has_run = True
        return director

    def write_choices(self) -> None:
        """Record the schedule of the next run, in `choices`."""
        self._records_choices = True

    @property
    def choices(self) -> dict[int, tuple[int, int, int]]:
        """The deviations of the last run from first come, first served, as a `Script`."""
        return dict(self._director.choices or {})

    @property
    def drawn_faults(self) -> tuple[Fault, ...]:
        """The faults of the last run, each with its own seed."""
        injector = self._director.faults
        return injector.faults if isinstance(injector, Injector) else ()

    @property
    def actors_chosen(self) -> dict[int, str]:
        """The actor that ran at each step of `choices`, by name; or the loop, where it was that which was chosen."""
        return {step: who if isinstance(who, str) else who.name() for step, who in self._director.visited.items()}

    @property
    def interrupt(self) -> KeyboardInterrupt | None:
        """The Ctrl-C that interrupted an actor in the last run, if any."""
        return self._director.interrupt

    @property
    def trace(self) -> Trace:
        """The trace of the last run."""
        if not self.has_run:
            raise BadArgument("the simulation has not run yet: its trace is there after `run`")
        if self._trace is None:
            self._trace = Trace(self._director)
        return self._trace


def _schedule_of(schedule: str | Script, seed: int) -> Schedule:
    if isinstance(schedule, Mapping):
        # Not a copy: an `ActorMachine` adds to it as the run goes on.
        return Scripted(schedule if isinstance(schedule, dict) else dict(schedule))
    return SCHEDULES[schedule](seed)


def _require_schedule(schedule: object) -> None:
    if isinstance(schedule, Mapping):
        for step, choice in schedule.items():
            numbers = (step, *choice) if isinstance(choice, tuple) and len(choice) == 3 else (None,)
            if any(type(one) is not int or one < 0 for one in numbers):
                raise ConfigError("schedule", {step: choice}, "must be {step: (position, messages, pause)}, in numbers")
    elif not isinstance(schedule, str) or schedule not in SCHEDULES:
        raise ConfigError("schedule", schedule, f"must be one of {', '.join(SCHEDULES)}, or a script")


class NotAProgram(BadArgument):
    """What was given is no `async def program(system)`."""


def require_program(program: object) -> None:
    if not callable(program):
        raise NotAProgram(f"a simulation runs an `async def program(system)`, not {program!r}")
    try:
        inspect.signature(program).bind(None)
    except TypeError as exc:
        raise NotAProgram(
            f"a simulation runs an `async def program(system)`; {program!r} does not fit: {exc}"
        ) from None
    except ValueError:
        pass  # it has no signature to check


def require_faults(declared: object) -> tuple[Fault, ...]:
    if isinstance(declared, Iterable) and not isinstance(declared, str):
        given = tuple(declared)
        if all(isinstance(fault, Fault) for fault in given):
            return given
    raise ConfigError("faults", declared, "must be a list of faults, such as `faults.crash(...)`")


def require_fatal(declared: object) -> tuple[type[BaseException], ...]:
    kinds: tuple[Any, ...] = declared if isinstance(declared, tuple) else (declared,)
    if all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        return kinds
    raise ConfigError("fatal", declared, "must be a kind of exception, or a tuple of several")


def shown_fatal(kinds: tuple[type[BaseException], ...]) -> str:
    """The `fatal` argument as source text."""
    names = [kind.__qualname__ for kind in kinds]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


async def _called(program: Program[T], system: ActorSystem) -> T:
    made = program(system)
    if not hasattr(made, "__await__"):
        raise NotAProgram(f"{program!r} must be `async def`, and returned {made!r}")
    return await made


class Session:
    """A running system in a simulation. Actors run only inside `run`, `settle`, `advance` and `close`.

    >>> from greenroom import Actor
    >>> from greenroom.testing import Simulation
    >>> class Adder(Actor[int, int]):
    ...     total = 0
    ...     def receive(self, message: int) -> int:
    ...         self.total += message
    ...         return self.total
    >>> with Simulation(seed=1).open() as session:
    ...     adder = session.system.spawn(Adder)
    ...     adder.tell(1)
    ...     session.settle()
    ...     session.run(lambda: adder.ask(2))
    3
    """

    def __init__(self, runner: SimulationRunner, config: SystemConfig | None = None) -> None:
        self._runner = runner
        self.director = runner.director
        self.system: ActorSystem = runner.run(lambda: _begin(config))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is None:
            try:
                # As at the end of the system's own `async with`: raise the failure that ended it, if one did.
                self.run(lambda: self.system.__aexit__(None, None, None))
            finally:
                self.close()
        else:
            # Do not hide the first error.
            self.director.fatal, self.director.unretrieved = (), []
            with suppress(SimulationStuck, SimulationRefused):
                self.close()

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self.director.clock.time

    @property
    def trace(self) -> Trace:
        """The trace so far."""
        return Trace(self.director)

    def run(self, action: Callable[[], Awaitable[T]]) -> T:
        """Call `action()` in the simulation, await what it returns, and return the result."""

        async def main() -> T:
            return await action()

        return self._runner.run(main)

    def settle(self) -> None:
        """Run until no message is queued or being handled."""
        self.run(self.system.settle)

    def advance(self, seconds: float) -> None:
        """Turn the clock by `seconds`, and do all that is due meanwhile.

        A deadline within a nanosecond of the end counts as due: ten times 0.1 s is 1 s.
        """
        require_delay("seconds", seconds)
        self.run(lambda: self.pass_time(seconds))

    async def pass_time(self, seconds: float) -> None:
        """What `advance` does, inside `run`."""
        await self.come_to_rest()
        moment = self.now + seconds
        latest = moment + slack(moment)
        loop = asyncio.get_running_loop()
        while True:
            reached: asyncio.Future[None] = loop.create_future()
            loop.call_at(moment, reached.set_result, None)  # exactly then: `sleep` would round
            await reached
            await self.come_to_rest()
            moment = self._runner.next_moment
            if not self.now < moment <= latest:
                return

    async def come_to_rest(self) -> None:
        """Run until nothing can go on, including asyncio's callbacks, unless time passes."""
        poller, director = self.system._poller, self.director
        calm = 0
        # Twice: asyncio shows timers that are due now only in its next iteration.
        while calm < 2:
            await poller.idle()
            await asyncio.sleep(0)
            calm = calm + 1 if poller.is_idle() and not director.outside else 0

    def close(self) -> None:
        """Shut the system down at once, and check that every message is accounted for."""
        with self._runner:
            if self.system.phase != "stopped":
                self.run(lambda: self.system.shutdown(drain=False))
        assert_ledger_balanced(self.system)


async def _begin(config: SystemConfig | None) -> ActorSystem:
    return await ActorSystem("simulation", config=config).__aenter__()


class SimulationRunner:
    """Runs coroutines on a virtual event loop, like `asyncio.Runner`. Between two runs, the thread is not simulated."""

    def __init__(self, director: Director, seed: int, *, has_threads: bool = True) -> None:
        """`has_threads`: whether the further loops of a system get virtual threads. If not, systems have one loop."""
        self.director = director
        self._patches = Patches(director, seed)
        self._patches.require_free()
        self._loop = MainEventLoop(director)
        if has_threads:
            director.threads = self._loop

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it, without hiding an earlier error."""
        try:
            self.close()
        except SimulationStuck:
            if exc is None:
                raise

    @property
    def next_moment(self) -> float:
        """The time of the next deadline; inf if there is none."""
        return self._loop.next_moment()

    def run(self, main: Main[T]) -> T:
        """Run `main()` and return its result. If it cannot end, cancel everything, and raise an error that says why."""
        __tracebackhide__ = True
        try:
            return self._run(main)
        finally:
            self._patches.__exit__()  # again: Ctrl-C may have come while the patches were undone

    def _run(self, main: Main[T]) -> T:
        __tracebackhide__ = True
        with self._patches:
            task = self._loop.create_task(main(), name=_PROGRAM)
            try:
                result = self._loop.run_until_complete(task)
                if self._loop.internal_error is not None:
                    raise self._loop.internal_error
            except SimulationStuck:
                end: Exception = SimulationStuck(self._who_waits())
            except SimulationEndless:
                end = SimulationEndless(self.director.max_steps, self._who_ran())
            except BaseException as exc:
                self._mention_unretrieved(exc)
                raise
            else:
                unretrieved = self._unretrieved()
                if unretrieved is not None:
                    raise unretrieved
                return result
            unretrieved = self._unretrieved()
            self._wind_up()
            self.director.unretrieved = []  # those of cancelled actors do not count
        raise end from unretrieved

    def _unretrieved(self) -> BaseException | None:
        """What an actor raised and no asker got. Each is returned once: a session may go on, or be closed."""
        director = self.director
        refused, director.refused = director.refused, None
        unretrieved, director.unretrieved = director.unretrieved, []
        if refused is not None:
            told: BaseException = refused
            others = unretrieved
        elif unretrieved:
            (told, who), *others = unretrieved
            add_note(told, f"It was {who} that let it out, and nobody was told: a simulation fails then.")
        else:
            return None
        for cause, who in others:
            add_note(told, f"Besides, {who} let out {in_words(cause)}.")
        return told

    def _mention_unretrieved(self, exc: BaseException) -> None:
        """Add a note to the program's exception about what actors raised before: that may be the reason."""
        unretrieved, self.director.unretrieved = self.director.unretrieved, []
        for cause, who in unretrieved:
            if cause is not exc:
                add_note(exc, f"Before, {who} let out {in_words(cause)}, and nobody was told.")

    def close(self) -> None:
        """Cancel what is left, and close the loop. Raise if a task does not end when it is cancelled."""
        if not self._loop.is_closed():
            try:
                with self._patches:
                    stubborn = self._wind_up()
            finally:
                self._patches.__exit__()
                self._loop.close()
            if self.director.faults is not None:
                self.director.faults.close()
            if stubborn:
                raise SimulationStuck(tuple(_abandon(task) for task in stubborn), _WILL_NOT_END)

    def _wind_up(self) -> list[asyncio.Task[object]]:
        """Cancel all tasks and let them end. Return those that do not."""
        loop = self._loop
        self.director.allow(_TO_WIND_UP)
        loop.allow(_TO_WIND_UP, _MOVES_TO_WIND_UP)
        left = sorted(loop.tasks(), key=_name_of)
        for task in left:
            task.cancel()
        with suppress(SimulationStuck, SimulationEndless):
            if left:
                loop.run_until_complete(_all_ended(loop, left))
            for one in loop.all_loops():
                loop.run_until_complete(one.shutdown_asyncgens())
        loop.allow(inf, inf)
        return [task for task in left if not task.done()]

    def _who_waits(self) -> tuple[str, ...]:
        tasks = [_waiting(_title_of(task), task) for task in sorted(self._loop.tasks(), key=_name_of)]
        cells = [cell for loop in self.director.loops for cell in loop.table if cell.task is not None]
        return (*tasks, *(_waiting(cell.name(), cell.task) for cell in cells))

    def _who_ran(self) -> str | None:
        """The actor that last handled a message, if it is still alive."""
        for loop in self.director.loops:
            cell = loop.table.find(self.director.last_actor)
            if cell is not None:
                name: str = cell.name()
                return name
        return None


def _all_ended(loop: MainEventLoop, tasks: list[asyncio.Task[object]]) -> asyncio.Future[None]:
    """A future that ends when all have ended, on whichever virtual thread."""
    waiting = set(tasks)
    ended: asyncio.Future[None] = loop.create_future()

    def note(task: asyncio.Task[object]) -> None:
        waiting.discard(task)
        if not task.cancelled():
            task.exception()  # which counts as seen
        if not waiting and not ended.done():
            ended.set_result(None)

    for task in tasks:
        task.add_done_callback(note)
    return ended


def _name_of(task: asyncio.Task[object]) -> tuple[int, str]:
    name = task.get_name()  # by length first: Task-9 comes before Task-10
    return len(name), name


def _title_of(task: asyncio.Task[object]) -> str:
    name = task.get_name()  # the default names differ from run to run
    return "a task" if name.startswith("Task-") else name


def _abandon(task: asyncio.Task[object]) -> str:
    """Leak a task that does not end. Return its name and where it waits.

    Freeing its coroutine would run it once more. A coroutine that swallows every exception would then loop for ever
    inside a finalizer. So we never free it.
    """
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # the error says so
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task.get_coro()))
    return _waiting(_title_of(task), task)


def _waiting(who: str, task: asyncio.Task[object] | HandlerTask) -> str:
    """Describe who waits, in which function, and at which innermost line outside asyncio."""
    coroutine = task.get_coro()
    found = list(suspended(coroutine))
    if not found:
        return f"{who} waits in {getattr(coroutine, '__qualname__', type(coroutine).__name__)}"
    own = [one for one in found if not one.cr_frame.f_code.co_filename.startswith(_ASYNCIO)]
    inner = own[-1] if own else found[0]
    frame = inner.cr_frame
    return f"{who} waits in {inner.__qualname__}, {frame.f_code.co_filename}:{frame.f_lineno}"
