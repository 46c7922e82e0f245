"""The stages that all tills share, and who keeps them running."""

from typing import Any

from examples.pipeline.messages import MAILBOXES, PRODUCTS, Flush, GetTotals, PowerCut, Remark, Sale, Totals
from greenroom import Actor, ActorRef, Backoff, ChildSpec, Supervisor, SupervisorSpec, handles

# What aggregators are to those who send to them.
Records = ActorRef[Sale | Remark | Flush | GetTotals | PowerCut, Any]


class Sink(Actor[Totals | GetTotals, Totals]):
    """Adds up what the aggregators hand on."""

    totals = Totals()

    def receive(self, message: Totals | GetTotals) -> Totals:
        """Take in some totals, or just tell them all."""
        if isinstance(message, Totals):
            self.totals += message
        return self.totals


class NoPower(Exception):
    """What an aggregator fails with when its plug is pulled."""


class Aggregator(Actor[Sale | Remark | Flush | GetTotals | PowerCut]):
    """Adds up the sales of some shops. None of its methods handles a `Remark`: that is a dead letter.

    When it fails its supervisor makes a new one: with the same ref, the queue of the old one, and its sums.
    """

    def __init__(self, sink: ActorRef[Totals, Any]) -> None:
        self.sink = sink
        self.sales = 0
        self.cents = dict.fromkeys(PRODUCTS, 0)

    def snapshot(self) -> Any:
        """What a restart is to keep."""
        return self.sales, self.cents

    def restore(self, state: Any) -> None:
        """Go on where the last incarnation was."""
        self.sales, self.cents = state

    @handles(PowerCut)
    def fail(self, _: PowerCut) -> None:
        """Fail."""
        raise NoPower

    @handles(Sale)
    def add(self, sale: Sale) -> None:
        """Count a sale."""
        self.sales += 1
        self.cents[sale.product] += sale.cents

    @handles(GetTotals)
    def totals(self, _: object) -> Totals:
        """Answer an ask."""
        return Totals(self.sales, sum(self.cents.values()))

    @handles(Flush)
    async def flush(self, _: Flush) -> None:
        """Hand the totals on, and begin again at nothing."""
        totals = self.totals(None)
        self.sales, self.cents = 0, dict.fromkeys(PRODUCTS, 0)
        await self.sink.send(totals)


def keep_running(count: int, sink: ActorRef[Totals, Any]) -> SupervisorSpec:
    """What a supervisor needs to know to keep `count` aggregators running."""
    slowly = Backoff(min=0.5, max=2.0, jitter=0.5)
    box = MAILBOXES["Aggregator"]
    children = [ChildSpec(f"Aggregator-{n}", Aggregator, (sink,), mailbox=box) for n in range(count)]
    return Supervisor.spec(children, intensity=4 * count, period=5.0, backoff=slowly)
