"""State machines over simulated actors: rules, schedules and faults are found, shrunk and shown together (B1, M19)."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from greenroom import Actor, ActorRef, Directive, Supervision, SystemConfig
from greenroom.errors import InjectedFault
from greenroom.testing import faults
from greenroom.testing.faults import Fault
from greenroom.testing.machine import ActorMachine

# Derandomized, for how far an example is shrunk depends on which one is found.
# Of one bug only: a second one would be told in a group with the first.
QUICK = settings(
    derandomize=True,
    deadline=None,
    stateful_step_count=8,
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
)


class Lock(Actor[Any, bool]):
    """Held by one at a time; whoever wants it meanwhile waits."""

    def __init__(self) -> None:
        self.holder: Any = None
        self.waiting: list[Any] = []

    def receive(self, message: Any) -> bool:
        verb, client = message
        if verb == "acquire":
            self.waiting.append(client)
        elif self.may_release(client):
            self.holder = None
        if self.holder is None and self.waiting:
            self.holder = self.waiting.pop(0)
            self.holder.tell("yours")
        return True

    def may_release(self, client: Any) -> bool:
        return bool(self.holder == client)


class Leaky(Lock):
    """A planted bug: anybody may release it."""

    def may_release(self, client: Any) -> bool:
        return True


class Client(Actor[str, None]):
    """Asks for the lock if it has not done so already, and gives it back if it has it; or, `rashly`, unasked."""

    def __init__(self, lock: ActorRef[Any, bool], held: list[str]) -> None:
        self.lock = lock
        self.held = held
        self.asked = False

    def receive(self, message: str) -> None:
        has_it = self.ctx.name in self.held
        if message == "yours":
            self.held.append(self.ctx.name)
        elif message == "acquire" and not self.asked:
            self.asked = True
            self.lock.tell(("acquire", self.ctx.self))
        elif message == "release" and has_it:
            self.asked = False
            self.held.remove(self.ctx.name)
            self.lock.tell(("release", self.ctx.self))
        elif message == "rashly" and not self.asked:
            self.lock.tell(("release", self.ctx.self))


class Locking(ActorMachine):
    """Clients of a lock, of whom never two may hold it."""

    kind: ClassVar[type[Lock]] = Lock

    def __init__(self) -> None:
        super().__init__()
        self.held: list[str] = []
        self.lock = self.system.spawn(self.kind, name="lock")
        self.clients = [self.system.spawn(Client, self.lock, self.held, name=f"client-{n}") for n in range(2)]

    @rule(number=st.integers(0, 1), verb=st.sampled_from(["acquire", "release", "rashly"]))
    def tell(self, number: int, verb: str) -> None:
        self.clients[number].tell(verb)

    @rule()
    def look(self) -> None:
        self.settle()
        assert len(self.held) <= 1


class LeakyLocking(Locking):
    kind = Leaky


def falsified(machine: type[ActorMachine], **options: Any) -> tuple[BaseException, str]:
    """What Hypothesis says of a machine that fails."""
    said = io.StringIO()
    with redirect_stdout(said), pytest.raises(BaseException) as caught:
        run_state_machine_as_test(machine, settings=settings(QUICK, **options))
    notes = "\n".join(getattr(caught.value, "__notes__", []))
    return caught.value, f"{said.getvalue()}\n{notes}"


def steps_in(said: str) -> list[str]:
    return [line.strip() for line in said.splitlines() if line.strip().startswith("state.")]


# -- protocols


def test_a_protocol_that_holds_is_not_falsified() -> None:
    run_state_machine_as_test(Locking, settings=settings(QUICK, max_examples=30))


def test_a_bug_of_a_protocol_is_found_shrunk_and_shown() -> None:
    error, said = falsified(LeakyLocking, max_examples=1000, stateful_step_count=20)
    assert isinstance(error, AssertionError)
    steps = steps_in(said)
    verbs = [step.partition("verb=")[2].strip("')") for step in steps if "verb=" in step]
    assert sorted(verbs) == ["acquire", "acquire", "rashly"]
    assert steps[-2:] == ["state.look()", "state.teardown()"]
    assert "What happened" in said
    assert "/client-" in said


class Ordered(ActorMachine):
    """Two senders, of which the second is thought to come second."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.target: ActorRef[str, None] = self.system.spawn(lambda ctx, m: self.log.append(m), name="target")
        self.senders: list[ActorRef[str, None]] = [
            self.system.spawn(lambda ctx, m: self.target.tell(m), name=f"sender-{n}") for n in range(2)
        ]
        self.settle()

    @rule()
    def send(self) -> None:
        self.senders[0].tell("first")
        self.senders[1].tell("second")
        self.settle()
        assert self.log[-2:] == ["first", "second"]


