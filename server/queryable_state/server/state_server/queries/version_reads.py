"""Readers of pinned versions, for the background thread."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import SupersededError, VersionGoneError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.server.state_server.queries.key_reads import (
        ElementsReader,
        PointReader,
        PrefixReader,
    )
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.stores.store_table import StateRoute
    from queryable_state.server.storage.store import StateStore, StateView


class ViewReaders:
    """Reads the views of one version. For the background thread only."""

    records = None

    def __init__(self, query: query_pb2.Query, views: Sequence[StateView | None]) -> None:
        self._state_id = query.state_id
        self._views = views

    def points(self) -> list[PointReader | None]:
        readers: list[PointReader | None] = [
            None if view is None else partial(view.get, self._state_id) for view in self._views
        ]
        readers.append(None)
        return readers

    def prefixes(self) -> list[PrefixReader | None]:
        readers: list[PrefixReader | None] = [
            None if view is None else _prefix_reader(view) for view in self._views
        ]
        readers.append(None)
        return readers

    def operator_states(self) -> list[ElementsReader | None]:
        readers: list[ElementsReader | None] = [
            None if view is None else _elements_reader(view) for view in self._views
        ]
        readers.append(None)
        return readers


def _elements_reader(view: StateView) -> ElementsReader:
    return lambda state_id, _uncommitted: view.operator_state(state_id)


def _prefix_reader(view: StateView) -> PrefixReader:
    def read(
        state_id: int, prefix: bytes, _uncommitted: bool, limit: int
    ) -> list[tuple[bytes, bytes]]:
        return view.prefix(state_id, prefix, limit)

    return read


@contextmanager
def views_at(
    versions: Sequence[int], route: StateRoute, *, allow_incomplete: bool
) -> Iterator[list[StateView | None]]:
    """Returns the views of a route's stores, by slot; None if a store may not be read.

    Raises `VersionGoneError` if a store has compacted its version.
    """
    with ExitStack() as stack:
        yield [
            stack.enter_context(view_at(version, subtask))
            if allow_incomplete or not subtask.complete_since_batch
            else None
            for version, subtask in zip(versions, route.subtasks, strict=True)
        ]


def view_at(version: int, subtask: OwnedSubtask) -> StateView:
    """Returns a view at a committed version; raises `VersionGoneError` if it is compacted."""
    try:
        return subtask.store.view(version)
    except SupersededError as gone:
        raise VersionGoneError(
            f"batch {version} of {subtask.id} is compacted; the oldest readable batch is "
            f"{subtask.store.base_version}: read that one or a newer one"
        ) from gone


def newest_version(store: StateStore, consistency: query_pb2.Consistency.ValueType) -> int:
    """The version that a query without `at_version` reads."""
    staged = store.staged_version if consistency == query_pb2.UNCOMMITTED else None
    return store.committed_version if staged is None else staged


def held_still(route: StateRoute) -> StateRoute:
    """Returns a copy of a route for another thread; later changes do not affect it."""
    return replace(route, subtasks=list(route.subtasks))
