"""Names of states within a query, and operators that this version does not know."""

from __future__ import annotations

from dataclasses import replace

from tests.native_state.operators.state_fixture import load

from queryable_state.server.native_state.files.operator_metadata import (
    OperatorMetadata,
    StoreMetadata,
)
from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError
from queryable_state.server.native_state.operators.operator_states import (
    queryable_names,
    states_of,
)
from queryable_state.server.native_state.operators.operator_tables import OperatorTables


def test_a_name_has_a_number_only_where_it_is_needed() -> None:
    """Two joins of one query are told apart by the numbers of their operators."""
    layouts = load("join-format-2").layouts
    left = layouts["left"].definition
    total = load("aggregation-global").layouts["aggregation"].definition
    assert queryable_names([left, total]) == ["left", "aggregation"]
    assert queryable_names([left, replace(left, operator_id=3), total]) == [
        "join_0.left",
        "join_3.left",
        "aggregation",
    ]
    assert queryable_names([total, replace(total, operator_id=1)]) == [
        "aggregation_0",
        "aggregation_1",
    ]


def test_an_unknown_operator_is_refused_by_its_name() -> None:
    """A newer Spark may have operators that this version cannot read."""
    metadata = OperatorMetadata(4, "futureExec", (StoreMetadata("default", 2, 0),))
    found = states_of([OperatorTables(metadata, {}, {}, {})])
    assert found.layouts == []
    (refusal,) = found.refusals
    assert isinstance(refusal, UnsupportedFormatError)
    assert "operator 4 (futureExec)" in str(refusal)
    assert "newer version" in str(refusal)
