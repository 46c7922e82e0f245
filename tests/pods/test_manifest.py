"""The class body of a troupe: each mistake is found when the class is made, with its line; and how it is drawn."""

from __future__ import annotations

import functools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Never, Protocol, TypeVar
from xml.etree import ElementTree as ET

import pytest

from greenroom import Actor, Backoff, Lane, OnRestart, props
from greenroom.errors import BadArgument, ConfigError, GreenroomError, ManifestError
from greenroom.pods import (
    Buffers,
    Bursts,
    Handles,
    KubeletConfig,
    Mates,
    Pod,
    RestartPolicy,
    ServiceHandle,
    ShutdownMode,
    ThreadModel,
    Troupe,
)
from greenroom.policy.children import Restart
from tests.pods.troupes import Diary, doer, troupe_class


def line() -> int:
    """The number of the line that it is called in."""
    return sys._getframe(1).f_lineno


class Idler(Actor[Any, None]):
    def receive(self, message: Any) -> None: ...


class Named(Actor[Any, None]):
    def __init__(self, name: str) -> None:
        self.name = name

    def receive(self, message: Any) -> None: ...


class WrongPeers(Handles):
    engine: ServiceHandle[int]
    dispaly: ServiceHandle[int]


class DeclaresWrongPeers(Actor[Any, None]):
    peers: WrongPeers

    def receive(self, message: Any) -> None: ...


class InheritsWrongPeers(DeclaresWrongPeers):
    pass


class EnginePeers(Handles):
    engine: ServiceHandle[int]


class MentionsAWrongPeer(Actor[Any, None]):
    peers: Handles
    WRONG = line() + 3

    def receive(self, message: Any) -> None:
        self.peers.dispaly.send(message)  # type: ignore[attr-defined]


class MentionsInANestedFunction(Actor[Any, None]):
    peers: Handles
    WRONG = line() + 4

    def receive(self, message: Any) -> Any:
        def later() -> None:
            self.peers.dispaly.send(message)  # type: ignore[attr-defined]

        return later


class MentionsInAnAsyncHandler(Actor[Any, None]):
    peers: Handles
    WRONG = line() + 3

    async def receive(self, message: Any) -> None:
        await self.peers.dispaly.asend(message)  # type: ignore[attr-defined]


class MentionsInALambda(Actor[Any, None]):
    peers: Handles
    WRONG = line() + 3

    def receive(self, message: Any) -> Any:
        return lambda: self.peers.dispaly.send(message)  # type: ignore[attr-defined]


class MentionsInAProperty(Actor[Any, None]):
    peers: Handles
    WRONG = line() + 4

    @property
    def out(self) -> Any:
        return self.peers.dispaly  # type: ignore[attr-defined]

    def receive(self, message: Any) -> None: ...


class MentionsByInheritance(MentionsAWrongPeer):
    pass


class MentionsWhatItDoesNotDeclare(Actor[Any, None]):
    peers: EnginePeers
    WRONG = line() + 3

    def receive(self, message: Any) -> None:
        self.peers.other.send(message)  # type: ignore[attr-defined]


class MentionsItself(Actor[Any, None]):
    peers: Handles
    WRONG = line() + 3

    def receive(self, message: Any) -> None:
        self.peers.worker.send(message)  # type: ignore[attr-defined]


class WrongMates(Mates):
    cofnig: Idler


class DeclaresWrongMates(Actor[Any, None]):
    pod: WrongMates

    def receive(self, message: Any) -> None: ...


class MentionsAWrongMate(Actor[Any, None]):
    pod: Mates
    WRONG = line() + 3

    def receive(self, message: Any) -> None:
        self.pod.cofnig.reload()  # type: ignore[attr-defined]


class Counter(Actor[int | None, None]):
    def receive(self, message: int | None) -> None: ...


class HasMatesForPeers(Idler):
    peers: WrongMates


class HasNoMates(Idler):
    pod: int


class NoHandle(Handles):
    engine: int


class HasNoHandle(Idler):
    peers: NoHandle


class TextPeers(Handles):
    engine: ServiceHandle[str]


class SendsText(Idler):
    peers: TextPeers


