"""The function that tells what a Python worker of Spark is.

Pickled by value: it runs in workers that cannot import this package, so it uses the standard
library alone, and imports inside.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark import cloudpickle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Found = tuple[str, str, str]


def probe(rows: Iterable[object]) -> Iterator[Found]:
    """For `mapPartitions`: the interpreter, the installed version of this package (empty: not
    known), and why an operator's task could not run (empty: it can)."""
    import importlib
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
            "queryable_state.streaming.runtime.task",
            "queryable_state.server.state_server.launch",
        ):
            importlib.import_module(module)
    except Exception as error:  # noqa: BLE001 - a module may fail of anything
        problem = f"{type(error).__name__}: {error}"
    yield sys.executable, version, problem


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
