"""The function Spark runs for each subtask of a stateful operator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from queryable_state.streaming.spark.queries.query_operators import QueryOperator
from queryable_state.streaming.spark.worker.failure import to_be_carried
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from queryable_state.server.settings import StateServerSettings
    from queryable_state.streaming.runtime.spec import OperatorSpec


@dataclass(frozen=True)
class SubtaskFunction:
    """For `mapInArrow`: pickled in the driver, called once a task, with no batch where a
    partition is empty.

    gRPC must not be imported before Spark's daemon forks: whatever imports it is
    imported in the call.
    """

    spec: OperatorSpec
    server: StateServerSettings
    """Template; the executor fills in who and where it is."""
    application_id: str

    @property
    def __name__(self) -> str:
        """Spark keeps it in the plans that the operator is in; `query_operators` reads it there."""
        return QueryOperator(
            uid=self.spec.uid,
            parallelism=self.spec.parallelism,
            max_parallelism=self.spec.max_parallelism,
            config_id=self.spec.config_id,
        ).to_name()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._run(batches)
        except QueryableStateError as error:
            raise to_be_carried(error) from None

    def _run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from queryable_state.server.state_server.launch import ensure_server
        from queryable_state.streaming.runtime.task import OperatorTask
        from queryable_state.streaming.spark.worker.executor import current_executor
        from queryable_state.streaming.spark.worker.task_identity import task_identity

        identity = task_identity(self.spec.name)
        settings = current_executor(self.application_id).settings(self.server)

        def backend_address() -> str:
            return ensure_server(Path(settings.directory), settings).backend

        yield from OperatorTask(self.spec)(iter(batches), identity, backend_address)
