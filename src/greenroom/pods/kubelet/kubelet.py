"""The kubelet: the one actor that starts the pods of a troupe, hears how they end, and decides what becomes of them.

It decides and does nothing else, so it is never held up: the policy is that of a `Supervisor`, with pods for children.
Exits come as notices, and so do the moments of delayed restarts. Cooperative pods share its loop, whose run queue gives
each its turn; when nothing is left to do, the thread sleeps until a bell is rung.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.api.actor import Actor
from greenroom.actor.api.behavior import UNHANDLED
from greenroom.actor.failure.engine import Delayed, RestartEngine, Status
from greenroom.actor.failure.reports import when
from greenroom.errors import ActorTerminated, Fatal, PodRestartLimit, SystemStopped
from greenroom.errortext import add_note, counted, in_words
from greenroom.exits import SHUTDOWN, ExitReason
from greenroom.pods.kubelet.podrecord import Decision, PodEnded, PodPhase, PodStarted, Verdict
from greenroom.pods.manifest.settings import ThreadModel
from greenroom.policy.backoff import elapsed
from greenroom.policy.limits import Window
from greenroom.policy.plan import wants_restart
from greenroom.runtimelog import RuntimeLog
from greenroom.system.ending.report import Phase
from greenroom.system.eventloop import keep_on_core

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greenroom.pods.assembly import Assembly
    from greenroom.pods.kubelet.podrecord import PodRecord

_log = RuntimeLog()

_UP = (PodPhase.RUNNING, PodPhase.COMPLETED)
"""The phases of a pod that is not waited for when its troupe starts."""


class Kubelet(Actor):
    """Looks after the pods of one troupe."""

    __greenroom_stays_on_loop__: ClassVar[bool] = True

    def __init__(self, troupe: Assembly) -> None:
        self._troupe = troupe
        self._config = troupe.config
        self._pods = troupe.pods
        # What has ended the troupe, if it is within another and has ended.
        self._ended: tuple[BaseException | None, str | None] | None = None
        # Whether the kubelet above has been told of that.
        self._has_told = False
        self._window = Window(troupe.config.max_restarts, troupe.config.within)

    # -- its own life

    def pre_start(self) -> None:
        if self._config.core is not None and self._troupe.has_own_thread():
            keep_on_core(f"the kubelet of {self._troupe.name}", self._config.core)
        self._troupe.heart.begin()

    def pre_stop(self) -> None:
        # No sender is to wait for a restart that does not come.
        self._troupe.mark_all_gone("is being shut down")
        if self._troupe.outer is not None and self._ended is None:
            self._troupe.outer.enter(PodPhase.TERMINATING)

    def post_stop(self) -> None:
        """Decide nothing any more. If the troupe was not ending, it ends now, for want of a kubelet."""
        self._troupe.heart.end()
        self._cancel_restarts()
        self._troupe.mark_all_gone("has ended")
        if self._troupe.outer is not None and self._troupe.outer.shown.phase is PodPhase.TERMINATING:
            self._troupe.outer.enter(PodPhase.COMPLETED)
        if not self._is_stopping():
            self.ctx.system.fail(ActorTerminated(self.ctx.self, "it is the kubelet, and was ended from outside"))

    @cached_property
    def _engine(self) -> RestartEngine[PodRecord]:
        cell = self.ctx.cell
        return RestartEngine(cell.loop, self._decide, cell.notify)

    def _cancel_restarts(self) -> None:
        for pod in self._pods.values():
            pod.cancel_restart()

    def _is_stopping(self) -> bool:
        """Whether pods are no longer restarted. They still are while the troupe drains, for the messages that wait."""
        phase: str = self.ctx.system.phase
        return phase not in (Phase.RUNNING, Phase.DRAINING)

    def inspect(self, *items: str) -> Mapping[str, Any]:
        return {
            "pods": {name: str(pod.shown) for name, pod in self._pods.items()},
            "restarts": {name: pod.shown.restarts for name, pod in self._pods.items()},
        }

    # -- what becomes of pods

    def receive(self, message: object) -> object:
        if isinstance(message, PodEnded):
            self._pod_ended(message.pod, message)
        elif isinstance(message, PodStarted):
            message.pod.running_since = self.ctx.now()
            self._engine.running(message.pod)
            if self._troupe.outer is not None and all(pod.shown.phase in _UP for pod in self._pods.values()):
                self._troupe.outer.troupe_runs()
        elif isinstance(message, Verdict):
            self._outer_has_decided(message.decision)
        elif isinstance(message, Delayed):
            if not self._is_stopping():
                self._engine.rung(message)
        else:
            return UNHANDLED
        return None

    def _pod_ended(self, pod: PodRecord, ended: PodEnded) -> None:
        if ended.gone is not None and (pod.ref is None or pod.ref._cell is not ended.gone):
            return  # that was in an earlier life of its troupe
        if self._ended is not None:
            if ended.gone is not None or pod.is_nested:
                self._engine.gone(pod)
            self._see_whether_all_are_gone()
        elif pod.is_over:
            if ended.gone is not None:
                self._engine.gone(pod)
            self._see_whether_all_are_over()
        else:
            if ended.alone:
                pod.enter(PodPhase.FAILED if ended.reason.abnormal else PodPhase.COMPLETED, ended.reason.cause)
                pod.is_alone = True
            if ended.gone is not None:
                self._engine.gone(pod, ended.reason, by_itself=True)
            else:
                self._engine.rested(pod, ended.reason)
            self._engine.go_on()

    def _decide(self, pod: PodRecord) -> None:
        reason = pod.reason
        assert reason is not None
        if self._is_stopping():
            self._end_pod(pod, f"it has {_in_words(reason)} while its troupe was ending", reason)
        elif not self._is_to_come_back(pod, reason):
            self._end_for_good(pod, reason)
        elif not self._window.admits(self.ctx.now()):
            self._give_up(pod, reason)
        else:
            self._restart_later(pod, reason)

    def _is_to_come_back(self, pod: PodRecord, reason: ExitReason) -> bool:
        if isinstance(reason.cause, Fatal) or (pod.is_alone and not pod.has_actors()):
            return False
        if pod.is_nested and reason.abnormal and not pod.pod.watch:
            return False
        return wants_restart(pod.pod.restart.restart, reason.kind)

    def _restart_later(self, pod: PodRecord, reason: ExitReason) -> None:
        since, pod.running_since = pod.running_since, None
        ran = None if since is None else elapsed(since, self.ctx.now())
        delay = pod.delays.next(self._config.backoff, ran, self._config.within, self.ctx.system.random)
        words = f"the pod {pod.slot.name} is restarted {when(delay)}"
        pod.tell_supervisor(Decision.WAIT, words, delay)
        self._engine.restart(pod, delay)

    def _end_for_good(self, pod: PodRecord, reason: ExitReason) -> None:
        """The pod does not come back. With a MAIN pod, or the last one of all, the troupe has come to its end."""
        why = f"it has {_in_words(reason)}"
        if isinstance(reason.cause, Fatal):
            why += ", which it said was fatal"
        elif reason.abnormal:
            why += f", and its restart policy is {pod.pod.restart}"
        if pod.pod.thread is ThreadModel.MAIN:
            # First, so that the others know why it is gone.
            self._end_all(reason.cause if reason.abnormal else None, pod.name)
            if self._troupe.outer is not None:
                return  # all its pods end, and the kubelet above decides whether they come back
        self._end_pod(pod, why, reason)
        self._see_whether_all_are_over()

    def _end_pod(self, pod: PodRecord, why: str, reason: ExitReason, remedy: str = "") -> None:
        if pod.status is not Status.STOPPED:
            pod.status = Status.ENDING
        _log.info("the pod %s is gone: %s", pod.slot.name, why)
        pod.slot.mark_gone(why, reason.cause)
        if not pod.has_actors():
            pod.slot.clear_on_loop("its pod is gone")
        elif pod.is_alone:
            _end_supervisor(pod)
        else:
            words = f"the pod {pod.slot.name} is not restarted"
            pod.tell_supervisor(Decision.STOP, words, remedy=remedy)

    def _give_up(self, pod: PodRecord, reason: ExitReason) -> None:
        config = self._config
        limit = config.max_restarts or 0
        why = f"it has {_in_words(reason)}, which is more than {counted(limit, 'restart')} in {config.within:g} s"
        remedy = "Find out why it fails, or raise `max_restarts` or `within` in KubeletConfig"
        if self._troupe.outer is None or not self._troupe.outer.pod.watch:
            self._end_pod(pod, why, reason, remedy)
        else:  # the troupe that watches may bring it up again
            _log.error("the pod %s: %s. %s", pod.slot.name, why, remedy)
        cause = reason.cause
        if cause is None:
            cause = PodRestartLimit(pod.name, limit, config.within, None)
        else:
            limits = f"{counted(limit, 'restart')} in {config.within:g} s"
            add_note(cause, f"Greenroom: the pod {pod.name!r} has come to its limit, {limits}. {remedy}")
        self._end_all(cause, pod.name)

    def _see_whether_all_are_over(self) -> None:
        if self._ended is None and not self._is_stopping() and all(pod.is_over for pod in self._pods.values()):
            self._end_all(None, None)

    # -- what becomes of the troupe

    def _end_all(self, cause: BaseException | None, pod: str | None) -> None:
        """End the troupe. If it is within another, its pods end first, and then that one decides."""
        if self._troupe.outer is None:
            self._troupe.ends(cause, pod)
            return
        self._ended = cause, pod
        self._has_told = False
        self._cancel_restarts()
        self._troupe.has_ended = True
        for one in self._pods.values():
            why = f"its troupe {self._troupe.name!r} has {'ended' if cause is None else 'failed'}"
            one.slot.withdraw(why, wake=True)
            if one.is_nested:
                one.tell_supervisor(Decision.END)
            elif one.ref is not None and one.status is not Status.STOPPED:
                _end_supervisor(one)
        self._see_whether_all_are_gone()

    def _see_whether_all_are_gone(self) -> None:
        all_are_gone = all(pod.status is Status.STOPPED for pod in self._pods.values())
        if self._ended is not None and not self._has_told and all_are_gone:
            self._has_told = True
            self._troupe.ends(*self._ended)

    def _outer_has_decided(self, decision: Decision) -> None:
        if self._troupe.outer is None:
            return
        if decision is Decision.END and self._ended is None:
            self._end_all(None, None)
        elif decision is Decision.END:  # it has ended before, and waits for a decision that does not come
            self._has_told = False
            self._see_whether_all_are_gone()
        elif decision is Decision.RESTART and self._ended is not None:
            self._ended = None
            self._troupe.has_ended = False
            self._window = Window(self._config.max_restarts, self._config.within)
            self._troupe.outer.enter(PodPhase.PENDING, restarts=1)
            for pod in self._pods.values():
                pod.begin_again()
                with suppress(SystemStopped):  # its own end comes next
                    self._troupe.bring_up(pod)
        elif decision is Decision.STOP and self._ended is not None:
            # The kubelet stays: when the troupe above is brought up again, so is this one.
            for pod in self._pods.values():
                pod.slot.mark_gone(f"its troupe {self._troupe.name!r} is gone")
                pod.slot.clear_on_loop("its pod is gone")
                if pod.is_nested:
                    pod.tell_supervisor(Decision.STOP)


def _end_supervisor(pod: PodRecord) -> None:
    assert pod.ref is not None
    cell = pod.ref._cell
    cell.loop.host.request_end(cell, SHUTDOWN)


def _in_words(reason: ExitReason) -> str:
    if not reason.abnormal:
        return "ended by itself"
    return f"failed ({reason if reason.cause is None else in_words(reason.cause)})"
