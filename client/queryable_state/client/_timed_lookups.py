"""Lookups of windows and timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.client._arguments import checked_window_range
from queryable_state.client._lookups import KeyLookups
from queryable_state.client._reading.operation import NEWEST_WINDOW, TIMERS, WINDOWS
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    import asyncio
    from datetime import datetime
    from typing import Unpack

    from queryable_state.client._arguments import Job
    from queryable_state.client._read_options import ReadOptions
    from queryable_state.client._reading.states import KvState
    from queryable_state.client._reading.timed.key_windows import KeyWindows
    from queryable_state.client._reading.timed.pending_timers import PendingTimers


class TimedLookups(KeyLookups):
    """Client with lookups of windows and timers. Errors are raised by the returned future."""

    def get_windows(
        self,
        job: Job,
        state_name: str,
        key: Any,
        start: int | datetime | None = None,
        end: int | datetime | None = None,
        *,
        newest: int | None = None,
        **options: Unpack[ReadOptions],
    ) -> asyncio.Future[KeyWindows]:
        """Returns a future of the windows of one key with their states, all from one batch.

        Args:
            job: Same as in `get_kv_state`, like `state_name`, `key` and `options`.
            state_name: Queryable name of a state with windows.
            key: A value of the registered key type.
            start: Only windows that start at this time or later: milliseconds since the epoch, or
                a `datetime` with a time zone; None: from the first window.
            end: Only windows that start before this time; None: to the last window.
            newest: At most this many windows, those that start last; None: all.

        The result is a mapping of `TimeWindow` to state, by start and then end; empty if the key
        has no such window. Raises the errors of `get_kv_state`, but none for a missing key, and
        `InvalidRequestError` for a state without windows.
        """
        try:
            wanted = checked_window_range(start, end, newest)
        except InvalidRequestError as error:
            return self._failed(error)
        return self._look_up(job, state_name, (key, wanted), WINDOWS, options)

    def get_newest_window(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[KvState]:
        """Returns a future of the state of the window of a key that starts last.

        Its `window` is that window. Arguments and errors as in `get_kv_state`;
        `UnknownKeyOrNamespaceError` if the key has no window, and `InvalidRequestError` for a
        state without windows.
        """
        wanted = checked_window_range(None, None, 1)
        return self._look_up(job, state_name, (key, wanted), NEWEST_WINDOW, options)

    def get_timers(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[PendingTimers]:
        """Returns a future of the pending timers of one key, in the order in which they fire.

        `state_name` is the uid of the operator and ".timers"; `list_states` shows it with kind
        TIMER. `window` selects the timers of one window. Arguments and errors as in
        `get_kv_state`, but a key without timers is an empty result.
        """
        return self._look_up(job, state_name, key, TIMERS, options)
