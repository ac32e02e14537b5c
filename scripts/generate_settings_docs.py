"""Generator of docs/settings.md, the settings reference, from the settings classes.

`make settings-docs` writes the page; `make check` calls this with --check, which writes nothing and
fails if the page differs from what the classes give. Keys, defaults and meanings come from the
fields and their docstrings, units and bounds from what the fields declare.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generated_page import write_or_check

from queryable_state.server.config.effective import meanings_of
from queryable_state.server.config.limits import Limits
from queryable_state.server.config.setting import (
    accepted,
    accepted_text,
    name_of,
    quantity_text,
    type_of,
    unit_of,
)
from queryable_state.server.config.sources import CONF_PREFIX
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.server.settings.environment_settings import EnvironmentSettings
from queryable_state.server.settings.flink_options import OPTIONS
from queryable_state.server.settings.proxy_settings import ProxySettings
from queryable_state.server.settings.shared_settings import LogSettings
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.server.storage.rocksdb.settings import RocksDBSettings
from queryable_state.streaming.runtime.states.settings import RuntimeSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"

# Fields of the application by those of a process, where the names differ.
APPLICATION_FIELDS: dict[type, dict[str, str]] = {
    StateServerSettings: {"advertised_host": ""},
    CoordinatorSettings: {"ports": "coordinator_ports", "advertised_host": "coordinator_host"},
}

HEAD = """# Settings reference

For people who configure a job or a server: every setting of every process, with its keys,
default, unit, bounds and meaning. `make settings-docs` writes this page from the settings classes.

In the tables, *unit* is that of a plain number. An empty *bounds* cell: every value of the type
is accepted. *Ports* are one port, a range, also with a step, or a list (`9067`, `9067-9079`,
`9067-9167/10`, `9067,0`); the first free one is taken, a 0 is any free port
([addresses.md](addresses.md)).
"""

APPLICATION = """## Spark application

Set a field in one of these places. From the strongest to the weakest:

1. the program: methods of the environment, a `Configuration`, arguments of `execute`;
2. `spark.queryable_state.<name>` in Spark's configuration; Flink's keys of a setting too, with or
   without the prefix `spark.queryable_state.`;
3. `QUERYABLE_STATE_<NAME>` in the driver's environment (`.` and `-` of Flink's keys become `_`);
4. the TOML file that `spark.queryable_state.config` or `QUERYABLE_STATE_CONFIG` names, by the same
   names: [configuration.md](configuration.md).

Times take units (`500 ms`, `10 s`, `5 min`, `1 h`, `1 d`), sizes too (`20 kb`, `64 mb`, `1 gb`). A
value outside of its bounds is refused at the start, with the place it came from. So is an unknown
name, with the most similar known one, and a misspelt prefix. A known key of Flink without effect is
logged as a warning with the reason; the last table of this section has the execution options
that are kept and returned. `queryable-state config application` shows the effective values.
"""

OPTIONS_HEAD = """### Flink's execution options

Each is set like the fields above, by Flink's key, or by a method of the environment or of its
`ExecutionConfig`.
"""

ROCKSDB = """## RocksDB

An options factory (`spark.queryable_state.rocksdb_options_factory`, or
`RocksDBStateBackend.set_options`) returns these fields; a profile
(`spark.queryable_state.rocksdb_predefined_options`) sets some of them.
"""

FLAGS = """By flags, by `QUERYABLE_STATE_<NAME>` in the environment, or by name in the file of
`--config`, also in its table `[queryable_state.%s]`; the limits of servers and proxies below are
set in the same way. `queryable-state config %s` shows the effective values.
"""

DRIVER = """The driver starts the process and passes these on. *Key* is the key of the application
that sets the field; fields without one have a fixed value or follow from the executor.
"""

TAIL = """## Commands

- `QUERYABLE_STATE_SERVER`: `HOST[:PORT]`, several with commas, that the query commands (`get`,
  `scan`, `jobs` and others) ask if `--server` is not given; else they ask `localhost:9069`.
- `QUERYABLE_STATE_TOKEN`: the token of the caller, for the query commands if `--token-file` is not
  given.
- `QUERYABLE_STATE_SECRET`: the job's secret, for `proxy` and `savepoint` if `--secret-file` is not
  given; for `serve` the secret of its `--servers`.

