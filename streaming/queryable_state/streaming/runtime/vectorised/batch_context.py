"""Contexts of batch functions: `BatchRuntimeContext` for `open`, `BatchState` for each chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.runtime.states.value_column import CachedValueColumn
from queryable_state.streaming.vectorised.functions import BatchRuntimeContext, BatchState
from queryable_state.v1.registration_pb2 import TimeToLive
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.operators.context import DeclaringContext
    from queryable_state.streaming.stateless.metrics import MetricGroup, TaskMetrics


class DeclaringBatchContext(BatchRuntimeContext):
    """Collects the states that a batch function requests; they are usable after `bind`."""

    def __init__(self, declaring: DeclaringContext) -> None:
        self._declaring = declaring

    @property
    def states(self) -> dict[str, CachedValueColumn]:
        """Requested states by name, in order."""
        found = self._declaring.states.items()
        return {name: state for name, state in found if isinstance(state, CachedValueColumn)}

    @property
    def descriptors(self) -> list[StateDescriptor]:
        """Descriptors of the requested states, in order."""
        return self._declaring.descriptors

    def end_declarations(self) -> None:
        """Refuses further requests: the states are being registered."""
        self._declaring.end_declarations()

    def get_state(self, descriptor: ValueStateDescriptor) -> CachedValueColumn:
        if isinstance(descriptor, ValueStateDescriptor):
            _check_ttl(descriptor)
        return self._declaring.declared(descriptor, ValueStateDescriptor, CachedValueColumn)

    def get_task_name(self) -> str:
        return self._declaring.get_task_name()

    def get_index_of_this_subtask(self) -> int:
        return self._declaring.get_index_of_this_subtask()

    def get_number_of_parallel_subtasks(self) -> int:
        return self._declaring.get_number_of_parallel_subtasks()

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._declaring.get_max_number_of_parallel_subtasks()

    def get_metrics_group(self) -> MetricGroup:
        return self._declaring.get_metrics_group()

    @property
    def metrics(self) -> TaskMetrics | None:
        """The metrics of the functions; None: no function has asked for any."""
        return self._declaring.metrics


class ChunkState(BatchState):
    """The states of a task and the clocks of its batch."""

    def __init__(
        self,
        states: dict[str, CachedValueColumn],
        where: str,
        batch_timestamp_ms: int,
        watermark_ms: int,
    ) -> None:
        self._states = states
        self._where = where
        self._batch_timestamp_ms = batch_timestamp_ms
        self._watermark_ms = watermark_ms

    def __getitem__(self, name: str) -> CachedValueColumn:
        found = self._states.get(name)
        if found is None:
            raise InvalidRequestError(
                f"{self._where}: state {name!r} was not declared: request it in open() with "
                f"runtime_context.get_state(); declared are: {', '.join(self._states) or 'none'}",
                candidates=tuple(self._states),
            )
        return found

    def timestamp(self) -> int:
        return self._batch_timestamp_ms

    def current_watermark(self) -> int:
        return self._watermark_ms


def _check_ttl(descriptor: ValueStateDescriptor) -> None:
    """Raises InvalidRequestError for a TTL by which reads would change the state."""
    ttl = descriptor.ttl_config
    if ttl is None:
        return
    proto = ttl.to_proto()
    if proto.update != TimeToLive.ON_CREATE_AND_WRITE or proto.return_expired:
        raise InvalidRequestError(
            f"state {descriptor.name!r} of a batch function: {ttl!r} lets reads change the state, "
            "which columns do not: use OnCreateAndWrite and NeverReturnExpired",
            reason=Reason.UNSUPPORTED,
        )
