"""Our clients with tokens: fixed ones, refreshed ones, and ones that end."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.security.access.issuers import AUDIENCE, ISSUER, Issuer
from tests.security.access.sites import RULES, start_job, token, write_rules
from tests.waiting import DEADLINE_S, eventually

from queryable_state.client import (
    AuthenticationError,
    InvalidRequestError,
    PermissionDeniedError,
    QueryableStateClient,
)
from queryable_state.client.blocking import QueryableStateClient as BlockingClient
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.testing.cluster import InProcessCluster
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.server.query.proxy.proxy_server import ProxyServer


def client(address: str, given: Any, **options: Any) -> QueryableStateClient:
    host, port = host_and_port(address)
    return QueryableStateClient(host, port, token=given, **options)


async def value(asked: QueryableStateClient, number: int = 1) -> float:
    state: Any = await asked.get_kv_state("sensors", "last", f"sensor_{number}")
    found: float = state.value()
    return found


@pytest.mark.parametrize("direct", [False, True])
async def test_a_client_with_a_token_reads_and_scans_what_it_may(
    proxy: ProxyServer, direct: bool
) -> None:
    async with client(proxy.address, token("all"), direct=direct) as asked:
        for number in range(100):
            assert await value(asked, number) == float(number)
        assert len([key async for key, _ in asked.scan("sensors", "last")]) == 100
        assert (await asked.measure("sensors", "last")).records
        assert [state.state_name for state in await asked.list_states()] == ["last", "seen"]
        explained = await asked.explain("sensors", "last", "sensor_1")
        assert explained.error is None
        if direct:
            await eventually(lambda: any(c.transport == "frames" for c in asked.connections()[1:]))
            assert await value(asked) == 1.0


async def test_a_denied_question_is_an_error_at_once(proxy: ProxyServer) -> None:
    async with client(proxy.address, token("reader"), timeout_s=30.0) as asked:
        assert await value(asked) == 1.0
        async with asyncio.timeout(10):
            with pytest.raises(PermissionDeniedError, match="may not see state 'seen'"):
                await asked.get_kv_state("sensors", "seen", "sensor_1")
            with pytest.raises(PermissionDeniedError, match="may not scan state 'last'"):
                async for _ in asked.scan("sensors", "last"):
                    pass
            with pytest.raises(PermissionDeniedError):
                await asked.multi_get("sensors", "seen", ["sensor_1"])
    async with client(proxy.address, token("lister"), timeout_s=30.0) as asked:
        async with asyncio.timeout(10):
            with pytest.raises(PermissionDeniedError, match="may not read state 'last'"):
                await value(asked)


@pytest.mark.parametrize("given", [None, "qst_unknown"])
async def test_without_a_valid_token_every_call_fails_at_once(
    proxy: ProxyServer, given: str | None
) -> None:
    async with client(proxy.address, given, timeout_s=30.0) as asked, asyncio.timeout(10):
        with pytest.raises(AuthenticationError, match="token"):
            await value(asked)
        with pytest.raises(AuthenticationError):
            await asked.list_jobs()
        with pytest.raises(AuthenticationError):
            async for _ in asked.scan("sensors", "last"):
                pass


@pytest.mark.parametrize("given", ["", " ", "two words", "é", 7])
def test_a_token_that_no_header_can_carry_is_refused_at_once(given: object) -> None:
    with pytest.raises(InvalidRequestError, match="token"):
        client("localhost:9069", given)


@pytest.mark.parametrize(("host", "warned"), [("localhost", False), ("db.example", True)])
def test_a_token_in_clear_text_to_another_machine_is_a_warning(
    host: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    QueryableStateClient(host, 9069, token="qst_x")
    QueryableStateClient(host, 9069, token="qst_x", tls=True)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warned
    assert "qst_x" not in caplog.text


async def test_a_blocking_client_has_tokens_too(proxy: ProxyServer) -> None:
    host, port = host_and_port(proxy.address)

    def ask() -> Any:
        with BlockingClient(host, port, token=token("reader")) as asked:
            return asked.get_kv_state("sensors", "last", "sensor_7").value()

    assert await asyncio.to_thread(ask) == 7.0


class Jwt:
    """A cluster that takes JWTs of a short life."""

    def __init__(self, cluster: InProcessCluster, proxy: ProxyServer, issuer: Issuer) -> None:
        self.cluster, self.proxy, self.issuer = cluster, proxy, issuer


@pytest.fixture
async def with_jwt(tmp_path: Path) -> AsyncIterator[Jwt]:
    issuer = Issuer()
    keys = tmp_path / "keys.json"
    keys.write_bytes(issuer.jwks())
    plain = write_rules(tmp_path, RULES.replace('"all"', '"all", "alice"') + "[jwt]\nleeway_s=0.1")
    access = AccessSettings(
        access_file=plain.access_file,
        jwt_keys=str(keys),
        jwt_issuer=ISSUER,
        jwt_audience=AUDIENCE,
    )
    async with InProcessCluster(tmp_path, servers=2, access=access) as cluster:
        await start_job(cluster)
        yield Jwt(cluster, await cluster.add_proxy(), issuer)


async def test_an_expired_jwt_ends_what_its_connection_may_do(with_jwt: Jwt) -> None:
    expires_s = int(time.time()) + 2
    short = with_jwt.issuer.token(exp=expires_s)
    async with client(with_jwt.proxy.address, short) as asked:
        assert await value(asked) == 1.0
        await eventually(lambda: time.time() > expires_s + 0.2)
        with pytest.raises(AuthenticationError, match="expired"):
            await value(asked)


async def test_a_function_gives_the_next_token_before_anyone_notices(with_jwt: Jwt) -> None:
    given: list[str] = []
    expires_s = 0

    def current() -> str:
        """As a program that keeps its token until shortly before its end."""
        nonlocal expires_s
        if time.time() > expires_s - 0.5:
            expires_s = int(time.time()) + 2
            given.append(with_jwt.issuer.token(exp=expires_s))
        return given[-1]

    async with (
        client(with_jwt.proxy.address, current) as asked,
        asyncio.timeout(DEADLINE_S),
    ):
        number = 0
        # The third one is given when the first one is long expired.
        while len(given) < 3:
            number = (number + 1) % 100
            assert await value(asked, number) == float(number)
            await asyncio.sleep(0.01)


async def test_a_withdrawn_token_ends_open_connections(
    cluster: InProcessCluster, proxy: ProxyServer, tmp_path: Path
) -> None:
    async with client(proxy.address, token("reader"), timeout_s=5.0) as asked:
        assert await value(asked) == 1.0
        write_rules(tmp_path, RULES.replace("reader =", "other ="))

        async def is_denied() -> bool:
            try:
                await value(asked)
            except (PermissionDeniedError, AuthenticationError):
                return True
            return False

        async with asyncio.timeout(20):
            while not await is_denied():  # noqa: ASYNC110 - until the file is read again
                await asyncio.sleep(0.02)
