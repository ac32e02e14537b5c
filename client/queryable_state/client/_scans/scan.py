"""Scan of the keys of a state: all of them, a range, or a prefix."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from queryable_state.client._arguments import MOST_NUMBER
from queryable_state.client._queries.retries import LOOKUPS
from queryable_state.client._reading.info import ReadInfo
from queryable_state.client._reading.state_types import scanned_state
from queryable_state.client._reading.states import DecodeContext
from queryable_state.client._reading.timed.key_windows import WindowedKey
from queryable_state.v1 import query_pb2
from queryable_state.wire.calls.retrying import retrying
from queryable_state.wire.errors import (
    InvalidRequestError,
    QueryableStateError,
    UnknownJobError,
    UnknownStateError,
)
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.key_prefix import key_prefix
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.operator_state import refuse_scan
from queryable_state.wire.packaging.extras import require_extra

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pandas as pd
    import pyarrow as pa

    from queryable_state.client._queries.dispatcher import Dispatcher
    from queryable_state.client._queries.lookups import KeyBatcher
    from queryable_state.client._queries.pool import StreamCall
    from queryable_state.client._scans.arrow_columns import ArrowColumns
    from queryable_state.client._scans.page import Entry, Page


ALL: Any = object()
"""No bound."""


@dataclass(frozen=True)
class ScanRange:
    """Keys and limit of a scan."""

    start: Any = ALL
    """First key, inclusive."""

    end: Any = ALL
    """Last key, exclusive."""

    prefix: Any = ALL
    """Beginning of a string or binary key, or first fields of a row or tuple key."""

    limit: int | None = None
    """Maximum number of keys; None: all."""

    page_token: bytes = b""
    """Token of an earlier scan: continue behind its last page; empty: from the start."""

    keys_only: bool = False
    """Keys without their values."""

    allow_newer: bool = False
    """Continue at the newest batch if the batch of the page token is compacted."""

    def __post_init__(self) -> None:
        if self.prefix is not ALL and (self.start is not ALL or self.end is not ALL):
            raise InvalidRequestError("give a prefix, or a start and an end, not both")
        if self.limit is not None and (
            type(self.limit) is not int or not 0 < self.limit <= MOST_NUMBER
        ):
            raise InvalidRequestError(f"limit must be a number of keys from 1: {self.limit!r}")
        if not isinstance(self.page_token, bytes):
            raise InvalidRequestError(
                f"page_token must be the page_token of a scan, as bytes, not {self.page_token!r}"
            )

    def apply_to(self, request: query_pb2.ScanKvStateRequest, keys: KeyGroups) -> None:
        """Writes the range to a request; raises `KeyTypeError` if a bound is not a key."""
        encode = keys.codec.encode
        if self.start is not ALL:
            request.start_key = encode(self.start)
        if self.end is not ALL:
            request.end_key = encode(self.end)
        if self.prefix is not ALL:
            request.prefix_key = key_prefix(self.prefix, keys.key_type)
        request.keys_only = self.keys_only


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


class Scan(ArrowScan):
    """Asynchronous iterator of the keys of a state with their states, from one committed batch.

        async with client.scan(job, "lastTemperature", prefix="sensor_") as scan:
            async for key, state in scan:
                print(key, state.value())

    For a state with windows, unless the scan is of one `window`, each window of a key is an item
    of its own, under a `WindowedKey`:

        async for (key, window), state in client.scan(job, "maxima"):
            print(key, window, state.value())

    For a state of timers, the states are `PendingTimers`. Key groups follow each other, and keys
    are in order within each key group. States are None with `keys_only`. The first request is
    sent when the first page is read, and the server sends a page only when the client reads it. A
    scan can be iterated once. `to_arrow` and `to_pandas` read it as columns. If a state does not
    fit into one answer, its methods raise an error, and the scan is not `complete`. A scan holds
    its batch open on the servers until it ends: close a scan that you leave early (`async with`,
    or `aclose`).

    If a server leaves or state moves, the scan continues on other servers at the same batch. It
    raises `VersionGoneError` if that batch is compacted: start again, or open another scan with
    this `page_token` and `allow_newer`.
    """

    def __init__(self, dispatcher: Dispatcher, batcher: KeyBatcher, keys: ScanRange) -> None:
        self._dispatcher = dispatcher
        self._batcher = batcher
        self._range = keys
        self._token = keys.page_token
        self._keys_read = 0
        self._info: query_pb2.ReadInfo | None = None
        self._complete = False
        self._is_newer = False
        self._ended = False
        self._is_read = False
        self._call: StreamCall[query_pb2.ScanKvStateResponse] | None = None
        self._entries: deque[Entry] = deque()

    @property
    def page_token(self) -> bytes:
        """Token to continue behind the last page that was read; empty if no page follows.

        Pass it to another scan of the same keys, in any process. That scan reads the same batch
        while the servers have it, and later a newer one if it has `allow_newer`. During iteration
        over keys it is the token of the page of the current key.
        """
        return self._token

    @property
    def complete(self) -> bool:
        """True at the end of the scan if no state was lost and every state did fit.

        With a `limit`, `page_token` is not empty if more keys follow.
        """
        return self._complete

    @property
    def info(self) -> ReadInfo | None:
        """The batch that is read, its clocks, and the server; None before the first page."""
        return None if self._info is None else ReadInfo.from_proto(self._info)

    @property
    def is_newer(self) -> bool:
        """True if `allow_newer` has moved the scan to a newer batch than that of its page token.

        No key is returned twice, and no key that exists in both batches is left out.
        """
        return self._is_newer

    async def pages(self) -> AsyncIterator[Page]:
        """Iterates over pages as servers send them, each with at most a few hundred keys."""
        while (page := await self.next_page()) is not None:
            yield page

    async def next_page(self) -> Page | None:
        """Returns the next page, never empty; None at the end. Only one task may wait at a time."""
        if self._entries:
            page = [*self._entries]
            self._entries.clear()
            return page
        self._dispatcher.pool.raise_if_forked()
        if self._is_read:
            raise InvalidRequestError(
                "another task waits for the next page of this scan: read one page "
                "after the other, or open one scan for each task"
            )
        self._is_read = True
        try:
            return await self._next_page()
        finally:
            self._is_read = False

    def put_back(self, entries: deque[Entry]) -> None:
        """Takes entries back, to return them next; empties `entries`."""
        self._entries.extendleft(reversed(entries))
        entries.clear()

    async def _next_page(self) -> Page | None:
        deadline = asyncio.get_running_loop().time() + self._batcher.options.timeout_s
        handle = self._batcher.handle
        known, is_begun = handle.located, self._info is not None or bool(self._token)
        try:
            try:
                return await self._read_page_retrying(deadline)
            except (UnknownJobError, UnknownStateError):
                # A job of the same name may have replaced the one that was located.
                if known is None or is_begun:
                    raise
                locator = self._dispatcher.locator
                await locator.located_anew(handle, deadline, known.placement_version)
                return await self._read_page_retrying(deadline)
        except QueryableStateError:
            self._ended = True
            raise

    async def _read_page_retrying(self, deadline: float) -> Page | None:
        return await retrying(
            lambda: self._read_page(deadline),
            LOOKUPS,
            deadline_s=deadline,
            before_retry=self._check_resumable,
        )

    def _check_resumable(self, refusal: QueryableStateError) -> None:
        """Raises the refusal if there is no token to continue behind the keys already read."""
        if self._keys_read and not self._token:
            raise refusal

    async def _read_page(self, deadline: float) -> Page | None:
        """Reads the next page that is not empty, in one attempt."""
        while not self._ended:
            try:
                page = await self._read(deadline)
            except asyncio.CancelledError:
                self._drop_call()
                raise
            except QueryableStateError:
                self._drop_call()
                if self._keys_read == self._range.limit:
                    # Only the last message, without keys, is missing.
                    self._ended = True
                    return None
                raise
            if page:
                return page
        return None

    async def aclose(self) -> None:
        """Ends the scan on client and servers. Idempotent."""
        self._ended = True
        self._entries.clear()
        self._drop_call()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        if not self._entries:
            page = await self.next_page()
            if page is None:
                raise StopAsyncIteration
            self._entries.extend(page)
        return self._entries.popleft()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        state = "ended" if self._ended else "not begun" if self._info is None else "under way"
        return f"<{type(self).__name__} of {self._batcher.describe()}, {state}>"

    async def _read(self, deadline: float) -> Page:
        loop = asyncio.get_running_loop()
        if self._call is None:
            self._call = self._dispatcher.pool.scan(await self._request(deadline))
        return self._decode_page(await self._call.next(max(0.0, deadline - loop.time())))

    async def _request(self, deadline: float) -> query_pb2.ScanKvStateRequest:
        batcher = self._batcher
        handle, options = batcher.handle, batcher.options
        await self._dispatcher.locator.located(handle, deadline)
        batcher.check()
        assert handle.codecs is not None
        consistency = options.consistency
        assert handle.located is not None
        request = query_pb2.ScanKvStateRequest(
            # Another job of the name may have other types.
            job=handle.located.registration.job_id.hex(),
            state_name=handle.state_name,
            namespace=options.namespace,
            consistency=consistency.wire,
            allow_incomplete=options.allow_incomplete,
            min_version=consistency.min_version,
            max_staleness_ms=consistency.max_staleness_ms,
            timeline=consistency.timeline,
            page_token=self._token,
            page_timeout_ms=max(1, int(options.timeout_s * 1000)),
            # The keys already read are from one batch.
            allow_newer=self._range.allow_newer and not self._keys_read,
        )
        if self._range.limit is not None:
            request.limit = self._range.limit - self._keys_read
        refuse_scan(handle.located.registration)
        assert isinstance(handle.codecs.key_groups, KeyGroups)
        try:
            self._range.apply_to(request, handle.codecs.key_groups)
        except QueryableStateError as error:
            raise batcher.key_error(error) from None
        return request

    def _decode_page(self, message: query_pb2.ScanKvStateResponse) -> Page:
        batcher = self._batcher
        codecs, located = batcher.handle.codecs, batcher.handle.located
        assert codecs is not None
        assert located is not None
        self._info = message.info
        self._token = message.page_token
        self._is_newer |= message.newer
        self._keys_read += len(message.keys)
        if message.last:
            self._ended = True
            self._complete = message.complete
            self._drop_call()
        answer_codecs = batcher.answer_codecs(codecs)
        context = DecodeContext(answer_codecs, message.info, batcher.options.window)
        kind, keys_only = located.registration.kind, self._range.keys_only
        decode_key = codecs.key_groups.decode_key
        page: Page = []
        for each in message.keys:
            key = decode_key(each.key)
            if each.HasField("window"):
                window = TimeWindow.of_proto(each.window)
                key = WindowedKey(key, window)
                context = DecodeContext(answer_codecs, message.info, window)
            page.append((key, None if keys_only else scanned_state(kind, each, context)))
        return page

    def _arrow_columns(self) -> ArrowColumns:
        from queryable_state.client._scans.arrow_columns import ArrowColumns

        located, expectation = self._batcher.handle.located, self._batcher.options.expectation
        assert located is not None
        return ArrowColumns(
            located.registration,
            None if expectation is None else expectation.value_type,
            one_window=self._batcher.options.window is not None,
            keys_only=self._range.keys_only,
        )

    def _drop_call(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
