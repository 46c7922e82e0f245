"""Pykka's programs of many messages and few actors: the same messages as ours.

Run as ``python -m benchmarks.peers.pykka_messages PROGRAM --n N``.
"""

from __future__ import annotations

from typing import Any

from benchmarks.peers.pykka_stage import Finish, Person, choose, play
from benchmarks.program import Report
from benchmarks.programs.chameneos import CLOSED, COLOURS, CREATURES, mix
from benchmarks.programs.measuring import draw
from benchmarks.programs.passing import NODES, PINGERS
from benchmarks.programs.philosophers import EAT, HUNGRY, PHILOSOPHERS, SATED
from benchmarks.programs.pouring import INCREMENT, PORTION, START, WORK, WORKERS, messages_to_count, portions_for


class Node(Person):
    """Passes the token on until it is used up."""

    def __init__(self, seats: list[Any], place: int, finish: Finish) -> None:
        super().__init__()
        self.seats = seats
        self.place = place
        self.finish = finish

    def on_receive(self, hops: int) -> None:
        if hops:
            self.seats[(self.place + 1) % NODES].tell(hops - 1)
        else:
            self.finish.report(self.place)


def ring(n: int) -> Report:
    """``n`` hops of one token."""
    finish = Finish()
    nodes: list[Any] = []
    nodes += [Node.start(nodes, place, finish) for place in range(NODES)]
    return play(lambda: nodes[0].tell(n), finish, "place where the token ended", n % NODES, n + 1)


class Pinger(Person):
    """A ping is the ref of the one that sent it; a pong is None, and brings about the next ping."""

    def __init__(self, seats: list[Any], place: int, pings: int, finish: Finish) -> None:
        super().__init__()
        self.seats = seats
        self.seed = place
        self.left = pings
        self.finish = finish

    def on_receive(self, message: Any) -> None:
        if message is not None:
            message.tell(None)
        elif self.left:
            self.left -= 1
            self.seed = draw(self.seed)
            self.seats[self.seed % PINGERS].tell(self.actor_ref)
        else:
            self.finish.report(1)


def big(n: int) -> Report:
    """About ``n`` pings and pongs."""
    pings = n // (2 * PINGERS)
    finish = Finish(PINGERS)
    pingers: list[Any] = []
    pingers += [Pinger.start(pingers, place, pings, finish) for place in range(PINGERS)]
    count = 2 * PINGERS * (pings + 1)
    return play(lambda: _tell_all(pingers, None), finish, "actors that had all their answers", PINGERS, count)


class Mall(Person):
    """Makes pairs of the creatures that come."""

    def __init__(self, meetings: int, finish: Finish) -> None:
        super().__init__()
        self.left = meetings
        self.waiting: Any = None
        self.finish = finish

    def on_receive(self, message: Any) -> None:
        if isinstance(message, int):
            self.finish.report(message)
        elif not self.left:
            message[1].tell(CLOSED)
        elif self.waiting is None:
            self.waiting = message[1]
        else:
            self.waiting.tell(message)
            self.waiting = None
            self.left -= 1


class Creature(Person):
    """Told of a visitor, it has met it as the first of two; told a colour, as the second."""

    def __init__(self, mall: Any, colour: int) -> None:
        super().__init__()
        self.mall = mall
        self.colour = colour
        self.met = 0

    def on_receive(self, message: Any) -> None:
        if isinstance(message, tuple):
            colour, other = message
            self.colour = mix(self.colour, colour)
            self.met += 1
            other.tell(self.colour)
        elif isinstance(message, int):
            self.colour = message
            self.met += 1
        elif message is CLOSED:
            self.mall.tell(self.met)
            return
        self.mall.tell((self.colour, self.actor_ref))


def chameneos(n: int) -> Report:
    """About ``n`` messages: four for each meeting."""
    meetings = n // 4
    finish = Finish(CREATURES)
    mall = Mall.start(meetings, finish)
    creatures = [Creature.start(mall, place % COLOURS) for place in range(CREATURES)]
    count = 4 * meetings + 4 * CREATURES
    return play(lambda: _tell_all(creatures, START), finish, "creatures in meetings", 2 * meetings, count)


