"""Reads of a task, at the version its batch builds on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, LimitExceededError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from queryable_state.server.storage.store import StateStore, StateView

# Less than the 2 GiB a message can have.
_MOST_BYTES = 1 << 30


def read_fetches(
    store: StateStore,
    version: int,
    fetches: Sequence[backend_pb2.StateFetch],
    state_ids: Container[int],
) -> backend_pb2.FetchResponse:
    """Answers all fetches from one view. On the bulk thread."""
    response = backend_pb2.FetchResponse()
    left = _MOST_BYTES
    with store.view(version) as view:
        for fetch in fetches:
            if fetch.state_id not in state_ids:
                raise InvalidRequestError(
                    f"a fetch names state {fetch.state_id}, which its operator has not declared "
                    "in begin"
                )
            values = (
                _read_prefixes(view, fetch)
                if fetch.read == query_pb2.PREFIX
                else _read_points(view, fetch)
            )
            left -= values.ByteSize()
            if left < 0:
                raise LimitExceededError(
                    f"a fetch of {sum(len(other.keys) for other in fetches)} keys finds more than "
                    f"{_MOST_BYTES} bytes: fetch fewer keys at once"
                )
            response.results.append(values)
    return response


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
        # One more than asked for tells whether any was cut.
        records = view.prefix(fetch.state_id, prefix, limit + 1 if limit else 0)
        if limit and len(records) > limit:
            del records[limit:]
            values.truncated.append(position)
        start = len(prefix)
        values.records.add(
            elements=[key[start:] for key, _ in records], values=[value for _, value in records]
        )
    return values
