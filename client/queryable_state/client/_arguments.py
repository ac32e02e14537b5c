"""Validation of the arguments of public calls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import UUID

from queryable_state.v1 import query_pb2
from queryable_state.wire.addresses import join_address, parse_addresses, parse_host, parse_port
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.time_window import TimeWindow, epoch_us, window_range

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

Job = str | UUID | None

DEFAULT_PORT = 9069

MOST_NUMBER = (1 << 63) - 1
"""Largest batch id and count."""

# The wire has 32 bits of milliseconds.
_LONGEST_TIMEOUT_S = 4_000_000


# asyncio's own, without the exception of `get_running_loop` that a look-up would pay for.
running_loop = asyncio._get_running_loop
"""Returns the running event loop; None if there is none."""


def checked_addresses(
    host: object, port: object, addresses: str | Iterable[str] | None
) -> tuple[str, ...]:
    """Returns HOST:PORT of each server; raises `InvalidRequestError` if an argument is invalid."""
    if addresses is not None:
        if host is not None:
            raise InvalidRequestError(
                f"give either host ({host!r}) or addresses ({addresses!r}), not both: put the "
                "address of the host into addresses"
            )
        if not isinstance(addresses, str):
            addresses = [*addresses]
            if not all(isinstance(address, str) for address in addresses):
                raise InvalidRequestError(
                    f"addresses must be texts, each HOST or HOST:PORT, not {addresses!r}"
                )
        return tuple(parse_addresses(addresses, "the server's address", DEFAULT_PORT))
    if not isinstance(host, str) or not host:
        raise InvalidRequestError(
            f"host must be the name or address of a proxy or state server, not {host!r}; or give "
            "addresses"
        )
    return (join_address(parse_host(host, "host"), parse_port(port, "port")),)


def _is_text(name: str) -> bool:
    """False if UTF-8 cannot encode it: Python has such strings of arguments with other bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_name(state_name: object) -> None:
    """Raises `InvalidRequestError` if the argument is not a queryable name."""
    if not isinstance(state_name, str) or not state_name or not _is_text(state_name):
        raise InvalidRequestError(
            f"state_name must be the queryable name of a state, not {state_name!r}"
        )


def check_hot_keys_limit(limit: object) -> None:
    """Raises `InvalidRequestError` if the argument is not a number of hot keys."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 1000:
        raise InvalidRequestError(f"limit must be 1 to 1000, not {limit!r}")


def job_text(job: object) -> str:
    """Returns the job as named on the wire; empty: the only job."""
    if job is None:
        return ""
    if isinstance(job, UUID):
        return job.hex
    if isinstance(job, str) and job and _is_text(job):
        return job
    raise InvalidRequestError(
        f"job must be an id, a name, a UUID, or None for the only job with the state; not {job!r}"
    )


def key_list(keys: Iterable[Any]) -> list[Any]:
    """Returns the keys of a lookup of many; raises `InvalidRequestError` for one text or bytes.

    These are iterable: each character would be looked up as a key.
    """
    if isinstance(keys, str | bytes | bytearray | memoryview):
        raise InvalidRequestError(
            f"keys is one {type(keys).__name__}, of which each element would be a key: give a "
            "list of keys"
        )
    return list(keys)


def checked_timeout(timeout_s: object) -> float:
    """Returns seconds above 0 that fit on the wire; raises `InvalidRequestError` otherwise."""
    if (
        isinstance(timeout_s, bool)
        or not isinstance(timeout_s, int | float)
        or not 0 < timeout_s <= _LONGEST_TIMEOUT_S
    ):
        raise InvalidRequestError(
            f"timeout_s must be a number of seconds above 0, at most {_LONGEST_TIMEOUT_S}: "
            f"{timeout_s!r}"
        )
    return float(timeout_s)


def checked_window(window: object) -> TimeWindow | None:
    """Raises `InvalidRequestError` if the argument is neither a window nor None."""
    if window is not None and not isinstance(window, TimeWindow):
        raise InvalidRequestError(f"window must be a TimeWindow(start, end), not {window!r}")
    if window is not None:
        # Raises for times of more than 64 bits.
        window.namespace  # noqa: B018
    return window


def checked_window_range(
    start: int | datetime | None, end: int | datetime | None, newest: object
) -> query_pb2.WindowRange:
    """Returns the range of a read of windows; raises `InvalidRequestError` for invalid bounds."""
    start_us = None if start is None else epoch_us(start, "start of the range")
    end_us = None if end is None else epoch_us(end, "end of the range")
    try:
        wanted = window_range(start_us, end_us)
    except ValueError as problem:
        raise InvalidRequestError(f"a bound of the range is not 64-bit: {problem}") from None
    if newest is not None:
        if isinstance(newest, bool) or not isinstance(newest, int) or not 0 < newest < 1 << 32:
            raise InvalidRequestError(
                f"newest must be a number of windows from 1 to 2^32 - 1, or None, not {newest!r}"
            )
        wanted.limit, wanted.newest = newest, True
    return wanted


def checked_range(start: object, limit: object) -> query_pb2.ListRange:
    """Returns the range of a slice; raises `InvalidRequestError` for positions it cannot have."""
    if isinstance(start, bool) or not isinstance(start, int) or abs(start) > MOST_NUMBER:
        raise InvalidRequestError(
            f"start must be the position of a list element, negative from its end, not {start!r}"
        )
    if limit is None:
        return query_pb2.ListRange(start=start)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit < 1 << 32:
        raise InvalidRequestError(
            f"limit must be a number of elements from 1 to 2^32 - 1, or None, not {limit!r}"
        )
    return query_pb2.ListRange(start=start, limit=limit)
