"""Sources of the settings of an application: a file, the environment, Spark's configuration."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from queryable_state.server.config.names import (
    CONF_PREFIX,
    FILE_NAME,
    SettingNames,
    meant_key,
)
from queryable_state.server.config.parsed_settings import ParsedSettings
from queryable_state.server.config.settings_group import Origin
from queryable_state.server.config.sources import Source, environment_source, file_source
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.server.settings.execution_options import OPTIONS
from queryable_state.server.settings.proxy_settings import ProxySettings
from queryable_state.server.settings.settings_parser import SettingsParser
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.config.settings_group import SettingsGroup

SPARK: Final = "Spark configuration"
MAPS: Final = frozenset(
    {"storage_options", *(key for key, option in OPTIONS.items() if option.kind == "map")}
)


def application_parser(settings: type[SettingsGroup]) -> SettingsParser:
    """The parser of the application's settings class."""
    return SettingsParser(SettingNames.of(settings, elsewhere=process_names()))


def process_names() -> set[str]:
    """Names of the settings of stand-alone processes."""
    processes = (ProxySettings, CheckpointServerSettings)
    return {name for process in processes for name in SettingNames.of(process).fields}


def application_settings(
    settings: type[SettingsGroup],
    conf: Mapping[str, str],
    environment: Mapping[str, str],
) -> ParsedSettings:
    """The settings of a Spark configuration, an environment and the file that they name.

    From the weakest to the strongest: the file, the environment, Spark's configuration; in it,
    keys with the prefix `spark.queryable_state.` count before Flink's without a prefix. Raises
    InvalidRequestError with key and place of an unknown, misspelt or invalid setting.
    """
    parser = application_parser(settings)
    prefixed, bare = _conf_sources(parser, conf)
    variables = environment_source(environment, (*parser.known, FILE_NAME), process_names())
    file = str(prefixed.given.get(FILE_NAME) or variables.given.get(FILE_NAME) or "")
    found = ParsedSettings()
    for source in (*([file_source(file, maps=MAPS)] if file else []), variables, bare, prefixed):
        rest = {name: value for name, value in source.given.items() if name != FILE_NAME}
        found |= parser.parse(Source(rest, source.origins))
    return found


def _conf_sources(parser: SettingsParser, conf: Mapping[str, str]) -> tuple[Source, Source]:
    """The settings of Spark's configuration with the prefix, and without."""
    prefixed: dict[str, str] = {}
    bare: dict[str, str] = {}
    origins: dict[str, Origin] = {}
    bare_origins: dict[str, Origin] = {}
    for key, value in conf.items():
        name = key.removeprefix(CONF_PREFIX)
        if name != key:
            prefixed[name] = value
            origins[name] = Origin(_place(key, value), key)
        elif parser.claims(key):
            bare[key] = value
            bare_origins[key] = Origin(_place(key, value), key)
        elif (meant := meant_key(key)) is not None:
            raise InvalidRequestError(
                f"{key} ({SPARK}) is not a setting; did you mean {meant!r}? docs/settings.md lists "
                "the settings"
            )
    return Source(prefixed, origins), Source(bare, bare_origins)


def _place(key: str, value: str) -> str:
    """Spark's configuration, with the file and line if `spark-defaults.conf` has this value."""
    path, defaults = default_conf()
    found = defaults.get(key)
    if found is not None and found[0] == str(value):
        return f"{SPARK}, {path}, line {found[1]}"
    return SPARK


@functools.cache
def default_conf() -> tuple[str, Mapping[str, tuple[str, int]]]:
    """Path of `spark-defaults.conf`, and its values and lines by key; empty if there is none."""
    folder = os.environ.get("SPARK_CONF_DIR") or (
        os.environ["SPARK_HOME"] + "/conf" if os.environ.get("SPARK_HOME") else ""
    )
    path = Path(folder) / "spark-defaults.conf"
    if not folder or not path.is_file():
        return "", {}
    return str(path), read_conf(path)


def read_conf(path: Path) -> dict[str, tuple[str, int]]:
    """Values and lines of a properties file of Spark, by key."""
    found: dict[str, tuple[str, int]] = {}
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            cut = min((at for mark in "=: \t" if (at := stripped.find(mark)) > 0), default=0)
            if cut:
                found[stripped[:cut]] = (stripped[cut:].lstrip(" \t=:"), number)
    return found
