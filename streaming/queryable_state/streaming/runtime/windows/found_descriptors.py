"""State descriptors that are attributes of a trigger, an assigner or a window function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.functions import Function
from queryable_state.streaming.state_descriptor import StateDescriptor
from queryable_state.streaming.windows.assigner import WindowAssigner
from queryable_state.streaming.windows.session_windows import SessionWindowTimeGapExtractor
from queryable_state.streaming.windows.trigger import Trigger

if TYPE_CHECKING:
    from collections.abc import Iterator

_OWNERS = (Trigger, WindowAssigner, Function, SessionWindowTimeGapExtractor)


def found_descriptors(owner: object) -> list[StateDescriptor]:
    """The descriptors in attributes of an object and of its class, each once, in order.

    Attributes that are triggers, assigners or functions are searched, too, and so are lists, tuples
    and dicts.
    """
    found: dict[int, StateDescriptor] = {}
    seen: set[int] = set()
    for descriptor in _found(owner, seen):
        found.setdefault(id(descriptor), descriptor)
    return list(found.values())


def _found(value: Any, seen: set[int]) -> Iterator[StateDescriptor]:
    if isinstance(value, StateDescriptor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _found(each, seen)
    elif isinstance(value, _OWNERS) and id(value) not in seen:
        seen.add(id(value))
        for owner in (*reversed(type(value).__mro__), value):
            for each in list(getattr(owner, "__dict__", {}).values()):
                yield from _found(each, seen)
