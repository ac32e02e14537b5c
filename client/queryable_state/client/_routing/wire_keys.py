"""The keys of a batch as the server takes them that it goes to now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from queryable_state.client._connection.batch import Batch
    from queryable_state.client._reading.pending_results import PendingResults
    from queryable_state.wire.state_codecs import StateCodecs


def wire_keys(batch: Batch, codecs: StateCodecs) -> tuple[list[bytes], PendingResults]:
    """The keys, and who waits for them; fails those that are not of the type there is now.

    A batch has its keys as the caller gave them while its state is not located, and encoded for
    another type where the state was registered anew since.
    """
    encoded, results = batch.codecs, batch.results
    if encoded is codecs:
        return batch.keys, results
    encode, decode = batch.batcher.encode, batch.batcher.options.operation.decoded
    assert encode is not None
    keys: list[bytes] = []
    positions: list[int] = []
    for position, key in enumerate(batch.keys):
        try:
            keys.append(encode(key if encoded is None else decode(key, encoded)))
            positions.append(position)
        except QueryableStateError as error:
            results.fail([position], batch.batcher.key_error(error))
    if len(keys) < len(batch.keys):
        results = results.pick(positions)
    return keys, results
