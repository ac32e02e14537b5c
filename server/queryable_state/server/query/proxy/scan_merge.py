"""Scan of a proxy: the parts of all owners, merged in the order of key groups."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from queryable_state.server.query.proxy.scan_part import ScanPart
from queryable_state.server.query.retries import OWNERS
from queryable_state.server.query.scan_query import KeyGroupRun, position_of
from queryable_state.v1 import query_pb2
from queryable_state.wire.calls.retrying import Attempts
from queryable_state.wire.errors import (
    QueryableStateError,
    QueryTimeoutError,
    Reason,
    RetryLaterError,
    VersionGoneError,
)
from queryable_state.wire.next_step import NextStep

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from queryable_state.server.query.proxy.scan_owners import ScanOwners
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.wire.located_state import LocatedState, Owner

_MESSAGES = replace(OWNERS, steps=OWNERS.steps | {NextStep.START_OVER, NextStep.RETRY_SAME})


@dataclass
class _Turn:
    """A run of key groups and its part; None: the part has not been started."""

    run: KeyGroupRun
    owner: Owner
    part: ScanPart | None = None


class MergedScan:
    """Starts one part at each owner, and reads the parts in the order of the key groups.

    All keys are as of the batch that the first owner pins. If the first owner does not have all
    keys, the scan yields nothing before the other owners have pinned the batch. A refusal before
    that restarts the scan. After a later refusal the scan continues behind the last yielded key,
    at the new owners of the key groups and as of the same batch; if they do not have that batch
    any more, the scan ends with `VersionGoneError`.

    A read of uncommitted state pins no common batch: each owner returns what is sealed there.
    """

    def __init__(
        self,
        query: ScanQuery,
        located: LocatedState,
        owners: ScanOwners,
        *,
        default_timeout_ms: int,
    ) -> None:
        self._query = query
        self._located = located
        self._owners = owners
        # Less than the client waits, so that the client receives the reason.
        self._message_timeout_s = (query.page_timeout_ms or default_timeout_ms) * 0.9 / 1000
        self._loop = asyncio.get_running_loop()
        self._turns: deque[_Turn] = deque()
        self._yielded = False
        self._await_message()
        self._start_over()

    async def messages(self) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """The messages of the scan, once; closing the generator ends the scan at every owner."""
        try:
            while True:
                try:
                    if self._version is None:
                        await self._pin_first()
                    message = await self._next()
                    if not self._yielded and (message is None or not message.last):
                        await self._pin_others()
                except QueryableStateError as refusal:
                    await self._recover(refusal)
                    continue
                if message is not None:
                    self._yielded = True
                    yield message
                    if message.last:
                        return
                    self._await_message()
        finally:
            await self._close({turn.part for turn in self._turns})
            await self._owners.aclose()

    def _await_message(self) -> None:
        """Sets deadline and attempts of the next message."""
        self._until_s = self._loop.time() + self._message_timeout_s
        self._attempts = Attempts(_MESSAGES, self._until_s, self._loop.time)
        self._refusal: QueryableStateError | None = None
        """The refusal of the previous attempt since the last message."""

    def _start_over(self) -> None:
        query = self._query
        self._version = query.at_version
        self._after = query.after
        self._left = query.limit
        self._complete = True
        self._group = query.first_open_group
        """The first key group that is not read completely."""
        self._turns = deque(self._turns_of(KeyGroupRun(self._group, query.last_key_group)))

    def _turns_of(self, run: KeyGroupRun) -> Iterator[_Turn]:
        by_key_group = self._located.by_key_group
        first = run.first
        for group in range(run.first, run.last + 1):
            if group == run.last or by_key_group[group + 1] != by_key_group[group]:
                yield _Turn(KeyGroupRun(first, group), by_key_group[group])
                first = group + 1

    async def _pin_first(self) -> None:
        """Waits until the first owner has pinned a version, which becomes that of the scan."""
        first = await self._part_of(self._turns[0]).pinned(self._until_s)
        if self._query.consistency != query_pb2.UNCOMMITTED:
            self._version = first

    async def _pin_others(self) -> None:
        """Waits until all owners have pinned the version."""
        parts = [self._part_of(turn) for turn in self._turns]
        for part in parts:
            await part.pinned(self._until_s)

    def _part_of(self, turn: _Turn) -> ScanPart:
        """The part of a run; starts one for all runs of the owner if there is none."""
        if turn.part is None:
            query, located = self._query, self._located
            same = [each for each in self._turns if each.part is None and each.owner == turn.owner]
            runs = tuple(each.run for each in same)
            behind = self._after and runs[0].first == _key_group(self._after)
            left_ms = int((self._until_s - self._loop.time()) * 1000)
            part = replace(
                query,
                first_key_group=runs[0].first,
                last_key_group=runs[-1].last,
                only=runs if len(runs) > 1 else (),
                after=self._after if behind else b"",
                at_version=self._version,
                limit=self._left,
                placement_version=located.placement_version,
                page_timeout_ms=max(1, left_ms),
            )
            messages = self._owners.scan(turn.owner, located, part)
            turn.part = ScanPart(turn.owner, part, messages)
            for each in same:
                each.part = turn.part
        return turn.part

    async def _next(self) -> query_pb2.ScanKvStateResponse | None:
        """The next message; None if it would be empty and not the last."""
        query, turn = self._query, self._turns[0]
        piece = await self._part_of(turn).take(turn.run.last, self._until_s)
        message, ends, truncated, complete = piece
        if query.limit:
            truncated |= len(message.keys) > self._left
            del message.keys[self._left :]
            self._left -= len(message.keys)
        if message.keys:
            self._after = position_of(message.keys[-1])
            self._group = _key_group(self._after)
        self._complete &= complete
        if ends and not truncated:
            self._group = turn.run.last + 1
            self._turns.popleft()
            if all(each.part is not turn.part for each in self._turns):
                await self._close({turn.part})
        # The next page may be empty.
        truncated |= bool(query.limit and not self._left and self._turns)
        message.last = truncated or not self._turns
        message.complete = message.last and self._complete and not truncated
        more = self._turns and (message.keys or truncated)
        message.page_token = self._after if more else b""
        return message if message.keys or message.last else None

    async def _recover(self, refusal: QueryableStateError) -> None:
        """Retries with the current owners; re-raises non-retryable errors."""
        gone = refusal.reason == Reason.VERSION_GONE
        if gone and self._yielded:
            raise VersionGoneError(
                f"batch {self._version} of {self._located.describe()} was gone from an owner "
                "before its keys were read: scan again from the start, at once or in smaller "
                f"parts ({refusal.message})"
            ) from refusal
        if isinstance(refusal, QueryTimeoutError) and self._refusal is not None:
            # The last attempt had little time: the refusal before it is the cause.
            raise self._refusal
        self._refusal = refusal
        overloaded = self._yielded and refusal.reason == Reason.OVERLOADED
        # Before a version is pinned, none can be compacted: the requested one was taken back.
        restarts = gone and self._version is not None and self._query.at_version is None
        if not (restarts or overloaded or OWNERS.retries(refusal)):
            raise refusal
        failed = self._turns[0].part
        parts = {turn.part for turn in self._turns}
        await self._close({failed} if self._yielded else parts)
        delay_s = self._attempts.delay_s(refusal)
        if delay_s is None:
            raise self._attempts.final(refusal)
        await asyncio.sleep(delay_s)
        if not (gone or overloaded):
            await self._refresh_location()
        if not self._yielded:
            self._start_over()
            return
        # The other parts have pinned the version and stay; only the failed one is replaced.
        turns, self._turns = self._turns, deque()
        for turn in turns:
            if turn.part is failed:
                first = max(turn.run.first, self._group)
                self._turns.extend(self._turns_of(KeyGroupRun(first, turn.run.last)))
            else:
                self._turns.append(turn)
        for turn in self._turns:
            self._part_of(turn)

    async def _refresh_location(self) -> None:
        try:
            self._located = await self._owners.refreshed(self._located)
        except QueryableStateError as problem:
            # Without the coordinator the scan retries the known owners until the deadline.
            if not isinstance(problem, (RetryLaterError, QueryTimeoutError)):
                raise

    async def _close(self, parts: set[ScanPart | None]) -> None:
        for part in parts:
            if part is not None:
                await part.aclose()


def _key_group(wire_key: bytes) -> int:
    return wire_key[0] << 8 | wire_key[1]
