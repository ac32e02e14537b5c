"""The server under test: gRPC's core and `grpc.aio`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.server.aio_server import AioServer
from queryable_state.server.grpc_core import GrpcServer

if TYPE_CHECKING:
    from tests.grpc_core.echo import Server


@pytest.fixture(params=[GrpcServer, AioServer], ids=["grpc core", "grpc.aio"])
def of(request: pytest.FixtureRequest) -> Server:
    """The server under test."""
    server: Server = request.param
    return server
