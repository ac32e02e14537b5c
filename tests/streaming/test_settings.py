"""Settings from Spark's configuration, the environment and a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.streaming.settings import EnvironmentSettings
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path


def test_sparks_configuration_comes_before_the_environment_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[queryable_state]\nparallelism = 3\nlease_ms = 700\nbackend = "heap"\n')
    settings = EnvironmentSettings.load(
        {"spark.queryable_state.parallelism": "5", "spark.app.name": "x"},
        {
            "QUERYABLE_STATE_FILE": str(file),
            "QUERYABLE_STATE_PARALLELISM": "4",
            "QUERYABLE_STATE_LEASE_MS": "800",
            "QUERYABLE_STATE_OF_SOMEBODY_ELSE": "ignored",
        },
    )
    assert (settings.parallelism, settings.lease_ms, settings.backend) == (5, 800, "heap")


def test_the_secret_is_random_where_none_is_set_and_never_shown() -> None:
    one, two = (EnvironmentSettings().with_secret() for _ in range(2))
    assert one.secret != two.secret
    assert one.secret not in repr(one)
    assert EnvironmentSettings(secret="given").with_secret().secret == "given"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("paralelism", "2", "paralelism is not a setting; there are: allow_missing_state"),
        ("parallelism", "two", "'two', which is not a whole number"),
        ("strict", "maybe", "true or false"),
        ("backend", "redis", "heap, rocksdb"),
        ("max_parallelism", "32768", "1 to 32767"),
        ("parallelism", "129", "over max_parallelism 128"),
        ("proxy_ports", "70000", r"spark\.queryable_state\.proxy_ports"),
    ],
)
def test_a_wrong_setting_is_named(key: str, value: str, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        EnvironmentSettings.load({f"spark.queryable_state.{key}": value}, {})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"missing\.toml"):
        EnvironmentSettings.load({"spark.queryable_state.file": str(tmp_path / "missing.toml")}, {})
