"""Reading of a scan as Arrow columns."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any

from queryable_state.wire.packaging.extras import require_extra

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pandas as pd
    import pyarrow as pa

    from queryable_state.client._scans.arrow_columns import ArrowColumns
    from queryable_state.client._scans.page import Page


class ArrowScan(ABC):
    """A scan that can be read as columns.

    The columns are `key`; `window_start` and `window_end` if each window of a key is an item of
    its own; and `value`. A key or value with fields, a row or tuple, has a column for each field
    instead: `key_NAME` for keys, `NAME` for values, or `value_NAME` if that name is taken. The
    value of a list is a list, that of a map a map; timers are a list `timers`. The Arrow types are
    those of the registered types; pickled and custom values are their bytes.
    """

    @abstractmethod
    async def next_page(self) -> Page | None:
        """Returns the next page, never empty; None at the end."""

    @abstractmethod
    def _arrow_columns(self) -> ArrowColumns:
        """The columns, once the first page is read."""

    async def arrow_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Iterates over the pages as record batches, each of at most a few hundred keys.

        Only one page is in memory at a time. Raises ModuleNotFoundError, an ImportError, without
        the extra `arrow`; `LimitExceededError` for a state that does not fit into one answer; and
        the errors of reading a scan.
        """
        require_extra("arrow", "reading a scan as Arrow columns")
        # The first import takes long, and must not hold up the loop.
        await asyncio.to_thread(import_module, "pyarrow")
        columns: ArrowColumns | None = None
        while (page := await self.next_page()) is not None:
            if columns is None:
                columns = self._arrow_columns()
            yield columns.batch(page)

    async def to_arrow(self) -> pa.Table:
        """Reads the rest of the scan into a table, which may be empty.

        Holds all of it in memory, in columns; to process it page by page use `arrow_batches`, which
        raises the same errors.
        """
        batches = [batch async for batch in self.arrow_batches()]
        import pyarrow as pa

        return pa.Table.from_batches(batches, schema=self._arrow_columns().schema)

    async def to_pandas(self) -> pd.DataFrame:
        """Reads the rest of the scan into a data frame, which may be empty; maps are dicts.

        Raises the errors of `arrow_batches`, and ModuleNotFoundError without the extra `pandas`.
        For other pandas types, such as nullable integers, convert the table of `to_arrow`.
        """
        require_extra("pandas", "to_pandas()")
        await asyncio.to_thread(import_module, "pandas")
        table = await self.to_arrow()
        frame: Any = await asyncio.to_thread(table.to_pandas, maps_as_pydicts="strict")
        return frame
