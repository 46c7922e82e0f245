"""What a test holds in its hands beside a harness: stand-ins, and answers that are still to come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenroom.testing.effects import Sent
from greenroom.testing.probing.matching import shown

if TYPE_CHECKING:
    from greenroom.actor.messaging.question import Question
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.testing.harness.recording import Recorder

__all__ = ["PendingAnswer", "StandIn"]


class StandIn:
    """What `harness.inbox()` makes: the `ref` of an actor that does nothing, and what the actor under test sent it."""

    def __init__(self, ref: ActorRef, recorder: Recorder) -> None:
        self.ref = ref
        self._recorder = recorder

    def __repr__(self) -> str:
        return f"<StandIn {self.ref}, {len(self.sent)} messages>"

    @property
    def messages(self) -> list[Any]:
        """What it was sent, since the harness was last cleared."""
        return self._recorder.messages_to(self.ref)

    @property
    def sent(self) -> list[Sent]:
        """The same, with all there is to know: lanes, senders, and asks to be answered."""
        return self._recorder.sent_to(self.ref)

    def reply(self, value: object = None) -> None:
        """Answer the first ask that is still open."""
        self._first_ask().reply(value)

    def fail(self, cause: BaseException) -> None:
        """Let the first ask that is still open fail with `cause`."""
        self._first_ask().fail(cause)

    def _first_ask(self) -> Sent:
        sent = self._recorder.first_ask_of(self.ref)
        if sent is None:
            raise AssertionError(f"nobody waits for a reply of {self.ref}; it was sent {shown(self.messages)}")
        return sent

    def hold(self) -> None:
        """Let its messages wait in its mailbox from now on, which may become full."""
        self.ref._cell.hold()

    def release(self) -> None:
        """Let it take them again, from the next call of the harness on."""
        self.ref._cell.release()


class PendingAnswer:
    """What `begin_ask` returns: an answer that the actor under test may owe for a while."""

    def __init__(
        self,
        message: object,
        question: Question,
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
        """Whether the answer is there, or there will be none."""
        return bool(self._question.done())

    def result(self) -> Any:
        """The reply, or raise what the handler raised. An AssertionError if the actor has not answered yet."""
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


def _result_of(question: Question) -> Any:
    """What a question that has ended came to."""
    try:
        next(question.__await__())
    except StopIteration as stop:
        return stop.value
