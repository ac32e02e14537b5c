"""Options of every call that reads state."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from queryable_state.client._consistency import Consistency
    from queryable_state.wire.keys.time_window import TimeWindow


class TypedReadOptions(TypedDict, total=False):
    """Keyword arguments common to all calls that read state, without the descriptor."""

    key_type: object
    """Expected key type: a type, Spark DDL or a pyspark `DataType`. The call raises
    `KeyTypeError` if the state has another one."""

    window: TimeWindow | None
    """Window of a state with windows; None for a state without."""

    consistency: Consistency
    """Which batches the answer may come from; `Consistency.COMMITTED` unless given."""

    allow_incomplete: bool
    """Accept an answer from key groups that lost older state; `info.complete_since_batch` is the
    first complete batch."""

    timeout_s: float | None
    """Seconds until the call fails; None: the client's timeout."""


class ReadOptions(TypedReadOptions, total=False):
    """Keyword arguments common to all calls that read state."""

    descriptor: object
    """Expected state: any object with `kind`, `value_type` and, for a map, `map_key_type`. The
    call raises `DescriptorMismatchError` if the registered state differs. With a descriptor of
    `streaming`, type checkers know the type of the answer."""


def check_options(options: ReadOptions) -> None:
    """Raises `TypeError` for an unknown keyword argument, as Python itself does."""
    unknown = options.keys() - ReadOptions.__optional_keys__
    if unknown:
        raise TypeError(
            f"unexpected argument {', '.join(sorted(map(repr, unknown)))}: there are "
            + ", ".join(sorted(ReadOptions.__optional_keys__))
        )
