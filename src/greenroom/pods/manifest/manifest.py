"""A troupe's manifest: the pods of its class body, checked, and who can send to whom.

A mistake is a `ManifestError` that begins with the line.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, get_origin

from greenroom.actor.api.actor import Actor
from greenroom.actor.api.props import Props, props
from greenroom.errors import ManifestError
from greenroom.pods.manifest.declarations import annotation_of, declared_in, is_class, mentioned_in, mismatch
from greenroom.pods.manifest.handles import Handles, Mates
from greenroom.pods.manifest.pod import Pod, actor_class_of, is_troupe
from greenroom.pods.manifest.settings import RestartPolicy, ThreadModel


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
    """Read and check a class body. No pod may have a `taken` name."""
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
        _check_actors(pod)
        _check_settings(pod)
    _check_main(pods)
    for pod in pods:
        _note_owners(pod, manifest)
    for pod in pods:
        for actor in pod.exposed_names():
            if actor not in pod.actors:
                why = f"the pod {pod.name!r} exposes {actor!r}, and has no such actor{_known(pod.actors)}"
                raise pod.error(pod.expose, why)
        manifest.exposed += pod.exposed_names()
    for pod in pods:
        for actor, factory in pod.actors.items():
            _note_peers(pod, actor, factory, manifest)
            _check_mates(pod, factory)
    if exposes is not None and manifest.pods:  # without, it is a base of others
        _check_front(exposes, manifest)
    return manifest


def _known(names: Iterable[str]) -> str:
    there = ", ".join(names)
    return f"; there are: {there}" if there else "; there are none"


def _check_that_no_pod_is_meant(troupe: str, attribute: str, value: object) -> None:
    """An actor's class beside the pods is a pod that was forgotten, unless it has its own name there."""
    if isinstance(value, tuple | list) and any(isinstance(one, Pod) for one in value):
        pod = next(one for one in value if isinstance(one, Pod))
        why = f"{attribute!r} is a {type(value).__name__} with a pod in it: write {attribute} = {pod!r}"
        raise pod.error(value, why)
    is_meant = isinstance(value, Props) or actor_class_of(value) is not None or is_troupe(value)
    label = getattr(value, "__name__", repr(value))
    if is_meant and not attribute.startswith("_") and attribute != label:
        why = f"{attribute!r} is {label}, and no pod: write {attribute} = Pod({label})"
        raise ManifestError(troupe, attribute, value, why)


# -- each pod by itself


def _check_actors(pod: Pod) -> None:
    """Raise unless the pod's actors can be made, again and again."""
    for name, factory in pod.actors.items():
        if name.startswith("_"):
            raise pod.error(factory, f"an actor cannot be called {name!r}: a name does not begin with an underscore")
        if is_troupe(factory):
            _check_troupe(pod, name, factory)
        elif isinstance(made := factory.factory if isinstance(factory, Props) else factory, Actor):
            why = f"{name!r} is an instance: pass the class, as in Pod({type(made).__name__})"
            raise pod.error(factory, f"{why}, because a restart must be able to make it afresh")
        elif not isinstance(factory, Props) and (
            not callable(factory) or (isinstance(factory, type) and not issubclass(factory, Actor))
        ):
            why = f"{name!r} must be an Actor class, props(...) or a function that makes an actor, not {factory!r}"
            raise pod.error(factory, why)
        elif pod.thread is ThreadModel.PROCESS and callable(getattr(actor_class_of(factory), "park", None)):
            raise pod.error(factory, f"{name!r} has a method `park`, which is not called in another process")
        else:
            _check_arguments(pod, name, factory)


def _check_troupe(pod: Pod, name: str, factory: type) -> None:
    if len(pod.actors) > 1 or name != pod.name:
        why = f"{name!r} is a troupe: it needs a pod of its own, as in {name} = Pod({factory.__name__})"
        raise pod.error(factory, why)
    if pod.thread in (ThreadModel.MAIN, ThreadModel.PROCESS):
        why = f"{name!r} is a troupe, whose pods choose where they run: it cannot be {pod.thread.name}"
        raise pod.error(pod.thread, why)


def _check_arguments(pod: Pod, name: str, factory: Any) -> None:
    given = factory if isinstance(factory, Props) else props(factory)
    made = given.factory
    try:
        parameters = signature(made, follow_wrapped=False)
    except (TypeError, ValueError):  # it does not say
        return
    try:
        parameters.bind(*given.args, **given.kwargs)
    except TypeError as exc:
        label = getattr(made, "__name__", repr(made))
        why = f"{name!r} cannot be made with these arguments: {exc}; it takes {label}{parameters}"
        raise pod.error(factory, f"{why}. Give them with props({label}, ...)") from None


def _check_settings(pod: Pod) -> None:
    if not any(is_troupe(factory) for factory in pod.actors.values()):
        if pod.watch:
            raise pod.error(pod.watch, f"watch=True is for a pod that is a troupe, and {pod.name!r} is none")
        if pod.kubelet is not None:
            raise pod.error(pod.kubelet, f"kubelet=... is for a pod that is a troupe, and {pod.name!r} is none")
    if pod.core is not None and pod.thread is ThreadModel.COOPERATIVE:
        why = f"the COOPERATIVE pod {pod.name!r} has core={pod.core}: its thread is the kubelet's, which is kept on a "
        raise pod.error(pod.core, f"{why}processor with KubeletConfig(core={pod.core})")


