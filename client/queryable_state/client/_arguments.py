"""What callers may pass, checked where it comes in."""

from __future__ import annotations

import asyncio
from uuid import UUID

from queryable_state.wire.errors import InvalidRequestError

Job = str | UUID | None

MOST_NUMBER = (1 << 63) - 1
"""Of a batch, and of what is counted."""

# What servers are told in 32 bits of milliseconds.
_LONGEST_TIMEOUT_S = 4_000_000


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop this is called on; None: on none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def checked_address(host: object, port: object) -> str:
    """HOST:PORT of arguments that can be one."""
    if not isinstance(host, str) or not host:
        raise InvalidRequestError(f"host must be a name or address, not {host!r}")
    if not isinstance(port, int) or not 0 < port < 65536:
        raise InvalidRequestError(f"port must be a number from 1 to 65535, not {port!r}")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_name(state_name: object) -> None:
    """Refuses what is no queryable name."""
    if not isinstance(state_name, str) or not state_name:
        raise InvalidRequestError(
            f"state_name must be the queryable name of a state, not {state_name!r}"
        )


def job_text(job: object) -> str:
    """A job as it is named on the wire; empty: the only one."""
    if job is None:
        return ""
    if isinstance(job, UUID):
        return job.hex
    if isinstance(job, str) and job:
        return job
    raise InvalidRequestError(
        f"job must be an id, a name, a UUID, or None for the only job with the state; not {job!r}"
    )


def checked_timeout(timeout_s: object) -> float:
    """Seconds above zero, and no more than servers can be told."""
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


def checked_namespace(namespace: object) -> bytes:
    """An encoded namespace; empty: the void one."""
    if namespace is None:
        return b""
    if not isinstance(namespace, bytes):
        raise InvalidRequestError(
            f"namespace must be the bytes of an encoded namespace, not {namespace!r}"
        )
    return namespace
