"""Table of the distinct keys of a task; each key is decoded and encoded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from queryable_state.streaming.runtime.columns.arrow_types import to_python
from queryable_state.streaming.runtime.columns.row_check import GROUP_BITS, Number
from queryable_state.streaming.runtime.states.state_spec import subtask_mismatch
from queryable_state.wire.errors import KeyTypeError, LimitExceededError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.key_groups import key_group_range
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE
from queryable_state.wire.rows import row_class
from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from queryable_state.streaming.runtime.states.input_spec import InputSpec
    from queryable_state.streaming.runtime.states.state_spec import StateSpec

    Slots = npt.NDArray[np.int64]

_MANY = 1 << 62


class KeyTable:
    """Slots of the distinct keys of a task, numbered from 0 in the order of their first rows.

    Keys are equal if their wire bytes are: 0.0 and -0.0 are one key, and all NaNs are one key.
    """

    def __init__(self, spec: StateSpec, subtask: int, where: str) -> None:
        self.keys: list[Any] = []
        """Keys by slot, as functions see them."""
        self.wire_keys: list[bytes] = []
        """Wire keys (key group and encoded key) by slot."""
        self.chunk_slots: Sequence[int] = ()
        """Distinct slots of the newest chunk."""
        self._spec = spec
        self._where = where
        self._first_group, self._last_group = key_group_range(
            subtask, spec.parallelism, spec.max_parallelism
        )
        self._group_bytes = {
            group: group.to_bytes(2) for group in range(self._first_group, self._last_group + 1)
        }
        codec = KeyCodec(spec.key_type)
        self._encode, self._decode = codec.encode, codec.decode_all
        # -0.0 and 0.0 are one key, and so are equal times in two zones. Decoding the wire key gives
        # functions the same object for any first row.
        self._read_back = codec.decode_all if _has_other_forms(spec.key_type) else None
        self._slot_of: dict[bytes, int] = {}
        # Keys that are equal in Python have equal bytes. The converse does not hold for NaN.
        self._known: dict[Any, int] = {}
        self._make_key: Callable[[tuple[Any, ...]], Any] | None = None
        self._column_types = [spec.key_type]
        if len(spec.input.key_columns) > 1:
            self._column_types = [field.type for field in spec.key_type.fields]
            names = tuple(field.name for field in spec.key_type.fields)
            self._make_key = row_class(names) if spec.key_type.kind == Kind.ROW else tuple

    def __len__(self) -> int:
        return len(self.keys)

    def prefix(self, slot: int) -> bytes:
        return self.wire_keys[slot] + VOID_NAMESPACE

    def prefixes(self, slots: Sequence[int]) -> list[bytes]:
        wire_keys = self.wire_keys
        return [wire_keys[slot] + VOID_NAMESPACE for slot in slots]

    def shown(self, slot: int) -> str:
        return shown_key(self.keys[slot], self._spec.key_type)

    def add_chunk(self, batch: pa.RecordBatch, rows: InputSpec) -> Slots:
        """Adds the new keys of a batch of an input; returns the slot of each row."""
        columns = [self._key_column(batch, name) for name in rows.key_columns]
        groups = self._key_groups(batch.column(rows.check_column))
        codes, firsts = distinct_rows(columns)
        distinct = [
            to_python(column.take(pa.array(firsts)), info)
            for column, info in zip(columns, self._column_types, strict=True)
        ]
        keys = (
            distinct[0]
            if self._make_key is None
            else [self._make_key(key) for key in zip(*distinct, strict=True)]
        )
        slots = self._slots(keys, groups[firsts])
        self.chunk_slots = list(dict.fromkeys(slots))
        slot_of_code: Slots = np.array(slots, dtype=np.int64)
        return slot_of_code[codes]

    def add_wire_keys(self, wire_keys: Sequence[bytes]) -> Sequence[int]:
        """Adds keys of the subtask by their wire keys; returns their slots."""
        slots = []
        for wire_key in wire_keys:
            slot = self._slot_of.get(wire_key)
            if slot is None:
                slot = self._slot_of[wire_key] = len(self.keys)
                self.keys.append(self._decode(wire_key[2:]))
                self.wire_keys.append(wire_key)
            slots.append(slot)
        self.chunk_slots = list(dict.fromkeys(slots))
        return slots

    def slot_of(self, wire_key: bytes) -> int:
        """The slot of a key that was added."""
        return self._slot_of[wire_key]

    def _slots(self, keys: Sequence[Any], groups: Slots) -> list[int]:
        """The slot of each key; new keys get new slots."""
        found = list(map(self._known.get, keys))
        slot_of, known, encode = self._slot_of, self._known, self._encode
        group_bytes = self._group_bytes
        longest = self._spec.settings.key_bytes
        slots = []
        for slot, key, group in zip(found, keys, groups.tolist(), strict=True):
            if slot is None:
                try:
                    encoded = encode(key)
                except KeyTypeError as problem:
                    raise KeyTypeError(f"{self._where}: {problem}", reason=problem.reason) from None
                wire_key = group_bytes[group] + encoded
                slot = slot_of.get(wire_key)
                if slot is None:
                    if len(wire_key) > longest:
                        raise LimitExceededError(
                            f"{self._where}: key {repr(key)[:60]}... has {len(wire_key)} bytes, "
                            f"but spark.queryable_state.key_bytes is {longest}"
                        )
                    slot = slot_of[wire_key] = len(self.keys)
                    self.keys.append(key if self._read_back is None else self._read_back(encoded))
                    self.wire_keys.append(wire_key)
                known[key] = slot
            slots.append(slot)
        return slots

    def _key_column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        column = batch.column(name)
        if column.null_count:
            raise KeyTypeError(
                f"{self._where}: the key column {name!r} is null in {column.null_count} of "
                f"{len(column)} rows; a key cannot be null: filter these rows or give them a key"
            )
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column

    def _key_groups(self, checks: pa.Array) -> Slots:
        numbers: Slots = checks.to_numpy(zero_copy_only=False)
        groups = key_group_of(numbers)
        if groups.min() < self._first_group or groups.max() > self._last_group:
            raise subtask_mismatch(
                f"{self._where}, owns key groups {self._first_group} to {self._last_group}, but "
                f"received rows of key groups {groups.min()} to {groups.max()}"
            )
        return groups


def key_group_of(check: Number) -> Number:
    """The key group of a row check, or of each check of an array."""
    return check & GROUP_BITS


def _has_other_forms(info: TypeInfo) -> bool:
    """True if keys with equal bytes may differ as Python objects."""
    if info.kind in (Kind.FLOAT, Kind.DOUBLE, Kind.TIMESTAMP):
        return True
    return any(_has_other_forms(field.type) for field in info.fields)


def distinct_rows(columns: Sequence[pa.Array]) -> tuple[Slots, Slots]:
    """Dictionary-encodes the rows: the code of each row, and the first row of each code."""
    flat = [leaf for column in columns for leaf in _leaves(column)]
    codes, count = _codes(flat[0])
    for column in flat[1:]:
        more, more_count = _codes(column)
        if count * more_count >= _MANY:
            codes, count = _codes(pa.array(codes))
        codes = codes * more_count + more
        count *= more_count
    if len(flat) > 1:
        codes, count = _codes(pa.array(codes))
    firsts = np.empty(count, dtype=np.int64)
    # Assigned in reverse: the last assignment, which is the first row, wins.
    firsts[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return codes, firsts


def _codes(column: pa.Array) -> tuple[Slots, int]:
    encoded = column.dictionary_encode(null_encoding="encode")
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, len(encoded.dictionary)


def _leaves(column: pa.Array) -> list[pa.Array]:
    if not pa.types.is_struct(column.type):
        return [column]
    leaves = [leaf for child in column.flatten() for leaf in _leaves(child)]
    return leaves or [pc.is_null(column)]


def shown_key(key: Any, key_type: TypeInfo) -> str:
    """A key for error texts, truncated to 100 characters."""
    text = repr(tuple(key)) if key_type.kind == Kind.ROW else repr(key)
    return text if len(text) <= 100 else text[:100] + "..."
