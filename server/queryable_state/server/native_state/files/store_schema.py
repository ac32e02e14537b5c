"""Schemas of a store's keys and values, versions 1 to 3 of the schema file.

Versions 1 and 2 have the two schemas of the default column family. Version 3 has all column
families, and one file for each time that a schema evolved.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.files.java_data import JavaData
from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError, damaged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT_COLUMN_FAMILY = "default"
NO_PREFIX = "NoPrefixKeyStateEncoderSpec"
PREFIX_SCAN = "PrefixKeyScanStateEncoderSpec"
RANGE_SCAN = "RangeKeyScanStateEncoderSpec"

_ONE_TEXT = 1
_CHUNKED = 2
_COLUMN_FAMILIES = 3
_VERSION = re.compile(r"v([0-9]+)")


@dataclass(frozen=True, slots=True)
class KeyEncoder:
    """Spark's encoding of the keys of a column family."""

    kind: str
    """Spark's name of it, such as `PrefixKeyScanStateEncoderSpec`."""

    prefix_columns: int = 0
    """Of a prefix scan: leading columns of the key."""

    ordering_ordinals: tuple[int, ...] = ()
    """Of a range scan: positions of the columns that order the keys."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """The encoder's JSON."""


@dataclass(frozen=True, slots=True)
class ColumnFamilySchema:
    """Types of one column family. Schemas are Spark's JSON of a struct."""

    name: str
    key_schema: str
    value_schema: str
    encoder: KeyEncoder

    key_schema_id: int = 0
    value_schema_id: int = 0
    """The id of the newest schema, which evolved rows carry."""

    user_key_schema: str | None = None
    """Of map state: the type of the user's key."""

    value_schemas: Mapping[int, str] = field(default_factory=dict)
    """All value schemas by id: rows keep the id of the schema they were written with."""


@dataclass(frozen=True, slots=True)
class StoreSchema:
    """The key and value types of one state store, by column family."""

    column_families: Mapping[str, ColumnFamilySchema]
    """By name."""

    @property
    def default(self) -> ColumnFamilySchema:
        """The only column family of a store without others."""
        return self.column_families[DEFAULT_COLUMN_FAMILY]


def parse_schema(data: bytes, file: str, prefix_columns: int = 0) -> StoreSchema:
    """Parses a schema file; raises CorruptDataError or UnsupportedFormatError.

    `prefix_columns` comes from the operator's metadata; the file has it from version 3 on only.
    """
    source = JavaData(data, file)
    text = source.text()
    match = _VERSION.fullmatch(text)
    if not match:
        raise damaged(file, "it does not begin with a version")
    version = int(match[1])
    if version == _ONE_TEXT:
        families = [_plain(source.text(), source.text(), prefix_columns, file)]
    elif version == _CHUNKED:
        families = [_plain(source.chunked_text(), source.chunked_text(), prefix_columns, file)]
    elif version == _COLUMN_FAMILIES:
        families = [_family(source, file) for _ in range(source.int32())]
    else:
        raise UnsupportedFormatError(
            f"{file} is a state schema of version {version}, versions up to {_COLUMN_FAMILIES} are "
            "known: update this library"
        )
    if not source.at_end():
        raise damaged(file, "bytes follow its last schema")
    return StoreSchema({family.name: family for family in families})


def merge_schemas(schemas: Iterable[StoreSchema]) -> StoreSchema:
    """The newest schema of each column family, with all that it evolved from; oldest first."""
    merged: dict[str, ColumnFamilySchema] = {}
    for schema in schemas:
        for name, family in schema.column_families.items():
            before = merged.get(name)
            if before is None:
                merged[name] = family
                continue
            newest = family if family.value_schema_id >= before.value_schema_id else before
            merged[name] = replace(
                newest, value_schemas={**before.value_schemas, **family.value_schemas}
            )
    return StoreSchema(merged)


def _plain(key: str, value: str, prefix_columns: int, file: str) -> ColumnFamilySchema:
    _require_struct(key, file)
    _require_struct(value, file)
    encoder = KeyEncoder(PREFIX_SCAN, prefix_columns) if prefix_columns else KeyEncoder(NO_PREFIX)
    return ColumnFamilySchema(
        name=DEFAULT_COLUMN_FAMILY,
        key_schema=key,
        value_schema=value,
        encoder=encoder,
        value_schemas={0: value},
    )


def _family(source: JavaData, file: str) -> ColumnFamilySchema:
    name = source.text()
    key_id, key = source.int16(), source.chunked_text()
    value_id, value = source.int16(), source.chunked_text()
    encoder, user_key = source.chunked_text(), source.chunked_text()
    _require_struct(key, file)
    _require_struct(value, file)
    return ColumnFamilySchema(
        name=name,
        key_schema=key,
        value_schema=value,
        encoder=_encoder(encoder, file),
        key_schema_id=key_id,
        value_schema_id=value_id,
        user_key_schema=user_key if _is_struct(user_key) else None,
        value_schemas={value_id: value},
    )


def _encoder(text: str, file: str) -> KeyEncoder:
    try:
        options = json.loads(text)
        return KeyEncoder(
            kind=str(options["keyStateEncoderType"]),
            prefix_columns=int(options.get("numColsPrefixKey", 0)),
            ordering_ordinals=tuple(int(each) for each in options.get("orderingOrdinals") or ()),
            options=options,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise damaged(file, f"it does not name a key encoder ({problem!r})") from problem


def _require_struct(text: str, file: str) -> None:
    if not _is_struct(text):
        raise damaged(file, "a schema is no JSON of a struct")


def _is_struct(text: str) -> bool:
    try:
        content = json.loads(text)
    except ValueError:
        return False
    return isinstance(content, dict) and content.get("type") == "struct"