# -- pods together


def _check_main(pods: Sequence[Pod]) -> None:
    mains = [pod for pod in pods if pod.thread is ThreadModel.MAIN]
    if len(mains) > 1:
        first, second = mains[0].name, mains[1].name
        raise mains[1].error(mains[1], f"the pods {first!r} and {second!r} are both MAIN, and one thread calls play()")
    for pod in mains:
        if pod.restart is not RestartPolicy.NEVER:
            why = f"the MAIN pod {pod.name!r} has {pod.restart}: the thread that calls play() cannot be made anew"
            raise pod.error(pod.restart, f"{why}, so it must be RestartPolicy.NEVER")
        if pod.core is not None:
            why = f"the MAIN pod {pod.name!r} has core={pod.core}: its thread is the caller's, who decides on that"
            raise pod.error(pod.core, why)


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


def _note_peers(pod: Pod, actor: str, factory: Any, manifest: Manifest) -> None:
    """The peers that an actor can reach: those that it declares; else all actors of other pods."""
    others = {name: manifest.pods[owner].actors[name] for name, owner in manifest.owners.items() if owner != pod.name}

    def missing(name: str) -> str:
        if name in pod.actors:
            return f"that is an actor of the same pod: write self.pod.{name}"
        return f"no other pod has an actor of this name{_known(others)}"

    actor_class = actor_class_of(factory)
    if actor_class is None:
        manifest.peers[actor] = manifest.uses[actor] = () if is_troupe(factory) else tuple(others)
        return
    declared = _declared(pod, actor_class, "peers", Handles, others, missing, mismatch)
    mentioned = mentioned_in(actor_class, "peers")
    for name, where in mentioned.items():
        if name not in others:
            why = f"{missing(name)} (the pod is declared in {pod.where})"
        elif declared and name not in declared:
            why = "that is not declared among its peers"
        else:
            continue
        raise ManifestError(where, name, actor_class, f"{actor_class.__name__} sends to the peer {name!r}: {why}")
    manifest.peers[actor] = declared or tuple(others)
    manifest.uses[actor] = declared or tuple(mentioned)


def _check_mates(pod: Pod, factory: Any) -> None:
    actor_class = actor_class_of(factory)
    if actor_class is None:
        return
    missing = f"the pod {pod.name!r} has no such actor{_known(pod.actors)}"
    _declared(pod, actor_class, "pod", Mates, pod.actors, lambda name: missing, _mismatch_of_mate)
    for name, where in mentioned_in(actor_class, "pod").items():
        if name not in pod.actors:
            why = f"{actor_class.__name__} uses self.pod.{name}: {missing} (it is declared in {pod.where})"
            raise ManifestError(where, name, actor_class, why)


def _mismatch_of_mate(kind: Any, factory: Any) -> str | None:
    mate = actor_class_of(factory)
    if mate is None or not is_class(kind) or issubclass(mate, kind):
        return None
    return f"as {kind.__name__}, and it is {mate.__name__}"


def _declared(
    pod: Pod,
    actor_class: type[Actor],
    attribute: str,
    kind: type,
    there: Mapping[str, Any],
    missing: Callable[[str], str],
    mismatch: Callable[[Any, Any], str | None],
) -> tuple[str, ...]:
    """The names that an actor's class declares for its `attribute`, with a subclass of `kind`, if it does."""
    given = annotation_of(actor_class, attribute)
    declared = get_origin(given) or given
    if not is_class(declared):
        return ()
    if not issubclass(declared, kind):
        why = f"{actor_class.__name__} declares {attribute}: {declared.__name__}"
        raise pod.error(given, f"{why}, which must be a subclass of {kind.__name__}: its troupe sets this attribute")
    found = declared_in(declared)
    for name, said in found.items():
        why = f"{declared.__name__}, which {actor_class.__name__} has as its {attribute}, declares {name!r}"
        if name not in there:
            raise pod.error(name, f"{why}: {missing(name)}")
        wrong = mismatch(said, there[name])
        if wrong is not None:
            raise pod.error(name, f"{why} {wrong}")
    return tuple(found)


def _check_front(front: type[Handles], manifest: Manifest) -> None:
    """Raise unless what is declared to be exposed is exposed, and of the declared type."""
    for name, kind in declared_in(front).items():
        why = f"{front.__name__} declares {name!r}"
        if name not in manifest.exposed:
            owner = manifest.owners.get(name)
            remedy = "" if owner is None else f": the pod {owner!r} has it, and needs expose=True"
            told = f"{why}, which no pod exposes{remedy or _known(manifest.exposed)}"
            raise ManifestError(manifest.name, name, front, told)
        wrong = mismatch(kind, manifest.pods[manifest.owners[name]].actors[name])
        if wrong is not None:
            raise ManifestError(manifest.name, name, front, f"{why} {wrong}")
