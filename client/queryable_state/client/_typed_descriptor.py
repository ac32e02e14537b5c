"""Descriptors as type checkers see them: each with the type of state that queries return for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from queryable_state.client._reading.states import KvState

S = TypeVar("S", bound="KvState")
S_co = TypeVar("S_co", bound="KvState", covariant=True)


class TypedDescriptor(Protocol[S_co]):
    """A descriptor of states that queries return as `S_co`; those of `streaming` are some.

    At run time a query reads other attributes of a descriptor: `ReadOptions` names them.
    """

    @property
    def _answer(self) -> S_co: ...
