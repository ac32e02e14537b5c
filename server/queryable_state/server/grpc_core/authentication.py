"""Authentication of a call, before its request is read."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import grpc

from queryable_state.server.serving.error_boundary import to_refusal
from queryable_state.wire.status import status_of, trailing_metadata

if TYPE_CHECKING:
    from queryable_state.server.grpc_core.server_call import ServerCall
    from queryable_state.server.security.access.gate import Gate

_log = logging.getLogger(__name__)


async def authenticate(gate: Gate, call: ServerCall) -> bool:
    """Sets the caller of a call; False if it has none: the call is ended then."""
    try:
        call.caller = await gate.caller(call.method, call.invocation_metadata())
    except asyncio.CancelledError:
        call.end(grpc.StatusCode.CANCELLED, "the server has cancelled the call")
        raise
    except Exception as failure:  # noqa: BLE001 - the boundary: a defect becomes a status
        _refuse(call, failure)
        return False
    finally:
        # A cancelled task keeps its frames, and with them the call.
        call.task = None
    return True


def _refuse(call: ServerCall, failure: Exception) -> None:
    # In a function of its own: a frame of the failure's trace that keeps the failure is a cycle,
    # and the garbage collector hardly ever runs.
    refusal = to_refusal(failure, f"the authentication of {call.method}")
    call.end(status_of(refusal), refusal.message, trailing_metadata(refusal))
