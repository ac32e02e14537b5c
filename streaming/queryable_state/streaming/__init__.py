"""Keyed state of PySpark streaming jobs that can be queried while they run.

A program makes a `StreamExecutionEnvironment`, keys a stream and processes it; a
descriptor's `set_queryable` opens a state to `queryable_state.client`.
"""

from queryable_state.streaming.datastream import (
    DataStream,
    DataStreamSink,
    OperatorStream,
    QueryableStateStream,
)
from queryable_state.streaming.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from queryable_state.streaming.environment import StreamExecutionEnvironment
from queryable_state.streaming.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    ReduceFunction,
    RuntimeContext,
)
from queryable_state.streaming.job_client import JobClient, JobStatus
from queryable_state.streaming.keyed_stream import KeyedStream
from queryable_state.streaming.settings import EnvironmentSettings
from queryable_state.streaming.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from queryable_state.wire.types import TypeInfo, Types

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "DataStream",
    "DataStreamSink",
    "EnvironmentSettings",
    "JobClient",
    "JobStatus",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "OperatorStream",
    "QueryableStateStream",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RuntimeContext",
    "State",
    "StateDescriptor",
    "StreamExecutionEnvironment",
    "TypeInfo",
    "Types",
    "ValueState",
    "ValueStateDescriptor",
]
