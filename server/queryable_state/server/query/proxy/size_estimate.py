"""Size of a state, summed over its owners."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from queryable_state.server.query.retries import OWNERS, no_owner
from queryable_state.server.query.size_sum import size_of
from queryable_state.v1 import query_pb2
from queryable_state.wire.calls.retrying import retrying
from queryable_state.wire.errors import PlacementError, QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.server.query.proxy.location_table import LocationTable
    from queryable_state.server.query.proxy.owner_calls import OwnerCalls
    from queryable_state.server.query.router import Engine
    from queryable_state.v1 import errors_pb2
    from queryable_state.wire.located_state import LocatedState, Owner


# Share of the timeout, so that the caller receives partial results before it gives up.
_PART_OF_TIME = 0.7


async def measured_by_owners(
    located: LocatedState,
    locations: LocationTable,
    calls: OwnerCalls,
    *,
    server_id: str,
    engine: Engine | None,
    timeout_s: float,
) -> query_pb2.MeasureStateResponse:
    """The parts of all owners; an owner that fails is a part with its error.

    Measures again with a newer placement while key groups move, until the deadline.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s * _PART_OF_TIME
    measured: query_pb2.MeasureStateResponse | None = None

    async def attempt() -> None:
        nonlocal located, measured
        if measured is None:
            measured = await _measured(located, calls, server_id, engine, deadline_s - loop.time())
        else:
            async with asyncio.timeout_at(deadline_s):
                located = await locations.locate_id(
                    located.state_id, newer_than=located.placement_version
                )
                left_s = deadline_s - loop.time()
                measured = await _measured(located, calls, server_id, engine, left_s)
        for part in measured.parts:
            if OWNERS.retries(part.error):
                raise QueryableStateError.from_proto(part.error)

    # Without a newer placement in time the last answers count.
    with suppress(TimeoutError, QueryableStateError):
        await retrying(attempt, OWNERS, deadline_s=deadline_s)
    assert measured is not None
    return measured


async def _measured(
    located: LocatedState,
    calls: OwnerCalls,
    server_id: str,
    engine: Engine | None,
    timeout_s: float,
) -> query_pb2.MeasureStateResponse:
    async def ask(owner: Owner) -> Sequence[query_pb2.StatePart]:
        try:
            if engine is not None and owner.server_id == server_id:
                return await engine.measure(located.state_id)
            if not owner.address:
                return list(_failed(located, owner, no_owner(located)))
            return (await calls.measure(owner, located, timeout_s)).parts
        except QueryableStateError as refusal:
            return list(_failed(located, owner, refusal.to_proto()))

    answers = await asyncio.gather(*map(ask, located.owners))
    return summed(
        [part for parts in answers for part in parts], located.registration.max_parallelism
    )


def summed(parts: Sequence[query_pb2.StatePart], key_groups: int) -> query_pb2.MeasureStateResponse:
    """Sums parts, and counts each key group once.

    A key group that moved during the measurement may be in no part, which adds a part with an
    error, or in two parts, one of which is ignored.
    """
    counted: list[query_pb2.StatePart] = []
    group = 0
    # Of two parts with the same first key group, the one without an error is first.
    for part in sorted(parts, key=lambda part: (part.first_key_group, part.HasField("error"))):
        if part.first_key_group < group:
            continue
        if part.first_key_group > group:
            counted.append(_moved(group, part.first_key_group - 1))
        counted.append(part)
        group = part.last_key_group + 1
    if group < key_groups:
        counted.append(_moved(group, key_groups - 1))
    return size_of(counted, complete=True)


def _failed(
    located: LocatedState, owner: Owner, error: errors_pb2.Error
) -> Iterable[query_pb2.StatePart]:
    """A part for each run of key groups of an owner that did not answer."""
    groups = [group for group, of in enumerate(located.by_key_group) if of == owner]
    first = groups[0]
    for group, following in zip(groups, [*groups[1:], -1], strict=True):
        if following != group + 1:
            yield query_pb2.StatePart(first_key_group=first, last_key_group=group, error=error)
            first = following


def _moved(first: int, last: int) -> query_pb2.StatePart:
    error = PlacementError(
        f"key groups {first} to {last} moved during the measurement: measure again",
        retry_after_ms=100,
    )
    return query_pb2.StatePart(first_key_group=first, last_key_group=last, error=error.to_proto())
