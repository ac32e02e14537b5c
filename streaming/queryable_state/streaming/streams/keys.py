"""Keys of a stream as the user gives them: columns, positions or a function."""

from __future__ import annotations

import pickle
from dataclasses import replace
from io import BytesIO
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.key_types import key_type_of
from queryable_state.streaming.graph.keys import KeySelector as KeyColumns
from queryable_state.streaming.graph.nodes import SourceNode, TransformNode
from queryable_state.streaming.runtime.stateless.steps import Emits, Step
from queryable_state.streaming.sources.watermarks import without_watermark
from queryable_state.streaming.stateless.functions import KeySelector
from queryable_state.streaming.streams.steps import step_of
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, type_info

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.functions import RuntimeContext
    from queryable_state.streaming.graph.nodes import StreamNode


def keyed(node: StreamNode, keys: Sequence[Any], key_type: object) -> tuple[StreamNode, KeyColumns]:
    """The keys of a stream, and the node that has their columns."""
    columns = node.columns
    if len(keys) == 2 and key_type is None and _is_function(keys[0]):
        keys, key_type = keys[:1], keys[1]
    if keys and key_type is None and all(isinstance(key, str) for key in keys):
        return node, KeyColumns.by_columns(tuple(keys), columns)
    if keys and key_type is None and all(type(key) is int for key in keys):
        return _by_positions(node, tuple(keys))
    if len(keys) != 1 or not _is_function(keys[0]):
        raise InvalidRequestError(
            "key_by takes column names, positions, or a KeySelector or function with or without a "
            f"key type, not {', '.join(repr(key) for key in keys) or 'nothing'}"
        )
    step = step_of(keys[0], KeySelector)
    element = columns.element_type(columns.names, "key_by")
    function = keys[0].get_key if isinstance(keys[0], KeySelector) else keys[0]
    declared = (
        key_type_of(function, element, _first(node)) if key_type is None else type_info(key_type)
    )
    if declared is not None and declared.kind == Kind.PICKLED:
        declared = None
    return _computed(node, step, declared)


def _is_function(key: object) -> bool:
    return isinstance(key, KeySelector) or callable(key)


def _first(node: StreamNode) -> tuple[Any, ...]:
    source = without_watermark(node)
    return source.first if isinstance(source, SourceNode) else ()


def _by_positions(node: StreamNode, positions: tuple[int, ...]) -> tuple[StreamNode, KeyColumns]:
    columns = node.columns
    element = columns.element_type(columns.names, "key_by")
    fields = element.fields if element.kind in (Kind.ROW, Kind.TUPLE) else ()
    for position in positions:
        if not 0 <= position < len(fields):
            raise InvalidRequestError(
                f"key_by: position {position} does not exist: the elements are {element}"
            )
    if not columns.bare:
        names = tuple(columns.names[position] for position in positions)
        return node, KeyColumns.by_columns(names, columns)
    types = [fields[position].type for position in positions]
    key_type = types[0]
    if len(types) > 1:
        key_type = TypeInfo(Kind.TUPLE, fields=tuple(Field("", each) for each in types))
    step = Step(function=itemgetter(*positions), emits=Emits.RESULT)
    return _computed(node, step, key_type)


def _computed(
    node: StreamNode, step: Step, key_type: TypeInfo | None
) -> tuple[StreamNode, KeyColumns]:
    """A node that adds the key's columns to the elements."""
    columns = node.columns
    keys = KeyColumns.computed(key_type, columns)
    if keys.is_pickled:
        step = replace(step, function=PickledKeys(step.function), methods=("get_key",))
    added = {field.name: field.type for field in keys.fields}
    made = TransformNode(
        upstreams=(node,),
        kind="key_by",
        step=step,
        output_type=columns.element_type(columns.names, "key_by"),
        columns=Columns({**columns.types, **added}, event_time=columns.event_time),
        keys=keys,
    )
    return made, keys


class PickledKeys(KeySelector):
    """The pickles of a function's keys; equal keys of scalars and tuples have equal pickles."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._get_key = function.get_key if isinstance(function, KeySelector) else function

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self._function, KeySelector):
            self._function.open(runtime_context)

    def close(self) -> None:
        if isinstance(self._function, KeySelector):
            self._function.close()

    def get_key(self, value: Any) -> bytes | None:
        """The pickle of the element's key; None if the key is None."""
        key = self._get_key(value)
        if key is None:
            return None
        buffer = BytesIO()
        pickler = pickle.Pickler(buffer, protocol=5)
        # Without it equal keys would differ by whether their parts are one object.
        pickler.fast = True
        try:
            pickler.dump(key)
        except Exception as error:
            raise TypeError(
                f"the key is a {type(key).__name__}, which cannot be pickled: {error}; "
                "return a scalar or a tuple, or pass key_type"
            ) from error
        return buffer.getvalue()
