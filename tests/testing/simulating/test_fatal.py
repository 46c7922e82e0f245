"""An `assert` of an actor that does not hold fails the run, whatever its supervision makes of it (B1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, AskTimeout, Directive, Supervision
from greenroom.errors import ConfigError, SimulationStuck
from greenroom.testing import Simulation, explore, faults

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


class Teller(Actor[int, int]):
    """Asks another, and lets out what comes of it, or not."""

    def __init__(self, till: ActorRef[int, int], *, minds: bool) -> None:
        self.till = till
        self.minds = minds

    async def receive(self, message: int) -> int:
        try:
            return await self.till.ask(message)
        except AssertionError:
            if self.minds:
                raise
            return 0


class Raises(Actor[BaseException, None]):
    """Lets out what it is told."""

    def receive(self, message: BaseException) -> None:
        raise message


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
    (note,) = [note for note in caught.value.__notes__ if "asker" in note]
    assert note.startswith("It was /till that let it out")


@pytest.mark.parametrize("hook", ["pre_start", "pre_stop", "post_stop", "pre_restart", "post_restart"])
def test_so_does_one_in_a_hook(hook: str) -> None:
    def fail(self: Any, *details: object) -> None:
        raise AssertionError(f"in {hook}")

    kind = type("Hooked", (Raises,), {hook: fail})

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(kind, name="hooked", supervision=Supervision(max_restarts=1))
        if "restart" in hook:
            ref.tell(ValueError())
        await asyncio.sleep(10)

    with pytest.raises(AssertionError, match=f"in {hook}"):
        run(program)
    run(program, fatal=())


def test_an_asker_that_is_told_has_to_deal_with_it() -> None:
    async def program(system: ActorSystem) -> str:
        with pytest.raises(AssertionError, match="took too much"):
            await system.spawn(Till).ask(-1)
        return "dealt with"

    assert run(program) == "dealt with"


def test_one_that_has_given_up_has_not_been_told() -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(AskTimeout):
            await system.spawn(SlowTill).ask(-1, timeout=0.5)
        await asyncio.sleep(2)

    with pytest.raises(AssertionError, match="took too much"):
        run(program)


@pytest.mark.parametrize("minds", [True, False])
def test_an_actor_that_is_told_deals_with_it_or_lets_it_out_in_its_turn(minds: bool) -> None:
    async def program(system: ActorSystem) -> None:
        till = system.spawn(Till)
        system.spawn(Teller, till, minds=minds, name="teller").tell(-1)
        await asyncio.sleep(1)

    if not minds:
        run(program)
        return
    with pytest.raises(AssertionError, match="took too much") as caught:
        run(program)
    assert any("/teller" in note for note in caught.value.__notes__)


def test_what_the_program_itself_raises_comes_first() -> None:
    async def program(system: ActorSystem) -> None:
        await take(system)
        raise LookupError("the program's own")

    with pytest.raises(LookupError):
        run(program)


def test_a_program_that_waits_in_vain_because_of_it_says_so() -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(Till, name="till").tell(-1)
        await asyncio.Event().wait()

    with pytest.raises(SimulationStuck) as caught:
        run(program)
    assert isinstance(caught.value.__cause__, AssertionError)


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


def test_what_was_injected_is_not() -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(Till, name="till").tell(1)
        await system.settle()

    simulation = Simulation(SEED, faults=[faults.crash("till", at=1)], fatal=Exception)
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
    assert failure.shortest is not None
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
