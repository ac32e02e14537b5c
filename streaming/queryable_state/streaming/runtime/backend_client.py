"""Synchronous gRPC client of a task for the owner of its state.

The module imports gRPC. Import it only inside a Spark Python worker, after Spark has forked it.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import grpc

from queryable_state.internal.v1 import backend_pb2
from queryable_state.internal.v1.backend_pb2_grpc import StateBackendStub
from queryable_state.streaming.runtime.states.state_spec import where
from queryable_state.wire.calls.channel_options import channel_options
from queryable_state.wire.calls.retrying import RetryPolicy, retrying_blocking
from queryable_state.wire.errors import (
    InternalError,
    QueryableStateError,
    Reason,
    RetryLaterError,
)
from queryable_state.wire.next_step import NextStep
from queryable_state.wire.security.connector import CLEAR_TEXT, Connector
from queryable_state.wire.security.signed_calls import BACKEND, CallSigner, signed_stub
from queryable_state.wire.security.tls_probe import TlsDiagnosis
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.v1.status_pb2 import JobError
    from queryable_state.wire.changes import Seal, Token
    from queryable_state.wire.security.tls import Tls

    FetchAhead: TypeAlias = Callable[
        [Sequence[backend_pb2.StateFetch]], Sequence[backend_pb2.StateValues] | None
    ]


_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Key: TypeAlias = tuple[int, str, str, "Tls | None"]


class BackendConnection(NamedTuple):
    """The connection to one state server."""

    channel: grpc.Channel
    stub: StateBackendStub
    """Signs each call; its methods take no metadata."""
    signer: CallSigner
    diagnosis: TlsDiagnosis
    generation: int
    """The TLS files with which it was opened, as the connector counts them."""


_lock = threading.Lock()
# The key contains the process id: a channel does not survive a fork. A restarted application has
# another secret.
_connections: dict[_Key, BackendConnection] = {}
_connectors: dict[tuple[int, Tls], Connector] = {}


def backend_connection(address: str, spec: OperatorSpec) -> BackendConnection:
    """The connection of the tasks of one application to the state server at HOST:PORT.

    Raises `InvalidRequestError` if a TLS file of the application cannot be used on this machine.
    """
    key = (os.getpid(), address, spec.secret, spec.tls)
    with _lock:
        found = _connections.get(key)
        if found is not None and spec.tls is None:
            return found
        connector = CLEAR_TEXT if spec.tls is None else _connector(spec.tls)
        generation = connector.generation
        if found is not None and found.generation != generation:
            found.channel.close()
            found = None
        if found is None:
            channel = connector.blocking_channel(address, channel_options())
            signer = CallSigner(spec.secret, address)
            stub = signed_stub(StateBackendStub(channel), BACKEND, signer)
            found = _connections[key] = BackendConnection(
                channel, stub, signer, TlsDiagnosis(address, connector), generation
            )
    return found


def forget(address: str) -> None:
    """Closes the connections to a server that is gone. Idempotent."""
    with _lock:
        gone = [key for key in _connections if key[:2] == (os.getpid(), address)]
        closing = [_connections.pop(key) for key in gone]
    for connection in closing:
        connection.channel.close()


def close_all() -> None:
    """Closes the connections of this process."""
    for pid, address, *_ in list(_connections):
        if pid == os.getpid():
            forget(address)


def _connector(tls: Tls) -> Connector:
    key = (os.getpid(), tls)
    found = _connectors.get(key)
    if found is None:
        found = _connectors[key] = Connector(tls, setting="spark.queryable_state.tls_{0}")
    return found


_RETRIES = RetryPolicy(
    steps=frozenset(
        {NextStep.RETRY_SAME, NextStep.LOCATE_AGAIN, NextStep.ASK_ANOTHER, NextStep.WAIT}
    ),
    first_delay_s=0.05,
    longest_delay_s=1.0,
)
_CALL_TIMEOUT_S = 20.0
"""Timeout of one call, after which it is repeated. With a long task timeout a call gets a fraction
of it (`_CALL_PART`), so that slow calls can still succeed."""
_CALL_PART = 1 / 3
_REPORT_S = 2.0
_MOST_OWNERS = 4096

# Owners by address of the executor's server and subtask; owners rarely change. A transient error
# of an owner removes its entry.
_owners: dict[tuple[str, bytes], backend_pb2.LocateSubtaskResponse] = {}


class _OwnerLostError(RetryLaterError):
    """Spark runs the task again: the owner that began the attempt is gone."""


class BackendClient:
    """State access of one task attempt: locates the owner and retries within the task timeout.

    The state server of this executor locates the owner. Until `begin` succeeds the owner may
    change, and the client follows it. After that the attempt is bound to its owner: if that owner
    is lost, the attempt fails and Spark runs the task again, so reads of two owners are never
    mixed.
    """

    def __init__(
        self, spec: OperatorSpec, task: TaskIdentity, address: str | Callable[[], str]
    ) -> None:
        self.spec = spec
        """The operator."""
        self._task = task
        self.address = address
        """The address of this executor's server, or a function that returns it."""
        self._where = where(spec, task)
        self._timeout_s = spec.settings.task_timeout_s
        self._call_timeout_s = max(_CALL_TIMEOUT_S, self._timeout_s * _CALL_PART)
        self._subtask = backend_pb2.Subtask(
            query_id=task.query_id,
            operator_uid=spec.uid,
            index=task.subtask,
            parallelism=spec.parallelism,
            max_parallelism=spec.max_parallelism,
        )
        self._execution = random.getrandbits(64)
        self._subtask_bytes = self._subtask.SerializeToString(deterministic=True)
        self._place = ("", self._subtask_bytes)
        self._owner: backend_pb2.LocateSubtaskResponse | None = None
        self._token: Token | None = None
        self.fetch_ahead: FetchAhead | None = None
        """Returns answers that were fetched ahead; None for fetches that were not."""
        self._begun_ahead: backend_pb2.BeginResponse | None = None
        self._prepared_ahead: Seal | None = None

    def known_owner(self, address: str) -> backend_pb2.LocateSubtaskResponse | None:
        """The owner, if an earlier task of this process has located it by this server."""
        self._place = (address, self._subtask_bytes)
        return _owners.get(self._place)

    def begun_ahead(self, begun: backend_pb2.BeginResponse) -> None:
        """Takes the owner's answer to a joint `begin`; the next `begin` returns it."""
        self._owner = _owners.get(self._place)
        self._token = begun.token
        self._begun_ahead = begun

    def prepared_ahead(self, seal: Seal) -> None:
        """Notes that a joint `prepare` with this seal succeeded."""
        self._prepared_ahead = seal

    def begin_request(self, states: Sequence[StateRegistration]) -> backend_pb2.BeginRequest:
        """The request of `begin`."""
        return backend_pb2.BeginRequest(
            subtask=self._subtask,
            run_id=self._task.run_id,
            batch_id=self._task.batch_id,
            task_attempt=self._task.task_attempt,
            operator_depth=self.spec.depth,
            operator_name=self.spec.name,
            states=states,
            config_id=self.spec.config_id,
            execution=self._execution,
        )

    def fetch_request(self, fetches: Sequence[backend_pb2.StateFetch]) -> backend_pb2.FetchRequest:
        """The request of `fetch`."""
        return backend_pb2.FetchRequest(
            subtask=self._subtask,
            batch_id=self._task.batch_id,
            token=self._token,
            fetches=fetches,
        )

    def prepare_open(self) -> backend_pb2.PrepareOpen:
        """The first frame of `prepare`."""
        return backend_pb2.PrepareOpen(
            subtask=self._subtask, batch_id=self._task.batch_id, token=self._token
        )

    def begin(self, states: Sequence[StateRegistration]) -> backend_pb2.BeginResponse:
        ahead, self._begun_ahead = self._begun_ahead, None
        if ahead is not None:
            return ahead
        request = self.begin_request(states)
        begun = self._retried(
            "begin",
            lambda stub, timeout_s: stub.Begin(request, timeout=timeout_s),
        )
        self._token = begun.token
        return begun

    def fetch(self, fetches: Sequence[backend_pb2.StateFetch]) -> Sequence[backend_pb2.StateValues]:
        ahead = None if self.fetch_ahead is None else self.fetch_ahead(fetches)
        if ahead is not None:
            return ahead
        request = self.fetch_request(fetches)
        answer = self._retried(
            "fetch",
            lambda stub, timeout_s: stub.Fetch(request, timeout=timeout_s),
        )
        if len(answer.results) != len(fetches):
            raise InternalError(
                f"{self._where}: {len(fetches)} fetches were sent, {len(answer.results)} answered"
            )
        return answer.results

    def prepare(self, blocks: Sequence[bytes], seal: Seal) -> None:
        if self._prepared_ahead == seal:
            return
        opening = backend_pb2.PrepareRequest(open=self.prepare_open())

        def frames() -> Iterator[backend_pb2.PrepareRequest]:
            yield opening
            for block in blocks:
                yield backend_pb2.PrepareRequest(block=block)
            yield backend_pb2.PrepareRequest(seal=seal)

        # Idempotent: the owner accepts the same seal again if an answer was lost.
        self._retried(
            "prepare",
            lambda stub, timeout_s: stub.Prepare(frames(), timeout=timeout_s),
        )

    def report_failed(self, error: JobError) -> None:
        """Reports that this attempt fails, once, and without an error of its own: Spark reports the
        failure, too, when it tries the task no more."""
        request = backend_pb2.FailedAttempt(query_id=self._task.query_id, error=error)
        request.error.run_id, request.error.batch_id = self._task.run_id, self._task.batch_id
        try:
            address = self.address if isinstance(self.address, str) else self.address()
            self._called(
                address,
                lambda stub, timeout_s: stub.ReportFailedAttempt(request, timeout=timeout_s),
                time.monotonic() + _REPORT_S,
            )
        except QueryableStateError as problem:
            _log.debug("%s: its failure is not reported: %s", self._where, problem)

    def _retried(self, step: str, call: Callable[[StateBackendStub, float], _T]) -> _T:
        """Calls the owner; repeats transient failures until the task timeout."""
        ends_at_s = time.monotonic() + self._timeout_s
        tried: dict[str, QueryableStateError] = {}

        def attempt() -> _T:
            if self._owner is None:
                self._owner = self._located("", ends_at_s)
            return self._called(self._owner.address, call, ends_at_s)

        def react(error: QueryableStateError) -> None:
            owner = self._owner
            server = "this executor's server"
            if owner is not None:
                server = f"{owner.server_id} at {owner.address}"
                self._react(step, error, owner, ends_at_s)
            tried[server] = error

        try:
            return retrying_blocking(attempt, _RETRIES, deadline_s=ends_at_s, before_retry=react)
        except _OwnerLostError:
            raise
        except QueryableStateError as error:
            if not _RETRIES.retries(error):
                raise
            servers = "; ".join(
                f"{server}: {last.reason_name}: {last}" for server, last in tried.items()
            )
            raise RetryLaterError(
                f"{self._where}: could not {step} within {self._timeout_s:g} s. Tried {servers}. "
                "Check the state servers' logs, or increase spark.queryable_state.task_timeout_s",
                reason=error.reason,
            ) from error

    def _react(
        self,
        step: str,
        error: QueryableStateError,
        owner: backend_pb2.LocateSubtaskResponse,
        ends_at_s: float,
    ) -> None:
        """Forgets the owner before `begin`; afterwards raises RetryLaterError if it has moved."""
        _owners.pop(self._place, None)
        if self._token is None:
            self._owner = None
            if error.reason in (Reason.UNAVAILABLE, Reason.NOT_OWNER):
                self._owner = self._located_or_none(owner.server_id, ends_at_s)
            return
        moved = error.reason == Reason.NOT_OWNER
        if error.reason in (Reason.UNAVAILABLE, Reason.LEASE_EXPIRED):
            now = self._located_or_none(owner.server_id, ends_at_s)
            moved = now is not None and now.server_id != owner.server_id
        if moved:
            raise _OwnerLostError(
                f"{self._where}: the owner of the state, {owner.server_id} at {owner.address}, "
                f"was lost before {step} ({error}); Spark must run the task again, which needs "
                "spark.task.maxFailures above 1 (local[N,4] in local mode)",
                reason=Reason.UNAVAILABLE,
            ) from error

    def _located_or_none(
        self, not_server_id: str, ends_at_s: float
    ) -> backend_pb2.LocateSubtaskResponse | None:
        try:
            return self._located(not_server_id, ends_at_s)
        except QueryableStateError as error:
            _log.debug("%s: the owner cannot be located now: %s", self._where, error)
            return None

    def _located(self, not_server_id: str, ends_at_s: float) -> backend_pb2.LocateSubtaskResponse:
        request = backend_pb2.LocateSubtaskRequest(
            subtask=self._subtask, not_server_id=not_server_id
        )
        address = self.address if isinstance(self.address, str) else self.address()
        self._place = (address, self._subtask_bytes)
        known = None if not_server_id else _owners.get(self._place)
        if known is not None:
            return known
        owner = self._called(
            address,
            lambda stub, timeout_s: stub.LocateSubtask(request, timeout=timeout_s),
            ends_at_s,
        )
        if len(_owners) >= _MOST_OWNERS:
            _owners.clear()
        _owners[self._place] = owner
        return owner

    def _called(
        self, address: str, call: Callable[[StateBackendStub, float], _T], ends_at_s: float
    ) -> _T:
        timeout_s = min(self._call_timeout_s, max(0.1, ends_at_s - time.monotonic()))
        connection = backend_connection(address, self.spec)
        try:
            try:
                answer = call(connection.stub, timeout_s)
            except grpc.RpcError as failure:
                if not connection.signer.corrects(error_from_call(failure, address)):
                    raise
                answer = call(connection.stub, timeout_s)
        except grpc.RpcError as failure:
            error = error_from_call(failure, address)
            if error.reason == Reason.UNAVAILABLE:
                forget(address)
            raise connection.diagnosis.explained_blocking(error) from None
        connection.diagnosis.succeeded()
        return answer
