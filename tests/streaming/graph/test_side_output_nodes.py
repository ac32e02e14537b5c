"""Only streams of functions that can emit side outputs have them."""

from __future__ import annotations

from typing import Any

import pytest

from queryable_state.streaming import OutputTag, Types
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import OperatorNode
from queryable_state.streaming.runtime.aggregates.aggregate import Aggregate
from queryable_state.streaming.stateless.side_output_node import side_output_node
from queryable_state.wire.errors import InvalidRequestError


def test_an_aggregate_has_no_side_output() -> None:
    """It would stay empty without a word."""
    operator: Any = Aggregate((), "sum")
    node = OperatorNode(
        inputs=(), kind="sum", operator=operator, output_type=None, columns=Columns({})
    )
    with pytest.raises(InvalidRequestError, match="only the stream that process"):
        side_output_node(node, OutputTag("late", Types.STRING()), "totals")
