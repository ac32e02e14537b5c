"""Shared messages of the operators of one task to the owners of their subtasks.

The module imports gRPC. Import it only inside a Spark Python worker, after Spark has forked it.
"""

from __future__ import annotations

import functools
import logging
from collections import deque
from typing import TYPE_CHECKING, TypeVar

import grpc

from queryable_state.internal.v1 import backend_pb2
from queryable_state.streaming.runtime.aggregates.aggregate import Aggregate
from queryable_state.streaming.runtime.backend_client import backend_connection
from queryable_state.v1.query_pb2 import ReadKind
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from queryable_state.streaming.runtime.backend_client import BackendClient
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import Seal

    Answer: TypeAlias = tuple[Sequence[bytes], backend_pb2.StateValues]
    Begin: TypeAlias = tuple[BackendClient, Sequence[StateRegistration]]
    Prepare: TypeAlias = tuple[BackendClient, tuple[Sequence[bytes], Seal]]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_TIMEOUT_S = 10.0
"""After this time the operators make their calls themselves."""
_MOST_BYTES = 1 << 20
"""Changes above this size are streamed by their operator alone."""
_MOST_KEYS = 65_536
"""Maximum keys of one joint fetch, over all operators."""


class JointCalls:
    """Sends one message per owner for operators whose owners are known to this process.

    It only saves calls: it locates no owner, retries nothing and raises nothing. After a failed
    joint call each operator makes the call itself, with its retries and its errors. Some operators
    may have succeeded in the failed call; begin and prepare are idempotent.
    """

    def __init__(self, clients: Sequence[BackendClient]) -> None:
        self._clients = clients
        self._spec = clients[0].spec
        self._owners: dict[BackendClient, str] = {}
        self._states: dict[BackendClient, Sequence[StateRegistration]] = {}
        self._answers: dict[BackendClient, deque[Answer]] = {each: deque() for each in clients}

    def begin(self, states: Sequence[Sequence[StateRegistration] | None]) -> None:
        """Begins the operators, in order, with their states; None: has begun already."""
        source = self._clients[0].address
        try:
            address = source if isinstance(source, str) else source()
        except QueryableStateError as failure:
            _log.debug("the state server of this executor has no address now: %s", failure)
            return
        by_owner: dict[str, list[Begin]] = {}
        for client, declared in zip(self._clients, states, strict=True):
            owner = None if declared is None else client.known_owner(address)
            if owner is not None and declared is not None:
                by_owner.setdefault(owner.address, []).append((client, declared))
        for owner_address, begins in by_owner.items():
            if len(begins) > 1:
                self._begin(owner_address, begins)
        for client in self._owners:
            siblings = [other for other in self._owners if self._reads_alike(client, other)]
            if len(siblings) > 1:
                client.fetch_ahead = functools.partial(self._fetched, client, siblings)

    def prepare(self, changes: Sequence[tuple[Sequence[bytes], Seal]]) -> None:
        """Prepares the operators, in order, with their blocks and seals."""
        by_owner: dict[str, list[Prepare]] = {}
        size = 0
        for prepare in zip(self._clients, changes, strict=True):
            size += sum(map(len, prepare[1][0]))
            owner_address = self._owners.get(prepare[0])
            if owner_address is not None:
                by_owner.setdefault(owner_address, []).append(prepare)
        for owner_address, prepares in by_owner.items():
            if len(prepares) > 1 and size <= _MOST_BYTES:
                self._prepare(owner_address, prepares)

    def _begin(self, owner_address: str, begins: Sequence[Begin]) -> None:
        request = backend_pb2.BeginAllRequest(
            begins=[client.begin_request(declared) for client, declared in begins]
        )
        stub = backend_connection(owner_address, self._spec).stub
        answer = self._sent("begin", lambda: stub.BeginAll(request, timeout=_TIMEOUT_S))
        if answer is None or len(answer.begun) != len(begins):
            return
        for (client, _), begun in zip(begins, answer.begun, strict=True):
            client.begun_ahead(begun)
            self._owners[client] = owner_address
            self._states[client] = begun.states

    def _prepare(self, owner_address: str, prepares: Sequence[Prepare]) -> None:
        request = backend_pb2.PrepareAllRequest(
            prepares=[
                backend_pb2.SealedChanges(open=client.prepare_open(), blocks=blocks, seal=seal)
                for client, (blocks, seal) in prepares
            ]
        )
        stub = backend_connection(owner_address, self._spec).stub
        if self._sent("prepare", lambda: stub.PrepareAll(request, timeout=_TIMEOUT_S)) is not None:
            for client, (_, seal) in prepares:
                client.prepared_ahead(seal)

    def _fetched(
        self,
        client: BackendClient,
        siblings: Sequence[BackendClient],
        fetches: Sequence[backend_pb2.StateFetch],
    ) -> Sequence[backend_pb2.StateValues] | None:
        """The answer of an earlier fetch of a sibling, else of one for all siblings together."""
        if len(fetches) != 1:
            return None
        keys = fetches[0].keys
        ahead = self._answers[client]
        if ahead:
            asked, found = ahead.popleft()
            if asked == keys:
                return [found]
            ahead.clear()
            return None
        if len(keys) * len(siblings) > _MOST_KEYS:
            return None
        request = backend_pb2.FetchAllRequest(
            fetches=[
                each.fetch_request(
                    [
                        backend_pb2.StateFetch(
                            state_id=self._states[each][0].state_id, read=ReadKind.POINT, keys=keys
                        )
                    ]
                )
                for each in siblings
            ]
        )
        stub = backend_connection(self._owners[client], self._spec).stub
        answer = self._sent("fetch", lambda: stub.FetchAll(request, timeout=_TIMEOUT_S))
        if answer is None or [len(each.results) for each in answer.answers] != [1] * len(siblings):
            return None
        for sibling, each in zip(siblings, answer.answers, strict=True):
            self._answers[sibling].append((keys, each.results[0]))
        return [ahead.popleft()[1]]

    def _reads_alike(self, client: BackendClient, other: BackendClient) -> bool:
        """True if both operators fetch the same keys of one state for each chunk."""
        return all(isinstance(each.spec.operator, Aggregate) for each in (client, other)) and (
            self._owners[client],
            client.spec.key_type,
            client.spec.input.key_columns,
            client.spec.input.place,
        ) == (
            self._owners[other],
            other.spec.key_type,
            other.spec.input.key_columns,
            other.spec.input.place,
        )

    def _sent(self, step: str, call: Callable[[], _T]) -> _T | None:
        try:
            return call()
        except grpc.RpcError as failure:
            _log.debug("%d operators could not %s together: %s", len(self._clients), step, failure)
            return None
