"""Events that a server connection reports to the layer above it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Sequence

    from queryable_state.client._batching.batch import Batch
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.errors import QueryableStateError


class BatchEvents(Protocol):
    """Receiver of the events of batches. All calls happen on the client's event loop."""

    def answered(self, batch: Batch, answer: query_pb2.Answer) -> None:
        """Takes an answer, or one part of it."""

    def failed(
        self,
        batch: Batch,
        positions: Sequence[int],
        error: QueryableStateError,
        *,
        connection_lost: bool = False,
    ) -> None:
        """Takes the failure of some keys. `connection_lost`: the batch has no connection now."""

    def halve(self, batch: Batch) -> None:
        """Takes a batch whose request is longer than its server accepts."""

    def reroute(self, batch: Batch) -> None:
        """Takes a batch that its connection has not sent and cannot send."""

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs work in the background until the client closes."""
