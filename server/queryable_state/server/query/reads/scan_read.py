"""`ScanKvState` request: its range and page token, and the messages of its answer."""

from __future__ import annotations

import asyncio
import struct
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Self

from xxhash import xxh64_intdigest

from queryable_state.server.query.admission import check_consistency, check_json, check_longest
from queryable_state.server.query.reads.unary_reads import scope_of
from queryable_state.server.query.scan_query import KeyGroupRun, ScanQuery
from queryable_state.server.storage.key_order import prefix_end
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import InvalidRequestError, LimitExceededError, VersionGoneError
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE
from queryable_state.wire.keys.time_window import check_window, is_windowed, stored_namespace
from queryable_state.wire.operator_state import refuse_scan
from queryable_state.wire.values.lifetime import remaining_ms

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.query.router import Router
    from queryable_state.wire.located_state import LocatedState

_TOKEN_BYTES = 64


@dataclass(frozen=True)
class ScanRead:
    """A `ScanKvState` call, translated into a query."""

    located: LocatedState
    query: ScanQuery
    json: bool
    """True to answer in JSON."""
    allow_newer: bool
    """True to continue at the newest batch if that of the page token is compacted."""
    scan_hash: int
    """Hash of the query without its page token."""

    @classmethod
    def of(
        cls,
        request: query_pb2.ScanKvStateRequest,
        located: LocatedState,
        limits: Limits,
        page_timeout_ms: int,
    ) -> ScanRead:
        """Parses a request; raises `InvalidRequestError` for an invalid range or token."""
        refuse_scan(located.registration)
        for bound in ("start_json", "end_json", "prefix_json"):
            check_json(bound, getattr(request, bound), limits)
        groups = located.registration.max_parallelism
        if len(request.runs) > groups // 2 + 1:
            raise LimitExceededError(
                f"{len(request.runs):,} runs of key groups of {located.describe()}, which has "
                f"{groups:,} key groups, and so at most {groups // 2 + 1:,} runs"
            )
        start, end = _range(request, located)
        check_longest("encoded key", (start, end or b""), limits)
        namespace = _namespace(request, located)
        check_longest("encoded namespace", (namespace,), limits)
        # A token is a key and some fixed fields.
        check_longest("encoded key", (request.page_token[:-_TOKEN_BYTES],), limits)
        first = request.first_key_group
        last = request.last_key_group if request.HasField("last_key_group") else groups - 1
        if not first <= last < groups:
            raise InvalidRequestError(
                f"key groups {first} to {last} of {located.describe()}, which has {groups}, from 0"
            )
        check_consistency(request.consistency)
        runs = tuple(KeyGroupRun(run.first, run.last) for run in request.runs)
        if runs and not request.placement_version:
            raise InvalidRequestError(
                "runs are for requests of a proxy to an owner: set first_key_group and "
                "last_key_group instead"
            )
        if not all(first <= run.first <= run.last <= last for run in runs) or any(
            before.last >= run.first for before, run in pairwise(runs)
        ):
            raise InvalidRequestError(
                f"the runs of key groups from {first} to {last} are to be ascending in these"
            )
        query = ScanQuery(
            state_id=located.state_id,
            first_key_group=first,
            last_key_group=last,
            start=start,
            end=end,
            namespace=namespace,
            consistency=request.consistency,
            allow_incomplete=request.allow_incomplete,
            min_version=request.min_version,
            max_staleness_ms=request.max_staleness_ms,
            at_version=request.at_version if request.HasField("at_version") else None,
            timeline=request.timeline,
            limit=request.limit,
            keys_only=request.keys_only,
            placement_version=request.placement_version,
            only=runs,
            page_timeout_ms=page_timeout_ms,
        )
        scan_hash = scan_hash_of(query)
        if request.page_token:
            query = _continued(query, PageToken.unseal(request.page_token), scan_hash, located)
        return cls(located, query, request.json, request.allow_newer, scan_hash)

    async def messages(self, router: Router) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """Yields the router's messages in the requested form; closing it ends the scan."""
        query, handed_out = self.query, False
        while True:
            try:
                async with aclosing(router.scan(query, self.located)) as messages:
                    async for message in messages:
                        handed_out = True
                        message.newer = query is not self.query
                        yield await self._message(message)
                return
            except VersionGoneError:
                if handed_out or not self.allow_newer or query.at_version is None:
                    raise
            query = replace(query, at_version=None)

    async def _message(
        self, message: query_pb2.ScanKvStateResponse
    ) -> query_pb2.ScanKvStateResponse:
        if message.page_token:
            message.page_token = PageToken(
                self.query.state_id, message.info.version, self.scan_hash, message.page_token
            ).seal()
        if self.json and message.keys:
            # On a thread: a message has hundreds of keys.
            await asyncio.to_thread(self._write_json, message)
        return message

    def _write_json(self, message: query_pb2.ScanKvStateResponse) -> None:
        texts = self.located.json
        for scanned in message.keys:
            scanned.key_json = texts.key_text(scanned.key)
            if not self.query.keys_only and not scanned.HasField("error"):
                scanned.value_json = texts.records_text(scanned.records)
                life_ms = remaining_ms(scanned.records.values, message.info)
                if life_ms is not None:
                    scanned.remaining_ms = life_ms
            scanned.ClearField("key")
            scanned.ClearField("records")


