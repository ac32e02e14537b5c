"""The programs of examples/book, as modules that Spark's workers need not find."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import cloudpickle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from pyspark.sql import SparkSession

    Listing = Callable[[str], ModuleType]

BOOK = Path(__file__).parents[3] / "examples" / "book"


@pytest.fixture
def listing(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listing]:
    """Imports a program by its name; the program finds the session as the active one."""
    monkeypatch.syspath_prepend(BOOK)

    loaded: list[ModuleType] = []

    def load(name: str) -> ModuleType:
        module = importlib.import_module(name)
        loaded.append(module)
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        return module

    yield load
    for query in spark.streams.active:
        query.stop()
    for module in loaded:
        cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
    for name in [name for name in sys.modules if name.startswith("listing_")]:
        del sys.modules[name]
    sys.modules.pop("sensor_source", None)
