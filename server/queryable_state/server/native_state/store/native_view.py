"""One version of a state partition, as records of our states."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from queryable_state.server.native_state.operators.state_layout import KeyRange
from queryable_state.server.native_state.store.raw_reads import ViewReads
from queryable_state.server.native_state.store.refusals import not_in_native_state
from queryable_state.server.storage.refusals import unknown_state
from queryable_state.server.storage.store import StateView
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from queryable_state.server.native_state.operators.state_layout import StateLayout

_Found = TypeVar("_Found")


def only_found(reads: Iterable[tuple[int, _Found | None]]) -> _Found | None:
    """Returns the value of the one partition that has the key; None if no partition has it.

    `reads` are partitions and what was read there. Raises InvalidRequestError if several have it.
    """
    found = [(partition, value) for partition, value in reads if value is not None]
    if len(found) > 1:
        raise in_several_partitions(*(each[0] for each in found))
    return found[0][1] if found else None


def in_several_partitions(*partitions: int) -> InvalidRequestError:
    """The refusal of a key that Spark has in several partitions; those that are known."""
    named = ", ".join(map(str, sorted(partitions)))
    return InvalidRequestError(
        f"Spark has the key in {f'the partitions {named}' if named else 'several partitions'}, "
        "each with a value of its own: without strict distribution it does not keep the rows of a "
        "key together. Scan the state, and start the query anew with "
        "spark.sql.streaming.statefulOperator.useStrictDistribution=true",
        reason=Reason.UNSUPPORTED,
    )


class NativeView(StateView):
    """View that translates raw records into store records. Closes the raw view with itself."""

    def __init__(
        self,
        view: StateView,
        layouts: Mapping[int, StateLayout],
        partition: int,
        batch_time_ms: int,
    ) -> None:
        self.version = view.version
        self._view = view
        self._layouts = layouts
        self.partition = partition
        self._raw = ViewReads(view, batch_time_ms)

    def get(self, state_id: int, key: bytes) -> bytes | None:
        return self._layout(state_id).get(self._raw, key)

    def multi_get(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        layout, raw = self._layout(state_id), self._raw
        return [layout.get(raw, key) for key in keys]

    def prefix(self, state_id: int, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        return self._layout(state_id).prefix(self._raw, prefix, limit)

    def scan(
        self, state_id: int, start: bytes, end: bytes | None, after: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        layout = self._layout(state_id)
        first = self.partition.to_bytes(2)
        if end is not None and end <= first:
            return
        if start <= first and (end is None or end >= (self.partition + 1).to_bytes(2)):
            yield from layout.scan(self._raw, self.partition, after)
            return
        # Spark's order is another one: a layout may visit all keys of the partition.
        keys = KeyRange(start, end)
        for key, value in layout.scan(self._raw, self.partition, after, keys):
            if key >= start and (end is None or key < end):
                yield key, value

    def due(
        self,
        state_id: int,
        processing_time_ms: int,
        event_time_ms: int | None = None,
        after: bytes = b"",
    ) -> Iterator[bytes]:
        raise not_in_native_state("the timers that are due")

    def operator_state(self, state_id: int) -> list[bytes]:
        raise not_in_native_state("operator state")

    def close(self) -> None:
        self._view.close()

    def _layout(self, state_id: int) -> StateLayout:
        try:
            return self._layouts[state_id]
        except KeyError:
            raise unknown_state(state_id) from None


class PeersView(StateView):
    """A view that reads keys in several partitions, one of which may have them; it scans its own.

    It opens the views of the others with the first key. Reads of a key that several partitions
    have are refused: one would hide the others.
    """

    def __init__(self, own: NativeView, others: Callable[[], Sequence[NativeView]]) -> None:
        self.version = own.version
        self._own = own
        self._open_others = others
        self._others: Sequence[NativeView] | None = None

    def get(self, state_id: int, key: bytes) -> bytes | None:
        return self._only_found(lambda view: view.get(state_id, key))

    def multi_get(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.get(state_id, key) for key in keys]

    def prefix(self, state_id: int, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        return self._only_found(lambda view: view.prefix(state_id, prefix, limit) or None) or []

    def close(self) -> None:
        for view in (self._own, *(self._others or ())):
            view.close()

    def _only_found(self, read: Callable[[NativeView], _Found | None]) -> _Found | None:
        """Reads in all partitions; returns the one value found, raises if there are several."""
        if self._others is None:
            self._others = self._open_others()
        views = (self._own, *self._others)
        return only_found((view.partition, read(view)) for view in views)

    def scan(
        self, state_id: int, start: bytes, end: bytes | None, after: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._own.scan(state_id, start, end, after)

    def due(
        self,
        state_id: int,
        processing_time_ms: int,
        event_time_ms: int | None = None,
        after: bytes = b"",
    ) -> Iterator[bytes]:
        return self._own.due(state_id, processing_time_ms, event_time_ms, after)

    def operator_state(self, state_id: int) -> list[bytes]:
        return self._own.operator_state(state_id)
