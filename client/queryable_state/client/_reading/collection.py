"""The answer of `get_kv_states` while it gathers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.client._errors import afresh
from queryable_state.client._reading.outcomes import Outcomes

if TYPE_CHECKING:
    import asyncio

    from queryable_state.client._reading.decode_context import DecodeContext
    from queryable_state.client._reading.states import KvState
    from queryable_state.wire.errors import QueryableStateError


class Collection(Outcomes):
    """The states of many keys: done with the last key, or the first failure."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[list[KvState | None]], count: int) -> None:
        super().__init__(count)
        self.future = future

    def missing(self, position: int, context: DecodeContext) -> None:
        self.put(position, None)

    def fail(self, position: int, error: QueryableStateError) -> None:
        """One key that cannot be read fails the whole call."""
        if not self.future.done():
            self.future.set_exception(afresh(error))

    def _complete(self) -> None:
        if not self.future.done():
            self.future.set_result(self.outcomes)
