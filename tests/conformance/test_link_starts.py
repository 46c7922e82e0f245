"""Links, watches and monitors of actors that do not come up, or are about to go (cases 17, 22, 58)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import ActorSystem, Context, ExitKind, ExitReason, ManualClock
from tests.conformance.bonded import ENDS, SLOWLY, Trapper, exits
from tests.conformance.watchers import BAD, Doer, Plain, Ref, Watcher, end


class Failing(Doer):
    """Is linked to some, watches and monitors them, then fails to start."""

    def __init__(self, cause: BaseException, others: list[Ref]) -> None:
        super().__init__()
        self.cause = cause
        self.others = others

    def pre_start(self) -> Any:
        for other in self.others:
            self.ctx.link(other)
            self.ctx.watch(other)
            self.ctx.monitor(other)
        raise self.cause.with_traceback(None)


class FailingLater(Failing):
    async def pre_start(self) -> None:
        await asyncio.sleep(0)
        super().pre_start()


@pytest.mark.parametrize("kind", [Failing, FailingLater])
async def test_the_links_and_watches_of_an_actor_whose_start_failed_are_honoured(  # case 22
    system: ActorSystem, kind: type[Failing]
) -> None:
    cause = ValueError("cannot start")
    log: list[Any] = []
    peer, trapper, watcher = system.spawn(Doer), system.spawn(Trapper, log), system.spawn(Watcher, log)
    failing = system.spawn(kind, cause, [peer, trapper])
    watcher.tell(lambda ctx: ctx.watch(failing))
    watcher.tell(lambda ctx: ctx.monitor(failing) and None)
    assert (await peer.terminated()).cause is cause
    await system.settle()
    reason = ExitReason(ExitKind.FAIL, cause)
    assert exits([one for one in log if type(one).__name__ == "Exit"]) == [(failing, reason)]
    assert [one for one in log if isinstance(one, tuple)] == [(failing, cause)]
    assert [one.reason for one in log if type(one).__name__ == "Down"] == [reason]
    await end(trapper)
    await system.settle()


@pytest.mark.parametrize("kind", [Failing, FailingLater])
async def test_a_start_that_is_tried_again_fires_no_link_until_it_is_given_up(
    system: ActorSystem, clock: ManualClock, kind: type[Failing]
) -> None:
    log: list[Any] = []
    cause = ValueError("cannot start")
    trapper = system.spawn(Trapper, log)
    failing = system.spawn(kind, cause, [trapper], supervision=SLOWLY)
    for _ in range(3):
        await system.settle()
        assert log == []
        await clock.advance(1.0)
    await system.settle()
    assert not failing.is_alive
    assert exits(log) == [(failing, ExitReason(ExitKind.FAIL, cause))]


@pytest.mark.parametrize("how", ["stop", "kill", "fail"])
async def test_a_peer_that_has_not_started_yet_can_be_linked_to(system: ActorSystem, how: str) -> None:  # case 22
    log: list[Any] = []
    trapper = system.spawn(Trapper, log)
    await trapper.started()

    def act(ctx: Context) -> None:
        peer = ctx.system.spawn(Plain)
        ctx.link(peer)
        ENDS[how](peer)

    await trapper.ask(act)
    await system.settle()
    (one,) = log
    assert one.reason == await one.ref.terminated()


async def test_a_link_made_in_post_stop_is_a_link(system: ActorSystem) -> None:  # case 22, 58
    class Last(Doer):
        def post_stop(self) -> None:
            self.ctx.link(peer[0])
            self.ctx.monitor(peer[0])

    peer: list[Ref] = []
    peer.append(system.spawn(Doer))
    me = system.spawn(Last)
    await end(me, BAD)
    assert (await peer[0].terminated()).cause is BAD
