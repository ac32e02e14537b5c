"""The architecture as a test: which part may import which, and how large a part may be."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent

# The packages of ours that each package may import.
_ALLOWED = {
    "v1": {"v1"},
    "internal": {"internal", "v1"},
    "wire": {"wire", "v1", "internal"},
    "client": {"client", "wire", "v1"},
    "cli": {"cli", "client", "wire", "v1"},
    "server": {"server", "wire", "v1", "internal"},
    "streaming": {"streaming", "server", "client", "wire", "v1", "internal"},
}

# Server commands print their output like client commands.
_ALLOWED_IN_COMMANDS = {"cli"}

# The folders of each package, lowest first: a folder may import itself and the folders before it.
# Modules directly in a package are its interfaces or its top, and only circles are refused there.
_LAYERS = {
    "wire": ("schema", "values", "keys", "frames", "arrow"),
    "client": ("_reading", "_queries", "_scans", "blocking"),
    "server": ("process", "serving"),
    "server/native_state": ("files", "rows", "operators", "store", "server"),
    "server/storage": ("layered", "heap", "rocksdb"),
    "server/coordinator": (
        "model",
        "servers",
        "roots",
        "batches",
        "recovery",
        "checkpoints",
    ),
    "server/state_server": ("base", "stores", "queries", "restore", "batches", "snapshots"),
    "server/query": ("frames", "reads", "proxy"),
    "streaming": ("config", "execution", "runtime", "graph", "spark", "compat"),
    "streaming/runtime": ("columns", "states", "operators"),
    "streaming/spark": ("savepoints", "queries", "worker"),
}

_MAX_LINES = 600
_OWN_ROOM_LINES = 80

# Small modules with one user that are nouns of their own: formats and operators of Spark, parts of
# a store, commands, and harnesses that users import by their package.
_NOUNS = (
    "cli.common_options",
    "server.cli.token",
    "server.native_state.",
    "server.storage.",
    "server.web.driver_process",
    "streaming.testing.",
    "streaming.windows.global_windows",
    "wire.schema.kinds",
)

_SPARK = {"pyspark", "py4j"}
_HEAVY = ("pyspark", "py4j", "rocksdict", "pyarrow", "uvloop", "queryable_state.server")


def _sources() -> list[Path]:
    return sorted(
        path
        for top in ("proto", "client", "server", "streaming")
        for path in (_ROOT / top / "queryable_state").rglob("*.py")
        if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))
    )


@functools.cache
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


def _module(path: Path) -> str:
    """The dotted name of a source file: `queryable_state.wire.errors`."""
    parts = path.relative_to(_ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _import_graph() -> dict[str, set[str]]:
    """The modules of ours that each module imports, at run time or for types only."""
    paths = {_module(path): path for path in _sources()}
    return {module: (_imported(path) & paths.keys()) - {module} for module, path in paths.items()}


@pytest.mark.parametrize("package", _LAYERS)
def test_folders_import_downwards(package: str) -> None:
    """A folder imports itself and the folders below it, never one above it."""
    layers = _LAYERS[package]
    prefix = f"queryable_state.{package.replace('/', '.')}."

    def layer(module: str) -> int | None:
        folder, _, inner = module.removeprefix(prefix).partition(".")
        within = module.startswith(prefix) and (inner or folder in layers)
        return layers.index(folder) if within and folder in layers else None

    upward = [
        f"{module} -> {imported}"
        for module, imports in _import_graph().items()
        for imported in sorted(imports)
        if (importing := layer(module)) is not None
        and (other := layer(imported)) is not None
        and other > importing
    ]
    assert not upward


def test_no_modules_import_each_other() -> None:
    """No circle of imports, not even one that only type checkers see."""
    TopologicalSorter(_import_graph()).prepare()


@pytest.mark.parametrize("top", ["client", "server", "streaming", "proto", "tests", "benchmarks"])
def test_files_stay_small(top: str) -> None:
    """A file is one thought, which fits into the lines of one actor. Generated code is exempt."""
    assert not [
        f"{path.relative_to(_ROOT)}: {lines} lines"
        for path in (_ROOT / top).rglob("*.py")
        if "_pb2" not in path.name and (lines := len(path.read_text().splitlines())) > _MAX_LINES
    ]


def test_a_module_that_only_one_sibling_imports_is_a_part_of_that_sibling() -> None:
    """No thought is cut in pieces: a small module of its own has several users, or a noun."""
    paths = {_module(path): path for path in _sources()}
    users: dict[str, set[str]] = defaultdict(set)
    for module, imported in _import_graph().items():
        for each in imported:
            users[each].add(module)
    pieces = {
        module.removeprefix("queryable_state.")
        for module, path in paths.items()
        if not path.name.startswith("__")
        and len(path.read_text().splitlines()) < _OWN_ROOM_LINES
        and {paths[user].parent for user in users[module]} == {path.parent}
        and len(users[module]) == 1
    }
    assert sorted(each for each in pieces if not each.startswith(_NOUNS)) == []


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


@pytest.mark.parametrize(
    "module", ["runtime.stage", "spark.sources.marker_source", "spark.sources.collection_source"]
)
def test_processes_of_a_query_import_only_what_they_run(module: str) -> None:
    """Spark starts them for each query, which waits for their imports."""
    code = (
        f"import sys; import queryable_state.streaming.{module};"
        "assert not {'queryable_state.streaming.api', 'grpc'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_client_changes_nothing_in_its_process() -> None:
    """No gRPC experiment, no environment variable, no garbage collector setting of its own."""
    code = (
        "import gc, os; before = dict(os.environ), gc.get_threshold();"
        "import queryable_state.client.blocking;"
        "assert before == (dict(os.environ), gc.get_threshold())"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
