"""Checks that every message is accounted for."""

from __future__ import annotations

from greenroom.actor.messaging.ref import ActorRef
from greenroom.ledger import Ledger
from greenroom.system.system import ActorSystem


def assert_ledger_balanced(system: ActorSystem, ref: ActorRef | None = None) -> Ledger:
    """Fail unless every message sent in `system` (or to the actor `ref`) is in exactly one column. Return the ledger.

    Call it when nothing is being sent: after `await system.settle()`, or after the shutdown.
    """
    ledger = system.ledger() if ref is None else system.ledger(ref)
    if not ledger.balanced:
        whose = system.name if ref is None else str(ref)
        difference = ledger.sent - ledger.accounted
        raise AssertionError(f"the ledger of {whose} does not balance, {difference:+d} unaccounted for: {ledger}")
    return ledger
