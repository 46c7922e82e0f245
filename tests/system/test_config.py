"""`SystemConfig`: every setting, checked, and read from code, TOML and the environment."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from greenroom import ActorSystem, Lane, MailboxConfig, ManualClock, Overflow, SystemConfig
from greenroom.errors import ConfigError, GreenroomError

DEFAULTS: dict[str, Any] = {
    "max_actors": 1_000_000,
    "mailbox": MailboxConfig(),
    "max_msgs_per_actor": 64,
    "max_actors_per_tick": 1024,
    "max_tick_time": 0.002,
    "max_io_watches": 1024,
    "stop_timeout": 5.0,
    "start_timeout": 600.0,
    "dead_letters": 1000,
    "clock": None,
    "seed": None,
    "env": {},
}

WHOLE_AND_POSITIVE = ("max_actors", "max_msgs_per_actor", "max_actors_per_tick", "max_timers", "max_io_watches")
SECONDS = ("max_tick_time", "stop_timeout", "slow_after")

BAD: list[tuple[str, Any]] = [
    *((name, value) for name in WHOLE_AND_POSITIVE for value in (0, -1, 1.5, "5", None, True, math.inf, 1 << 80)),
    *((name, value) for name in SECONDS for value in (-0.001, "1", None, True, math.nan, math.inf, -math.inf)),
    ("max_tick_time", 0),
    *(("start_timeout", value) for value in (-0.001, "1", True, math.nan, -math.inf)),
    *(("dead_letters", value) for value in (-1, 1.5, "5", None, True, 1 << 80)),
    *(("mailbox", value) for value in (None, 10, {"capacity": 10}, MailboxConfig)),
    *(("history", value) for value in (None, 1, "yes")),
    *(("clock", value) for value in (0, "monotonic", object())),
    *(("seed", value) for value in (1.5, "seed", True)),
    *(("env", value) for value in (None, 5, [("a", 1)], "a=1")),
]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", DEFAULTS)  # J1
def test_a_setting_that_is_not_given_has_the_default_of_the_contract(name: str) -> None:
    assert getattr(SystemConfig(), name) == DEFAULTS[name]


@pytest.mark.parametrize(("name", "value"), BAD)  # J1
def test_a_bad_value_is_refused_with_an_error_that_names_the_field(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        SystemConfig(**{name: value})
    assert caught.value.field == name
    assert str(caught.value).startswith(f"{name}=")
    assert caught.value.code == "config"
    assert isinstance(caught.value, GreenroomError)


@pytest.mark.parametrize("name", WHOLE_AND_POSITIVE)
def test_the_smallest_limit_is_one(name: str) -> None:
    values: dict[str, Any] = {name: 1}
    assert getattr(SystemConfig(**values), name) == 1


@pytest.mark.parametrize("name", ["stop_timeout", "slow_after", "dead_letters"])
def test_what_may_be_zero_may_be_zero(name: str) -> None:
    values: dict[str, Any] = {name: 0}
    assert getattr(SystemConfig(**values), name) == 0


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(SystemConfig)])
def test_a_config_is_frozen(name: str) -> None:
    config = SystemConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(config, name, getattr(config, name))


def test_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError):
        SystemConfig(max_actor=5)  # type: ignore[call-arg]


def test_the_env_of_a_config_is_a_copy_that_cannot_be_changed() -> None:
    given = {"a": 1}
    config = SystemConfig(env=given)
    given["a"] = 2
    assert config.env == {"a": 1}
    with pytest.raises(TypeError):
        config.env["a"] = 3  # type: ignore[index]


def test_a_config_can_be_changed_by_making_another() -> None:
    first = SystemConfig(max_actors=5, env={"a": 1})
    second = dataclasses.replace(first, seed=7)
    assert (second.max_actors, second.seed, second.env) == (5, 7, {"a": 1})
    assert first.seed is None
    assert dataclasses.replace(second, seed=None) == first


@pytest.mark.parametrize("config", [5, {"max_actors": 5}, SystemConfig])
def test_a_system_takes_nothing_else_for_a_config(config: Any) -> None:
    with pytest.raises(ConfigError, match="config="):
        ActorSystem(config=config)


@pytest.mark.parametrize("name", ["", None, 5, b"demo"])
def test_a_system_needs_a_name_that_is_a_text(name: Any) -> None:
    with pytest.raises(ConfigError, match="name="):
        ActorSystem(name)


# -- TOML

EVERYTHING = """
max_actors = 7
max_msgs_per_actor = 3
max_actors_per_tick = 4
max_tick_time = 1
max_timers = 9
max_io_watches = 5
stop_timeout = 2.5
dead_letters = 0
slow_after = 0.5
history = true
seed = 42

