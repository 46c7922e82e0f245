"""Actors that do what they are told, and tell the model of it (R5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import replace
from itertools import count
from typing import Any

from greenroom import Actor, ActorSystem, Backoff, Behaviors, Directive, ExitReason, OnRestart, Supervision
from greenroom.errors import GreenroomError, NameTaken
from tests.gates import Event
from tests.supervision.lifemodel import WITHIN, Hook, Life, Phase
from tests.supervision.lifeplans import ANYBODY, BONDED, Act, Letter, Op, Plan
from tests.supervision.liferules import Model

__all__ = ["World"]

MANY = 12
"""Actors in one world; there are no more spawns then."""


class Trouble(Exception):
    """A failure on purpose."""


class Panic(BaseException):
    """No exception that anybody should catch."""


class World:
    """The system, the model, and the hands of the test in both."""

    def __init__(self, system: ActorSystem, now: Callable[[], float]) -> None:
        self.system = system
        self.model = Model(now, system.actor)
        self.gate = Event()
        # While this is set, nobody hangs.
        self.peace = False
        self._numbers = count(1)
        self._lives: dict[int, Life] = {}
        self._spawns = False
        system.observers.add(self)

    def open_gate(self) -> None:
        self.gate.set()
        self.gate = Event()

    # -- what an observer hears

    def actor_started(self, ref: Any) -> None:
        life = self.model.of(ref)
        self.model.expect(life.phase is Phase.RUNNING, f"{life} is said to run")

    def actor_stopped(self, ref: Any, reason: ExitReason) -> None:
        self.model.ended(self.model.of(ref), reason)

    def dead_letter(self, ref: Any, message: Any, sender: Any, why: str) -> None:
        if isinstance(message, Letter):
            self.model.dead_letter(self.model.of(ref), message)

    # -- what is done, by the test or by an actor; the model hears of it first, for it may have effects at once

    def perform(self, me: Member | None, op: Op) -> None:
        verb, *rest = op
        model = self.model
        if verb == "spawn":
            self.spawn(None if me is None else me.life, *rest)
            return
        if not model.lives:
            return
        other = self.life(rest[0])
        if verb == "tell":
            self.tell(other, *rest[1:])
        elif verb in ("stop", "finish", "kill", "restart", "fail"):
            self._order(verb, other)
        elif me is not None and verb in ("trap", "untrap"):
            me.life.traps = me.ctx.trap_exit = verb == "trap"
        elif me is not None and verb in ("unwatch", "unlink"):
            peers = model.peers(me.life) or [other]
            self._bind(me, verb, peers[rest[0] % len(peers)])
        elif me is not None and other is not me.life:
            self._bind(me, verb, other)

    def life(self, number: int) -> Life:
        """Whoever has that number: one of the living, one of those among them who have bonds, or one of all."""
        among = [life for life in self.model.lives if life.alive]
        if number >= BONDED:
            among = [life for life in among if self.model.is_bonded(life)]
        if number >= ANYBODY or not among:
            among = self.model.lives
        return among[number % len(among)]

    def spawn(self, parent: Life | None, plan: Plan, name: str | None) -> None:
        if len(self.model.lives) >= MANY:
            return
        key = next(self._numbers)
        if parent is None and plan.directive is Directive.ESCALATE:
            plan = replace(plan, directive=Directive.RESTART)  # or it would end the system
        taken = self.model.is_taken(name, parent)
        supervision = Supervision(
            lambda cause: self.model.decides(self._lives[key], cause),
            max_restarts=plan.limit,
            within=WITHIN,
            backoff=Backoff(min=plan.backoff, max=plan.backoff) if plan.backoff else None,
            mailbox=OnRestart.CLEAR if plan.clears else OnRestart.KEEP,
        )
        above = None if parent is None else parent.ref
        self._spawns = True
        try:
            ref = self.system.spawn(_kind(plan), self, key, plan, parent=above, name=name, supervision=supervision)
        except NameTaken:
            self.model.expect(taken, f"the name {name} is not taken")
        except GreenroomError as refused:
            steady = parent is None or (parent.phase is Phase.RUNNING and not parent.may_leave())
            called_off = parent is not None and self.model.is_called_off(parent)
            self.model.expect(not steady or called_off, f"a spawn under {parent} is refused: {refused!r}")
        else:
            self.model.expect(not taken, f"the name {name} is given twice")
            self._lives[key] = self.model.spawned(key, ref, plan, parent)
        finally:
            self._spawns = False

    def life_of(self, key: int) -> Life:
        """Whose instance is being made."""
        self.model.expect(not self._spawns, "an instance is made inside of spawn()")
        return self._lives[key]

    def tell(self, other: Life, act: Act) -> None:
        letter = Letter(next(self._numbers), act)
        self.model.told(other, letter)
        other.ref.tell(letter)

    def _order(self, verb: str, other: Life) -> None:
        model, ref = self.model, other.ref
        if verb == "stop":
            model.stop(other)
            ref.stop()
        elif verb == "finish":
            model.stop_in_order(other)
            ref.stop(after_queued=True)
        elif verb == "kill":
            model.kill(other)
            ref.kill()
        else:
            cause = Trouble(f"{verb} {next(self._numbers)}")
            getattr(model, verb)(other, cause)
            getattr(ref, verb)(cause)

    def _bind(self, me: Member, verb: str, other: Life) -> None:
        model, ctx, ref = self.model, me.ctx, other.ref
        if verb in ("watch", "note"):
            note = Letter(next(self._numbers), Act()) if verb == "note" else None
            model.watch(me.life, other, note)
            ctx.watch(ref, note)
        elif verb == "monitor":
            model.monitor(me.life, other, ctx.monitor(ref))
        elif verb in ("demonitor", "leave"):
            mrefs = me.life.made_monitors
            if mrefs:
                mref = mrefs[other.key % len(mrefs)]
                model.demonitor(me.life, mref, verb == "demonitor")
                ctx.demonitor(mref, flush=verb == "demonitor")
        else:
            getattr(model, verb)(me.life, other)
            getattr(ctx, verb)(ref)

    def trouble(self, then: str) -> BaseException:
        return (Panic if then == "panic" else Trouble)(f"{then} {next(self._numbers)}")


class Member(Actor[Any, Any]):
    """Without `on_terminated`: whomever it watches takes it along."""

    def __init__(self, world: World, key: int, plan: Plan) -> None:
        self.world = world
        self.plan = plan
        self.played: set[str] = set()
        self.life = world.life_of(key)
        world.model.made(self.life)
        self.number = self.life.instance
        act = plan.act("init", self.number)
        if act.then in ("raise", "panic"):
            cause = world.trouble(act.then)
            world.model.made_badly(self.life, cause)
            raise cause

    def act(self, name: str) -> Act:
        """What to do in a hook, the first time: one that watches again whoever has ended would hear of it for ever."""
        if name in self.played:
            return Act()
        self.played.add(name)
        return self.plan.act(name, self.number)

    def scene(self, name: str, what: Any = None) -> Generator[tuple[Act, Hook] | None, None, Any]:
        """What happens in a hook or handler; it yields where an async one suspends."""
        world, model, life = self.world, self.world.model, self.life
        act = what.act if isinstance(what, Letter) else self.act(name)
        hook = model.begins(life, self.number, name, what)
        try:
            yield None
            for op in act.do:
                world.perform(self, op)
                yield None
            if act.hangs and not world.peace:
                yield act, hook
            if act.then in ("raise", "panic"):
                raise world.trouble(act.then)
        except GeneratorExit:
            raise
        except asyncio.CancelledError:
            model.ends(life, hook, "broken")
            raise
        except BaseException as cause:
            model.ends(life, hook, "raised", cause)
            raise
        stops = act.then == "stop" and name == "receive"
        model.ends(life, hook, "stopped" if stops else "returned", self.number)
        return Behaviors.stopped if stops else self.number

    def play(self, name: str, what: Any = None) -> Any:
        scene = self.scene(name, what)
        try:
            while True:
                next(scene)
        except StopIteration as end:
            return end.value

    def receive(self, message: Any) -> Any:
        return self.play("receive", message)

    def pre_start(self) -> Any:
        return self.play("pre_start")

    def post_start(self) -> Any:
        return self.play("post_start")

    def pre_stop(self) -> Any:
        return self.play("pre_stop")

    def post_stop(self) -> Any:
        return self.play("post_stop")

    def pre_restart(self, cause: BaseException | None) -> Any:
        return self.play("pre_restart", cause)

    def post_restart(self) -> Any:
        return self.play("post_restart")

    def snapshot(self) -> Any:
        return self.play("snapshot")

    def restore(self, state: Any) -> Any:
        return self.play("restore", state)


class Hearer(Member):
    def on_terminated(self, ref: Any, cause: BaseException | None) -> Any:
        return self.play("on_terminated", (ref, cause))


class Suspending:
    """Every hook and handler really suspends."""

    async def play(self, name: str, what: Any = None) -> Any:
        me: Any = self
        scene = me.scene(name, what)
        try:
            wish = next(scene)
            while True:
                try:
                    await (asyncio.sleep(0) if wish is None else self.hang(*wish))
                except asyncio.CancelledError as cancelled:
                    wish = scene.throw(cancelled)
                else:
                    wish = next(scene)
        except StopIteration as end:
            return end.value

    async def hang(self, act: Act, hook: Hook) -> None:
        me: Any = self
        gate = me.world.gate
        while True:
            try:
                await gate.wait()
            except asyncio.CancelledError:
                if act.hangs == "weakly":
                    raise
                hook.defiant = True
                if act.hangs == "once":
                    return
            else:
                return


class SuspendingMember(Suspending, Member):
    pass


class SuspendingHearer(Suspending, Hearer):
    pass


def _kind(plan: Plan) -> type[Member]:
    if plan.pact:
        return SuspendingMember if plan.suspends else Member
    return SuspendingHearer if plan.suspends else Hearer
