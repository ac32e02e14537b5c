"""The job's secret: wanted on every call, and offered to processes a person starts."""

from __future__ import annotations

import hmac
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from queryable_state.wire.errors import AuthenticationError
from queryable_state.wire.status import status_of, trailing_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

_KEY = "authorization"
_REFUSAL = AuthenticationError(
    "this call needs the job's secret in its metadata, `authorization: Bearer <secret>`; the "
    "driver offers it in the coordinator's secret_file"
)


class SecretInterceptor(grpc.ServerInterceptor):
    """Refuses every call that does not present the secret, before a servicer sees it."""

    def __init__(self, secret: str) -> None:
        self._wanted = f"Bearer {secret}".encode()
        self._refuse: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(_refuse)

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Passes on what carries the secret; the comparison takes the same time for all others."""
        for key, value in handler_call_details.invocation_metadata:
            given = value if isinstance(value, bytes) else value.encode()
            if key == _KEY and hmac.compare_digest(given, self._wanted):
                return continuation(handler_call_details)
        return self._refuse


class SecretFile:
    """The secret in a file that only its owner can read, in a folder of its own."""

    def __init__(self, secret: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="queryable-state-"))
        self.path = self._folder / "secret"
        descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secret)

    def remove(self) -> None:
        """Removes file and folder; may be repeated."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _refuse(_request: object, context: grpc.ServicerContext) -> object:
    context.set_trailing_metadata(trailing_metadata(_REFUSAL))
    context.abort(status_of(_REFUSAL), _REFUSAL.message)
