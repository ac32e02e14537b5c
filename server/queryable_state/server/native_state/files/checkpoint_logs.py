"""Entries of a query's two logs: `offsets/N`, written before batch N, and `commits/N`, after it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError, damaged
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

_OFFSETS_VERSIONS = (1, 2)
_COMMIT_VERSIONS = (1, 2, 3)
_VERSION = re.compile(r"v([0-9]+)")


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """The content of `commits/N`."""

    batch: int

    next_watermark_ms: int
    """The watermark of the next batch, 0 without one."""

    unique_ids: Mapping[int, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """Checkpoint format v2: by operator, then partition, the unique ids of version N + 1 of its
    stores, sorted by store name. Empty: format v1."""

    def unique_id(self, operator_id: int, partition: int, store_index: int) -> str | None:
        """The id of one store's version N + 1; None in checkpoint format v1.

        `store_index` is its place among the operator's stores by name. Raises
        InvalidRequestError for a partition that the operator did not have in this batch.
        """
        partitions = self.unique_ids.get(operator_id)
        if partitions is None:
            return None
        if partition >= len(partitions) or store_index >= len(partitions[partition]):
            raise InvalidRequestError(
                f"batch {self.batch} has {len(partitions)} partitions of operator {operator_id}, "
                f"but store {store_index} of partition {partition} is not among them"
            )
        return partitions[partition][store_index]


@dataclass(frozen=True, slots=True)
class OffsetsEntry:
    """The content of `offsets/N`: the batch's sources, clocks and settings."""

    batch: int

    watermark_ms: int
    """The event-time watermark of the batch, 0 without one."""

    timestamp_ms: int
    """The processing time of the batch, 0 if the file has none."""

    conf: Mapping[str, str]
    """The settings that Spark records because the state depends on them; by full key."""


def parse_offsets(data: bytes, batch: int, file: str) -> OffsetsEntry:
    """Parses `offsets/N`; raises CorruptDataError or UnsupportedFormatError."""
    _, lines = versioned_lines(data, _OFFSETS_VERSIONS, file)
    text = lines[0].strip() if lines else ""
    content = _object(text, file) if text else {}
    try:
        return OffsetsEntry(
            batch=batch,
            watermark_ms=int(content.get("batchWatermarkMs", 0)),
            timestamp_ms=int(content.get("batchTimestampMs", 0)),
            conf={str(k): str(v) for k, v in (content.get("conf") or {}).items()},
        )
    except (ValueError, TypeError, AttributeError) as problem:
        raise damaged(file, f"its metadata has a wrong type ({problem})") from problem


def parse_commit(data: bytes, batch: int, file: str) -> CommitEntry:
    """Parses `commits/N`; raises CorruptDataError or UnsupportedFormatError."""
    _, lines = versioned_lines(data, _COMMIT_VERSIONS, file)
    content = _object(lines[0], file) if lines and lines[0].strip() else {}
    try:
        return CommitEntry(
            batch=batch,
            next_watermark_ms=int(content.get("nextBatchWatermarkMs", 0)),
            unique_ids={
                int(operator): tuple(tuple(str(i) for i in ids) for ids in partitions)
                for operator, partitions in (content.get("stateUniqueIds") or {}).items()
            },
        )
    except (ValueError, TypeError, AttributeError) as problem:
        raise damaged(file, f"its metadata has a wrong type ({problem})") from problem


def versioned_lines(data: bytes, known: tuple[int, ...], file: str) -> tuple[int, list[str]]:
    """The version in the first line of a metadata file, and the other lines."""
    try:
        first, *others = data.decode().split("\n")
    except UnicodeDecodeError as problem:
        raise damaged(file, f"it is no text ({problem})") from problem
    match = _VERSION.fullmatch(first.strip())
    if not match:
        raise damaged(file, "its first line is no version")
    version = int(match[1])
    if version not in known:
        raise UnsupportedFormatError(
            f"{file} has version {version}, versions {', '.join(map(str, known))} are known: "
            "update this library"
        )
    return version, others


def _object(text: str, file: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as problem:
        raise damaged(file, f"its second line is no JSON ({problem})") from problem
    if not isinstance(content, dict):
        raise damaged(file, "its second line is no JSON object")
    return content
