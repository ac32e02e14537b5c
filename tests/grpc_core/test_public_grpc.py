"""The choice between gRPC's core and `grpc.aio` behind a public port."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from queryable_state.server import public_grpc
from queryable_state.server.aio_server import AioServer
from queryable_state.server.grpc_core import GrpcServer
from queryable_state.server.public_grpc import public_grpc_server
from queryable_state.server.serving.byte_budget import ClientBudgets

if TYPE_CHECKING:
    import pytest


def _chosen(*, plain: bool = False) -> Any:
    return public_grpc_server(
        [], plain=plain, budgets=ClientBudgets(1000), read_timeout_s=1, endless=()
    )


async def test_the_core_is_used_unless_plain_grpc_is_set() -> None:
    assert isinstance(_chosen(), GrpcServer)
    assert isinstance(_chosen(plain=True), AioServer)


async def test_without_a_known_core_one_warning_says_why_and_what_it_costs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    public_grpc._warn.cache_clear()
    monkeypatch.setattr(public_grpc, "missing", lambda: "no attribute 'poll'")
    with caplog.at_level(logging.WARNING):
        assert isinstance(_chosen(), AioServer)
        assert isinstance(_chosen(), AioServer)
    [record] = caplog.records
    assert "no attribute 'poll'" in record.getMessage()
    assert "four times the CPU time" in record.getMessage()
