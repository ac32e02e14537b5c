"""Options of every call that reads state."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from queryable_state.client._consistency import Consistency


class ReadOptions(TypedDict, total=False):
    """What every call that reads state takes beside what it asks for."""

    key_type: object
    """What the caller takes the key type for: a type, Spark DDL or a pyspark `DataType`.
    `KeyTypeError` where it is another."""

    descriptor: object
    """What the caller takes the state for: any object with `kind`, `value_type` and, of a map,
    `map_key_type`. `DescriptorMismatchError` where it is another."""

    namespace: bytes | None
    """Encoded namespace; None: the state outside windows."""

    consistency: Consistency
    """Which batches it may be answered from; `Consistency.COMMITTED` unless given."""

    allow_incomplete: bool
    """Accept the answer of a range that lost older state; `info.complete_since_batch` says since
    when it is complete."""

    timeout_s: float | None
    """Seconds until the call fails; None: the client's."""


def check_options(options: ReadOptions) -> None:
    """Refuses, as Python itself does, what a call has no argument for."""
    unknown = options.keys() - ReadOptions.__optional_keys__
    if unknown:
        raise TypeError(
            f"unexpected argument {', '.join(sorted(map(repr, unknown)))}: there are "
            + ", ".join(sorted(ReadOptions.__optional_keys__))
        )
