"""Blocking scan for threads."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from queryable_state.client._errors import ClientUnusableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import pyarrow as pa

    from queryable_state.client._reading.info import ReadInfo
    from queryable_state.client._reading.states import KvState
    from queryable_state.client._scans.page import Page
    from queryable_state.client._scans.scan import Scan as AsyncScan
    from queryable_state.client.blocking._client_base import ClientBase
    from queryable_state.wire.calls.loop_thread import LoopThread


class Scan:
    """Iterator of the keys of a state with their states; can be iterated once.

        with client.scan(job, "lastTemperature", prefix="sensor_") as scan:
            for key, state in scan:
                print(key, state.value())

    Same contract as `queryable_state.client.Scan`. Not thread-safe.
    """

    def __init__(self, client: ClientBase, thread: LoopThread, scan: AsyncScan) -> None:
        # A client that nothing refers to is closed.
        self._client = client
        self._thread = thread
        self._scan = scan
        self._entries: deque[tuple[Any, KvState | None]] = deque()

    @property
    def page_token(self) -> bytes:
        """Token to continue behind the last page that was read; empty if no page follows."""
        return self._scan.page_token

    @property
    def complete(self) -> bool:
        """True at the end of the scan if no state was lost and every state did fit."""
        return self._scan.complete

    @property
    def info(self) -> ReadInfo | None:
        """The batch that is read, its clocks, and the server; None before the first page."""
        return self._scan.info

    @property
    def is_newer(self) -> bool:
        """True if `allow_newer` has moved the scan to a newer batch than that of its page token."""
        return self._scan.is_newer

    def pages(self) -> Iterator[Page]:
        """Iterates over pages as servers send them."""
        while (page := self.next_page()) is not None:
            yield page

    def next_page(self) -> Page | None:
        """Returns the next page, never empty; None at the end."""
        if self._entries:
            entries, self._entries = self._entries, deque()
            return [*entries]
        page: Page | None = self._thread.call(self._scan.next_page)
        return page

    def arrow_batches(self) -> Iterator[pa.RecordBatch]:
        """Iterates over the pages as record batches, each of at most a few hundred keys."""
        batches = self._rest().arrow_batches()

        async def next_batch() -> pa.RecordBatch | None:
            return await anext(batches, None)

        while (batch := self._thread.call(next_batch)) is not None:
            yield batch

    def to_arrow(self) -> pa.Table:
        """Reads the rest of the scan into a table, which may be empty."""
        return self._thread.call(self._rest().to_arrow)

    def to_pandas(self) -> pd.DataFrame:
        """Reads the rest of the scan into a data frame, which may be empty; maps are dicts."""
        return self._thread.call(self._rest().to_pandas)

    def close(self) -> None:
        """Ends the scan on client and servers. Idempotent."""
        self._entries.clear()
        with suppress(ClientUnusableError):
            self._thread.call(self._scan.aclose)

    def _rest(self) -> AsyncScan:
        """The scan behind the entries that were not taken, which it gets back."""
        self._scan.put_back(self._entries)
        return self._scan

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Any, KvState | None]:
        if not self._entries:
            page = self.next_page()
            if page is None:
                raise StopIteration
            self._entries.extend(page)
        return self._entries.popleft()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<blocking {self._scan!r}>"
