"""Unary read of many keys of one state, encoded or as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.query.admission import check_json, check_number_of_keys
from queryable_state.server.query.reads.answer_positions import value_positions
from queryable_state.server.query.reads.answer_texts import tell_answers, text_of_nothing
from queryable_state.server.query.reads.requested_query import query_of
from queryable_state.server.serving.slices import in_slices
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    InternalError,
    InvalidRequestError,
    QueryableStateError,
    UnknownKeyOrNamespaceError,
    shown,
)
from queryable_state.wire.values.lifetime import answered_remaining_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.config.limits import Limits
    from queryable_state.wire.located_state import LocatedState


@dataclass(frozen=True)
class BatchRead:
    """A `BatchGetKvState` call: the query for its keys, and its response from the answers."""

    located: LocatedState
    query: query_pb2.Query
    keys_json: Sequence[str]
    """The keys as the caller wrote them; empty if they were encoded."""

    @classmethod
    async def of(
        cls, request: query_pb2.BatchGetKvStateRequest, located: LocatedState, limits: Limits
    ) -> BatchRead:
        """Parses a request; raises `KeyTypeError` for a key that is not of the registered type."""
        if request.keys and request.keys_json:
            raise InvalidRequestError("pass the keys encoded or as JSON, not both")
        check_number_of_keys(len(request.keys) or len(request.keys_json), limits)
        keys: Sequence[bytes] = request.keys
        if request.keys_json:

            def wire_key(text: str) -> bytes:
                check_json("key", text, limits)
                return located.json.wire_key(text)

            keys = await in_slices(wire_key, request.keys_json)
        query = query_of(request, located, keys, request.elements)
        return cls(located, query, tuple(request.keys_json))

    async def response(
        self, answers: Sequence[query_pb2.Answer]
    ) -> query_pb2.BatchGetKvStateResponse:
        """Returns the answers as they are, or a result for each key."""
        if not self.keys_json:
            return query_pb2.BatchGetKvStateResponse(answers=answers)
        results = [query_pb2.KeyResult() for _ in self.keys_json]
        for answer in answers:
            await self._fill(results, answer)
        unanswered = InternalError(
            f"the owner's answer lacks a key of {self.located.describe()}"
        ).to_proto()
        for result in results:
            if not result.value_json and not result.HasField("error"):
                result.error.CopyFrom(unanswered)
        return query_pb2.BatchGetKvStateResponse(results=results)

    async def _fill(self, results: list[query_pb2.KeyResult], answer: query_pb2.Answer) -> None:
        """Fills in the results of one answer."""
        if answer.HasField("error"):
            for result in results:
                result.error.CopyFrom(answer.error)
            return
        for failed in answer.failed:
            for at in failed.indexes:
                results[at].error.CopyFrom(failed.error)
        state = self.located.describe()

        def miss(at: int) -> None:
            self._miss(results[at], self.keys_json[at], state)
            results[at].info.CopyFrom(answer.info)

        await in_slices(miss, answer.missing)

        def tell(at: int, value: bytes, text: str) -> None:
            remaining_ms = answered_remaining_ms(self.query.read, value, answer.info)
            if remaining_ms is not None:
                results[at].remaining_ms = remaining_ms
            results[at].value_json = text
            results[at].info.CopyFrom(answer.info)

        def refuse(at: int, unreadable: QueryableStateError) -> None:
            results[at].error.CopyFrom(unreadable.to_proto())
            results[at].info.CopyFrom(answer.info)

        positions = value_positions(answer, len(results))
        values = zip(positions, answer.values, strict=True)
        texts, read = self.located.json, self.query.read
        await tell_answers(texts, read, values, answer.info, tell, refuse)

    def _miss(self, result: query_pb2.KeyResult, key: str, state: str) -> None:
        nothing = text_of_nothing(self.located, self.query.read)
        if nothing is not None:
            result.value_json = nothing
            return
        unknown = UnknownKeyOrNamespaceError(f"nothing is stored under key {shown(key)} of {state}")
        result.error.CopyFrom(unknown.to_proto())
