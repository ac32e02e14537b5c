"""Reads of a task at the version before its batch."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2
from queryable_state.server.state_server.stores.due_timers import read_due
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import InvalidRequestError, LimitExceededError
from queryable_state.wire.operator_state import OPERATOR_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from queryable_state.server.storage.store import StateStore, StateView

# Below 2 GiB, the largest protobuf message.
_MOST_BYTES = 1 << 30


def read_fetches(
    store: StateStore,
    version: int,
    fetches: Sequence[backend_pb2.StateFetch],
    kinds: Mapping[int, registration_pb2.StateKind.ValueType],
) -> backend_pb2.FetchResponse:
    """Answers all fetches from one view. For the background thread."""
    response = backend_pb2.FetchResponse()
    left = _MOST_BYTES
    with store.view(version) as view:
        for fetch in fetches:
            if fetch.state_id not in kinds:
                raise InvalidRequestError(
                    f"a fetch names state {fetch.state_id}, which its operator has not declared "
                    "in begin"
                )
            values = _read(view, fetch, kinds[fetch.state_id])
            left -= values.ByteSize()
            if left < 0:
                raise LimitExceededError(
                    f"a fetch of {sum(len(other.keys) for other in fetches)} keys exceeds "
                    f"{_MOST_BYTES} bytes: fetch fewer keys at once"
                )
            response.results.append(values)
    return response


def _read(
    view: StateView, fetch: backend_pb2.StateFetch, kind: registration_pb2.StateKind.ValueType
) -> backend_pb2.StateValues:
    if kind in OPERATOR_KINDS:
        elements = query_pb2.Records(values=view.operator_state(fetch.state_id))
        return backend_pb2.StateValues(records=[elements])
    if fetch.HasField("due"):
        if kind != registration_pb2.TIMER:
            raise InvalidRequestError(
                f"a fetch asks for due timers of state {fetch.state_id}, which is of kind "
                f"{registration_pb2.StateKind.Name(kind)}: only TIMER states have them"
            )
        return backend_pb2.StateValues(due=read_due(view, fetch.state_id, fetch.due))
    if fetch.HasField("scan_from"):
        return _read_page(view, fetch)
    if fetch.read == query_pb2.PREFIX:
        return _read_prefixes(view, fetch)
    return _read_points(view, fetch)


def _read_page(view: StateView, fetch: backend_pb2.StateFetch) -> backend_pb2.StateValues:
    if not fetch.limit:
        raise InvalidRequestError(
            f"a fetch of a page of state {fetch.state_id} has no limit: send the maximum number of "
            "records"
        )
    # One record above the limit tells that there are more.
    records = list(islice(view.scan(fetch.state_id, fetch.scan_from, None), fetch.limit + 1))
    more = len(records) > fetch.limit
    del records[fetch.limit :]
    page = query_pb2.Records(
        elements=[key for key, _ in records], values=[value for _, value in records]
    )
    return backend_pb2.StateValues(records=[page], truncated=[0] if more else ())


def _read_points(view: StateView, fetch: backend_pb2.StateFetch) -> backend_pb2.StateValues:
    found = view.multi_get(fetch.state_id, list(fetch.keys))
    return backend_pb2.StateValues(
        values=[value for value in found if value is not None],
        missing=[position for position, value in enumerate(found) if value is None],
    )


def _read_prefixes(view: StateView, fetch: backend_pb2.StateFetch) -> backend_pb2.StateValues:
    values = backend_pb2.StateValues()
    limit = fetch.limit
    for position, prefix in enumerate(fetch.keys):
        # One record above the limit tells that there are more.
        records = view.prefix(fetch.state_id, prefix, limit + 1 if limit else 0)
        if limit and len(records) > limit:
            del records[limit:]
            values.truncated.append(position)
        start = len(prefix)
        values.records.add(
            elements=[key[start:] for key, _ in records], values=[value for _, value in records]
        )
    return values
