"""Lookups of operator state, which belongs to subtasks instead of keys."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from queryable_state.client._lookups import KeyLookups
from queryable_state.client._reading.operation import ENTRY
from queryable_state.client._reading.operator_state import OperatorState, SubtaskState
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import InvalidRequestError, QueryTimeoutError, Reason
from queryable_state.wire.operator_state import OPERATOR_KINDS

if TYPE_CHECKING:
    from typing import Unpack

    from queryable_state.client._arguments import Job
    from queryable_state.client._read_options import ReadOptions
    from queryable_state.client._reading.elements import MapEntry
    from queryable_state.wire.located_state import LocatedState


class OperatorLookups(KeyLookups):
    """Client with lookups of operator state.

    Each subtask is a key of `get_kv_state` and all other lookups, too: its index, from 0.
    """

    async def get_operator_state(
        self,
        job: Job,
        state_name: str,
        subtask: int | None = None,
        *,
        one_cut: bool = False,
        **options: Unpack[ReadOptions],
    ) -> OperatorState:
        """Returns the operator state of one subtask (None: of all).

        Args:
            job: Same as in `get_kv_state`, like all options not listed here.
            state_name: Queryable name of a list, union list or broadcast state.
            subtask: Index of a subtask, from 0. None reads all subtasks of a list or union list,
                and the first one of a broadcast state, which is equal on all.
            one_cut: Read all subtasks from one committed batch, across all owners.

        A subtask that has written nothing has an empty state. Raises the errors of
        `get_kv_state`, except that of a missing key; `InvalidRequestError` if the state is keyed
        or there is no such subtask; with `one_cut` also `VersionGoneError`.
        """
        batcher = self._batcher(job, state_name, options)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + batcher.options.timeout_s
        locator = self._dispatcher().locator
        while True:
            located = await locator.located(batcher.handle, deadline)
            subtasks = _subtasks(located, subtask)
            results = await self.multi_get(job, state_name, subtasks, one_cut=one_cut, **options)
            now = batcher.handle.located
            if now is None or now.ranges == located.ranges:
                break
            # The operator runs at another parallelism: the answers may be of both.
            if loop.time() >= deadline:
                raise QueryTimeoutError(
                    f"{located.describe()}: its parallelism changed during each read within "
                    f"{batcher.options.timeout_s:g} s: read again"
                )
        kind = located.registration.kind
        broadcast = kind == registration_pb2.BROADCAST
        return OperatorState(
            registration_pb2.StateKind.Name(kind),
            [SubtaskState.of(result, broadcast=broadcast) for result in results],
        )

    def get_broadcast_entry(
        self, job: Job, state_name: str, map_key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[MapEntry]:
        """Returns a future of one entry of a broadcast state; does not read the other entries.

        Arguments and errors as in `get_map_entry`; the first subtask answers.
        """
        return self._look_up(job, state_name, (0, map_key), ENTRY, options)


def _subtasks(located: LocatedState, subtask: int | None) -> list[int]:
    """The subtasks to read; raises InvalidRequestError for a keyed state."""
    kind = located.registration.kind
    if kind not in OPERATOR_KINDS:
        raise InvalidRequestError(
            f"{located.describe()} is of kind {registration_pb2.StateKind.Name(kind)}: it belongs "
            "to keys, not to subtasks; read it with get_kv_state",
            reason=Reason.UNSUPPORTED,
        )
    if subtask is not None:
        return [subtask]
    return [0] if kind == registration_pb2.BROADCAST else list(range(len(located.ranges)))
