"""Tags of side outputs: second and further streams that a process function emits."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import TypeInfo, Types, type_info


class OutputTag:
    """Name and element type of a side output.

    A process function emits to it with `yield tag, value`; `stream.get_side_output(tag)` is the
    stream of these values. Without a type the values are pickled. Tags with the same id are one
    tag.
    """

    exists: ClassVar[bool] = False
    """True once this process has a tag: only then outputs can have one."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        OutputTag.exists = True
        return super().__new__(cls)

    def __init__(self, tag_id: Any, type_info: object = None) -> None:
        if not isinstance(tag_id, str) or not tag_id:
            raise InvalidRequestError(
                f"the id of an OutputTag must be a non-empty string, not {tag_id!r}"
            )
        self.tag_id: str = tag_id
        self.type_info: TypeInfo = _type(type_info)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r}, {self.type_info})"


def tagged(output: object) -> OutputTag | None:
    """The tag of a function's output `(tag, value)`; None for an output of the main stream."""
    if isinstance(output, tuple) and len(output) == 2 and isinstance(output[0], OutputTag):
        return output[0]
    return None


def _type(given: object) -> TypeInfo:
    return Types.PICKLED_BYTE_ARRAY() if given is None else type_info(given)
