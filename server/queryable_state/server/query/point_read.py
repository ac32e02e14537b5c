"""One key for people: JSON in, JSON out, where they want it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    InternalError,
    InvalidRequestError,
    QueryableStateError,
    UnknownKeyOrNamespaceError,
)
from queryable_state.wire.json_text import key_from_json, value_to_json
from queryable_state.wire.key_groups import KeyGroups
from queryable_state.wire.types import TypeInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.wire.located_state import LocatedState


@dataclass(frozen=True)
class PointRead:
    """A `GetKvState` call: the query for its key, and its response from the answer."""

    located: LocatedState
    query: query_pb2.Query
    key_json: str | None
    """The key as the caller wrote it; None where it came encoded."""

    @classmethod
    def of(cls, request: query_pb2.GetKvStateRequest, located: LocatedState) -> PointRead:
        """Raises `KeyTypeError` for a key that is not of the registered type."""
        given = request.WhichOneof("key")
        if given is None:
            raise InvalidRequestError('give the key: key_json (as in "sensor_1") or encoded_key')
        registration = located.registration
        if given == "key_json":
            key_type = TypeInfo.from_proto(registration.key_type)
            groups = KeyGroups(key_type, registration.max_parallelism)
            key = groups.wire_key(key_from_json(request.key_json, key_type))
        else:
            key = request.encoded_key
        query = query_pb2.Query(
            state_id=located.state_id,
            placement_version=located.placement_version,
            consistency=request.consistency,
            namespace=request.namespace,
            read=located.read_kind,
            keys=[key],
            allow_incomplete=request.allow_incomplete,
            min_version=request.min_version,
            max_staleness_ms=request.max_staleness_ms,
        )
        return cls(located, query, request.key_json if given == "key_json" else None)

    def response(self, answers: Sequence[query_pb2.Answer]) -> query_pb2.GetKvStateResponse:
        """Raises the refusal of the answer, or that there is no such key."""
        for answer in answers:
            if answer.HasField("error"):
                raise QueryableStateError.from_proto(answer.error)
            if answer.failed:
                raise QueryableStateError.from_proto(answer.failed[0].error)
            if answer.missing:
                raise UnknownKeyOrNamespaceError(
                    f"nothing is stored under key {self._key_text()} of {self.located.describe()}"
                    + (
                        f" in namespace {self.query.namespace.hex()}"
                        if self.query.namespace
                        else ""
                    )
                )
            if answer.values:
                return self._found(answer.values[0], answer.info)
        raise InternalError(f"the owner answered nothing for a key of {self.located.describe()}")

    def _found(self, value: bytes, info: query_pb2.ReadInfo) -> query_pb2.GetKvStateResponse:
        if self.located.read_kind == query_pb2.PREFIX:
            records = query_pb2.Records.FromString(value)
        else:
            records = query_pb2.Records(elements=[b""], values=[value])
        if self.key_json is None:
            return query_pb2.GetKvStateResponse(records=records, info=info)
        text = value_to_json(self.located.registration, records)
        return query_pb2.GetKvStateResponse(value_json=text, info=info)

    def _key_text(self) -> str:
        return self.query.keys[0].hex() if self.key_json is None else self.key_json
