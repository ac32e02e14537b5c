"""JSON texts of the keys and values of one state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, Reason
from queryable_state.wire.json_text import key_from_json, key_json_of, to_jsonable
from queryable_state.wire.keys.key_prefix import key_prefix_from_json
from queryable_state.wire.keys.pending_timers import timers_jsonable
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.operator_state import OPERATOR_KINDS
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.state_codecs import StateCodecs, StateKind, decode_list
from queryable_state.wire.values.lifetime import remaining_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.v1 import registration_pb2


class StateJson:
    """Parses keys of a registered state from JSON and writes its values as JSON. Thread-safe.

    It never unpickles a value. A text that is not JSON raises `InvalidRequestError`, a key of
    another type `KeyTypeError`.
    """

    def __init__(
        self,
        registration: registration_pb2.StateRegistration,
        ranges: Iterable[tuple[int, int]] = (),
    ) -> None:
        """`ranges` as in `StateCodecs`."""
        self._registration = registration
        self._codecs = StateCodecs(registration, ranges=ranges)
        self._groups = self._codecs.key_groups

    def wire_key(self, text: str) -> bytes:
        """Key group and encoded key of a JSON key."""
        return self._groups.wire_key(key_from_json(text, self._groups.key_type))

    def encoded_key(self, text: str) -> bytes:
        """The encoded key of a JSON key, without its key group."""
        return self._groups.codec.encode(key_from_json(text, self._groups.key_type))

    def key_of_word(self, word: str) -> str:
        """The JSON text of a key as people write it; strings and times need no quotes."""
        return key_json_of(word, self._groups.key_type)

    def map_key_of_word(self, word: str) -> str:
        """As `key_of_word`, for the key of a map entry; unchanged if the state is no map."""
        codec = self._codecs.map_key
        return word if codec is None else key_json_of(word, codec.type_info)

    def prefix(self, text: str) -> bytes:
        """The common prefix of all encoded keys that begin as the text does."""
        return key_prefix_from_json(text, self._groups.key_type)

    def map_key(self, text: str) -> bytes:
        """The encoded key of a map entry; raises InvalidRequestError (UNSUPPORTED) for no map."""
        if self._codecs.map_key is None:
            raise InvalidRequestError(
                f"state {self._registration.queryable_name!r} is of kind "
                f"{StateKind.Name(self._registration.kind)}: only a MAP or BROADCAST has entries; "
                "read its whole value",
                reason=Reason.UNSUPPORTED,
            )
        return self._codecs.map_key.encode(key_from_json(text, self._codecs.map_key.type_info))

    def map_key_text(self, element: bytes) -> str:
        """The JSON text of an encoded map key; empty for a state that is no map."""
        codec = self._codecs.map_key
        if codec is None:
            return ""
        return _dumped(to_jsonable(codec.decode_all(element), codec.type_info))

    def record_text(self, value: bytes) -> str:
        """The JSON text of one stored value: a map entry, or a chunk of a list as a list."""
        codec = self._codecs.value
        return _dumped(to_jsonable(codec.decode(value), codec.type_info), len(value))

    def key_text(self, wire_key: bytes) -> str:
        """The JSON text of a key; inverse of `wire_key`."""
        key = self._groups.decode_key(wire_key)
        return _dumped(to_jsonable(key, self._groups.key_type))

    def records_text(self, records: query_pb2.Records) -> str:
        """The whole value of a state object."""
        return _dumped(self._jsonable(records), sum(map(len, records.values)))

    def _jsonable(self, records: query_pb2.Records) -> Any:
        value = self._codecs.decode_records(records.elements, records.values)
        if self._codecs.kind == StateKind.TIMER:
            return timers_jsonable(value)
        info = self._codecs.value.type_info
        if self._codecs.map_key is not None:
            info = TypeInfo(Kind.MAP, key=self._codecs.map_key.type_info, element=info)
        elif self._codecs.kind in OPERATOR_KINDS:
            info = TypeInfo(Kind.LIST, element=info)
        return to_jsonable(value, info)

    def answer_text(
        self, read: query_pb2.ReadKind.ValueType, value: bytes, info: query_pb2.ReadInfo
    ) -> str:
        """The JSON text of an answer for one key, by its kind of read."""
        match read:
            case query_pb2.PREFIX:
                return self.records_text(query_pb2.Records.FromString(value))
            case query_pb2.ENTRY:
                return self.record_text(value)
            case query_pb2.EXISTS:
                return "true"
            case query_pb2.SLICE:
                return self._slice_text(query_pb2.ListSlice.FromString(value))
            case query_pb2.WINDOWS:
                return self._windows_text(query_pb2.KeyWindows.FromString(value), info)
            case query_pb2.SIZE:
                size = query_pb2.Size.FromString(value)
                return _dumped({"elements": size.elements, "value_bytes": size.value_bytes})
            case _:
                return self.records_text(query_pb2.Records(elements=[b""], values=[value]))

    def _windows_text(self, found: query_pb2.KeyWindows, info: query_pb2.ReadInfo) -> str:
        texts = []
        for window, records in zip(found.windows, found.records, strict=True):
            text = {
                "window": TimeWindow.of_proto(window).jsonable(),
                "value": self._jsonable(records),
            }
            life_ms = remaining_ms(records.values, info)
            texts.append(text if life_ms is None else {**text, "remaining_ms": life_ms})
        return _dumped(texts, sum(len(each) for every in found.records for each in every.values))

    def _slice_text(self, found: query_pb2.ListSlice) -> str:
        lists = self._codecs.value
        elements = to_jsonable(decode_list(found.chunks, lists), lists.type_info)
        text = {
            "elements": elements,
            "start": found.start,
            "limit": found.limit,
            "length": found.length,
        }
        return _dumped(text, sum(map(len, found.chunks)))


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_LARGE_BYTES = 16 * 1024


def _dumped(jsonable: object, stored_bytes: int = 0) -> str:
    """The JSON text of a value of `stored_bytes` bytes."""
    if stored_bytes > _LARGE_BYTES:
        # The Python encoder writes an element at a time; the C encoder would hold the GIL for
        # the whole value.
        return "".join(_ENCODER.iterencode(jsonable))
    return _ENCODER.encode(jsonable)
