"""Fixtures of transformWithState: kinds of state, TTL, timers, Avro, merge operators."""

from functools import partial
from typing import Any

from tests.native_state.programs.fixture import (
    ROCKSDB_CHANGELOGS,
    ROCKSDB_SNAPSHOTS,
    STATE_STORE,
    UNIQUE_IDS,
    Fixture,
)
from tests.native_state.programs.queries import evolution, processors

_AVRO = ROCKSDB_CHANGELOGS | {f"{STATE_STORE}.encodingFormat": "avro"}
_FIRST_MERGE = ROCKSDB_CHANGELOGS | {f"{STATE_STORE}.rocksdb.mergeOperatorVersion": "1"}


def processor_fixtures() -> list[Fixture]:
    """The fixtures of Spark 4.0 and later."""
    measures = partial(
        Fixture, inputs={"measures": processors.MEASURES}, feed=processors.feed_measures
    )
    variants: dict[str, tuple[Any, Any, str, bool]] = {
        "": (processors.RowSensor, processors.PandasSensor, "None", False),
        "-ttl": (processors.RowTtl, processors.PandasTtl, "ProcessingTime", True),
        "-event-timers": (
            processors.RowEventTimers,
            processors.PandasEventTimers,
            "EventTime",
            False,
        ),
        "-processing-timers": (
            processors.RowProcessingTimers,
            processors.PandasProcessingTimers,
            "ProcessingTime",
            True,
        ),
    }
    fixtures = []
    for name, (rows, frames, mode, once) in variants.items():
        in_pandas = processors.in_pandas(frames, mode)
        on_rows = processors.on_rows(rows, mode)
        fixtures += [
            measures(name=f"processor-pandas{name}", plan=in_pandas, once=once, since=(4, 0)),
            measures(name=f"processor-rows{name}", plan=on_rows, once=once, since=(4, 1)),
            measures(name=f"processor-avro{name}", plan=in_pandas, once=once, settings=_AVRO),
        ]
    plain = processors.in_pandas(processors.PandasSensor, "None")
    return [
        *fixtures,
        measures(name="processor-merge-v1", plan=plain, settings=_FIRST_MERGE, since=(4, 1)),
        measures(name="processor-snapshots", plan=plain, settings=ROCKSDB_SNAPSHOTS),
        measures(name="processor-ids", plan=plain, settings=UNIQUE_IDS, since=(4, 1)),
        Fixture(
            name="processor-avro-evolved",
            inputs={"measures": evolution.MEASURES},
            plan=evolution.first_schema,
            feed=evolution.feed_and_evolve,
            settings=_AVRO,
        ),
    ]
