"""`queryable-state config`: the effective configuration, and where each value came from."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from queryable_state.server.cli.process_settings import add_settings, process_settings
from queryable_state.server.cli.proxy import checked_proxy
from queryable_state.server.cli.serve import checked_serve
from queryable_state.server.config.effective import (
    as_json,
    as_text,
    as_toml,
    effective_settings,
)
from queryable_state.server.config.setting import Origin, SettingsGroup
from queryable_state.server.config.sources import CONF_PREFIX, FILE_NAME, default_conf, read_conf
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.server.settings.environment_settings import EnvironmentSettings
from queryable_state.server.settings.proxy_settings import ProxySettings
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

_Settings = TypeVar("_Settings", bound=SettingsGroup)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "config",
        help="show the effective configuration, and where each value came from",
        description="Prints the settings that a process started here would have, with the place of "
        "each value, and ends with 2 if they are refused; of a proxy and a checkpoint server also "
        "if it could not start here: their files are read, and protected mode applies. No call is "
        "made, and no port is opened. Secrets are masked. From the weakest to the strongest: "
        "defaults, the file of --config, QUERYABLE_STATE_* variables, Spark's configuration, "
        "flags.",
    )
    processes = parser.add_subparsers(required=True, metavar="PROCESS")
    application = _add(
        processes, "application", "a Spark application", _application, _not_checked_further
    )
    application.add_argument("--config", metavar="FILE", help="TOML file of settings")
    application.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a key of Spark's configuration, as for spark-submit; may be repeated",
    )
    application.add_argument(
        "--properties-file",
        metavar="FILE",
        help="Spark's properties file (default: spark-defaults.conf in SPARK_CONF_DIR, or in conf "
        "of SPARK_HOME)",
    )
    proxy = _add(processes, "proxy", "a stand-alone proxy", _proxy, checked_proxy)
    add_settings(proxy, ProxySettings)
    serve = _add(processes, "serve", "a checkpoint server", _serve, checked_serve)
    add_settings(serve, CheckpointServerSettings)


def _add(
    processes: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    what: str,
    load: Callable[[argparse.Namespace], _Settings],
    check: Callable[[_Settings], object],
) -> argparse.ArgumentParser:
    """Adds a process; `check` raises if it cannot start with the settings of `load`."""
    parser = processes.add_parser(name, help=f"the settings of {what}")
    parser.add_argument(
        "--all", action="store_true", help="also settings that have their default value"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON array")
    form.add_argument("--toml", action="store_true", help="print a TOML file for --config")
    parser.set_defaults(run=_run, load=load, check=check)
    return parser


def _run(options: argparse.Namespace) -> int:
    settings = options.load(options)
    rows = effective_settings(settings)
    shown = [row for row in rows if options.all or not row.is_default]
    if options.json:
        print(as_json(shown), end="")
    elif options.toml:
        print(as_toml(shown), end="")
    elif shown:
        print(as_text(shown), end="")
    else:
        print(f"all {len(rows)} settings have their defaults; --all shows them")
    # Afterwards, because the table shows where the refused value came from.
    sys.stdout.flush()
    options.check(settings)
    return 0


def _not_checked_further(_settings: EnvironmentSettings) -> None:
    """The files of an application are those of its machines, and protected mode of its master."""


def _application(options: argparse.Namespace) -> EnvironmentSettings:
    properties = _properties(options.properties_file)
    conf = {key: value for key, (value, _) in properties.items()}
    for given in options.conf:
        key, equals, value = given.partition("=")
        if not equals:
            raise InvalidRequestError(f"--conf {given!r}: write KEY=VALUE")
        conf[key.strip()] = value.strip()
        properties.pop(key.strip(), None)
    if options.config:
        conf[CONF_PREFIX + FILE_NAME] = options.config
    settings = EnvironmentSettings.load(conf, os.environ)
    file = options.properties_file or default_conf()[0]
    placed = {
        name: Origin(f"{file}, line {properties[origin.key][1]}", origin.key)
        for name, origin in settings.origins.items()
        if origin.key in properties
    }
    return dataclasses.replace(settings, origins={**settings.origins, **placed})


def _properties(file: str | None) -> dict[str, tuple[str, int]]:
    if file is None:
        return dict(default_conf()[1])
    try:
        return read_conf(Path(file))
    except OSError as problem:
        raise InvalidRequestError(f"cannot read --properties-file {file}: {problem}") from problem


def _proxy(options: argparse.Namespace) -> ProxySettings:
    return process_settings(ProxySettings, "proxy", options)


def _serve(options: argparse.Namespace) -> CheckpointServerSettings:
    return process_settings(CheckpointServerSettings, "serve", options)