def _namespace(request: query_pb2.ScanKvStateRequest, located: LocatedState) -> bytes:
    """Returns the encoded namespace of a scan; empty: every one.

    Raises `InvalidRequestError` for a window of a state without windows.
    """
    state, namespace = located.registration, scope_of(request)
    if namespace:
        check_window(state, namespace)
        return stored_namespace(state, namespace)
    every = is_windowed(state) or state.kind == registration_pb2.TIMER
    return b"" if every else VOID_NAMESPACE


def _range(
    request: query_pb2.ScanKvStateRequest, located: LocatedState
) -> tuple[bytes, bytes | None]:
    """Returns the encoded start key, and the encoded end key, which is exclusive."""
    start, end, prefix = (request.WhichOneof(name) for name in ("start", "end", "prefix"))
    if prefix is not None:
        if start is not None or end is not None:
            raise InvalidRequestError("set a prefix, or a start and an end, not both")
        begins = (
            located.json.prefix(request.prefix_json)
            if prefix == "prefix_json"
            else request.prefix_key
        )
        return begins, prefix_end(begins)
    first, before = request.start_key, None
    if start == "start_json":
        first = located.json.encoded_key(request.start_json)
    if end is not None:
        before = (
            located.json.encoded_key(request.end_json) if end == "end_json" else request.end_key
        )
    return first, before


def _continued(
    query: ScanQuery, token: PageToken, scan_hash: int, located: LocatedState
) -> ScanQuery:
    """Returns the query that continues after a page token's key, at its batch."""
    if token.state_id != query.state_id or token.scan_hash != scan_hash:
        raise InvalidRequestError(
            f"the page token belongs to another scan than this one of {located.describe()}: pass "
            "it with the same state, range, namespace and consistency"
        )
    if query.consistency == query_pb2.UNCOMMITTED or query.placement_version:
        # A sealed batch may be replaced, so each page of an uncommitted scan reads the newest
        # state. A proxy sets at_version itself, if any.
        return replace(query, after=token.key)
    if query.at_version is not None and query.at_version != token.version:
        raise InvalidRequestError(
            f"the page token continues batch {token.version}, and at_version is "
            f"{query.at_version}: leave one of them out"
        )
    # The first page satisfied the options on age.
    return replace(
        query, after=token.key, at_version=token.version, min_version=0, max_staleness_ms=0
    )


_FORMAT = 1
_HEAD = struct.Struct(">BIqQ")
_CHECKSUM = struct.Struct(">I")
_LENGTH = struct.Struct(">I")
_RANGE = struct.Struct(">HHiB")


class PageToken(NamedTuple):
    """The position after one key of a scan."""

    state_id: int
    version: int
    """The batch that the scan reads."""
    scan_hash: int
    """Identifies the range and options of the scan: see `scan_hash_of`."""
    key: bytes
    """The last wire key of the page; in a scan of every window with a namespace behind it."""

    def seal(self) -> bytes:
        """Returns the bytes of the token."""
        body = _HEAD.pack(_FORMAT, self.state_id, self.version, self.scan_hash) + self.key
        return body + _checksum(body)

    @classmethod
    def unseal(cls, token: bytes) -> Self:
        """Parses a token; raises `InvalidRequestError` if the bytes are not one."""
        body = token[: -_CHECKSUM.size]
        # A wire key has at least a key group.
        if len(body) < _HEAD.size + 2 or _checksum(body) != token[-_CHECKSUM.size :]:
            raise InvalidRequestError(
                f"page token {token[:40].hex()} ({len(token)} bytes) is not intact: pass the token "
                "of the last page unchanged, or scan from the start"
            )
        form, state_id, version, scan_hash = _HEAD.unpack_from(body)
        if form != _FORMAT:
            raise InvalidRequestError(
                f"the page token has format {form}, and this server reads format {_FORMAT}: "
                "scan from the start"
            )
        return cls(state_id, version, scan_hash, body[_HEAD.size :])


def scan_hash_of(query: ScanQuery) -> int:
    """Returns a hash of what the scan selects; limits and values-or-keys do not count."""
    end = b"\x00" if query.end is None else b"\x01" + query.end
    texts = (query.start, end, query.namespace)
    flags = _RANGE.pack(
        query.first_key_group, query.last_key_group, query.consistency, query.allow_incomplete
    )
    return xxh64_intdigest(flags + b"".join(_LENGTH.pack(len(each)) + each for each in texts))


def _checksum(body: bytes) -> bytes:
    return _CHECKSUM.pack(xxh64_intdigest(body) & 0xFFFFFFFF)
