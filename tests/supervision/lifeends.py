"""What makes a life leave (R5): orders, deadlines, failures and what supervision decides on them; how it may end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from greenroom import Directive, ExitKind, ExitReason
from tests.supervision.lifemodel import EPSILON, START_HOOKS, STOP_TIMEOUT, WITHIN, Book, Item, Life, Phase

__all__ = ["Ends"]

KILLED = ExitReason(ExitKind.KILLED)
NORMAL = ExitReason(ExitKind.NORMAL)
SHUTDOWN = ExitReason(ExitKind.SHUTDOWN)


class Ends(Book):
    """The book, with orders, failures and ends."""

    # -- orders

    def stop(self, life: Life) -> None:
        self._order(life, "stop")

    def kill(self, life: Life) -> None:
        self._order(life, "kill")

    def stop_in_order(self, life: Life) -> None:
        if life.alive:
            life.queue.append(Item("stop"))

    def restart(self, life: Life, cause: BaseException) -> None:
        life.skips_backoff = True  # even one that a failure has brought about
        if self._takes_orders(life):
            self._order(life, "restart", cause)
        elif life.alive:
            life.doubtful_restarts.append(cause)
            self.press(life)

    def fail(self, life: Life, cause: BaseException) -> None:
        if self._takes_orders(life):
            life.failures.append(cause)
            self.press(life)
        elif life.alive:
            life.doubtful_failures.append(cause)
            self.press(life)

    def _takes_orders(self, life: Life) -> bool:
        """On its way in or out, an actor may mind a restart or a failure, and may not."""
        return life.phase is Phase.RUNNING and not life.orders.keys() & {"stop", "kill"}

    def _order(self, life: Life, name: str, *cause: BaseException) -> None:
        if life.alive:
            life.orders.setdefault(name, []).extend(cause)
            self.press(life)

    def press(self, life: Life) -> None:
        """Something waits for what `life` has in hand."""
        if life.pressed_since is None:
            life.pressed_since = self.now()

    def relax(self, life: Life) -> None:
        """It goes on, and its time is counted anew."""
        life.pressed_since = self.now() if life.is_blocked else None

    # -- deadlines

    def is_killed(self, life: Life) -> bool:
        return any("kill" in one.orders for one in life.lineage())

    def may_be_forced(self, life: Life) -> bool:
        """A kill cancels at once; anything else gives the handler or hook in hand its time."""
        since = [self.closing_since, *(one.pressed_since for one in life.lineage())]
        late = any(moment is not None and self.now() >= moment + STOP_TIMEOUT - EPSILON for moment in since)
        return late or self.is_killed(life)

    def give_up(self, life: Life, what: str) -> None:
        """`what` comes next, so if anything is in hand, it took no notice of its cancellation."""
        hook, life.in_hand = life.in_hand, None
        if hook is None:
            return
        self.expect(self.may_be_forced(life), f"{what} of {life} during its {hook.name}")
        self.count(hook.item, "failed")
        if hook.name != "receive":
            life.abandoned = life.instance
        if hook.name in START_HOOKS:
            life.start_broken = True
        elif hook.name == "post_stop" and life.phase is Phase.LEAVING:
            life.phase = Phase.RESTING

    def overdue(self) -> list[str]:
        """Who should be gone by now, whatever hangs; for when there was time enough for every deadline."""

        def has_to_go(life: Life) -> bool:
            told = any(one.orders.keys() & {"stop", "kill"} for one in life.lineage())
            return life.alive and (told or life.phase in (Phase.LEAVING, Phase.STOPPING))

        return [str(life) for life in self.lives if has_to_go(life)]

    # -- why it leaves

    def is_called_off(self, life: Life) -> bool:
        """Whether it has to end, whatever else it is doing."""
        told = bool(life.orders.keys() & {"stop", "kill"}) or self.stop_has_its_turn(life)
        return told or self._ends_with_others(life)

    def _ends_with_others(self, life: Life) -> bool:
        return self.closing_since is not None or any(map(self._ends_children, life.above()))

    def _ends_children(self, life: Life) -> bool:
        if life.phase is Phase.RUNNING:
            # It says so by its `pre_stop`, unless it is killed, fails, or is forced.
            unheard = self.has_failed(life) or self.may_be_forced(life)
            return "kill" in life.orders or ("stop" in life.orders and unheard)
        return life.phase not in (Phase.STARTING, Phase.NEW) or life.may_leave()

    def has_failed(self, life: Life) -> bool:
        return bool(
            life.raised is not None
            or life.failures
            or life.doubtful_failures
            or life.escalated
            or any(self.fatal_notices(life))
        )

    # -- failures

    def decides(self, life: Life, cause: BaseException) -> Directive:
        """`life` has failed with `cause`; what its supervision says."""
        self.expect(life.phase in (Phase.STARTING, Phase.RUNNING), f"{life} fails with {cause!r}")
        self._require_reason_to_fail(life, cause)
        self.give_up(life, "failure")
        life.raised = None
        life.start_broken = False
        if self.is_called_off(life):
            life.fatal.append(cause)  # it ends either way: by what was asked for, or by this
        directive: Directive = life.plan.directive
        outcome = self._outcome(life, directive)
        self._carry_out(life, outcome, cause)
        for child in list(life.escalated):
            self._answer_escalation(life, child, outcome)
        return directive

    def _require_reason_to_fail(self, life: Life, cause: BaseException) -> None:
        if life.raised is cause or _has(life.escalated.values(), cause):
            return
        if _has(life.failures, cause):
            life.failures[:] = [one for one in life.failures if one is not cause]
            return
        notice = self.notice_of(life, cause)
        if notice is not None:
            self.expect(not life.is_blocked, f"{life} fails by a notice, before {[*life.orders, *life.failures]}")
            self.take(life, lambda item: item is notice, f"fails by a notice with {cause!r}")
        elif not _has(life.doubtful_failures, cause) and not life.start_broken:
            self.complain(f"{life} fails with {cause!r}, for no reason")

    def _outcome(self, life: Life, directive: Directive) -> Directive:
        if directive is Directive.RESUME and life.phase is Phase.STARTING:
            directive = Directive.RESTART  # there is nothing to go on with
        return Directive.STOP if directive is Directive.RESTART and self._is_one_too_many(life) else directive

    def _is_one_too_many(self, life: Life) -> bool:
        """The window slides, and its ends are in it."""
        recent = [moment for moment in life.restarts if self.now() - moment <= WITHIN + EPSILON]
        if life.plan.limit is not None and len(recent) >= life.plan.limit:
            return True
        life.restarts.append(self.now())
        return False

    def _carry_out(self, life: Life, outcome: Directive, cause: BaseException) -> None:
        if outcome is Directive.RESUME:
            self.relax(life)
            return
        life.owes_pre_restart = life.phase is Phase.RUNNING
        self.let_go(life)
        self.press(life)
        if outcome is Directive.RESTART:
            self._leave(life)
            life.restart_cause = cause
        elif outcome is Directive.STOP:
            life.phase = Phase.STOPPING
            life.fatal.append(cause)
        else:
            life.phase = Phase.ESCALATED
            life.fatal.append(cause)
            assert life.parent is not None
            if life.parent.alive:
                life.parent.escalated[life] = cause
                self.press(life.parent)

    def _leave(self, life: Life) -> None:
        never_made = life.is_gone and not life.owes_pre_restart
        life.phase = Phase.RESTING if never_made else Phase.LEAVING
        life.back_at = self.now() + life.plan.backoff

    def let_go(self, life: Life) -> None:
        """One restart is enough for all that asked for one by now; what is left over may count or not."""
        life.doubtful_restarts += life.orders.pop("restart", [])
        life.doubtful_failures += life.failures
        life.failures.clear()
        self.loosen(life)

    def _answer_escalation(self, life: Life, child: Life, outcome: Directive) -> None:
        """A parent that is resumed resumes the child with it; one that is restarted or stopped takes it along."""
        if outcome is Directive.ESCALATE:
            return
        cause = life.escalated.pop(child)
        life.doubtful_failures.append(cause)  # if it was another failure that was decided on, this one may follow
        if child.phase is not Phase.ESCALATED:
            return
        if outcome is not Directive.RESUME:
            child.phase = Phase.STOPPING
        elif child.owes_pre_restart:
            child.phase = Phase.RUNNING
            child.fatal.remove(cause)
            self.relax(child)
            for grandchild in list(child.escalated):
                self._answer_escalation(child, grandchild, outcome)
        else:  # it has not started, so there is nothing to go on with
            self._leave(child)

    # -- ends

    def ended(self, life: Life, reason: ExitReason) -> None:
        self.expect(life.alive, f"{life} ends, once more")
        self.give_up(life, "end")
        for child in life.children:
            self.expect(not child.alive, f"{life} ends before {child}")
        self.expect(life.is_gone, f"{life} ends without post_stop")
        allowed = list(self._reasons(life))
        by_notice = reason.cause is not None and self._may_fail_unasked(life, reason.cause)
        self.expect(reason in allowed or by_notice, f"{life} ends with {reason!r}, allowed: {allowed}")
        life.phase = Phase.ENDED
        life.reason = reason
        if life.parent is not None and life in life.parent.escalated:
            life.parent.doubtful_failures.append(life.parent.escalated.pop(life))  # its parent may know already
        self.tell_of_end(life)

    def _reasons(self, life: Life) -> Iterator[ExitReason]:
        if self.may_be_forced(life):
            yield KILLED
        if "stop" in life.orders or self.stop_has_its_turn(life):
            yield NORMAL
        if self._ends_with_others(life):
            yield SHUTDOWN
        # A failure beside an order to end: either may be what it ends with.
        causes = [*life.fatal, *life.failures, life.raised, *life.doubtful_failures, *life.escalated.values()]
        yield from (ExitReason.of(cause) for cause in causes if cause is not None)

    def _may_fail_unasked(self, life: Life, cause: BaseException) -> bool:
        """Whoever has to end anyway may still fail, and nobody is asked then what to do about it."""
        return self.is_called_off(life) and self.notice_of(life, cause) is not None


def _has(causes: Iterable[BaseException], cause: BaseException) -> bool:
    """Whether it is that very exception; some compare equal."""
    return any(one is cause for one in causes)
