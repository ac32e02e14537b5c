"""Chains of functions run on lists of elements, as a Spark task would run them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from queryable_state.streaming.datastream import DataStream
from queryable_state.streaming.graph.chains import Chain
from queryable_state.streaming.graph.declarations import Declarations
from queryable_state.streaming.graph.declared_job import NextJob
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import SourceNode, TransformNode
from queryable_state.streaming.runtime.columns.event_time import EVENT_TIME_COLUMN
from queryable_state.streaming.runtime.operators.outputs import Outputs
from queryable_state.streaming.runtime.operators.spec import columns_of
from queryable_state.streaming.runtime.stateless.chain import ChainSpec, ChainTask
from queryable_state.streaming.runtime.stateless.elements import ElementReader
from queryable_state.streaming.spark.plan.chain_frame import chain_spec
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from queryable_state.wire.schema.types import TypeInfo


class _Environment(Declarations):
    """The part of an environment that these streams need."""

    def __init__(self) -> None:
        self._next = NextJob()


def stream(element: object, event_time: str | None = None) -> DataStream:
    """A stream of elements of a type, without a DataFrame."""
    columns = Columns.of_output(type_info(element))
    columns = Columns(columns.types, bare=columns.bare, event_time=event_time)
    node = SourceNode(dataframe=None, columns=columns)  # type: ignore[arg-type]  # never read
    environment: Any = _Environment()
    return DataStream(environment, node)


def run(
    made: DataStream, *inputs: Iterable[Any], side: str | None = None, cut: int = 3
) -> list[Any]:
    """The outputs of the functions from the sources to this stream; or those of a side output.

    Elements arrive in batches of `cut`. Like a task, the chain works on a copy of the functions.
    """
    info, batches = _run(made, inputs, side, cut, timed=False)
    return list(itertools.chain.from_iterable(map(ElementReader(columns_of(info), info), batches)))


def run_timed(
    made: DataStream, *inputs: Iterable[Any], side: str | None = None, cut: int = 3
) -> list[tuple[Any, int | None]]:
    """As `run`: each output with its timestamp."""
    info, batches = _run(made, inputs, side, cut, timed=True)
    read = ElementReader(columns_of(info), info)
    return [
        pair
        for batch in batches
        for pair in zip(read(batch), batch.column(EVENT_TIME_COLUMN).to_pylist(), strict=True)
    ]


def _run(
    made: DataStream,
    inputs: Sequence[Iterable[Any]],
    side: str | None,
    cut: int,
    *,
    timed: bool,
) -> tuple[TypeInfo, Iterable[pa.RecordBatch]]:
    """The type and the batches of the outputs."""
    spec, info = specification(made, side, timed=timed)
    batches = [
        rows if spec.input_layout is None else spec.input_layout.tagged(number, rows)
        for number, elements in enumerate(inputs)
        for rows in batches_of(spec.inputs[number].element_type, elements, cut)
    ]
    return info, ChainTask(spec, 0).run(batches)


def specification(
    made: DataStream, side: str | None = None, *, timed: bool = False
) -> tuple[ChainSpec, TypeInfo]:
    """What a task runs, and the type of the stream or of its side output, which alone is read."""
    node = made._node
    nodes: list[TransformNode] = []
    while isinstance(node, TransformNode):
        nodes.insert(0, node)
        node = node.upstreams[0]
    tags = [tag.tag_id for tag in nodes[-1].side_outputs]
    part = 0 if side is None else tags.index(side) + 1
    spec: ChainSpec = cloudpickle.loads(
        cloudpickle.dumps(  # type: ignore[no-untyped-call]
            chain_spec(
                Chain(nodes=tuple(nodes), parts=(part,), is_shared=False, emits_event_time=timed)
            )
        )
    )
    return spec, spec.output_type if part == 0 else nodes[-1].side_outputs[part - 1].type_info


def batches_of(info: Any, elements: Iterable[Any], cut: int) -> Iterable[pa.RecordBatch]:
    """Batches of elements, each with at most `cut` of them."""
    outputs = Outputs(info, cut, "the input")
    outputs.rows.extend(elements)
    return outputs.all_batches()
