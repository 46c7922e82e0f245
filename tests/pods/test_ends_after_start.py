"""Actors of a pod that end right after they have started, or are restarted by themselves: no message is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Actor, Backoff, OnRestart, Props, props
from greenroom.ledger import Ledger
from greenroom.pods import (
    Buffers,
    Bursts,
    KubeletConfig,
    Pod,
    PodGone,
    PodPhase,
    RestartPolicy,
    ThreadModel,
    Troupe,
    TroupeFailed,
)
from greenroom.testing import Simulation, assert_ledger_balanced
from tests.pods.troupes import FOREVER, THREADS, Diary, doer, playing, troupe_class

MESSAGES = 1000
STAYS = 4
"""The incarnation that does not end right after its start."""

Deed = Callable[[Actor[Any, None]], object]


class Story:
    """What the actors of one pod share: what each heard, how often it was made, and what its starts do."""

    def __init__(self) -> None:
        self.heard = Diary()
        self.starts: dict[str, int] = {}
        # Called with the actor, by the hook of the actor that it happens in.
        self.deeds: dict[tuple[str, str], Deed] = {}

    def actor(self, name: str, kind: type[Brief] | None = None) -> Props[Any, None]:
        return props(Brief if kind is None else kind, self, name)

    def heard_by(self, name: str) -> list[Any]:
        return [message for one, message in self.heard.entries if one == name]


class Brief(Actor[Any, None]):
    """Writes down what it hears, and has something happen in its first starts."""

    def __init__(self, story: Story, name: str) -> None:
        self.story = story
        self.name = name
        story.starts[name] = story.starts.get(name, 0) + 1

    def _do(self, hook: str) -> None:
        deed = self.story.deeds.get((self.name, hook))
        if deed is not None and self.story.starts[self.name] < STAYS:
            deed(self)

    def pre_start(self) -> Any:
        self._do("pre_start")

    def post_start(self) -> Any:
        self._do("post_start")

    def receive(self, message: Any) -> None:
        self.story.heard.write((self.name, message))


class Slow(Brief):
    """The same, with hooks that suspend."""

    async def pre_start(self) -> None:
        await asyncio.sleep(0)
        self._do("pre_start")

    async def post_start(self) -> None:
        await asyncio.sleep(0)
        self._do("post_start")


ENDS: dict[str, Callable[[Any], object]] = {
    "stop": lambda ref: ref.stop(),
    "fail": lambda ref: ref.fail(ValueError("bad")),
    "kill": lambda ref: ref.kill(),
    "restart": lambda ref: ref.restart(),
}


def end_of(name: str, how: str) -> Deed:
    """An actor of the pod is told to end."""
    return lambda actor: ENDS[how](actor.ctx.system.actor(f"/pod/{name}"))


# Who ends, and in which hook of whom.
MOMENTS = [
    ("first", "first", "post_start"),
    ("second", "second", "post_start"),
    ("first", "second", "pre_start"),
    ("first", "second", "post_start"),
]
kinds = pytest.mark.parametrize("kind", [Brief, Slow], ids=["sync hooks", "async hooks"])
moments = pytest.mark.parametrize(
    ("ends", "who", "hook"),
    MOMENTS,
    ids=["the first by itself", "the last by itself", "the first as the last starts", "the first as the last has"],
)


def end_on_start(
    ends: str, who: str, hook: str, how: str, kind: type[Brief], thread: ThreadModel
) -> tuple[Troupe[Any], Story, list[Any]]:
    """A troupe with an actor that ends three times right after its start; and what becomes a dead letter."""
    story = Story()
    story.deeds[who, hook] = end_of(ends, how)
    pod = Pod(
        first=story.actor("first", kind),
        second=story.actor("second", kind),
        thread=thread,
        restart=RestartPolicy.ALWAYS,
        expose=True,
    )
    troupe = troupe_class(pod=pod).new(kubelet=FOREVER)
    dead: list[Any] = []
    troupe.system.dead_letters.subscribe(lambda letter: dead.append(letter.message))
    return troupe, story, dead


@kinds
@moments
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("thread", THREADS)
def test_what_waits_for_an_actor_that_ends_as_it_starts_is_handled_by_one_that_stays(
    thread: ThreadModel, how: str, ends: str, who: str, hook: str, kind: type[Brief]
) -> None:
    troupe, story, dead = end_on_start(ends, who, hook, how, kind, thread)
    names = ("first", "second")
    handles = [getattr(troupe.exposed(), name) for name in names]
    for number in range(MESSAGES):
        for handle in handles:
            handle.send(number)
    with playing(troupe):
        for name, handle in zip(names, handles, strict=True):
            handle.send("last")
            story.heard.wait_for((name, "last"))
    for name in names:
        assert story.heard_by(name) == [*range(MESSAGES), "last"]
    assert dead == []
    assert troupe.system.ledger().handled == 2 * MESSAGES + 2


@kinds
@moments
@pytest.mark.parametrize("how", ENDS)
def test_at_any_schedule_what_waits_for_an_actor_that_ends_as_it_starts_is_handled(
    how: str, ends: str, who: str, hook: str, kind: type[Brief]
) -> None:
    async def main() -> None:
        troupe, story, dead = end_on_start(ends, who, hook, how, kind, ThreadModel.DEDICATED)
        async with troupe:
            for number in range(20):
                await troupe.exposed().first.asend(number)
                await troupe.exposed().second.asend(number)
            await troupe.system.settle()
            assert story.heard_by("first") == story.heard_by("second") == list(range(20))
            assert dead == []
        assert assert_ledger_balanced(troupe.system).handled == 40

    simulate(main)


class Books:
    """What was sent, refused and heard, and what became a dead letter."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.heard: list[Any] = []
        self.dead: list[Any] = []

    def check(self, ledger: Ledger) -> None:
        assert ledger.balanced
        assert ledger.queued == ledger.in_hand == ledger.failed == ledger.lost == 0, ledger
        assert sorted(self.sent) == sorted([*self.heard, *self.dead])
        assert (ledger.handled, ledger.dead_lettered) == (len(self.heard), len(self.dead))


