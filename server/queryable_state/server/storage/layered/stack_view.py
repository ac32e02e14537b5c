"""View over a stack of overlays and one compaction generation of the base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.storage.key_order import key_after, prefix_end
from queryable_state.server.storage.layered import layer_stack, timer_reads
from queryable_state.server.storage.refusals import no_time_index, unknown_state
from queryable_state.server.storage.store import StateView
from queryable_state.server.storage.time_index import by_time, due_bounds, index_id
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from threading import RLock

    from queryable_state.server.storage.base import StateBase
    from queryable_state.server.storage.layered.compaction_generation import CompactionGeneration
    from queryable_state.server.storage.layered.readers import Readers
    from queryable_state.server.storage.overlay import Overlay, StateOverlay
    from queryable_state.server.storage.record_source import RecordSource


class StackView(StateView):
    """A view that pins its version by its overlays and its compaction generation.

    Both are immutable. `bulk_lock` is the store's lock, so that closing the store waits
    for a running read.
    """

    def __init__(
        self,
        version: int,
        readers: Readers,
        base: StateBase,
        generation: CompactionGeneration,
        bulk_lock: RLock,
        on_close: Callable[[StackView], None],
    ) -> None:
        self.version = version
        self._overlays = readers.overlays
        self._operator_states = readers.operator_states()
        self._base = base
        self._generation: CompactionGeneration | None = generation
        self._bulk_lock = bulk_lock
        self._on_close = on_close

    def needs_image_before(self, overlay: Overlay) -> bool:
        """True if compacting this overlay would change what the view reads."""
        return overlay not in self._overlays

    def is_in(self, generation: CompactionGeneration) -> bool:
        """True if the view was opened in this generation."""
        return self._generation is generation

    def get(self, state_id: int, key: bytes) -> bytes | None:
        with self._bulk_lock:
            layers, source = self._resolve(state_id)
            return layer_stack.point_reader(layers, source.reader())(key)

    def multi_get(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._bulk_lock:
            layers, source = self._resolve(state_id)
            return layer_stack.multi_get(layers, source, keys)

    def prefix(self, state_id: int, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        with self._bulk_lock:
            layers, source = self._resolve(state_id)
            return layer_stack.prefix(layers, source, prefix, limit)

    def scan(
        self, state_id: int, start: bytes, end: bytes | None, after: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        # Encoded keys are prefix-free, so this is the first record behind those of `after`.
        place: bytes | None = max(start, prefix_end(after) or after) if after else start
        while place is not None:
            records, place = self._chunk(state_id, place, end)
            yield from records

    def due(
        self,
        state_id: int,
        processing_time_ms: int,
        event_time_ms: int | None = None,
        after: bytes = b"",
    ) -> Iterator[bytes]:
        after = key_after(after) if after else after
        for start, end in due_bounds(processing_time_ms, event_time_ms, after):
            place: bytes | None = start
            while place is not None:
                timers, place = self._due_chunk(state_id, place, end)
                yield from timers

    def operator_state(self, state_id: int) -> list[bytes]:
        with self._bulk_lock:
            self._resolve(state_id)
            return list(self._operator_states.get(state_id, ()))

    def operator_states(self) -> Mapping[int, tuple[bytes, ...]]:
        """The elements of every operator state that was ever set."""
        return self._operator_states

    def close(self) -> None:
        with self._bulk_lock:
            if self._generation is not None:
                self._generation = None
                self._overlays = ()
                self._operator_states = {}
                self._on_close(self)

    def _chunk(
        self, state_id: int, start: bytes, end: bytes | None
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """Reads one step of a scan. A suspended scan must not keep overlays or sources alive."""
        with self._bulk_lock:
            layers, source = self._resolve(state_id)
            return layer_stack.chunk(layers, source, start, end, layer_stack.CHUNK_RECORDS)

    def _due_chunk(
        self, state_id: int, start: bytes, end: bytes
    ) -> tuple[list[bytes], bytes | None]:
        """Reads one step of due timers, as `_chunk`."""
        with self._bulk_lock:
            generation = self._opened()
            try:
                undo, index = generation.resolve(self._base, index_id(state_id))
            except KeyError:
                raise no_time_index(state_id) from None
            layers = list(map(by_time, self._layers(state_id)))
            return timer_reads.chunk(layers, undo, index, start, end)

    def _resolve(self, state_id: int) -> tuple[list[StateOverlay], RecordSource]:
        generation = self._opened()
        try:
            undo, source = generation.resolve(self._base, state_id)
        except KeyError:
            raise unknown_state(state_id) from None
        return self._layers(state_id) + undo, source

    def _layers(self, state_id: int) -> list[StateOverlay]:
        return [
            overlay.states[state_id] for overlay in self._overlays if state_id in overlay.states
        ]

    def _opened(self) -> CompactionGeneration:
        if self._generation is None:
            raise RetryLaterError(f"the view of version {self.version} is closed: open another one")
        return self._generation
