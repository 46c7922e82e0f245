"""One table for all that restart actors: who ends, who comes back, in which order, and with what reason.

A *front* is one of the ways to have children looked after: a plain `Supervision` below a parent, a `Supervisor`, a
`DynamicSupervisor`, and the kubelet of a troupe, with all three in one pod or with a pod each. Three children are
started, `a`, `b` and `c`, and `b` ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ChildSpec,
    Directive,
    DynamicSupervisor,
    ExitKind,
    ExitReason,
    Restart,
    RestartLimit,
    Scope,
    StartChild,
    Supervision,
    Supervisor,
    SystemConfig,
    props,
)
from greenroom.errors import PodRestartLimit
from greenroom.pods import KubeletConfig, Pod, RestartPolicy, TroupeFailed
from greenroom.testing import Simulation
from tests.pods.troupes import troupe_class
from tests.supervision.children import Boom, Stage, Worker

ONE, REST, ALL = Scope.ONE_FOR_ONE, Scope.REST_FOR_ONE, Scope.ONE_FOR_ALL
PERMANENT, TRANSIENT, TEMPORARY = Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY
NORMAL, FAIL, KILLED, SHUTDOWN = ExitKind.NORMAL, ExitKind.FAIL, ExitKind.KILLED, ExitKind.SHUTDOWN

PLAIN = "Supervision"
SUPERVISOR = "Supervisor"
DYNAMIC = "DynamicSupervisor"
POD = "one pod"
PODS = "a pod each"
# Those that know how a child is to be restarted, for each scope: a pod is always restarted whole.
EACH = (SUPERVISOR, DYNAMIC, PODS)
REST_OF = (SUPERVISOR,)
WHOLE = (SUPERVISOR, POD)


@dataclass(frozen=True)
class Row:
    """What happens when `b` ends: `-b +b` says that it leaves, and comes back. `ended` says who has gone for good."""

    fronts: Sequence[str]
    scope: Scope
    restart: Restart
    exit: ExitKind
    log: str
    ended: dict[str, ExitKind]
    # What whoever looks after them fails with: with the child's own failure, or with one that speaks of the limit.
    boss: type[BaseException] | None = None
    on_limit: Directive = Directive.STOP

    def __str__(self) -> str:
        words = [self.scope.value, self.restart.value, self.exit.value]
        if self.on_limit is Directive.ESCALATE:
            words.append("escalates")
        return " ".join(words)


# fmt: off
TABLE = [
    Row(EACH,             ONE,  PERMANENT, NORMAL,   "-b +b", {}),
    Row(EACH,             ONE,  PERMANENT, FAIL,     "-b +b", {}),
    Row(EACH,             ONE,  PERMANENT, KILLED,   "-b +b", {}),
    Row((*EACH, PLAIN),   ONE,  TRANSIENT, NORMAL,   "-b", {"b": NORMAL}),
    Row((*EACH, PLAIN),   ONE,  TRANSIENT, FAIL,     "-b +b", {}),
    Row(EACH,             ONE,  TRANSIENT, KILLED,   "-b +b", {}),
    Row((PLAIN,),         ONE,  TRANSIENT, KILLED,   "-b", {"b": KILLED}),
    Row((*EACH, PLAIN),   ONE,  TEMPORARY, NORMAL,   "-b", {"b": NORMAL}),
    Row((*EACH, PLAIN),   ONE,  TEMPORARY, FAIL,     "-b", {"b": FAIL}),
    Row((*EACH, PLAIN),   ONE,  TEMPORARY, KILLED,   "-b", {"b": KILLED}),

    Row(REST_OF,          REST, PERMANENT, NORMAL,   "-b -c +b +c", {}),
    Row(REST_OF,          REST, PERMANENT, FAIL,     "-b -c +b +c", {}),
    Row(REST_OF,          REST, PERMANENT, KILLED,   "-b -c +b +c", {}),
    Row((*REST_OF, PLAIN), REST, TRANSIENT, NORMAL,  "-b", {"b": NORMAL}),
    Row((*REST_OF, PLAIN), REST, TRANSIENT, FAIL,    "-b -c +b +c", {}),
    Row(REST_OF,          REST, TRANSIENT, KILLED,   "-b -c +b +c", {}),
    Row((PLAIN,),         REST, TRANSIENT, KILLED,   "-b", {"b": KILLED}),
    Row((*REST_OF, PLAIN), REST, TEMPORARY, NORMAL,  "-b", {"b": NORMAL}),
    Row((*REST_OF, PLAIN), REST, TEMPORARY, FAIL,    "-b", {"b": FAIL}),
    Row((*REST_OF, PLAIN), REST, TEMPORARY, KILLED,  "-b", {"b": KILLED}),

    Row(WHOLE,            ALL,  PERMANENT, NORMAL,   "-b -c -a +a +b +c", {}),
    Row(WHOLE,            ALL,  PERMANENT, FAIL,     "-b -c -a +a +b +c", {}),
    Row(WHOLE,            ALL,  PERMANENT, KILLED,   "-b -c -a +a +b +c", {}),
    Row((*WHOLE, PLAIN),  ALL,  TRANSIENT, NORMAL,   "-b", {"b": NORMAL}),
    Row((*WHOLE, PLAIN),  ALL,  TRANSIENT, FAIL,     "-b -c -a +a +b +c", {}),
    Row(WHOLE,            ALL,  TRANSIENT, KILLED,   "-b -c -a +a +b +c", {}),
    Row((PLAIN,),         ALL,  TRANSIENT, KILLED,   "-b", {"b": KILLED}),
    Row((*WHOLE, PLAIN),  ALL,  TEMPORARY, NORMAL,   "-b", {"b": NORMAL}),
    Row((SUPERVISOR, PLAIN), ALL, TEMPORARY, FAIL,   "-b", {"b": FAIL}),
    Row((SUPERVISOR, PLAIN), ALL, TEMPORARY, KILLED, "-b", {"b": KILLED}),
    # A pod ends with the first of its actors that fails.
    Row((POD,),           ALL,  TEMPORARY, FAIL,     "-b -c -a", {"b": FAIL, "ac": SHUTDOWN}),
    Row((POD,),           ALL,  TEMPORARY, KILLED,   "-b -c -a", {"b": KILLED, "ac": SHUTDOWN}),

    # Whoever looks after them is told to stop.
    Row((*EACH, PLAIN),   ONE,  PERMANENT, SHUTDOWN, "-c -b -a", {"abc": SHUTDOWN}),
    Row((*EACH, PLAIN),   ONE,  TRANSIENT, SHUTDOWN, "-c -b -a", {"abc": SHUTDOWN}),
    Row((*EACH, PLAIN),   ONE,  TEMPORARY, SHUTDOWN, "-c -b -a", {"abc": SHUTDOWN}),
    Row((*REST_OF, PLAIN), REST, PERMANENT, SHUTDOWN, "-c -b -a", {"abc": SHUTDOWN}),
    Row((*REST_OF, PLAIN), REST, TRANSIENT, SHUTDOWN, "-c -b -a", {"abc": SHUTDOWN}),
    Row((*REST_OF, PLAIN), REST, TEMPORARY, SHUTDOWN, "-c -b -a", {"abc": SHUTDOWN}),
    Row((*WHOLE, PLAIN),  ALL,  PERMANENT, SHUTDOWN, "-c -b -a", {"abc": SHUTDOWN}),
    Row((*WHOLE, PLAIN),  ALL,  TRANSIENT, SHUTDOWN, "-c -b -a", {"abc": SHUTDOWN}),
    Row((*WHOLE, PLAIN),  ALL,  TEMPORARY, SHUTDOWN, "-c -b -a", {"abc": SHUTDOWN}),
]

# `b` ends for the second time, and one restart is allowed.
LIMITS = [
    Row(EACH,     ONE,  PERMANENT, NORMAL, "-b -c -a", {"abc": SHUTDOWN}, RestartLimit),
    Row(EACH,     ONE,  PERMANENT, FAIL,   "-b -c -a", {"b": FAIL, "ac": SHUTDOWN}, Boom),
    Row(EACH,     ONE,  PERMANENT, KILLED, "-b -c -a", {"b": KILLED, "ac": SHUTDOWN}, RestartLimit),
    Row(EACH,     ONE,  TRANSIENT, FAIL,   "-b -c -a", {"b": FAIL, "ac": SHUTDOWN}, Boom),
    Row(EACH,     ONE,  TRANSIENT, KILLED, "-b -c -a", {"b": KILLED, "ac": SHUTDOWN}, RestartLimit),
    Row(REST_OF,  REST, PERMANENT, NORMAL, "-b -c -a", {"abc": SHUTDOWN}, RestartLimit),
    Row(REST_OF,  REST, PERMANENT, FAIL,   "-b -c -a", {"b": FAIL, "ac": SHUTDOWN}, Boom),
    Row(REST_OF,  REST, TRANSIENT, KILLED, "-b -c -a", {"b": KILLED, "ac": SHUTDOWN}, RestartLimit),
    Row(WHOLE,    ALL,  PERMANENT, NORMAL, "-b -c -a", {"abc": SHUTDOWN}, RestartLimit),
    Row(WHOLE,    ALL,  PERMANENT, FAIL,   "-b -c -a", {"b": FAIL, "ac": SHUTDOWN}, Boom),
    Row(WHOLE,    ALL,  TRANSIENT, KILLED, "-b -c -a", {"b": KILLED, "ac": SHUTDOWN}, RestartLimit),
    # By a plain Supervision the others go on, unless it says that the failure is their parent's.
    Row((PLAIN,), ONE,  TRANSIENT, FAIL,   "-b", {"b": FAIL}),
    Row((PLAIN,), REST, TRANSIENT, FAIL,   "-b", {"b": FAIL}),
    Row((PLAIN,), ALL,  TRANSIENT, FAIL,   "-b", {"b": FAIL}),
    Row((PLAIN,), ONE,  TRANSIENT, FAIL,   "-b -c -a", {"b": FAIL, "ac": SHUTDOWN}, Boom, Directive.ESCALATE),
    Row((PLAIN,), REST, TRANSIENT, FAIL,   "-b -c -a", {"b": FAIL, "ac": SHUTDOWN}, Boom, Directive.ESCALATE),
    Row((PLAIN,), ALL,  TRANSIENT, FAIL,   "-b -c -a", {"b": FAIL, "ac": SHUTDOWN}, Boom, Directive.ESCALATE),
]
# fmt: on


class Ends:
    """Observes how actors end."""

    def __init__(self) -> None:
        self.reasons: dict[ActorRef[Any, Any], ExitReason] = {}

    def actor_stopped(self, ref: ActorRef[Any, Any], reason: ExitReason) -> None:
        self.reasons[ref] = reason


class Company:
    """Three children, and who looks after them."""

    def __init__(self, system: ActorSystem, stage: Stage) -> None:
        self.system = system
        self.stage = stage
        self.refs: dict[str, ActorRef[Any, Any]] = {}
        self._ends = Ends()
        system.observers.add(self._ends)
        # Tells whoever looks after them to stop; and what that one has failed with.
        self.stop: Callable[[], object] = system.stop
        self.failure: BaseException | None = None

    def end(self, how: ExitKind) -> None:
        if how is SHUTDOWN:
            self.stop()
        elif how is NORMAL:
            self.refs["b"].stop()
        elif how is FAIL:
            self.refs["b"].tell(Boom())
        else:
            self.refs["b"].kill()

    def ended(self) -> dict[str, ExitKind]:
        """Who has ended for good."""
        found = {name: self._ends.reasons.get(ref) for name, ref in self.refs.items()}
        return {name: reason.kind for name, reason in found.items() if reason is not None}

    def reason_of(self, ref: ActorRef[Any, Any]) -> BaseException | None:
        reason = self._ends.reasons.get(ref)
        return None if reason is None else reason.cause


Front = AbstractAsyncContextManager[Company]


@asynccontextmanager
async def under_boss(stage: Stage, hire: Callable[[Company, ActorSystem], Any]) -> AsyncIterator[Company]:
    """A system where `hire` spawns somebody who looks after three children."""
    async with ActorSystem(config=SystemConfig(supervision=Supervision(Directive.STOP))) as system:
        company = Company(system, stage)
        boss: ActorRef[Any, Any] = await hire(company, system)
        company.stop = boss.stop
        yield company
        company.failure = company.reason_of(boss)


def plain(row: Row, stage: Stage, limit: int | None) -> Front:
    directive = Directive.STOP if row.restart is TEMPORARY else Directive.RESTART
    supervision = Supervision(directive, row.scope, limit, 60.0, row.on_limit, backoff=None)

    class Parent(Actor[Any, None]):
        def pre_start(self) -> None:
            for name in "abc":
                self.ctx.spawn(Worker, stage, name, name=name, supervision=supervision)

        def receive(self, message: Any) -> None: ...

    async def hire(company: Company, system: ActorSystem) -> ActorRef[Any, Any]:
        boss = system.spawn(Parent, name="boss")
        await system.settle()
        company.refs = {name: found for name in "abc" if (found := system.actor(f"/boss/{name}")) is not None}
        return boss

    return under_boss(stage, hire)


def supervisor(row: Row, stage: Stage, limit: int | None) -> Front:
    async def hire(company: Company, system: ActorSystem) -> ActorRef[Any, Any]:
        children = stage.children("abc", restart=row.restart)
        boss = system.spawn(Supervisor, Supervisor.spec(children, row.scope, limit, 60.0), name="boss")
        await boss.started()
        company.refs = {name: found for name in "abc" if (found := system.actor(f"/boss/{name}")) is not None}
        return boss

    return under_boss(stage, hire)


def dynamic(row: Row, stage: Stage, limit: int | None) -> Front:
    async def hire(company: Company, system: ActorSystem) -> ActorRef[Any, Any]:
        template = ChildSpec("child", Worker, (stage,), restart=row.restart)
        boss = system.spawn(DynamicSupervisor, DynamicSupervisor.spec(template, limit, 60.0), name="boss")
        company.refs = {name: await boss.ask(StartChild(name)) for name in "abc"}
        return boss

    return under_boss(stage, hire)


POLICIES = {policy.restart: policy for policy in RestartPolicy}


@asynccontextmanager
async def troupe_of(stage: Stage, limit: int | None, **pods: Pod) -> AsyncIterator[Company]:
    """A troupe of these pods, and of one that goes on."""
    idle = Pod(props(Worker, Stage(), "idle"))
    troupe = troupe_class(**pods, idle=idle).new(kubelet=KubeletConfig(max_restarts=limit, within=60.0))
    company = Company(troupe.system, stage)
    try:
        async with troupe:
            await troupe.system.settle()
            for name, pod in pods.items():
                found = {actor: troupe.system.actor(f"/{name}/{actor}") for actor in pod.actors}
                company.refs.update({actor: ref for actor, ref in found.items() if ref is not None})
            company.stop = troupe.stop
            yield company
    except TroupeFailed as failed:
        company.failure = failed.__cause__


def one_pod(row: Row, stage: Stage, limit: int | None) -> Front:
    actors: dict[str, Any] = {name: props(Worker, stage, name) for name in "abc"}
    return troupe_of(stage, limit, pod=Pod(**actors, restart=POLICIES[row.restart]))


def a_pod_each(row: Row, stage: Stage, limit: int | None) -> Front:
    policy = POLICIES[row.restart]
    return troupe_of(stage, limit, **{name: Pod(props(Worker, stage, name), restart=policy) for name in "abc"})


DRIVERS = {PLAIN: plain, SUPERVISOR: supervisor, DYNAMIC: dynamic, POD: one_pod, PODS: a_pod_each}
# Their children leave at once, and not one after the other.
AT_ONCE = (PLAIN, PODS)


def cases(table: list[Row]) -> list[Any]:
    return [pytest.param(front, row, id=f"{front}: {row}") for row in table for front in row.fronts]


def check(front: str, row: Row, log: list[str], company: Company) -> None:
    """Fail unless it has gone as the row says."""
    wanted = row.log.split()
    if front in AT_ONCE:
        left = row.log.count("-")
        assert sorted(log[:left]) == sorted(wanted[:left])
        assert log[left:] == wanted[left:]
    else:
        assert log == wanted
    assert company.ended() == {name: kind for names, kind in row.ended.items() for name in names}


def simulate(main: Callable[[], Any]) -> None:
    for seed in range(3):
        simulation = Simulation(seed)
        try:
            simulation.run_main(main)
        except BaseException as error:
            error.add_note(f"in {simulation!r}")
            raise


@pytest.mark.parametrize(("front", "row"), cases(TABLE))
def test_who_leaves_and_who_comes_back(front: str, row: Row) -> None:
    async def main() -> None:
        stage = Stage()
        async with DRIVERS[front](row, stage, None) as company:
            assert sorted(stage.take()) == ["+a", "+b", "+c"]
            company.end(row.exit)
            if row.exit is not SHUTDOWN:  # else what looks after them ends, and with pods that is the system
                await company.system.settle()
                check(front, row, stage.take(), company)
        if row.exit is SHUTDOWN:
            check(front, row, stage.take(), company)
        assert company.failure is None

    simulate(main)


@pytest.mark.parametrize(("front", "row"), cases(LIMITS))
def test_one_restart_too_many_ends_who_has_to_end(front: str, row: Row) -> None:
    async def main() -> None:
        stage = Stage()
        async with DRIVERS[front](row, stage, 1) as company:
            company.end(row.exit)
            await company.system.settle()
            assert company.ended() == {}
            stage.take()
            company.end(row.exit)
            await company.system.settle()
            check(front, row, stage.take(), company)
        limit = PodRestartLimit if row.boss is RestartLimit and front in (POD, PODS) else row.boss
        assert type(company.failure) is (limit or type(None))

    simulate(main)
