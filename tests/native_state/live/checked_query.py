"""A running query whose served state is compared with Spark's own reader after each feed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tests.native_state.answers.client_records import ANY_PARTITION, scanned_records
from tests.native_state.answers.expected_records import answer_name, expected_records
from tests.native_state.answers.records import differences
from tests.native_state.programs.answers import Answers, rows_of
from tests.native_state.programs.written_query import WrittenQuery

from queryable_state.client import Consistency

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from queryable_state.client.blocking import QueryableStateClient
    from queryable_state.server.native_state.operators.state_layout import StateDefinition

DEADLINE_S = 60.0


class CheckedQuery(WrittenQuery):
    """Compares after each `feed`; `problems` has each difference."""

    def __init__(self, spark: SparkSession, folder: Path, **facts: Any) -> None:
        super().__init__(spark, folder, **facts)
        self.problems: list[str] = []
        self.compared = 0
        """States compared so far, one for each state and feed."""
        self._answers = Answers(spark, folder)
        self._served = threading.Event()
        self._client: QueryableStateClient
        self._states: Callable[[], list[StateDefinition]]

    def compare_with(
        self, client: QueryableStateClient, states: Callable[[], list[StateDefinition]]
    ) -> None:
        """Lets the first `feed` go on; `states` are those that the server has now."""
        self._client, self._states = client, states
        self._served.set()

    def feed(
        self, rows: Sequence[Mapping[str, Any]] = (), **inputs: Sequence[Mapping[str, Any]]
    ) -> None:
        super().feed(rows, **inputs)
        assert self._served.wait(DEADLINE_S), "the server has not started"
        self._compare()

    def _compare(self) -> None:
        newest = self._answers.batches()[-1]
        readings = dict(self._answers.readings())
        for state in self._states():
            found, batch = scanned_records(
                self._client,
                "query",
                state,
                consistency=Consistency.at_least(newest),
                timeout_s=DEADLINE_S,
            )
            rows = rows_of(self._answers.frame(readings[answer_name(state)], batch))
            time_ms = self._answers.batch_time_ms(batch)
            expected = [
                record._replace(partition=ANY_PARTITION)
                for record in expected_records(rows, state, time_ms)
            ]
            self.compared += 1
            self.problems += [
                f"batch {batch}, {state.queryable_name}: {each}"
                for each in differences(found, expected)
            ]
