"""What each hook and handler may come after, and what must have happened when all is quiet (R5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenroom import Down, Exit, Ledger, State
from tests.supervision.lifeends import Ends
from tests.supervision.lifemodel import EPSILON, START_HOOKS, Hook, Item, Life, Phase

__all__ = ["Model"]

HARMLESS = ["pre_stop", "post_stop", "pre_restart", "snapshot"]
"""Hooks that may raise without consequence: it is logged, and what was going on goes on."""


class Model(Ends):
    """Told of all that happens; `complaints` is what could not have."""

    def __init__(self, now: Callable[[], float], find: Callable[[str], Any]) -> None:
        super().__init__(now)
        self._find = find

    # -- messages

    def told(self, life: Life, message: Any) -> None:
        item = Item("message", message)
        life.queue.append(item)
        self.count(item, "sent")

    def dead_letter(self, life: Life, message: Any) -> None:
        item = next((item for item in life.queue if item.what is message), None)
        if item is None:
            self.complain(f"{message} to {life} is a dead letter, but was not queued")
            return
        life.queue.remove(item)
        self.count(item, "dead_lettered")
        ends = not life.alive or life.phase is Phase.STOPPING or self.is_called_off(life)
        is_cleared = life.plan.clears and (
            self._start_is_broken_off(life) or life.phase in (Phase.LEAVING, Phase.RESTING)
        )
        stops_in_order = any(other.kind == "stop" for other in life.queue)
        self.expect(ends or is_cleared or stops_in_order, f"{message} to {life} is a dead letter")

    def _start_is_broken_off(self, life: Life) -> bool:
        """Whether it may be restarted before it has started."""
        return life.phase is Phase.STARTING and bool(life.doubtful_restarts)

    # -- instances

    def made(self, life: Life) -> None:
        """A new instance is being made."""
        self.give_up(life, "a new instance")
        if life.phase is not Phase.NEW:
            self._require_place(life)
        self.loosen(life)
        self.forget_monitors(life)
        life.instance += 1
        life.phase = Phase.STARTING
        life.traps = life.start_broken = False
        life.skips_backoff = bool(life.doubtful_restarts)
        life.start_hooks = []

    def _require_place(self, life: Life) -> None:
        """There is one instance at a time, and nothing is left of the one before."""
        early = self.now() < life.back_at - EPSILON and not life.skips_backoff
        self.expect(not early, f"{life} is back before {life.back_at:g} s")
        leaves = self._start_is_broken_off(life) or life.phase in (Phase.LEAVING, Phase.RESTING)
        self.expect(leaves and life.is_gone, f"{life} has two instances")
        told = sorted(life.orders.keys() & {"stop", "kill"})
        self.expect(not told or life.skips_backoff, f"{life} is made anew, after {told}")
        left = [str(child) for child in life.children if child.alive and child.parent_instance <= life.instance]
        self.expect(not left, f"{life} is made anew before {left} have ended")

    def made_badly(self, life: Life, cause: BaseException) -> None:
        """Making it has raised: there is no instance, and nobody to call `post_stop` of."""
        life.raised = cause
        life.post_stopped = life.instance

    # -- the beginnings of hooks and handlers

    def begins(self, life: Life, instance: int, name: str, what: Any = None) -> Hook:
        hook = Hook(name)
        self.expect(life.alive, f"{name} of {life}")
        self.expect(instance == life.instance, f"{name} of instance {instance} of {life}")
        self.give_up(life, name)
        life.in_hand = hook
        if name == "receive":
            hook.item = self._begin_message(life, what)
        elif name == "on_terminated":
            hook.item = self._begin_on_terminated(life, *what)
        elif name == "pre_restart":
            self._begin_pre_restart(life, what)
        elif name == "snapshot":
            self.expect(life.phase is Phase.LEAVING and not life.owes_pre_restart, f"snapshot of {life}")
        elif name == "pre_stop":
            self._begin_pre_stop(life)
        elif name == "post_stop":
            self._begin_post_stop(life)
        else:
            self._begin_start_hook(life, name, what)
        return hook

    def _begin_start_hook(self, life: Life, name: str, what: Any) -> None:
        self.expect(life.phase is Phase.STARTING, f"{name} of {life}")
        missing = START_HOOKS[len(life.start_hooks) :]
        # Between the first and the last, those of a restart are called as there is need.
        right = name in missing and (bool(life.start_hooks) or name == "pre_start")
        self.expect(right, f"{name} of {life} after {life.start_hooks}")
        life.start_hooks = START_HOOKS[: START_HOOKS.index(name) + 1]
        if name == "restore":
            self.expect(what == life.kept, f"restore({what!r}) of {life}, not {life.kept!r}")

    def _begin_message(self, life: Life, message: Any) -> Item | None:
        self._require_no_order(life, "receive")
        if isinstance(message, Down):
            return self._begin_notice(life, "down", message)
        if isinstance(message, Exit):
            self.expect(life.traps, f"{life} gets {message} and traps no exits")
            return self._begin_notice(life, "exit", message)
        item = self.take(life, lambda item: item.what is message, f"gets {message}")
        if item is not None and item.kind == "note":
            self._require_free_name(item)
        return item

    def _begin_notice(self, life: Life, kind: str, notice: Any) -> Item | None:
        about = self.of(notice.ref)
        mref = getattr(notice, "mref", None)
        item = self.take(
            life, lambda item: (item.kind, item.about, item.what) == (kind, about, mref), f"gets {kind} of {about}"
        )
        if item is not None:
            self.expect(item.reason == notice.reason, f"{life} gets {notice}, but it ended with {item.reason}")
            self._require_free_name(item)
        return item

    def _begin_on_terminated(self, life: Life, ref: Any, cause: BaseException | None) -> Item | None:
        self._require_no_order(life, "on_terminated")
        about = self.of(ref)
        item = self.take(life, lambda item: (item.kind, item.about) == ("terminated", about), f"hears of {about}")
        if item is not None:
            self.expect(item.reason and item.reason.cause is cause, f"{life} hears of {ref} with {cause!r}")
            self._require_free_name(item)
        return item

    def _require_no_order(self, life: Life, name: str) -> None:
        self.expect(life.phase is Phase.RUNNING, f"{name} of {life}")
        self.expect(not life.is_blocked, f"{name} of {life}, before {[*life.orders, *life.failures]}")

    def _require_free_name(self, item: Item) -> None:
        """Names are unregistered before watchers are told."""
        about = item.about
        assert about is not None
        self.expect(not about.alive, f"{about} is told to have ended")
        self.expect(self._find(about.ref.path) != about.ref, f"{about} has ended and has its name still")

    def _begin_pre_restart(self, life: Life, cause: BaseException | None) -> None:
        asked: list[BaseException | None] = [*life.orders.get("restart", []), *life.doubtful_restarts]
        if life.phase is Phase.LEAVING and life.owes_pre_restart:
            asked.append(life.restart_cause)
        else:
            self.expect(life.phase is Phase.RUNNING, f"pre_restart of {life}")
            life.back_at = self.now()
        self.expect(any(one is cause for one in asked), f"pre_restart({cause!r}) of {life}, asked for: {asked}")
        self.let_go(life)
        self.press(life)
        life.phase = Phase.LEAVING
        life.owes_pre_restart = False

    def _begin_pre_stop(self, life: Life) -> None:
        self.expect(life.phase in (Phase.RUNNING, Phase.STARTING), f"pre_stop of {life}")
        self.expect(self.is_called_off(life), f"pre_stop of {life}, which nobody asked for")
        self.expect("kill" not in life.orders, f"pre_stop of {life}, which is killed")
        if self.stop_has_its_turn(life):
            life.orders.setdefault("stop", [])
        life.phase = Phase.STOPPING
        self.press(life)

    def _begin_post_stop(self, life: Life) -> None:
        self.expect(life.post_stopped != life.instance, f"post_stop of {life}, once more")
        self.expect(not any(child.alive for child in life.children), f"post_stop of {life} before its children's")
        if life.phase is Phase.LEAVING:
            called_off = self.is_called_off(life) or self.may_be_forced(life)
            self.expect(not life.owes_pre_restart or called_off, f"post_stop of {life} without pre_restart")
        elif life.start_broken and self._start_is_broken_off(life):
            life.phase = Phase.LEAVING
            life.back_at = self.now()
        elif life.phase is not Phase.STOPPING:
            self.expect(self.is_called_off(life), f"post_stop of {life}, which nobody asked for")
            orderly = life.phase is Phase.RUNNING and not self.has_failed(life) and not self.may_be_forced(life)
            self.expect(not orderly, f"post_stop of {life} without pre_stop")
            life.phase = Phase.STOPPING
        life.post_stopped = life.instance

    # -- their ends

    def ends(self, life: Life, hook: Hook, how: str, result: Any = None) -> None:
        """A hook or handler has `"returned"`, `"stopped"`, `"raised"`, or is `"broken"`: cancelled, by the runtime."""
        if life.in_hand is not hook:
            return  # it was given up, and goes on for nobody
        life.in_hand = None
        self.expect(how != "broken" or self.may_be_forced(life), f"{hook.name} of {life} was cancelled")
        well = how in ("returned", "stopped")
        self.count(hook.item, "failed" if not well else "handled or failed" if hook.defiant else "handled")
        if how == "raised" and hook.name not in HARMLESS:
            life.raised = result
        elif how == "broken" and hook.name in START_HOOKS:
            life.start_broken = True
        elif how == "stopped":
            self.stop(life)
        if hook.name == "snapshot":
            life.kept = result if well else None
        elif hook.name == "post_start" and well:
            life.phase = Phase.RUNNING
            self.relax(life)
        elif hook.name == "post_stop" and life.phase is Phase.LEAVING:
            life.phase = Phase.RESTING

    # -- quiet

    def rests(self, ledger: Ledger) -> None:
        """Nothing goes on: whatever was asked for has been done, and every message is accounted for."""
        for life in self.lives:
            letters = [item.what for item in life.queue if item.kind == "message"]
            if life.alive:
                self._require_quiet(life, letters)
            else:
                self.expect(not letters, f"{letters} to {life} were neither handled nor dead letters")
        self._compare(ledger)

    def _require_quiet(self, life: Life, letters: list[Any]) -> None:
        if life.phase is Phase.RESTING:
            self.expect(self.now() <= life.back_at + EPSILON, f"{life} was to be back at {life.back_at:g} s")
            self.expect(not letters, f"{life} rests, with {letters}")
            self.expect(life.ref.state is State.RESTARTING, f"{life} is {life.ref.state}")
        else:
            due = [item for item in life.queue if not self.is_unseen(life, item)]
            self.expect(life.phase is Phase.RUNNING, f"{life} is stranded: {life.ref.history}")
            self.expect(not due, f"{life} has not got {due}")
            self.expect(life.ref.state is State.RUNNING, f"{life} is {life.ref.state}")
        self.expect(self._find(life.ref.path) == life.ref, f"{life} is not found by its path")
        left = [*life.orders, *life.failures, *map(str, life.escalated)]
        self.expect(not left, f"{life} was asked for what was not done: {left}")
        life.doubtful_failures.clear()
        life.doubtful_restarts.clear()

    def _compare(self, ledger: Ledger) -> None:
        tally = self.tally
        most_failed = tally["failed"] + tally["handled or failed"]
        same = (
            ledger.sent == tally["sent"]
            and ledger.dead_lettered == tally["dead_lettered"]
            and tally["failed"] <= ledger.failed <= most_failed
            and ledger.handled + ledger.failed == tally["handled"] + most_failed
        )
        self.expect(same, f"the ledger says {ledger}, where it should be {dict(tally)}")
