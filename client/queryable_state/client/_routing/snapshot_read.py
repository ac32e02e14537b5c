"""Consistent read of many keys: all values are from one committed batch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from queryable_state.client._batching.multi_lookup import look_up_many, raise_call_error
from queryable_state.wire.consistent_snapshot import read_snapshot, starts_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.client._batching.key_batcher import KeyBatcher
    from queryable_state.client._reading.outcomes import KeyOutcomes
    from queryable_state.client._routing.dispatcher import Dispatcher
    from queryable_state.wire.consistent_snapshot import Snapshot
    from queryable_state.wire.errors import QueryableStateError


async def read_keys_in_snapshot(
    dispatcher: Dispatcher, batcher: KeyBatcher, keys: Sequence[Any]
) -> KeyOutcomes:
    """Returns the outcomes of keys; all values are from one committed batch.

    Keys whose batch no owner has at the deadline fail with `VersionGoneError`.
    """
    deadline = asyncio.get_running_loop().time() + batcher.options.timeout_s

    async def read() -> _KeysRead:
        outcomes = await _outcomes(batcher, keys, deadline)
        return _KeysRead(dispatcher, batcher, keys, deadline, outcomes)

    return (await read_snapshot(read, deadline_s=deadline)).outcomes


class _KeysRead:
    """Outcomes of one read. Each part of the snapshot is a key, by its position."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        batcher: KeyBatcher,
        keys: Sequence[Any],
        deadline: float,
        outcomes: KeyOutcomes,
    ) -> None:
        self.outcomes = outcomes
        self._dispatcher = dispatcher
        self._batcher = batcher
        self._keys = keys
        self._deadline = deadline

    def versions(self) -> dict[int, int]:
        return self.outcomes.versions()

    async def read_again(self, snapshot: Snapshot[int]) -> QueryableStateError | None:
        keys = [self._keys[position] for position in snapshot.again]
        batcher = self._batcher
        pinned = self._dispatcher.batcher(batcher.handle, batcher.options.at(snapshot.version))
        older = await _outcomes(pinned, keys, self._deadline)
        for position, outcome in zip(snapshot.again, older.by_position, strict=True):
            self.outcomes.by_position[position] = outcome
        return next(filter(starts_over, older.failures()), None)


async def _outcomes(batcher: KeyBatcher, keys: Sequence[Any], deadline: float) -> KeyOutcomes:
    outcomes = look_up_many(batcher, keys, deadline)
    await outcomes.future
    raise_call_error(batcher, outcomes)
    return outcomes
