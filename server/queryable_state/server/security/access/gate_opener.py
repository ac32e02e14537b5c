"""Start of the access control of a process, and the gate of its public ports."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.server.security.access.access_control import AccessControl
from queryable_state.server.security.access.gate import Gate
from queryable_state.server.security.signature_check import SignatureCheck
from queryable_state.server.serving.health_service import SERVICE_NAME as HEALTH

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from queryable_state.server.security.access.access_settings import AccessSettings


def open_gate(
    settings: AccessSettings, stack: AsyncExitStack, *, server_id: str, secret: str = ""
) -> Gate | None:
    """The gate of the public ports of one process; None if everyone is answered.

    `server_id` and `secret` are those for which proxies sign their calls; without a secret no
    proxy calls. `stack` gets what ends the access control. Raises `InvalidRequestError` if the
    access file or the keys of JWTs cannot be used.
    """
    if not settings.authenticates:
        return None
    access = AccessControl(settings)
    # Two tasks: sessions end with their tokens also while a file cannot be read.
    for task in (
        asyncio.create_task(access.run(), name="access control"),
        asyncio.create_task(access.sessions.run(), name="sessions of callers"),
    ):
        stack.push_async_callback(asyncio.wait, [task])
        stack.callback(task.cancel)
    signatures = SignatureCheck(secret, server_id) if secret else None
    return Gate(access, signatures, open_services=(HEALTH,))
