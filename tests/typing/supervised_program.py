"""A user's program that supervises, links and monitors: type checkers must find nothing wrong with it, and it runs."""

from __future__ import annotations

import asyncio
from typing import Any, assert_type

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    AutoShutdown,
    Backoff,
    ChildCounts,
    ChildInfo,
    ChildSpec,
    CountChildren,
    DeleteChild,
    Directive,
    Down,
    DynamicSupervisor,
    Exit,
    ExitReason,
    MailboxConfig,
    MonitorRef,
    OnRestart,
    Restart,
    RestartChild,
    Scope,
    Shutdown,
    StartChild,
    State,
    StopChild,
    Supervision,
    Supervisor,
    SupervisorSpec,
    SystemConfig,
    WhichChildren,
    handles,
    props,
)


class Worker(Actor[str, str]):
    """Keeps its count over a restart."""

    def __init__(self, name: str = "worker") -> None:
        self.name = name
        self.count = 0

    def snapshot(self) -> int:
        return self.count

    def restore(self, state: int) -> None:
        self.count = state

    def pre_restart(self, cause: BaseException | None) -> None: ...

    async def post_restart(self) -> None: ...

    def receive(self, message: str) -> str:
        if message == "crash":
            raise ValueError(message)
        self.count += 1
        return f"{self.name} {self.count}"


class Guard(Actor):
    """Links to one, monitors another."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.mrefs: list[MonitorRef] = []

    def pre_start(self) -> None:
        assert_type(self.ctx.trap_exit, bool)
        self.ctx.trap_exit = True

    @handles(ActorRef)
    def guard(self, ref: ActorRef[Any, Any]) -> None:
        self.ctx.link(ref)
        self.mrefs.append(self.ctx.monitor(ref))
        spare = self.ctx.monitor(ref)
        assert_type(self.ctx.demonitor(spare, flush=True), bool)

    @handles(Down)
    def down(self, down: Down) -> None:
        assert_type(down.mref, MonitorRef)
        assert_type(down.reason, ExitReason)
        self.heard.append(down.ref)

    @handles(Exit)
    def ended(self, notice: Exit) -> None:
        self.ctx.unlink(notice.ref)
        self.heard.append(notice.reason)

    @handles(str)
    def tell(self, _: str) -> list[object]:
        return self.heard


def decide(cause: BaseException) -> Directive:
    return Directive.RESUME if isinstance(cause, KeyError) else Directive.RESTART


PATIENT = Supervision(
    decide,
    scope=Scope.ALL_FOR_ONE,
    max_restarts=None,
    within=60.0,
    on_limit=Directive.ESCALATE,
    backoff=Backoff(min=0.001, max=1.0, factor=2.0, jitter=0.1),
    mailbox=OnRestart.KEEP,
)


async def main() -> None:
    config = SystemConfig(supervision=Supervision(Directive.STOP))
    async with ActorSystem("supervised", config=config) as system:
        worker = system.spawn(Worker, "ada", supervision=PATIENT)
        assert_type(worker, ActorRef[str, str])
        worker.tell("crash")
        assert_type(await worker.ask("work"), str)
        worker.restart()
        worker.restart(ValueError("again"))

        spec = Supervisor.spec(
            children=[
                ChildSpec("a", props(Worker, "a"), shutdown=Shutdown.INFINITY),
                ChildSpec("b", Worker, kwargs={"name": "b"}, restart=Restart.TRANSIENT, significant=True),
                ChildSpec("c", Worker, restart=Restart.TEMPORARY, shutdown=Shutdown.KILL, mailbox=MailboxConfig(10)),
            ],
            scope=Scope.REST_FOR_ONE,
            intensity=5,
            period=10.0,
            auto_shutdown=AutoShutdown.ALL,
        )
        assert_type(spec, SupervisorSpec)
        supervisor = system.spawn(Supervisor, spec, name="top")
        children = await supervisor.ask(WhichChildren())
        assert_type(children, list[ChildInfo])
        assert [child.name for child in children] == ["a", "b", "c"]
        assert_type(children[0].state, State)
        assert_type(await supervisor.ask(CountChildren()), ChildCounts)
        assert_type(await supervisor.ask(StopChild("a")), None)
        assert_type(await supervisor.ask(RestartChild("a")), ActorRef[Any, Any])
        added = await supervisor.ask(StartChild(ChildSpec("d", Worker)))
        assert_type(added, ActorRef[Any, Any])
        await supervisor.ask(StopChild(added))
        assert_type(await supervisor.ask(DeleteChild("d")), None)

        crowd = system.spawn(DynamicSupervisor, DynamicSupervisor.spec(ChildSpec("one", Worker), max_children=10))
        grace = await crowd.ask(StartChild("grace"))
        guard = system.spawn(Guard)
        await guard.ask(grace)
        await crowd.ask(StopChild(grace))
        await system.settle()
        assert len(await guard.ask("what?")) == 2


if __name__ == "__main__":
    asyncio.run(main())
