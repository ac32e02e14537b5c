"""The stores and column families of one operator, with codecs of their raw records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError
from queryable_state.server.native_state.files.query_checkpoint import (
    MERGE_OPERATOR_VERSION,
    PROVIDER_CLASS,
    ROW_CHECKSUMS,
)
from queryable_state.server.native_state.files.store_files import Provider
from queryable_state.server.native_state.operators.layouts.family_keys import FamilyKeys
from queryable_state.server.native_state.operators.layouts.key_transcoding import (
    key_transcoder,
)
from queryable_state.server.native_state.operators.layouts.text_ranges import text_row_start
from queryable_state.server.native_state.operators.operator_names import operator_name
from queryable_state.server.native_state.operators.state_layout import StateDefinition
from queryable_state.server.native_state.operators.stored_rows import (
    DecodedStoredRows,
    Framing,
    StoredRows,
    UnsafeStoredRows,
)
from queryable_state.server.native_state.rows.avro_row import AvroForm, avro_row_codec
from queryable_state.server.native_state.rows.key_encoders import key_encoder
from queryable_state.server.native_state.rows.spark_types import parse_struct
from queryable_state.server.native_state.rows.type_infos import key_type_of
from queryable_state.server.native_state.rows.unsafe_form import UNSAFE_ROWS
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from queryable_state.server.native_state.files.operator_metadata import OperatorMetadata
    from queryable_state.server.native_state.files.store_schema import (
        ColumnFamilySchema,
        StoreSchema,
    )
    from queryable_state.wire.schema.type_model import Field

ENCODING_FORMAT = "spark.sql.streaming.stateStore.encodingFormat"
DEFAULT_STORE = "default"
DEFAULT_FAMILY = "default"

_TIMESTAMP_BYTES = 8
_UNSAFE_ROW = "unsaferow"
_AVRO = "avro"


class OperatorTables:
    """The metadata and schemas of one operator, as read from the checkpoint."""

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
        self.has_row_checksums = conf.get(ROW_CHECKSUMS) == "true"
        """True if stored values have checksums."""
        is_rocksdb = conf.get(PROVIDER_CLASS, "").endswith(Provider.ROCKSDB.value)
        self._framing = Framing(
            # Version 1 of the merge operator has a comma between values, version 2 nothing.
            delimiter_bytes=0 if conf.get(MERGE_OPERATOR_VERSION) == "2" else 1,
            # `physical_form` makes raw values without checksums of those of the other provider.
            has_checksums=self.has_row_checksums and is_rocksdb,
        )

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

    def key_fields(
        self, store: str = DEFAULT_STORE, family: str = DEFAULT_FAMILY
    ) -> tuple[Field, ...]:
        """The columns of the raw keys of a family, as keys have them: any may be null."""
        return key_type_of(parse_struct(self._family(store, family).key_schema)).fields

    def raw_keys(self, store: str = DEFAULT_STORE, family: str = DEFAULT_FAMILY) -> FamilyKeys:
        """The codec of the raw keys of a family."""
        schema = self._family(store, family)
        struct_type = parse_struct(schema.key_schema)
        is_avro = self._is_avro()
        encoder = key_encoder(
            schema.encoder.kind,
            struct_type,
            prefix_columns=schema.encoder.prefix_columns,
            ordering_ordinals=schema.encoder.ordering_ordinals,
            form=AvroForm(schema.key_schema_id) if is_avro else UNSAFE_ROWS,
        )
        family_id = self._family_ids.get(family)
        if self._family_ids and family_id is None:
            raise self.damaged(f"column family {family!r} has no id")
        if is_avro:
            return FamilyKeys(encoder, family_id)
        fields = struct_type.fields
        match schema.encoder.kind:
            case "NoPrefixKeyStateEncoderSpec":
                text = text_row_start(fields)
                return FamilyKeys(encoder, family_id, key_transcoder(fields), 0, text)
            case "TimestampAsPostfixKeyStateEncoderSpec":
                columns = fields[:-1]
                transcoder, text = key_transcoder(columns), text_row_start(columns)
                return FamilyKeys(encoder, family_id, transcoder, _TIMESTAMP_BYTES, text)
            case "PrefixKeyScanStateEncoderSpec":
                text = text_row_start(fields[: schema.encoder.prefix_columns], is_prefix=True)
                return FamilyKeys(encoder, family_id, text_row_start=text)
            case _:
                return FamilyKeys(encoder, family_id)

    def value_rows(self, store: str = DEFAULT_STORE, family: str = DEFAULT_FAMILY) -> StoredRows:
        """The reader of the raw values of a family."""
        schema = self._family(store, family)
        if self._is_avro():
            schemas = {number: parse_struct(each) for number, each in schema.value_schemas.items()}
            codec = avro_row_codec(schemas, schema.value_schema_id)
            return DecodedStoredRows(codec, self._framing)
        return UnsafeStoredRows(parse_struct(schema.value_schema), self._framing)

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
        """The error for an operator whose metadata contradicts its schemas."""
        return CorruptDataError(
            f"the checkpoint describes operator {self.metadata.operator_id} "
            f"({self.name}) wrongly: {what}"
        )

    def _family(self, store: str, family: str) -> ColumnFamilySchema:
        schema = self.families(store).get(family)
        if schema is None:
            raise self.damaged(f"store {store!r} has no column family {family!r}")
        return schema

    def _is_avro(self) -> bool:
        """True for rows in Avro form; raises UnsupportedFormatError for an unknown form."""
        encoding = self._conf.get(ENCODING_FORMAT, _UNSAFE_ROW)
        if encoding not in (_UNSAFE_ROW, _AVRO):
            raise self.unsupported(
                f"{ENCODING_FORMAT} {encoding}, known are {_UNSAFE_ROW} and {_AVRO}"
            )
        return encoding == _AVRO
