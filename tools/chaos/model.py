"""What must hold of every history, checked from its journal alone and from what the systems say at their end.

Each check is a function of what was seen that returns a line for each violation; the first word is its kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from tools.chaos.counting import Counts
from tools.chaos.journal import Event
from tools.chaos.plan import DEADLY
from tools.chaos.stage import Facts

__all__ = ["CHECKS", "Seen", "check"]

ERRORS = frozenset(
    {
        # of the runtime
        *("ActorTerminated", "AskDeadlock", "AskTimeout", "FailedElsewhere", "FrameTooLarge", "HandlerBroken"),
        *("LoopBusy", "LoopStopped", "MailboxFull", "MessageDropped", "NotSendable", "SendTimeout", "SystemStopped"),
        *(
            "Unhandled",
            "WaitsForItself",
            "WorkerLost",
            "WireError",
            "WrongLoop",
            "CancelledError",
            "StashFull",
            "HandlerAbandoned",
        ),
        *("LinkBroken", "AlreadyReplied", "TooManyActors", "NameTaken"),
        # of guests, and of what they send
        *("ValueError", "RuntimeError", "HoldsLock", "WantsMore", "Speechless", "NotOrdinary"),
        *("ImportError", "KeyError", "BadRecord", "GeneratorExit", "AttributeError", "TypeError", "PicklingError"),
    }
)
"""What an ask may raise."""
SLACK = 1.0
"""Seconds between an end and a timeout, before one is sure that the end was first."""


class Seen:
    """The journal, sorted by what the checks want to know."""

    def __init__(self, events: list[Event], facts: Facts) -> None:
        self.events = events
        self.facts = facts
        self.by_kind: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            self.by_kind[event.what].append(event)
        self.ended = {event.rest[0]: event for event in reversed(self.by_kind["ended"])}
        self.calm = next((number for number, event in enumerate(events) if event.what == "calm"), None)
        self.forwarded = Counter(event.rest[0] for event in self.by_kind["forwarded"])
        self.is_deadly = bool(DEADLY & set(facts.plan.features))
        self.workers = {event.pid for event in events if event.pid != facts.home}

    def in_worker(self, ident: str) -> bool:
        """Whether the code of an actor ran in a worker process."""
        return ident in self._guests

    @property
    def _guests(self) -> set[str]:
        found: set[str] | None = self.__dict__.get("_found")
        if found is None:
            found = self._found = {one.rest[0] for one in self.by_kind["made"] if one.pid != self.facts.home}
        return found


def check(events: list[Event], facts: Facts) -> list[str]:
    """All that is wrong with a history."""
    seen = Seen(events, facts)
    return [*facts.violations, *(line for one in CHECKS for line in one(seen))]


# -- ends


def actors_end_once(seen: Seen) -> Iterator[str]:
    """Every actor that anybody has seen ends exactly once, and everybody is told the same reason."""
    ends = Counter(event.rest[0] for event in seen.by_kind["ended"])
    for ident, count in ends.items():
        if count != 1:
            yield f"ends: {ident} ended {count} times"
    for event in seen.by_kind["exit"]:
        ident, kind = event.rest
        if ident not in ends:
            yield f"ends: observers were not told of the end of {ident}"
        elif seen.ended[ident].rest[1] != kind:
            yield f"ends: {ident} ended {kind} by terminated(), {seen.ended[ident].rest[1]} by its observers"
    for event in seen.by_kind["told"]:
        relation, who, ident, kind = event.rest[:4]
        if ident not in ends:
            yield f"ends: {who} was told of the end of {ident}, which has not ended ({relation})"
        elif seen.ended[ident].rest[1] != kind:
            yield f"ends: {who} was told {kind} of {ident}, which ended {seen.ended[ident].rest[1]} ({relation})"


def children_end_before_parents(seen: Seen) -> Iterator[str]:
    """No actor ends before all of its children have."""
    gone: set[str] = set()
    for event in seen.by_kind["ended"]:
        ident, _, path, parent = event.rest
        if parent in gone:
            yield f"ends: {ident} {path} ended after its parent {parent}"
        gone.add(ident)


def a_life_ends_before_the_next(seen: Seen) -> Iterator[str]:
    """No instance takes a message after another of the same actor was made, or after its own `post_stop`."""
    current: dict[str, str] = {}
    over: set[str] = set()
    for event in seen.events:
        if event.what == "made":
            current[event.rest[0]] = event.rest[1]
        elif event.what == "post_stop":
            if event.rest[1] in over:
                yield f"lives: {event.rest[1]} had post_stop twice"
            over.add(event.rest[1])
        elif event.what == "begin":
            ident, who, life = event.rest
            if current.get(who) != life or life in over:
                yield f"lives: {life} handled {ident} after its life"


def relations_tell_once(seen: Seen) -> Iterator[str]:
    """A watch, a monitor or a link tells once of an end; to a witness exactly once, if there was time."""
    registered: Counter[tuple[Any, ...]] = Counter()
    told: Counter[tuple[Any, ...]] = Counter()
    withdrawn: set[tuple[Any, ...]] = set()
    told_by_then: Counter[tuple[Any, ...]] = Counter()
    known_by_then: set[str] = set()
    registered_by_then: set[tuple[Any, ...]] = set()
    for number, event in enumerate(seen.events):
        if event.what == "registered":
            registered[_relation(event)] += 1
            withdrawn.discard(_relation(event))
        elif event.what == "unregistered":
            withdrawn.add(_relation(event))
        elif event.what == "told":
            key = _relation(event, told=True)
            told[key] += 1
            if key in withdrawn:
                yield f"relations: {key} was told after it was withdrawn"
        if number == seen.calm:
            told_by_then, registered_by_then = Counter(told), set(registered)
            known_by_then = {one.rest[0] for one in seen.events[:number] if one.what == "ended"}
    for key, count in told.items():
        if count > registered[key] and not (key[0] == "link" and not registered[key]):
            yield f"relations: {key} was told {count} times, registered {registered[key]} times"
    for key in registered_by_then - withdrawn:
        _, who, whom, *_ = key
        if who in _witnesses(seen) and whom in known_by_then and not told_by_then[key]:
            yield f"relations: {key} was not told of an end"


def _relation(event: Event, told: bool = False) -> tuple[Any, ...]:
    relation, who, whom, *more = event.rest
    return (relation, who, whom, *(more[1:] if told else more))


def _witnesses(seen: Seen) -> set[str]:
    """Those of system a, for only there anybody waits until all notices have come."""
    paths = {event.rest[0]: event.rest[1] for event in seen.by_kind["started"]}
    restarted = {event.rest[0] for event in seen.by_kind["restarted"]}
    found = {ident for ident, path in paths.items() if path.startswith("/w") and ident.startswith("a")}
    return found - restarted


# -- messages


def messages_are_handled_once_and_in_order(seen: Seen) -> Iterator[str]:
    """Of one sender to one receiver on one lane, in the order of sending; and none twice, unless it was stashed."""
    begun: Counter[str] = Counter()
    stashed: Counter[str] = Counter()
    last: dict[tuple[str, ...], tuple[int, str]] = {}
    for event in seen.events:
        if event.what == "stashed":
            stashed[event.rest[0]] += 1
        if event.what != "begin":
            continue
        ident, who = event.rest[:2]
        sender, to, lane, number = ident.split(">")
        if to == "?":
            continue  # of a timer, or a task
        begun[ident] += 1
        if to != who and ident in seen.forwarded:
            continue
        if to != who:
            yield f"messages: {ident} was handled by {who}"
        if begun[ident] > 1 + stashed[ident] + seen.forwarded[ident]:
            yield f"messages: {ident} was handled {begun[ident]} times, stashed {stashed[ident]} times"
        if begun[ident] == 1:
            key = (sender, to, lane)
            if key in last and last[key][0] > int(number):
                yield f"order: {ident} was handled after {last[key][1]}"
            last[key] = max(last.get(key, (0, "")), (int(number), ident))


def stashed_messages_keep_their_order(seen: Seen) -> Iterator[str]:
    """Of one receiver and lane, and between two times that all is unstashed, what was stashed first comes first."""
    times: Counter[str] = Counter()
    place: dict[str, tuple[int, int]] = {}
    last: dict[tuple[str, str, int], int] = {}
    for number, event in enumerate(seen.events):
        if event.what == "stashed":
            place[event.rest[0]] = times[event.rest[1]], number
        elif event.what in ("unstashes", "made"):  # a restart does so, too
            times[event.rest[0]] += 1
        elif event.what == "begin" and event.rest[0] in place:
            ident, who = event.rest[:2]
            time, when = place.pop(ident)
            key = (who, ident.split(">")[2], time)
            if when < last.get(key, 0):
                yield f"order: {ident} was stashed before another, and handled again after it"
            last[key] = max(last.get(key, 0), when)


def no_message_is_lost_silently(seen: Seen) -> Iterator[str]:
    """What was sent and not handled is a dead letter, or in one of the columns of things that are not told singly."""
    sent = {event.rest[0] for event in seen.by_kind["sent"] if event.pid == seen.facts.home}
    begun = {event.rest[0] for event in seen.by_kind["begin"]}
    dead = Counter(event.rest[1] for event in seen.by_kind["dead"] if event.rest[1])
    done = {event.rest[0] for event in seen.by_kind["done"]}
    for ident in dead:
        if ">?>" in ident or ident in seen.forwarded:
            continue  # of a timer, which may have sent it many times; or of more than one receiver
        if dead[ident] > 1:
            yield f"dead letters: {ident} is one {dead[ident]} times"
        if ident in done:
            yield f"dead letters: {ident} was handled, and is one"
    missing: dict[str, list[str]] = defaultdict(list)
    for ident in sent - begun - set(dead):
        missing[ident.split(">")[1]].append(ident)
    ledgers = {ident: one for system in seen.facts.systems.values() for ident, one in system.ledgers.items()}
    for to, idents in missing.items():
        ledger = ledgers.get(to)
        if ledger is None:
            continue
        known = ledger.lost + ledger.dropped + ledger.unhandled + ledger.redirected
        if len(idents) > known:
            yield f"lost: {len(idents)} messages to {to} are nowhere, of {known} ({ledger}), such as {idents[0]}"


def ledgers_add_up(seen: Seen) -> Iterator[str]:
    """Every message is in one column, and the columns are what was seen from outside."""
    counts = Counts(seen)
    for letter, system in seen.facts.systems.items():
        if not system.ledger.balanced or system.ledger.queued or system.ledger.in_hand:
            yield f"ledger: of {letter} in the end: {system.ledger}, which sums up to {system.ledger.accounted}"
        if system.ledger.lost and not seen.is_deadly:
            yield f"lost: {system.ledger.lost} messages of {letter}, though no worker was attacked"
        for ident, ledger in system.ledgers.items():
            if not ledger.balanced or ledger.queued or ledger.in_hand:
                yield f"ledger: of {ident} in the end: {ledger}, which sums up to {ledger.accounted}"
            yield from counts.compare(ident, ledger)


def dead_letters_are_told(seen: Seen) -> Iterator[str]:
    """Subscribers are told of each, and the counts are those."""
    told = Counter(event.rest[0] for event in seen.by_kind["dead"])
    for letter, system in seen.facts.systems.items():
        if sum(system.by_reason.values()) != system.dead_letters:
            yield f"dead letters: {letter} counts {system.dead_letters}, by reason {system.by_reason}"
        if told[letter] != system.dead_letters:
            yield f"dead letters: {letter} counts {system.dead_letters}, told {told[letter]}"


# -- asks


def asks_have_one_outcome(seen: Seen) -> Iterator[str]:
    """One each, of a known kind; a reply is to that very ask, and its message was handled."""
    answers = Counter(event.rest[0] for event in seen.by_kind["answer"])
    outcomes = {event.rest[0]: event for event in seen.by_kind["answer"]}
    begun = {event.rest[0] for event in seen.by_kind["begin"]}
    for event in seen.by_kind["asking"]:
        ident, action, timeout = event.rest
        is_outside = ident[0] in "MTPL"
        if answers[ident] > 1:
            yield f"asks: {ident} has {answers[ident]} outcomes"
        if ident not in outcomes:
            if is_outside:
                yield f"asks: {ident} ({action}) has no outcome"
            continue
        answer = outcomes[ident]
        _, kind, what, *text = answer.rest
        if kind == "reply":
            if what != ident:
                yield f"asks: {ident} ({action}) was answered with {what}"
            elif ident not in begun:
                yield f"asks: {ident} ({action}) was answered, and not handled"
        elif what not in ERRORS:
            yield f"asks: {ident} ({action}) failed with {what} {text}"
        elif what == "AskTimeout":
            ended = seen.ended.get(ident.split(">")[1])
            took = answer.time - event.time
            if took < timeout - 0.05:
                yield f"asks: {ident} ({action}) timed out after {took:.3f} s of {timeout}"
            was_dead = ended is not None and event.time < ended.time < event.time + timeout - SLACK
            if was_dead and is_outside and ident not in seen.forwarded:
                yield f"asks: {ident} ({action}) timed out, though who was asked ended before"
        elif what == "WorkerLost" and not seen.is_deadly:
            yield f"workers: {ident} ({action}) failed with {text}, though no worker was attacked"


def asks_end_in_time(seen: Seen) -> Iterator[str]:
    """None takes much longer than its timeout: as much as a process may be held up by others."""
    outcomes = {event.rest[0]: event for event in seen.by_kind["answer"]}
    for event in seen.by_kind["asking"]:
        answer = outcomes.get(event.rest[0])
        if (
            answer is not None
            and answer.pid == seen.facts.home
            and answer.time - event.time > event.rest[2] + seen.facts.patience
        ):
            yield f"asks: {event.rest[0]} ({event.rest[1]}) took {answer.time - event.time:.1f} s of {event.rest[2]}"


# -- systems


def workers_die_of_attacks_alone(seen: Seen) -> Iterator[str]:
    """No worker process is lost unless one was attacked."""
    if seen.is_deadly:
        return
    for event in seen.by_kind["log"]:
        if "the worker process '" in event.rest[2]:
            yield f"workers: {event.rest[2]}"


def shutdowns_are_as_reported(seen: Seen) -> Iterator[str]:
    """All actors ended in time, none was forced, and no cause is not the plan's."""
    features = set(seen.facts.plan.features)
    paths = {event.rest[0]: event.rest[2] for event in seen.by_kind["ended"]}
    # A kill does not wait for the handler, which is forced then; and those below are killed, too.
    killed = tuple(paths.get(event.rest[0], "?") for event in seen.by_kind["order"] if event.rest[1] == "kill")
    for letter, system in seen.facts.systems.items():
        ended = sum(event.rest[0].startswith(letter) for event in seen.by_kind["ended"])
        if system.started != system.terminated or system.terminated != ended:
            yield f"shutdown: {letter} reports {system.started} started, {system.terminated} terminated; {ended} ended"
        if system.alive or system.timers:
            yield f"shutdown: {letter} has {system.alive} actors and {system.timers} timers in the end"
        if system.cause != "NoneType" and not features & {"system_exit", "escalate"}:
            yield f"shutdown: {letter} ended because of {system.cause}"
        forced = [path for path in system.forced if not path.startswith(killed)]
        if forced and "stubborn" not in features:
            yield f"shutdown: {letter} forced {forced}"
    for event in seen.by_kind["shut down"]:
        if event.rest[1] > 1.5 * seen.facts.patience:
            yield f"shutdown: {event.rest[0]} took {event.rest[1]:.1f} s"


CHECKS: tuple[Callable[[Seen], Iterator[str]], ...] = (
    actors_end_once,
    children_end_before_parents,
    a_life_ends_before_the_next,
    relations_tell_once,
    messages_are_handled_once_and_in_order,
    stashed_messages_keep_their_order,
    no_message_is_lost_silently,
    ledgers_add_up,
    dead_letters_are_told,
    asks_have_one_outcome,
    asks_end_in_time,
    workers_die_of_attacks_alone,
    shutdowns_are_as_reported,
)