def test_a_bug_that_takes_another_order_is_shrunk_to_one_deviation_beside_the_rule() -> None:
    error, said = falsified(Ordered)
    assert isinstance(error, AssertionError)
    assert steps_in(said) == ["state.deviate(schedule={1: (1, 0, 0)})", "state.send()", "state.teardown()"]
    assert "/sender-1 -> /target: 'second'" in said


def test_the_falsifying_example_is_a_program() -> None:
    state = Ordered()
    state.send()
    state.deviate(schedule={1: (1, 0, 0)})
    with pytest.raises(AssertionError):
        state.send()
    state.teardown()


# -- faults


class Working(ActorMachine):
    """A worker that is thought never to fail."""

    faults: ClassVar[Sequence[Fault]] = [faults.crash("worker"), faults.slow("worker"), faults.stop("nobody")]

    def __init__(self) -> None:
        super().__init__()
        self.worker = self.system.spawn(lambda ctx, m: m, name="worker", supervision=Supervision(Directive.STOP))

    @rule()
    def work(self) -> None:
        assert self.run(lambda: self.worker.ask(1, timeout=None)) == 1


def test_a_fault_is_injected_and_shrunk_to_the_next_message() -> None:
    error, said = falsified(Working)
    assert isinstance(error, InjectedFault)
    assert steps_in(said) == ["state.inject(faults=[crash('worker', at=1)])", "state.work()", "state.teardown()"]


def test_a_machine_without_faults_injects_none() -> None:
    class Peaceful(Working):
        faults: ClassVar[Sequence[Fault]] = ()

    run_state_machine_as_test(Peaceful, settings=settings(QUICK, max_examples=20))


def test_faults_are_counted_from_where_they_are_injected() -> None:
    state = Working()
    for _ in range(5):
        state.work()
    state.inject(faults=[faults.crash("worker", at=2), faults.stop("worker", at=2)])
    state.work()
    assert state.worker.is_alive
    with pytest.raises(InjectedFault):
        state.work()
    state.teardown()


# -- the session inside


class Clockwork(ActorMachine):
    config = SystemConfig(max_actors=2, history=True)

    @initialize()
    def begin(self) -> None:
        self.ticks: list[float] = []
        self.clock = self.system.spawn(lambda ctx, message: self.ticks.append(ctx.now()))

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        before = self.now
        self.advance(float(seconds))
        assert self.now == before + seconds

    @rule()
    def tick(self) -> None:
        self.clock.tell("tick")
        self.settle()
        assert self.ticks[-1] == self.now
        assert self.system.ledger().handled == len(self.ticks)


def test_time_is_virtual_and_the_config_is_the_systems() -> None:
    run_state_machine_as_test(Clockwork, settings=settings(QUICK, max_examples=20))
    state = Clockwork()
    assert state.system.config.max_actors == 2
    assert len(state.trace) == 0
    state.teardown()
    assert state.system.phase == "stopped"


def test_what_goes_wrong_in_the_shutdown_is_a_failure_too() -> None:
    class Unruly(ActorMachine):
        @rule()
        def spawn(self) -> None:
            self.system.spawn(Bad)

    class Bad(Actor[Any, Any]):
        def receive(self, message: Any) -> None: ...

        def post_stop(self) -> None:
            raise SystemExit("at the very end")

    error, said = falsified(Unruly, max_examples=5)
    assert "at the very end" in f"{error!r} {error.__cause__!r}"
    assert "What happened" in said


def test_an_assert_of_an_actor_that_does_not_hold_fails_the_rule_that_it_runs_in() -> None:
    def count(ctx: Any, message: int) -> None:
        assert message < 3, "three"

    class Counting(ActorMachine):
        @rule(number=st.integers(0, 10))
        def tell(self, number: int) -> None:
            self.system.spawn(count).tell(number)
            self.settle()

    error, said = falsified(Counting, max_examples=50)
    assert "three" in str(error)
    assert "state.tell(number=3)" in said
    Counting.fatal = ()
    run_state_machine_as_test(Counting, settings=settings(QUICK, max_examples=20))


def test_a_rule_that_fails_is_not_hidden_by_what_the_shutdown_finds() -> None:
    class Hanging(ActorMachine):
        @rule()
        def hang(self) -> None:
            async def wait(ctx: Any, message: Any) -> None:
                await asyncio.Event().wait()

            self.system.spawn(wait).tell("for ever")
            self.advance(1.0)
            raise ValueError("of the rule")

    error, _ = falsified(Hanging, max_examples=5)
    assert isinstance(error, ValueError)


def test_a_machine_can_be_used_while_another_exception_is_handled() -> None:
    try:
        raise KeyError("before")
    except KeyError:
        state = Ordered()
        assert not state.failing
        state.send()
        state.teardown()
    assert state.system.phase == "stopped"