`queryable-state COMMAND --help` lists the flags of a command.
"""


@dataclass(frozen=True)
class Section:
    """One table of the page: a settings class and the key of each field."""

    heading: str
    text: str
    settings: type
    keys: Mapping[str, str]
    """Keys by field; a field that is missing has none."""


def page() -> str:
    """The whole page."""
    application = application_keys(EnvironmentSettings)
    rocksdb = {field.name: field.name for field in fields(RocksDBSettings)}
    sections = (
        Section("", APPLICATION, EnvironmentSettings, application),
        Section("", ROCKSDB, RocksDBSettings, rocksdb),
        Section(
            "Stand-alone proxy: `queryable-state proxy`",
            FLAGS % ("proxy", "proxy"),
            ProxySettings,
            flags_of(ProxySettings),
        ),
        Section(
            "Checkpoint server: `queryable-state serve`",
            FLAGS % ("serve", "serve"),
            CheckpointServerSettings,
            flags_of(CheckpointServerSettings),
        ),
        *(
            Section(heading, DRIVER, settings, application_keys(settings))
            for heading, settings in (
                ("State server", StateServerSettings),
                ("Coordinator", CoordinatorSettings),
                ("Limits of servers and proxies", Limits),
                ("Logs of state servers", LogSettings),
                ("Spark tasks", RuntimeSettings),
            )
        ),
    )
    parts = [HEAD]
    for section in sections:
        heading = f"## {section.heading}\n\n" if section.heading else ""
        parts.append(heading + section.text + "\n" + table(section))
        if section.settings is EnvironmentSettings:
            parts.append(OPTIONS_HEAD + "\n" + options_table())
    return "\n".join([*parts, TAIL])


def table(section: Section) -> str:
    """One row a field, in the order of the class."""
    meanings = meanings_of(section.settings)
    named = section.settings not in (StateServerSettings, CoordinatorSettings)
    columns = ["key"] if named else ["field", "key"]
    lines = [
        "| " + " | ".join([*columns, "default", "unit", "bounds", "meaning"]) + " |",
        "|" + "---|" * (len(columns) + 4),
    ]
    for field in fields(section.settings):
        keys = [section.keys[field.name]] if field.name in section.keys else []
        keys += accepted(field).flink
        key = "<br>".join(f"`{key}`" for key in keys)
        cells = [key] if named else [f"`{field.name}`", key]
        cells += [
            default_text(field),
            unit_of(field) or accepted(field).unit,
            bounds(field),
            meanings.get(field.name, ""),
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def options_table() -> str:
    """One row per execution option of Flink."""
    lines = ["| key | default | effect |", "|---|---|---|"]
    for key, option in OPTIONS.items():
        keys = "<br>".join(f"`{each}`" for each in (key, *option.spellings))
        default = str(option.default).lower() if option.kind == "bool" else option.default
        effect = f"none: {option.no_effect}" if option.no_effect else "works"
        cells = [keys, f"`{default}`" if default not in ("", ()) else "", effect]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def fields(settings: type[Any]) -> list[dataclasses.Field[Any]]:
    """The fields that have a row of their own, those of the class itself first.

    Fields that hold other settings have tables.
    """
    rows = {
        field.name: field
        for field in dataclasses.fields(settings)
        if not accepted(field).derived and not dataclasses.is_dataclass(type_of(field))
    }
    order = dict.fromkeys(
        name for base in settings.__mro__ for name in inspect.get_annotations(base)
    )
    return [rows[name] for name in order if name in rows]


def default_text(field: dataclasses.Field[Any]) -> str:
    """The default as a person reads it."""
    value = field.default
    if field.default_factory is not dataclasses.MISSING:
        return "`{}`"
    if value is dataclasses.MISSING:
        return "required"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        shown = quantity_text(value, unit_of(field))
        return shown.removesuffix(f" {unit_of(field)}")
    return f"`{value}`" if value else ""


def bounds(field: dataclasses.Field[Any]) -> str:
    """The values that the field accepts."""
    return "`true`, `false`" if type_of(field) is bool else accepted_text(field)


def flags_of(settings: type[Any]) -> dict[str, str]:
    """Names and flags of the settings of a command, by field."""
    found: dict[str, str] = {}
    for field in fields(settings):
        rule, name = accepted(field), name_of(field)
        flags = [] if rule.flags is None else [f"--{name.replace('_', '-')}", *rule.flags]
        found[field.name] = "`<br>`".join([name, *flags])
    return found


def application_keys(settings: type[Any]) -> dict[str, str]:
    """Keys of the application by the fields of a process that the driver starts."""
    known = {field.name for field in dataclasses.fields(EnvironmentSettings)}
    names = APPLICATION_FIELDS.get(settings, {})
    named = {field.name: names.get(field.name, field.name) for field in fields(settings)}
    return {field: CONF_PREFIX + name for field, name in named.items() if name in known}


def main() -> int:
    return write_or_check(PAGE, page, description=__doc__, target="settings-docs")


if __name__ == "__main__":
    sys.exit(main())
