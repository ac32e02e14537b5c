"""Origin of a stream's rows: the sources and the aggregation that determine their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Grouping:
    """The groups of a native Spark aggregation, which emits one row per group and batch."""

    expressions: tuple[str, ...]
    """Grouping expressions in Spark's notation."""
    carriers: Mapping[str, int] = field(default_factory=dict)
    """Columns of the stream that identify the value of an expression: column name to the
    expression's index."""

    def distinguished_by(self, columns: Iterable[str]) -> bool:
        """True if a key of these columns identifies one group."""
        found = {self.carriers[name] for name in columns if name in self.carriers}
        return len(found) == len(self.expressions)

    def columns_beside(self, columns: Iterable[str]) -> list[str]:
        """Columns of the stream that carry grouping expressions, except the given ones."""
        return [name for name in self.carriers if name not in set(columns)]


@dataclass(frozen=True)
class Origin:
    """The sources of a DataFrame, and the last aggregation after them."""

    sources: tuple[str, ...] = ()
    """Spark's names of the streaming sources that split a batch over several tasks."""
    grouping: Grouping | None = None
    """The last native aggregation; None if there is none, or its grouping is unknown."""
