"""The consistent read of many keys by a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.client._reading.gathering import gather, raise_if_refused
from queryable_state.wire.consistent_snapshot import read_snapshot, starts_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.client._reading.gathering import Gathering
    from queryable_state.client._routing.key_batcher import KeyBatcher
    from queryable_state.wire.consistent_snapshot import Snapshot
    from queryable_state.wire.errors import QueryableStateError


async def read_one_cut(batcher: KeyBatcher, keys: Sequence[Any], deadline: float) -> Gathering:
    """The outcomes of keys; all that was read is of one batch.

    Keys whose batch is gone at the deadline have failed with `VersionGoneError`.
    """

    async def read() -> _KeysRead:
        return _KeysRead(batcher, keys, deadline, await _gathered(batcher, keys, deadline))

    return (await read_snapshot(read, deadline_s=deadline)).gathering


class _KeysRead:
    """The outcomes of one read; a part is a key, by its position."""

    def __init__(
        self, batcher: KeyBatcher, keys: Sequence[Any], deadline: float, gathering: Gathering
    ) -> None:
        self.gathering = gathering
        self._batcher = batcher
        self._keys = keys
        self._deadline = deadline

    def versions(self) -> dict[int, int]:
        return self.gathering.versions()

    async def read_again(self, snapshot: Snapshot[int]) -> QueryableStateError | None:
        keys = [self._keys[position] for position in snapshot.again]
        older = await _gathered(self._batcher.at(snapshot.version), keys, self._deadline)
        for position, outcome in zip(snapshot.again, older.outcomes, strict=True):
            self.gathering.outcomes[position] = outcome
        return next(filter(starts_over, older.failures()), None)


async def _gathered(batcher: KeyBatcher, keys: Sequence[Any], deadline: float) -> Gathering:
    gathering = gather(batcher, keys, deadline)
    await gathering.future
    raise_if_refused(batcher, gathering)
    return gathering
