"""A troupe's parts, made and connected at once: loops, rings, slots, handles, supervisors and a kubelet.

A troupe within a troupe is an assembly of its own, with its own names and its own kubelet, in the same system. To the
one above it is a pod.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom.errors import BadArgument, NotSendable
from greenroom.errors.base import add_note
from greenroom.pods.kubelet.heartbeat import Heart
from greenroom.pods.kubelet.kubelet import Kubelet
from greenroom.pods.kubelet.notices import Decision, Verdict
from greenroom.pods.kubelet.podrecord import PodRecord
from greenroom.pods.kubelet.podsupervisor import PodSupervisor
from greenroom.pods.manifest.factories import is_troupe
from greenroom.pods.manifest.handles import Exposed, Handles, Mates
from greenroom.pods.manifest.manifest import Manifest
from greenroom.pods.manifest.pod import Pod
from greenroom.pods.manifest.settings import KubeletConfig, ThreadModel
from greenroom.pods.service.handle import HandleContext, ServiceHandle
from greenroom.pods.service.registry import PodRegistry, PodSlot
from greenroom.pods.service.relay import PeerRelay, RelayedHandle
from greenroom.pods.wiring import ActorFactory, Relayed, RemoteActorFactory
from greenroom.policy.directives import Directive
from greenroom.policy.specs import Supervision
from greenroom.system.dispatchers.settings import DispatcherSettings, Loop, OnCallingThread, Process
from greenroom.wire.codec import require_sendable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom._core.scheduler.loop import Loop as CoreLoop
    from greenroom.actor.lifecycle import Lifecycle
    from greenroom.pods.kubelet.ports import Ends
    from greenroom.pods.manifest.phases import PodStatus
    from greenroom.system.system import ActorSystem

__all__ = ["Assembly"]

_validate = partial(require_sendable, limit=Process().frame_limit)
"""Raises if something cannot be sent to another process."""


class Assembly:
    """The parts of one troupe."""

    def __init__(
        self,
        name: str,
        manifest: Manifest,
        config: KubeletConfig,
        system: ActorSystem,
        ends: Ends,
        has_own_thread: Callable[[], bool],
        is_ending: Callable[[], bool],
        parent: tuple[Assembly, Pod] | None = None,
    ) -> None:
        if not manifest.pods:
            raise BadArgument(f"{name} has no pods: declare some in its class body, as in `engine = Pod(Engine)`")
        self.name = name
        self._manifest = manifest
        self.config = config
        self.ends = ends
        self.has_own_thread = has_own_thread
        self._system = system
        self._is_ending = is_ending
        # Before the names of its actors, if it is within another.
        self._prefix: str = "" if parent is None else f"{parent[0]._prefix}{parent[1].name}."
        self._is_simulated = system._loop.director is not None
        # The dispatcher of its kubelet; None for the system's own loop.
        self._dispatcher = None if parent is None else parent[0]._loop_dispatcher_of(parent[1])
        home = self._life_of(self._dispatcher)
        self.heart = Heart(home.loop, config.heartbeat)
        loops: tuple[CoreLoop, ...] = (home.loop,) if parent is None else (home.loop, *parent[0].context.loops)
        self.context: HandleContext = HandleContext(config.connect_timeout, loops, self.heart.says, is_ending)
        self.registry = PodRegistry()
        self.pods: dict[str, PodRecord] = {}
        self.nested: dict[str, Assembly] = {}
        self.outer: PodRecord | None = None if parent is None else parent[0].pods[parent[1].name]
        self.kubelet = system.spawn(
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
            record.kubelet = self.kubelet._cell
            self.bring_up(record)
        self.exposed = Exposed({actor: self._handle(actor) for actor in manifest.exposed}, name)

    def all_of_them(self) -> Iterator[Assembly]:
        """This, and all within it."""
        yield self
        for nested in self.nested.values():
            yield from nested.all_of_them()

    def statuses(self) -> dict[str, PodStatus]:
        """The status of each pod, also of those within."""
        found = {f"{self._prefix}{name}": record.status for name, record in self.pods.items()}
        for nested in self.nested.values():
            found.update(nested.statuses())
        return found

    def begin(self) -> None:
        """The troupe plays from now on."""
        for one in self.all_of_them():
            one.context.is_playing = True

    def end(self) -> None:
        """It does not play any more."""
        for one in self.all_of_them():
            one.context.is_playing = False
            for record in one.pods.values():
                record.conclude()

    def let_all_go(self, why: str) -> None:
        """Nothing comes back, here or within."""
        for one in self.all_of_them():
            one.registry.let_all_go(f"the troupe {one.name!r} {why}")

    def let_senders_wait(self, wait: bool) -> None:
        """Whether actors of this troupe wait for others, who hold up its end."""
        self.context.has_ended = not wait

    # -- wiring

    def _loop_dispatcher_of(self, pod: Pod) -> str | None:
        """The dispatcher of a pod's own loop; None or the kubelet's if its actors live there."""
        has_own = pod.thread in (ThreadModel.DEDICATED, ThreadModel.MAIN)
        if pod.thread is ThreadModel.MAIN and self._prefix:
            has_own = False  # nobody calls play() of a troupe within another
        return self._own_dispatcher_of(pod) if has_own else self._dispatcher

    def _own_dispatcher_of(self, pod: Pod) -> str:
        return f"pod {self._prefix}{pod.name}"

    def _life_of(self, dispatcher: str | None) -> Lifecycle:
        if dispatcher is None:
            return self._system._life
        return self._system._choose_life(dispatcher, PodSupervisor, None)

    def _add(self, pod: Pod) -> None:
        """Make a pod's loop, its inbox and its slot."""
        settings = _SETTINGS[pod.thread](pod)
        if settings is not None:
            self._system.dispatchers.add(self._own_dispatcher_of(pod), settings)
        loop: CoreLoop = self._life_of(self._loop_dispatcher_of(pod)).loop
        slot = PodSlot(f"{self._prefix}{pod.name}", loop, loop.connect_inbox(pod.bursts.sizes), pod.buffers.sizes)
        self.registry.add(slot)
        record = self.pods[pod.name] = PodRecord(pod, slot, loop.hooks, self._system.config.stop_timeout)
        if pod.thread is ThreadModel.PROCESS:
            record.dispatcher = self._own_dispatcher_of(pod)
        factory = next(iter(pod.actors.values()))
        if is_troupe(factory):
            config = self.config if pod.kubelet is None else pod.kubelet
            self.nested[pod.name] = Assembly(
                f"{self.name}.{pod.name}",
                factory.manifest,
                config,
                self._system,
                record.troupe_ends,
                lambda: False,
                self._is_ending,
                (self, pod),
            )

    def _wire(self, pod: Pod) -> None:
        """Connect a pod's actors with those they may send to."""
        if pod.name in self.nested:
            return
        mates = Mates({}, pod.name, tuple(pod.actors))
        record = self.pods[pod.name]
        for name, factory in pod.actors.items():
            peers = {peer: self._handle(peer, self.context) for peer in self._manifest.peers[name]}
            if pod.thread is ThreadModel.PROCESS and not self._is_simulated:
                _validate_factory(pod, name, factory)
                relayed = self._relay(f"{self._prefix}{name}-to", peers)
                token = f"{self._system.token} {self._prefix}{pod.name}"
                wired: ActorFactory = RemoteActorFactory(name, factory, peers, mates, token, relayed, _cores_of(pod))
            else:
                wired = ActorFactory(name, factory, peers, mates)
            record.factories[name] = wired

    def _relay(self, label: str, peers: Mapping[str, Any]) -> Relayed:
        """What a process has for these handles: each has a relay here."""
        found: Relayed = {}
        for name, handle in peers.items():
            if isinstance(handle, Handles):
                found[name] = self._relay(f"{label}-{name}", {one: getattr(handle, one) for one in handle})
            else:
                relay = self._system.spawn(PeerRelay, handle, name=f"{label}-{name}")
                found[name] = RelayedHandle(name, handle.pod, relay, self.config.connect_timeout)
        return found

    def _handle(self, actor: str, home: HandleContext | None = None) -> Any:
        """The handle of an actor, for one of the troupe `home`; or, of a troupe within, those of what it exposes."""
        owner = self._manifest.owners[actor]
        if owner in self.nested:
            nested = self.nested[owner]
            return Exposed({name: nested._handle(name, home) for name in nested._manifest.exposed}, nested.name)
        record = self.pods[owner]
        is_remote = record.pod.thread is ThreadModel.PROCESS and not self._is_simulated
        connection = record.slot.connect(actor)
        return ServiceHandle(record.slot, actor, self.context, connection, _validate if is_remote else None, home)

    def come_back(self) -> None:
        """The troupe above is brought up again, and this one with it; at first, there is nothing to do."""
        if self.outer is not None:
            self.kubelet._cell.notify(Verdict(self.outer, Decision.RESTART))

    def bring_up(self, record: PodRecord) -> None:
        """Spawn what supervises a pod."""
        name = record.pod.name
        if name in self.nested:
            self.nested[name].come_back()
            record.belong_to_troupe(self.nested[name].kubelet)
            return
        ref = self._system.spawn(
            PodSupervisor, record, name=f"{self._prefix}{name}", dispatcher=self._loop_dispatcher_of(record.pod)
        )
        record.belong_to(ref)


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
