"""`ActorHarness`: steps one real actor in a plain test; every other actor is a stub.

A harness is a simulation that the test drives. Nothing happens between two calls of the harness. A call returns when
nothing more can happen until time passes or the test answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, cast, overload

from greenroom._core.scheduler.stepping import HandlerTask
from greenroom._core.simulation.director import Director
from greenroom._core.simulation.schedules import SplitMix
from greenroom._core.world import VirtualClock
from greenroom.actor.api.context import Context
from greenroom.actor.life.machine import STOP
from greenroom.actor.messaging.question import Asked, Question
from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.messaging.timers import cell_of
from greenroom.actor.records.record import ActorRecord, Extras
from greenroom.actor.records.states import State
from greenroom.actor.relations import Relations, known_relations
from greenroom.clock import MonotonicClock
from greenroom.errors import (
    BadArgument,
    ConfigError,
    SimulationEndless,
    SimulationRefused,
    SimulationStuck,
    SystemStopped,
)
from greenroom.errortext import counted
from greenroom.exits import ExitReason
from greenroom.lanes import Lane, MailboxConfig
from greenroom.system.config import SystemConfig
from greenroom.system.system import ActorSystem
from greenroom.testing.effects import Effect, Failed, Sent, Spawned, Stopped, TimerStarted
from greenroom.testing.probing.matching import shown
from greenroom.testing.probing.settling import suspended
from greenroom.testing.recording import Recorder, SteppingSchedule, StubActor
from greenroom.testing.simulation import Session, SimulationRunner
from greenroom.testing.trace import Trace
from greenroom.validation import require_delay, require_whole

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from greenroom.actor.api.actor import Actor
    from greenroom.actor.records.record import Tombstone
    from greenroom.system.deadletters import DeadLetter

    A = TypeVar("A", bound=Actor, default=Any)
    E = TypeVar("E", bound=Effect)
else:
    from typing import TypeVar

    A = TypeVar("A")
    E = TypeVar("E")

_VISITS = 10_000
"""How many visits to actors one call may take while time stands still; more mean an endless loop."""
_VISITS_IN_TIME = 1_000_000
"""As many for `advance`."""
_KEPT = 1_000
"""How many events its trace keeps."""


class TestInbox:
    """What `harness.inbox()` returns: the `ref` of a stub actor, and the messages that it was sent."""

    __test__ = False  # so that pytest does not collect it

    def __init__(self, ref: ActorRef, recorder: Recorder) -> None:
        self.ref = ref
        self._recorder = recorder

    def __repr__(self) -> str:
        return f"<TestInbox {self.ref}, {counted(len(self.sent), 'message')}>"

    @property
    def messages(self) -> list[Any]:
        """The messages that it was sent since the harness was last cleared."""
        return self._recorder.messages_to(self.ref)

    @property
    def sent(self) -> list[Sent]:
        """These messages with lanes and senders, and with `reply` and `fail` for asks."""
        return self._recorder.sent_to(self.ref)

    def reply(self, value: object = None) -> None:
        """Answer the oldest open ask."""
        self._first_ask().reply(value)

    def fail(self, cause: BaseException) -> None:
        """Fail the oldest open ask with `cause`."""
        self._first_ask().fail(cause)

    def _first_ask(self) -> Sent:
        sent = self._recorder.first_ask_of(self.ref)
        if sent is None:
            raise AssertionError(f"nobody waits for a reply of {self.ref}; it was sent {shown(self.messages)}")
        return sent

    def hold(self) -> None:
        """Leave its messages in its mailbox from now on, for example to fill it."""
        self.ref._cell.hold()

    def release(self) -> None:
        """Allow it to take messages again, from the next call of the harness on."""
        self.ref._cell.release()


class PendingAnswer:
    """What `begin_ask` returns: the answer of the actor under test, perhaps still to come."""

    def __init__(self, harness: ActorHarness, message: object, question: Asked) -> None:
        self._harness = harness
        self._message = message
        self._question = question
        self._was_seen = False

    def __repr__(self) -> str:
        return f"<PendingAnswer to {shown(self._message)}, {'done' if self.done else 'open'}>"

    @property
    def done(self) -> bool:
        """Whether the answer is there, or the ask has failed."""
        return bool(self._question.done())

    def result(self) -> Any:
        """Return the reply, or raise what the handler raised. Raise AssertionError if there is no answer yet."""
        if not self.done:
            target = self._question.target.shown()
            raise AssertionError(f"{target} has not answered {shown(self._message)}: {self._harness._what_it_does()}")
        try:
            next(self._question.__await__())
        except StopIteration as stop:
            return stop.value
        except BaseException as exc:
            if not self._was_seen:
                self._was_seen = True
                self._harness._see(exc)
            raise


class ActorHarness(Generic[A]):
    """Steps one real actor in a plain `def` test, and shows what it does.

    >>> from greenroom import Actor, ActorRef
    >>> class Till(Actor[int]):
    ...     def __init__(self, bank: ActorRef) -> None:
    ...         self.bank = bank
    ...     async def receive(self, amount: int) -> int:
    ...         self.ctx.send_after(60.0, self.ctx.self, 0)
    ...         return await self.bank.ask(("book", amount))
    >>> with ActorHarness() as harness:
    ...     bank = harness.inbox("bank")
    ...     till = harness.start(Till, bank.ref, name="till")
    ...     answer = harness.begin_ask(5)
    ...     print(bank.messages, answer.done, harness.timers)
    ...     bank.reply("booked")
    ...     print(answer.result())
    [('book', 5)] False [<Timer: 0 to /till, due in 60 s>]
    booked

    Give the actor as you would to `spawn`: a class, a function or a `Behavior`, with its arguments and options. If it
    needs no refs of stand-ins, `ActorHarness(Till, ...)` starts it at once. Every other actor is a stand-in, also the
    children that it spawns. A stand-in starts and ends like any actor, but runs none of your code, and leaves its asks
    for the test to answer. Time passes only in `advance`.

    `sent`, `spawned`, `stopped`, `failures`, `dead_letters` and `effects` (all of them, in order) show what has
    happened since the last `clear`. `timers`, `watched`, `monitored`, `linked` and `children` show the present state.

    A failure that the test has not looked at (in `failures`, or as the exception of an ask) fails the test at the end.
    So use the harness in a `with` statement, or `close` it.
    """

    # False until there is something to close.
    _is_open = False

    @overload
    def __init__(
        self,
        factory: Callable[..., A],
        /,
        *args: object,
        config: SystemConfig | None = ...,
        seed: int = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: ActorHarness,
        factory: Any = ...,
        /,
        *args: object,
        config: SystemConfig | None = ...,
        seed: int = ...,
        **options: Any,
    ) -> None: ...
    def __init__(
        self, factory: Any = None, /, *args: object, config: SystemConfig | None = None, seed: int = 0, **options: Any
    ) -> None:
        if isinstance(config, SystemConfig) and config.clock is not None and type(config.clock) is not MonotonicClock:
            raise ConfigError("clock", config.clock, "a harness has its own, which `advance` moves")
        require_whole("seed", seed)
        if factory is None and (args or options):
            raise BadArgument("a harness is given the actor first, as `spawn` is; or nothing, and `start` is")
        recorder = Recorder(self.settle)
        self._steps = SteppingSchedule()
        self._director = Director(self._steps, VirtualClock(), SplitMix(seed).draw(), _KEPT, _VISITS)
        self._director.faults = recorder
        self._recorder = recorder
        self._session = Session(SimulationRunner(self._director, seed, has_threads=False), config)
        self._ref: ActorRef | None = None
        self._is_open = True
        recorder.loop = self.system._loop
        self.system.observers.add(recorder)
        self.system.dead_letters.subscribe(recorder.take_dead_letter)
        if factory is not None:
            try:
                self.start(factory, *args, **options)
            except BaseException:
                self._close()
                raise

    def __repr__(self) -> str:
        return f"<ActorHarness of {'nobody yet' if self._ref is None else self._ref}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._close()
        except SimulationStuck:  # do not hide the first error
            if exc is None:
                raise
        if exc is None:
            self._require_seen()

    def __del__(self) -> None:
        if self._is_open:
            told = "".join(f"; {failed.told}" for failed in self._recorder.unseen)
            warnings.warn(
                f"{self!r} was let go and never closed, so nobody knows of its failures: write "
                f"`with ActorHarness(...) as harness:`, or call `harness.close()`{told}",
                ResourceWarning,
                stacklevel=1,
                source=self,
            )

    # -- setting the scene

    def inbox(self, name: str | None = None, *, mailbox: MailboxConfig | None = None) -> TestInbox:
        """Make an inbox: pass its `.ref` to the actor under test, and read its `.messages`."""
        self._require_open()
        return TestInbox(self.system.spawn(StubActor, name=name, mailbox=mailbox), self._recorder)

    def start(self, factory: Any, /, *args: object, **options: Any) -> ActorRef:
        """Spawn the actor under test, with the arguments and options of `spawn`, let it start, and return its ref.

        If it fails to start, raise the cause. It is still there then: its supervision decides about a restart.
        """
        self._require_open()
        if self._ref is not None:
            raise BadArgument(f"a harness is for one actor, and this one has {self._ref}")
        recorder = self._recorder
        recorder.expects_subject = True
        try:
            ref: ActorRef = self.system.spawn(factory, *args, **options)
        finally:
            recorder.expects_subject = False
        self._ref = ref
        self._steps.subject = ref._cell
        recorder.adopt(ref._cell.record)
        self.settle()
        if recorder.unseen and State.RUNNING not in ref.history:
            failed = recorder.unseen[0]
            recorder.unseen.clear()
            raise failed.cause
        return ref

    # -- making things happen

    def tell(self, message: object, *, sender: ActorRef | None = None, lane: Lane = Lane.DATA) -> None:
        """Send it a message. Return when it is idle or suspended."""
        self.ref.tell(message, sender=sender, lane=lane)
        self.settle()

    def ask(self, message: object, *, lane: Lane = Lane.DATA) -> Any:
        """Ask it something. Return the reply, or raise what its handler raised.

        Raise AssertionError if it cannot answer until the test does something: use `begin_ask` then.
        """
        return self.begin_ask(message, lane=lane).result()

    def begin_ask(self, message: object, *, lane: Lane = Lane.DATA) -> PendingAnswer:
        """Ask it something. Return when it is idle or suspended, with or without an answer."""
        question = cast("Asked", self.ref.ask(message, timeout=None, lane=lane))
        self.settle()
        return PendingAnswer(self, message, question)

    def step(self) -> bool:
        """Have it take one queued message (sent by `harness.ref.tell`). Return whether there was one."""
        cell, steps = self.ref._cell, self._steps
        steps.single, steps.took_one, steps.held = True, False, False
        try:
            self.settle()
        finally:
            steps.single = False
            # An actor that waits for a restart holds back its messages by itself.
            if steps.held and self.state is State.RUNNING:
                cell.release()
        return steps.took_one

    def settle(self) -> None:
        """Run until all actors are idle or suspended, after you used a ref directly. Time stands still."""
        self._go_on(self._session.come_to_rest, _VISITS)

    def advance(self, seconds: float) -> None:
        """Turn the clock by `seconds`: timers fire, timeouts end, and sleeping coroutines go on."""
        require_delay("seconds", seconds)
        self._go_on(lambda: self._session.pass_time(seconds), _VISITS_IN_TIME)

    def stop(self) -> None:
        """Stop it gracefully."""
        self.ref.stop()
        self.settle()

    def kill(self) -> None:
        """End it without `pre_stop`; a suspended handler is cancelled."""
        self.ref.kill()
        self.settle()

    def fail(self, cause: BaseException) -> None:
        """Make it fail with `cause`, as if its handler had raised that."""
        ref = self.ref
        ref.fail(cause)
        self._recorder.want(cause)
        self.settle()

    def restart(self, cause: BaseException | None = None) -> None:
        """Restart it at once."""
        self.ref.restart(cause)
        self.settle()

    def end(self, ref: ActorRef, cause: BaseException | None = None) -> None:
        """End a child or stand-in: normally, or because of `cause`. Actors that watch it are told.

        A supervisor may restart its child then. To let the child's own supervision decide instead, use
        `ref.fail(cause)` and `settle()`.
        """
        cell = cell_of(ref, "end()")
        if self._ref is not None and cell is self._ref._cell:
            raise BadArgument(f"{ref} is the actor under test: use `stop`, `kill` or `fail`")
        if cause is not None and not isinstance(cause, BaseException):
            raise BadArgument(f"an actor ends because of an exception, or of nothing, not of {cause!r}")
        record = cell.record
        if isinstance(record, ActorRecord):
            if cause is not None:
                record.reason = ExitReason.of(cause)
            cell.order(STOP)
        self.settle()

    def close(self) -> None:
        """Shut everything down. Raise AssertionError if there is a failure that the test has not looked at."""
        self._close()
        self._require_seen()

    # -- the present state

    @property
    def system(self) -> ActorSystem:
        """The system that the actor runs in."""
        return self._session.system

    @property
    def ref(self) -> ActorRef:
        """The ref of the actor under test. A message sent through it is handled in the next call of the harness."""
        if self._ref is None:
            raise BadArgument("there is no actor under test yet: give it to `start`")
        return self._ref

    @property
    def actor(self) -> A:
        """The actor instance; after its end, the last instance."""
        found = self._recorder.actor
        if found is None:
            raise BadArgument(f"{self.ref} has no instance: it is made of functions, or was never made")
        return cast("A", found)

    @property
    def state(self) -> State:
        """Its lifecycle state."""
        return self.ref.state

    @property
    def ended(self) -> ExitReason | None:
        """Its exit reason, if it has ended."""
        record: ActorRecord | Tombstone = self.ref._cell.record
        return None if isinstance(record, ActorRecord) else record.reason

    @property
    def is_suspended(self) -> bool:
        """Whether the actor's handler or a hook is suspended at an `await`."""
        return self.ref._cell.task is not None

    @property
    def queued(self) -> int:
        """How many messages are in its mailbox; stashed ones do not count."""
        return int(self.ref._cell.queued())

    @property
    def stashed(self) -> int:
        """How many messages it has stashed."""
        return 0 if self._extras.stash is None else len(self._extras.stash)

    @property
    def receive_timeout(self) -> float | None:
        """The seconds that it gave to `set_receive_timeout`."""
        timer = self._extras.receive_timer
        return None if timer is None else float(timer.seconds)

    @property
    def children(self) -> list[ActorRef]:
        """Its living children, oldest first."""
        record = self.ref._cell.record
        return record.children if isinstance(record, Context) else []

    @property
    def timers(self) -> list[TimerStarted]:
        """Its active timers, in the order they were started."""
        return self._recorder.timers

    @property
    def watched(self) -> list[ActorRef]:
        """The actors that it watches."""
        watching = self._relations.watching
        return [cast("ActorRef", cell.shown()) for cell, watch in watching.items() if watch.notice is None]

    @property
    def monitored(self) -> list[ActorRef]:
        """The actors that it monitors, once for each monitor."""
        monitoring = self._relations.monitoring
        return [mref.ref for mref, notice in monitoring.items() if notice is None]

    @property
    def linked(self) -> list[ActorRef]:
        """The actors that it is linked to."""
        linked = self._relations.linked
        return [cast("ActorRef", cell.shown()) for cell, notice in linked.items() if notice is None]

    @property
    def now(self) -> float:
        """Virtual seconds since the harness was made."""
        return self._session.now

    @property
    def trace(self) -> Trace:
        """The trace so far, of all actors."""
        return self._session.trace

    # -- what has happened since the last `clear`

    @property
    def effects(self) -> list[Effect]:
        """All effects, in order."""
        self._recorder.unseen.clear()
        return list(self._recorder.effects)

    @property
    def sent(self) -> list[Sent]:
        """The messages that it sent, to others and to itself."""
        return self._effects(Sent)

    @property
    def spawned(self) -> list[Spawned]:
        """The actors that it spawned."""
        return self._effects(Spawned)

    @property
    def stopped(self) -> list[ActorRef]:
        """The actors that it told to stop, and those that ended with it."""
        return [effect.ref for effect in self._effects(Stopped)]

    @property
    def failures(self) -> list[Failed]:
        """Its failures, with the decisions about them."""
        self._recorder.unseen.clear()
        return self._effects(Failed)

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """Messages that were not handled: sent by it, or sent to it."""
        return list(self._recorder.dead_letters)

    def clear(self) -> None:
        """Forget the effects so far, except failures that the test has not looked at."""
        self._recorder.clear()

    def _effects(self, kind: type[E]) -> list[E]:
        return [effect for effect in self._recorder.effects if isinstance(effect, kind)]

    @property
    def _extras(self) -> Extras:
        """What the runtime keeps for the few actors that need it: nothing, after the end."""
        record = self.ref._cell.record
        return record.ensure_extras() if isinstance(record, ActorRecord) else Extras()

    @property
    def _relations(self) -> Relations:
        """The actor's watches, monitors and links: none of them, after the end."""
        return known_relations(self.ref._cell.record) or Relations()

    # -- going on

    def _go_on(self, until: Callable[[], Awaitable[None]], visits: int) -> None:
        self._require_open()
        self._director.allow(visits)
        self._recorder.begin()
        try:
            self._session.run(until)
        except SimulationEndless:
            raise AssertionError(
                f"{self._ref} and what it began do not come to rest: {visits} visits to actors have not ended it; "
                f"these were the last events:\n{self.trace.tail(10)}"
            ) from None
        except SimulationRefused as exc:  # raised to the test, whatever the actor did about it
            self._recorder.see(exc)
            raise
        finally:
            self._recorder.end()

    def _see(self, exc: BaseException) -> None:
        """The test has got `exc` from an ask: a failure, or an exception caused by one."""
        if not self._recorder.see(exc) and exc.__cause__ is not None:
            self._recorder.see(exc.__cause__)

    def _require_open(self) -> None:
        if not self._is_open:
            raise SystemStopped("harness")

    def _require_seen(self) -> None:
        unseen, self._recorder.unseen = self._recorder.unseen, []
        if unseen:
            told = "; ".join(failed.told for failed in unseen)
            raise AssertionError(
                f"{self._ref} failed, and the test has not looked at that (`harness.failures` does): {told}"
            ) from unseen[0].cause

    def _close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._recorder.is_over = True
        # The shutdown would wait for a suspended handler, and then cancel it with a warning.
        if self._ref is not None and self.is_suspended:
            self._ref.kill()
        self._session.close()

    def _what_it_does(self) -> str:
        """Describe why it has not answered yet."""
        task = self.ref._cell.task
        if task is not None:
            awaited = task._waiter
            if isinstance(awaited, Question):
                return f"its handler waits for the reply of {awaited.target.shown()}, {_place_of(task)}"
            return f"its handler waits, {_place_of(task)}; `advance` lets time pass"
        if self.state is not State.RUNNING:
            return f"it is {self.state.value}; `advance` lets time pass"
        return "it has put its reply off, or the message aside"


def _place_of(task: HandlerTask) -> str:
    """Where a suspended handler waits: its innermost known line."""
    *_, inner = (None, *suspended(task.get_coro()))
    if inner is None:
        return "nobody knows where"
    return f"at {inner.cr_frame.f_code.co_filename}:{inner.cr_frame.f_lineno}"
