"""A function that fails at one record, pickled by value."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from tests.spark.functions import CountPerKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming.functions import Context


class FailingOn(CountPerKey):
    """Counts, and raises on a temperature."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def process_element(self, value: Any, ctx: Context) -> Iterator[tuple[str, int]]:
        if value.temperature == self.temperature:
            raise ValueError("no such temperature")
        yield from super().process_element(value, ctx)


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
