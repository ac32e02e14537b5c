"""Formatting of read information and errors, as text and as JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

from queryable_state.cli.tables import printable, time_text

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateError, ReadInfo


def print_json(answer: dict[str, Any]) -> None:
    """Prints one JSON object."""
    json.dump(answer, sys.stdout, indent=2, allow_nan=False)
    print()


def info_json(info: ReadInfo | None) -> dict[str, Any] | None:
    """The fields of a `ReadInfo` as JSON."""
    return None if info is None else dataclasses.asdict(info) | {"role": info.role.name}


def error_json(error: QueryableStateError | None) -> dict[str, Any] | None:
    """The fields of an error as JSON."""
    if error is None:
        return None
    return {
        "reason": error.reason_name,
        "message": error.message,
        "retry_after_ms": error.retry_after_ms,
    }


def error_text(error: QueryableStateError) -> str:
    """An error in one line."""
    return printable(f"{error.reason_name}: {error.message}")


def info_text(info: ReadInfo) -> str:
    """A `ReadInfo` in one line."""
    texts = [batch_text(info.version)]
    if info.commit_time_ms:
        texts.append(f"committed {time_text(info.commit_time_ms)}")
    elif info.version >= 0:
        texts.append("not committed")
    if info.watermark_ms:
        texts.append(f"watermark {time_text(info.watermark_ms)}")
    if info.complete_since_batch:
        texts.append(f"complete since batch {info.complete_since_batch}")
    texts.append(f"from {info.checkpoint or who_text(info)}")
    return ", ".join(texts)


def life_text(remaining_ms: int | None) -> str:
    """The remaining life of a value; empty if it does not expire."""
    if remaining_ms is None:
        return ""
    return f"{remaining_ms / 1000:.3f} s" if remaining_ms else "expired"


def batch_text(version: int) -> str:
    """A batch id for people."""
    return f"batch {version}" if version >= 0 else "before the first batch"


def who_text(info: ReadInfo) -> str:
    """Role and id of the server that answered."""
    return f"{info.role.name.lower()} {info.server_id}"
