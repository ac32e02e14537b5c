"""Blocking watch for threads."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self

from queryable_state.client._errors import ClientUnusableError

if TYPE_CHECKING:
    from queryable_state.client._watches.change import Change
    from queryable_state.client._watches.watch import Watch as AsyncWatch
    from queryable_state.client.blocking._client_base import ClientBase
    from queryable_state.wire.calls.loop_thread import LoopThread


class Watch:
    """Iterator of the committed changes of a state.

        with client.watch(job, "lastTemperature", keys=["sensor_1"]) as watch:
            for change in watch:
                print(change.batch, change.key, change.old, change.new)

    Same contract as `queryable_state.client.Watch`. Not thread-safe, but another thread may close
    it.
    """

    def __init__(self, client: ClientBase, thread: LoopThread, watch: AsyncWatch) -> None:
        # A client that nothing refers to is closed.
        self._client = client
        self._thread = thread
        self._watch = watch

    @property
    def batch(self) -> int | None:
        """Every change up to this batch has been handled."""
        return self._watch.batch

    def open(self) -> None:
        """Waits until the watch is open."""
        self._thread.call(self._watch.open)

    def close(self) -> None:
        """Ends the watch on client and servers. Idempotent."""
        with suppress(ClientUnusableError):
            self._thread.call(self._watch.aclose)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        async def next_change() -> Change | None:
            return await anext(self._watch, None)

        change: Change | None = self._thread.call(next_change)
        if change is None:
            raise StopIteration
        return change

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<blocking {self._watch!r}>"
