"""Settings of pods and kubelets: those that make no sense are refused, and the error names the field."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import Actor, Backoff, Lane, OnRestart
from greenroom.errors import BadArgument, ConfigError, GreenroomError, ManifestError
from greenroom.pods import Buffers, Bursts, KubeletConfig, Pod, RestartPolicy, ShutdownMode, ThreadModel
from greenroom.policy.children import Restart
from tests.pods.troupes import Diary, doer, troupe_class


class Idler(Actor[Any, None]):
    def receive(self, message: Any) -> None: ...


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
