"""Raw keys of one column family: Spark's key encoding behind the id of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.native_state.rows.key_encoder import VERSION, without_version
from queryable_state.server.native_state.rows.key_encoders import in_column_family

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.server.native_state.operators.layouts.key_transcoding import KeyTranscoder
    from queryable_state.server.native_state.rows.key_encoder import KeyEncoder


class FamilyKeys:
    """Codec of the raw keys of a column family, or of a store without families. Immutable."""

    __slots__ = ("_begin", "_encoder", "_tail_bytes", "family", "text_row_start", "transcoder")

    def __init__(
        self,
        encoder: KeyEncoder,
        family_id: int | None,
        transcoder: KeyTranscoder | None = None,
        tail_bytes: int = 0,
        text_row_start: int | None = None,
    ) -> None:
        """`family_id` None: the store has no column families.

        `transcoder`: of the row that raw keys are, but for `tail_bytes` at their end; None: they
        are something else, or their columns cannot be transcoded. `text_row_start`: as the
        attribute, without the id of the family.
        """
        self._encoder = encoder
        self.family = b"" if family_id is None else in_column_family(family_id, b"")
        """The first bytes of all raw keys of the family."""
        self.transcoder = transcoder
        self.text_row_start = None if text_row_start is None else len(self.family) + text_row_start
        """The place of the row of the first column in a raw key, which begins with it, if that is
        a string or binary and the only column of keys; None for other keys."""
        self._begin = self.family + VERSION
        self._tail_bytes = tail_bytes

    def encode_key(self, values: Columns) -> bytes:
        """The raw key of these values, exactly as Spark writes it."""
        return self.family + self._encoder.encode_key(values)

    def encode_prefix(self, values: Columns) -> bytes:
        """The first bytes of all raw keys that begin with these values, the encoder's prefix."""
        return self.family + self._encoder.encode_prefix(values)

    def decode_key(self, raw_key: bytes) -> Columns:
        """The values of a raw key of the family."""
        return self._encoder.decode_key(raw_key[len(self.family) :])

    def of_row(self, row: bytes) -> bytes:
        """The raw key of a key row: column family and row, without the tail after the row."""
        return self._begin + row

    def row_of(self, raw_key: bytes) -> bytes:
        """The key row within a raw key: without column family and tail."""
        end = len(raw_key) - self._tail_bytes
        return without_version(raw_key[len(self.family) : end])
