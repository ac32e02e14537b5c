"""Where the rows of a source come from, as far as their order depends on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Grouping:
    """The groups of a native aggregation: one row for each in a batch."""

    expressions: tuple[str, ...]
    """What it groups by, as Spark writes it."""
    carriers: Mapping[str, int] = field(default_factory=dict)
    """Columns of the stream that tell one value of an expression from the others, by name: the
    expression's place."""

    def told_apart_by(self, columns: Iterable[str]) -> bool:
        """Whether each group has a key of its own where these are the key's columns."""
        found = {self.carriers[name] for name in columns if name in self.carriers}
        return len(found) == len(self.expressions)

    def not_in(self, columns: Iterable[str]) -> list[str]:
        """Columns of the stream that stand for groups, but for these."""
        return [name for name in self.carriers if name not in set(columns)]


@dataclass(frozen=True)
class Origin:
    """The sources of a DataFrame, and the aggregation they went through."""

    sources: tuple[str, ...] = ()
    """Streaming sources, as Spark names them, that give a batch to several tasks."""
    grouping: Grouping | None = None
    """Of the last native aggregation; None: rows are as the sources have them, or it is not
    known what they were grouped by."""
