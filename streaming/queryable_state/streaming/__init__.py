"""Keyed state of PySpark streaming jobs that can be queried while they run.

A program creates a `StreamExecutionEnvironment`, keys a stream and processes it. The
`set_queryable` method of a descriptor makes a state visible to `queryable_state.client`.
"""

from queryable_state.streaming.common.time import Duration, Time
from queryable_state.streaming.config.checkpoint_config import (
    CheckpointConfig,
    CheckpointingMode,
    ExternalizedCheckpointCleanup,
)
from queryable_state.streaming.config.restart_strategy import (
    RestartStrategies,
    RestartStrategyConfiguration,
)
from queryable_state.streaming.config.rocksdb_state_backend import (
    PredefinedOptions,
    RocksDBStateBackend,
)
from queryable_state.streaming.config.settings import EnvironmentSettings
from queryable_state.streaming.config.state_backend import (
    CustomStateBackend,
    FsStateBackend,
    MemoryStateBackend,
    StateBackend,
)
from queryable_state.streaming.datastream import DataStream, KeyedStream, OperatorStream
from queryable_state.streaming.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from queryable_state.streaming.environment import StreamExecutionEnvironment
from queryable_state.streaming.functions import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    RuntimeContext,
)
from queryable_state.streaming.job_client import JobClient, JobStatus
from queryable_state.streaming.operator_handles import DataStreamSink, QueryableStateStream
from queryable_state.streaming.state import (
    AggregatingState,
    AppendingState,
    ListState,
    MapState,
    MergingState,
    ReducingState,
    State,
    ValueState,
)
from queryable_state.streaming.ttl.state_ttl_config import StateTtlConfig
from queryable_state.wire.schema.types import TypeInfo, Types

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "CheckpointConfig",
    "CheckpointingMode",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "Duration",
    "EnvironmentSettings",
    "ExternalizedCheckpointCleanup",
    "FsStateBackend",
    "JobClient",
    "JobStatus",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MemoryStateBackend",
    "MergingState",
    "OperatorStream",
    "PredefinedOptions",
    "QueryableStateStream",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "RocksDBStateBackend",
    "RuntimeContext",
    "State",
    "StateBackend",
    "StateDescriptor",
    "StateTtlConfig",
    "StreamExecutionEnvironment",
    "Time",
    "TypeInfo",
    "Types",
    "ValueState",
    "ValueStateDescriptor",
]
