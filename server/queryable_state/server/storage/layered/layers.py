"""Reading through a stack: overlays, newest first, over a source of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.storage.base import key_after, prefix_end

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.server.storage.base import RecordSource
    from queryable_state.server.storage.layered.overlay import StateOverlay

CHUNK_RECORDS = 512
"""Records an ordered read takes at a time: it can be interrupted and folded under in between."""

_ABSENT = object()
"""An overlay says nothing about a key; None would be a delete."""


def point_reader(
    layers: Sequence[StateOverlay], read: Callable[[bytes], bytes | None]
) -> Callable[[bytes], bytes | None]:
    """`get` through the stack: `read` itself over nothing, a probe an overlay otherwise."""
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
    """Values aligned with `keys`; the source is asked once, for what no overlay answers."""
    if not layers:
        return source.multi_get(keys)
    read = point_reader(layers, lambda _: _ABSENT)  # type: ignore[arg-type, return-value]
    values = [read(key) for key in keys]
    below = [place for place, value in enumerate(values) if value is _ABSENT]
    if below:
        for place, value in zip(
            below, source.multi_get([keys[place] for place in below]), strict=True
        ):
            values[place] = value
    return values


def chunk(
    layers: Sequence[StateOverlay],
    source: RecordSource,
    start: bytes,
    end: bytes | None,
    limit: int,
) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
    """Some records with start <= key < end, in order, and where to go on (None: all read).

    At most `limit` keys of each layer are looked at, so that a step is short
    whatever hides what; a step may come back empty with more to read.
    """
    items = source.chunk(start, end, limit)
    horizon = key_after(items[-1][0]) if len(items) == limit else end
    if not layers:
        return items, horizon if len(items) == limit else None
    own_keys: list[Sequence[bytes]] = []
    for layer in layers:
        keys = layer.keys_from(start, horizon, limit)
        if len(keys) == limit:
            horizon = key_after(keys[-1])
        own_keys.append(keys)
    merged: dict[bytes, bytes | None] = dict(items)
    for layer, keys in zip(reversed(layers), reversed(own_keys), strict=True):
        if layer.cleared:
            merged = {key: value for key, value in merged.items() if not layer.hides(key)}
        records = layer.records
        for key in keys:
            merged[key] = records[key]
    found = [
        (key, value)
        for key in sorted(merged)
        if (value := merged[key]) is not None and (horizon is None or key < horizon)
    ]
    return found, None if horizon == end else horizon


def prefix(
    layers: Sequence[StateOverlay], source: RecordSource, start: bytes, limit: int
) -> list[tuple[bytes, bytes]]:
    """Records whose key starts with `start`, in order, at most `limit` (0: all)."""
    end = prefix_end(start)
    found: list[tuple[bytes, bytes]] = []
    place: bytes | None = start
    while place is not None and not (limit and len(found) >= limit):
        step = min(CHUNK_RECORDS, max(16, limit - len(found))) if limit else CHUNK_RECORDS
        records, place = chunk(layers, source, place, end, step)
        found += records
    return found[:limit] if limit else found
