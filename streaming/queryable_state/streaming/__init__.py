"""Keyed state of PySpark streaming jobs that can be queried while they run.

A program creates a `StreamExecutionEnvironment`, keys a stream and processes it. The
`set_queryable` method of a descriptor makes a state visible to `queryable_state.client`.
"""

from queryable_state.streaming.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    KeyedCoProcessFunction,
)
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
from queryable_state.streaming.operator_state.broadcast_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
)
from queryable_state.streaming.operator_state.broadcast_state import (
    BroadcastState,
    ReadOnlyBroadcastState,
)
from queryable_state.streaming.operator_state.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedStateStore,
    ListCheckpointed,
    OperatorStateStore,
)
from queryable_state.streaming.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from queryable_state.streaming.streams.broadcast_streams import (
    BroadcastConnectedStream,
    BroadcastStream,
)
from queryable_state.streaming.streams.connected_streams import KeyedConnectedStreams
from queryable_state.wire.schema.types import TypeInfo, Types

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastState",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "EnvironmentSettings",
    "ExternalizedCheckpointCleanup",
    "FsStateBackend",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "JobClient",
    "JobStatus",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedConnectedStreams",
    "KeyedProcessFunction",
    "KeyedStateFunction",
    "KeyedStateStore",
    "KeyedStream",
    "ListCheckpointed",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MemoryStateBackend",
    "OperatorStateStore",
    "OperatorStream",
    "PredefinedOptions",
    "QueryableStateStream",
    "ReadOnlyBroadcastState",
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
    "StreamExecutionEnvironment",
    "TypeInfo",
    "Types",
    "ValueState",
    "ValueStateDescriptor",
]
