"""A troupe's manifest: the pods of its class body, checked, and who can send to whom."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from greenroom.actor.api.props import Props
from greenroom.errors import ManifestError
from greenroom.pods.manifest.checks import check_actors, check_main, check_mates, declared_peers, known, mentioned_peers
from greenroom.pods.manifest.declarations import declared_in, misfit
from greenroom.pods.manifest.factories import actor_class_of, is_troupe
from greenroom.pods.manifest.handles import Handles
from greenroom.pods.manifest.pod import Pod
from greenroom.pods.manifest.settings import ThreadModel

__all__ = ["Manifest", "read_manifest"]


@dataclass
class Manifest:
    """What a troupe consists of."""

    name: str
    pods: dict[str, Pod] = field(default_factory=dict)
    body: dict[str, Pod | None] = field(default_factory=dict)
    """What this class body says, apart from its bases: None for what is no pod any more."""
    owners: dict[str, str] = field(default_factory=dict)
    """The pod of each actor."""
    peers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The actors that each actor has handles of."""
    uses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The peers that each actor declares, or that its code mentions."""
    exposed: tuple[str, ...] = ()

    @property
    def main(self) -> Pod | None:
        """The pod that runs on the thread that calls `play()`."""
        return next((pod for pod in self.pods.values() if pod.thread is ThreadModel.MAIN), None)


def read_manifest(
    name: str, body: dict[str, Any], bases: list[Manifest], exposes: type[Handles] | None, taken: Container[str]
) -> Manifest:
    """Check a class body; a mistake is a `ManifestError` that begins with the line. No pod may have a `taken` name."""
    manifest = Manifest(name)
    for attribute, value in body.items():
        if isinstance(value, Pod):
            if value.name and value.name != attribute:
                why = f"this pod is called {value.name!r} already: make another one for {attribute!r}"
                raise value.error(value, why)
            if attribute in taken:
                raise value.error(value, f"a pod cannot be called {attribute!r}: Troupe has an attribute of this name")
            value.settle_name(attribute)
            manifest.body[attribute] = value
        else:
            if attribute not in body.get("__annotations__", ()):
                _check_that_no_pod_is_meant(name, attribute, value)
            if any(attribute in base.body for base in bases):
                manifest.body[attribute] = None
    for said in (*(base.body for base in bases), manifest.body):
        for attribute, pod in said.items():
            if pod is None:
                manifest.pods.pop(attribute, None)
            else:
                manifest.pods[attribute] = pod
    pods = list(manifest.pods.values())
    for pod in pods:
        check_actors(pod)
    check_main(pods)
    for pod in pods:
        _note_owners(pod, manifest)
    for pod in pods:
        _note_exposed(pod, manifest)
    for pod in pods:
        for actor, factory in pod.actors.items():
            _note_peers(pod, actor, factory, manifest)
            check_mates(pod, factory)
    if exposes is not None and manifest.pods:  # without, it is a base of others
        _check_front(exposes, manifest)
    return manifest


def _check_that_no_pod_is_meant(troupe: str, attribute: str, value: object) -> None:
    """An actor's class beside the pods is a pod that somebody forgot to write, unless it has its own name there."""
    if isinstance(value, tuple | list) and any(isinstance(one, Pod) for one in value):
        pod = next(one for one in value if isinstance(one, Pod))
        why = f"{attribute!r} is a {type(value).__name__} with a pod in it: write {attribute} = {pod!r}"
        raise pod.error(value, why)
    is_meant = isinstance(value, Props) or actor_class_of(value) is not None or is_troupe(value)
    label = getattr(value, "__name__", repr(value))
    if is_meant and not attribute.startswith("_") and attribute != label:
        why = f"{attribute!r} is {label}, and no pod: write {attribute} = Pod({label})"
        raise ManifestError(troupe, attribute, value, why)


def _check_front(front: type[Handles], manifest: Manifest) -> None:
    """What is declared to be exposed is, and is what is declared."""
    for name, kind in declared_in(front):
        why = f"{front.__name__} declares {name!r}"
        if name not in manifest.exposed:
            owner = manifest.owners.get(name)
            remedy = "" if owner is None else f": the pod {owner!r} has it, and needs expose=True"
            told = f"{why}, which no pod exposes{remedy or known(manifest.exposed)}"
            raise ManifestError(manifest.name, name, front, told)
        wrong = misfit(kind, manifest.pods[manifest.owners[name]].actors[name])
        if wrong is not None:
            raise ManifestError(manifest.name, name, front, f"{why} {wrong}")


def _note_owners(pod: Pod, manifest: Manifest) -> None:
    for actor in pod.actors:
        owner = manifest.owners.get(actor)
        if owner is not None:
            why = f"the pods {owner!r} and {pod.name!r} both have an actor called {actor!r}"
            raise pod.error(actor, f"{why}: peers are found by name, so it must be unique in the troupe")
        other = manifest.pods.get(actor)
        if other is not None and other is not pod:
            why = f"the pod {pod.name!r} has an actor called {actor!r}, which is the name of another pod"
            raise pod.error(actor, why)
        manifest.owners[actor] = pod.name


def _note_exposed(pod: Pod, manifest: Manifest) -> None:
    for name in pod.exposed_names():
        if name not in pod.actors:
            why = f"the pod {pod.name!r} exposes {name!r}, and has no such actor{known(pod.actors)}"
            raise pod.error(pod.expose, why)
    manifest.exposed += pod.exposed_names()


def _note_peers(pod: Pod, actor: str, factory: Any, manifest: Manifest) -> None:
    """Whom an actor can reach: those that it declares; else all actors of other pods."""
    others = {name: manifest.pods[owner].actors[name] for name, owner in manifest.owners.items() if owner != pod.name}
    actor_class = actor_class_of(factory)
    if actor_class is None:
        manifest.peers[actor] = manifest.uses[actor] = () if is_troupe(factory) else tuple(others)
        return
    declared = declared_peers(pod, actor_class, others)
    mentioned = mentioned_peers(pod, actor_class, declared, others)
    manifest.peers[actor] = declared or tuple(others)
    manifest.uses[actor] = declared or mentioned
