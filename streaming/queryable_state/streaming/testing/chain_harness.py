"""Harness that runs a chain of functions without keys over batches of elements."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from queryable_state.streaming.datastream import DataStream
from queryable_state.streaming.graph.chains import Chain
from queryable_state.streaming.graph.declarations import Declarations
from queryable_state.streaming.graph.declared_job import NextJob
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import (
    OperatorNode,
    SourceNode,
    TransformNode,
    WatermarkNode,
)
from queryable_state.streaming.runtime.operators.outputs import Outputs
from queryable_state.streaming.runtime.operators.spec import columns_of
from queryable_state.streaming.runtime.stateless.chain import ChainTask
from queryable_state.streaming.runtime.stateless.elements import ElementReader
from queryable_state.streaming.spark.plan.chain_frame import chain_spec
from queryable_state.streaming.testing.side_rows import SideRows
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.stateless.output_tag import OutputTag

_MAIN: Final = 0


class ChainHarness:
    """Functions without keys, run batch by batch on lists of elements.

    `program` applies the functions to streams with elements of the input types, with the calls of a
    job's program, and returns the stream to test. Its functions are one chain, so they run in one
    task per partition. As in Spark each task has its own copy of the functions, which it opens and
    closes.

        harness = ChainHarness(
            lambda readings: readings.map(to_celsius, READING).filter(is_hot), READING
        )
        assert harness.process([("s1", 212.0), ("s2", 32.0)]) == [("s1", 100.0)]
    """

    def __init__(
        self,
        program: Callable[..., DataStream],
        *input_types: object,
        event_times: Sequence[str] = (),
        side_outputs: Sequence[OutputTag] = (),
        parallelism: int = 1,
        chunk_rows: int = 10_000,
    ) -> None:
        """`event_times` has, for each input, the column with the timestamps of its elements; an
        empty name: its elements have none. `side_output` returns the outputs of `side_outputs`.
        `chunk_rows` bounds the rows of an Arrow batch."""
        self.batch_id = 0
        """The next batch."""
        self._sources = _sources(input_types, event_times)
        environment: Any = _Environment()
        made = program(*(DataStream(environment, node) for node in self._sources))
        nodes = _chained(made, self._sources)
        for tag in side_outputs:
            made.get_side_output(tag)
        self._tags = nodes[-1].side_outputs
        parts = tuple(range(len(self._tags) + 1))
        self._spec = chain_spec(Chain(nodes=nodes, parts=parts, is_shared=False))
        self._parallelism = parallelism
        self._chunk_rows = chunk_rows
        types = [self._spec.output_type, *(tag.type_info for tag in self._tags)]
        self._readers = [ElementReader(columns_of(each), each) for each in types]
        self._sides = SideRows(self._tags)

    def process(self, *inputs: Iterable[Any]) -> list[Any]:
        """Runs a batch, whose elements are dealt to the partitions in turn; returns the outputs.

        The outputs of a partition follow those of the partition before it. There is one argument
        per input; within a partition the functions get the first input's elements first.
        """
        if len(inputs) != len(self._sources):
            raise InvalidRequestError(
                f"the program has {len(self._sources)} inputs, but process() got the elements of "
                f"{len(inputs)}"
            )
        elements = [list(each) for each in inputs]
        outputs: list[Any] = []
        self._sides.clear()
        for partition in range(self._parallelism):
            own = [each[partition :: self._parallelism] for each in elements]
            where = f", partition {partition} of batch {self.batch_id}"
            task = ChainTask(copy.deepcopy(self._spec), partition, where)
            for batch in task.run(self._batches(own)):
                self._take(batch, outputs)
        self.batch_id += 1
        return outputs

    def side_output(self, tag: OutputTag) -> list[Any]:
        """The values that the last `process` emitted with this tag."""
        return self._sides.of(tag)

    def _batches(self, inputs: Sequence[list[Any]]) -> Iterator[pa.RecordBatch]:
        """The batches that Spark would pass to a task for these elements of each input."""
        layout = self._spec.input_layout
        for number, (elements, of) in enumerate(zip(inputs, self._spec.inputs, strict=True)):
            rows = Outputs(of.element_type, self._chunk_rows, f"input {number + 1} of the harness")
            rows.rows.extend(elements)
            for batch in rows.all_batches():
                yield batch if layout is None else layout.tagged(number, batch)

    def _take(self, batch: pa.RecordBatch, outputs: list[Any]) -> None:
        """Adds the rows of a batch to `outputs`, and those of side outputs to theirs."""
        layout = self._spec.output_layout
        for part, rows in [(_MAIN, batch)] if layout is None else layout.split(batch):
            elements = self._readers[part](rows)
            if part == _MAIN:
                outputs += elements
            else:
                self._sides.add(self._tags[part - 1], elements)


class _Environment(Declarations):
    """The part of an environment that streams without a job need."""

    def __init__(self) -> None:
        self._next = NextJob()


def _sources(input_types: Sequence[object], event_times: Sequence[str]) -> list[SourceNode]:
    if not input_types:
        raise InvalidRequestError("the harness has no input: pass the type of its elements")
    sources = []
    for info, event_time in zip(input_types, event_times or [""] * len(input_types), strict=True):
        columns = Columns.of_output(type_info(info))
        if event_time and event_time not in columns.names:
            raise InvalidRequestError(
                f"event_times: no column {event_time!r}; the columns are {', '.join(columns.names)}"
            )
        timed = Columns(
            columns.types,
            bare=columns.bare,
            event_time=event_time or None,
            python_class=columns.python_class,
        )
        unread: Any = None
        sources.append(SourceNode(dataframe=unread, columns=timed))
    return sources


def _chained(made: object, sources: Sequence[SourceNode]) -> tuple[TransformNode, ...]:
    """The functions between the inputs and a stream; raises if they are not one chain."""
    if not isinstance(made, DataStream):
        raise InvalidRequestError(
            f"the program must return a stream without keys, not {made!r}: test functions of keyed "
            "streams with KeyedOperatorHarness or TwoInputOperatorHarness"
        )
    node: StreamNode = made._node
    nodes: list[TransformNode] = []
    while isinstance(node, TransformNode | WatermarkNode):
        if isinstance(node, WatermarkNode):
            node = node.upstream
            continue
        nodes.insert(0, node)
        if len(node.upstreams) > 1:
            break
        (node,) = node.upstreams
    if isinstance(node, OperatorNode):
        raise InvalidRequestError(
            f"the program has the operator {node.name!r}, which has state and runs in a task of "
            "its own: test its function with the harness of its kind (UnkeyedOperatorHarness for "
            "operator state without keys)"
        )
    read = nodes[0].upstreams if nodes else ()
    if list(map(id, read)) != list(map(id, sources)):
        raise InvalidRequestError(
            f"{made!r} is not one chain of functions (map, flat_map, filter, process) over the "
            f"{len(sources)} inputs: connect() joins the inputs themselves, and what "
            "distributes, unites or divides streams is Spark's; test the functions on both sides "
            "apart"
        )
    return tuple(nodes)
