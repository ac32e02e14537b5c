"""Point readers of the event loop over one stack, one a state, made at its first read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.storage.layered import layer_stack
from queryable_state.server.storage.refusals import store_closed, unknown_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from queryable_state.server.storage.base import StateBase
    from queryable_state.server.storage.overlay import Overlay, StateOverlay
    from queryable_state.server.storage.store import Token


class Sealed(NamedTuple):
    """A sealed version that is still an overlay: staged, or committed and not compacted."""

    version: int
    overlay: Overlay
    token: Token


class Readers(dict[int, "Callable[[bytes], bytes | None]"]):
    """Point readers by state id, over a base and an immutable stack."""

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
        """The overlays that change a state, newest first."""
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
        reader = self[state_id] = layer_stack.point_reader(self.layers(state_id), source.reader())
        return reader


class ClosedReaders(Readers):
    """The readers of a closed store: each read raises `RetryLaterError`."""

    def __missing__(self, state_id: int) -> Callable[[bytes], bytes | None]:
        raise store_closed()

    def layers(self, state_id: int) -> list[StateOverlay]:
        raise store_closed()

    def operator_states(self) -> Mapping[int, tuple[bytes, ...]]:
        raise store_closed()
