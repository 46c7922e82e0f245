"""The events of a trace, and their texts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from greenroom._core.simulation import events as event_kinds
from greenroom.exits import ExitReason

OUTSIDE = "(outside)"
"""The sender of messages that no actor sends: the program itself and its tasks."""
_LONGEST = 80
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")

KINDS = {
    number: name.lower() for name, number in vars(event_kinds).items() if isinstance(number, int) and name != "ENTRIES"
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a step of a simulation.

    `kind` says what: `told`, `asked`, `ticked` (a timer sent), `taken` (the message is handled), `answered`,
    `refused` (a question without a reply), `failed`, `started`, `stopped`, `restarted`, `escalated`, `full`,
    `dropped`, `dead_letter`, `declined` (a told message was refused, with one of the actor's `answers`), or `injected`
    (a fault). `actor` is the path of the actor that it happened to. `other` is the other side: the sender of a message,
    or the asker that gets an answer. Both are empty if there is none. `what` is the message, reply, exception or
    reason.
    """

    step: int
    time: float
    kind: str
    actor: str
    what: Any
    other: str

    def __str__(self) -> str:
        return f"{self.step:>6} {self.time:>10.6g} s  {_SENTENCES[self.kind].format(self=self, what=shown(self.what))}"


NOTES = {
    "failed": "fails: {}",
    "restarted": "is restarted after {}",
    "escalated": "escalates {}",
    "full": "has no room for {}",
    "dropped": "drops {}",
    "declined": "refuses it: {}",
}
"""What an event says of its actor, where that is the same in a text and in a diagram."""

_SENTENCES = {
    **{kind: "    {self.actor} " + note.format("{what}") for kind, note in NOTES.items()},
    "told": "{self.other} -> {self.actor}: {what}",
    "asked": "{self.other} -> {self.actor}: {what}, and asks for a reply",
    "ticked": "{self.other} -> {self.actor}: {what}, by a timer",
    "taken": "    {self.actor} handles {what}",
    "answered": "{self.actor} answers {self.other}: {what}",
    "refused": "{self.other} gets no answer from {self.actor}: {what}",
    "started": "    {self.actor} has started",
    "stopped": "    {self.actor} has ended: {what}",
    "dead_letter": "    {what} to {self.actor} is a dead letter",
    "injected": "    fault: {self.what}",
}


def printable(text: str) -> str:
    """`text` on one line, with unprintable characters escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def shown(what: object) -> str:
    """A short text for `what` that is the same in every run: without addresses."""
    if isinstance(what, ExitReason):
        return str(what)
    try:
        text = repr(what)
    except Exception as exc:
        text = f"<{type(what).__name__} whose repr raises {type(exc).__name__}>"
    text = printable(_ADDRESS.sub("", text)) or f"<{type(what).__name__} that shows nothing>"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
