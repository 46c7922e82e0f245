"""Receipts: what goes with a message hears of its end, exactly once, however it ended."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from greenroom._core.receipt import NOTICE, Receipt
from greenroom._core.scheduler.loop import Loop
from greenroom.lanes import Lane, MailboxConfig, Overflow


class Recorder(Receipt):
    """Notes what it hears."""

    def __init__(self, wanted: bool = True) -> None:
        self.wanted = wanted
        self.heard: list[tuple[str, Any]] = []

    def live(self) -> bool:
        return self.wanted

    def settle(self, result: object) -> None:
        self.heard.append(("settled", result))

    def fail(self, cause: BaseException) -> None:
        self.heard.append(("failed", cause))

    def discard(self, why: str) -> None:
        self.heard.append(("discarded", why))


def test_a_plain_receipt_wants_its_message_and_listens_to_nothing() -> None:
    receipt = Receipt()
    assert receipt.shown_sender() is None
    assert receipt.live() is True
    receipt.settle("result")
    receipt.fail(ValueError())
    receipt.discard("stopped")


def test_a_receipt_of_ones_own_may_show_a_sender() -> None:
    class Signed(Receipt):
        def shown_sender(self) -> object:
            return "the signer"

    assert Signed().shown_sender() == "the signer"


def test_the_mark_of_a_notice_is_a_receipt_and_reads_as_what_it_is() -> None:
    assert isinstance(NOTICE, Receipt)
    assert repr(NOTICE) == "NOTICE"


PLACES = pytest.mark.parametrize(
    ("lane", "priority"),
    [(Lane.CONTROL, None), (Lane.MANAGEMENT, None), (Lane.DATA, None), (Lane.LOG, None), (Lane.DATA, id)],
    ids=["CONTROL", "MANAGEMENT", "DATA", "LOG", "KEY"],
)


class Stage:
    """A loop with one cell, whose handler is given by the test."""

    def __init__(
        self,
        lane: Lane,
        priority: Callable[[Any], Any] | None,
        handler: Callable[[Any], object] = lambda message: None,
        overflow: Overflow = Overflow.REJECT,
    ) -> None:
        self.lane = lane
        bounds: dict[Lane, int] = {} if lane is Lane.DATA else {lane: 1}
        config = MailboxConfig(capacity=1, overflow=overflow, priority=priority, lanes=bounds)
        self.loop = Loop()
        self.cell = self.loop.spawn(lambda subject, message: handler(message), None, config)

    def post(self, receipt: Receipt, message: object = "m") -> None:
        self.cell.post(message, receipt, self.lane)

    def run(self) -> None:
        self.loop.run_until_idle()


@PLACES
def test_a_handled_message_settles_its_receipt_with_the_result(lane: Lane, priority: Any) -> None:
    stage, receipt = Stage(lane, priority, lambda message: f"answer to {message}"), Recorder()
    stage.post(receipt)
    assert receipt.heard == []
    stage.run()
    assert receipt.heard == [("settled", "answer to m")]


@PLACES
def test_a_handler_that_returns_nothing_settles_its_receipt_too(lane: Lane, priority: Any) -> None:
    stage, receipt = Stage(lane, priority), Recorder()
    stage.post(receipt)
    stage.run()
    assert receipt.heard == [("settled", None)]


@PLACES
def test_a_handler_that_raises_fails_its_receipt_with_the_cause(lane: Lane, priority: Any) -> None:
    cause = ValueError("bad")

    def burst(message: object) -> None:
        raise cause

    stage, receipt = Stage(lane, priority, burst), Recorder()
    stage.post(receipt)
    stage.run()
    assert receipt.heard == [("failed", cause)]


@PLACES
def test_a_message_that_is_wanted_no_more_is_not_handled(lane: Lane, priority: Any) -> None:
    handled: list[object] = []
    stage, receipt = Stage(lane, priority, handled.append), Recorder()
    stage.post(receipt)
    receipt.wanted = False
    stage.run()
    assert handled == []
    assert receipt.heard == [("discarded", "withdrawn")]
    stage.cell.tell("next", None, lane)
    stage.run()
    assert handled == ["next"]


@PLACES
@pytest.mark.parametrize(("policy", "loser"), [(Overflow.DROP_OLD, 0), (Overflow.DROP_NEW, 1)])
def test_a_dropped_message_discards_its_receipt(lane: Lane, priority: Any, policy: Overflow, loser: int) -> None:
    stage, receipts = Stage(lane, priority, overflow=policy), [Recorder(), Recorder()]
    for receipt in receipts:
        stage.post(receipt)
    stage.run()
    assert receipts[loser].heard == [("discarded", "dropped")]
    assert receipts[1 - loser].heard == [("settled", None)]


@PLACES
@pytest.mark.parametrize("wanted", [True, False])
def test_a_message_whose_actor_ends_first_discards_its_receipt(lane: Lane, priority: Any, wanted: bool) -> None:
    stage, receipt = Stage(lane, priority), Recorder(wanted)
    stage.post(receipt)
    stage.loop.retire(stage.cell, "stopped")
    stage.run()
    assert receipt.heard == [("discarded", "stopped" if wanted else "withdrawn")]


@PLACES
def test_a_message_to_an_actor_that_has_ended_discards_its_receipt(lane: Lane, priority: Any) -> None:
    stage, receipt = Stage(lane, priority), Recorder()
    stage.loop.retire(stage.cell)
    stage.post(receipt)
    stage.run()
    assert receipt.heard == [("discarded", "stopped")]


@PLACES
def test_an_actor_that_ends_while_it_handles_the_message_still_settles_its_receipt(lane: Lane, priority: Any) -> None:
    def end(message: object) -> str:
        stage.loop.retire(stage.cell)
        return "done"

    stage = Stage(lane, priority, end)
    receipt = Recorder()
    stage.post(receipt)
    stage.run()
    assert receipt.heard == [("settled", "done")]


@PLACES
def test_an_actor_that_ends_and_raises_while_it_handles_the_message_fails_its_receipt(
    lane: Lane, priority: Any
) -> None:
    def end_and_raise(message: object) -> None:
        stage.loop.retire(stage.cell)
        raise ValueError

    stage = Stage(lane, priority, end_and_raise)
    receipt = Recorder()
    stage.post(receipt)
    stage.run()
    assert [how for how, _ in receipt.heard] == ["failed"]


def in_a_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(120)
    assert not thread.is_alive()


@PLACES
def test_a_receipt_from_another_thread_hears_of_its_message_too(lane: Lane, priority: Any) -> None:
    stage, receipt = Stage(lane, priority, lambda message: "done"), Recorder()
    in_a_thread(lambda: stage.post(receipt))
    stage.run()
    assert receipt.heard == [("settled", "done")]


@PLACES
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_receipt_from_another_thread_is_discarded_when_the_loop_stops(lane: Lane, priority: Any, when: str) -> None:
    stage, receipt = Stage(lane, priority), Recorder()
    if when == "after":
        stage.loop.close()
    in_a_thread(lambda: stage.post(receipt))
    stage.loop.close()
    assert [how for how, _ in receipt.heard] == ["discarded"]
