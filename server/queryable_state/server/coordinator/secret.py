"""The job's secret: wanted on every call, and offered to processes a person starts."""

from __future__ import annotations

import fcntl
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
_FOLDER_PREFIX = "queryable-state-"
_FILE_NAME = "secret"
_REFUSAL = AuthenticationError(
    "this call needs the job's secret in its metadata, `authorization: Bearer <secret>`; the "
    "driver offers it in the coordinator's secret_file"
)


class SecretInterceptor(grpc.ServerInterceptor):
    """Refuses every call that does not present the secret, before a servicer sees it."""

    def __init__(self, secret: str) -> None:
        self._wanted = f"Bearer {secret}".encode()
        # Of streams: the one request of other methods is received before they are called.
        self._refuse: grpc.RpcMethodHandler[Any, Any] = grpc.stream_unary_rpc_method_handler(
            _refuse
        )

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
    """The secret in a file that only its owner can read, in a folder of its own.

    Locked while it is meant: what a killed driver left is found unlocked, and removed, by the
    next one of this user.
    """

    def __init__(self, secret: str) -> None:
        _remove_abandoned()
        self._folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))
        self.path = self._folder / _FILE_NAME
        written = self._folder / "new"
        self._descriptor = os.open(written, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        os.write(self._descriptor, secret.encode())
        # Only now it has the name that others look for.
        written.rename(self.path)

    def remove(self) -> None:
        """Removes file and folder; may be repeated."""
        if self._descriptor >= 0:
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._descriptor)
            self._descriptor = -1


def _remove_abandoned() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*/{_FILE_NAME}"):
        try:
            with path.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
                path.parent.rmdir()
        except OSError:
            # In use, gone, or another user's.
            continue


def _refuse(_requests: object, context: grpc.ServicerContext) -> object:
    context.set_trailing_metadata(trailing_metadata(_REFUSAL))
    context.abort(status_of(_REFUSAL), _REFUSAL.message)
