"""Registry of the key batchers of one client."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from queryable_state.client._batching.key_batcher import KeyBatcher

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from queryable_state.client._batching.key_batcher import Submit
    from queryable_state.client._batching.query_options import QueryOptions
    from queryable_state.client._batching.state_handle import StateHandle
    from queryable_state.client._reading.pending_results import PendingResults
    from queryable_state.wire.errors import QueryableStateError
    from queryable_state.wire.located_state import LocatedState


class KeyBatchers:
    """One `KeyBatcher` for each state and set of options.

    References are weak: callers may compute timeouts and namespaces, so a batcher lives only
    as long as a caller or a batch uses it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, submit: Submit) -> None:
        self._loop = loop
        self._submit = submit
        self._by_state: defaultdict[StateHandle, WeakValueDictionary[QueryOptions, KeyBatcher]] = (
            defaultdict(WeakValueDictionary)
        )

    def get(self, handle: StateHandle, options: QueryOptions) -> KeyBatcher:
        """Returns the batcher of a state and options; creates it if there is none."""
        batchers = self._by_state[handle]
        batcher = batchers.get(options)
        if batcher is None:
            batcher = batchers[options] = KeyBatcher(self._loop, self._submit, handle, options)
        return batcher

    def place(self, handle: StateHandle, located: LocatedState) -> None:
        """Stores a placement in the handle and prepares its batchers for it.

        Collected keys are submitted first, because the previous codecs have encoded them.
        """
        batchers = tuple(self._by_state[handle].values())
        for batcher in batchers:
            batcher.flush()
        handle.place(located)
        for batcher in tuple(self._by_state[handle].values()):
            batcher.adopt_placement()

    def refuse_all(self, error: Callable[[], QueryableStateError]) -> None:
        """Fails the collected keys of every batcher, and all further ones."""

        def refuse(_: KeyBatcher, keys: list[Any], results: PendingResults, __: object) -> None:
            results.fail(range(len(keys)), error())

        self._submit = refuse
        for batchers in tuple(self._by_state.values()):
            for batcher in tuple(batchers.values()):
                batcher.divert(refuse)

    def flush_all(self) -> None:
        """Submits the collected keys of every batcher."""
        for batchers in tuple(self._by_state.values()):
            for batcher in tuple(batchers.values()):
                batcher.flush()
