"""`queryable-state checkpoints`: list and verify the checkpoints of a job."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from queryable_state.cli.tables import bytes_text, ms_text, percent_text, table, time_text
from queryable_state.server.cli.arguments import add_storage_options, storage_options, whole_uri

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from queryable_state.server.checkpoint.completed import Completed, Found
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

_NOT_INTACT = 1


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "checkpoints",
        help="list checkpoints and savepoints, and verify that they are intact",
        description="Lists the checkpoints of a state root (a job's folder in the checkpoint "
        "directory), or one checkpoint (its chk-<n> folder) or savepoint. Key counts are estimates "
        "of the backend; each entry of a map and each chunk of a list counts. For a state root it "
        "also verifies that the job can continue from it: manifests, changelogs and registrations "
        "after the newest checkpoint. Of the checkpoint location of a plain Structured Streaming "
        "query it lists the states that `queryable-state serve --spark-checkpoint` serves. Exit "
        "code 1: something is damaged or missing; 2: nothing could be listed.",
    )
    parser.add_argument("uri", metavar="URI", help="folder: a path, file:///..., s3://...")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="read every file and compare its checksum, not only its size",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_storage_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from queryable_state.server.checkpoint.completed import find
    from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
    from queryable_state.server.cli.spark_checkpoints import is_spark_checkpoint

    uri = whole_uri(options.uri)
    storage = storage_of(uri, storage_options(options))
    if is_spark_checkpoint(uri, storage):
        return _of_spark(uri, storage, options)
    report = _report(
        uri,
        find(uri, storage),
        storage,
        lambda other: storage_of(other, storage_options(options)),
        checksums=options.verify,
    )
    if options.json:
        json.dump(report, sys.stdout, indent=2)
        print()
    else:
        print(_text(report, checksums=options.verify))
    # A checkpoint without metadata may be in progress.
    broken = [
        each for each in report["checkpoints"] if not each["intact"] and not each.get("begun")
    ]
    return _NOT_INTACT if broken or report.get("problems") else 0


def _of_spark(uri: str, storage: CheckpointStorage, options: argparse.Namespace) -> int:
    from queryable_state.server.cli.spark_checkpoints import spark_report, spark_text

    report = spark_report(uri, storage, verify=options.verify)
    if options.json:
        json.dump(report, sys.stdout, indent=2)
        print()
    else:
        print(spark_text(report))
    return _NOT_INTACT if report["problems"] else 0


def _report(
    uri: str,
    found: Found,
    storage: CheckpointStorage,
    storage_at: Callable[[str], CheckpointStorage],
    *,
    checksums: bool,
) -> dict[str, Any]:
    from queryable_state.server.checkpoint.completed import problems_of
    from queryable_state.server.checkpoint.root_verification import problems_of_root

    report: dict[str, Any] = {"uri": uri}
    if found.root is not None:
        registrations = found.root.registrations()
        report["job"] = _job(registrations.job_id, registrations.job_name) if registrations else {}
        report["epoch"] = found.root.newest_epoch()
        report["changelog_batches"] = found.root.batches()
        if registrations and registrations.restored_from:
            report["restored_from"] = registrations.restored_from
    elif found.completed:
        metadata = found.completed[0].metadata
        report["job"] = _job(metadata.job_id, metadata.job_name)
    problems = [problems_of(each, storage, checksums=checksums) for each in found.completed]
    if found.root is not None:
        intact = [c.metadata for c, bad in zip(found.completed, problems, strict=True) if not bad]
        report["problems"] = problems_of_root(found.root, intact, storage_at, checksums=checksums)
    report["checkpoints"] = [
        _describe(each, bad) for each, bad in zip(found.completed, problems, strict=True)
    ] + [
        {
            "uri": each.path,
            "complete": False,
            "begun": each.begun,
            "intact": False,
            "problems": [each.problem],
        }
        for each in found.broken
    ]
    return report


def _job(job_id: bytes, name: str) -> dict[str, str]:
    return {"id": job_id.hex(), "name": name}


def _describe(each: Completed, problems: list[str]) -> dict[str, Any]:
    metadata = each.metadata
    return {
        "uri": each.uri,
        "kind": "savepoint" if metadata.savepoint else "checkpoint",
        "id": metadata.checkpoint_id,
        "batch": metadata.version,
        "commit_time_ms": metadata.commit_time_ms,
        "watermark_ms": metadata.watermark_ms,
        "triggered_at_ms": metadata.triggered_at_ms,
        "duration_ms": metadata.duration_ms,
        "complete_since_batch": metadata.complete_since_batch,
        "backend": metadata.backend,
        "size_bytes": each.size_bytes,
        "new_bytes": each.new_bytes,
        "operators": [
            {
                "uid": operator.uid,
                "name": operator.name,
                "parallelism": operator.parallelism,
                "max_parallelism": operator.max_parallelism,
                "size_bytes": sum(f.size_bytes for part in operator.ranges for f in part.files),
                "new_bytes": sum(part.new_bytes for part in operator.ranges),
                "keys": sum(size.records for part in operator.ranges for size in part.sizes),
                "states": [
                    {
                        "name": state.state_name,
                        "queryable_name": state.queryable_name,
                        "keys": sum(
                            size.records
                            for part in operator.ranges
                            for size in part.sizes
                            if size.state_id == state.state_id
                        ),
                    }
                    for state in operator.states
                ],
            }
            for operator in metadata.operators
        ],
        "complete": True,
        "intact": not problems,
        "problems": problems,
    }


def _text(report: dict[str, Any], *, checksums: bool) -> str:
    lines = []
    job = report.get("job")
    if job:
        lines.append(f"job {job['name']} ({job['id']})")
    if "epoch" in report:
        batches = report["changelog_batches"]
        kept = f"batches {batches[0]} to {batches[-1]}" if batches else "no batch"
        lines.append(f"state root {report['uri']}: epoch {report['epoch']}, changelogs of {kept}")
    if "restored_from" in report:
        lines.append(f"started from {report['restored_from']}")
    lines += [f"the job cannot continue from it: {each}" for each in report.get("problems", ())]
    if not report["checkpoints"]:
        lines.append("no checkpoint yet")
        return "\n".join(lines)
    rows = [row for each in report["checkpoints"] for row in _rows(each, checksums=checksums)]
    head = ("checkpoint", "batch", "taken", "took", "operator", "size", "new", "keys", "intact")
    lines += ["", *table(head, rows)]
    for each in report["checkpoints"]:
        lines += [f"{_name(each)}: {problem}" for problem in each["problems"]]
    return "\n".join(lines)


def _rows(each: dict[str, Any], *, checksums: bool) -> list[tuple[str, ...]]:
    """A line for the checkpoint and one for each operator."""
    if not each["complete"]:
        return [(_name(each), *[""] * 7, "begun" if each["begun"] else "no")]
    intact = ("checksums" if checksums else "sizes") if each["intact"] else "no"
    return [
        (
            _name(each),
            str(each["batch"]),
            time_text(each["triggered_at_ms"]),
            ms_text(each["duration_ms"]),
            "",
            bytes_text(each["size_bytes"]),
            percent_text(each["new_bytes"], each["size_bytes"]),
            str(sum(operator["keys"] for operator in each["operators"])),
            intact,
        ),
        *(
            (
                *[""] * 4,
                operator["uid"],
                bytes_text(operator["size_bytes"]),
                percent_text(operator["new_bytes"], operator["size_bytes"]),
                str(operator["keys"]),
                "",
            )
            for operator in each["operators"]
        ),
    ]


def _name(each: dict[str, Any]) -> str:
    name: str = each["uri"].rpartition("/")[2]
    return name