@moments
@pytest.mark.parametrize(
    ("on_restart", "limit"), [(OnRestart.KEEP, None), (OnRestart.KEEP, 1), (OnRestart.CLEAR, None)]
)
@pytest.mark.parametrize("policy", RestartPolicy)
@pytest.mark.parametrize("how", ENDS)
def test_whatever_becomes_of_the_pod_each_message_is_handled_or_a_dead_letter_or_refused(
    how: str,
    policy: RestartPolicy,
    on_restart: OnRestart,
    limit: int | None,
    ends: str,
    who: str,
    hook: str,
) -> None:
    async def main() -> None:
        story, books = Story(), Books()
        story.deeds[who, hook] = end_of(ends, how)
        pod = Pod(
            first=story.actor("first"),
            second=story.actor("second"),
            restart=policy,
            on_restart=on_restart,
            expose=True,
            buffers=Buffers(data=8),
            bursts=Bursts(data=2),
        )
        troupe = troupe_class(pod=pod, other=Pod(doer(Diary()))).new(kubelet=KubeletConfig(max_restarts=limit))
        troupe.system.dead_letters.subscribe(lambda letter: books.dead.append(letter.message))

        async def send(name: str) -> None:
            handle = getattr(troupe.exposed(), name)
            for number in range(20):
                try:
                    await handle.asend(number)
                except PodGone:
                    return
                books.sent.append(number)

        try:
            async with troupe:
                await asyncio.gather(send("first"), send("second"))
                await troupe.system.settle()
        except TroupeFailed:
            assert limit is not None
        books.heard = [number for _, number in story.heard.entries]
        books.check(assert_ledger_balanced(troupe.system))

    simulate(main, seeds=3)


