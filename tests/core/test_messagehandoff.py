"""A hand-off of messages to another thread: which of those that wait come along with the first."""

from typing import Any

import pytest

from greenroom._core.handoff.messages import MessageHandoff
from greenroom._core.limits import Limits
from greenroom._core.receipt import Receipt
from greenroom._core.scheduler.loop import Loop
from greenroom.lanes import Lane, MailboxConfig, Overflow

DATA, LOG = Lane.DATA, Lane.LOG
PLAIN = MailboxConfig()
A_RECEIPT = Receipt()


@pytest.mark.parametrize(
    ("config", "first", "waiting", "carried"),
    [
        (PLAIN, (DATA, None), [], [0]),
        (PLAIN, (DATA, None), [(DATA, None), (DATA, "a sender")], [0, 1, 2]),
        (PLAIN, (DATA, None), [(DATA, None), (DATA, A_RECEIPT), (DATA, None)], [0, 1]),
        (PLAIN, (DATA, A_RECEIPT), [(DATA, None)], [0]),
        (PLAIN, (LOG, None), [(DATA, None)], [0]),
        (PLAIN, (DATA, None), [(DATA, None), (LOG, None)], [0]),
        (MailboxConfig(priority=id), (DATA, None), [(DATA, None)], [0]),
        (MailboxConfig(capacity=9, overflow=Overflow.DROP_OLD), (DATA, None), [(DATA, None)], [0]),
        (MailboxConfig(capacity=9, overflow=Overflow.DROP_NEW), (DATA, None), [(DATA, None)], [0, 1]),
    ],
    ids=[
        "none wait",
        "all are plain",
        "a question waits",
        "a question is the first",
        "the first is of another lane",
        "another lane waits",
        "a priority",
        "the oldest may be dropped",
        "the newest may be dropped",
    ],
)
def test_messages_that_are_as_plain_come_along(
    config: MailboxConfig, first: tuple[Lane, Any], waiting: list[tuple[Lane, Any]], carried: list[int]
) -> None:
    loop = Loop()
    cell = loop.spawn(id, mailbox=config)
    for number, (lane, sender) in enumerate(waiting, 1):
        cell.accept(number, sender, lane)
    handoff = MessageHandoff(cell, 0, first[1], first[0], lambda: False, lambda: False)
    handoff.carry()
    assert handoff.messages == carried
    assert handoff.senders == [first[1], *(sender for _, sender in waiting)][: len(carried)]


def test_no_more_messages_come_along_than_sixteen_visits_handle() -> None:
    loop = Loop(Limits(max_msgs_per_actor=2))
    cell = loop.spawn(id)
    for number in range(1, 100):
        cell.accept(number, None, DATA)
    handoff = MessageHandoff(cell, 0, None, DATA, lambda: False, lambda: False)
    handoff.carry()
    assert handoff.messages == list(range(32))
