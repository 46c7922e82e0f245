"""The kubelet: the one actor that starts the pods of a troupe, hears how they end, and decides what becomes of them.

It decides and does nothing else, so it is never held up: the policy is that of a `Supervisor`, with pods for children.
Exits come as notices, and so do the moments of delayed restarts. Cooperative pods share its loop, whose run queue gives
each its turn; when nothing is left to do, the thread sleeps until a bell is rung.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.api.actor import Actor
from greenroom.actor.api.behavior import UNHANDLED
from greenroom.actor.failure.reports import when
from greenroom.actor.life.restarting import start_again
from greenroom.errors import ActorTerminated, Fatal, PodRestartLimit, SystemStopped
from greenroom.errors.base import add_note, counted, in_words
from greenroom.exits import SHUTDOWN, ExitReason
from greenroom.pods.kubelet.notices import Decision, OuterEnds, PodEnded, PodStarted, RestartDue, Verdict
from greenroom.pods.manifest.phases import PodPhase
from greenroom.pods.manifest.settings import ThreadModel
from greenroom.policy.backoff import next_delay
from greenroom.policy.intensity import Window, elapsed
from greenroom.policy.plan import wants_restart
from greenroom.runtimelog import RuntimeLog
from greenroom.supervision.childrecord import RestartDueAlarm
from greenroom.system.ending.report import Phase
from greenroom.system.loops.cores import keep_on_core

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greenroom.pods.kubelet.podrecord import PodRecord
    from greenroom.pods.kubelet.ports import TroupeParts

__all__ = ["Kubelet"]

_log = RuntimeLog()

_UP = (PodPhase.RUNNING, PodPhase.COMPLETED)
"""The phases of a pod that is not waited for when its troupe starts."""


class Kubelet(Actor):
    """Looks after the pods of one troupe."""

    __greenroom_stays_on_loop__: ClassVar[bool] = True

    def __init__(self, troupe: TroupeParts) -> None:
        self._troupe = troupe
        self._config = troupe.config
        self._pods = troupe.pods
        # What has ended the troupe, if it is within another and has ended.
        self._ended: tuple[BaseException | None, str | None] | None = None
        # Whether the kubelet above has been told of that.
        self._has_told = False
        self._window = Window(troupe.config.max_restarts, troupe.config.within)
        self._alarms: dict[str, RestartDueAlarm] = {}

    # -- its own life

    def pre_start(self) -> None:
        """Begin to show that it is well, on the processor that it is to be kept on."""
        if self._config.core is not None and self._troupe.has_own_thread():
            keep_on_core(f"the kubelet of {self._troupe.name}", self._config.core)
        self._troupe.heart.begin()

    def pre_stop(self) -> None:
        """The troupe ends: nobody is to wait for a restart that does not come."""
        self._troupe.let_all_go("is being shut down")
        if self._troupe.outer is not None and self._ended is None:
            self._troupe.outer.enter(PodPhase.TERMINATING)

    def post_stop(self) -> None:
        """Nothing is decided any more. If it was not the troupe's end, it is now: nobody looks after the pods."""
        self._troupe.heart.end()
        self._cancel_alarms()
        self._troupe.let_all_go("has ended")
        if self._troupe.outer is not None and self._troupe.outer.status.phase is PodPhase.TERMINATING:
            self._troupe.outer.enter(PodPhase.COMPLETED)
        if not self._is_stopping():
            self.ctx.system.fail(ActorTerminated(self.ctx.self, "it is the kubelet, and was ended from outside"))

    def _cancel_alarms(self) -> None:
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()

    def _is_stopping(self) -> bool:
        """Whether nothing is restarted any more. While the troupe drains, it is: for the messages that wait."""
        phase: str = self.ctx.system.phase
        return phase not in (Phase.RUNNING, Phase.DRAINING)

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """What observers see of it."""
        return {
            "pods": {name: str(pod.status) for name, pod in self._pods.items()},
            "restarts": {name: pod.status.restarts for name, pod in self._pods.items()},
        }

    # -- what becomes of pods

    def receive(self, message: object) -> object:
        """A notice about a pod."""
        if isinstance(message, PodEnded):
            pod = message.pod
            if message.gone is not None:
                if pod.ref is None or pod.ref._cell is not message.gone:
                    return None  # that was in an earlier life of its troupe
                pod.has_gone = True
            if self._ended is not None:
                pod.has_gone = pod.has_gone or pod.is_nested
                self._see_whether_all_are_gone()
            else:
                self._pod_ended(message.pod, message.reason, message.alone)
        elif isinstance(message, PodStarted):
            message.pod.running_since = self.ctx.now()
            if self._troupe.outer is not None and all(pod.status.phase in _UP for pod in self._pods.values()):
                self._troupe.outer.troupe_runs()
        elif isinstance(message, Verdict):
            self._outer_has_decided(message.decision)
        elif isinstance(message, OuterEnds):
            if self._ended is None:
                self._end_all(None, None)
            else:  # it has ended before, and waits for a decision that does not come
                self._has_told = False
                self._see_whether_all_are_gone()
        elif isinstance(message, RestartDue):
            alarm = self._alarms.get(message.pod.name)
            if alarm is not None and alarm.notice is message and not self._is_stopping():
                del self._alarms[message.pod.name]
                self._restart(message.pod)
        else:
            return UNHANDLED
        return None

    def _pod_ended(self, pod: PodRecord, reason: ExitReason, alone: bool) -> None:
        if pod.is_over:
            self._see_whether_all_are_over()
            return
        if alone:
            pod.enter(PodPhase.FAILED if reason.abnormal else PodPhase.COMPLETED, reason.cause)
            pod.needs_supervisor = True
        alarm = self._alarms.pop(pod.name, None)
        if alarm is not None:
            alarm.cancel()
        if self._is_stopping():
            self._end_pod(pod, f"it has {_in_words(reason)} while its troupe was ending", reason)
        elif not self._is_to_come_back(pod, reason):
            self._let_go(pod, reason)
        elif not self._window.admits(self.ctx.now()):
            self._give_up(pod, reason)
        else:
            self._restart_later(pod, reason)

    def _is_to_come_back(self, pod: PodRecord, reason: ExitReason) -> bool:
        if isinstance(reason.cause, Fatal) or (pod.needs_supervisor and not _rests(pod)):
            return False
        if pod.is_nested and reason.abnormal and not pod.pod.watch:
            return False
        return wants_restart(pod.pod.restart.restart, reason.kind)

    def _restart_later(self, pod: PodRecord, reason: ExitReason) -> None:
        since, pod.running_since = pod.running_since, None
        ran = None if since is None else elapsed(since, self.ctx.now())
        backoff = self._config.backoff
        chance = self.ctx.system.random.random() if backoff is not None and backoff.jitter else 0.5
        delay, pod.streak = next_delay(backoff, pod.streak, ran, self._config.within, chance)
        words = f"the pod {pod.slot.name} is restarted {when(delay)}"
        if delay <= 0.0:
            self._restart(pod, words)
        else:
            self._tell(pod, Verdict(pod, Decision.WAIT, words, delay))
            cell = self.ctx.cell
            self._alarms[pod.name] = RestartDueAlarm(cell, cell.loop.now() + delay, RestartDue(pod))

    def _restart(self, pod: PodRecord, words: str = "") -> None:
        if pod.needs_supervisor and pod.ref is not None:
            pod.needs_supervisor = False
            pod.enter(PodPhase.PENDING, restarts=1)
            pod.ref._cell.order(start_again)
        else:
            self._tell(pod, Verdict(pod, Decision.RESTART, words))

    def _tell(self, pod: PodRecord, verdict: Verdict) -> None:
        if pod.ref is not None and not pod.needs_supervisor:
            pod.ref._cell.notify(verdict)

    def _let_go(self, pod: PodRecord, reason: ExitReason) -> None:
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
                return  # all its pods end, and whoever is above decides whether they come back
        self._end_pod(pod, why, reason)
        self._see_whether_all_are_over()

    def _end_pod(self, pod: PodRecord, why: str, reason: ExitReason, remedy: str = "") -> None:
        pod.is_over = True
        _log.info("the pod %s is gone: %s", pod.slot.name, why)
        pod.slot.let_go(why, reason.cause)
        if pod.ref is None or not pod.ref.is_alive:
            pod.slot.clear_on_loop("its pod is gone")
        elif pod.needs_supervisor:
            cell = pod.ref._cell
            cell.loop.host.request_end(cell, SHUTDOWN)
        else:
            self._tell(pod, Verdict(pod, Decision.LET_GO, f"the pod {pod.slot.name} is not restarted", remedy=remedy))

    def _give_up(self, pod: PodRecord, reason: ExitReason) -> None:
        """One restart too many: the troupe has failed."""
        config = self._config
        limit = config.max_restarts or 0
        why = f"it has {_in_words(reason)}, which is more than {counted(limit, 'restart')} in {config.within:g} s"
        remedy = "Find out why it fails, or raise `max_restarts` or `within` in KubeletConfig"
        if self._troupe.outer is None or not self._troupe.outer.pod.watch:
            self._end_pod(pod, why, reason, remedy)
        else:  # whoever watches may bring it up again
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
        """The troupe has come to its end. If it is within another, its pods end first, and then that decides."""
        if self._troupe.outer is None:
            self._troupe.ends(cause, pod)
            return
        self._ended = cause, pod
        self._has_told = False
        self._cancel_alarms()
        self._troupe.let_senders_wait(False)
        for one in self._pods.values():
            one.is_revived = True
            why = f"its troupe {self._troupe.name!r} has {'ended' if cause is None else 'failed'}"
            one.slot.withdraw(why, wake=True)
            if one.is_nested:
                self._end_troupe_within(one)
            elif one.ref is not None and not one.has_gone:
                cell = one.ref._cell
                cell.loop.host.request_end(cell, SHUTDOWN)
        self._see_whether_all_are_gone()

    def _end_troupe_within(self, pod: PodRecord) -> None:
        pod.has_gone = pod.ref is None or not pod.ref.is_alive
        if pod.ref is not None and not pod.has_gone:
            pod.ref._cell.notify(OuterEnds(pod))

    def _see_whether_all_are_gone(self) -> None:
        if self._ended is not None and not self._has_told and all(pod.has_gone for pod in self._pods.values()):
            self._has_told = True
            cause, pod = self._ended
            self._troupe.ends(cause, pod)

    def _outer_has_decided(self, decision: Decision) -> None:
        if self._ended is None or self._troupe.outer is None or decision is Decision.WAIT:
            return
        if decision is Decision.RESTART:
            self._ended = None
            self._troupe.let_senders_wait(True)
            self._window = Window(self._config.max_restarts, self._config.within)
            self._troupe.outer.enter(PodPhase.PENDING, restarts=1)
            for pod in self._pods.values():
                pod.begin_again()
                with suppress(SystemStopped):  # its own end comes next
                    self._troupe.bring_up(pod)
            return
        # The kubelet stays: when the troupe above is brought up again, so is this one.
        for pod in self._pods.values():
            pod.is_over = True
            pod.slot.let_go(f"its troupe {self._troupe.name!r} is gone")
            pod.slot.clear_on_loop("its pod is gone")
            if pod.is_nested:
                self._tell(pod, Verdict(pod, Decision.LET_GO))


def _rests(pod: PodRecord) -> bool:
    return pod.ref is not None and pod.ref.is_alive


def _in_words(reason: ExitReason) -> str:
    if not reason.abnormal:
        return "ended by itself"
    return f"failed ({reason if reason.cause is None else in_words(reason.cause)})"
