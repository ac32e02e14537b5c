"""What the event loop reads a stack with: one reader a state, made when first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.storage.layered import layers as stack
from queryable_state.server.storage.layered.stack_view import unknown_state
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from queryable_state.server.storage.base import StateBase
    from queryable_state.server.storage.layered.overlay import Overlay, StateOverlay
    from queryable_state.server.storage.store import Token


class Sealed(NamedTuple):
    """A sealed version: staged, or committed and waiting to be folded."""

    version: int
    overlay: Overlay
    token: Token


class Readers(dict[int, "Callable[[bytes], bytes | None]"]):
    """Point readers by state, of one base and one stack that never changes."""

    def __init__(
        self,
        base: StateBase,
        sealed: tuple[Sealed, ...],
        operator_states: Mapping[int, tuple[bytes, ...]],
    ) -> None:
        self._base = base
        self._sealed = sealed
        self._operator_states = operator_states

    @property
    def overlays(self) -> tuple[Overlay, ...]:
        """The stack, newest first."""
        return tuple(each.overlay for each in self._sealed)

    def operator_states(self) -> Mapping[int, tuple[bytes, ...]]:
        """The elements of every operator state that was ever set."""
        states = self._operator_states
        for each in reversed(self._sealed):
            if each.overlay.operator_states:
                states = {**states, **each.overlay.operator_states}
        return states

    def layers(self, state_id: int) -> list[StateOverlay]:
        return [
            each.overlay.states[state_id]
            for each in self._sealed
            if state_id in each.overlay.states
        ]

    def __missing__(self, state_id: int) -> Callable[[bytes], bytes | None]:
        try:
            source = self._base.source(state_id)
        except KeyError:
            raise unknown_state(state_id) from None
        reader = self[state_id] = stack.point_reader(self.layers(state_id), source.reader())
        return reader


class ClosedReaders(Readers):
    """What a closed store reads with."""

    def __missing__(self, state_id: int) -> Callable[[bytes], bytes | None]:
        raise store_closed()

    def layers(self, state_id: int) -> list[StateOverlay]:
        raise store_closed()

    def operator_states(self) -> Mapping[int, tuple[bytes, ...]]:
        raise store_closed()


def store_closed() -> RetryLaterError:
    """The refusal of everything asked of a closed store."""
    return RetryLaterError(
        "the store is closed: ask the owner of the key group", retry_after_ms=100
    )
