"""Look-ups of many keys, of which each may fail alone, or all are from one batch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from queryable_state.client._errors import ClientUnusableError
from queryable_state.client._reading.multi_get import MultiGet
from queryable_state.client._reading.outcomes import KeyOutcomes, OutcomeResults
from queryable_state.client._reading.states import KvState
from queryable_state.v1 import registration_pb2
from queryable_state.wire.consistent_snapshot import check_snapshot, read_snapshot, starts_over
from queryable_state.wire.errors import (
    AmbiguousJobError,
    AuthenticationError,
    DescriptorMismatchError,
    InvalidRequestError,
    KeyTypeError,
    PermissionDeniedError,
    QueryableStateError,
    Reason,
    UnknownJobError,
    UnknownStateError,
)
from queryable_state.wire.operator_state import OPERATOR_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.client._queries.dispatcher import Dispatcher
    from queryable_state.client._queries.lookups import KeyBatcher
    from queryable_state.wire.consistent_snapshot import Snapshot
    from queryable_state.wire.located_state import LocatedState

# Errors that concern the whole call, not one key.
_CALL_ERRORS = (
    AmbiguousJobError,
    AuthenticationError,
    ClientUnusableError,
    DescriptorMismatchError,
    PermissionDeniedError,
    UnknownJobError,
    UnknownStateError,
)


def look_up_many(
    batcher: KeyBatcher, keys: Sequence[Any], deadline: float | None = None
) -> KeyOutcomes:
    """Looks up keys as the caller gave them; returns outcomes that are still incomplete.

    With a deadline the keys are sent at once, else with all lookups of this turn of the loop.
    """
    outcomes = KeyOutcomes(batcher.new_future(), len(keys))
    positions: Sequence[int] = range(len(keys))
    try:
        encoded = list(keys) if batcher.encode_all is None else batcher.encode_all(keys)
    except QueryableStateError:
        encoded, positions = _encodable(batcher, keys, outcomes)
    if encoded:
        batcher.add_all(encoded, OutcomeResults(outcomes, positions), deadline)
    return outcomes


def _encodable(
    batcher: KeyBatcher, keys: Sequence[Any], outcomes: KeyOutcomes
) -> tuple[list[Any], Sequence[int]]:
    """Returns the wire keys that can be encoded, with their positions; fails the others."""
    encode = batcher.encode
    assert encode is not None
    encoded, positions = [], []
    for position, key in enumerate(keys):
        try:
            encoded.append(encode(key))
            positions.append(position)
        except QueryableStateError as error:
            outcomes.fail(position, batcher.key_error(error))
    return encoded, positions


def raise_call_error(batcher: KeyBatcher, outcomes: KeyOutcomes) -> None:
    """Raises the error that concerns the whole call, if there is one."""
    batcher.check()
    for failure in outcomes.failures():
        if isinstance(failure, _CALL_ERRORS):
            raise failure.copy()


def raise_if_unread(outcomes: KeyOutcomes) -> None:
    """Raises an error if not one key was read: a caller who looks only at what was found would
    take it for an answer."""
    failures = list(outcomes.failures())
    if failures and len(failures) == len(outcomes.by_position):
        others = (failure for failure in failures if not isinstance(failure, KeyTypeError))
        raise next(others, failures[0]).copy()


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


async def multi_get(batcher: KeyBatcher, keys: list[Any], outcomes: KeyOutcomes) -> MultiGet:
    """The results of a look-up of many keys; raises the error of the whole call."""
    await outcomes.future
    raise_call_error(batcher, outcomes)
    raise_if_unread(outcomes)
    return MultiGet(keys, outcomes.all())


async def multi_get_of_one_batch(
    dispatcher: Dispatcher, batcher: KeyBatcher, keys: list[Any]
) -> MultiGet:
    """The results of many keys, all read from one committed batch."""
    check_snapshot(batcher.options.consistency.wire)
    outcomes = await read_keys_in_snapshot(dispatcher, batcher, keys)
    raise_if_unread(outcomes)
    return MultiGet(keys, outcomes.all())


async def states_of_one_batch(
    dispatcher: Dispatcher, batcher: KeyBatcher, keys: list[Any]
) -> list[KvState | None]:
    """The states of many keys, all read from one committed batch; raises the first failure."""
    check_snapshot(batcher.options.consistency.wire)
    outcomes = await read_keys_in_snapshot(dispatcher, batcher, keys)
    for failure in outcomes.failures():
        raise failure.copy()
    return [known if isinstance(known, KvState) else None for known in outcomes.by_position]


def subtasks_of(located: LocatedState, subtask: int | None) -> list[int]:
    """The subtasks to read; raises InvalidRequestError for a keyed state."""
    kind = located.registration.kind
    if kind not in OPERATOR_KINDS:
        raise InvalidRequestError(
            f"{located.describe()} is of kind {registration_pb2.StateKind.Name(kind)}: it belongs "
            "to keys, not to subtasks; read it with get_kv_state",
            reason=Reason.UNSUPPORTED,
        )
    if subtask is not None:
        return [subtask]
    return [0] if kind == registration_pb2.BROADCAST else list(range(len(located.ranges)))
