"""Merged reads of a stack: overlays, newest first, over a source of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.storage.key_order import key_after, prefix_end

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.server.storage.overlay import StateOverlay
    from queryable_state.server.storage.record_source import RecordSource

CHUNK_RECORDS = 512
"""Records that an ordered read takes at a time; compaction may run in between."""

_ABSENT = object()
"""Marks a key that an overlay does not change; None marks a delete."""


def point_reader(
    layers: Sequence[StateOverlay], read: Callable[[bytes], bytes | None]
) -> Callable[[bytes], bytes | None]:
    """Returns `get` of the stack: one dictionary probe an overlay, `read` itself without any."""
    if not layers:
        return read
    if any(layer.cleared for layer in layers):
        return _reader_with_clears(layers, read)
    if len(layers) == 1:
        only = layers[0].records.get

        def read_one(key: bytes) -> bytes | None:
            value = only(key, _ABSENT)
            return read(key) if value is _ABSENT else value  # type: ignore[return-value]

        return read_one
    if len(layers) == 2:
        upper, lower = layers[0].records.get, layers[1].records.get

        def read_two(key: bytes) -> bytes | None:
            value = upper(key, _ABSENT)
            if value is _ABSENT:
                value = lower(key, _ABSENT)
                if value is _ABSENT:
                    return read(key)
            return value  # type: ignore[return-value]

        return read_two
    probes = tuple(layer.records.get for layer in layers)

    def read_many(key: bytes) -> bytes | None:
        for probe in probes:
            value = probe(key, _ABSENT)
            if value is not _ABSENT:
                return value  # type: ignore[return-value]
        return read(key)

    return read_many


def _reader_with_clears(
    layers: Sequence[StateOverlay], read: Callable[[bytes], bytes | None]
) -> Callable[[bytes], bytes | None]:
    probes = tuple((layer.records.get, layer.cleared, layer.cleared_lengths) for layer in layers)

    def read_cleared(key: bytes) -> bytes | None:
        for probe, cleared, lengths in probes:
            value = probe(key, _ABSENT)
            if value is not _ABSENT:
                return value  # type: ignore[return-value]
            for length in lengths:
                if key[:length] in cleared:
                    return None
        return read(key)

    return read_cleared


def multi_get(
    layers: Sequence[StateOverlay], source: RecordSource, keys: Sequence[bytes]
) -> list[bytes | None]:
    """Values aligned with `keys`; reads the source once, for the keys in no overlay."""
    if not layers:
        return source.multi_get(keys)
    read = point_reader(layers, lambda _: _ABSENT)  # type: ignore[arg-type, return-value]
    values = [read(key) for key in keys]
    below = [index for index, value in enumerate(values) if value is _ABSENT]
    if below:
        for index, value in zip(
            below, source.multi_get([keys[index] for index in below]), strict=True
        ):
            values[index] = value
    return values


def chunk(
    layers: Sequence[StateOverlay],
    source: RecordSource,
    start: bytes,
    end: bytes | None,
    limit: int,
) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
    """Some records with start <= key < end, in order, and the next start (None: all read).

    A step reads at most `limit` keys of each layer, so that it is short even where
    overlays delete much; it may return no records and still have more to read.
    """
    items = source.chunk(start, end, limit)
    step_end = key_after(items[-1][0]) if len(items) == limit else end
    if not layers:
        return items, step_end if len(items) == limit else None
    layer_keys: list[Sequence[bytes]] = []
    for layer in layers:
        keys = layer.keys_from(start, step_end, limit)
        if len(keys) == limit:
            step_end = key_after(keys[-1])
        layer_keys.append(keys)
    merged: dict[bytes, bytes | None] = dict(items)
    for layer, keys in zip(reversed(layers), reversed(layer_keys), strict=True):
        if layer.cleared:
            merged = {key: value for key, value in merged.items() if not layer.hides(key)}
        records = layer.records
        for key in keys:
            merged[key] = records[key]
    found = [
        (key, value)
        for key in sorted(merged)
        if (value := merged[key]) is not None and (step_end is None or key < step_end)
    ]
    return found, None if step_end == end else step_end


def prefix(
    layers: Sequence[StateOverlay], source: RecordSource, start: bytes, limit: int
) -> list[tuple[bytes, bytes]]:
    """Records whose key starts with `start`, in order, at most `limit` (0: all)."""
    end = prefix_end(start)
    found: list[tuple[bytes, bytes]] = []
    next_start: bytes | None = start
    while next_start is not None and not (limit and len(found) >= limit):
        step = min(CHUNK_RECORDS, max(16, limit - len(found))) if limit else CHUNK_RECORDS
        records, next_start = chunk(layers, source, next_start, end, step)
        found += records
    return found[:limit] if limit else found
