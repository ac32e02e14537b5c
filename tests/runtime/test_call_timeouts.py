"""How long one call of a task may take."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NoReturn

import grpc
import pytest

from queryable_state.internal.v1 import backend_pb2, backend_pb2_grpc
from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.runtime.backend_client import BackendClient
from queryable_state.streaming.runtime.operators.operators import LatestValueSink
from queryable_state.streaming.runtime.operators.spec import OperatorSpec
from queryable_state.streaming.runtime.states.input_spec import InputSpec
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Iterator


class Owner(backend_pb2_grpc.StateBackendServicer):
    """Owns every subtask, and notes how long the task would wait for its begin."""

    def __init__(self) -> None:
        self.waited_s = 0.0
        self.server = grpc.server(ThreadPoolExecutor(2))
        backend_pb2_grpc.add_StateBackendServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def LocateSubtask(
        self, request: backend_pb2.LocateSubtaskRequest, context: grpc.ServicerContext
    ) -> backend_pb2.LocateSubtaskResponse:
        return backend_pb2.LocateSubtaskResponse(server_id="owner", address=self.address)

    def Begin(
        self, request: backend_pb2.BeginRequest, context: grpc.ServicerContext
    ) -> backend_pb2.BeginResponse:
        self.waited_s = context.time_remaining()
        return backend_pb2.BeginResponse()

    def _never_called(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "the task only begins")
        raise AssertionError("abort raises")

    Fetch = Commit = DropQuery = OpenSubtasks = ReportSeals = Shutdown = Snapshot = _never_called
    BeginAll = FetchAll = PrepareAll = ReportFailedAttempt = _never_called

    def Prepare(self, request_iterator: object, context: grpc.ServicerContext) -> NoReturn:
        self._never_called(request_iterator, context)


@pytest.fixture
def owner() -> Iterator[Owner]:
    started = Owner()
    yield started
    started.server.stop(None).wait()


@pytest.mark.parametrize(("task_timeout_s", "call_s"), [(8.0, 8), (60.0, 20), (900.0, 300)])
def test_a_call_may_take_longer_where_the_task_may(
    owner: Owner, task_timeout_s: float, call_s: float
) -> None:
    """Or a batch whose changes take long to send could not be sent with any setting."""
    spec = OperatorSpec(
        uid="op",
        name="op",
        depth=0,
        parallelism=1,
        max_parallelism=128,
        inputs=(
            InputSpec(
                key_columns=("k",),
                value_columns=("v",),
                value_type=Types.LONG(),
                check_column="c",
            ),
        ),
        key_type=Types.STRING(),
        operator=LatestValueSink(ValueStateDescriptor("last", Types.LONG())),
        output_type=None,
        secret="secret",
        settings=RuntimeSettings(task_timeout_s=task_timeout_s),
    )
    task = TaskIdentity(query_id=b"q" * 16, run_id=b"r" * 16, batch_id=0, subtask=0, task_attempt=1)
    BackendClient(spec, task, owner.address).begin([])
    assert call_s - 5 < owner.waited_s <= call_s + 2
