"""Answers for which the server has no room, because clients do not read others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import grpc.aio
import pytest
from tests.grpc_core.echo import Echo, call_echo, serving

from queryable_state.server.grpc_core import GrpcServer
from queryable_state.server.serving.byte_budget import SHARE_BYTES, ClientBudgets
from queryable_state.wire.errors import Reason, RetryLaterError
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from queryable_state.server.grpc_core.server_call import ServerCall


class Verbose(Echo):
    """Answers with more than a connection may hold while others hold too much."""

    async def answer(self, request: bytes, call: ServerCall) -> bytes:
        return bytes(SHARE_BYTES + 1)

    async def count(self, request: bytes, call: ServerCall) -> None:
        await call.write(bytes(SHARE_BYTES + 1))


@pytest.mark.parametrize("name", ["Answer", "Count"])
async def test_an_answer_without_room_is_refused_for_now(name: str) -> None:
    """Nothing is wrong with the request: the same one is answered later."""
    budgets = ClientBudgets(1)
    budgets.answers.take(1)
    async with serving(partial(GrpcServer, budgets=budgets), Verbose()) as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call_echo(channel, name)
        refusal = error_from_call(raised.value, "the server")
        assert isinstance(refusal, RetryLaterError)
        assert refusal.reason == Reason.OVERLOADED
        assert refusal.retry_after_ms > 0
        budgets.answers.give(1)
        assert len(await call_echo(channel, name)) > SHARE_BYTES
