"""Who keeps the pipeline busy: the gate lets sources in, asks and disturbs, and closes when it is told to."""

from contextlib import suppress
from typing import Any

from examples.pipeline.aggregators import Records
from examples.pipeline.messages import MAILBOXES, Close, Flush, GetTotals, PowerCut, Tick
from examples.pipeline.stages import Source
from greenroom import Actor, ActorRef, AskTimeout, Behavior, Behaviors, Context, Lane, handles

SOURCES = 1500
SHOPS = 1000


async def probe(ctx: Context, aggregator: Records) -> Behavior:
    """An actor that asks one question, with little patience, and is gone."""
    with suppress(AskTimeout):
        await aggregator.ask(GetTotals(), timeout=0.02)  # a reply that comes later is a dead letter
    return Behaviors.stopped


class Gate(Actor[Tick | PowerCut | Close]):
    """Lets in another source for each that has gone. Told to close, it waits for all of them, and ends."""

    def __init__(self, aggregators: list[Records]) -> None:
        self.aggregators = aggregators
        self.sources: set[ActorRef[Any, Any]] = set()
        self.open = True

    def pre_start(self) -> None:
        self.random = self.ctx.system.random
        for _ in range(SOURCES):
            self.admit()
        self.ticks = self.ctx.send_every(0.05, self.ctx.self, Tick())

    def admit(self) -> None:
        shop = self.random.randrange(SHOPS)
        source = self.ctx.spawn(Source, shop, self.aggregators, mailbox=MAILBOXES["Source"])
        self.ctx.watch(source)
        self.sources.add(source)

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.sources.discard(ref)
        if self.open:
            self.admit()
        elif not self.sources:
            self.ctx.stop()

    @handles(Tick)
    def stir(self, _: Tick) -> None:
        for aggregator in self.aggregators:
            aggregator.tell(Flush(), lane=Lane.CONTROL)  # overtakes all the records that are queued there
        self.ctx.spawn(probe).tell(self.random.choice(self.aggregators))
        self.random.choice(self.ctx.children).kill()  # somebody pulls a plug

    @handles(PowerCut)
    def pull_all_plugs(self, power_cut: PowerCut) -> None:
        """The crash that the supervisor of the aggregators has to heal."""
        for aggregator in self.aggregators:
            aggregator.tell(power_cut, lane=Lane.CONTROL)

    @handles(Close)
    def close(self, _: Close) -> None:
        self.open = False
        self.ticks.cancel()
        for source in self.sources:
            source.tell(Close(), lane=Lane.CONTROL)
