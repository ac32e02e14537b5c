"""Batch functions over states with a TTL."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.runtime.vectorised.running_totals import TOTALS

from queryable_state.streaming import (
    BatchKeys,
    BatchRuntimeContext,
    BatchState,
    KeyedBatchProcessFunction,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.runtime.operators.operators import KeyedBatchProcess
from queryable_state.streaming.testing import InMemoryStateBackend, KeyedOperatorHarness
from queryable_state.wire.errors import InvalidRequestError

TTL = StateTtlConfig.new_builder(Time.seconds(10)).build()


class Counts(KeyedBatchProcessFunction):
    """Counts the rows of each key in a column, and beside it in rows."""

    def __init__(self, ttl: StateTtlConfig) -> None:
        self.ttl = ttl

    def open(self, runtime_context: BatchRuntimeContext) -> None:
        for name, info in (("count", Types.LONG()), ("row", TOTALS)):
            descriptor = ValueStateDescriptor(name, info)
            descriptor.enable_time_to_live(self.ttl)
            runtime_context.get_state(descriptor)

    def process_batch(self, keys: BatchKeys, table: pa.Table, state: BatchState) -> pa.Table:
        before = np.array(state["count"].values().fill_null(0))
        rows = state["row"].values().to_pylist()
        assert [0 if row is None else row["n"] for row in rows] == before.tolist()
        counts = before + np.bincount(keys.indices, minlength=len(before))
        state["count"].update(pa.array(counts))
        columns = [pa.array(counts), pa.array(counts), pa.nulls(len(counts), pa.string())]
        state["row"].update(pa.StructArray.from_arrays(columns, names=["n", "total", "note"]))
        return pa.table({"n": pa.array(counts)})


def harness_of(ttl: StateTtlConfig, backend: InMemoryStateBackend) -> Any:
    return KeyedOperatorHarness(
        KeyedBatchProcess(Counts(ttl)),
        "k BIGINT",
        key_by="k",
        output_type="n BIGINT",
        parallelism=1,
        owner=backend,
    )


def test_columns_have_no_expired_values_and_every_write_is_an_update() -> None:
    backend = InMemoryStateBackend()
    harness = harness_of(TTL, backend)
    assert harness.process([(1,), (2,), (1,)]) == [(2,), (1,)]
    backend.timestamp_ms += 9_999
    assert harness.process([(1,)]) == [(3,)]
    backend.timestamp_ms += 1
    assert harness.process([(1,), (2,)]) == [(4,), (1,)]


@pytest.mark.parametrize(
    "ttl",
    [
        StateTtlConfig.new_builder(Time.seconds(1)).update_ttl_on_read_and_write().build(),
        StateTtlConfig.new_builder(Time.seconds(1)).return_expired_if_not_cleaned_up().build(),
    ],
)
def test_reads_of_columns_cannot_change_the_state(ttl: StateTtlConfig) -> None:
    with pytest.raises(InvalidRequestError, match="OnCreateAndWrite and NeverReturnExpired"):
        harness_of(ttl, InMemoryStateBackend()).process([(1,)])
