"""Operators of Spark 3.5, whose checkpoints do not name them."""

from __future__ import annotations

import json

import pytest

from queryable_state.server.native_state.files.operator_metadata import (
    OperatorMetadata,
    StoreMetadata,
)
from queryable_state.server.native_state.files.store_schema import (
    ColumnFamilySchema,
    KeyEncoder,
    StoreSchema,
)
from queryable_state.server.native_state.operators.operator_names import operator_name


def schema(keys: dict[str, str], values: dict[str, str]) -> StoreSchema:
    def struct(columns: dict[str, str]) -> str:
        fields = [{"name": name, "type": kind, "nullable": True} for name, kind in columns.items()]
        return json.dumps({"type": "struct", "fields": fields})

    encoder = KeyEncoder("NoPrefixKeyStateEncoderSpec")
    family = ColumnFamilySchema("default", struct(keys), struct(values), encoder)
    return StoreSchema({"default": family})


CITY = {"city": "string"}
COUNT = {"count": "long"}


@pytest.mark.parametrize(
    ("keys", "values", "name"),
    [
        (CITY, COUNT, "stateStoreSave"),
        ({}, COUNT, "stateStoreSave"),
        (CITY, {"__dummy__": "void"}, "dedupe"),
        (CITY, {"expiresAtMicros": "long"}, "dedupeWithinWatermark"),
        ({**CITY, "sessionStartTime": "timestamp"}, COUNT, "sessionWindowStateStoreSaveExec"),
        (CITY, {"groupState": "string", "timeoutTimestamp": "long"}, "flatMapGroupsWithState"),
        ({"key": "void"}, {"value": "long"}, "globalLimit"),
    ],
)
def test_columns_tell_operators_apart(
    keys: dict[str, str], values: dict[str, str], name: str
) -> None:
    """Without a recorded name the schemas of keys and values say which operator it is."""
    nameless = OperatorMetadata(0, "", (StoreMetadata("default", 1, 0),))
    assert operator_name(nameless, {"default": schema(keys, values)}) == name


def test_the_stores_of_a_join_tell_it_apart() -> None:
    """A join has four stores of fixed names."""
    stores = ("left-keyToNumValues", "left-keyWithIndexToValue")
    nameless = OperatorMetadata(0, "", tuple(StoreMetadata(store, 1, 0) for store in stores))
    schemas = {store: schema(CITY, {"value": "long"}) for store in stores}
    assert operator_name(nameless, schemas) == "symmetricHashJoin"


def test_a_recorded_name_counts() -> None:
    """From Spark 4.0 on the metadata has the name."""
    named = OperatorMetadata(0, "futureExec", (StoreMetadata("default", 1, 0),))
    assert operator_name(named, {}) == "futureExec"
