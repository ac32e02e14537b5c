"""The architecture as imports: which part may know which."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent

# What may be imported of our own, by package.
_ALLOWED = {
    "v1": {"v1"},
    "internal": {"internal", "v1"},
    "wire": {"wire", "v1", "internal"},
    "client": {"client", "wire", "v1"},
    "cli": {"cli", "client", "wire", "v1"},
    "server": {"server", "wire", "v1", "internal"},
    "streaming": {"streaming", "server", "client", "wire", "v1", "internal"},
}

# Commands are printed alike, whoever has them.
_ALLOWED_IN_COMMANDS = {"cli"}

_SPARK = {"pyspark", "py4j"}
_HEAVY = ("pyspark", "py4j", "rocksdict", "pyarrow", "uvloop", "queryable_state.server")


def _sources() -> list[Path]:
    return sorted(
        path
        for top in ("proto", "client", "server", "streaming")
        for path in (_ROOT / top / "queryable_state").rglob("*.py")
        if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))
    )


def _imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def _part(path: Path) -> str:
    parts = path.relative_to(_ROOT).parts
    return parts[2]


@pytest.mark.parametrize("path", _sources(), ids=lambda path: str(path.relative_to(_ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    """proto <- client, and proto <- server <- streaming, which may look up its own state."""
    allowed = _ALLOWED[_part(path)]
    if path.parent.name == "cli":
        allowed = allowed | _ALLOWED_IN_COMMANDS
    own = {name.split(".")[1] for name in _imported(path) if name.startswith("queryable_state.")}
    assert own <= allowed, f"{path}: {sorted(own - allowed)} must not be known here"


def test_no_package_of_ours_ends_the_namespace() -> None:
    """An `__init__.py` in one part would hide all other parts."""
    tops = ("proto", "client", "server", "streaming")
    assert not [top for top in tops if (_ROOT / top / "queryable_state/__init__.py").exists()]


def test_only_the_streaming_part_knows_spark() -> None:
    """Servers, clients and the wire run where no Spark is installed."""
    knowing = {
        _part(path)
        for path in _sources()
        if any(name.split(".")[0] in _SPARK for name in _imported(path))
    }
    assert knowing <= {"streaming"}


@pytest.mark.parametrize(
    "module",
    ["queryable_state.client", "queryable_state.client.blocking", "queryable_state.cli.arguments"],
)
def test_the_client_loads_nothing_heavy(module: str) -> None:
    """Importing the client loads no Spark, no store and no server."""
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not [name for name in loaded if name.startswith(_HEAVY)]


def test_the_client_changes_nothing_in_its_process() -> None:
    """No gRPC experiment, no environment variable, no garbage collector setting of its own."""
    code = (
        "import gc, os; before = dict(os.environ), gc.get_threshold();"
        "import queryable_state.client.blocking;"
        "assert before == (dict(os.environ), gc.get_threshold())"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
