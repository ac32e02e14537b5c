"""Marker source: a streaming source without rows, by which a query gets batches without input.

Spark plans a batch if the offset of a source moves. This source asks the coordinator whether the
query needs a batch, because a timer is due or may become due, or its input has ended, and moves its
offset if so. It moves it also at the start of each run, so that the coordinator learns of the run.

Spark calls the reader in a Python process of its own beside the driver, before each batch and about
every 10 ms between batches. A call that fails counts as no demand: the query goes on with its
input.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.streaming.spark.sources.marker_offset import MARKER_FORMAT, MarkerOffset
from queryable_state.wire.security.tls import Tls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_log = logging.getLogger("queryable_state.streaming")

_ADDRESS: Final = "address"
_SECRET_FILE: Final = "secretFile"
_TLS: Final = "tls"
_BOUNDED: Final = "bounded"
_CALL_S: Final = 1.0
_PAUSE_AFTER_FAILURE_S: Final = 1.0
_POLL_S: Final = 0.005
_LONGEST_WAIT_S: Final = 60.0
"""Longest wait of a query that ends by itself for the coordinator to know its newest batch."""


def with_marker(
    frame: DataFrame, address: str, secret_file: Path, tls: Tls | None, *, is_bounded: bool
) -> DataFrame:
    """The rows of a streaming DataFrame, united with a marker source.

    `address` is the coordinator's HOST:PORT, `tls` how it is called. `is_bounded` is true if all
    sources of the query end.
    """
    session: SparkSession = frame.sparkSession
    session.dataSource.register(MarkerSource)
    marker = (
        session.readStream.format(MARKER_FORMAT)
        .option(_ADDRESS, address)
        .option(_SECRET_FILE, str(secret_file))
        .option(_TLS, json.dumps(None if tls is None else asdict(tls)))
        .option(_BOUNDED, str(is_bounded).lower())
        .load()
    )
    columns = [F.lit(None).cast(each.dataType).alias(each.name) for each in frame.schema.fields]
    # The last source of the plan: the offsets of the others keep their places.
    return frame.union(marker.select(*columns))


class MarkerSource(DataSource):
    """The data source of a marker."""

    @classmethod
    def name(cls) -> str:
        return MARKER_FORMAT

    def schema(self) -> str:
        return "tick BIGINT"

    def streamReader(self, schema: StructType) -> MarkerReader:  # noqa: N802 - Spark's name
        return MarkerReader(self.options)


class MarkerReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets of a marker source in one run of its query."""

    def __init__(self, options: Mapping[str, str]) -> None:
        tls = json.loads(options[_TLS])
        self._coordinator = _Coordinator(
            options[_ADDRESS], Path(options[_SECRET_FILE]), None if tls is None else Tls(**tls)
        )
        self._is_bounded = options[_BOUNDED] == "true"
        self._ends_by_itself = False
        self._clock_id = uuid.uuid4().hex
        self._has_ticked = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return MarkerOffset().as_dict()

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802
        demand = coordinator_pb2.BATCH_DEMAND_BATCH if not self._has_ticked else self._demand()
        if demand in (coordinator_pb2.BATCH_DEMAND_NONE, coordinator_pb2.BATCH_DEMAND_UNKNOWN):
            return start
        self._has_ticked = True
        ended = demand == coordinator_pb2.BATCH_DEMAND_END_OF_TIME
        return MarkerOffset(self._clock_id, MarkerOffset.of(start).tick + 1, ended).as_dict()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._ends_by_itself = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return iter(())

    def stop(self) -> None:
        self._coordinator.close()

    def _demand(self) -> int:
        """What the query needs. A query that ends by itself would end without an answer, so it
        waits for one."""
        request = coordinator_pb2.WantsBatchRequest(
            clock_id=self._clock_id, ends=self._ends_by_itself and self._is_bounded
        )
        demand = self._coordinator.demand(request, may_cache=not self._ends_by_itself)
        give_up_s = time.monotonic() + _LONGEST_WAIT_S
        while self._ends_by_itself and demand == coordinator_pb2.BATCH_DEMAND_UNKNOWN:
            if time.monotonic() > give_up_s:
                _log.warning(
                    "the coordinator has not told within %g s whether the query needs another "
                    "batch: timers that are pending at the end of the input may not have fired",
                    _LONGEST_WAIT_S,
                )
                break
            time.sleep(_POLL_S)
            demand = self._coordinator.demand(request, may_cache=False)
        return demand


class _Coordinator:
    """The coordinator as a marker source asks it."""

    def __init__(self, address: str, secret_file: Path, tls: Tls | None) -> None:
        self._address = address
        self._secret_file = secret_file
        self._tls = tls
        self._connector: Any = None
        self._generation = 0
        self._channel: Any = None
        self._stub: Any = None
        self._quiet_until_s = 0.0

    def demand(self, request: coordinator_pb2.WantsBatchRequest, *, may_cache: bool) -> int:
        """What the query needs; UNKNOWN if the coordinator does not answer.

        With `may_cache` an answer without demand counts for as long as the coordinator said.
        """
        if may_cache and time.monotonic() < self._quiet_until_s:
            return coordinator_pb2.BATCH_DEMAND_NONE
        try:
            answer = self._ask(request)
        except Exception as failure:  # noqa: BLE001 - a query must not fail for want of a batch
            _log.info("the coordinator at %s does not answer: %s", self._address, failure)
            self._quiet_until_s = time.monotonic() + _PAUSE_AFTER_FAILURE_S
            return coordinator_pb2.BATCH_DEMAND_UNKNOWN
        if answer.demand == coordinator_pb2.BATCH_DEMAND_NONE:
            self._quiet_until_s = time.monotonic() + answer.valid_ms / 1000
        return answer.demand

    def close(self) -> None:
        """Ends the connection; may be repeated."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _ask(
        self, request: coordinator_pb2.WantsBatchRequest
    ) -> coordinator_pb2.WantsBatchResponse:
        # Only the reader's process needs gRPC; the driver creates readers, too.
        from queryable_state.internal.v1 import coordinator_pb2_grpc
        from queryable_state.wire.calls.channel_options import channel_options
        from queryable_state.wire.security.connector import Connector
        from queryable_state.wire.security.signed_calls import (
            COORDINATOR,
            CallSigner,
            signed_stub,
        )

        if self._connector is None:
            self._connector = Connector(self._tls)
        if self._generation != self._connector.generation:
            self.close()
        if self._channel is None:
            self._generation = self._connector.generation
            self._channel = self._connector.blocking_channel(self._address, channel_options())
            # Driver and reader share a machine, and so a clock: there is nothing to correct.
            self._stub = signed_stub(
                coordinator_pb2_grpc.CoordinatorStub(self._channel),
                COORDINATOR,
                CallSigner(self._secret_file.read_text()),
            )
        answer: coordinator_pb2.WantsBatchResponse = self._stub.WantsBatch(request, timeout=_CALL_S)
        return answer
