"""What `queryable-state checkpoints` says of the checkpoint of a Spark query."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from queryable_state.cli import main

if TYPE_CHECKING:
    import pytest
    from tests.native_state.server.replay import ReplayedQuery


def test_the_states_of_a_checkpoint_are_listed(
    query: ReplayedQuery, capsys: pytest.CaptureFixture[str]
) -> None:
    query.commit(4)
    assert main(["checkpoints", str(query.root)]) == 0
    text = capsys.readouterr().out
    for word in (
        "batch 4, committed",
        "stateStoreSave-0",
        "aggregation",
        "VALUE",
        "struct<window:",
    ):
        assert word in text
    assert f"queryable-state serve --spark-checkpoint {query.root} --follow" in text
    assert main(["checkpoints", str(query.root), "--json", "--verify"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["batches"] == [0, 1, 2, 3, 4]
    assert report["operators"][0]["partitions"] == 2
    assert report["problems"] == report["not_served"] == []


def test_damaged_files_are_found_by_reading_them(
    query: ReplayedQuery, capsys: pytest.CaptureFixture[str]
) -> None:
    query.commit(4)
    changelog = next(path for path in query.state_files(".changelog") if path.stem == "5")
    changelog.write_bytes(changelog.read_bytes()[:40])
    changelog.with_name(f".{changelog.name}.crc").unlink(missing_ok=True)
    assert main(["checkpoints", str(query.root)]) == 0
    assert main(["checkpoints", str(query.root), "--verify"]) == 1
    assert str(changelog) in capsys.readouterr().out
    changelog.unlink()
    assert main(["checkpoints", str(query.root)]) == 1


def test_a_query_without_a_batch_is_said_to_have_none(
    query: ReplayedQuery, capsys: pytest.CaptureFixture[str]
) -> None:
    query.begin(0)
    assert main(["checkpoints", str(query.root)]) == 0
    assert "no batch is committed yet" in capsys.readouterr().out
