"""What is logged of failures under a `Supervisor`: one record each, with what the supervisor decided (J10)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Backoff,
    ChildSpec,
    ManualClock,
    Restart,
    Scope,
    Supervisor,
    SupervisorSpec,
)
from greenroom.runtimelog import LOGGED_PER_PERIOD
from tests.conformance.watchers import BAD

Ref = ActorRef[Any, Any]
Caplog = pytest.LogCaptureFixture


class Worker(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        raise message


def failures(caplog: Caplog) -> list[Any]:
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


async def employ(system: ActorSystem, spec: SupervisorSpec) -> list[Ref]:
    """The workers of a supervisor called `boss`."""
    boss = system.spawn(Supervisor, spec, name="boss")
    await boss.started()
    found = [system.actor(f"/boss/{child.name}") for child in spec.children]
    return [ref for ref in found if ref is not None]


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("delay", [0.0, 2.5])
async def test_the_record_says_what_the_supervisor_does_and_when(
    system: ActorSystem, clock: ManualClock, scope: Scope, delay: float, caplog: Caplog
) -> None:
    backoff = Backoff(min=delay, max=delay) if delay else None
    spec = Supervisor.spec([ChildSpec(name, Worker) for name in "abc"], scope=scope, backoff=backoff)
    refs = await employ(system, spec)
    refs[1].tell(BAD)
    await system.settle()
    await clock.advance(delay)
    assert all(ref.is_alive for ref in refs)
    (record,) = failures(caplog)
    assert (record.actor, record.incarnation, record.message_type) == ("/boss/b", 1, "ValueError")
    assert record.acts_in == delay
    assert "/boss restarts" in record.decision
    assert ("in 2.5 s" if delay else "at once") in record.decision
    for part in ("/boss/b", "ValueError", "bad", record.decision):
        assert part in record.getMessage()


async def test_a_child_that_is_not_restarted_is_told_of_as_such(system: ActorSystem, caplog: Caplog) -> None:
    (ref,) = await employ(system, Supervisor.spec([ChildSpec("a", Worker, restart=Restart.TEMPORARY)]))
    ref.tell(BAD)
    await ref.terminated()
    (record,) = failures(caplog)
    assert record.actor == "/boss/a"
    assert "not" in record.decision
    assert "restart" in record.decision


async def test_one_restart_too_many_is_a_record_of_the_child_and_one_of_the_supervisor(
    system: ActorSystem, caplog: Caplog
) -> None:  # case 37
    (ref,) = await employ(system, Supervisor.spec([ChildSpec("a", Worker)], intensity=1, period=5.0))
    ref.tell(BAD)
    ref.tell(BAD)
    await ref.terminated()
    await system.settle()
    assert not ref.is_alive
    records = failures(caplog)
    assert [(record.actor, record.incarnation) for record in records] == [("/boss/a", 1), ("/boss/a", 2), ("/boss", 1)]
    assert "more than 1 restart in 5 s" in records[1].getMessage()
    assert "/boss" in records[1].decision
    assert "it is stopped" in records[2].decision
    assert records[2].exc_info[1] is BAD


async def test_a_child_in_a_crash_loop_does_not_fill_the_log(
    system: ActorSystem, clock: ManualClock, caplog: Caplog
) -> None:
    (ref,) = await employ(system, Supervisor.spec([ChildSpec("a", Worker)], intensity=20, period=60.0))
    for _ in range(21):
        ref.tell(BAD)
    await ref.terminated()
    await system.settle()
    records = [record for record in failures(caplog) if record.actor == "/boss/a"]
    assert len(records) == LOGGED_PER_PERIOD + 1
    assert records[-1].not_logged == 20 - LOGGED_PER_PERIOD
    assert "more than 20 restarts" in records[-1].decision


@pytest.mark.parametrize("kill", [True, False])
async def test_a_failure_that_the_supervisor_does_not_live_to_decide_is_told_too(
    system: ActorSystem, kill: bool, caplog: Caplog
) -> None:
    gate = asyncio.Event()

    class Slow(Worker):
        async def post_stop(self) -> None:
            entered.set()
            await gate.wait()

    entered = asyncio.Event()
    (ref,) = await employ(system, Supervisor.spec([ChildSpec("a", Slow)]))
    boss = system.actor("/boss")
    assert boss is not None
    ref.tell(BAD)
    await entered.wait()
    if kill:
        boss.kill()
    else:
        boss.stop()
    gate.set()
    await boss.terminated()
    (record,) = (one for one in failures(caplog) if one.actor == "/boss/a" and "decision" in one.__dict__)
    assert record.message_type == "ValueError"
    assert record.exc_info[1] is BAD


async def test_ends_that_are_no_failures_are_no_errors(system: ActorSystem, caplog: Caplog) -> None:
    (ref,) = await employ(system, Supervisor.spec([ChildSpec("a", Worker)]))
    ref.stop()
    await system.settle()
    ref.kill()
    await system.settle()
    assert ref.is_alive
    assert failures(caplog) == []