[{section}.mailbox]
capacity = 8
overflow = "drop_old"

[{section}.mailbox.lanes]
control = 2
LOG = 3

[{section}.env]
stage = "test"
nested = {{ deep = [1, 2] }}
"""


@pytest.mark.parametrize("section", ["tool.greenroom", "greenroom"])  # J1
def test_every_setting_can_be_read_from_a_table_of_a_toml_file(tmp_path: Path, section: str) -> None:
    text = f"[{section}]{EVERYTHING.format(section=section)}"
    config = SystemConfig.from_toml(write(tmp_path / "pyproject.toml", text))
    assert config == SystemConfig(
        max_actors=7,
        mailbox=MailboxConfig(capacity=8, overflow=Overflow.DROP_OLD, lanes={Lane.CONTROL: 2, Lane.LOG: 3}),
        max_msgs_per_actor=3,
        max_actors_per_tick=4,
        max_tick_time=1.0,
        max_timers=9,
        max_io_watches=5,
        stop_timeout=2.5,
        dead_letters=0,
        slow_after=0.5,
        history=True,
        seed=42,
        env={"stage": "test", "nested": {"deep": [1, 2]}},
    )


def test_a_file_without_tables_of_ours_is_all_settings(tmp_path: Path) -> None:
    assert SystemConfig.from_toml(write(tmp_path / "greenroom.toml", "max_actors = 7")).max_actors == 7
    assert SystemConfig.from_toml(str(write(tmp_path / "more.toml", "[mailbox]\ncapacity = 2"))).mailbox.capacity == 2


@pytest.mark.parametrize(
    "text", ["", "[tool.ruff]\nline-length = 120", '[project]\nname = "theirs"', "[tool.greenroom]"]
)
def test_a_file_that_says_nothing_of_us_gives_the_defaults(tmp_path: Path, text: str) -> None:
    assert SystemConfig.from_toml(write(tmp_path / "pyproject.toml", text)) == SystemConfig()


def test_the_table_under_tool_comes_before_the_plain_one(tmp_path: Path) -> None:
    text = "[greenroom]\nmax_actors = 5\n[tool.greenroom]\nmax_actors = 7"
    assert SystemConfig.from_toml(write(tmp_path / "pyproject.toml", text)).max_actors == 7


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[tool.greenroom]\nmax_actor = 7", "max_actor"),
        ("[tool.greenroom]\nmax_actors = 0", "max_actors"),
        ('[tool.greenroom]\nmax_actors = "many"', "max_actors"),
        ("[tool.greenroom]\nhistory = 1", "history"),
        ('[tool.greenroom]\nclock = "manual"', "clock"),
        ("[tool.greenroom]\nenv = 5", "env"),
        ("[tool.greenroom]\nmailbox = 5", "mailbox"),
        ("[tool.greenroom.mailbox]\ncapacity = 0", "capacity"),
        ("[tool.greenroom.mailbox]\ncapacty = 5", "capacty"),
        ('[tool.greenroom.mailbox]\noverflow = "explode"', "overflow"),
        ("[tool.greenroom.mailbox]\noverflow = 5", "overflow"),
        ("[tool.greenroom.mailbox]\nlanes = 5", "lanes"),
        ("[tool.greenroom.mailbox.lanes]\nfast = 5", "lanes"),
        ("[tool.greenroom.mailbox.lanes]\ndata = 5", "lanes"),
        ("[tool.greenroom.mailbox.lanes]\nlog = 0", "lanes"),
    ],
)
def test_a_bad_setting_in_a_file_is_an_error_that_names_it(tmp_path: Path, text: str, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SystemConfig.from_toml(write(tmp_path / "pyproject.toml", text))
    assert field in caught.value.field


@pytest.mark.parametrize(
    "content",
    [b"[tool.greenroom", b"max_actors = ", b"\xff\xfe\x00", b"tool = 5", b"[tool]\ngreenroom = 5", b"greenroom = 5"],
)
def test_a_file_that_makes_no_sense_is_a_config_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError):
        SystemConfig.from_toml(path)


def test_a_file_that_is_not_there_is_a_config_error_that_names_it(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(ConfigError, match=path.name):
            SystemConfig.from_toml(path)


@pytest.mark.parametrize("values", [5, None, [("max_actors", 5)], "max_actors"])
def test_settings_by_name_come_in_a_mapping(values: Any) -> None:
    with pytest.raises(ConfigError):
        SystemConfig.from_mapping(values)


def test_a_mapping_may_have_things_no_file_can_have() -> None:
    clock = ManualClock()
    mailbox = MailboxConfig(capacity=3, priority=abs)
    config = SystemConfig.from_mapping({"clock": clock, "mailbox": mailbox, "seed": None})
    assert config.clock is clock
    assert config.mailbox is mailbox
    with pytest.raises(ConfigError):
        SystemConfig.from_mapping({5: 6})  # type: ignore[dict-item]


# -- the environment


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("GREENROOM_MAX_ACTORS", "7", "max_actors", 7),
        ("GREENROOM_MAX_MSGS_PER_ACTOR", "3", "max_msgs_per_actor", 3),
        ("GREENROOM_MAX_ACTORS_PER_TICK", "4", "max_actors_per_tick", 4),
        ("GREENROOM_MAX_TICK_TIME", "0.5", "max_tick_time", 0.5),
        ("GREENROOM_MAX_TICK_TIME", "1", "max_tick_time", 1.0),
        ("GREENROOM_MAX_TIMERS", "9", "max_timers", 9),
        ("GREENROOM_MAX_IO_WATCHES", "5", "max_io_watches", 5),
        ("GREENROOM_STOP_TIMEOUT", "2.5", "stop_timeout", 2.5),
        ("GREENROOM_START_TIMEOUT", "2.5", "start_timeout", 2.5),
        ("GREENROOM_START_TIMEOUT", "none", "start_timeout", None),
        ("GREENROOM_START_TIMEOUT", "inf", "start_timeout", math.inf),
        ("GREENROOM_DEAD_LETTERS", "0", "dead_letters", 0),
        ("GREENROOM_SLOW_AFTER", "1e-3", "slow_after", 0.001),
        ("GREENROOM_HISTORY", "true", "history", True),
        ("GREENROOM_HISTORY", "0", "history", False),
        ("GREENROOM_SEED", "42", "seed", 42),
        ("GREENROOM_MAILBOX_CAPACITY", "8", "mailbox", MailboxConfig(capacity=8)),
        ("GREENROOM_MAILBOX_OVERFLOW", "drop_new", "mailbox", MailboxConfig(overflow=Overflow.DROP_NEW)),
    ],
)
def test_every_plain_setting_can_be_read_from_a_variable(variable: str, text: str, name: str, value: Any) -> None:  # J1
    config = SystemConfig.load(environ={variable: text, "PATH": "/bin"})
    assert getattr(config, name) == value
    assert type(getattr(config, name)) is type(value)
    assert dataclasses.replace(config, **{name: getattr(SystemConfig(), name)}) == SystemConfig()


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("GREENROOM_MAX_ACTORS", "many"),
        ("GREENROOM_MAX_ACTORS", ""),
        ("GREENROOM_MAX_ACTORS", "0"),
        ("GREENROOM_MAX_ACTORS", "1.5"),
        ("GREENROOM_MAX_TICK_TIME", "nan"),
        ("GREENROOM_MAX_TICK_TIME", "-1"),
        ("GREENROOM_STOP_TIMEOUT", "inf"),
        ("GREENROOM_HISTORY", "perhaps"),
        ("GREENROOM_SEED", "x"),
        ("GREENROOM_MAILBOX_CAPACITY", "0"),
        ("GREENROOM_MAILBOX_CAPACITY", "much"),
        ("GREENROOM_MAILBOX_OVERFLOW", "explode"),
        ("GREENROOM_MAILBOX_SIZE", "5"),
        ("GREENROOM_MAILBOX", "5"),
        ("GREENROOM_CLOCK", "manual"),
        ("GREENROOM_ENV", "a=1"),
        ("GREENROOM_MAX_ACTOR", "5"),
    ],
)
def test_a_bad_variable_is_an_error_that_names_it(variable: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SystemConfig.load(environ={variable: text})
    setting = variable.removeprefix("GREENROOM_").removeprefix("MAILBOX_").lower()
    assert setting in caught.value.field.lower()


def test_variables_override_the_file_and_the_file_the_defaults(tmp_path: Path) -> None:
    text = '[tool.greenroom]\nmax_actors = 7\nseed = 1\n[tool.greenroom.mailbox]\ncapacity = 8\noverflow = "drop_old"'
    path = write(tmp_path / "pyproject.toml", text)
    config = SystemConfig.load(path, {"GREENROOM_SEED": "2", "GREENROOM_MAILBOX_CAPACITY": "9"})
    assert config == SystemConfig(max_actors=7, seed=2, mailbox=MailboxConfig(capacity=9, overflow=Overflow.DROP_OLD))


def test_load_reads_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREENROOM_MAX_ACTORS", "7")
    assert SystemConfig.load().max_actors == 7
    assert SystemConfig.load(environ={}).max_actors == 1_000_000
    assert SystemConfig().max_actors == 1_000_000


def test_variables_about_building_the_package_are_no_settings() -> None:
    assert SystemConfig.load(environ={"GREENROOM_PURE": "1", "GREENROOM_EXPECT": "pure"}) == SystemConfig()
