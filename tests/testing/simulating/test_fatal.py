"""A failed `assert` of an actor fails the run, whatever its supervision does, unless it was raised to an asker (B1)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, ActorTerminated, AskTimeout, Directive, Supervision
from greenroom.errors import ConfigError, SimulationStuck, SystemFailed
from greenroom.testing import Simulation, assert_ended, explore, faults

SEED = 7


class Till(Actor[int, int]):
    """Never has less than nothing in it."""

    balance = 0

    def receive(self, message: int) -> int:
        self.balance += message
        assert self.balance >= 0, "somebody took too much"
        return self.balance


class SlowTill(Till):
    """Takes its time."""

    async def receive(self, message: int) -> int:  # type: ignore[override]
        await asyncio.sleep(1)
        return super().receive(message)


class Raises(Actor[BaseException, None]):
    """Lets out what it is told."""

    def receive(self, message: BaseException) -> None:
        raise message

    def restore(self, state: Any) -> None: ...


def run(program: Any, **settings: Any) -> Any:
    return Simulation(SEED, **settings).run(program)


async def take(system: ActorSystem, till: type[Till] = Till, **options: Any) -> None:
    """Take too much."""
    system.spawn(till, name="till", **options).tell(-1)
    await asyncio.sleep(2)


@pytest.mark.parametrize("kind", [Till, SlowTill])
@pytest.mark.parametrize("directive", [Directive.RESUME, Directive.RESTART, Directive.STOP])
def test_it_fails_the_run_however_it_is_supervised(kind: type[Till], directive: Directive) -> None:
    with pytest.raises(AssertionError, match="took too much") as caught:
        run(lambda system: take(system, kind, supervision=Supervision(directive)))
    assert caught.value.__notes__ == ["It was /till that let it out, and nobody was told: a simulation fails then."]


@pytest.mark.parametrize("hook", ["pre_start", "pre_stop", "post_stop", "pre_restart", "post_restart", "snapshot"])
def test_so_does_one_in_a_hook(hook: str) -> None:
    def fail(self: Any, *details: object) -> None:
        raise AssertionError(f"in {hook}")

    kind = type("Hooked", (Raises,), {hook: fail})

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(kind, name="hooked", supervision=Supervision(max_restarts=1))
        if "restart" in hook or hook == "snapshot":
            ref.tell(ValueError())
        await asyncio.sleep(10)

    with pytest.raises(AssertionError, match=f"in {hook}"):
        run(program)
    run(program, fatal=())


class Elsewhere(Actor[str, None]):
    """Breaks where it is no handler that lets it out."""

    def receive(self, message: str) -> Any:
        return getattr(self, message)()

    async def breaks(self, *_: object) -> None:
        await asyncio.sleep(1)
        raise AssertionError("elsewhere")

    def in_a_pipe(self) -> None:
        self.ctx.pipe_to_self(self.breaks())

    def in_a_map(self) -> None:
        def broken(result: object) -> object:
            raise AssertionError("elsewhere")

        self.ctx.pipe_to_self(asyncio.sleep(1), map=broken)

    async def in_a_group(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.breaks())

    def in_a_task(self) -> None:
        asyncio.get_running_loop().create_task(self.breaks())

    def by_order(self) -> None:
        self.ctx.self.fail(AssertionError("elsewhere"))

    async def as_a_cause(self) -> None:
        try:
            await self.breaks()
        except AssertionError as exc:
            raise RuntimeError("elsewhere") from exc

    def in_a_strategy(self) -> None:
        def decide(cause: BaseException) -> Directive:
            raise AssertionError("elsewhere")

        self.ctx.spawn(Raises, supervision=Supervision(decide)).tell(ValueError())


@pytest.mark.parametrize(
    "where", ["in_a_pipe", "in_a_map", "in_a_group", "in_a_task", "by_order", "as_a_cause", "in_a_strategy"]
)
def test_so_does_one_that_is_let_out_elsewhere(where: str) -> None:
    async def program(system: ActorSystem) -> None:
        parent = system.spawn(Elsewhere, name="parent", supervision=Supervision(Directive.STOP))
        parent.tell(where)
        await asyncio.sleep(5)

    with pytest.raises((AssertionError, ExceptionGroup, RuntimeError)) as caught:
        run(program)
    assert "elsewhere" in repr(caught.value)
    run(program, fatal=())


def test_so_does_one_in_a_handler_that_had_to_be_abandoned() -> None:
    async def hold(ctx: Any, message: object) -> None:
        try:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
        finally:
            raise AssertionError("in its last moment")

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(hold)
        ref.tell("hold")
        await asyncio.sleep(1)
        ref.kill()
        await asyncio.sleep(100)

    with pytest.raises(AssertionError, match="last moment"):
        run(program)


def test_what_the_program_itself_raises_comes_first_and_the_other_is_mentioned() -> None:
    async def program(system: ActorSystem) -> None:
        await take(system)
        raise LookupError("the program's own")

    with pytest.raises(LookupError) as caught:
        run(program)
    (note,) = caught.value.__notes__
    assert note.startswith("Before, /till let out AssertionError: somebody took too much")


def test_of_several_one_is_raised_and_the_others_are_mentioned() -> None:
    async def program(system: ActorSystem) -> None:
        for name in "abc":
            system.spawn(Till, name=name).tell(-1)
        await system.settle()

    with pytest.raises(AssertionError) as caught:
        run(program, schedule="fifo")
    assert [note.split(" let ")[0] for note in caught.value.__notes__[1:]] == ["Besides, /b", "Besides, /c"]


class Frozen(AssertionError):
    """Takes no notes."""

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError("frozen")


def test_one_that_takes_no_notes_is_raised_all_the_same() -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(Raises).tell(Frozen())
        await system.settle()

    with pytest.raises(Frozen):
        run(program)


def test_a_program_that_waits_in_vain_because_of_it_says_so() -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(Till, name="till").tell(-1)
        await asyncio.Event().wait()

    with pytest.raises(SimulationStuck) as caught:
        run(program)
    assert isinstance(caught.value.__cause__, AssertionError)
    assert "\nbecause of AssertionError: somebody took too much" in str(explore(program, runs=1, output=None))


@pytest.mark.parametrize(
    ("fatal", "raised", "fails"),
    [
        (AssertionError, ValueError(), False),
        ((), AssertionError(), False),
        (ValueError, ValueError(), True),
        (ValueError, AssertionError(), False),
        (LookupError, KeyError(), True),
        ((KeyError, ValueError), ValueError(), True),
        (Exception, AssertionError(), True),
    ],
)
def test_which_exceptions_are_fatal_can_be_said(fatal: Any, raised: Exception, fails: bool) -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(Raises).tell(raised)
        await system.settle()

    if fails:
        with pytest.raises(type(raised)):
            run(program, fatal=fatal)
    else:
        run(program, fatal=fatal)


@pytest.mark.parametrize("error", [None, ValueError, lambda: AssertionError("on purpose")])
def test_what_was_injected_is_not(error: Any) -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(Till, name="till").tell(1)
        await system.settle()

    simulation = Simulation(SEED, faults=[faults.crash("till", at=1, error=error)], fatal=Exception)
    simulation.run(program)
    assert any(event.kind == "failed" for event in simulation.trace)


@pytest.mark.parametrize("fatal", ["AssertionError", 3, None, [ValueError], (ValueError, 3), int])
def test_what_is_no_kind_of_exception_is_refused(fatal: Any) -> None:
    with pytest.raises(ConfigError, match=r"^fatal="):
        Simulation(fatal=fatal)
    with pytest.raises(ConfigError, match=r"^fatal="):
        explore(take, fatal=fatal, output=None)


@pytest.mark.parametrize(
    ("fatal", "shown"),
    [
        (AssertionError, "Simulation(seed=3)"),
        ((), "Simulation(seed=3, fatal=())"),
        (ValueError, "Simulation(seed=3, fatal=ValueError)"),
        ((KeyError, ValueError), "Simulation(seed=3, fatal=(KeyError, ValueError))"),
    ],
)
def test_it_is_shown_when_it_is_not_the_usual_kind(fatal: Any, shown: str) -> None:
    assert repr(Simulation(3, fatal=fatal)) == shown


def test_a_session_tells_once_and_goes_on() -> None:
    with Simulation(SEED).open() as session:
        till = session.system.spawn(Till, supervision=Supervision(Directive.RESUME))
        till.tell(-1)
        with pytest.raises(AssertionError, match="took too much"):
            session.settle()
        assert session.run(lambda: till.ask(3)) == 2


@pytest.mark.parametrize("hook", ["receive", "post_stop"])
def test_a_session_that_ends_with_an_error_tells_of_that_alone(hook: str) -> None:
    def fail(self: Any, *details: object) -> None:
        raise AssertionError(f"in {hook}")

    kind = type("Hooked", (Raises,), {hook: fail})

    def go_wrong() -> None:
        with Simulation(SEED).open() as session:
            session.system.spawn(kind).tell(ValueError("not told"))
            raise LookupError("the test's own")

    with pytest.raises(LookupError):
        go_wrong()


def test_exploring_finds_it_and_says_how_to_run_it_again() -> None:
    async def program(system: ActorSystem) -> None:
        till = system.spawn(Till, name="till")

        def pass_on(ctx: Any, amount: int) -> None:
            till.tell(amount)

        system.spawn(pass_on, name="giver").tell(1)
        system.spawn(pass_on, name="taker").tell(-1)
        await system.settle()

    failure = explore(program, runs=50, output=None).failure
    assert failure is not None
    assert isinstance(failure.error, AssertionError)
    assert len(failure.shortest.script) == 1
    assert explore(program, runs=50, output=None, fatal=()).failure is None
    report = explore(program, runs=50, output=None, fatal=Exception)
    assert f"Simulation(seed={failure.seed}, fatal=Exception).run(program)" in str(report)


def test_many_of_them_are_not_all_kept() -> None:
    async def program(system: ActorSystem) -> None:
        till = system.spawn(Till, supervision=Supervision(Directive.RESUME))
        for _ in range(200):
            till.tell(-1)
        await system.settle()

    simulation = Simulation(SEED)
    with pytest.raises(AssertionError):
        simulation.run(program)
    assert sum(event.kind == "failed" for event in simulation.trace) == 200


BROKEN = "it is broken"
STOPS = Supervision(Directive.STOP)


class Breaks(Actor[str, None]):
    """Breaks, in several ways."""

    shared: AssertionError | None = None

    def receive(self, message: str) -> Any:
        return getattr(self, message)()

    def at_once(self) -> None:
        raise AssertionError(BROKEN)

    async def late(self) -> None:
        await asyncio.sleep(1)
        raise AssertionError(BROKEN)

    def twice(self) -> None:
        error = AssertionError(BROKEN)
        self.ctx.fail_reply(error)
        raise error

    def deferred(self) -> None:
        self.ctx.defer_reply()
        raise AssertionError(BROKEN)

    def again(self) -> None:
        """Lets the same out each time, as one does who awaits what has failed."""
        Breaks.shared = Breaks.shared or AssertionError(BROKEN)
        raise Breaks.shared


class BreaksAtStart(Breaks):
    def pre_start(self) -> None:
        raise AssertionError(BROKEN)


class Asks(Actor[str, str]):
    """Asks another, and lets out what comes of it, or not."""

    def __init__(self, other: ActorRef[str, None], *, minds: bool) -> None:
        self.other = other
        self.minds = minds

    async def receive(self, message: str) -> str:
        try:
            await self.other.ask(message)
        except AssertionError:
            if self.minds:
                raise
        return "dealt with"


def passes(program: Any, **settings: Any) -> bool:
    """Whether the run passes, or is said to be broken."""
    try:
        Simulation(SEED, **settings).run(program)
    except AssertionError as exc:
        if str(exc) != BROKEN:
            raise
        return False
    return True


# -- told


@pytest.mark.parametrize("how", ["at_once", "late", "twice"])
def test_an_asker_is_told(how: str) -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(AssertionError, match=BROKEN):
            await system.spawn(Breaks).ask(how)

    assert passes(program)


def test_an_asker_that_awaits_it_later_is_told() -> None:
    async def program(system: ActorSystem) -> None:
        asked = system.spawn(Breaks).ask("at_once")
        await system.settle()
        with pytest.raises(AssertionError, match=BROKEN):
            await asked

    assert passes(program)


def test_of_many_askers_each_is_told() -> None:
    async def program(system: ActorSystem) -> None:
        asks = [system.spawn(Breaks).ask("at_once") for _ in range(100)]
        assert len(await asyncio.gather(*asks, return_exceptions=True)) == 100

    assert passes(program)


def test_an_asker_is_told_by_an_exception_that_comes_of_it() -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(ActorTerminated) as caught:
            await system.spawn(Breaks, supervision=STOPS).ask("deferred")
        assert isinstance(caught.value.__cause__, AssertionError)

    assert passes(program)


def test_who_awaits_the_start_is_told() -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(AssertionError, match=BROKEN):
            await system.spawn(BreaksAtStart, supervision=STOPS).started()

    assert passes(program)


def test_who_expects_such_an_end_is_told() -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Breaks, supervision=STOPS)
        ref.tell("at_once")
        await assert_ended(ref, AssertionError)

    assert passes(program)


def test_who_ran_the_system_that_it_ended_is_told() -> None:
    async def fail() -> None:
        async with ActorSystem() as system:
            system.spawn(Breaks, supervision=Supervision(Directive.ESCALATE)).tell("at_once")
            await asyncio.sleep(1)

    async def main() -> None:
        with pytest.raises(SystemFailed):
            await fail()

    Simulation(SEED).run_main(main)


@pytest.mark.parametrize("minds", [False, True])
def test_an_actor_that_is_told_deals_with_it_or_lets_it_out_in_its_turn(minds: bool) -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(Asks, system.spawn(Breaks), minds=minds).tell("at_once")
        await asyncio.sleep(1)

    assert passes(program) is not minds


# -- not told


def test_an_asker_that_has_given_up_is_not() -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(AskTimeout):
            await system.spawn(Breaks).ask("late", timeout=0.5)
        await asyncio.sleep(2)

    assert not passes(program)


def test_an_asker_that_never_awaits_it_is_not() -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(Breaks).ask("at_once")
        await asyncio.sleep(1)

    assert not passes(program)


def test_an_asker_that_is_cancelled_before_it_can_hear_of_it_is_not() -> None:
    async def program(system: ActorSystem) -> None:
        asked = system.spawn(Breaks).ask("at_once")

        async def ask() -> None:
            await asked

        asking = asyncio.create_task(ask())
        while not asked.done():  # noqa: ASYNC110 - to the very turn
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    assert not passes(program, schedule="fifo")


def test_who_awaits_the_end_is_not_for_that_is_what_one_awaits() -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Breaks, supervision=STOPS)
        ref.tell("at_once")
        await ref.terminated()

    assert not passes(program)


@pytest.mark.parametrize("then", ["tell", "ask"])
def test_telling_of_one_is_not_telling_of_another_though_it_is_the_same_exception(then: str) -> None:
    Breaks.shared = None

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Breaks, supervision=Supervision(Directive.RESUME))
        if then == "ask":
            ref.tell("again")
        with pytest.raises(AssertionError, match=BROKEN):
            await ref.ask("again")
        if then == "tell":
            ref.tell("again")
        await system.settle()

    assert not passes(program)
