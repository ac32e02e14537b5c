"""Metadata of stateful operators, `state/OPERATOR/_metadata`, versions 1 and 2.

Spark 3.5 writes none; there the folders say which stores and partitions an operator has.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.files.checkpoint_logs import versioned_lines
from queryable_state.server.native_state.files.outcomes import damaged

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_STORE = "default"

_VERSIONS = (1, 2)


@dataclass(frozen=True, slots=True)
class StoreMetadata:
    """One store of an operator; each partition has one of this name."""

    name: str

    partitions: int

    prefix_columns: int
    """Leading columns of the key by which the operator scans, 0: none."""

    schema_files: tuple[str, ...] = ()
    """Names of the schema files of version 3, oldest first, as Spark recorded their URIs. Empty:
    the schema is in partition 0."""


@dataclass(frozen=True, slots=True)
class OperatorMetadata:
    """One stateful operator of a query."""

    operator_id: int

    name: str
    """Spark's name of the operator, such as `stateStoreSave`; empty if Spark recorded none."""

    stores: tuple[StoreMetadata, ...]
    """Sorted by name."""

    properties: Mapping[str, Any] = field(default_factory=dict)
    """Properties of the operator as JSON: state variables and time mode of transformWithState."""

    version: int = 1
    """Version of the metadata; also 1 if Spark wrote none."""

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return self.stores[0].partitions

    def with_partitions(self, recorded: str) -> OperatorMetadata:
        """The operator with the number of partitions that the settings of a batch name.

        Metadata of version 1 is never rewritten, so that a repartitioned query shows its new
        number only there. Version 2 has its own for each number. Empty: no setting.
        """
        if self.version > 1 or not recorded.isdigit() or int(recorded) == self.partitions:
            return self
        stores = tuple(replace(store, partitions=int(recorded)) for store in self.stores)
        return replace(self, stores=stores)


def parse_operator(data: bytes, file: str) -> OperatorMetadata:
    """Parses a metadata file; raises CorruptDataError or UnsupportedFormatError."""
    version, lines = versioned_lines(data, _VERSIONS, file)
    try:
        content = json.loads("\n".join(lines))
        info = content["operatorInfo"]
        stores = [
            StoreMetadata(
                name=str(store["storeName"]),
                partitions=int(store["numPartitions"]),
                prefix_columns=int(store["numColsPrefixKey"]),
                schema_files=tuple(str(path) for path in store.get("stateSchemaFilePaths") or ()),
            )
            for store in content["stateStoreInfo"]
        ]
        properties = content.get("operatorPropertiesJson") or "{}"
        operator = OperatorMetadata(
            operator_id=int(info["operatorId"]),
            name=str(info["operatorName"]),
            stores=tuple(sorted(stores, key=lambda store: store.name)),
            properties=json.loads(properties),
            version=version,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise damaged(file, f"it does not describe an operator ({problem!r})") from problem
    if not operator.stores or len({store.partitions for store in operator.stores}) > 1:
        raise damaged(file, "it does not name stores of one number of partitions")
    return operator
