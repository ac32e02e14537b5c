"""Many keys of one state for people: JSON in, JSON out, where they want it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.query.answer_positions import value_positions
from queryable_state.server.query.asked_query import query_of
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    InternalError,
    InvalidRequestError,
    QueryableStateError,
    UnknownKeyOrNamespaceError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.wire.located_state import LocatedState


@dataclass(frozen=True)
class BatchRead:
    """A `BatchGetKvState` call: the query for its keys, and its response from the answers."""

    located: LocatedState
    query: query_pb2.Query
    keys_json: Sequence[str]
    """The keys as the caller wrote them; empty where they came encoded."""

    @classmethod
    def of(cls, request: query_pb2.BatchGetKvStateRequest, located: LocatedState) -> BatchRead:
        """Raises `KeyTypeError` for a key that is not of the registered type."""
        if request.keys and request.keys_json:
            raise InvalidRequestError("give the keys encoded or as JSON, not both")
        keys: Sequence[bytes] = request.keys
        if request.keys_json:
            keys = [located.json.wire_key(text) for text in request.keys_json]
        query = query_of(request, located, keys, request.elements)
        return cls(located, query, tuple(request.keys_json))

    def response(self, answers: Sequence[query_pb2.Answer]) -> query_pb2.BatchGetKvStateResponse:
        """The answers as they are, or what became of each key."""
        if not self.keys_json:
            return query_pb2.BatchGetKvStateResponse(answers=answers)
        results = [query_pb2.KeyResult() for _ in self.keys_json]
        for answer in answers:
            self._fill(results, answer)
        for result in results:
            if not result.value_json and not result.HasField("error"):
                unanswered = InternalError(
                    f"the owner answered nothing for a key of {self.located.describe()}"
                )
                result.error.CopyFrom(unanswered.to_proto())
        return query_pb2.BatchGetKvStateResponse(results=results)

    def _fill(self, results: list[query_pb2.KeyResult], answer: query_pb2.Answer) -> None:
        """Enters what one answer says, at the keys it speaks of."""
        if answer.HasField("error"):
            for result in results:
                result.error.CopyFrom(answer.error)
            return
        for failed in answer.failed:
            for at in failed.indexes:
                results[at].error.CopyFrom(failed.error)
        for at in answer.missing:
            self._miss(results[at], self.keys_json[at])
            results[at].info.CopyFrom(answer.info)
        positions = value_positions(answer, len(results))
        for at, value in zip(positions, answer.values, strict=True):
            try:
                results[at].value_json = self.located.json.answer_text(self.query.read, value)
            except QueryableStateError as unreadable:
                results[at].error.CopyFrom(unreadable.to_proto())
            results[at].info.CopyFrom(answer.info)

    def _miss(self, result: query_pb2.KeyResult, key: str) -> None:
        if self.query.read == query_pb2.EXISTS:
            result.value_json = "false"
            return
        unknown = UnknownKeyOrNamespaceError(
            f"nothing is stored under key {key} of {self.located.describe()}"
        )
        result.error.CopyFrom(unknown.to_proto())
