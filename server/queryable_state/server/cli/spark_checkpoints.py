"""Report of `queryable-state checkpoints` on the checkpoint of a Structured Streaming query."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queryable_state.cli.tables import table, time_text
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.native_state.server.batch_facts import BatchFacts
    from queryable_state.server.native_state.server.query_states import OperatorStates


def is_spark_checkpoint(uri: str, storage: CheckpointStorage) -> bool:
    """True for the checkpoint location of a query."""
    return storage.exists(join(uri, "metadata")) and bool(storage.list(join(uri, "offsets")))


def spark_report(uri: str, storage: CheckpointStorage, *, verify: bool) -> dict[str, Any]:
    """The query, its newest batch, operators and states, and which partitions are damaged.

    `verify` reads every file of the newest batch. Raises `QueryableStateError` if the query keeps
    no state, or in a form that is not known.
    """
    from queryable_state.server.native_state.files.query_checkpoint import QueryCheckpoint
    from queryable_state.server.native_state.files.query_name import query_name
    from queryable_state.server.native_state.server.batch_facts import BatchFacts
    from queryable_state.server.native_state.server.states_reader import StatesReader

    checkpoint = QueryCheckpoint(storage, uri)
    query_id = checkpoint.query_id()
    batches = checkpoint.committed_batches()
    report: dict[str, Any] = {"uri": uri, "query_id": query_id.hex(), "batches": batches}
    if not batches:
        return report | {"operators": [], "problems": []}
    facts = BatchFacts.of(checkpoint, batches[-1])
    with tempfile.TemporaryDirectory(prefix="queryable-state-") as folder:
        states = StatesReader(checkpoint, query_id, query_name(uri), lambda: Path(folder) / "store")
        found = states.read(facts)
        return report | {
            "commit_time_ms": facts.commit_time_ms,
            "watermark_ms": facts.watermark_ms,
            "provider": checkpoint.provider(facts.conf).value,
            "operators": [_operator(each) for each in found.operators],
            "not_served": [each.message for each in found.refusals],
            "problems": list(_problems(found.operators, facts, verify=verify)),
        }


def _operator(operator: OperatorStates) -> dict[str, Any]:
    return {
        "uid": operator.uid,
        "partitions": operator.partitions,
        "states": [
            {
                "name": definition.queryable_name,
                "kind": registration_pb2.StateKind.Name(definition.kind),
                "key": definition.key_type.simple_string(),
                "value": ""
                if definition.value_type is None
                else definition.value_type.simple_string(),
                "expires": definition.has_ttl,
                "format": definition.format,
                "description": definition.description,
            }
            for definition in (each.definition for each in operator.layouts.values())
        ],
    }


def _problems(
    operators: tuple[OperatorStates, ...], facts: BatchFacts, *, verify: bool
) -> Iterator[str]:
    from queryable_state.server.native_state.server.served_partition import ServedPartition

    for operator in operators:
        for index in range(operator.partitions):
            partition = ServedPartition(operator, index, operator.files(index))
            try:
                if verify:
                    partition.files.open(facts.batch, facts.ids(partition)).destroy()
                else:
                    partition.files.check(facts.batch, facts.ids(partition))
            except QueryableStateError as problem:
                yield f"partition {index} of {operator.uid}: {problem}"


def spark_text(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = [f"checkpoint of a Structured Streaming query ({report['query_id']}): {report['uri']}"]
    batches = report["batches"]
    if not batches:
        return "\n".join([*lines, "no batch is committed yet"])
    watermark_ms = report["watermark_ms"]
    lines.append(
        f"batch {batches[-1]}, committed {time_text(report['commit_time_ms'])}, "
        f"watermark {time_text(watermark_ms) if watermark_ms else 'none'}, {report['provider']}"
    )
    rows = [
        (
            operator["uid"],
            str(operator["partitions"]),
            state["name"],
            state["kind"],
            state["key"],
            state["value"],
        )
        for operator in report["operators"]
        for state in operator["states"]
    ]
    lines += ["", *table(("operator", "partitions", "state", "kind", "key", "value"), rows), ""]
    lines += [f"not served: {each}" for each in report["not_served"]]
    lines += report["problems"] or [
        f"serve it: queryable-state serve --spark-checkpoint {report['uri']} --follow"
    ]
    return "\n".join(lines)