class TextAsControlPeers(Handles):
    engine: ServiceHandle[int, str, Never]


class SendsTextAsControl(Idler):
    peers: TextAsControlPeers


class SendsNumbers(Idler):
    peers: EnginePeers


class TroupePeers(Handles):
    engine: EnginePeers


class SendsToATroupe(Idler):
    peers: TroupePeers


class CounterMates(Mates):
    config: Counter


class HasACounter(Idler):
    pod: CounterMates


class Front(Handles):
    engine: ServiceHandle[int]


class TextFront(Handles):
    engine: ServiceHandle[str]


Case = tuple[int, Callable[[], object]]


def two_mains() -> object:
    return type("Bad", (Troupe,), {
        "one": Pod(Idler, thread=ThreadModel.MAIN),
        "two": Pod(Idler, thread=ThreadModel.MAIN),
    })  # fmt: skip


def bad(**pods: Pod) -> type[Troupe[Any]]:
    made: type[Troupe[Any]] = type("Bad", (Troupe,), dict(pods))
    return made


# What is written, the words of the error, and the line it begins with, counted from the one the case begins at.
MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "an instance": (lambda: bad(worker=Pod(Idler())), "instance.*pass the class"),  # type: ignore[arg-type]
    "an instance with a name": (lambda: bad(pod=Pod(worker=Idler())), "'worker' is an instance"),  # type: ignore[arg-type]
    "no actor class": (lambda: bad(worker=Pod(int)), "must be an Actor class"),  # type: ignore[arg-type]
    "no factory": (lambda: bad(worker=Pod("Idler")), "must be an Actor class"),  # type: ignore[arg-type]
    "two mains": (two_mains, "'one' and 'two' are both MAIN"),
    "a main that is restarted": (
        lambda: bad(worker=Pod(Idler, thread=ThreadModel.MAIN, restart=RestartPolicy.ALWAYS)),
        "must be RestartPolicy.NEVER",
    ),
    "a main that is restarted on failure": (
        lambda: bad(worker=Pod(Idler, thread=ThreadModel.MAIN, restart=RestartPolicy.ON_FAILURE)),
        "must be RestartPolicy.NEVER",
    ),
    "one name in two pods": (
        lambda: bad(first=Pod(worker=Idler), second=Pod(worker=Idler)),
        "'first' and 'second' both have an actor called 'worker'",
    ),
    "the name of another pod": (
        lambda: bad(worker=Pod(other=Idler), second=Pod(worker=Idler)),
        "'worker', which is the name of another pod",
    ),
    "exposed and not there": (
        lambda: bad(worker=Pod(engine=Idler, expose=("engin",))),
        "exposes 'engin'.*there are: engine",
    ),
    "exposed by a string": (lambda: bad(worker=Pod(engine=Idler, expose="engin")), "exposes 'engin'"),
    "a private name": (lambda: bad(worker=Pod(_hidden=Idler)), "does not begin with an underscore"),
    "a peer that is declared": (
        lambda: bad(worker=Pod(DeclaresWrongPeers), engine=Pod(Idler)),
        "'dispaly'.*there are: engine",
    ),
    "a peer that a base declares": (lambda: bad(worker=Pod(InheritsWrongPeers), engine=Pod(Idler)), "'dispaly'"),
    "a peer of props": (lambda: bad(worker=Pod(props(DeclaresWrongPeers)), engine=Pod(Idler)), "'dispaly'"),
    "a declared peer in the same pod": (
        lambda: bad(pod=Pod(worker=DeclaresWrongPeers, dispaly=Idler), engine=Pod(Idler)),
        "the same pod: write self.pod.dispaly",
    ),
    "a mate that is declared": (lambda: bad(pod=Pod(worker=DeclaresWrongMates, config=Idler)), "'cofnig'.*config"),
    "both ways at once": (lambda: bad(pod=Pod(Idler, worker=Idler)), r"both need names, as in Pod\(one=Idler, worker="),
    "an argument of the actor": (lambda: bad(worker=Pod(Named, label="x")), r"arguments with props\(Named, label="),  # type: ignore[arg-type]
    "an argument that is missing": (lambda: bad(worker=Pod(Named)), r"missing a required argument: 'name'"),
    "an argument that is not there": (
        lambda: bad(worker=Pod(props(Named, nmae="x"))),  # type: ignore[call-arg]
        r"'worker' cannot be made .*Named\(name: 'str'\)",
    ),
    "a watch of no troupe": (lambda: bad(worker=Pod(Idler, watch=True)), "'worker' is none"),
    "a kubelet of no troupe": (lambda: bad(worker=Pod(Idler, kubelet=KubeletConfig())), "'worker' is none"),
    "a processor for a cooperative pod": (
        lambda: bad(worker=Pod(Idler, thread=ThreadModel.COOPERATIVE, core=0)),
        r"KubeletConfig\(core=0\)",
    ),
    "a name of the troupe's own": (lambda: bad(play=Pod(Idler)), "cannot be called 'play'"),
    "the name of the kubelet": (lambda: bad(kubelet=Pod(Idler)), "cannot be called 'kubelet'"),
    "peers that are mates": (lambda: bad(worker=Pod(HasMatesForPeers)), "peers: WrongMates.*subclass of Handles"),
    "a pod that is no mates": (lambda: bad(worker=Pod(HasNoMates)), "pod: int.*subclass of Mates"),
    "a peer that is no handle": (
        lambda: bad(worker=Pod(HasNoHandle), engine=Pod(Idler)),
        "'engine' as int, and it is a ServiceHandle",
    ),
    "messages that a peer does not take": (
        lambda: bad(worker=Pod(SendsText), engine=Pod(Counter)),
        r"'engine' to take str, and Counter is an actor of int \| NoneType",
    ),
    "messages that a peer does not take in one lane": (
        lambda: bad(worker=Pod(SendsTextAsControl), engine=Pod(Counter)),
        "'engine' to take str, and Counter",
    ),
    "a handle for a troupe": (
        lambda: bad(worker=Pod(SendsNumbers), engine=Pod(bad(worker=Pod(Idler)))),
        "'engine' as a ServiceHandle, and it is a troupe",
    ),
    "a troupe's handles for an actor": (
        lambda: bad(worker=Pod(SendsToATroupe), engine=Pod(Counter)),
        "'engine' as EnginePeers, and it is an actor",
    ),
    "a pod in a tuple": (lambda: bad(worker=(Pod(Idler),)), r"'worker' is a tuple with a pod in it"),  # type: ignore[arg-type]
    "a mate of another class": (
        lambda: bad(pod=Pod(worker=HasACounter, config=Idler)),
        "'config' as Counter, and it is Idler",
    ),
    "no actor at all": (lambda: bad(pod=Pod()), "needs an actor"),
    "arguments": (lambda: bad(worker=Pod(Named, "x")), r"props\("),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found_at_once_and_its_line_is_named(name: str) -> None:  # K9
    mistake, words = MISTAKES[name]
    with pytest.raises(ManifestError, match=words) as caught:
        mistake()
    assert caught.value.where.startswith(f"{__file__}:")
    number = int(caught.value.where.rpartition(":")[2])
    code = mistake.__code__
    lines = {found for _, _, found in code.co_lines() if found is not None}
    assert number in lines
    assert str(caught.value).startswith(f"{__file__}:{number}: ")


