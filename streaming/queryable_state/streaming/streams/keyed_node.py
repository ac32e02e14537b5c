"""Keys and elements of a keyed stream, and the nodes of operators on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import OperatorInput, OperatorNode
from queryable_state.streaming.runtime.operators.operators import Aggregate

if TYPE_CHECKING:
    from queryable_state.streaming.graph.keys import KeySelector
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.operator_handles import StreamEnvironment
    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.operators import Operator
    from queryable_state.wire.schema.types import TypeInfo


class KeyedNode:
    """What the operators of a keyed stream read."""

    _environment: StreamEnvironment
    _node: StreamNode
    """The node with the columns of the elements and of the key."""
    _columns: Columns
    """Columns of the elements."""
    _keys: KeySelector
    _order: tuple[OrderColumn, ...]

    def _element(self, purpose: str) -> TypeInfo:
        return self._columns.element_type(self._columns.names, purpose)

    def _add(
        self,
        kind: str,
        operator: Operator,
        names: tuple[str, ...],
        value_type: TypeInfo | None,
        output: TypeInfo | None,
    ) -> OperatorNode:
        assert value_type is not None, "only an aggregating state may have no value type"
        return self._environment._add_operator(
            OperatorNode(
                inputs=(
                    OperatorInput(
                        upstream=self._node,
                        keys=self._keys,
                        value_columns=names,
                        value_type=value_type,
                        order=() if isinstance(operator, Aggregate) else self._order,
                    ),
                ),
                kind=kind,
                operator=operator,
                output_type=output,
                columns=Columns({}) if output is None else Columns.of_output(output),
            )
        )
