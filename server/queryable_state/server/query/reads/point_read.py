"""One key for people: JSON in, JSON out, where they want it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.query.admission import check_json
from queryable_state.server.query.reads.answer_texts import answer_text, text_of_nothing
from queryable_state.server.query.reads.requested_query import query_of
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    InternalError,
    InvalidRequestError,
    QueryableStateError,
    UnknownKeyOrNamespaceError,
    shown,
)
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.values.lifetime import answered_remaining_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.config.limits import Limits
    from queryable_state.wire.located_state import LocatedState

_ENTRY_READS = frozenset({query_pb2.ENTRY, query_pb2.EXISTS})


@dataclass(frozen=True)
class PointRead:
    """A `GetKvState` call: the query for its key, and its response from the answer."""

    located: LocatedState
    query: query_pb2.Query
    key_json: str | None
    """The key as the caller wrote it; None where it came encoded."""
    entry_text: str
    """The map key as the caller wrote it, or its hex digits; empty: none was given."""

    @classmethod
    def of(
        cls, request: query_pb2.GetKvStateRequest, located: LocatedState, limits: Limits
    ) -> PointRead:
        """Raises `KeyTypeError` for a key that is not of the registered type."""
        check_json("key_json", request.key_json, limits)
        check_json("map_key_json", request.map_key_json, limits)
        given = request.WhichOneof("key")
        if given is None:
            raise InvalidRequestError('give the key: key_json (as in "sensor_1") or encoded_key')
        as_json = given == "key_json"
        key = located.json.wire_key(request.key_json) if as_json else request.encoded_key
        element = _element(request, located)
        query = query_of(request, located, [key], () if element is None else (element,))
        entry_text = request.map_key_json or ("" if element is None else element.hex())
        return cls(located, query, request.key_json if as_json else None, entry_text)

    async def response(self, answers: Sequence[query_pb2.Answer]) -> query_pb2.GetKvStateResponse:
        """Raises the refusal of the answer, or that there is no such key."""
        for answer in answers:
            if answer.HasField("error"):
                raise QueryableStateError.from_proto(answer.error)
            if answer.failed:
                raise QueryableStateError.from_proto(answer.failed[0].error)
            if answer.missing:
                return self._nothing(answer.info)
            if answer.values:
                return await self._found(answer.values[0], answer.info)
        raise InternalError(f"the owner answered nothing for a key of {self.located.describe()}")

    async def explained(self, answers: Sequence[query_pb2.Answer]) -> query_pb2.GetKvStateResponse:
        """The response with what the servers did; a refusal stands in it."""
        try:
            response = await self.response(answers)
        except QueryableStateError as refusal:
            response = query_pb2.GetKvStateResponse(error=refusal.to_proto())
        for answer in answers:
            if answer.HasField("info"):
                response.info.CopyFrom(answer.info)
            if answer.HasField("trace"):
                response.trace.CopyFrom(answer.trace)
        return response

    async def _found(self, value: bytes, info: query_pb2.ReadInfo) -> query_pb2.GetKvStateResponse:
        remaining_ms = answered_remaining_ms(self.query.read, value, info)
        if self.key_json is not None:
            text = await answer_text(self.located.json, self.query.read, value, info)
            return query_pb2.GetKvStateResponse(
                value_json=text, info=info, remaining_ms=remaining_ms
            )
        if self.query.read == query_pb2.WINDOWS:
            return query_pb2.GetKvStateResponse(
                windows=query_pb2.KeyWindows.FromString(value), info=info, remaining_ms=remaining_ms
            )
        if self.query.read == query_pb2.PREFIX:
            records = query_pb2.Records.FromString(value)
        else:
            records = query_pb2.Records(elements=[b""], values=[value])
        return query_pb2.GetKvStateResponse(records=records, info=info, remaining_ms=remaining_ms)

    def _nothing(self, info: query_pb2.ReadInfo) -> query_pb2.GetKvStateResponse:
        """Returns the answer for an absent key; raises that it is if one thing was asked for."""
        nothing = text_of_nothing(self.located, self.query.read)
        if nothing is None:
            raise self._unknown()
        if self.key_json is not None:
            return query_pb2.GetKvStateResponse(value_json=nothing, info=info)
        if self.query.read == query_pb2.WINDOWS:
            return query_pb2.GetKvStateResponse(windows=query_pb2.KeyWindows(), info=info)
        return query_pb2.GetKvStateResponse(records=query_pb2.Records(), info=info)

    def _unknown(self) -> UnknownKeyOrNamespaceError:
        key = shown(self.query.keys[0].hex() if self.key_json is None else self.key_json)
        entry = f"map key {shown(self.entry_text)} of " if self.entry_text else ""
        namespace = self.query.namespace
        where = "" if namespace in (b"", VOID_NAMESPACE) else f" in {_scope_text(namespace)}"
        return UnknownKeyOrNamespaceError(
            f"nothing is stored under {entry}key {key} of {self.located.describe()}{where}"
        )


def _element(request: query_pb2.GetKvStateRequest, located: LocatedState) -> bytes | None:
    """The encoded map key asked for; None: none."""
    given = request.WhichOneof("entry")
    if given is None:
        if request.read == query_pb2.ENTRY:
            raise InvalidRequestError(
                'ENTRY wants the map key: map_key_json (as in "a") or element'
            )
        return None
    if request.read not in _ENTRY_READS:
        raise InvalidRequestError(
            f"a map key is for ENTRY and EXISTS, not for {_read_name(request.read)}: "
            "say so in read, or leave the map key out"
        )
    return (
        located.json.map_key(request.map_key_json) if given == "map_key_json" else (request.element)
    )


def _scope_text(namespace: bytes) -> str:
    try:
        return repr(TimeWindow.of_namespace(namespace))
    except CorruptDataError:
        return f"namespace {shown(namespace.hex())}"


def _read_name(read: query_pb2.ReadKind.ValueType) -> str:
    known = read in query_pb2.ReadKind.values()
    return query_pb2.ReadKind.Name(read) if known else f"read kind {read}"