def test_of_two_mains_the_second_is_the_wrong_one() -> None:  # K9
    with pytest.raises(ManifestError) as caught:
        two_mains()
    assert caught.value.where == f"{__file__}:{two_mains.__code__.co_firstlineno + 3}"


MENTIONS: list[tuple[type[Any], str]] = [
    (MentionsAWrongPeer, "'dispaly'"),
    (MentionsInANestedFunction, "'dispaly'"),
    (MentionsInAnAsyncHandler, "'dispaly'"),
    (MentionsInALambda, "'dispaly'"),
    (MentionsInAProperty, "'dispaly'"),
    (MentionsByInheritance, "'dispaly'"),
    (MentionsWhatItDoesNotDeclare, "that is not declared among its peers"),
    (MentionsItself, "the same pod"),
    (MentionsAWrongMate, "self.pod.cofnig"),
]


@pytest.mark.parametrize(("actor", "words"), MENTIONS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_peer_or_mate_that_code_mentions_is_looked_for_when_the_class_is_made(
    actor: type[Any], words: str
) -> None:  # K9
    with pytest.raises(ManifestError, match=words) as caught:
        bad(worker=Pod(actor), engine=Pod(Idler), other=Pod(Idler))
    assert caught.value.where == f"{__file__}:{actor.WRONG}"
    assert str(caught.value).startswith(f"{__file__}:{actor.WRONG}: ")


def test_a_peer_that_is_mentioned_in_props_is_looked_for_too() -> None:  # K9
    with pytest.raises(ManifestError, match="'dispaly'"):
        bad(worker=Pod(props(MentionsAWrongPeer)), engine=Pod(Idler))


def test_an_instance_in_props_is_no_factory() -> None:  # K9
    with pytest.raises((ManifestError, TypeError)):
        bad(worker=Pod(props(Idler())))  # type: ignore[arg-type]


def test_what_exposed_is_declared_to_have_must_be_exposed() -> None:  # K9
    with pytest.raises(ManifestError, match=r"Front declares 'engine', .* 'engine' has it, and needs expose=True"):

        class Bad(Troupe[Front]):
            engine = Pod(Idler)

    with pytest.raises(ManifestError, match="Front declares 'engine', which no pod exposes; there are: other"):

        class Worse(Troupe[Front]):
            other = Pod(Idler, expose=True)

    with pytest.raises(ManifestError, match="TextFront declares 'engine' to take str, and Counter"):

        class Worst(Troupe[TextFront]):
            engine = Pod(Counter, expose=True)

    class Good(Troupe[Front]):
        engine = Pod(Idler, expose=True)

    handle: ServiceHandle[int] = Good.new().exposed().engine
    assert handle.name == "engine"


def test_one_pod_cannot_stand_under_two_names() -> None:  # K9
    pod = Pod(Idler)
    with pytest.raises(ManifestError, match="is called 'one' already"):
        bad(one=pod, two=pod)


def test_an_actor_without_a_pod_is_a_mistake_unless_it_is_defined_there() -> None:  # K9
    forgotten: tuple[Any, ...] = (Idler, props(Named, "x"), bad(worker=Pod(Idler)))
    for one in forgotten:
        with pytest.raises(ManifestError, match=r"'engine' is .*, and no pod: write engine = Pod\("):
            type("Studio", (Troupe,), {"engine": one})

    class Studio(Troupe[Any]):
        class Engine(Actor[Any, None]):
            def receive(self, message: Any) -> None: ...

        engine = Pod(Engine)

    assert list(Studio.manifest.pods) == ["engine"]


def test_a_troupe_without_pods_cannot_be_made() -> None:  # K9
    class Empty(Troupe[Any]):
        pass

    with pytest.raises(ValueError, match="has no pods"):
        Empty.new()


# What is fine
T = TypeVar("T")


class Takes(Protocol):
    def receive(self, message: Any) -> Any: ...


class SubCounter(Counter):
    pass


class Scales(Actor[float, None]):
    def receive(self, message: float) -> None: ...


class Generic(Actor[T, None]):
    def receive(self, message: T) -> None: ...


class ManyPeers(Handles):
    counter: ServiceHandle[bool, None, Never]
    sub: ServiceHandle[int]
    scales: ServiceHandle[int]
    generic: ServiceHandle[str]
    anything: ServiceHandle[Any]
    made: ServiceHandle[str]
    unknown: ServiceHandle[OnlyForTypeCheckers]  # type: ignore[name-defined]  # noqa: F821
    untyped: Any


class ManyMates(Mates):
    counter: Takes
    sub: Counter


class DeclaresManyPeers(Idler):
    peers: ManyPeers


class DeclaresManyMates(Idler):
    pod: ManyMates


class DeclaresWhatCannotBeTold(Idler):
    peers: OnlyForTypeCheckers  # type: ignore[name-defined]  # noqa: F821
    pod: Any


def supplied(make: Callable[..., Any]) -> Callable[..., Any]:
    """What a decorator makes of a function that takes a name: it looks like that, and has the name already."""

    @functools.wraps(make)
    def wrapper(*args: Any) -> Any:
        return make(*args, "x")

    return wrapper


class HasSupplied(Named):
    @supplied
    def __init__(self, name: str) -> None:
        super().__init__(name)


class OverridesAMention(MentionsAWrongPeer):
    def receive(self, message: Any) -> None: ...


class ReadsAttributesOfOthers(Idler):
    def receive(self, message: Any) -> Any:
        class Helper:
            def look(self) -> Any:
                return self.peers.nobody  # type: ignore[attr-defined]

        other = message
        return other.pod.name, other.peers.count, [one.pod.name for one in message], Helper, lambda self: self.pod.name

    @staticmethod
    def read(event: Any) -> Any:
        return event.torrent.peers.count


class Widened(Counter):
    def receive(self, message: object) -> None: ...


class Calls(Actor[Callable[[], None], None]):
    def receive(self, message: Callable[[], None]) -> None: ...


class Sends(ABC):
    """Whatever sends."""

    @abstractmethod
    def send(self, message: int) -> None: ...


Sends.register(ServiceHandle)


class LoosePeers(Handles):
    counter: ServiceHandle[int] | None
    widened: ServiceHandle[str]
    scales: Annotated[ServiceHandle[int], "grams"]
    vectors: ServiceHandle[float]
    calls: ServiceHandle[type]
    sends: Sends
    noted: ServiceHandle[int]


class Vectors(Actor[complex, None]):
    def receive(self, message: complex) -> None: ...


class Noted(Actor[Annotated[int, "positive"], None]):
    def receive(self, message: int) -> None: ...


class DeclaresLoosely(Idler):
    peers: LoosePeers | None
    pod: Annotated[Mates, "the others"]


def test_what_works_is_not_taken_for_a_mistake() -> None:  # K9
    bad(
        worker=Pod(DeclaresLoosely), counter=Pod(Counter), widened=Pod(Widened), scales=Pod(Scales),
        vectors=Pod(Vectors), calls=Pod(Calls), sends=Pod(Counter), noted=Pod(Noted),
    )  # fmt: skip
    bad(one=Pod(supplied(Named)), two=Pod(HasSupplied), three=Pod(functools.partial(Named, "x")))
    bad(one=Pod(OverridesAMention), two=Pod(ReadsAttributesOfOthers))

    class Base(Troupe[Front]):
        """Its pods come in a subclass."""

    class Made(Base):
        kind: ClassVar[type[Actor[Any, None]]] = Idler
        _kind = Idler
        Idler = Idler
        engine = Pod(Idler, expose=True)

    assert list(Made.manifest.pods) == ["engine"]


def test_names_in_a_function_are_not_looked_for_in_its_module() -> None:  # K9
    class EnginePeers(Handles):  # as another one in this module
        other: ServiceHandle[int]

    class Sender(Idler):
        peers: EnginePeers

    assert bad(worker=Pod(Sender), other=Pod(Idler), engine=Pod(Idler)).manifest.peers["worker"] == ("other", "engine")


def test_a_declaration_that_is_true_or_cannot_be_told_is_fine() -> None:  # K9
    others: dict[str, Any] = {
        "sub": SubCounter, "scales": Scales, "generic": Generic, "anything": Counter, "made": lambda: Counter(),
        "unknown": Counter, "untyped": Counter, "blind": DeclaresWhatCannotBeTold,
    }  # fmt: skip
    peers = bad(worker=Pod(DeclaresManyPeers), counter=Pod(Counter), others=Pod(**others)).manifest.peers
    assert set(peers["worker"]) == {"counter", *others} - {"blind"}
    assert bad(pod=Pod(worker=DeclaresManyMates, counter=Counter, sub=SubCounter)).manifest.peers["worker"] == ()


class MentionsRightly(Actor[Any, None]):
    peers: EnginePeers
    pod: Mates

    def receive(self, message: Any) -> None:
        self.peers.engine.send(message)
        self.pod.config.receive(message)  # type: ignore[attr-defined]


def test_a_pod_knows_its_peers_and_its_mates() -> None:  # K9, K17
    studio = bad(pod=Pod(worker=MentionsRightly, config=Idler), engine=Pod(Idler, expose=True))
    assert studio.manifest.peers["worker"] == ("engine",)
    assert studio.manifest.exposed == ("engine",)


def test_a_subclass_adds_pods_replaces_them_and_takes_them_away() -> None:  # K9
    class Base(Troupe[Any]):
        one = Pod(Idler, expose=True)
        two = Pod(Idler, expose=True)
        three = Pod(Idler, expose=True)

    class Derived(Base):
        two = Pod(props(Named, "x"), expose=True)
        three = None  # type: ignore[assignment]
        four = Pod(Idler, expose=True)

    assert list(Base.manifest.pods) == ["one", "two", "three"]
    assert list(Derived.manifest.pods) == ["one", "two", "four"]
    assert repr(Derived.manifest.pods["two"].actor) == "props(Named, 'x')"


def test_pods_are_inherited_as_other_attributes_are() -> None:  # K9
    class Base(Troupe[Any]):
        one = Pod(Idler)
        two = Pod(Idler)

    class Without(Base):
        two = None  # type: ignore[assignment]

    class Below(Without):
        pass

    class Left(Base):
        pass

    class Right(Base):
        one = Pod(Counter)

    class Both(Left, Right):
        pass

    assert list(Below.manifest.pods) == ["one"]
    assert Both.manifest.pods["one"] is Both.one
    assert Both.one.actor is Counter


def test_handles_say_which_names_there_are() -> None:  # K9
    troupe = bad(engine=Pod(Idler, expose=True), config=Pod(Idler)).new()
    assert list(troupe.exposed()) == ["engine"]
    with pytest.raises(AttributeError, match=r"no exposed actor 'config'; there are: engine.*expose=True"):
        _ = troupe.exposed().config
    with pytest.raises(AttributeError, match="cannot be set"):
        troupe.exposed().engine = None


def test_each_troupe_of_a_class_has_handles_of_its_own() -> None:  # K9
    studio = bad(engine=Pod(Idler, expose=True))
    one, two = studio.new(), studio.new()
    assert one.exposed().engine is one.exposed().engine
    assert one.exposed().engine is not two.exposed().engine


NAN = float("nan")
REFUSED = [
    *[("core", value) for value in (-1, 1.0, "0", True)],
    *[("max_restarts", value) for value in (-1, 1.5, "3", True)],
    *[("within", value) for value in (-1.0, NAN, "60", None)],
    *[("connect_timeout", value) for value in (-0.1, NAN, "30", None)],
    *[("heartbeat", value) for value in (0, -1.0, 0.001, NAN, "1", None)],
    *[("drain_timeout", value) for value in (-1, NAN, "5", None)],
    *[("shutdown", value) for value in ("drain_all", None, True)],
    *[("backoff", value) for value in (0.1, "fast", Backoff)],
]


@pytest.mark.parametrize(("field", "value"), REFUSED, ids=lambda value: str(value))
def test_a_setting_of_a_kubelet_that_makes_no_sense_is_refused_by_name(field: str, value: Any) -> None:  # K7, K9
    with pytest.raises(ConfigError, match=f"^{field}=") as caught:
        KubeletConfig(**{field: value})
    assert caught.value.field == field
    assert caught.value.code == "config"


def test_a_kubelet_can_be_set_up() -> None:  # K7
    backoff = Backoff(min=1.0, max=1.0)
    config = KubeletConfig(0, 3, 10.0, backoff, 1.0, 0.5, ShutdownMode.IMMEDIATE, 2.0)
    assert config == KubeletConfig(
        core=0,
        max_restarts=3,
        within=10.0,
        backoff=backoff,
        connect_timeout=1.0,
        heartbeat=0.5,
        shutdown=ShutdownMode.IMMEDIATE,
        drain_timeout=2.0,
    )
    assert KubeletConfig(max_restarts=None).max_restarts is None
    assert KubeletConfig(max_restarts=0).max_restarts == 0


def test_a_handle_waits_half_a_minute_unless_it_is_told_otherwise() -> None:  # K14
    assert KubeletConfig().connect_timeout == 30.0


def test_settings_cannot_be_changed() -> None:
    config = KubeletConfig()
    with pytest.raises((AttributeError, GreenroomError)):
        config.within = 1.0


@pytest.mark.parametrize("kind", [Buffers, Bursts])
@pytest.mark.parametrize("lane", ["data", "control", "management", "log"])
@pytest.mark.parametrize("value", [0, -1, 1.0, "1", True, None, 1 << 62], ids=str)
def test_a_number_of_messages_is_refused_by_the_name_of_its_lane(kind: Any, lane: str, value: Any) -> None:  # K3
    with pytest.raises(ConfigError) as caught:
        kind(**{lane: value})
    assert caught.value.field == lane
    assert str(caught.value).startswith(f"{lane}=")


@pytest.mark.parametrize("kind", [Buffers, Bursts])
def test_each_lane_has_a_size_of_its_own(kind: Any) -> None:  # K3
    sizes = kind(data=1, control=2, management=3, log=4).sizes
    assert sizes == {Lane.DATA: 1, Lane.CONTROL: 2, Lane.MANAGEMENT: 3, Lane.LOG: 4}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("thread", "dedicated"),
        ("thread", None),
        ("restart", "always"),
        ("restart", Restart.PERMANENT),
        ("on_restart", "keep"),
        ("core", -1),
        ("core", "0"),
        ("core", True),
        ("buffers", 4096),
        ("buffers", Bursts()),
        ("bursts", 64),
        ("bursts", Buffers()),
    ],
    ids=lambda value: str(value),
)
def test_a_setting_of_a_pod_that_makes_no_sense_is_refused_by_name(field: str, value: Any) -> None:  # K3
    with pytest.raises(ConfigError, match=f"{field}="):
        Pod(Idler, **{field: value})


