"""The ledger of an actor, compared with what was counted from outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from greenroom import Ledger

if TYPE_CHECKING:
    from tools.chaos.model import Seen

__all__ = ["Counts"]


class Counts:
    """What was sent to each actor and handled by it, as counted from outside."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._sent: Counter[str] = Counter()
        self._maybe: Counter[str] = Counter()
        arrived = {event.rest[0] for event in seen.by_kind["begin"]}
        arrived |= {event.rest[1] for event in seen.by_kind["dead"]}
        sent = {event.rest[0] for event in seen.by_kind["sent"]}
        refused = {event.rest[0] for event in seen.by_kind["refused"]}
        for event in seen.by_kind["sending"] + seen.by_kind["asking"]:
            ident = event.rest[0]
            to = ident.split(">")[1]
            if event.pid != seen.facts.home:
                self._maybe[to] += 1
            elif event.what == "sending":
                self._sent[to] += ident in sent
                self._maybe[to] += ident not in sent and ident not in refused
            else:
                # An error may mean that it was refused, and one that comes in time may hide that.
                (self._sent if ident in arrived else self._maybe)[to] += 1
        for event in seen.by_kind["forwarded"]:
            self._maybe[event.rest[1]] += 1
        self._handled = {
            what: Counter(event.rest[1] for event in seen.by_kind[what])
            for what in ("begin", "done", "raised", "unhandled")
        }
        self._of_timers = Counter(event.rest[1] for event in seen.by_kind["begin"] if ">?>" in event.rest[0])

    def compare(self, ident: str, ledger: Ledger) -> Iterator[str]:
        """An actor's ledger with these."""
        if ident not in self._handled["begin"]:
            return  # a supervisor, or one that has handled nothing
        done, raised = self._handled["done"][ident], self._handled["raised"][ident]
        said = f"ledger: {ident} has {ledger}"
        if ledger.sent < self._sent[ident]:
            yield f"{said}; {self._sent[ident]} were sent"
        # Only the ledger knows of messages that timers and tasks have sent, and no actor has handled.
        most = self._sent[ident] + self._maybe[ident] + self._of_timers[ident]
        if ledger.sent - ledger.dead_lettered - ledger.dropped - ledger.lost > most:
            yield f"{said}; at most {most} were sent"
        if ledger.handled > done:
            yield f"{said}; {done} were handled"
        if self._seen.in_worker(ident):
            if done > ledger.handled + ledger.lost + ledger.failed:
                yield f"{said}; {done} were handled"
            return
        if ledger.lost:
            yield f"{said}; but it is in no worker process"
        is_cut = self._seen.ended[ident].rest[1] == "killed" if ident in self._seen.ended else True
        # A handler that is abandoned counts as failed, and may go on and be done.
        is_same = (
            done + raised == ledger.handled + ledger.failed
            if "stubborn" in self._seen.facts.plan.features
            else (done, raised) == (ledger.handled, ledger.failed)
        )
        if not is_cut and not is_same:
            yield f"{said}; {done} were handled, {raised} failed"
