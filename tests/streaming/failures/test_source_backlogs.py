"""Backlogs of sources, read from the forms of progress that Spark writes."""

from __future__ import annotations

from typing import Any

import pytest

from queryable_state.streaming.spark.queries.batch_reports import batch_report
from queryable_state.streaming.spark.queries.source_backlog import Backlog, backlog_of


@pytest.mark.parametrize(
    ("source", "backlog"),
    [
        (
            {
                "endOffset": {"readings": {"0": 100, "1": 200}},
                "latestOffset": {"readings": {"0": 150, "1": 200, "2": 7}},
                "metrics": {"avgOffsetsBehindLatest": "25.0"},
            },
            Backlog(50, "rows"),
        ),
        (
            {"endOffset": '{"t":{"0":5}}', "latestOffset": '{"t":{"0":9}}'},
            Backlog(4, "rows"),
        ),
        # A topic that was made anew has lower offsets.
        ({"endOffset": {"t": {"0": 9}}, "latestOffset": {"t": {"0": 5}}}, Backlog(0, "rows")),
        (
            {
                "endOffset": {"sourceVersion": 1, "reservoirId": "x", "index": 3},
                "latestOffset": None,
                "metrics": {"numFilesOutstanding": "12", "numBytesOutstanding": "900"},
            },
            Backlog(12, "files"),
        ),
        ({"metrics": {"numBytesOutstanding": "900"}}, Backlog(900, "bytes")),
        # Files and bytes come before offsets.
        (
            {"metrics": {"numBytesOutstanding": "900", "maxOffsetsBehindLatest": "7"}},
            Backlog(900, "bytes"),
        ),
        # The average is over the partitions of the batch's offsets.
        (
            {
                "endOffset": {"stream": {"0": 10, "1": 20, "2": 30}},
                "latestOffset": None,
                "metrics": {
                    "minOffsetsBehindLatest": "0",
                    "avgOffsetsBehindLatest": "33.333333",
                    "maxOffsetsBehindLatest": "80",
                },
            },
            Backlog(100, "rows"),
        ),
        # Of an unknown number of partitions: at least what the one that is most behind has.
        (
            {
                "endOffset": {"shard-7": "4963"},
                "latestOffset": {"shard-7": "5010"},
                "metrics": {
                    "minOffsetsBehindLatest": "2",
                    "avgOffsetsBehindLatest": "21.5",
                    "maxOffsetsBehindLatest": "47",
                },
            },
            Backlog(47, "rows"),
        ),
        ({"metrics": {"avgOffsetsBehindLatest": "21.5"}}, Backlog(22, "rows")),
        ({"metrics": {"maxOffsetsBehindLatest": "0"}}, Backlog(0, "rows")),
        ({"metrics": {"avgOffsetsBehindLatest": "NaN"}}, Backlog(0, "")),
        # Seconds of the rate source, and batches of a file source, are no rows.
        ({"endOffset": 6, "latestOffset": 9}, Backlog(0, "")),
        ({"endOffset": {"logOffset": 1}, "latestOffset": None}, Backlog(0, "")),
        ({}, Backlog(0, "")),
    ],
)
def test_the_backlog_of_a_source(source: dict[str, Any], backlog: Backlog) -> None:
    assert backlog_of(source) == backlog


def test_a_report_prefers_the_backlog_that_was_read_beside_the_progress() -> None:
    kafka = {"endOffset": {"t": {"0": 1}}, "latestOffset": {"t": {"0": 3}}, "numInputRows": 1}
    progress = {
        "batchId": 4,
        "timestamp": "2026-11-28T11:40:29.540Z",
        "sources": [{"description": "FileStreamSource[file:/x]", "numInputRows": 9}, kafka],
    }
    files, rows = batch_report(progress, {0: Backlog(0, "files")}).sources
    assert (files.backlog, files.backlog_unit, files.rows) == (0, "files", 9)
    assert (rows.backlog, rows.backlog_unit, rows.rows) == (2, "rows", 1)
