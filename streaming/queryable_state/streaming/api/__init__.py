"""The public names of `queryable_state.streaming`, which its users import from there."""

import queryable_state.streaming.stateless.metrics as metrics
import queryable_state.streaming.windows as windows
from queryable_state.server.settings.durability_settings import (
    CheckpointingMode,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
)
from queryable_state.server.settings.environment_settings import EnvironmentSettings
from queryable_state.streaming.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from queryable_state.streaming.config.checkpoint_config import CheckpointConfig
from queryable_state.streaming.config.durations import Duration, Time
from queryable_state.streaming.config.restart_strategy import (
    RestartStrategies,
    RestartStrategyConfiguration,
)
from queryable_state.streaming.config.state_backends import (
    CheckpointStorage,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    FsStateBackend,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
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
from queryable_state.streaming.execution.slot_sharing_group import MemorySize, SlotSharingGroup
from queryable_state.streaming.functions import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    RuntimeContext,
)
from queryable_state.streaming.job_client import JobClient
from queryable_state.streaming.operator_handles import QueryableStateStream
from queryable_state.streaming.operator_state.broadcast_functions import (
    BaseBroadcastProcessFunction,
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
from queryable_state.streaming.sinks.collected import CloseableIterator
from queryable_state.streaming.sinks.data_stream_sink import DataStreamSink
from queryable_state.streaming.sinks.sinks import SparkSink
from queryable_state.streaming.sources.spark_source import SparkSource
from queryable_state.streaming.sources.watermark_strategy import (
    TimestampAssigner,
    WatermarkStrategy,
)
from queryable_state.streaming.spark.queries.native_query import serve_query
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
from queryable_state.streaming.stateless.functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
)
from queryable_state.streaming.stateless.metrics import *  # noqa: F403 - as of `windows`
from queryable_state.streaming.stateless.output_tag import OutputTag
from queryable_state.streaming.stateless.timers import TimeDomain, TimerService
from queryable_state.streaming.streams.broadcast_streams import (
    BroadcastConnectedStream,
    BroadcastStream,
)
from queryable_state.streaming.streams.connected_streams import (
    ConnectedStreams,
    KeyedConnectedStreams,
)
from queryable_state.streaming.streams.windowed.all_windowed_stream import AllWindowedStream
from queryable_state.streaming.streams.windowed.windowed_stream import WindowedStream
from queryable_state.streaming.ttl.state_ttl_config import StateTtlConfig
from queryable_state.streaming.vectorised.functions import (
    BatchKeys,
    BatchRuntimeContext,
    BatchState,
    KeyedBatchProcessFunction,
    ValueColumn,
)
from queryable_state.streaming.windows import *  # noqa: F403 - its `__all__` is part of this one
from queryable_state.wire.packaging.protocol_versions import __version__
from queryable_state.wire.schema.instant import Instant
from queryable_state.wire.schema.row import Row, RowKind
from queryable_state.wire.schema.type_classes import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from queryable_state.wire.schema.type_serializer import (
    PickleSerializer,
    SimpleTypeSerializerSnapshot,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from queryable_state.wire.schema.types import TypeInfo, Types
from queryable_state.wire.values.pickled import PickledValue
from queryable_state.wire.values.serialized import SerializedValue

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AllWindowedStream",
    "AppendingState",
    "BaseBroadcastProcessFunction",
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "BatchKeys",
    "BatchRuntimeContext",
    "BatchState",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastState",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "CompletableFuture",
    "Configuration",
    "ConnectedStreams",
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
    "FilterFunction",
    "FlatMapFunction",
    "FsStateBackend",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "HashMapStateBackend",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobManagerCheckpointStorage",
    "JobStatus",
    "KeySelector",
    "KeyedBatchProcessFunction",
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
    "ListTypeInfo",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "MapTypeInfo",
    "MemorySize",
    "MemoryStateBackend",
    "MergingState",
    "ObjectArrayTypeInfo",
    "OperatorStateStore",
    "OperatorStream",
    "OutputTag",
    "Partitioner",
    "PickleSerializer",
    "PickledBytesTypeInfo",
    "PickledValue",
    "PredefinedOptions",
    "PrimitiveArrayTypeInfo",
    "ProcessFunction",
    "QueryableStateStream",
    "ReadOnlyBroadcastState",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "RocksDBStateBackend",
    "Row",
    "RowKind",
    "RowTypeInfo",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SerializedValue",
    "SimpleTypeSerializerSnapshot",
    "SlotSharingGroup",
    "SparkSink",
    "SparkSource",
    "SqlTimeTypeInfo",
    "State",
    "StateBackend",
    "StateDescriptor",
    "StateTtlConfig",
    "StreamExecutionEnvironment",
    "Time",
    "TimeCharacteristic",
    "TimeDomain",
    "TimerService",
    "TimestampAssigner",
    "TupleTypeInfo",
    "TypeInfo",
    "TypeInformation",
    "TypeSerializer",
    "TypeSerializerSchemaCompatibility",
    "TypeSerializerSnapshot",
    "Types",
    "ValueColumn",
    "ValueState",
    "ValueStateDescriptor",
    "WatermarkStrategy",
    "WindowedStream",
]
__all__ += ["__version__", "serve_query", *metrics.__all__, *windows.__all__]
