"""Reads of keys that are named in JSON: their queries, and the responses of their answers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.query.admission import check_json, check_number_of_keys
from queryable_state.server.serving.slices import in_slices
from queryable_state.v1 import query_pb2, registration_pb2
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
    from collections.abc import Callable, Iterable, Sequence

    from queryable_state.server.config.limits import Limits
    from queryable_state.wire.located_state import LocatedState
    from queryable_state.wire.state_json import StateJson

_WHOLE_READS = frozenset({query_pb2.POINT, query_pb2.PREFIX})


def scope_of(
    request: query_pb2.GetKvStateRequest
    | query_pb2.BatchGetKvStateRequest
    | query_pb2.ScanKvStateRequest,
) -> bytes:
    """Returns the encoded namespace that a request names; empty: none."""
    if request.WhichOneof("scope") == "window":
        return TimeWindow.of_proto(request.window).namespace
    return request.namespace


def query_of(
    request: query_pb2.GetKvStateRequest | query_pb2.BatchGetKvStateRequest,
    located: LocatedState,
    keys: Sequence[bytes],
    elements: Sequence[bytes],
) -> query_pb2.Query:
    """Returns the query for encoded keys and elements, with the options of the request.

    A read of the whole value is translated into the read that fits the kind of the state.
    """
    query = query_pb2.Query(
        state_id=located.state_id,
        placement_version=located.placement_version,
        consistency=request.consistency,
        namespace=scope_of(request),
        read=located.read_kind if request.read in _WHOLE_READS else request.read,
        keys=keys,
        allow_incomplete=request.allow_incomplete,
        min_version=request.min_version,
        max_staleness_ms=request.max_staleness_ms,
        timeline=request.timeline,
        elements=elements,
    )
    if isinstance(request, query_pb2.GetKvStateRequest):
        query.explain = request.explain
        if request.HasField("range"):
            query.ranges.append(request.range)
        if request.HasField("windows"):
            query.windows.append(request.windows)
        if request.key_json:
            _set_micros(query)
        return query
    query.ranges.extend(request.ranges)
    query.windows.extend(request.windows)
    if request.keys_json:
        _set_micros(query)
    if request.HasField("at_version"):
        query.at_version = request.at_version
    return query


def _set_micros(query: query_pb2.Query) -> None:
    """Lets a query whose answer becomes JSON find windows of microseconds, which JSON names."""
    if query.read != query_pb2.WINDOWS:
        return
    if not query.windows:
        query.windows.add()
    for wanted in query.windows:
        wanted.micros = True


def value_positions(answer: query_pb2.Answer, keys: int) -> Sequence[int]:
    """Returns the position of each value's key in a query of `keys` keys."""
    if answer.indexes or not answer.values:
        return answer.indexes
    others = {*answer.missing, *(at for failed in answer.failed for at in failed.indexes)}
    return [at for at in range(keys) if at not in others]


def placed_at(positions: Sequence[int], answer: query_pb2.Answer) -> query_pb2.Answer:
    """Translates an answer to a sub-query into one to the whole query, by `positions`."""
    if answer.HasField("error"):
        failed = [query_pb2.KeyFailure(indexes=positions, error=answer.error)]
        return query_pb2.Answer(failed=failed, info=answer.info)
    return query_pb2.Answer(
        values=answer.values,
        indexes=[positions[at] for at in value_positions(answer, len(positions))],
        missing=[positions[at] for at in answer.missing],
        failed=[
            query_pb2.KeyFailure(
                indexes=[positions[at] for at in failed.indexes], error=failed.error
            )
            for failed in answer.failed
        ],
        info=answer.info,
    )


_LARGE_BYTES = 16 * 1024
_SLICE_S = 0.005


def text_of_nothing(located: LocatedState, read: query_pb2.ReadKind.ValueType) -> str | None:
    """The JSON text for an absent key of a read that answers with several things, or with whether
    there is one; None: the read fails."""
    if read == query_pb2.EXISTS:
        return "false"
    is_several = read == query_pb2.WINDOWS or located.registration.kind == registration_pb2.TIMER
    return "[]" if is_several else None


async def answer_text(
    texts: StateJson,
    read: query_pb2.ReadKind.ValueType,
    value: bytes,
    info: query_pb2.ReadInfo,
) -> str:
    """Returns the JSON text of one answer, as `StateJson.answer_text` does."""
    if len(value) > _LARGE_BYTES:
        return await asyncio.to_thread(texts.answer_text, read, value, info)
    return texts.answer_text(read, value, info)


async def tell_answers(
    texts: StateJson,
    read: query_pb2.ReadKind.ValueType,
    values: Iterable[tuple[int, bytes]],
    info: query_pb2.ReadInfo,
    tell: Callable[[int, bytes, str], None],
    refuse: Callable[[int, QueryableStateError], None],
) -> None:
    """Calls `tell` with each value and its text, `refuse` for each that cannot be decoded."""
    until_s = time.perf_counter() + _SLICE_S
    for at, value in values:
        try:
            tell(at, value, await answer_text(texts, read, value, info))
        except QueryableStateError as unreadable:
            refuse(at, unreadable)
        if time.perf_counter() >= until_s:
            await asyncio.sleep(0)
            until_s = time.perf_counter() + _SLICE_S


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
