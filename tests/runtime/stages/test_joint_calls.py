"""Operators of one task share their calls, and keep their own seals, retries and errors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from queryable_state.streaming.runtime import backend_client, joint_calls
from queryable_state.streaming.runtime.aggregates.aggregate import (
    Aggregate,
    AggregateKind,
    FieldAggregate,
)
from queryable_state.streaming.runtime.backend_client import backend_connection
from queryable_state.streaming.runtime.stage import StageSpec, StageTask
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.streaming.testing.local_cluster import LocalCluster
from queryable_state.wire.errors import Reason, SupersededError
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queryable_state.streaming.testing.local_cluster import ClusterQuery

KINDS = (AggregateKind.SUM, AggregateKind.MIN, AggregateKind.MAX)


class LostAnswerError(grpc.RpcError):
    """An answer that did not arrive."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE


@dataclass
class Calls:
    """Counts the calls of tasks, and loses the answers of some."""

    counted: Counter[str] = field(default_factory=Counter)
    lost: set[str] = field(default_factory=set)

    def connection(self, address: str, spec: Any) -> Any:
        connection = backend_connection(address, spec)
        counting: Any = _Counting(connection.stub, self)
        return connection._replace(stub=counting)


class _Counting:
    def __init__(self, stub: Any, calls: Calls) -> None:
        self._stub = stub
        self._calls = calls

    def __getattr__(self, rpc: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._calls.counted[rpc] += 1
            answer = getattr(self._stub, rpc)(*args, **kwargs)
            if rpc in self._calls.lost:
                raise LostAnswerError
            return answer

        return call


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls()
    for module in (backend_client, joint_calls):
        monkeypatch.setattr(module, "backend_connection", made.connection)
    return made


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path) as made:
        yield made


class Stage:
    """A sum, a minimum and a maximum of one column in one task."""

    def __init__(self, cluster: LocalCluster, *, fetch_keys: int = 1_000) -> None:
        self.query: ClusterQuery = cluster.start_query("stage")
        self._cluster = cluster
        self._settings = RuntimeSettings(fetch_keys=fetch_keys)
        self._harnesses = [self._harness(kind) for kind in KINDS]
        self._spec = StageSpec(operators=tuple(each.spec for each in self._harnesses))
        self._attempts = 0
        self.batch_id = 0

    def _harness(self, kind: AggregateKind) -> KeyedOperatorHarness:
        return KeyedOperatorHarness(
            Aggregate((FieldAggregate("v", kind, Types.LONG()),), "state", str(kind)),
            "k STRING, v BIGINT",
            key_by="k",
            output_type="k STRING, v BIGINT",
            parallelism=1,
            uid=str(kind),
            chunk_rows=4,
            settings=self._settings,
            owner=self.query,
        )

    def attempt(self, rows: list[Any]) -> Iterator[Any]:
        """The output batches of a new attempt at the open batch."""
        self._attempts += 1
        task = TaskIdentity(
            query_id=self.query.query_id,
            run_id=self.query.run_id,
            batch_id=self.batch_id,
            subtask=0,
            task_attempt=self._attempts,
        )
        self.query.access(self._spec.operators[0], task)
        address = self._cluster.servers[0].addresses.backend
        batches = self._harnesses[0].partitions(rows)[0]
        return StageTask(self._spec)(iter(batches), task, address)

    def run(self, rows: list[Any]) -> dict[AggregateKind, dict[str, int]]:
        """The outputs by operator and key."""
        layout = self._spec.outputs
        assert layout is not None
        found: dict[AggregateKind, dict[str, int]] = {kind: {} for kind in KINDS}
        for batch in self.attempt(rows):
            for part, output in layout.split(batch):
                found[KINDS[part]] |= dict(zip(*output.to_pydict().values(), strict=True))
        return found

    def commit(self) -> None:
        self.query.commit(self.batch_id)
        self.batch_id += 1


ROWS = [[(f"k{i % 5}", i * (batch + 1)) for i in range(20)] for batch in range(4)]


def expected(batches: list[list[tuple[str, int]]]) -> dict[AggregateKind, dict[str, int]]:
    values: dict[str, list[int]] = {}
    for key, value in (row for batch in batches for row in batch):
        values.setdefault(key, []).append(value)
    functions = zip(KINDS, (sum, min, max), strict=True)
    return {kind: {key: of(found) for key, found in values.items()} for kind, of in functions}  # type: ignore[operator]


@pytest.mark.parametrize(("fetch_keys", "fetches"), [(1_000, 2), (3, 3)])
def test_a_task_makes_one_call_a_step_once_it_knows_the_owner(
    cluster: LocalCluster, calls: Calls, fetch_keys: int, fetches: int
) -> None:
    stage = Stage(cluster, fetch_keys=fetch_keys)
    for batch, rows in enumerate(ROWS):
        calls.counted.clear()
        assert stage.run(rows) == expected(ROWS[: batch + 1])
        if batch:
            # The first chunk of four rows has four new keys, the second one more.
            assert calls.counted == {"BeginAll": 1, "FetchAll": fetches, "PrepareAll": 1}
        stage.commit()


def test_a_replayed_batch_counts_once(cluster: LocalCluster) -> None:
    stage = Stage(cluster)
    for batch, rows in enumerate(ROWS):
        assert stage.run(rows) == stage.run(rows) == expected(ROWS[: batch + 1])
        stage.commit()


@pytest.mark.parametrize("lost", ["BeginAll", "FetchAll", "PrepareAll"])
def test_after_a_lost_answer_each_operator_makes_its_own_call(
    cluster: LocalCluster, calls: Calls, lost: str
) -> None:
    stage = Stage(cluster)
    for batch, rows in enumerate(ROWS):
        calls.lost = {lost} if batch else set()
        calls.counted.clear()
        assert stage.run(rows) == expected(ROWS[: batch + 1])
        if batch:
            assert calls.counted[lost] >= 1
            assert calls.counted[lost.removesuffix("All")] >= len(KINDS)
        stage.commit()


def test_a_superseded_task_fails_and_changes_nothing(cluster: LocalCluster) -> None:
    stage = Stage(cluster)
    stage.run(ROWS[0])
    stage.commit()
    older = stage.attempt(ROWS[1])
    next(older)
    assert stage.run(ROWS[1]) == expected(ROWS[:2])
    with pytest.raises(SupersededError) as refused:
        list(older)
    assert refused.value.reason == Reason.STALE_TOKEN
    stage.commit()
    assert stage.run(ROWS[2]) == expected(ROWS[:3])
