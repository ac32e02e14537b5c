"""Watches of callers: what grants allow, and the end with a withdrawn token, also while idle."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.streams import wire_keys
from tests.security.access.sites import RULES, Asker, bearer, token
from tests.waiting import DEADLINE_S

from queryable_state.server.security import open_sessions
from queryable_state.server.security.access import access_control
from queryable_state.server.security.access.tokens import digest_of
from queryable_state.v1 import watch_pb2
from queryable_state.wire.errors import AuthenticationError, PermissionDeniedError, RetryLaterError
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.query.proxy.proxy_server import ProxyServer

WITHOUT_READER = RULES.replace(digest_of(token("reader")), digest_of(token("replaced")))
KEYS = {"keys": wire_keys("sensor_1")}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed rules are noticed at once."""
    monkeypatch.setattr(access_control, "_POLL_S", 0.01)
    monkeypatch.setattr(open_sessions, "_EVERY_S", 0.01)


async def opened(asker: Asker, caller: str, **fields: Any) -> Any:
    """A watch that has sent its first message; raises its refusal."""
    request = watch_pb2.WatchKvStateRequest(job="sensors", state_name="last", **fields)
    call = asker.stub.WatchKvState(request, metadata=bearer(caller), timeout=DEADLINE_S)
    await following(call)
    return call


async def following(call: Any) -> None:
    try:
        await call.read()
    except grpc.aio.AioRpcError as failure:
        raise error_from_call(failure, "server") from failure


async def test_keys_are_read_and_states_are_scanned(proxy: ProxyServer) -> None:
    async with Asker(proxy.address, "all") as asker:
        for caller, fields in (("reader", KEYS), ("scanner", {}), ("all", KEYS), ("all", {})):
            (await opened(asker, caller, **fields)).cancel()
        for caller, fields in (("reader", {}), ("scanner", KEYS), ("lister", KEYS), ("admin", {})):
            with pytest.raises(PermissionDeniedError):
                await opened(asker, caller, **fields)


async def test_an_idle_watch_ends_with_its_token(proxy: ProxyServer, tmp_path: Path) -> None:
    async with Asker(proxy.address, "all") as asker:
        call = await opened(asker, "reader", **KEYS)
        (tmp_path / "access.toml").write_text(WITHOUT_READER)
        async with asyncio.timeout(4):
            with pytest.raises(RetryLaterError, match="rules have changed"):
                await following(call)
        with pytest.raises(AuthenticationError):
            await opened(asker, "reader", **KEYS)
