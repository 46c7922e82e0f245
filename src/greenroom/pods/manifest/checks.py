"""What can be wrong with the pods of a class body, each by itself; every error begins with a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, get_origin

from greenroom.actor.api.actor import Actor
from greenroom.actor.api.props import Props
from greenroom.errors import ManifestError
from greenroom.pods.manifest.declarations import annotation_of, declared_in, is_class, misfit, names_in
from greenroom.pods.manifest.factories import actor_class_of, is_troupe
from greenroom.pods.manifest.handles import Handles, Mates
from greenroom.pods.manifest.mentions import Mention, mentions_of
from greenroom.pods.manifest.pod import Pod
from greenroom.pods.manifest.settings import RestartPolicy, ThreadModel

__all__ = ["check_actors", "check_main", "check_mates", "declared_peers", "known", "mentioned_peers"]


def known(names: Iterable[str]) -> str:
    """What there is instead, in words."""
    there = ", ".join(names)
    return f"; there are: {there}" if there else "; there are none"


def check_actors(pod: Pod) -> None:
    """Its actors can be made, again and again."""
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
    _check_settings(pod)


def _check_arguments(pod: Pod, name: str, factory: Any) -> None:
    made, args, kwargs = (
        (factory.factory, factory.args, factory.kwargs) if isinstance(factory, Props) else (factory, (), {})
    )
    try:
        parameters = signature(made, follow_wrapped=False)
    except (TypeError, ValueError):  # it does not say
        return
    try:
        parameters.bind(*args, **kwargs)
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


def _check_troupe(pod: Pod, name: str, factory: type) -> None:
    if len(pod.actors) > 1 or name != pod.name:
        why = f"{name!r} is a troupe: it needs a pod of its own, as in {name} = Pod({factory.__name__})"
        raise pod.error(factory, why)
    if pod.thread in (ThreadModel.MAIN, ThreadModel.PROCESS):
        why = f"{name!r} is a troupe, whose pods choose where they run: it cannot be {pod.thread.name}"
        raise pod.error(pod.thread, why)


def check_main(pods: Sequence[Pod]) -> None:
    """At most one pod runs on the thread that calls `play()`, and nothing is asked of that which cannot be."""
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


def declared_peers(pod: Pod, actor_class: type[Actor], others: Mapping[str, Any]) -> tuple[str, ...]:
    """The peers that an actor's class declares; nothing, if it declares none."""
    declared = _declared_by(pod, actor_class, "peers", Handles)
    if declared is None:
        return ()
    for name, kind in declared_in(declared):
        why = f"{declared.__name__}, which {actor_class.__name__} has as its peers, declares {name!r}"
        if name not in others:
            raise pod.error(name, f"{why}: {_why_no_peer(name, pod, others)}")
        wrong = misfit(kind, others[name])
        if wrong is not None:
            raise pod.error(name, f"{why} {wrong}")
    return names_in(declared)


def _declared_by(pod: Pod, actor_class: type[Actor], attribute: str, kind: type) -> type | None:
    """The subclass of `kind` that an actor's class declares as its `attribute`, if it does."""
    given = annotation_of(actor_class, attribute)
    found: type = get_origin(given) or given
    if not is_class(found):
        return None
    if not issubclass(found, kind):
        why = f"{actor_class.__name__} declares {attribute}: {found.__name__}"
        raise pod.error(given, f"{why}, which must be a subclass of {kind.__name__}: its troupe sets this attribute")
    return found


def mentioned_peers(
    pod: Pod, actor_class: type[Actor], declared: Sequence[str], others: Iterable[str]
) -> tuple[str, ...]:
    """The peers that an actor's code mentions."""
    found: dict[str, None] = {}
    for mention in _mentions(actor_class, "peers"):
        if mention.name not in others:
            why = f"{_why_no_peer(mention.name, pod, others)} (the pod is declared in {pod.where})"
        elif declared and mention.name not in declared:
            why = "that is not declared among its peers"
        else:
            found[mention.name] = None
            continue
        told = f"{actor_class.__name__} sends to the peer {mention.name!r}: {why}"
        raise ManifestError(mention.where, mention.name, actor_class, told)
    return tuple(found)


def _why_no_peer(name: str, pod: Pod, others: Iterable[str]) -> str:
    if name in pod.actors:
        return f"that is an actor of the same pod: write self.pod.{name}"
    return f"no other pod has an actor of this name{known(others)}"


def check_mates(pod: Pod, factory: Any) -> None:
    """An actor declares and mentions no pod mates but those it has."""
    actor_class = actor_class_of(factory)
    if actor_class is None:
        return
    there = f"the pod {pod.name!r} has no such actor{known(pod.actors)}"
    declared = _declared_by(pod, actor_class, "pod", Mates)
    for name, kind in () if declared is None else declared_in(declared):
        why = f"{declared.__name__}, which {actor_class.__name__} has as its pod, declares {name!r}"  # type: ignore[union-attr]
        if name not in pod.actors:
            raise pod.error(name, f"{why}: {there}")
        mate = actor_class_of(pod.actors[name])
        if mate is not None and is_class(kind) and not issubclass(mate, kind):
            raise pod.error(name, f"{why} as {kind.__name__}, and it is {mate.__name__}")
    for mention in _mentions(actor_class, "pod"):
        if mention.name not in pod.actors:
            why = f"{actor_class.__name__} uses self.pod.{mention.name}: {there} (it is declared in {pod.where})"
            raise ManifestError(mention.where, mention.name, actor_class, why)


def _mentions(actor_class: type[Actor], what: str) -> list[Mention]:
    return [one for one in mentions_of(actor_class, (what,)) if not one.name.startswith("_")]
