"""Keyed state of PySpark streaming jobs that can be queried while they run.

A program creates a `StreamExecutionEnvironment`, keys a stream and processes it. The
`set_queryable` method of a descriptor makes a state visible to `queryable_state.client`.
"""

from queryable_state.streaming.config.checkpoint_config import CheckpointConfig
from queryable_state.streaming.config.checkpoint_modes import (
    CheckpointingMode,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
)
from queryable_state.streaming.config.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from queryable_state.streaming.config.durations import Duration
from queryable_state.streaming.config.restart_strategy import (
    RestartStrategies,
    RestartStrategyConfiguration,
)
from queryable_state.streaming.config.rocksdb_state_backend import (
    EmbeddedRocksDBStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
)
from queryable_state.streaming.config.settings import EnvironmentSettings
from queryable_state.streaming.config.state_backend import (
    CustomStateBackend,
    FsStateBackend,
    HashMapStateBackend,
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
from queryable_state.streaming.execution.configuration import Configuration
from queryable_state.streaming.execution.execution_config import ExecutionConfig
from queryable_state.streaming.execution.execution_modes import (
    ExecutionMode,
    InputDependencyConstraint,
    RuntimeExecutionMode,
    TimeCharacteristic,
)
from queryable_state.streaming.execution.job_result import (
    CompletableFuture,
    JobExecutionResult,
    JobID,
    JobStatus,
)
from queryable_state.streaming.functions import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    RuntimeContext,
)
from queryable_state.streaming.job_client import JobClient
from queryable_state.streaming.operator_handles import DataStreamSink, QueryableStateStream
from queryable_state.streaming.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from queryable_state.wire.schema.types import TypeInfo, Types

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "CheckpointConfig",
    "CheckpointStorage",
    "CheckpointingMode",
    "CompletableFuture",
    "Configuration",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "Duration",
    "EmbeddedRocksDBStateBackend",
    "EnvironmentSettings",
    "ExecutionConfig",
    "ExecutionMode",
    "ExternalizedCheckpointCleanup",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FsStateBackend",
    "HashMapStateBackend",
    "InputDependencyConstraint",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobManagerCheckpointStorage",
    "JobStatus",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MemoryStateBackend",
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
    "RuntimeExecutionMode",
    "State",
    "StateBackend",
    "StateDescriptor",
    "StreamExecutionEnvironment",
    "TimeCharacteristic",
    "TypeInfo",
    "Types",
    "ValueState",
    "ValueStateDescriptor",
]
