"""Probe of a Python worker's interpreter and packages.

The function is pickled by value, because workers may be unable to import this package. So it uses
only the standard library and imports inside the function.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark import cloudpickle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Found = tuple[str, str, str]


def probe(rows: Iterable[object]) -> Iterator[Found]:
    """A function for `mapPartitions`: yields the interpreter, the installed version of this package
    (empty: unknown), and why an operator's task could not run (empty: it can)."""
    import importlib.util
    import sys
    from importlib import metadata

    try:
        version = metadata.version("spark-queryable-state")
    except metadata.PackageNotFoundError:
        version = ""
    problem = ""
    try:
        for module in (
            "queryable_state.streaming.spark.worker.task",
            "queryable_state.streaming.runtime.stage",
            "queryable_state.server.state_server.launch",
        ):
            importlib.import_module(module)
        # Found, not imported: gRPC reads environment variables that a task sets before.
        for module in ("grpc", "grpc_health", "grpc_reflection", "rocksdict", "uvloop", "fsspec"):
            if importlib.util.find_spec(module) is None:
                raise ModuleNotFoundError(f"No module named {module!r}")
    except Exception as error:  # noqa: BLE001 - an import may raise anything
        problem = f"{type(error).__name__}: {error}"
    yield sys.executable, version, problem


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
