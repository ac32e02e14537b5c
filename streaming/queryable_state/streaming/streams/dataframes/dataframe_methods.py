"""The methods of a stream that take or give DataFrames."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from queryable_state.streaming.streams.multiple_inputs import lookup

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.operator_handles import StreamEnvironment

S = TypeVar("S")


class DataFrameMethods(Generic[S]):
    """Functions of DataFrames on a stream; S is the class of the resulting stream."""

    _environment: StreamEnvironment
    _node: StreamNode

    @abstractmethod
    def _stream_of(self, node: Any) -> S:
        """The stream of a node."""

    def transform(self, function: Callable[[DataFrame], DataFrame]) -> S:
        """Applies a function of DataFrames, as `DataFrame.transform` does: `select`, `where`, join.

        The function must be deterministic and keep no state between batches: Spark's own
        aggregations, `dropDuplicates`, joins of streams and limits are refused. The elements keep
        their event time if it is a column that the function keeps; behind a `map` it is not.
        """
        return self._stream_of(self._environment._transformed(self._node, function))

    def lookup_join(self, dataframe: DataFrame, on: str | list[str], how: str = "left") -> S:
        """Joins each element with a static DataFrame (`inner` or `left`) by columns of both.

        Spark reads the DataFrame in each batch; `cache()` it if that is expensive.
        """
        joined = lookup(dataframe, on, how)
        made = self._environment._transformed(self._node, joined, keeps_columns=True)
        return self._stream_of(made)

    def to_dataframe(self) -> DataFrame:
        """The stream as an ordinary streaming DataFrame.

        The caller starts it with `writeStream`, with any sink; then its state is queryable.
        `env.execute` does not run it. A query with the trigger `realTime` or `continuous` fails.
        """
        return self._environment._dataframe_of(self._node)
