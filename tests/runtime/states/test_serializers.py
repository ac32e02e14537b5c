"""States with a job's own serializer, against real servers and a real coordinator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import KeyedProcessFunction
from queryable_state.streaming.runtime.operators.operators import KeyedProcess
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.streaming.testing.local_cluster import LocalCluster
from queryable_state.wire.errors import JobError, Reason
from queryable_state.wire.schema.type_serializer import (
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from queryable_state.wire.values.serialized import SerializedValue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BytesIO
    from pathlib import Path

    from queryable_state.streaming.functions import Context, RuntimeContext

Compatibility = TypeSerializerSchemaCompatibility


class Number(TypeSerializer[int]):
    """A number of a fixed width: a wider one reads narrower ones, a narrower one reads nothing."""

    def __init__(self, width: int) -> None:
        self.width = width

    def serialize(self, element: int, stream: BytesIO) -> None:
        stream.write(element.to_bytes(self.width, "big"))

    def deserialize(self, stream: BytesIO) -> int:
        return int.from_bytes(stream.read(self.width), "big")

    def snapshot(self) -> NumberSnapshot:
        return NumberSnapshot(self.width)


class NumberSnapshot(TypeSerializerSnapshot[int]):
    def __init__(self, width: int = 0) -> None:
        self.width = width

    def write_snapshot(self, stream: BytesIO) -> None:
        stream.write(bytes((self.width,)))

    def read_snapshot(self, read_version: int, stream: BytesIO) -> None:
        (self.width,) = stream.read()

    def restore_serializer(self) -> Number:
        return Number(self.width)

    def resolve_schema_compatibility(
        self, old_serializer_snapshot: TypeSerializerSnapshot[int]
    ) -> Compatibility:
        assert isinstance(old_serializer_snapshot, NumberSnapshot)
        if old_serializer_snapshot.width > self.width:
            return Compatibility.INCOMPATIBLE
        return Compatibility.COMPATIBLE_AFTER_MIGRATION


def total(width: int) -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor("total", Number(width))
    descriptor.set_queryable("totals")
    return descriptor


class Sum(KeyedProcessFunction):
    def __init__(self, width: int) -> None:
        self.width = width

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(total(self.width))

    def process_element(self, value: Any, ctx: Context) -> Iterator[int]:
        self.total.update((self.total.value() or 0) + value.amount)
        yield self.total.value() or 0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, servers=1, backend="heap") as made:
        yield made


class Job:
    """One job whose program is changed between batches."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._harness = KeyedOperatorHarness(
            Sum(1),
            "name string, amount bigint",
            key_by="name",
            output_type="bigint",
            owner=cluster.start_query("sums"),
        )

    def run(self, width: int, *amounts: int) -> list[int]:
        return self.run_function(Sum(width), *amounts)

    def run_function(self, function: KeyedProcessFunction, *amounts: int) -> list[int]:
        self._harness.spec = replace(self._harness.spec, operator=KeyedProcess(function))
        return self._harness.process([("a", amount) for amount in amounts])


def test_a_wider_serializer_migrates_and_a_narrower_one_is_refused_before_anything_is_written(
    cluster: LocalCluster,
) -> None:
    job = Job(cluster)
    assert job.run(1, 3) == [3]
    assert job.run(4, 300) == [303]
    with pytest.raises(JobError, match="is incompatible with the stored values") as refusal:
        job.run(2, 1)
    assert refusal.value.reason == Reason.INCOMPATIBLE_STATE
    assert job.run(4, 1) == [304]


class TwoWidths(KeyedProcessFunction):
    """Two states whose serializers differ only in their configuration."""

    def __init__(self, first: int, second: int) -> None:
        self.widths = {"first": first, "second": second}

    def open(self, runtime_context: RuntimeContext) -> None:
        self.states = [
            runtime_context.get_state(ValueStateDescriptor(name, Number(width)))
            for name, width in self.widths.items()
        ]

    def process_element(self, value: Any, ctx: Context) -> Iterator[int]:
        for state in self.states:
            state.update((state.value() or 0) + value.amount)
            yield state.value() or 0


def test_each_state_is_judged_by_its_own_serializer(cluster: LocalCluster) -> None:
    job = Job(cluster)
    assert job.run_function(TwoWidths(4, 1), 1) == [1, 1]
    assert job.run_function(TwoWidths(8, 2), 1) == [2, 2]
    with pytest.raises(JobError, match=r"state 'first': serializer .* is incompatible"):
        job.run_function(TwoWidths(2, 4), 1)


def test_queries_get_bytes_unless_they_pass_the_serializer(cluster: LocalCluster) -> None:
    Job(cluster).run(2, 258)
    host, _, port = cluster.proxy_address().rpartition(":")
    with QueryableStateClient(host, int(port)) as client:
        raw = client.get_kv_state("sums", "totals", "a").value()
        assert raw == SerializedValue(b"\x01\x02")
        assert isinstance(raw, SerializedValue)
        assert client.get_kv_state("sums", "totals", "a", descriptor=total(2)).value() == 258