@kinds
@pytest.mark.parametrize("policy", RestartPolicy)
def test_orders_at_any_moment_leave_no_message_behind(policy: RestartPolicy, kind: type[Brief]) -> None:
    async def main() -> None:
        story, books = Story(), Books()
        pod = Pod(
            first=story.actor("first", kind),
            second=story.actor("second", kind),
            third=story.actor("third", kind),
            restart=policy,
            expose=True,
            buffers=Buffers(data=8),
            bursts=Bursts(data=2),
        )
        config = KubeletConfig(max_restarts=None, backoff=Backoff(min=0.01, max=0.02))
        troupe = troupe_class(pod=pod, other=Pod(doer(Diary()))).new(kubelet=config)
        troupe.system.dead_letters.subscribe(lambda letter: books.dead.append(letter.message))
        random = troupe.system.random
        names = ("first", "second", "third")

        async def send(name: str) -> None:
            handle = getattr(troupe.exposed(), name)
            for number in range(30):
                await asyncio.sleep(random.choice((0.0, 0.005)))
                try:
                    await handle.asend(number)
                except PodGone:
                    return
                books.sent.append(number)

        async def order() -> None:
            for _ in range(15):
                await asyncio.sleep(random.choice((0.0, 0.0, 0.005, 0.02)))
                ref = troupe.system.actor(f"/pod/{random.choice(names)}")
                if ref is not None:
                    ENDS[random.choice(list(ENDS))](ref)

        async with troupe:
            await asyncio.gather(order(), *(send(name) for name in names))
            await troupe.system.settle()
        books.heard = [number for _, number in story.heard.entries]
        books.check(assert_ledger_balanced(troupe.system))
        if policy is RestartPolicy.ALWAYS:
            assert books.dead == []
            assert all(story.heard_by(name) == list(range(30)) for name in names)

    simulate(main, seeds=10)


@pytest.mark.parametrize("policy", [RestartPolicy.ON_FAILURE, RestartPolicy.NEVER])
@pytest.mark.parametrize("name", ["first", "second"])
def test_a_pod_runs_without_an_actor_that_ends_for_good_as_it_starts(name: str, policy: RestartPolicy) -> None:
    async def main() -> None:
        story = Story()
        story.deeds[name, "post_start"] = lambda actor: actor.ctx.stop()
        pod = Pod(first=story.actor("first"), second=story.actor("second"), restart=policy, expose=True)
        troupe = troupe_class(pod=pod).new()
        other = "second" if name == "first" else "first"
        async with troupe:
            await getattr(troupe.exposed(), name).asend("dead")
            await getattr(troupe.exposed(), other).asend("hello")
            await troupe.system.settle()
            assert story.heard.entries == [(other, "hello")]
            assert troupe.status["pod"].phase is PodPhase.RUNNING
        assert assert_ledger_balanced(troupe.system).dead_lettered == 1

    simulate(main)


@kinds
@pytest.mark.parametrize("name", ["first", "second"])
def test_an_actor_that_is_restarted_by_itself_hears_what_is_sent_to_it(name: str, kind: type[Brief]) -> None:
    async def main() -> None:
        story = Story()
        pod = Pod(first=story.actor("first", kind), second=story.actor("second", kind), expose=True)
        troupe = troupe_class(pod=pod).new()
        async with troupe:
            handle = getattr(troupe.exposed(), name)
            await troupe.system.settle()
            for number in range(3):
                await handle.asend(("before", number))
                troupe.system.actor(f"/pod/{name}").restart()  # type: ignore[union-attr]
                await handle.asend(("after", number))
                await troupe.system.settle()
                assert story.heard_by(name)[-1] == ("after", number)
            assert len(story.heard_by(name)) == 6
            assert story.starts == {"first": 1, "second": 1, name: 4}
            assert troupe.status["pod"].restarts == 0
        assert assert_ledger_balanced(troupe.system).handled == 6

    simulate(main)


@pytest.mark.parametrize("thread", THREADS)
def test_an_actor_that_is_restarted_by_itself_meets_its_mates_and_parks(thread: ThreadModel) -> None:
    story, parked = Story(), Diary()

    class Parker(Brief):
        def receive(self, message: Any) -> None:
            mates: Any = self.pod  # type: ignore[attr-defined]
            self.story.heard.write((self.name, mates.second.story.starts["second"], mates.first is self))

        def park(self) -> None:
            parked.write(self.story.starts["first"])

    pod = Pod(first=story.actor("first", Parker), second=story.actor("second"), thread=thread, expose=True)
    troupe = troupe_class(pod=pod).new()
    with playing(troupe):
        first = troupe.exposed().first
        for number in (1, 2, 3):
            parked.wait_for(number)
            first.send(number)
            story.heard.wait_for_count(number)
            troupe.system.actor("/pod/first").restart()  # type: ignore[union-attr]
        parked.wait_for(4)
    assert story.heard.entries == [("first", 1, True)] * 3


def simulate(main: Callable[[], Any], seeds: int = 10) -> None:
    for seed in range(seeds):
        simulation = Simulation(seed)
        try:
            simulation.run_main(main)
        except BaseException as error:
            error.add_note(f"in {simulation!r}")
            raise