@pytest.mark.parametrize("value", [1, 0.5, None, ("worker", 1), (None,)], ids=str)
def test_what_a_pod_exposes_is_a_yes_or_names(value: Any) -> None:  # K9
    with pytest.raises(ConfigError):
        troupe_class(worker=Pod(Idler, expose=value))


def test_what_a_pod_is_by_default() -> None:  # K2, K3
    pod = Pod(Idler)
    assert (pod.thread, pod.restart, pod.on_restart, pod.core) == (
        ThreadModel.DEDICATED,
        RestartPolicy.ON_FAILURE,
        OnRestart.KEEP,
        None,
    )
    assert (pod.buffers, pod.bursts, pod.expose) == (Buffers(), Bursts(), False)
    assert Pod(Idler, thread=ThreadModel.MAIN).restart is RestartPolicy.NEVER


@pytest.mark.parametrize(
    ("policy", "restart"),
    [
        (RestartPolicy.ALWAYS, Restart.PERMANENT),
        (RestartPolicy.ON_FAILURE, Restart.TRANSIENT),
        (RestartPolicy.NEVER, Restart.TEMPORARY),
    ],
)
def test_each_policy_is_one_of_a_supervisors(policy: RestartPolicy, restart: Restart) -> None:  # K2
    assert policy.restart is restart


