"""Offsets of marker sources in Spark's checkpoints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming.spark.queries.checkpoint_files import CheckpointFiles
from queryable_state.streaming.spark.savepoints.marker_offsets import check_markers, with_markers
from queryable_state.streaming.spark.savepoints.progress_export import newest_offsets
from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles
from queryable_state.streaming.spark.sources.marker_offset import MarkerOffset
from queryable_state.wire.errors import RestoreMismatchError
from queryable_state.wire.event_time import END_OF_TIME

if TYPE_CHECKING:
    from pathlib import Path

NO_JVM: Any = None
"""Local folders are read without it."""
CLOCKS = json.dumps({"batchWatermarkMs": 70, "batchTimestampMs": 90, "conf": {}})
FILES = '{"logOffset":3}'
KAFKA = '{"topic":{"0":5}}'


def marker(tick: int, *, ended: bool = False) -> str:
    return json.dumps(MarkerOffset("c" * 32, tick, ended).as_dict())


def write(folder: Path, *batches: tuple[str, ...]) -> CheckpointFiles:
    (folder / "offsets").mkdir()
    for number, offsets in enumerate(batches):
        (folder / "offsets" / str(number)).write_text("\n".join(["v1", CLOCKS, *offsets]))
    return CheckpointFiles(NO_JVM, str(folder))


def check(folder: Path, *, needs_clock: bool) -> None:
    files = SparkFiles(NO_JVM, str(folder))
    content = newest_offsets(files)
    assert content is not None
    check_markers(content, files.root, "job", needs_clock=needs_clock)


def test_an_offset_of_another_source_is_no_marker() -> None:
    for line in (FILES, KAFKA, "-", "7", "null", '{"tick": 1}', ""):
        assert MarkerOffset.parse(line) is None
    assert MarkerOffset.parse(marker(4, ended=True)) == MarkerOffset("c" * 32, 4, True)


def test_a_marker_has_no_input(tmp_path: Path) -> None:
    files = write(tmp_path, (FILES, marker(1)), (FILES, marker(2)), (KAFKA, marker(3)))
    assert [files.has_input(batch, ()) for batch in range(3)] == [True, False, True]
    assert files.has_input(1, (1,)) is False


def in_version_2(folder: Path, *batches: tuple[str, ...]) -> CheckpointFiles:
    """Offsets with their source's index or name before them, in any order."""
    (folder / "offsets").mkdir()
    for number, lines in enumerate(batches):
        (folder / "offsets" / str(number)).write_text("\n".join(["v2", CLOCKS, *lines]))
    return CheckpointFiles(NO_JVM, str(folder))


def test_offsets_of_version_2_are_those_of_the_sources_that_they_name(tmp_path: Path) -> None:
    files = in_version_2(
        tmp_path,
        (f"0:{KAFKA}", f"2:{marker(1)}", f"1:{FILES}"),
        (f"2:{marker(2)}", '1:{"logOffset":4}', f"0:{KAFKA}"),
    )
    assert [files.has_input(1, (source,)) for source in range(3)] == [False, True, False]
    clocks = files.clocks(1)
    assert clocks is not None
    assert clocks.clock_ids == ("c" * 32,)
    check(tmp_path, needs_clock=True)


def test_a_batch_of_named_sources_has_input_if_any_of_them_has(tmp_path: Path) -> None:
    files = in_version_2(tmp_path, (f"a:{KAFKA}", f"b:{FILES}"), (f"b:{FILES}", f"a:{FILES}"))
    assert files.has_input(1, (0,)) is files.has_input(1, (1,)) is True


def test_the_clocks_have_the_id_and_the_end_of_time(tmp_path: Path) -> None:
    files = write(tmp_path, (FILES,), (FILES, marker(1)), (FILES, marker(2, ended=True)))
    clocks = [files.clocks(batch) for batch in range(3)]
    assert [each and each.watermark_ms for each in clocks] == [70, 70, END_OF_TIME]
    assert [each and each.clock_ids for each in clocks] == [(), ("c" * 32,), ("c" * 32,)]


def test_a_savepoint_gets_or_loses_the_marker_of_a_job() -> None:
    without = "\n".join(["v1", CLOCKS, FILES, KAFKA]).encode()
    with_one = with_markers(without, 1, "s")
    assert with_one.startswith(without + b"\n")
    assert MarkerOffset.parse(with_one.split(b"\n")[-1]) == MarkerOffset()
    assert with_markers(with_one, 1, "s") == with_one
    assert with_markers(with_one, 0, "s") == without


def test_several_markers_cannot_be_added_or_removed() -> None:
    between = "\n".join(["v1", CLOCKS, FILES, marker(1), KAFKA, marker(1)]).encode()
    assert with_markers(between, 2, "s") == between
    with pytest.raises(RestoreMismatchError, match="2 marker sources, and the query needs 0"):
        with_markers(between, 0, "s")


@pytest.mark.parametrize("needs_clock", [True, False])
def test_a_checkpoint_with_another_number_of_sources_is_refused_with_what_to_do(
    tmp_path: Path, needs_clock: bool
) -> None:
    write(tmp_path, (FILES,) if needs_clock else (FILES, marker(1)))
    check(tmp_path, needs_clock=not needs_clock)
    with pytest.raises(RestoreMismatchError, match="stop_with_savepoint"):
        check(tmp_path, needs_clock=needs_clock)


def test_a_new_job_has_nothing_to_check(tmp_path: Path) -> None:
    assert newest_offsets(SparkFiles(NO_JVM, str(tmp_path / "none"))) is None
