"""Reasons for the modules and names of PyFlink that this library does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_SPARK_SQL = "use Spark SQL, and from_dataframe for its result"

MISSING_MODULES: Final[Mapping[str, str]] = {
    "pyflink.table": f"there is no Table API: {_SPARK_SQL}",
    "pyflink.dataset": f"there is no DataSet API: {_SPARK_SQL}",
    "pyflink.datastream.connectors": (
        "there are no connectors of Flink: read and write with Spark's sources and sinks, and pass "
        "a streaming DataFrame to from_dataframe"
    ),
    "pyflink.datastream.formats": (
        "there are no formats of Flink: read and write with Spark's sources and sinks"
    ),
    "pyflink.java_gateway": "there is no JVM of Flink: the program runs on a SparkSession",
    "pyflink.util": "the module belongs to Flink's JVM gateway",
    "pyflink.fn_execution": "Spark runs the Python workers",
    "pyflink.testing": "use queryable_state.streaming.testing",
    "pyflink.shell": "use pyspark, and create a StreamExecutionEnvironment on its session",
}
"""Why a module and its submodules are missing."""

MISSING_NAMES: Final[Mapping[str, str]] = {
    "AssignerWithPeriodicWatermarksWrapper": (
        "it wraps an assigner of Flink's JVM: use WatermarkStrategy.with_timestamp_assigner"
    ),
    "CustomCheckpointStorage": "it wraps a storage of Flink's JVM",
    "SourceFunction": "it wraps a source of Flink's JVM: read with from_source(SparkSource(...))",
    "SinkFunction": (
        "it wraps a sink of Flink's JVM: pass a function of a DataFrame and a batch id to "
        "add_sink, or write with a SparkSink"
    ),
    "CachedDataStream": "each job reads its own sources",
    "ConfigOption": "a Configuration is read and written by key",
    "ConfigOptions": "a Configuration is read and written by key",
    "Encoder": "write with Spark's sinks",
    "BulkWriterFactory": "write with Spark's sinks",
    "SerializationSchema": "write with Spark's sinks",
    "DeserializationSchema": "read with Spark's sources",
    "SimpleStringSchema": "read and write with Spark's text sources and sinks",
}
"""Why a name is missing, and what to use."""