@pytest.mark.parametrize("given", [{}, 10, "fast", KubeletConfig], ids=str)
def test_a_troupe_takes_no_other_kubelet_than_a_config(given: Any) -> None:  # K9
    studio = troupe_class(worker=Pod(doer(Diary())))
    with pytest.raises(BadArgument, match="KubeletConfig"):
        studio.new(kubelet=given)


def test_a_troupe_takes_no_other_system_config() -> None:  # K9
    given: Any = KubeletConfig()
    with pytest.raises(BadArgument, match=r"config=.*must be a SystemConfig"):
        troupe_class(worker=Pod(Idler)).new(config=given)


@pytest.mark.parametrize("mode", ["immediate", None, 0], ids=str)
def test_a_troupe_is_shut_down_in_one_of_the_modes(mode: Any) -> None:  # K16
    troupe = troupe_class(worker=Pod(doer(Diary()))).new()
    with pytest.raises(BadArgument, match="ShutdownMode"):
        troupe.stop(mode)


@pytest.mark.parametrize("seconds", [-1.0, NAN, "5"], ids=str)
def test_a_troupe_is_given_a_number_of_seconds_to_end_in(seconds: Any) -> None:  # K16
    troupe = troupe_class(worker=Pod(doer(Diary()))).new()
    with pytest.raises(GreenroomError, match="timeout"):
        troupe.stop(ShutdownMode.DRAIN_ALL, timeout=seconds)


