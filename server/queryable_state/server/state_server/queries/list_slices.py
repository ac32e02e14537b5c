"""Slices of lists: consecutive elements, cut out of the stored chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.schema.type_model import TypeInfo
from queryable_state.wire.values.list_elements import cut, element_count, has_fixed_width
from queryable_state.wire.values.value_codec import read_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.state_server.queries.key_reads import RecordCount
    from queryable_state.v1.registration_pb2 import StateRegistration

_ALL = query_pb2.ListRange()


class ListSlices:
    """Answers of SLICE for the lists of one query.

    Elements of variable width are decoded, to find where those of a slice begin and end in their
    chunks; others are not.
    """

    def __init__(
        self,
        state: StateRegistration,
        ranges: Sequence[query_pb2.ListRange],
        counted: RecordCount,
    ) -> None:
        self._state = state
        self._ranges = ranges or (_ALL,)
        self._counted = counted

    def answer(self, position: int, chunks: Sequence[bytes]) -> bytes:
        """Returns the slice for the key at `position`, of all live chunks of its list."""
        wanted = self._ranges[position if len(self._ranges) > 1 else 0]
        lengths = list(map(element_count, chunks))
        length = sum(lengths)
        start = wanted.start if wanted.start >= 0 else max(0, length + wanted.start)
        start = min(start, length)
        end = min(length, start + wanted.limit) if wanted.limit else length
        answer = query_pb2.ListSlice(start=start, limit=wanted.limit, length=length)
        begin = 0
        for chunk, count in zip(chunks, lengths, strict=True):
            first, last = max(0, start - begin), min(count, end - begin)
            begin += count
            if first < last:
                whole = (first, last) == (0, count)
                answer.chunks.append(chunk if whole else self._cut(chunk, first, last))
        return answer.SerializeToString()

    def _cut(self, chunk: bytes, first: int, last: int) -> bytes:
        version = read_header(chunk).schema_version
        for known in self._state.value_types:
            if known.version == version:
                element = TypeInfo.from_proto(known.type)
                if not has_fixed_width(element):
                    # Elements that are decoded count as records: many of them take as long.
                    self._counted.count(last)
                return cut(chunk, first, last, element)
        raise CorruptDataError(f"a list chunk has the unknown schema version {version}")
