"""Methods of a `DataStream` that a `KeyedStream` refuses."""

from __future__ import annotations

from typing import NoReturn

from queryable_state.wire.errors import InvalidRequestError, Reason

_OF_DATA_STREAMS = frozenset(
    {
        "broadcast",
        "cache",
        "disable_chaining",
        "force_non_parallel",
        "forward",
        "get_name",
        "global_",
        "name",
        "partition_custom",
        "project",
        "rebalance",
        "rescale",
        "set_buffer_timeout",
        "set_max_parallelism",
        "set_parallelism",
        "set_uid_hash",
        "shuffle",
        "slot_sharing_group",
        "start_new_chain",
        "uid",
    }
)


class RefusedOnKeyedStreams:
    """Refusal, with the reason, of methods that need an operator or partitions of its own."""

    def __getattr__(self, name: str) -> NoReturn:
        """Raises InvalidRequestError for the methods of a `DataStream` that need an operator or
        partitions of the stream's own."""
        if name in _OF_DATA_STREAMS:
            raise InvalidRequestError(
                f"{name}() of a KeyedStream: key_by is no operator, and it fixes the partition of "
                f"each element. Call {name}() on the stream before key_by or on an operator's "
                "output",
                reason=Reason.UNSUPPORTED,
            )
        raise AttributeError(f"a KeyedStream has no attribute {name!r}")
