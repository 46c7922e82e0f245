"""A troupe's parts, made and connected at once: loops, rings, slots, handles, actors' factories and a kubelet.

A troupe within a troupe is an assembly of its own, with its own names and its own kubelet, in the same system. To the
one above it is a pod.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom.actor.api.actor import Actor
from greenroom.actor.api.props import Props, label_of, props
from greenroom.errors import BadArgument, NotAnActor, NotSendable
from greenroom.errortext import add_note
from greenroom.pods.kubelet.heartbeat import Heart
from greenroom.pods.kubelet.kubelet import Kubelet
from greenroom.pods.kubelet.podrecord import Decision, PodRecord
from greenroom.pods.kubelet.podsupervisor import PodSupervisor
from greenroom.pods.manifest.handles import Exposed, Handles, Mates
from greenroom.pods.manifest.manifest import Manifest
from greenroom.pods.manifest.pod import Pod, is_troupe
from greenroom.pods.manifest.settings import KubeletConfig, ThreadModel
from greenroom.pods.service.handle import ServiceHandle
from greenroom.pods.service.relay import PeerRelay, RelayedHandle
from greenroom.pods.service.slot import PodSlot
from greenroom.policy.directives import Directive
from greenroom.policy.specs import Supervision
from greenroom.system.dispatchers.settings import DispatcherSettings, Loop, OnCallingThread, Process
from greenroom.system.ending.report import Phase
from greenroom.system.eventloop import keep_on_core
from greenroom.wire.codec import pack

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop as CoreLoop
    from greenroom.actor.lifecycle import Lifecycle
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.pods.troupe import Troupe

_validate = partial(pack, limit=Process().frame_limit)
"""Raises if something cannot be sent to another process."""


class Assembly:
    """The parts of one troupe, and what its handles and its kubelet go by."""

    def __init__(
        self,
        name: str,
        manifest: Manifest,
        config: KubeletConfig,
        troupe: Troupe[Any],
        parent: tuple[Assembly, Pod] | None = None,
    ) -> None:
        if not manifest.pods:
            raise BadArgument(f"{name} has no pods: declare some in its class body, as in `engine = Pod(Engine)`")
        self.name = name
        self._manifest = manifest
        self.config = config
        # The one that was started, with all within.
        self._troupe = troupe
        self.system = troupe.system
        # Before the names of its actors, if it is within another; the dispatcher of its kubelet, None for the system's
        # own loop; and what it is to the kubelet above.
        self._prefix = ""
        self._dispatcher: str | None = None
        self.outer: PodRecord | None = None
        above: tuple[CoreLoop, ...] = ()
        if parent is not None:
            outer, pod = parent
            self._prefix = f"{outer._prefix}{pod.name}."
            self._dispatcher = outer._loop_dispatcher_of(pod)
            self.outer = outer.pods[pod.name]
            above = outer.loops
        self._has_processes = self.system._loop.world.is_real
        home = self._life_of(self._dispatcher).loop
        # The kubelet's loop, and those of the kubelets above: their threads must never wait for a pod, which waits for
        # them.
        self.loops: tuple[CoreLoop, ...] = (home, *above)
        self.heart = Heart(home, config.heartbeat)
        # Whether this troupe has ended within one that goes on, and may bring it up again: its actors wait for no pods
        # any more, which may wait for them. Written by the kubelet.
        self.has_ended = False
        self.pods: dict[str, PodRecord] = {}
        self.nested: dict[str, Assembly] = {}
        self.kubelet = self.system.spawn(
            Kubelet,
            self,
            name=f"{self._prefix}kubelet",
            supervision=Supervision(Directive.ESCALATE),
            dispatcher=self._dispatcher,
        )
        for pod in manifest.pods.values():
            self._add(pod)
        for pod in manifest.pods.values():
            self._wire(pod)
        for record in self.pods.values():
            self.bring_up(record)
        self.exposed = Exposed({actor: self._handle(actor) for actor in manifest.exposed}, name)

    def records(self) -> Iterator[PodRecord]:
        """All pods, also those of troupes within."""
        yield from self.pods.values()
        for nested in self.nested.values():
            yield from nested.records()

    # -- the troupe's life

    @property
    def is_playing(self) -> bool:
        """Whether the troupe plays; before it does, waiting is of no use."""
        return self._troupe._is_playing

    def has_own_thread(self) -> bool:
        return self.outer is None and self._troupe._own_thread

    def is_ending(self) -> bool:
        """Whether the troupe is on its way to its end, with all troupes around it."""
        return self._troupe._is_ending or self.system.phase != Phase.RUNNING

    def mark_all_gone(self, why: str) -> None:
        """No pod comes back, here or within."""
        for record in self.records():
            record.slot.mark_gone(f"the troupe {record.troupe.name!r} {why}")

    def ends(self, cause: BaseException | None, pod: str | None) -> None:
        if self.outer is None:
            self._troupe._ends(cause, pod)
        else:
            self.outer.troupe_ends(cause)

    def bring_up(self, record: PodRecord) -> None:
        name = record.name
        if name in self.nested:
            # Its pods are brought up again, too; at first, there is nothing to do.
            record.ref = self.nested[name].kubelet
            record.tell_supervisor(Decision.RESTART)
            return
        dispatcher = self._loop_dispatcher_of(record.pod)
        record.belong_to(self.system.spawn(PodSupervisor, record, name=f"{self._prefix}{name}", dispatcher=dispatcher))

    # -- wiring

    def _loop_dispatcher_of(self, pod: Pod) -> str | None:
        """The dispatcher of a pod's own loop; None or the kubelet's if its actors live there."""
        # play() of a troupe within another is never called
        is_main = pod.thread is ThreadModel.MAIN and self.outer is None
        has_own = pod.thread is ThreadModel.DEDICATED or is_main
        return self._own_dispatcher_of(pod) if has_own else self._dispatcher

    def _own_dispatcher_of(self, pod: Pod) -> str:
        return f"pod {self._prefix}{pod.name}"

    def _life_of(self, dispatcher: str | None) -> Lifecycle:
        if dispatcher is None:
            return self.system._life
        return self.system._choose_life(dispatcher, PodSupervisor, None)

    def _add(self, pod: Pod) -> None:
        """Make a pod's loop, its inbox and its slot."""
        settings = _SETTINGS[pod.thread](pod)
        if settings is not None:
            self.system.dispatchers.add(self._own_dispatcher_of(pod), settings)
        loop: CoreLoop = self._life_of(self._loop_dispatcher_of(pod)).loop
        slot = PodSlot(f"{self._prefix}{pod.name}", loop, loop.connect_inbox(pod.bursts.sizes), pod.buffers.sizes)
        record = self.pods[pod.name] = PodRecord(pod, slot, self)
        if pod.thread is ThreadModel.PROCESS:
            record.dispatcher = self._own_dispatcher_of(pod)
        factory = next(iter(pod.actors.values()))
        if is_troupe(factory):
            config = self.config if pod.kubelet is None else pod.kubelet
            self.nested[pod.name] = Assembly(
                f"{self.name}.{pod.name}", factory.manifest, config, self._troupe, (self, pod)
            )

    def _wire(self, pod: Pod) -> None:
        if pod.name in self.nested:
            return
        mates = Mates({}, pod.name, tuple(pod.actors))
        record = self.pods[pod.name]
        for name, factory in pod.actors.items():
            peers = {peer: self._handle(peer, self) for peer in self._manifest.peers[name]}
            elsewhere: _Elsewhere | None = None
            if pod.thread is ThreadModel.PROCESS and self._has_processes:
                _validate_factory(pod, name, factory)
                token = f"{self.system.token} {self._prefix}{pod.name}"
                elsewhere = token, self._relay(f"{self._prefix}{name}-to", peers), _cores_of(pod)
            record.factories[name] = ActorFactory(name, factory, peers, mates, elsewhere=elsewhere)

    def _relay(self, label: str, peers: Mapping[str, Any]) -> Relayed:
        """What a process has for these handles: each has a relay here."""
        found: Relayed = {}
        for name, handle in peers.items():
            if isinstance(handle, Handles):
                found[name] = self._relay(f"{label}-{name}", {one: getattr(handle, one) for one in handle})
            else:
                relay = self.system.spawn(PeerRelay, handle, name=f"{label}-{name}")
                found[name] = RelayedHandle(name, handle.pod, relay, self.config.connect_timeout)
        return found

    def _handle(self, actor: str, home: Assembly | None = None) -> Any:
        """The handle of an actor, for one of the troupe `home`; or, of a troupe within, those of what it exposes."""
        owner = self._manifest.owners[actor]
        if owner in self.nested:
            nested = self.nested[owner]
            return Exposed({name: nested._handle(name, home) for name in nested._manifest.exposed}, nested.name)
        record = self.pods[owner]
        is_remote = record.pod.thread is ThreadModel.PROCESS and self._has_processes
        connection = record.slot.connect(actor)
        return ServiceHandle(record.slot, actor, self, connection, _validate if is_remote else None, home)


