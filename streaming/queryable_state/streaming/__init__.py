"""Keyed state of PySpark streaming jobs that can be queried while they run.

A program creates a `StreamExecutionEnvironment`, keys a stream and processes it. The
`set_queryable` method of a descriptor makes a state visible to `queryable_state.client`.
"""

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
from queryable_state.streaming.sources.spark_source import SparkSource
from queryable_state.streaming.sources.watermark_strategy import WatermarkStrategy
from queryable_state.streaming.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from queryable_state.streaming.stateless.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
)
from queryable_state.streaming.stateless.functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
)
from queryable_state.streaming.stateless.output_tag import OutputTag
from queryable_state.streaming.streams.collected import CloseableIterator
from queryable_state.streaming.streams.sinks import SparkSink
from queryable_state.wire.schema.types import TypeInfo, Types

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "CheckpointConfig",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "EnvironmentSettings",
    "ExternalizedCheckpointCleanup",
    "FilterFunction",
    "FlatMapFunction",
    "FsStateBackend",
    "JobClient",
    "JobStatus",
    "KeySelector",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListState",
    "ListStateDescriptor",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "MemoryStateBackend",
    "OperatorStream",
    "OutputTag",
    "Partitioner",
    "PredefinedOptions",
    "ProcessFunction",
    "QueryableStateStream",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "RocksDBStateBackend",
    "RuntimeContext",
    "SparkSink",
    "SparkSource",
    "State",
    "StateBackend",
    "StateDescriptor",
    "StreamExecutionEnvironment",
    "TypeInfo",
    "Types",
    "ValueState",
    "ValueStateDescriptor",
    "WatermarkStrategy",
]
