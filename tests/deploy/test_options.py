"""Commands and settings in the compose file, the chart and the unit exist under these names."""

from __future__ import annotations

import dataclasses
import re
import shlex
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.deploy.rendered_chart import DEPLOY, chart_objects

from queryable_state.cli import parser
from queryable_state.cli.exit_codes import CONFIGURATION
from queryable_state.server.settings.environment_settings import EnvironmentSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "spark.queryable_state."
KNOWN = {PREFIX + each.name for each in dataclasses.fields(EnvironmentSettings)}
VALUES = {
    "insecure": ("security.insecure=true",),
    "secure": ("security.tlsSecret=tls", "security.accessSecret=access"),
}


def _require_settings(names: Iterable[str]) -> None:
    own = {name for name in names if name.startswith(PREFIX)}
    assert own
    assert own <= KNOWN


def test_commands_of_the_compose_file_parse() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name in ("proxy", "client"):
        parser().parse_args(services[name]["command"])
    settings = [word.partition("=")[0] for word in services["driver"]["command"]]
    _require_settings(settings)


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_commands_and_settings_of_the_chart_parse(values: tuple[str, ...]) -> None:
    objects = {each["kind"]: each for each in chart_objects(*values)}
    [proxy] = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    parser().parse_args(proxy["args"])
    for probe in (proxy["livenessProbe"], proxy["readinessProbe"]):
        if "exec" in probe:
            program, *arguments = probe["exec"]["command"]
            assert program == "queryable-state"
            parser().parse_args(arguments)
    lines = objects["ConfigMap"]["data"]["spark.conf"].splitlines()
    _require_settings(line.split()[0] for line in lines)


def test_ports_of_the_chart_are_the_documented_ones() -> None:
    """The table of README.md, from which people write firewall rules."""
    ports = yaml.safe_load((DEPLOY / "helm" / "queryable-state" / "values.yaml").read_text())
    named = {
        name: port
        for name, port in ports["ports"].items()
        if name not in ("driver", "blockManager")
    }
    assert named == {
        "coordinator": 6123,
        "server": 9067,
        "serverFrames": 9068,
        "proxy": 9069,
        "proxyFrames": 9070,
        "web": 8081,
        "tasks": 9071,
    }


def test_options_of_the_unit_parse() -> None:
    unit = (DEPLOY / "systemd" / "queryable-state-proxy.service").read_text()
    options = (DEPLOY / "systemd" / "proxy.env").read_text()
    found = re.search(r"^PROXY_OPTIONS=(.*)$", options, re.MULTILINE)
    started = re.search(r"^ExecStart=\S+/queryable-state (.*)$", unit, re.MULTILINE)
    assert found
    assert started
    assert f"RestartPreventExitStatus={CONFIGURATION}\n" in unit
    parser().parse_args(shlex.split(started[1].replace("$PROXY_OPTIONS", found[1])))


def test_documented_savepoints_of_an_upgrade_parse_and_find_the_driver() -> None:
    """They name the job, stop it, and say where its driver is."""
    readme = (DEPLOY / "README.md").read_text().replace("\\\n", " ")
    found = re.findall(r"^.*queryable-state (savepoint .*)$", readme, re.MULTILINE)
    assert len(found) == 3
    for line in found:
        options = parser().parse_args(shlex.split(line))
        assert (options.job, options.stop) == ("orders", True)
        assert options.coordinator or options.endpoint


def test_files_that_the_unit_reads_are_installed() -> None:
    readme = (DEPLOY / "README.md").read_text()
    options = (DEPLOY / "systemd" / "proxy.env").read_text()
    files = set(re.findall(r" /etc/queryable-state/(\S+)", options.partition("PROXY_OPTIONS=")[2]))
    [installed] = re.findall(r"^install -m 0640 (.*) /etc/queryable-state/$", readme, re.MULTILINE)
    assert len(files) == 5
    assert files <= set(installed.split())


def test_the_compose_file_mounts_what_it_declares() -> None:
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    mounted = {
        volume.partition(":")[0]
        for service in composed["services"].values()
        for volume in service.get("volumes", ())
    }
    assert mounted == set(composed["volumes"])