class Arbiter(Person):
    """Knows which forks are in use and who waits for them."""

    def __init__(self, table: list[Any], finish: Finish) -> None:
        super().__init__()
        self.table = table
        self.in_use = [False] * PHILOSOPHERS
        self.waiting = [False] * PHILOSOPHERS
        self.finish = finish

    def on_receive(self, message: tuple[str, int]) -> None:
        mood, place = message
        if mood is HUNGRY:
            self._serve(place)
        else:
            self._clear(place)

    def _serve(self, place: int) -> None:
        right = (place + 1) % PHILOSOPHERS
        if self.in_use[place] or self.in_use[right]:
            self.waiting[place] = True
        else:
            self.in_use[place] = self.in_use[right] = True
            self.table[place].tell(EAT)

    def _clear(self, place: int) -> None:
        right = (place + 1) % PHILOSOPHERS
        self.in_use[place] = self.in_use[right] = False
        self.finish.report(1)
        for neighbour in (place - 1) % PHILOSOPHERS, right:
            if self.waiting[neighbour]:
                self.waiting[neighbour] = False
                self._serve(neighbour)


class Philosopher(Person):
    """Eats as soon as it may, says when it has, and is hungry again."""

    def __init__(self, arbiter: Any, place: int, meals: int) -> None:
        super().__init__()
        self.arbiter = arbiter
        self.place = place
        self.left = meals

    def on_receive(self, message: str) -> None:
        if message is EAT:
            self.arbiter.tell((SATED, self.place))
        if self.left:
            self.left -= 1
            self.arbiter.tell((HUNGRY, self.place))


def philosophers(n: int) -> Report:
    """About ``n`` messages: three for each meal."""
    meals = n // (3 * PHILOSOPHERS)
    finish = Finish(PHILOSOPHERS * meals)
    table: list[Any] = []
    arbiter = Arbiter.start(table, finish)
    table += [Philosopher.start(arbiter, place, meals) for place in range(PHILOSOPHERS)]
    count = PHILOSOPHERS * (3 * meals + 1)
    return play(lambda: _tell_all(table, START), finish, "meals", PHILOSOPHERS * meals, count)


class Counter(Person):
    """Counts, and tells a ref that reaches it how far it has come."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def on_receive(self, message: Any) -> None:
        if message is INCREMENT:
            self.total += 1
        else:
            message.tell(self.total)


class Producer(Person):
    """Sends the next portion when it hears the sum, until all are sent."""

    def __init__(self, counter: Any, increments: int, finish: Finish) -> None:
        super().__init__()
        self.counter = counter
        self.left = increments
        self.finish = finish

    def on_receive(self, message: Any) -> None:
        if not self.left:
            self.finish.report(message)
            return
        portion = min(self.left, PORTION)
        self.left -= portion
        for _ in range(portion):
            self.counter.tell(INCREMENT)
        self.counter.tell(self.actor_ref)


def counting(n: int) -> Report:
    """``n`` increments of one counter."""
    finish = Finish()
    producer = Producer.start(Counter.start(), n, finish)
    return play(lambda: producer.tell(START), finish, "sum of the increments", n, messages_to_count(n))


class Worker(Person):
    """Counts what it gets, and says when a portion is done."""

    def __init__(self, master: Any, portion: int) -> None:
        super().__init__()
        self.master = master
        self.portion = portion
        self.left = portion

    def on_receive(self, message: Any) -> None:
        self.left -= 1
        if not self.left:
            self.left = self.portion
            self.master.tell(self.portion)


class Master(Person):
    """Sends a portion to each worker, in turn; the next when all are done with it."""

    def __init__(self, workers: list[Any], portion: int, times: int, finish: Finish) -> None:
        super().__init__()
        self.workers = workers
        self.portion = portion
        self.times = times
        self.busy = 0
        self.finish = finish

    def on_receive(self, message: Any) -> None:
        if isinstance(message, int):
            self.busy -= 1
            self.finish.report(message)
        if self.busy or not self.times:
            return
        self.times -= 1
        self.busy = WORKERS
        for _ in range(self.portion):
            _tell_all(self.workers, WORK)


def throughput(n: int) -> Report:
    """About ``n`` messages to sixty workers."""
    portion, times = portions_for(n)
    finish = Finish(WORKERS * times)
    workers: list[Any] = []
    master = Master.start(workers, portion, times, finish)
    workers += [Worker.start(master, portion) for _ in range(WORKERS)]
    done = WORKERS * portion * times
    return play(lambda: master.tell(START), finish, "messages of finished portions", done, done + WORKERS * times + 1)


def _tell_all(actors: list[Any], message: object) -> None:
    for actor in actors:
        actor.tell(message)


PROGRAMS = {
    "ring": ring,
    "big": big,
    "chameneos": chameneos,
    "philosophers": philosophers,
    "counting": counting,
    "throughput": throughput,
}

if __name__ == "__main__":
    choose(PROGRAMS)
