"""`Reply`: an answer that is given later, from anywhere."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from typing import NoReturn

from greenroom._core.scheduler.loop import Loop
from greenroom.actor.messaging.question import Question
from greenroom.errors import AlreadyReplied, BadArgument


class Reply:
    """A reply that is given later, from anywhere, once."""

    __slots__ = ("_given", "_loop", "_question", "_send")

    def __init__(self, loop: Loop, question: Question | None, send: Callable[[object], object]) -> None:
        self._loop = loop
        self._question = question
        # What a reply to a message that was not asked does.
        self._send = send
        self._given = False

    def send(self, value: object) -> None:
        """Answer with `value`."""
        question = self._question
        self._give((lambda: self._send(value)) if question is None else (lambda: question.answer(value)))

    def fail(self, exc: BaseException) -> None:
        """Answer with an exception."""
        if not isinstance(exc, BaseException):
            raise BadArgument(f"a reply fails with an exception, not with {exc!r}")
        question = self._question
        self._give((lambda: None) if question is None else (lambda: question.refuse(exc)))

    def _give(self, action: Callable[[], object]) -> None:
        if self._given:
            raise AlreadyReplied
        self._given = True
        if get_ident() == self._loop.runq.thread:
            action()
        else:
            self._loop.inbound.post(None, action)

    def __reduce__(self) -> NoReturn:
        raise BadArgument("a reply cannot be pickled: it belongs to the process of the actor that was asked")
