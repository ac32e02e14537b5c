"""Raw keys of one column family: Spark's key encoding behind the id of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.native_state.rows.key_encoders import in_column_family

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.server.native_state.rows.key_encoder import KeyEncoder


class FamilyKeys:
    """The `RawKeys` of a column family, or of a store without families."""

    __slots__ = ("_encoder", "family")

    def __init__(self, encoder: KeyEncoder, family_id: int | None) -> None:
        """`family_id` None: the store has no column families."""
        self._encoder = encoder
        self.family = b"" if family_id is None else in_column_family(family_id, b"")

    def encode_key(self, values: Columns) -> bytes:
        """The raw key of these values, exactly as Spark writes it."""
        return self.family + self._encoder.encode_key(values)

    def encode_prefix(self, values: Columns) -> bytes:
        """The first bytes of all raw keys that begin with these values."""
        return self.family + self._encoder.encode_prefix(values)

    def decode_key(self, raw_key: bytes) -> Columns:
        """The values of a raw key of the family."""
        return self._encoder.decode_key(raw_key[len(self.family) :])
