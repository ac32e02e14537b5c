"""Side outputs of the last batch of a harness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.streaming.stateless.output_tag import OutputTag


class SideRows:
    """The values of each side output that a harness declares."""

    def __init__(self, tags: Sequence[OutputTag]) -> None:
        self._rows: dict[OutputTag, list[Any]] = {tag: [] for tag in tags}

    def clear(self) -> None:
        """Drops the values of all side outputs."""
        for values in self._rows.values():
            values.clear()

    def add(self, tag: OutputTag, values: Iterable[Any]) -> None:
        """Adds values of a side output."""
        self._rows[tag] += values

    def of(self, tag: OutputTag) -> list[Any]:
        """A copy of the values of a side output; raises InvalidRequestError for an unknown tag."""
        if tag not in self._rows:
            known = ", ".join(map(repr, self._rows)) or "none"
            raise InvalidRequestError(
                f"side_output({tag!r}): the side outputs of this harness are {known}; name it in "
                "side_outputs"
            )
        return list(self._rows[tag])
