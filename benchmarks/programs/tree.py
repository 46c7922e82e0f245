"""An unbalanced tree of actors whose nodes know their parent and the root (a cobweb), grown while messages pass.

Each node asks the root whether it may have ten children; chance decides, until the tree is large enough.
Then a message walks down all branches, and counts come back up; with the second such walk the nodes end.
"""

from __future__ import annotations

from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, expect
from benchmarks.programs.measuring import Outcome, Stopwatch, choose, draw
from greenroom import Actor, ActorRef, ActorSystem, Behavior, Behaviors, MailboxConfig, props

BRANCHES = 10
# Not one of the lowest bits of a draw: those come in turn.
CHANCE = 4096

START = "start"
TRY = "try"
GROW = "grow"
GROWN = "grown"
WALK = "walk"
END = "end"


class Root(Actor[str | int | ActorRef, None]):
    """A ref is a node that would like to grow; a number is what a child has counted on a walk."""

    def __init__(self, nodes: int, outcome: Outcome) -> None:
        self.children: list[ActorRef[str | int, None]] = []
        self.grown = 0
        self.ungrown = nodes
        self.undecided = 0
        self.seed = 1
        self.walk = WALK
        self.walking = 0
        self.counted = 0
        self.outcome = outcome

    def receive(self, message: str | int | ActorRef) -> None:
        if isinstance(message, ActorRef):
            self._decide(message)
        elif isinstance(message, int):
            self._add(message)
        elif message is GROWN:
            self.grown += 1
        else:
            self._plant()

    def _plant(self) -> None:
        spawn, me = self.ctx.spawn, self.ctx.self
        self.children = [spawn(Node, me, me) for _ in range(BRANCHES)]
        self._grant()
        for child in self.children:
            child.tell(TRY)

    def _grant(self) -> None:
        self.ungrown -= BRANCHES
        self.undecided += BRANCHES

    def _decide(self, node: ActorRef) -> None:
        self.undecided -= 1
        if self.ungrown:
            self.seed = draw(self.seed)
            if self.seed & CHANCE:
                self._grant()
                node.tell(GROW)
        if not self.undecided:
            self._send_down()

    def _send_down(self) -> None:
        self.walking = BRANCHES
        for child in self.children:
            child.tell(self.walk)

    def _add(self, count: int) -> None:
        self.counted += count
        self.walking -= 1
        if self.walking:
            return
        if self.walk is WALK:
            self.walk = END
            self._send_down()
        else:
            self.outcome.value = self.counted


class Node(Actor[str | int, None]):
    """A number is what a child has counted on a walk."""

    def __init__(self, parent: ActorRef, root: ActorRef[str | int | ActorRef, None]) -> None:
        self.parent = parent
        self.root = root
        self.children: list[ActorRef[str | int, None]] = []
        self.grown = 0
        self.walk = WALK
        self.walking = 0
        self.counted = 0

    def receive(self, message: str | int) -> Behavior | None:
        if isinstance(message, int):
            return self._add(message)
        if message is TRY:
            self.root.tell(self.ctx.self)
        elif message is GROW:
            self._grow()
        elif message is GROWN:
            self.grown += 1
        else:
            return self._pass_on(message)
        return None

    def _grow(self) -> None:
        self.parent.tell(GROWN)
        spawn, me, root = self.ctx.spawn, self.ctx.self, self.root
        self.children = [spawn(Node, me, root) for _ in range(BRANCHES)]
        for child in self.children:
            child.tell(TRY)

    def _pass_on(self, walk: str) -> Behavior | None:
        self.walk = walk
        self.counted = 1
        if not self.children:
            return self._report()
        self.walking = BRANCHES
        for child in self.children:
            child.tell(walk)
        return None

    def _add(self, count: int) -> Behavior | None:
        self.counted += count
        self.walking -= 1
        return None if self.walking else self._report()

    def _report(self) -> Behavior | None:
        self.parent.tell(self.counted)
        return Behaviors.stopped if self.walk is END else None


def messages_of(nodes: int) -> int:
    """Every node tries, asks, and is passed and counted by two walks; a node that grows is told to, and says so."""
    return 6 * nodes + 2 * (nodes // BRANCHES - 1) + 1


def nodes_for(messages: int) -> int:
    """How many nodes below the root take about so many messages."""
    return max(messages // (6 * BRANCHES + 2), 1) * BRANCHES


def run(n: int) -> Report:
    """About ``n`` messages."""
    return perform(partial(_grow_and_walk, nodes_for(n)))


async def _grow_and_walk(nodes: int, system: ActorSystem) -> Report:
    outcome = Outcome()
    # Almost all nodes may ask before it comes to answer.
    root = system.spawn(props(Root, nodes, outcome), mailbox=MailboxConfig(capacity=nodes))
    await system.settle()
    with Stopwatch() as watch:
        root.tell(START)
        await system.settle()
    expect("nodes counted on two walks", outcome.value, 2 * nodes)
    messages = messages_of(nodes)
    await expect_all_handled(system, messages)
    expect("actors ended", system.snapshot().terminated, nodes)
    return watch.report(messages)


if __name__ == "__main__":
    choose({"tree": run})
