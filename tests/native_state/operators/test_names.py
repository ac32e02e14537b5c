"""Names of states within a query, and operators that this version does not know."""

from __future__ import annotations

from dataclasses import replace

from tests.native_state.operators.state_fixture import load

from queryable_state.server.native_state.files.operator_metadata import (
    OperatorMetadata,
    StoreMetadata,
)
from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError
from queryable_state.server.native_state.files.store_schema import (
    NO_PREFIX,
    ColumnFamilySchema,
    KeyEncoder,
    StoreSchema,
)
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


def test_a_state_variable_that_cannot_be_read_does_not_hide_the_others() -> None:
    """A newer Spark may have kinds of state variables that this version does not know."""
    variables = [
        {"stateName": "counts", "stateVariableType": "FutureState", "ttlEnabled": False},
        {"stateName": "total", "stateVariableType": "ValueState", "ttlEnabled": False},
    ]
    metadata = OperatorMetadata(
        2,
        "transformWithStateExec",
        (StoreMetadata("default", 2, 0),),
        {"stateVariables": variables},
    )
    struct = '{"type":"struct","fields":[{"name":"value","type":"long","nullable":true}]}'
    family = ColumnFamilySchema("total", struct, struct, KeyEncoder(NO_PREFIX))
    schemas = {"default": StoreSchema({"total": family})}
    found = states_of([OperatorTables(metadata, schemas, {}, {"total": 2})])
    assert [layout.definition.queryable_name for layout in found.layouts] == ["total"]
    (refusal,) = found.refusals
    assert "state variable 'counts' of operator 2 is left out" in str(refusal)
    assert "FutureState" in str(refusal)
