"""DataFrame of a chain: one Python stage over the rows of its upstreams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.operators.spec import columns_of
from queryable_state.streaming.runtime.stateless.chain import (
    ChainInput,
    ChainSpec,
    KeySpec,
    StepSpec,
)
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.spark.own_functions import with_own_functions
from queryable_state.streaming.spark.plan.columns import column, mapped_in_arrow, tagged_union
from queryable_state.streaming.spark.types import schema
from queryable_state.streaming.spark.worker.chain_function import ChainFunction
from queryable_state.wire.schema.types import Field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from queryable_state.streaming.graph.chains import Chain
    from queryable_state.streaming.graph.nodes import StreamNode, TransformNode
    from queryable_state.streaming.runtime.columns.tagged_rows import TaggedRows


def chained(chain: Chain, frames: Sequence[DataFrame]) -> tuple[DataFrame, TaggedRows | None]:
    """The output rows of a chain over the DataFrames of its upstreams, and their layout; None: they
    are not tagged."""
    spec = chain_spec(chain)
    layout = spec.input_layout
    if layout is None:
        (frame,) = frames
        rows = frame.select(*(column(field.name) for field in spec.inputs[0].columns))
    else:
        rows = tagged_union(
            [
                (frame, [(stream, [column(field.name) for field in each.columns])])
                for stream, (frame, each) in enumerate(zip(frames, spec.inputs, strict=True))
            ],
            layout,
        )
    function = ChainFunction(spec)
    return mapped_in_arrow(rows, function, schema(spec.output_fields)), spec.output_layout


def chain_spec(chain: Chain) -> ChainSpec:
    """The specification of a chain for its tasks."""
    nodes, keys = chain.nodes, None
    if nodes[-1].keys is not None:
        nodes, keys = nodes[:-1], _keys(nodes[-1])
    return ChainSpec(
        inputs=tuple(_input(each, timed=chain.reads_event_time) for each in chain.upstreams),
        steps=tuple(
            StepSpec(name=node.name, step=step, output_type=node.output_type)
            for node, step in zip(
                nodes, with_own_functions(node.step for node in nodes), strict=True
            )
        ),
        keys=keys,
        side_outputs=tuple((tag.tag_id, tag.type_info) for tag in chain.last.side_outputs),
        parts=chain.parts,
        emits_event_time=chain.emits_event_time,
        output_rows=RuntimeSettings().output_rows,
    )


def _keys(node: TransformNode) -> KeySpec:
    assert node.keys is not None
    return KeySpec(
        step=node.step,
        name=node.name,
        fields=node.keys.fields,
        value_type=node.keys.value_type,
    )


def _input(upstream: StreamNode, *, timed: bool) -> ChainInput:
    columns = upstream.columns
    element_type = columns.element_type(columns.names, "a function")
    fields = columns_of(element_type)
    if columns.bare:
        fields = (Field(columns.names[0], element_type),)
    return ChainInput(
        fields=fields,
        element_type=element_type,
        event_time=columns.timestamps if timed else "",
    )
