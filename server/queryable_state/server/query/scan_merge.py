"""A scan over all owners of a state, as one."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from queryable_state.server.query.retries import delay_s, is_retried
from queryable_state.server.query.scan_part import ScanPart
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    QueryableStateError,
    QueryTimeoutError,
    Reason,
    RetryLaterError,
    VersionGoneError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from queryable_state.server.query.scan_owners import ScanOwners
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.wire.located_state import LocatedState

# Parts that have the version pinned at once: each is one of the scans an owner takes.
_PARTS_AHEAD = 8
# A scan of so few keys is over before its version can be folded away.
_FEW_KEYS = 512


class MergedScan:
    """Asks owners in the order of their key groups, all as of the batch the first one answers.

    Nothing is handed out before the next owners have pinned that batch, too; what they refuse until
    then has the scan begin anew. What is refused later is asked of the new owners of the key
    groups, as of the same batch, behind the last key handed out; where these have it no more, the
    scan ends with `VersionGoneError`.

    Uncommitted state is of no one batch: each owner answers what is sealed there.
    """

    def __init__(
        self,
        query: ScanQuery,
        located: LocatedState,
        owners: ScanOwners,
        *,
        default_deadline_ms: int,
    ) -> None:
        self._query = query
        self._located = located
        self._owners = owners
        self._patience_s = (query.deadline_ms or default_deadline_ms) * 0.9 / 1000
        self._loop = asyncio.get_running_loop()
        self._begun_s = self._loop.time()
        self._parts: deque[ScanPart] = deque()
        self._handed_out = False
        self._attempts = 0
        self._give_up_s = self._begun_s + self._patience_s
        self._start_over()

    async def messages(self) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """The messages of the whole, once; closing the generator ends the scan at every owner."""
        try:
            while True:
                try:
                    if not self._parts:
                        await self._open()
                    message = await self._next()
                except QueryableStateError as refusal:
                    await self._recover(refusal)
                    continue
                if message is not None:
                    self._handed_out = True
                    yield message
                    if message.last:
                        return
                    self._attempts = 0
                    self._give_up_s = self._loop.time() + self._patience_s
        finally:
            await self._close()
            await self._owners.aclose()

    def _start_over(self) -> None:
        query = self._query
        self._version = query.at_version
        self._after = query.after
        self._left = query.limit
        self._complete = True
        self._group = query.first_key_group
        """The first key group that is not answered to its end."""
        if query.after:
            self._group = _key_group(query.after)

    async def _open(self) -> None:
        """Asks the owners of the next key groups, the first of them for the version."""
        last = self._query.last_key_group
        first = self._ask(self._group, last)
        self._parts.append(first)
        if self._version is None and self._query.consistency != query_pb2.UNCOMMITTED:
            self._version = await first.pinned()
        if 0 < self._query.limit <= _FEW_KEYS:
            return
        while len(self._parts) < _PARTS_AHEAD and self._ask_ahead():
            pass
        if self._handed_out:
            return
        for part in tuple(self._parts):
            try:
                await part.pinned()
            except QueryableStateError as refusal:
                if refusal.reason != Reason.OVERLOADED or part is first:
                    raise
                # These are asked again when it is their turn.
                while self._parts[-1] is not part:
                    await self._parts.pop().aclose()
                await self._parts.pop().aclose()
                return

    def _ask_ahead(self) -> bool:
        """Asks for the key groups behind those asked for; False: there are none."""
        group = self._parts[-1].query.last_key_group + 1
        if group > self._query.last_key_group:
            return False
        self._parts.append(self._ask(group, self._query.last_key_group))
        return True

    def _ask(self, group: int, last: int) -> ScanPart:
        """The part that begins with a key group, as far as its owner has what follows."""
        query, located = self._query, self._located
        owner = located.by_key_group[group]
        upto = group
        while upto < last and located.by_key_group[upto + 1] == owner:
            upto += 1
        left_ms = query.deadline_ms - int((self._loop.time() - self._begun_s) * 1000)
        part = replace(
            query,
            first_key_group=group,
            last_key_group=upto,
            after=self._after if self._after and group == _key_group(self._after) else b"",
            at_version=self._version,
            limit=max(1, self._left) if query.limit else 0,
            placement_version=located.placement_version,
            deadline_ms=max(1, left_ms) if query.deadline_ms else 0,
        )
        return ScanPart(part, self._owners.scan(owner, located, part))

    async def _next(self) -> query_pb2.ScanKvStateResponse | None:
        """The next message as one of the whole; None: it says nothing of its own."""
        part, query = self._parts[0], self._query
        message = await part.next()
        ended, cut_off = message.last, message.last and bool(message.page_token)
        if query.limit:
            cut_off |= len(message.keys) > self._left
            del message.keys[self._left :]
            self._left -= len(message.keys)
        if message.keys:
            self._after = message.keys[-1].key
            self._group = _key_group(self._after)
        if ended and not cut_off:
            self._complete &= message.complete
            self._group = part.query.last_key_group + 1
            self._parts.popleft()
            await part.aclose()
            if self._parts and self._handed_out:
                self._ask_ahead()
        more = self._group <= query.last_key_group
        cut_off |= ended and bool(query.limit) and not self._left and more
        message.last = cut_off or not more
        message.complete = message.last and self._complete and not cut_off
        message.page_token = self._after if more and (message.keys or cut_off) else b""
        return message if message.keys or message.last else None

    async def _recover(self, refusal: QueryableStateError) -> None:
        """Asks again, of whom it may concern now; raises what that does not help."""
        gone = refusal.reason == Reason.VERSION_GONE
        if gone and self._handed_out:
            raise VersionGoneError(
                f"batch {self._version} of {self._located.describe()} was gone from an owner "
                "before its keys were read: scan again from the start, at once or in smaller "
                f"parts ({refusal.message})"
            ) from refusal
        overloaded = self._handed_out and refusal.reason == Reason.OVERLOADED
        begins_anew = gone and self._query.at_version is None
        if not (begins_anew or overloaded or is_retried(refusal.to_proto())):
            raise refusal
        failed = self._parts.popleft() if self._handed_out else None
        await (self._close() if failed is None else failed.aclose())
        delay = delay_s(refusal.to_proto(), self._attempts)
        self._attempts += 1
        if self._loop.time() + delay >= self._give_up_s:
            raise refusal
        await asyncio.sleep(delay)
        if not (gone or overloaded):
            await self._locate_anew()
        if failed is None:
            self._start_over()
            return
        # The others have their version pinned, wherever the failed one's key groups are now.
        group, last = self._group, failed.query.last_key_group
        again: list[ScanPart] = []
        while group <= last:
            again.append(self._ask(group, last))
            group = again[-1].query.last_key_group + 1
        self._parts.extendleft(reversed(again))

    async def _locate_anew(self) -> None:
        try:
            self._located = await self._owners.located_anew(self._located)
        except QueryableStateError as problem:
            # Without the coordinator the owners known are asked again, while there is time.
            if not isinstance(problem, (RetryLaterError, QueryTimeoutError)):
                raise

    async def _close(self) -> None:
        while self._parts:
            await self._parts.popleft().aclose()


def _key_group(wire_key: bytes) -> int:
    return wire_key[0] << 8 | wire_key[1]
