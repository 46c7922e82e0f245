"""Stubs for other actors (`TestInbox`), and answers that the actor under test still owes (`PendingAnswer`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenroom.errors.base import counted
from greenroom.testing.effects import Sent
from greenroom.testing.probing.matching import shown

if TYPE_CHECKING:
    from greenroom.actor.messaging.asking import Asked
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.testing.harness.recording import Recorder

__all__ = ["PendingAnswer", "TestInbox"]


class TestInbox:
    """What `harness.inbox()` returns: the `ref` of a stub actor, and the messages that it was sent."""

    __test__ = False  # so that pytest does not collect it

    def __init__(self, ref: ActorRef, recorder: Recorder) -> None:
        self.ref = ref
        self._recorder = recorder

    def __repr__(self) -> str:
        return f"<TestInbox {self.ref}, {counted(len(self.sent), 'message')}>"

    @property
    def messages(self) -> list[Any]:
        """The messages that it was sent since the harness was last cleared."""
        return self._recorder.messages_to(self.ref)

    @property
    def sent(self) -> list[Sent]:
        """The same with lanes and senders, and with `reply` and `fail` for asks."""
        return self._recorder.sent_to(self.ref)

    def reply(self, value: object = None) -> None:
        """Answer the oldest open ask."""
        self._first_ask().reply(value)

    def fail(self, cause: BaseException) -> None:
        """Fail the oldest open ask with `cause`."""
        self._first_ask().fail(cause)

    def _first_ask(self) -> Sent:
        sent = self._recorder.first_ask_of(self.ref)
        if sent is None:
            raise AssertionError(f"nobody waits for a reply of {self.ref}; it was sent {shown(self.messages)}")
        return sent

    def hold(self) -> None:
        """Leave its messages in its mailbox from now on, for example to fill it."""
        self.ref._cell.hold()

    def release(self) -> None:
        """Let it take messages again, from the next call of the harness on."""
        self.ref._cell.release()


class PendingAnswer:
    """What `begin_ask` returns: the answer of the actor under test, perhaps still to come."""

    def __init__(
        self,
        message: object,
        question: Asked,
        see: Callable[[BaseException], None],
        what_it_does: Callable[[], str],
    ) -> None:
        self._message = message
        self._question = question
        self._see = see
        self._was_seen = False
        self._what_it_does = what_it_does

    def __repr__(self) -> str:
        return f"<PendingAnswer to {shown(self._message)}, {'done' if self.done else 'open'}>"

    @property
    def done(self) -> bool:
        """Whether the answer is there, or the ask has failed."""
        return bool(self._question.done())

    def result(self) -> Any:
        """Return the reply, or raise what the handler raised. Raise AssertionError if there is no answer yet."""
        if not self.done:
            target = self._question.target.shown()
            raise AssertionError(f"{target} has not answered {shown(self._message)}: {self._what_it_does()}")
        try:
            return _result_of(self._question)
        except BaseException as exc:
            if not self._was_seen:
                self._was_seen = True
                self._see(exc)
            raise


def _result_of(question: Asked) -> Any:
    """The result of a question that is done."""
    try:
        next(question.__await__())
    except StopIteration as stop:
        return stop.value
