"""The stores and column families of one operator, with codecs of their raw records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError
from queryable_state.server.native_state.operators.operator_names import operator_name
from queryable_state.server.native_state.operators.state_layout import StateDefinition
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from queryable_state.server.native_state.files.operator_metadata import OperatorMetadata
    from queryable_state.server.native_state.files.store_schema import (
        ColumnFamilySchema,
        StoreSchema,
    )
    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.wire.schema.type_model import Field

DEFAULT_STORE = "default"
DEFAULT_FAMILY = "default"


class ValueRows(Protocol):
    """Codec of the raw values of one column family."""

    fields: Sequence[Field]

    def decode(self, raw_value: bytes) -> Columns:
        """The row of a raw value."""

    def decode_all(self, raw_value: bytes) -> list[Columns]:
        """The rows of a raw value with several of them."""


class OperatorTables:
    """What the checkpoint says of one operator, as its states need it."""

    def __init__(
        self,
        metadata: OperatorMetadata,
        schemas: Mapping[str, StoreSchema],
        conf: Mapping[str, str],
        family_ids: Mapping[str, int],
    ) -> None:
        """`schemas` are by store name; `conf` is the configuration in the newest offsets.

        `family_ids` are the ids of column families by name; empty: stores have no families.
        """
        self.metadata = metadata
        self.name = operator_name(metadata, schemas)
        """Spark's name of the operator."""
        self._schemas = schemas
        self._conf = conf
        self._family_ids = family_ids

    def source(self, store: str = DEFAULT_STORE) -> int:
        """The number of a store among those of a partition."""
        for source, known in enumerate(self.metadata.stores):
            if known.name == store:
                return source
        raise self.damaged(f"it has no store {store!r}")

    def families(self, store: str = DEFAULT_STORE) -> Mapping[str, ColumnFamilySchema]:
        """The column families of a store by name."""
        schema = self._schemas.get(store)
        if schema is None:
            raise self.damaged(f"store {store!r} has no schema")
        return schema.column_families

    def format_version(self, setting: str, known: Sequence[str], default: str) -> str:
        """The state format that the query recorded in its offsets; `default` if it has not.

        Raises `UnsupportedFormatError` unless it is a known one.
        """
        version = self._conf.get(setting, default)
        if version not in known:
            raise self.unsupported(f"{setting} {version}, known are {', '.join(known)}")
        return version

    def definition(self, *, partitions: int | None = None, **facts: Any) -> StateDefinition:
        """The definition of a state of this operator.

        `facts` are the other fields of `StateDefinition`. `partitions` None: those of the stores.
        """
        return StateDefinition(
            operator_id=self.metadata.operator_id,
            spark_name=self.name,
            partitions=self.metadata.partitions if partitions is None else partitions,
            **{"name": "", **facts},
        )

    def unsupported(self, what: str) -> UnsupportedFormatError:
        """The error of a stored form that this version does not read."""
        return UnsupportedFormatError(
            f"operator {self.metadata.operator_id} ({self.name}) has {what}: use a newer "
            "version of this library"
        )

    def damaged(self, what: str) -> CorruptDataError:
        """The error of an operator whose metadata or schemas contradict each other."""
        return CorruptDataError(
            f"the checkpoint describes operator {self.metadata.operator_id} "
            f"({self.name}) wrongly: {what}"
        )