_SETTINGS: Mapping[ThreadModel, Callable[[Pod], DispatcherSettings | None]] = {
    ThreadModel.DEDICATED: lambda pod: Loop(pod.core),
    ThreadModel.MAIN: lambda pod: OnCallingThread(),
    ThreadModel.PROCESS: lambda pod: Process(workers=1, keep=True),
    ThreadModel.COOPERATIVE: lambda pod: None,
}
"""Where the actors of a pod run, as a dispatcher."""


def _validate_factory(pod: Pod, actor: str, factory: Any) -> None:
    try:
        _validate(factory)
    except NotSendable as exc:
        why = f"it makes the actor {actor!r} of the PROCESS pod {pod.name!r} ({pod.where})"
        add_note(exc, f"Greenroom: {why}: define it, and its arguments, at the top of a module that can be imported")
        raise


def _cores_of(pod: Pod) -> tuple[int, ...]:
    """Where a process may run: on the core that its pod names, else wherever this program may."""
    if pod.core is not None:
        return (pod.core,)
    return tuple(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else ()


# -- how the actors of a pod are made

Relayed = dict[str, Any]
"""What a process has for handles, by name: a `RelayedHandle`, or as much of a troupe within."""

_Elsewhere = tuple[str, Relayed, tuple[int, ...]]
"""For a pod in another process: a token of the pod, the peers there, and the processors that it may run on."""

_mates: dict[str, Mates] = {}
"""In a process that is a pod's own: the actors there, by the pod's token."""


class ActorFactory:
    """Makes one actor of a pod, afresh for each start, and gives it its peers and its pod mates.

    One for another process (`elsewhere`) makes the actor there, where it is unpickled.
    """

    def __init__(
        self,
        name: str,
        factory: Any,
        peers: Mapping[str, Any],
        mates: Mates,
        cores: tuple[int, ...] = (),
        elsewhere: _Elsewhere | None = None,
    ) -> None:
        self.name = name
        self._props: Props[Any, Any] = factory if isinstance(factory, Props) else props(factory)
        self._peers = Handles(peers, name)
        self._mates = mates
        self._cores = cores
        self._elsewhere = elsewhere
        self.__name__ = label_of(self._props.factory)

    def __call__(self) -> Actor:
        if len(self._cores) == 1:
            keep_on_core(f"the process of {self.name}", self._cores[0])
        elif self._cores:  # the thread that started this process may be kept on one
            os.sched_setaffinity(0, self._cores)
        try:
            actor = self._props.factory(*self._props.args, **self._props.kwargs)
        except AttributeError as exc:
            if exc.name in ("peers", "pod") and isinstance(exc.obj, Actor):
                add_note(exc, f"Greenroom: an actor has `{exc.name}` from `pre_start` on, and not yet in `__init__`")
            raise
        if not isinstance(actor, Actor):
            raise NotAnActor(f"{self.__name__} made {actor!r} for {self.name!r}, which is not an Actor")
        try:
            actor.peers = self._peers  # type: ignore[attr-defined]
            actor.pod = self._mates  # type: ignore[attr-defined]
        except AttributeError as exc:
            why = f"{type(actor).__name__} has __slots__ without 'peers' and 'pod': add them"
            raise NotAnActor(f"{why}, because a pod gives both to its actors") from exc
        self._mates.__dict__[self.name] = actor
        return actor

    def send_as(self, ref: ActorRef) -> None:
        """What it makes is the instance of this actor: the sender of all that its handles send."""
        for handle in _all_in(self._peers):
            handle._connection.sent_by(ref)

    def __reduce__(self) -> tuple[Any, ...]:
        assert self._elsewhere is not None
        return _factory_in_process, (self.name, self._props, *self._elsewhere)


def _all_in(handles: Handles) -> Iterator[ServiceHandle]:
    for name in handles:
        one = getattr(handles, name)
        if isinstance(one, Handles):
            yield from _all_in(one)
        else:
            yield one


def _factory_in_process(
    name: str, factory: Props, token: str, relayed: Relayed, cores: tuple[int, ...]
) -> ActorFactory:
    mates = _mates.setdefault(token, Mates({}, token))
    return ActorFactory(name, factory, _handles_in(relayed, name), mates, cores)


def _handles_in(relayed: Relayed, owner: str) -> dict[str, Any]:
    return {
        name: Handles(_handles_in(one, owner), owner) if isinstance(one, dict) else one for name, one in relayed.items()
    }
