"""Factory of the gRPC server behind a public port, on gRPC's core or on `grpc.aio`."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

import grpc

from queryable_state.server.aio_server import AioServer
from queryable_state.server.grpc_core.missing import missing

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from queryable_state.server.grpc_core import GrpcServer
    from queryable_state.server.security.access.gate import Gate
    from queryable_state.server.serving.byte_budget import ClientBudgets

    PublicGrpcServer = GrpcServer | AioServer

_log = logging.getLogger(__name__)


def public_grpc_server(
    options: Sequence[tuple[str, int]],
    *,
    plain: bool,
    budgets: ClientBudgets,
    read_timeout_s: float,
    endless: Collection[str],
    gate: Gate | None = None,
) -> PublicGrpcServer:
    """Returns a server on gRPC's core; on `grpc.aio` if `plain`, or if grpcio lacks the core."""
    lacking = missing()
    if lacking:
        _warn(lacking)
    if plain or lacking:
        return AioServer(options, endless=endless, gate=gate)
    # Imported here: the import fails with another grpcio.
    from queryable_state.server.grpc_core import GrpcServer

    return GrpcServer(
        options, budgets=budgets, read_timeout_s=read_timeout_s, endless=endless, gate=gate
    )


@functools.cache
def _warn(lacking: str) -> None:
    """Logs the missing part, once a process."""
    _log.warning(
        "public gRPC servers run on grpc.aio, because the core of grpcio %s is not the one this "
        "server knows (%s): unary calls cost four times the CPU time, and clients that send "
        "slowly or do not read their answers are not disconnected. The frame port is not affected. "
        "Install a grpcio that tests/grpc_core pass with",
        grpc.__version__,
        lacking,
    )
