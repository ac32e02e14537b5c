"""The clients of unary calls, against a real server and against one with wrong answers."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from benchmarks.closed_loop import LoopSample, WrongAnswerError
from benchmarks.query.clients import go_client
from benchmarks.query.clients.go_client import GoClient
from benchmarks.query.clients.unary import (
    PythonClient,
    UnaryFigures,
    UnaryKeys,
    measure_unary,
    unary_report,
)
from benchmarks.query.dataset import QUERYABLE_NAME, Dataset

from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DATASET = Dataset(200)

needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[tuple[str, UnaryKeys, list[int]]]:
    """The arguments of the clients of a server with the dataset."""
    async with InProcessCluster(tmp_path) as cluster:
        job = cluster.job("benchmark", declare(QUERYABLE_NAME, "string", "string"))
        values = {key: DATASET.value(number, 7) for number, key in enumerate(DATASET.keys)}
        await job.run(0, {QUERYABLE_NAME: values})
        yield (
            cluster.servers[0].addresses.proxy,
            UnaryKeys("benchmark", DATASET),
            DATASET.order(),
        )


@needs_go
def test_the_go_client_is_built_only_once() -> None:
    assert go_client.build() is None
    built = go_client.PROGRAM.stat().st_mtime_ns
    assert go_client.build() is None
    assert go_client.PROGRAM.stat().st_mtime_ns == built


def test_without_go_the_build_tells_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert go_client.build() == go_client.NOT_INSTALLED


@pytest.mark.parametrize("kind", [PythonClient, pytest.param(GoClient, marks=needs_go)])
async def test_a_client_counts_right_answers_of_loops_and_of_calls_at_once(
    kind: type[PythonClient | GoClient], server: tuple[str, UnaryKeys, list[int]]
) -> None:
    go_client.build()
    async with kind(*server) as client:
        figures = await measure_unary(
            client, in_flight=(1, 4), at_once=(300,), warm_up_s=0.05, seconds=0.3
        )
    assert figures.failures == {300: 0}
    assert set(figures.loops) == {1, 4}
    for sample in figures.loops.values():
        assert sample.answers > 0
        assert 0 < sample.p50_us <= sample.p99_us
        assert sample.cpu_us > 0


@pytest.mark.parametrize("kind", [PythonClient, pytest.param(GoClient, marks=needs_go)])
async def test_a_wrong_value_ends_a_loop_and_is_a_failure_among_calls_at_once(
    kind: type[PythonClient | GoClient],
    capfd: pytest.CaptureFixture[str],
) -> None:
    go_client.build()
    keys = UnaryKeys("benchmark", DATASET)

    async def answer(_request: bytes, _context: Any) -> query_pb2.GetKvStateResponse:
        return query_pb2.GetKvStateResponse(
            records=query_pb2.Records(elements=[b""], values=[keys.beginnings[1] + b"000"])
        )

    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(
        answer, response_serializer=query_pb2.GetKvStateResponse.SerializeToString
    )
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "queryable_state.v1.QueryableState", {"GetKvState": handler}
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with kind(f"127.0.0.1:{port}", keys, DATASET.order()) as client:
            # One of the dataset's keys has the value of the answer.
            assert await client.failures(DATASET.size) == DATASET.size - 1
            with pytest.raises((WrongAnswerError, RuntimeError, ExceptionGroup)) as raised:
                await client.loop(2, warm_up_s=0, seconds=5)
            assert "wrong value" in capfd.readouterr().err or "item" in repr(raised.value)
    finally:
        await server.stop(0)


def test_the_report_has_a_row_for_each_client_and_load() -> None:
    sample = LoopSample(
        per_second=4_321, p50_us=200, p99_us=900, p999_us=950, answers=5, cpu_us=45.4
    )
    figures = [
        UnaryFigures("Python", {1: sample}, {1_000: 0}),
        UnaryFigures("Go", {1: sample, 64: sample}, {1_000: 0, 5_000: 3}),
    ]
    text = unary_report(figures)
    assert text.count("4.32k") == 3
    assert "200/900" in text
    assert "Python, 1,000 calls started together: all answered right." in text
    assert "Go, 5,000 calls started together: 3 failed." in text
    assert json.loads(json.dumps(figures[1].to_json()))["loops"]["64"]["answers"] == 5
