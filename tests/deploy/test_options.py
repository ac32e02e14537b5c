"""Commands and settings in the compose file, the chart and the unit exist under these names."""

from __future__ import annotations

import dataclasses
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from queryable_state.cli import parser
from queryable_state.server.settings.environment_settings import EnvironmentSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

DEPLOY = Path(__file__).parents[2] / "deploy"
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


def _rendered(*values: str) -> list[dict[str, Any]]:
    """The objects of the chart with these values."""
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("helm is missing: make check-deploy builds it")
    sets = [part for value in ("checkpointDirectory=/state", *values) for part in ("--set", value)]
    chart = str(DEPLOY / "helm" / "queryable-state")
    rendered = subprocess.run(
        [helm, "template", "try", chart, "--kube-version", "1.33.0", *sets],
        check=True,
        capture_output=True,
        text=True,
    )
    return [each for each in yaml.safe_load_all(rendered.stdout) if each]


def test_commands_of_the_compose_file_parse() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name in ("proxy", "client"):
        parser().parse_args(services[name]["command"])
    settings = [word.partition("=")[0] for word in services["driver"]["command"]]
    _require_settings(settings)


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_commands_and_settings_of_the_chart_parse(values: tuple[str, ...]) -> None:
    objects = {each["kind"]: each for each in _rendered(*values)}
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
        "tasks": 9071,
    }


def test_options_of_the_unit_parse() -> None:
    unit = (DEPLOY / "systemd" / "queryable-state-proxy.service").read_text()
    options = (DEPLOY / "systemd" / "proxy.env").read_text()
    found = re.search(r"^PROXY_OPTIONS=(.*)$", options, re.MULTILINE)
    started = re.search(r"^ExecStart=\S+/queryable-state (.*)$", unit, re.MULTILINE)
    assert found
    assert started
    parser().parse_args(shlex.split(started[1].replace("$PROXY_OPTIONS", found[1])))
