"""Spark's names of stateful operators, also where a checkpoint does not have them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.native_state.files.operator_metadata import OperatorMetadata
    from queryable_state.server.native_state.files.store_schema import StoreSchema

AGGREGATION = "stateStoreSave"
SESSIONS = "sessionWindowStateStoreSaveExec"
DEDUPLICATION = "dedupe"
DEDUPLICATION_WITHIN_WATERMARK = "dedupeWithinWatermark"
JOIN = "symmetricHashJoin"
GROUPS = "flatMapGroupsWithState"
GROUPS_IN_PANDAS = "applyInPandasWithState"
LIMIT = "globalLimit"

_LEFT_COUNTS = "left-keyToNumValues"
_BY_FIRST_VALUE = {
    "__dummy__": DEDUPLICATION,
    "expiresAtMicros": DEDUPLICATION_WITHIN_WATERMARK,
    "groupState": GROUPS,
}


def operator_name(operator: OperatorMetadata, schemas: Mapping[str, StoreSchema]) -> str:
    """The name of an operator in Spark's operator metadata, such as `stateStoreSave`.

    Spark 3.5 does not record it: the stores and the columns of keys and values tell the operators
    of that version apart.
    """
    if operator.name:
        return operator.name
    if _LEFT_COUNTS in schemas:
        return JOIN
    schema = next(iter(schemas.values())).default
    keys, values = _columns(schema.key_schema), _columns(schema.value_schema)
    if keys == [("key", "void")]:
        return LIMIT
    if keys and keys[-1][0] == "sessionStartTime":
        return SESSIONS
    return _BY_FIRST_VALUE.get(values[0][0], AGGREGATION) if values else AGGREGATION


def _columns(schema: str) -> list[tuple[str, object]]:
    return [(field["name"], field["type"]) for field in json.loads(schema)["fields"]]