@pytest.mark.parametrize("seconds", [-1.0, NAN, "5"], ids=str)
@pytest.mark.parametrize("full", [False, True])
def test_a_handle_is_given_a_number_of_seconds_to_wait(seconds: Any, full: bool) -> None:  # K4
    troupe = troupe_class(worker=Pod(doer(Diary()), expose=True, buffers=Buffers(data=1))).new()
    if full:
        troupe.exposed().worker.send(1)
    with pytest.raises(GreenroomError):
        troupe.exposed().worker.send(2, timeout=seconds)
    with troupe:
        pass


def test_a_mistake_in_a_manifest_is_a_config_error() -> None:  # K9
    assert issubclass(ManifestError, ConfigError)


class DisplayPeers(Handles):
    display: ServiceHandle[str]


class Vsync(Actor[int, None]):
    def receive(self, message: int) -> None:
        self.peers.engine.send(message)  # type: ignore[attr-defined]


class Engine(Actor[int, None]):
    peers: DisplayPeers

    def receive(self, message: int) -> None:
        self.peers.display.send(str(message))


class Sink(Actor[object, None]):
    def receive(self, message: object) -> None: ...


class Studio(Troupe):
    vsync = Pod(Vsync, restart=RestartPolicy.ALWAYS, expose=True)
    engine = Pod(engine=Engine, config=Sink, core=1)
    display = Pod(Sink, thread=ThreadModel.MAIN)
    telemetry = Pod(metrics=Sink, thread=ThreadModel.COOPERATIVE)


