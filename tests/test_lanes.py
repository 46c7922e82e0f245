"""Lanes in their order, and mailbox settings: what they accept, what they refuse and by which name."""

import copy
import dataclasses
import math
import operator
import pickle
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.errors import ConfigError
from greenroom.lanes import LARGEST_CAPACITY, Lane, MailboxConfig, Overflow

DEFAULTS = {Lane.CONTROL: 1024, Lane.MANAGEMENT: 1024, Lane.DATA: 65_536, Lane.LOG: 8192}


def rooms(config: MailboxConfig) -> dict[Lane, int]:
    return {lane: config.room(lane) for lane in Lane}


def test_a_higher_lane_compares_as_greater() -> None:
    assert sorted(Lane, reverse=True) == [Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA, Lane.LOG]


@pytest.mark.parametrize("lane", Lane)
def test_a_lane_reads_as_its_name(lane: Lane) -> None:
    assert str(lane) == f"{lane}" == lane.name
    assert repr(lane) == f"Lane.{lane.name}"


@pytest.mark.parametrize("lane", Lane)
def test_a_lane_pickles_to_itself(lane: Lane) -> None:
    assert pickle.loads(pickle.dumps(lane)) is lane


@pytest.mark.parametrize("policy", Overflow)
def test_an_overflow_policy_pickles_to_itself(policy: Overflow) -> None:
    assert pickle.loads(pickle.dumps(policy)) is policy


def test_the_default_mailbox_is_bounded_in_every_lane_and_rejects() -> None:
    config = MailboxConfig()
    assert rooms(config) == DEFAULTS
    assert config.overflow is Overflow.REJECT
    assert config.priority is None


@pytest.mark.parametrize("value", [1, 2, 65_536, LARGEST_CAPACITY])
@pytest.mark.parametrize("lane", Lane)
def test_every_lane_takes_any_bound_in_range(lane: Lane, value: int) -> None:
    config = MailboxConfig(capacity=value) if lane is Lane.DATA else MailboxConfig(lanes={lane: value})
    assert rooms(config) == {**DEFAULTS, lane: value}


BAD_BOUNDS = [0, -1, LARGEST_CAPACITY + 1, 1 << 64, True, False, 1.0, 64.5, math.inf, math.nan, "64", None, [64]]
NO_FUNCTIONS: list[object] = [1, "key", []]
NO_MAPPINGS: list[object] = [None, 10, [Lane.LOG], [(Lane.LOG, 10)]]
REFUSED: list[tuple[str, dict[str, Any]]] = [
    *(("capacity", {"capacity": value}) for value in BAD_BOUNDS),
    *((f"lanes[{lane}]", {"lanes": {lane: value}}) for lane in Lane if lane is not Lane.DATA for value in BAD_BOUNDS),
    *(("overflow", {"overflow": value}) for value in ("reject", None, 0, Overflow)),
    *(("priority", {"priority": value}) for value in NO_FUNCTIONS),
    *(("lanes", {"lanes": {key: 10}}) for key in (Lane.DATA, 1, 4, -1, "LOG", None)),
    *(("lanes", {"lanes": value}) for value in NO_MAPPINGS),
]


@pytest.mark.parametrize(("field", "settings"), REFUSED, ids=lambda value: str(value)[:60])
def test_a_bad_setting_is_refused_by_name(field: str, settings: dict[str, Any]) -> None:  # J1
    with pytest.raises(ConfigError) as caught:
        MailboxConfig(**settings)
    assert caught.value.field == field


def test_the_refusal_of_a_data_bound_among_the_lanes_says_where_it_belongs() -> None:
    with pytest.raises(ConfigError, match=r"`capacity` bounds Lane\.DATA"):
        MailboxConfig(lanes={Lane.DATA: 10})


def test_a_config_cannot_be_changed() -> None:
    config = MailboxConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.capacity = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.lanes[Lane.LOG] = 1  # type: ignore[index]


def test_changing_the_mapping_it_was_given_changes_nothing() -> None:
    lanes = {Lane.LOG: 10}
    config = MailboxConfig(lanes=lanes)
    lanes[Lane.LOG] = 99
    lanes[Lane.CONTROL] = 99
    assert rooms(config) == {**DEFAULTS, Lane.LOG: 10}


def test_naming_one_lane_changes_no_other_config() -> None:
    MailboxConfig(lanes={Lane.LOG: 10})
    assert rooms(MailboxConfig()) == DEFAULTS


def test_any_kind_of_mapping_will_do_for_the_lanes() -> None:
    assert MailboxConfig(lanes=MappingProxyType({Lane.LOG: 10})) == MailboxConfig(lanes={Lane.LOG: 10})


def test_a_replaced_field_leaves_the_others_as_they_were() -> None:
    config = MailboxConfig(3, Overflow.DROP_NEW, {Lane.LOG: 10}, len)
    changed = dataclasses.replace(config, capacity=4)
    assert changed == MailboxConfig(4, Overflow.DROP_NEW, {Lane.LOG: 10}, len)
    with pytest.raises(ConfigError):
        dataclasses.replace(config, capacity=0)


CONFIGS = st.builds(
    MailboxConfig,
    capacity=st.integers(1, LARGEST_CAPACITY),
    overflow=st.sampled_from(Overflow),
    lanes=st.dictionaries(st.sampled_from([Lane.CONTROL, Lane.MANAGEMENT, Lane.LOG]), st.integers(1, 1 << 20)),
    priority=st.sampled_from([None, len, operator.neg]),
)


@given(CONFIGS, st.sampled_from([copy.copy, copy.deepcopy, lambda config: pickle.loads(pickle.dumps(config))]))
def test_a_config_survives_pickling_and_copying(config: MailboxConfig, again: Any) -> None:
    other = again(config)
    assert other == config
    assert rooms(other) == rooms(config)
    assert other.priority is config.priority
