"""Pykka's programs of many lives: the same messages as ours. An actor is a thread there, so they are small.

Run as ``python -m benchmarks.peers.pykka_lives PROGRAM --n N``.
"""

from __future__ import annotations

from typing import Any

from benchmarks.peers.pykka_stage import Finish, Person, choose, play
from benchmarks.program import Report
from benchmarks.programs.lives import START, largest_call
from benchmarks.programs.measuring import draw
from benchmarks.programs.tree import BRANCHES, CHANCE, END, GROW, GROWN, TRY, WALK, messages_of, nodes_for


class Worker(Person):
    """Gives back the number that it gets, and ends."""

    def __init__(self, master: Any) -> None:
        super().__init__()
        self.master = master

    def on_receive(self, number: int) -> None:
        self.master.tell(number)
        self.stop()


class Master(Person):
    """Starts its workers, then adds up what they give back."""

    def __init__(self, workers: int, finish: Finish) -> None:
        super().__init__()
        self.workers = workers
        self.finish = finish

    def on_receive(self, message: Any) -> None:
        if isinstance(message, int):
            self.finish.report(message)
            return
        for number in range(self.workers):
            Worker.start(self.actor_ref).tell(number)


def create(n: int) -> Report:
    """``n`` actors."""
    finish = Finish(n)
    master = Master.start(n, finish)
    return play(lambda: master.tell(START), finish, "sum of what the workers gave back", sum(range(n)), n)


class Call(Person):
    """Asked by a number in a tuple, it answers its caller with a number alone."""

    def __init__(self, caller: Any) -> None:
        super().__init__()
        self.caller = caller
        self.total = 0
        self.heard = 0

    def on_receive(self, message: Any) -> None:
        if isinstance(message, int):
            self.total += message
            self.heard += 1
            if self.heard == 2:
                self._answer(self.total)
            return
        [number] = message
        if number <= 2:
            self._answer(1)
            return
        Call.start(self.actor_ref).tell((number - 1,))
        Call.start(self.actor_ref).tell((number - 2,))

    def _answer(self, number: int) -> None:
        self.caller.tell(number)
        self.stop()


class Caller(Person):
    """Hands out the answer to the first call."""

    def __init__(self, finish: Finish) -> None:
        super().__init__()
        self.finish = finish

    def on_receive(self, answer: int) -> None:
        self.finish.report(answer)


def fibonacci(n: int) -> Report:
    """The largest Fibonacci number that takes at most ``n`` actors."""
    number, result, actors = largest_call(n)
    finish = Finish()
    caller = Caller.start(finish)
    return play(lambda: Call.start(caller).tell((number,)), finish, f"Fibonacci number {number}", result, actors)


class Root(Person):
    """A node that would like to grow, or what a child has counted on a walk."""

    def __init__(self, nodes: int, finish: Finish) -> None:
        super().__init__()
        self.children: list[Any] = []
        self.grown = 0
        self.ungrown = nodes
        self.undecided = 0
        self.seed = 1
        self.walk = WALK
        self.walking = 0
        self.counted = 0
        self.finish = finish

    def on_receive(self, message: Any) -> None:
        if isinstance(message, int):
            self._add(message)
        elif message is GROWN:
            self.grown += 1
        elif message is START:
            self.children = _branches(self.actor_ref, self.actor_ref)
            self._grant()
        else:
            self._decide(message)

    def _grant(self) -> None:
        self.ungrown -= BRANCHES
        self.undecided += BRANCHES

    def _decide(self, node: Any) -> None:
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
            self.finish.report(self.counted)


class Node(Person):
    """A number is what a child has counted on a walk."""

    def __init__(self, parent: Any, root: Any) -> None:
        super().__init__()
        self.parent = parent
        self.root = root
        self.children: list[Any] = []
        self.grown = 0
        self.walk = WALK
        self.walking = 0
        self.counted = 0

    def on_receive(self, message: Any) -> None:
        if isinstance(message, int):
            self.counted += message
            self.walking -= 1
            if not self.walking:
                self._report()
        elif message is TRY:
            self.root.tell(self.actor_ref)
        elif message is GROW:
            self.parent.tell(GROWN)
            self.children = _branches(self.actor_ref, self.root)
        elif message is GROWN:
            self.grown += 1
        else:
            self._pass_on(message)

    def _pass_on(self, walk: str) -> None:
        self.walk = walk
        self.counted = 1
        self.walking = BRANCHES
        for child in self.children:
            child.tell(walk)
        if not self.children:
            self._report()

    def _report(self) -> None:
        self.parent.tell(self.counted)
        if self.walk is END:
            self.stop()


def _branches(parent: Any, root: Any) -> list[Any]:
    children = [Node.start(parent, root) for _ in range(BRANCHES)]
    for child in children:
        child.tell(TRY)
    return children


def tree(n: int) -> Report:
    """About ``n`` messages."""
    nodes = nodes_for(n)
    finish = Finish()
    root = Root.start(nodes, finish)
    return play(lambda: root.tell(START), finish, "nodes counted on two walks", 2 * nodes, messages_of(nodes))


PROGRAMS = {"create": create, "fibonacci": fibonacci, "tree": tree}

if __name__ == "__main__":
    choose(PROGRAMS)
