"""The chart, rendered by helm."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
_CHART: Final = DEPLOY / "helm" / "queryable-state"


def chart_objects(*values: str, release: str = "try", **of_json: object) -> list[dict[str, Any]]:
    """The objects of the chart with these values, after those that it needs.

    `values` are PATH=VALUE, `of_json` top-level values. Skips the test if helm is missing.
    """
    helm = shutil.which("helm") or shutil.which("helm", path=str(_CHART.parents[2] / ".venv/bin"))
    if helm is None:
        pytest.skip("helm is missing: make check-deploy builds it")
    given = ("checkpointDirectory=/state", "security.jobSecret=job", *values)
    sets = [part for value in given for part in ("--set", value)]
    rendered = subprocess.run(
        [helm, "template", release, str(_CHART), "--kube-version", "1.33.0", "-f", "-", *sets],
        input=json.dumps(of_json),
        check=True,
        capture_output=True,
        text=True,
    )
    return [each for each in yaml.safe_load_all(rendered.stdout) if each]


def named(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The one object of a kind whose name ends so."""
    [found] = [
        each for each in objects if each["kind"] == kind and each["metadata"]["name"].endswith(name)
    ]
    return found
