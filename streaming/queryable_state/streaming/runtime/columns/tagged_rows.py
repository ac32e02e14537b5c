"""Layout of the rows of several streams in one schema, each row tagged with its stream.

Columns of one type share a slot, so a row is hardly wider than the widest stream. A slot that a
stream does not use is null.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from queryable_state.wire.arrow.arrow_types import arrow_schema
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TAG_COLUMN: Final = "__stream"


@dataclass(frozen=True, kw_only=True)
class TaggedRows:
    """The slots, and the places of each stream's columns in them."""

    slots: tuple[TypeInfo, ...]
    streams: tuple[tuple[Field, ...], ...]
    """The columns of each stream."""
    places: tuple[tuple[int, ...], ...]
    """The slot of each column, by stream."""

    @staticmethod
    def of(streams: Sequence[Sequence[Field]]) -> TaggedRows:
        """The layout for streams with these columns; a stream may have no column."""
        slots: list[TypeInfo] = []
        slots_of: dict[TypeInfo, list[int]] = {}
        places = []
        for fields in streams:
            used: Counter[TypeInfo] = Counter()
            placed = []
            for field in fields:
                known = slots_of.setdefault(field.type, [])
                if used[field.type] == len(known):
                    known.append(len(slots))
                    slots.append(field.type)
                placed.append(known[used[field.type]])
                used[field.type] += 1
            places.append(tuple(placed))
        return TaggedRows(
            slots=tuple(slots), streams=tuple(map(tuple, streams)), places=tuple(places)
        )

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the tagged rows: the tag, then the slots."""
        slots = (Field(slot_name(number), info) for number, info in enumerate(self.slots))
        return (Field(TAG_COLUMN, TypeInfo(Kind.INT)), *slots)

    def tagged(self, stream: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of one stream as tagged rows."""
        schema = arrow_schema(self.fields)
        arrays: list[pa.Array] = [
            pa.array(np.full(batch.num_rows, stream, dtype=np.int32)),
            *(pa.nulls(batch.num_rows, of.type) for of in list(schema)[1:]),
        ]
        for column, place in zip(batch.columns, self.places[stream], strict=True):
            arrays[place + 1] = column
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of each stream, in their order, under the names of the stream's columns."""
        tags = batch.column(TAG_COLUMN).to_numpy(zero_copy_only=False)
        if not len(tags):
            return
        slots = [batch.column(slot_name(number)) for number in range(len(self.slots))]
        if (tags == tags[0]).all():
            yield self._named(int(tags[0]), slots, batch.num_rows)
            return
        rows = np.argsort(tags, kind="stable")
        ordered = tags[rows]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
        for start, group in zip(starts, np.split(rows, starts[1:]), strict=True):
            stream, taken = int(ordered[start]), pa.array(group)
            # Only the slots of the stream are copied.
            used = {place: slots[place].take(taken) for place in self.places[stream]}
            yield self._named(stream, used, len(group))

    def _named(
        self, stream: int, slots: Sequence[pa.Array] | dict[int, pa.Array], rows: int
    ) -> tuple[int, pa.RecordBatch]:
        names = [field.name for field in self.streams[stream]]
        columns = [slots[place] for place in self.places[stream]]
        if not names:
            return stream, pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        return stream, pa.RecordBatch.from_arrays(columns, names=names)


def slot_name(number: int) -> str:
    """The column name of a slot."""
    return f"__slot_{number}"
