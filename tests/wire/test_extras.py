"""Imports where the packages of an extra are not installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from queryable_state.wire.packaging.extras import PACKAGES, require_extra

_ROOT = Path(__file__).parent.parent.parent

# Hides packages as if they were not installed, then runs the code of the second argument.
_WITHOUT = """
import sys
hidden = sys.argv[1].split(",")
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
exec(sys.argv[2])
"""


def _run(hidden: str, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT, hidden, code], capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("hidden", "module", "extra"),
    [
        ("numpy", "queryable_state.streaming", "streaming"),
        ("pyspark,py4j", "queryable_state.streaming.testing", "streaming"),
        ("rocksdict", "queryable_state.streaming", "streaming"),
        ("grpc_health,psutil", "queryable_state.server.testing", "server"),
        ("uvloop", "queryable_state.server.state_server.server", "server"),
        ("fsspec", "queryable_state.server.checkpoint_server.server", "server"),
    ],
)
def test_an_import_names_the_packages_and_the_extra(hidden: str, module: str, extra: str) -> None:
    """The last line of the traceback says all."""
    refused = _run(hidden, f"import {module}")
    last = refused.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: queryable_state."), refused.stderr
    assert last.endswith(f"pip install 'spark-queryable-state[{extra}]'")
    for package in set(hidden.split(",")) - {"py4j"}:
        assert package in last


@pytest.mark.parametrize("module", ["queryable_state.client", "queryable_state.client.blocking"])
def test_the_client_needs_no_extra(module: str) -> None:
    hidden = ",".join({name for names in PACKAGES.values() for name in names})
    assert _run(hidden, f"import {module}").returncode == 0


def test_an_installed_extra_imports_nothing() -> None:
    code = (
        "import queryable_state.wire.packaging.extras as extras; before = set(sys.modules);"
        "extras.require_extra('streaming', 'this'); print(*set(sys.modules) - before)"
    )
    assert _run("", code).stdout.split() == []


def test_what_an_extra_needs_is_what_it_installs() -> None:
    """`PACKAGES` has the packages of pyproject.toml under the names they are imported by."""
    extras = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    distributions = packages_distributions()
    for extra, names in PACKAGES.items():
        installed = {
            name
            for included in (extra, *_included(extras[extra]))
            for name in map(_name, extras[included])
            if name != "spark-queryable-state"
        }
        imported = {_name(distributions[name][0]) for name in _with_included(extra, names)}
        assert imported == installed


def _name(requirement: str) -> str:
    found = re.match(r"[\w-]+", requirement)
    assert found is not None
    return found[0].lower().replace("_", "-")


def _included(requirements: list[str]) -> list[str]:
    return [
        found[1]
        for each in requirements
        if (found := re.match(r"spark-queryable-state\[(\w+)\]", each))
    ]


def _with_included(extra: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return names + PACKAGES["server"] if extra == "streaming" else names


def test_an_extra_that_is_there_is_no_error() -> None:
    for extra in PACKAGES:
        require_extra(extra, "this test")
