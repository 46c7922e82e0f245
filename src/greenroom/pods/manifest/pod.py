"""`Pod`: one line of a troupe's class body."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from greenroom.actor.api.actor import Actor
from greenroom.actor.api.props import Props
from greenroom.errors import ManifestError
from greenroom.pods.manifest.settings import Buffers, Bursts, KubeletConfig, RestartPolicy, ThreadModel
from greenroom.policy.directives import OnRestart
from greenroom.validation import require_one_of, require_processor

if TYPE_CHECKING:
    from greenroom.pods.troupe import Troupe

    Factory = type[Actor | Troupe[Any]] | Props | Callable[[], Actor]


class Pod:
    """A group of actors that share a thread or a process, and are restarted together.

    >>> from greenroom import Actor
    >>> class Vsync(Actor[str, None]):
    ...     def receive(self, message: str) -> None: ...
    >>> Pod(Vsync, restart=RestartPolicy.ALWAYS, expose=True)
    Pod(Vsync, restart=RestartPolicy.ALWAYS, expose=True)

    Args:
        actor: The actor, if it is the only one: it is called what the pod is called. A class, `props(...)`, or another
            callable that makes one.
        actors: The actors, by name, if there are several: `Pod(engine=Engine, config=Config)`.
        thread: Where they run.
        restart: After which ends the pod is restarted: after a failure, unless it is a MAIN pod.
        expose: Whether `exposed()` has handles for its actors: True for all, or their names.
        core: The processor that the pod's thread or process is kept on; None for any.
        buffers: How many messages each holder of a handle may have waiting here.
        bursts: How many of them are taken in at once.
        on_restart: What becomes of messages that wait when it is restarted.
        watch: For a pod that is a troupe: whether it is restarted, or ends this troupe, when it has failed. If not,
            what happens there stays there.
        kubelet: For a pod that is a troupe: how its kubelet is set up, if not like the one above.
    """

    def __init__(
        self,
        actor: Factory | None = None,
        /,
        *more: object,
        thread: ThreadModel = ThreadModel.DEDICATED,
        restart: RestartPolicy | None = None,
        expose: bool | Iterable[str] = False,
        core: int | None = None,
        buffers: Buffers | None = None,
        bursts: Bursts | None = None,
        on_restart: OnRestart = OnRestart.KEEP,
        watch: bool = False,
        kubelet: KubeletConfig | None = None,
        **actors: Factory,
    ) -> None:
        caller = sys._getframe(1)
        self.where = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        self.name = ""
        if more:
            why = f"Pod takes one actor without a name: write props({_label(actor)}, ...) to give it arguments"
            raise self.error(more[0], why)
        if actor is not None and actors:
            name, label = next(iter(actors)), _label(actor)
            why = f"{name!r} is no setting of Pod: give {label} arguments with props({label}, {name}=...)"
            why += f". If it is another actor, both need names, as in Pod(one={label}, {name}=...)"
            raise self.error(actor, why)
        if actor is None and not actors:
            raise self.error(None, "a pod needs an actor: Pod(Engine), or Pod(engine=Engine, config=Config)")
        for name, value, kind in (
            ("thread", thread, ThreadModel),
            ("on_restart", on_restart, OnRestart),
            *([("restart", restart, RestartPolicy)] if restart is not None else []),
        ):
            if isinstance(value, type):
                raise self.error(value, f"an actor cannot be called {name!r}: that is a setting of Pod")
            require_one_of(name, value, kind)
        self._require("buffers", buffers, Buffers)
        self._require("bursts", bursts, Bursts)
        self._require("kubelet", kubelet, KubeletConfig)
        require_processor("core", core)
        if isinstance(expose, str):
            expose = (expose,)
        if not isinstance(expose, bool) and not (
            isinstance(expose, list | tuple | set | frozenset) and all(isinstance(one, str) for one in expose)
        ):
            raise self.error(expose, f"expose={expose!r} must be True, False, or the names of actors")
        # None until the class is made that it stands in: then it is called what the pod is called.
        self.actor = actor
        self.actors: Mapping[str, Any] = dict(actors)
        self.thread = thread
        default = RestartPolicy.NEVER if thread is ThreadModel.MAIN else RestartPolicy.ON_FAILURE
        self.restart = default if restart is None else restart
        self.expose = expose if isinstance(expose, bool) else tuple(expose)
        self.core = core
        self.buffers = Buffers() if buffers is None else buffers
        self.bursts = Bursts() if bursts is None else bursts
        self.on_restart = on_restart
        self.watch = watch
        self.kubelet = kubelet

    def _require(self, name: str, value: object, kind: type) -> None:
        if value is not None and not isinstance(value, kind):
            raise self.error(value, f"{name}={value!r} must be {kind.__name__}(...), or None")

    def settle_name(self, name: str) -> None:
        self.name = name
        if self.actor is not None:
            self.actors = {name: self.actor}

    def exposed_names(self) -> tuple[str, ...]:
        if isinstance(self.expose, bool):
            return tuple(self.actors) if self.expose else ()
        return self.expose

    def error(self, value: object, why: str) -> ManifestError:
        return ManifestError(self.where, self.name, value, why)

    def __repr__(self) -> str:
        shown = [_label(self.actor)] if self.actor is not None else []
        shown += [f"{name}={_label(one)}" for name, one in self.actors.items() if self.actor is None]
        if self.thread is not ThreadModel.DEDICATED:
            shown.append(f"thread={self.thread}")
        if self.restart is not RestartPolicy.ON_FAILURE:
            shown.append(f"restart={self.restart}")
        if self.expose:
            shown.append(f"expose={self.expose!r}")
        return f"Pod({', '.join(shown)})"


def actor_class_of(factory: Any) -> type[Actor] | None:
    """The class of the actors that a factory makes, if that can be told."""
    if isinstance(factory, Props):
        factory = factory.factory
    return factory if isinstance(factory, type) and issubclass(factory, Actor) else None


def is_troupe(factory: Any) -> bool:
    return isinstance(factory, type) and getattr(factory, "__greenroom_is_troupe__", False) is True


def _label(factory: object) -> str:
    if isinstance(factory, Props):
        return repr(factory)
    return getattr(factory, "__name__", repr(factory))
