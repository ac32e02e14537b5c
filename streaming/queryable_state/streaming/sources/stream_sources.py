"""Sources of an environment: collections, formats of Spark, and text files."""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import functions as F

from queryable_state.streaming.datastream import DataStream
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import SourceNode
from queryable_state.streaming.sources.spark_source import SparkSource
from queryable_state.streaming.sources.watermark_strategy import WatermarkStrategy
from queryable_state.streaming.spark.queries.source_plan import source_node
from queryable_state.streaming.spark.sources.collection_source import collection_frame
from queryable_state.wire.errors import InvalidRequestError, Reason
from queryable_state.wire.schema.inference import type_of_values
from queryable_state.wire.schema.types import TypeInfo, Types, type_info

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from queryable_state.streaming.operator_handles import StreamEnvironment

_log = logging.getLogger("queryable_state.streaming")


class StreamSources:
    """The methods of an environment that create streams."""

    _spark: SparkSession

    @abstractmethod
    def _as_stream_environment(self) -> StreamEnvironment:
        """Returns `self`, typed as the environment that this mixin is a part of."""

    def from_dataframe(self, dataframe: DataFrame) -> DataStream:
        """A stream of the rows of a streaming DataFrame, which may contain native aggregations."""
        return self._stream_of(source_node(dataframe))

    def from_collection(self, collection: Iterable[Any], type_info: object = None) -> DataStream:
        """A bounded stream of the elements of a collection, in their order.

        Without `type_info` the type is that of the elements; parts whose type is unknown are
        pickled. The elements are part of the query: a job that is started again from its
        checkpoint reads on after the last element of its last committed batch.
        """
        elements = list(collection)
        info, dataframe = _typed_frame(self._spark, elements, type_info)
        return self._stream_of(
            SourceNode(
                dataframe=dataframe,
                columns=Columns.of_output(info),
                is_bounded=True,
                first=tuple(elements[:1]),
                given_name="Collection Source",
                parallelism=1,
            )
        )

    def from_elements(self, *elements: Any, type_info: object = None) -> DataStream:
        """A bounded stream of these elements; see `from_collection`."""
        return self.from_collection(elements, type_info)

    def from_source(
        self,
        source: SparkSource,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "source",
        type_info: object = None,
    ) -> DataStream:
        """A stream of a source, with the timestamps and the watermark of a strategy.

        The elements have the timestamps of the source's records (`SparkSource.event_time`) until
        the strategy assigns others. `type_info`, if given, must be the type of the source's rows.
        """
        if not isinstance(source, SparkSource):
            raise TypeError(f"source must be a SparkSource, not {source!r}")
        if not isinstance(watermark_strategy, WatermarkStrategy | None):
            raise TypeError(
                f"watermark_strategy must be a WatermarkStrategy, not {watermark_strategy!r}"
            )
        node = source_node(source.dataframe(self._spark))
        node.given_name, node.is_bounded = source_name, source.is_bounded
        if type_info is not None:
            _check_type(node, type_info, source_name)
        if watermark_strategy is None:
            return self._stream_of(node)
        node.columns = source.timed(node.columns)
        stream = self._stream_of(node)
        return stream.assign_timestamps_and_watermarks(watermark_strategy)

    def add_source(
        self, source_func: SparkSource, source_name: str = "Custom Source", type_info: object = None
    ) -> DataStream:
        """The same as `from_source` without watermarks."""
        return self.from_source(source_func, None, source_name, type_info)

    def create_input(self, input_format: object, type_info: object = None) -> NoReturn:
        """Raises InvalidRequestError: an InputFormat is a class of Flink's JVM."""
        raise InvalidRequestError(
            f"create_input({input_format!r}): an InputFormat is a class of Flink's JVM. Read with "
            "a format of Spark: from_source(SparkSource(format=..., is_bounded=True)), or pass a "
            "streaming DataFrame to from_dataframe",
            reason=Reason.UNSUPPORTED,
        )

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream:
        """A bounded stream of the lines of a file, or of all files of a folder.

        The charset must be one of Spark's `decode`, in which a line ends with the byte of `\\n`.
        """
        # Spark reads a single file as a stream only if the path is a pattern.
        path = f"{file_path[:-1]}[{file_path[-1]}]" if file_path[-1:].isalnum() else file_path
        lines = self._spark.readStream.format("text").load(path)
        if charset_name.upper() != "UTF-8":
            # Spark keeps the bytes of a line as they are.
            raw = F.col("value").cast("binary")
            lines = lines.select(F.decode(raw, charset_name).alias("value"))
        return self._stream_of(
            SourceNode(
                dataframe=lines,
                columns=Columns.of_output(Types.STRING()),
                is_bounded=True,
                given_name="Text File Source",
            )
        )

    def _stream_of(self, node: SourceNode) -> DataStream:
        return DataStream(self._as_stream_environment(), node)


def _typed_frame(
    session: SparkSession, elements: list[Any], given: object
) -> tuple[TypeInfo, DataFrame]:
    if given is not None:
        info = type_info(given)
        return info, collection_frame(session, elements, info)
    info = type_of_values(elements, "from_collection")
    try:
        return info, collection_frame(session, elements, info)
    except UserFunctionError as problem:
        _log.warning(
            "from_collection: the elements are pickled, because they do not all fit their type: "
            "%s. Pass type_info to make them readable for Spark and for queries",
            problem,
        )
        info = Types.PICKLED_BYTE_ARRAY()
        return info, collection_frame(session, elements, info)


def _check_type(node: SourceNode, given: object, name: str) -> None:
    wanted = type_info(given)
    found = node.columns.element_type(node.columns.names, "from_source")
    if found != wanted:
        raise InvalidRequestError(
            f"from_source({name!r}): its rows are {found}, but type_info is {wanted}: cast the "
            "columns in a DataFrame and use from_dataframe, or leave type_info out"
        )
