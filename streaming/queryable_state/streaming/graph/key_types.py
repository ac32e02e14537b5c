"""Type of the keys that a function computes, found without running the job."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NoReturn

from queryable_state.wire.errors import InvalidRequestError, KeyTypeError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.schema.inference import annotated_type, type_of_value
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_log = logging.getLogger("queryable_state.streaming")

_CONSTANTS = (bool, int, float, str, bytes)


def key_type_of(
    function: Callable[[Any], Any], element: TypeInfo, first: Sequence[Any] = ()
) -> TypeInfo | None:
    """The type of a function's keys; None, with a WARNING, if it is unknown.

    The type is that of the return annotation; else of the fields of the element that the function
    selects; else of the key of the first element, if `first` has one.
    """
    for found in (annotated_type(function), _selected(function, element), _of(function, first)):
        if found is not None and _is_usable(found):
            return found
    _log.warning(
        "key_by: the keys are pickled, because their type is unknown, so queries cannot look them "
        "up. Annotate the function, or pass key_type, as in key_by(function, Types.STRING())"
    )
    return None


def _is_usable(found: TypeInfo) -> bool:
    try:
        KeyCodec(found)
    except KeyTypeError:
        return False
    return True


def _of(function: Callable[[Any], Any], first: Sequence[Any]) -> TypeInfo | None:
    try:
        keys = [function(element) for element in first[:1]]
    except Exception:  # noqa: BLE001 - the first batch reports it
        return None
    if not keys or keys[0] is None:
        return None
    found = type_of_value(keys[0], "key_by")
    return found if found.kind != Kind.PICKLED else None


def _selected(function: Callable[[Any], Any], element: TypeInfo) -> TypeInfo | None:
    """The type if the function only selects fields of the element, or returns a constant.

    The function is called with an object that has the fields and nothing else, so a function that
    does anything else with them fails.
    """
    try:
        return _type_of(function(_Fields(element)))
    except Exception:  # noqa: BLE001 - the function does more than to select fields
        return None


def _type_of(result: Any) -> TypeInfo | None:
    if isinstance(result, _Fields):
        return result._info
    if isinstance(result, tuple):
        parts = [_type_of(each) for each in result]
        if parts and all(part is not None for part in parts):
            return TypeInfo(Kind.TUPLE, fields=tuple(Field("", part) for part in parts if part))
    if isinstance(result, _CONSTANTS):
        return type_of_value(result, "key_by")
    return None


class _Fields:
    """Stands for an element: its fields can be selected, and nothing else can be done with it."""

    __slots__ = ("_info",)
    __hash__ = None  # type: ignore[assignment]  # it only has fields

    def __init__(self, info: TypeInfo) -> None:
        self._info = info

    def __getitem__(self, item: object) -> _Fields:
        fields = self._info.fields
        if isinstance(item, bool) or not isinstance(item, int | str):
            raise InvalidRequestError(f"{item!r} is no field")
        if isinstance(item, int):
            return _Fields(fields[item].type)
        return _Fields(next(field.type for field in fields if field.name == item))

    def __getattr__(self, name: str) -> _Fields:
        return self[name]

    def __iter__(self) -> Iterator[_Fields]:
        if self._info.kind not in (Kind.ROW, Kind.TUPLE):
            self._refuse()
        return iter([_Fields(field.type) for field in self._info.fields])

    def _refuse(self, *_: object) -> NoReturn:
        raise InvalidRequestError("only fields can be selected")

    __bool__ = __eq__ = __ne__ = __lt__ = __str__ = __repr__ = __format__ = _refuse
