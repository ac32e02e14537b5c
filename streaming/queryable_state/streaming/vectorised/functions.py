"""Functions with state over Arrow columns: `KeyedBatchProcessFunction` and its arguments.

A task runs one subtask of an operator for one batch. Its call order is:

- `open` once. It declares every state.
- `process_batch` for each **chunk**: consecutive rows of the task's input in this batch. The chunk
  has all rows of the task, or about 65,536 rows if there are more. Rows of one key are in the order
  of `key_by`, else in arrival order.
- `close` once at the end, also if `open` or a chunk failed.

A key may be in several chunks of one batch: a later chunk reads what an earlier chunk has written.
Where Spark divides the input into batches and chunks may change from run to run. The state does
not depend on it if the function folds the rows of a key, in their order, into the value of the
key. The same condition holds for output rows that depend on one input row and the value of its key
at that row. One output row per key **of the chunk** depends on the division.

Each task has its own copy of the function: attributes do not survive the batch, only state does.
The driver opens and closes a copy to learn its states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from queryable_state.streaming.stateless.task_info import TaskInfo
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    import numpy.typing as npt
    import pyarrow as pa

    from queryable_state.streaming.descriptors import ValueStateDescriptor

    Column: TypeAlias = pa.Array | pa.ChunkedArray | npt.NDArray[Any]
    Rows: TypeAlias = pa.Table | pa.RecordBatch
    Selection: TypeAlias = pa.Array | npt.NDArray[Any] | Sequence[bool] | Sequence[int]
    """A mask with one boolean per key, in which null selects nothing, or positions of keys."""


@dataclass(frozen=True, kw_only=True)
class BatchKeys:
    """The distinct keys of a chunk."""

    values: pa.Array
    """The distinct keys, in the order of their first rows; a struct if there are several key
    columns."""
    indices: pa.Int64Array
    """For each row of the chunk, the position of its key in `values`."""

    def __len__(self) -> int:
        return len(self.values)


class ValueColumn(ABC):
    """The values of a `ValueState` for all keys of a chunk, aligned with `BatchKeys.values`.

    As with every state, a read returns the stored form of a written value: a FLOAT is rounded, a
    map has each of its keys once. A pickled value is the bytes of its pickle.
    """

    @abstractmethod
    def values(self) -> pa.Array:
        """The value of each key; null if the key has none. Values of a row type are a struct."""

    @abstractmethod
    def update(self, values: Column | Rows, where: Selection | None = None) -> None:
        """Replaces the values of all keys, or of the selected ones; null removes a value.

        `values` has one value per selected key, in the order of the selection. Values of a row
        type are a struct column, or a table or record batch with one column per field, in any
        order. Positions must be distinct. Raises SerializationError if the state's type cannot
        hold a value.
        """

    @abstractmethod
    def clear(self, where: Selection | None = None) -> None:
        """Removes the values of all keys, or of the selected ones."""


class BatchState(ABC):
    """The declared states by name, and the clocks of the batch."""

    @abstractmethod
    def __getitem__(self, name: str) -> ValueColumn:
        """The state of this name; raises InvalidRequestError if `open` did not declare it."""

    @abstractmethod
    def timestamp(self) -> int:
        """Processing time of the batch in milliseconds since the epoch; a replay has the same."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Event-time watermark in milliseconds since the epoch; -2**63 before the first one."""


class BatchRuntimeContext(TaskInfo):
    """States, name and subtask of the task that opens a `KeyedBatchProcessFunction`."""

    @abstractmethod
    def get_state(self, descriptor: ValueStateDescriptor) -> ValueColumn:
        """Declares a value state; `process_batch` also finds it in `state` by its name."""

    def get_list_state(self, descriptor: object) -> NoReturn:
        """Raises InvalidRequestError: only value states have columns."""
        raise _no_columns("list", descriptor)

    def get_map_state(self, descriptor: object) -> NoReturn:
        """Raises InvalidRequestError: only value states have columns."""
        raise _no_columns("map", descriptor)

    def get_reducing_state(self, descriptor: object) -> NoReturn:
        """Raises InvalidRequestError: only value states have columns."""
        raise _no_columns("reducing", descriptor)

    def get_aggregating_state(self, descriptor: object) -> NoReturn:
        """Raises InvalidRequestError: only value states have columns."""
        raise _no_columns("aggregating", descriptor)


class KeyedBatchProcessFunction(ABC):
    """A function with state over the Arrow columns of a keyed stream."""

    def open(self, runtime_context: BatchRuntimeContext) -> None:  # noqa: B027 - optional
        """Declares the states and acquires resources of the task."""

    @abstractmethod
    def process_batch(
        self, keys: BatchKeys, table: pa.Table, state: BatchState
    ) -> Column | Rows | Iterable[Column | Rows] | None:
        """Processes one chunk; returns or yields any number of output rows, None for no output.

        `table` has the columns of the stream, without those that a `key_by` function computed.
        Outputs are tables or record batches with the columns of the output type, in any order. If
        the output type is not a row, they may be bare columns. `state` is valid during the call.
        """

    def close(self) -> None:  # noqa: B027 - optional to override
        """Releases the resources that `open` acquired."""


def _no_columns(kind: str, descriptor: object) -> InvalidRequestError:
    return InvalidRequestError(
        f"{descriptor!r}: a KeyedBatchProcessFunction has value states only: use a "
        f"KeyedProcessFunction for a {kind} state, or a ValueStateDescriptor with a list, map or "
        "row type",
        reason=Reason.UNSUPPORTED,
    )
