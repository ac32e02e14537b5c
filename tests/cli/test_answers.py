"""What answers say of themselves, in one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from queryable_state.cli.answers import error_json, info_json, info_text
from queryable_state.client import ReadInfo, RetryLaterError, Role

INFO = ReadInfo(
    version=31,
    commit_time_ms=1_359_626_400_000,
    watermark_ms=0,
    role=Role.OWNER,
    server_id="s1",
    complete_since_batch=0,
)


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (INFO, "batch 31, committed 2013-01-31 10:00:00Z, from owner s1"),
        (replace(INFO, commit_time_ms=0), "batch 31, not committed, from owner s1"),
        (
            replace(INFO, version=-1, commit_time_ms=0, role=Role.PROXY),
            "before the first batch, from proxy s1",
        ),
        (
            replace(INFO, commit_time_ms=0, watermark_ms=1_359_626_400_000),
            "batch 31, not committed, watermark 2013-01-31 10:00:00Z, from owner s1",
        ),
        (
            replace(INFO, complete_since_batch=7),
            "batch 31, committed 2013-01-31 10:00:00Z, complete since batch 7, from owner s1",
        ),
        (
            replace(INFO, role=Role.CHECKPOINT, checkpoint="file:///state/chk-3"),
            "batch 31, committed 2013-01-31 10:00:00Z, from file:///state/chk-3",
        ),
    ],
)
def test_an_answer_says_when_and_where_it_was_read(info: ReadInfo, text: str) -> None:
    assert info_text(info) == text


def test_json_has_the_client_s_names() -> None:
    assert info_json(INFO) == {
        "version": 31,
        "commit_time_ms": 1_359_626_400_000,
        "watermark_ms": 0,
        "role": "OWNER",
        "server_id": "s1",
        "complete_since_batch": 0,
        "checkpoint": "",
        "ttl_ms": 0,
        "read_time_ms": 0,
        "ttl_per_value": False,
        "timeline": 0,
    }
    assert info_json(None) is None
    assert error_json(RetryLaterError("soon", retry_after_ms=50)) == {
        "reason": "UNAVAILABLE",
        "message": "soon",
        "retry_after_ms": 50,
    }
    assert error_json(None) is None
