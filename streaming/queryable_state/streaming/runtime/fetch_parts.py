"""Division of the requested slots of several states into fetch calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.streaming.runtime.states.cached_state import CachedState


def fetch_parts(
    wanted: Sequence[tuple[CachedState, Sequence[int]]], limit: int
) -> Iterator[list[tuple[CachedState, Sequence[int]]]]:
    """Splits the requested slots into calls of at most `limit` keys."""
    part: list[tuple[CachedState, Sequence[int]]] = []
    room = limit
    for state, slots in wanted:
        taken = 0
        while taken < len(slots):
            piece = slots[taken : taken + room]
            part.append((state, piece))
            taken += len(piece)
            room -= len(piece)
            if room == 0:
                yield part
                part, room = [], limit
    if part:
        yield part


def fetch_halves(
    part: list[tuple[CachedState, Sequence[int]]],
) -> Iterator[list[tuple[CachedState, Sequence[int]]]]:
    """Splits a call that is too large into two."""
    if len(part) > 1:
        middle = len(part) // 2
        yield part[:middle]
        yield part[middle:]
    else:
        state, slots = part[0]
        middle = len(slots) // 2
        yield [(state, slots[:middle])]
        yield [(state, slots[middle:])]
