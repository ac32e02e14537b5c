"""Limits of callers and states, as clients meet them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.query.streams import wire_keys
from tests.security.access.sites import RULES, Asker, hello, send, token
from tests.security.access.test_client import client, value

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import QueryableStateError, Reason, RetryLaterError
from queryable_state.wire.status import status_of

if TYPE_CHECKING:
    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster

ALL_OF = "[[limits]]\ncallers = ['reader']\n"
NAMED = {"job": "sensors", "state_name": "last"}


class TestOneQueryPerSecond:
    @pytest.fixture
    def rules(self) -> str:
        return RULES + ALL_OF + "queries_per_s = 1"

    async def test_a_flood_is_refused_with_the_time_to_wait_and_others_are_not(
        self, proxy: ProxyServer
    ) -> None:
        query = NAMED | {"keys": wire_keys("sensor_1")}

        async def refusal(asker: Asker) -> QueryableStateError | None:
            try:
                await asker.ask("BatchGetKvState", **query)
            except QueryableStateError as refused:
                return refused
            return None

        async with Asker(proxy.address, "reader") as flood, Asker(proxy.address, "all") as other:
            refusals = await asyncio.gather(*(refusal(flood) for _ in range(200)))
            others = await asyncio.gather(*(refusal(other) for _ in range(200)))
        assert others == [None] * 200
        found = [each for each in refusals if each is not None]
        assert len(found) >= 150
        for each in found:
            assert each.reason == Reason.OVERLOADED
            assert status_of(each).name == "RESOURCE_EXHAUSTED"
            assert 0 < each.retry_after_ms <= 1000
            assert "queries of caller 'reader'" in each.message

    async def test_our_client_gives_up_at_its_deadline(self, proxy: ProxyServer) -> None:
        async with client(proxy.address, token("reader"), timeout_s=0.3, direct=False) as asked:
            assert await value(asked) == 1.0
            with pytest.raises(RetryLaterError, match="limit `queries_per_s`"):
                await value(asked, 2)


class TestQuestionsForNames:
    @pytest.fixture
    def rules(self) -> str:
        return RULES + "[[limits]]\ncallers = ['nobody', 'reader']\nqueries_per_s = 2"

    @pytest.mark.parametrize("question", ["LocateState", "ListJobs", "ListStates", "by id"])
    async def test_what_is_denied_or_listed_counts(self, proxy: ProxyServer, question: str) -> None:
        async def asked(asker: Asker, number: int) -> str:
            by_question: dict[str, dict[str, Any]] = {
                "LocateState": {"job": "sensors", "state_name": f"last{number}"},
                "by id": {"query": query_pb2.Query(state_id=10**6 + number, keys=[b"k"])},
            }
            fields = by_question.get(question, {})
            method = "BatchGetKvState" if question == "by id" else question
            return await asker.status(method, **fields)

        async with Asker(proxy.address, "nobody") as asker:
            found = await asyncio.gather(*(asked(asker, number) for number in range(100)))
        assert found.count("RESOURCE_EXHAUSTED") >= 90
        assert set(found) <= {"RESOURCE_EXHAUSTED", "PERMISSION_DENIED", "OK"}

    async def test_what_is_located_costs_nothing(self, proxy: ProxyServer) -> None:
        async with Asker(proxy.address, "reader") as asker:
            for _ in range(20):
                assert await asker.status("LocateState", **NAMED) == "OK"


class TestFiveQueriesPerSecond:
    @pytest.fixture
    def rules(self) -> str:
        return RULES + ALL_OF + "queries_per_s = 5"

    async def test_our_client_waits_and_gets_all_its_answers(self, proxy: ProxyServer) -> None:
        begun_s = time.monotonic()
        async with client(proxy.address, token("reader"), timeout_s=20.0, direct=False) as asked:
            for number in range(15):
                assert await value(asked, number) == float(number)
        # 5 at once, and 5 in each second after.
        assert time.monotonic() - begun_s > 1.5


class TestKeysPerSecond:
    @pytest.fixture
    def rules(self) -> str:
        return RULES + ALL_OF + "keys_per_s = 60"

    async def test_keys_count_on_frames(
        self, cluster: InProcessCluster, proxy: ProxyServer
    ) -> None:
        async with Asker(proxy.address, "all") as asker:
            located = await asker.ask("LocateState", **NAMED)
        state_id = located.location.registration.state_id
        frames = await hello(proxy.address, f"Bearer {token('reader')}")
        await frames.response()
        keys = wire_keys(*(f"sensor_{number}" for number in range(50)))
        outcomes = []
        for number in range(4):
            send(frames, id=number + 1, state_id=state_id, keys=keys)
            answer = (await frames.response()).answer
            outcomes.append(
                QueryableStateError.from_proto(answer.error).reason
                if answer.HasField("error")
                else 0
            )
            while not answer.last:
                answer = (await frames.response()).answer
        frames.writer.close()
        assert outcomes[0] == 0
        assert Reason.OVERLOADED in outcomes[1:]


class TestScans:
    @pytest.fixture
    def rules(self) -> str:
        return RULES + "[[limits]]\ncallers = ['scanner']\nscans = 1"

    async def test_scans_at_one_time_are_limited(self, proxy: ProxyServer) -> None:
        async with Asker(proxy.address, "scanner") as asker:
            request = query_pb2.ScanKvStateRequest(job="sensors", state_name="last")
            metadata = (("authorization", f"Bearer {token('scanner')}"),)
            first = asker.stub.ScanKvState(request, metadata=metadata)
            assert isinstance(await first.read(), query_pb2.ScanKvStateResponse)
            # The state is small: its scan may have ended. Then a second one is admitted.
            found = await asker.status("ScanKvState", **NAMED)
            assert found in ("RESOURCE_EXHAUSTED", "OK")
            first.cancel()
            async with asyncio.timeout(20):
                while await asker.status("ScanKvState", **NAMED) != "OK":  # noqa: ASYNC110
                    await asyncio.sleep(0.05)


class TestBytes:
    @pytest.fixture
    def rules(self) -> str:
        return RULES + "[[limits]]\nstates = ['last']\nbytes_per_s = 2000"

    async def test_a_scan_is_slowed_down_to_the_limit_of_bytes(self, proxy: ProxyServer) -> None:
        async with client(proxy.address, token("scanner"), timeout_s=20.0) as asked:
            for _ in range(3):
                keys: list[Any] = [key async for key, _ in asked.scan("sensors", "last")]
                assert len(keys) == 100
