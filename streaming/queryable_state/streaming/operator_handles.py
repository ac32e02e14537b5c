"""Handles of the operators that a program declares: names, uids, schema changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

from queryable_state.streaming.graph.job_graph import check_name
from queryable_state.streaming.runtime.operators.operators import (
    with_dropped_fields,
    with_renamed_fields,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from queryable_state.streaming.execution.execution_config import ExecutionConfig
    from queryable_state.streaming.execution.execution_modes import TimeCharacteristic
    from queryable_state.streaming.graph.nodes import (
        OperatorNode,
        SinkNode,
        StreamNode,
        TransformNode,
    )
    from queryable_state.streaming.job_client import JobClient

    FrameFunction: TypeAlias = Callable[[DataFrame], DataFrame]


class StreamEnvironment(Protocol):
    """The environment, as its streams use it."""

    def _add_operator(self, node: OperatorNode) -> OperatorNode:
        """Adds an operator to the next job."""
        ...

    def _add_sink(self, node: SinkNode) -> None:
        """Adds a sink to the next job."""
        ...

    def _add_function(self, node: TransformNode) -> None:
        """Adds a function without state to the next job."""
        ...

    def _transformed(
        self, node: StreamNode, function: FrameFunction, *, keeps_columns: bool = False
    ) -> StreamNode:
        """The stream with a function of DataFrames applied; see `transformed_node`."""
        ...

    def _dataframe_of(self, node: StreamNode) -> DataFrame:
        """The stream as a DataFrame that the caller starts."""
        ...

    def _partitions(self) -> int:
        """Number of partitions of a stream that is distributed anew."""
        ...

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """The time of windows whose clock is not given."""
        ...

    def get_config(self) -> ExecutionConfig:
        """The execution configuration."""
        ...

    def execute_async(self, job_name: str) -> JobClient:
        """Starts the next job."""
        ...


class StatefulOperator:
    """Options of a stateful operator and its state."""

    _node: OperatorNode

    def uid(self, uid: str) -> Self:
        """Sets the identity of the operator's state within the job. Keep it when the program
        changes."""
        self._node.given_uid = check_name("a uid", uid)
        return self

    def name(self, name: str) -> Self:
        """Sets the name of the operator for logs and errors."""
        self._node.given_name = check_name("the name of an operator", name)
        return self

    def renamed_fields(self, renamed: Mapping[str, str]) -> Self:
        """Declares renamed fields of the state's rows, as `{new path: old name}`; see
        `StateDescriptor.set_renamed_fields`."""
        self._node.operator = with_renamed_fields(self._node.operator, renamed)
        return self

    def dropped_fields(self, *dropped: str) -> Self:
        """Declares dropped fields of the state's rows, by path; see
        `StateDescriptor.set_dropped_fields`."""
        self._node.operator = with_dropped_fields(self._node.operator, dropped)
        return self


class QueryableStateStream(StatefulOperator):
    """A queryable state that a keyed stream is written to; it has no output."""

    def __init__(
        self, environment: StreamEnvironment, node: OperatorNode, queryable_name: str
    ) -> None:
        self._environment = environment
        self._node = node
        self._queryable_name = queryable_name

    @property
    def queryable_state_name(self) -> str:
        """The name clients query the state by."""
        return self._queryable_name

    def to_dataframe(self) -> DataFrame:
        """The operator that writes the state, as a streaming DataFrame without rows.

        The caller starts it with `writeStream`, for instance `.format("noop")`. `env.execute` does
        not run it.
        """
        return self._environment._dataframe_of(self._node)
