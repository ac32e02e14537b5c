"""States of Spark 3.5, which has no state reader, equal what the queries emitted themselves.

Each fixture has a checkpoint and `output/N.jsonl`, the rows that batch N emitted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.native_state.answers.engine_records import engine_states
from tests.native_state.answers.records import Record, differences
from tests.native_state.archives import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Row = dict[str, Any]
    States = dict[str, list[Record]]
    """The records of each state, without partitions."""

FIXTURES = Path(__file__).parent / "fixtures"
ANY_PARTITION = -1
EVERY = 4
"""Of the batches this one, and the newest, are compared."""


class Emitted:
    """A checkpoint and the rows that its query emitted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._scratch = folder / "scratch"
        self.batches = sorted(int(path.stem) for path in (folder / "output").iterdir())

    def compared(self) -> list[int]:
        """The batches to compare."""
        return sorted({*self.batches[::EVERY], self.batches[-1]})

    def rows(self, batch: int) -> list[Row]:
        """The rows of a batch."""
        lines = (self._folder / "output" / f"{batch}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def rows_until(self, batch: int) -> list[Row]:
        """The rows of a batch and of all before it."""
        return [row for each in self.batches if each <= batch for row in self.rows(each)]

    def states(self, batch: int) -> States:
        """The states as of a batch."""
        folder = self._scratch / str(batch)
        with engine_states(str(self._folder / "checkpoint"), batch, folder) as (states, _):
            return {
                state.definition.queryable_name: [
                    record._replace(partition=ANY_PARTITION) for record in state.records()
                ]
                for state in states
            }


@pytest.fixture
def emitted(tmp_path: Path) -> Callable[[str], Emitted]:
    """Unpacks a fixture by name."""

    def unpacked(name: str) -> Emitted:
        unpack(FIXTURES / f"{name}.tar.xz", tmp_path)
        return Emitted(tmp_path / name)

    return unpacked


@pytest.mark.parametrize("name", ["spark-3.5-emitted-sessions", "spark-3.5-emitted-sessions-hdfs"])
def test_sessions_are_those_of_the_complete_output(
    name: str, emitted: Callable[[str], Emitted]
) -> None:
    """The output of complete mode is the whole state of each batch."""
    query = emitted(name)
    for batch in query.compared():
        expected = [_session(row) for row in query.rows(batch)]
        assert expected
        assert differences(query.states(batch)["sessions"], expected) == []


def test_windows_are_those_of_the_complete_output(emitted: Callable[[str], Emitted]) -> None:
    """Count, sum and maximum are buffers that are emitted as they are."""
    query = emitted("spark-3.5-emitted-windows-hdfs")
    for batch in query.compared():
        expected = [
            _record([row["key"], row["window"]], [row["n"], row["total"], row["name"]])
            for row in query.rows(batch)
        ]
        assert expected
        assert differences(query.states(batch)["aggregation"], expected) == []


def test_remembered_keys_are_those_of_the_emitted_rows(emitted: Callable[[str], Emitted]) -> None:
    """Deduplication emits each key once."""
    query = emitted("spark-3.5-emitted-dedup")
    for batch in query.compared():
        expected = [_record([row["id"], row["user"]], True) for row in query.rows_until(batch)]
        assert differences(query.states(batch)["deduplication"], expected) == []


def test_a_limit_counts_the_emitted_rows(emitted: Callable[[str], Emitted]) -> None:
    query = emitted("spark-3.5-emitted-limit")
    for batch in query.compared():
        expected = [_record([0], len(query.rows_until(batch)))]
        assert differences(query.states(batch)["limit"], expected) == []


def test_rows_of_a_join_of_format_1_give_the_emitted_pairs(
    emitted: Callable[[str], Emitted],
) -> None:
    """An inner join without a watermark on its key keeps all rows."""
    query = emitted("spark-3.5-emitted-join-v1")
    for batch in query.compared():
        states = query.states(batch)
        pairs = [
            _record(left.key, [*left.value, *right.value])
            for left in states["left"]
            for right in states["right"]
            if left.key == right.key
        ]
        expected = [
            _record([row["order"], row["customer"]], list(row.values()))
            for row in query.rows_until(batch)
        ]
        assert expected
        assert differences(pairs, expected) == []


def _record(key: Iterable[Any], value: Any) -> Record:
    return Record(ANY_PARTITION, list(key), None, None, value)


def _session(row: Row) -> Record:
    start, end = row["session_window"]
    value = [row["session_window"], row["clicks"], row["n"]]
    return Record(ANY_PARTITION, [row["user"]], (start, end), None, value)
