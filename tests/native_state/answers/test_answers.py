"""Every key and value of real checkpoints equals the answer of Spark's own state reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.native_state.answers import spark_fixture
from tests.native_state.answers.engine_records import engine_states
from tests.native_state.answers.expected_records import answer_name, expected_records
from tests.native_state.answers.records import differences

if TYPE_CHECKING:
    from pathlib import Path

    from tests.native_state.answers.spark_fixture import SparkFixture

pytestmark = pytest.mark.parametrize("name", spark_fixture.names())


@pytest.fixture
def fixture(name: str, tmp_path: Path) -> SparkFixture:
    return spark_fixture.unpacked(name, tmp_path)


def test_all_records_equal_sparks(fixture: SparkFixture, tmp_path: Path) -> None:
    """Of each state, at each batch for which Spark's reader has an answer."""
    batches = fixture.batches()
    assert batches
    problems = []
    for batch in batches:
        with engine_states(fixture.checkpoint, batch, tmp_path) as (states, time_ms):
            assert {state.definition.operator_id for state in states} == fixture.operators()
            for state in states:
                rows = fixture.answers(answer_name(state.definition), batch)
                expected = expected_records(rows, state.definition, time_ms)
                problems += [
                    f"batch {batch}, {state.definition.queryable_name}: {each}"
                    for each in differences(state.records(), expected)
                ]
    assert not problems, "\n".join(problems[:40])


def test_a_look_up_finds_each_record(fixture: SparkFixture, tmp_path: Path) -> None:
    """Look-ups by whole keys give the same as scans."""
    with engine_states(fixture.checkpoint, fixture.batches()[-1], tmp_path) as (states, _):
        for state in states:
            assert state.looked_up() == state.records()