class House(Troupe):
    studio = Pod(Studio)


TEXT = """\
Studio: 4 pods, 5 actors

  on the thread that calls play()
    display    display  [main, restart never]

  on threads of their own
    vsync      vsync  [dedicated, restart always]
    engine     engine, config  [dedicated, restart on failure, core 1]

  on the kubelet's thread
    telemetry  metrics  [cooperative, restart on failure]

  sends
    vsync  -> engine
    engine -> display

  exposed: vsync"""
MERMAID = """\
flowchart LR
    subgraph pod_vsync["vsync: dedicated, restart always"]
        vsync(["vsync"])
    end
    subgraph pod_engine["engine: dedicated, restart on failure, core 1"]
        engine["engine"]
        config["config"]
    end
    subgraph pod_display["display: main, restart never"]
        display["display"]
    end
    subgraph pod_telemetry["telemetry: cooperative, restart on failure"]
        metrics["metrics"]
    end
    vsync --> engine
    engine --> display"""


def test_a_manifest_can_be_read() -> None:  # K9
    assert str(Studio.describe()) == TEXT
    assert "studio (troupe)" in str(House.describe())


def test_a_manifest_is_a_flowchart() -> None:  # K9
    assert Studio.describe().mermaid() == MERMAID


def test_a_manifest_is_a_picture_with_every_pod_actor_and_way() -> None:  # K9
    picture = Studio.describe().svg()
    root = ET.fromstring(picture)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for word in ("Studio", "vsync", "engine", "config", "display", "telemetry", "metrics", "exposed"):
        assert word in texts
    arrows = [element for element in root.iter("{http://www.w3.org/2000/svg}path") if element.get("fill") != "none"]
    assert len(arrows) == 2
    assert Studio.describe()._repr_svg_() == picture
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.iter("{http://www.w3.org/2000/svg}rect"):
        if "x" in box.attrib:
            assert float(box.attrib["x"]) + float(box.attrib["width"]) <= width
            assert float(box.attrib["y"]) + float(box.attrib["height"]) <= height
