"""Manifests: what a committed batch is made of, and who writes them."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.coordinator.drivers import QUERY, driver, subtask_of

from queryable_state.server.checkpoint import layout
from queryable_state.server.coordinator import JobConfig
from queryable_state.server.coordinator.recovery.root_loader import RootLoader
from queryable_state.wire.changes import ChangeBlockBuilder
from queryable_state.wire.errors import (
    CheckpointError,
    RetryLaterError,
)

if TYPE_CHECKING:
    from tests.coordinator.drivers import Driver

    from queryable_state.server.coordinator.roots.job_roots import JobRoot

from tests.coordinator.roots.durable import FIRST, SECOND, run, tokens


def test_a_committed_batch_has_a_manifest_of_what_was_reported(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        assert tokens(job.root.manifest(0)) == [(0, 63, 1, 0), (64, 127, 1, 1)]
        assert job.root.registrations() is not None


def test_a_report_counts_before_a_higher_token_nobody_acknowledged(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        for index in (0, 1):
            job.seal(subtask_of(index), 1, attempt=20 + index, epoch=epoch)
        job.file(FIRST, 1, attempt=99, epoch=epoch)
        job.commit(1)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 20), (64, 127, 1, 21)]


def test_the_seal_of_a_server_that_died_is_found_in_the_folder(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
        job.file(FIRST, 1, attempt=21, epoch=epoch)
        job.seal(SECOND, 1, attempt=22, epoch=epoch)
        job.commit(1)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 21), (64, 127, 1, 22)]


def test_an_owner_that_lacks_what_counts_must_load_it_anew(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
        job.commit(1)
        assert job.peer().dropped == [QUERY]
        job.begin(2)
        plan = job.open(FIRST, 2)
        assert [f.token.task_attempt for f in plan.changelogs] == [0, 20]


def test_a_batch_that_changed_nothing_has_an_empty_manifest(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        job.begin(1)
        job.commit(1)
        assert tokens(job.root.manifest(1)) == []


def test_a_batch_committed_just_before_the_driver_died_gets_its_manifest(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
    with driver(tmp_path) as job:
        job.engine.plan(QUERY, 1)
        job.begin(2)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 20)]
        assert [f.batch_id for f in job.open(FIRST, 2).changelogs] == [0, 1]


@pytest.mark.parametrize("again", [False, True])
def test_a_damaged_changelog_of_a_committed_batch_is_not_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, again: bool
) -> None:
    with driver(tmp_path) as job:
        epoch = job.begin(0)
        job.file(FIRST, 0, 1, epoch=epoch)
        damaged = Path(job.root.path(job.file(SECOND, 0, 2, epoch=epoch).path))
        damaged.write_bytes(damaged.read_bytes()[:-1])
        if again:
            # What another attempt has written of the same offsets stands for it.
            job.file(SECOND, 0, 1, epoch=epoch)
    with driver(tmp_path) as job:
        job.engine.plan(QUERY, 0)
        if again:
            job.begin(1)
            assert tokens(job.root.manifest(0)) == [(0, 63, 1, 1), (64, 127, 1, 1)]
            return
        with pytest.raises(CheckpointError, match=str(damaged)):
            job.begin(1)
    with driver(tmp_path, JobConfig(allow_missing_state=True)) as job:
        job.engine.plan(QUERY, 0)
        job.begin(1)
        assert tokens(job.root.manifest(0)) == [(0, 63, 1, 1)]
        assert "continues without them" in caplog.text


def test_a_run_that_a_sink_skips_commits_what_the_run_before_sealed(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
    with driver(tmp_path) as job:
        job.begin(1)
        job.open(FIRST, 1)
        job.commit(1)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 20)]
        assert not job.peer().dropped, "it was loaded when the store was opened"


def test_a_commit_found_out_while_the_next_run_reads_the_root_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        job.seal(FIRST, 1, 20, epoch=job.begin(1))
        load = RootLoader.load

        def found_out_meanwhile(*args: Any, **kwargs: Any) -> JobRoot:
            loaded = load(*args, **kwargs)
            job.commit(1)
            return loaded

        monkeypatch.setattr(RootLoader, "load", found_out_meanwhile)
        _, job.run_id = job.engine.start("job", query_id=QUERY)
        with pytest.raises(RetryLaterError, match="read again"):
            job.begin(2)
        job.begin(2)
        assert [file.batch_id for file in job.open(FIRST, 2).changelogs] == [0, 1]


def test_a_lost_manifest_is_made_again(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        for batch in range(3):
            run(job, batch)
    job.root.storage.delete(job.root.path(layout.manifest_file(1, 1)))
    with driver(tmp_path) as job:
        for batch in range(3):
            job.engine.plan(QUERY, batch)
        job.begin(3)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 10), (64, 127, 1, 11)]


def test_a_damaged_manifest_is_made_again_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with driver(tmp_path) as job:
        for batch in range(3):
            run(job, batch)
    damaged = Path(job.root.path(layout.manifest_file(1, 1)))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with driver(tmp_path) as job:
        for batch in range(3):
            job.engine.plan(QUERY, batch)
        job.begin(3)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 10), (64, 127, 1, 11)]
        assert [file.batch_id for file in job.open(FIRST, 3).changelogs] == [0, 1, 2]
    assert [r for r in caplog.records if r.levelname == "ERROR" and str(damaged) in r.getMessage()]


def test_a_manifest_that_cannot_be_written_ends_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
        folder = job.root.path(layout.batch_folder(1))
        shutil.move(folder, folder + ".away")
        job.root.storage.write(folder, b"a file where the folder was")
        job.engine.commit(QUERY, 1)
        with caplog.at_level(logging.CRITICAL):
            assert not job.coordinator.settle(QUERY, 1, 2.0)
        error = job.engine.stopped[QUERY]
        assert isinstance(error, CheckpointError)
        assert folder in str(error)


def test_a_run_later_writes_the_manifest_that_could_not_be_written(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
        folder = job.root.path(layout.batch_folder(1))
        shutil.move(folder, folder + ".away")
        job.root.storage.write(folder, b"a file where the folder was")
        job.engine.commit(QUERY, 1)
        assert not job.coordinator.settle(QUERY, 1, 2.0)
        job.root.storage.delete(folder)
        shutil.move(folder + ".away", folder)
        _, job.run_id = job.engine.start("job", query_id=QUERY)
        job.begin(2)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 20)]


def test_changelogs_of_two_operators_that_were_exchanged_are_refused_by_name(
    tmp_path: Path,
) -> None:
    """They have one key group, batch and attempt; only the ids of their states differ."""
    operators = [subtask_of(0, uid=uid, p=1) for uid in ("one", "other")]
    with driver(tmp_path) as job:
        epoch = job.begin(0)
        paths = []
        for subtask in operators:
            job.open(subtask, 0)
            [state] = job.peer().register_states(subtask, f"of {subtask.operator_uid}")
            builder = ChangeBlockBuilder(state.state_id)
            builder.put(b"\x00\x00k\x00", subtask.operator_uid.encode())
            file = job.seal(subtask, 0, attempt=5, epoch=epoch, changes=builder)
            paths.append(Path(job.root.path(file.path)))
        job.commit(0)
    for manifest in (tmp_path / "spark.queryable-state/changelog/0").glob("_manifest-*"):
        manifest.unlink()
    first, second = paths
    first.rename(first.with_name("aside"))
    second.rename(first)
    first.with_name("aside").rename(second)
    with driver(tmp_path) as job:
        job.engine.plan(QUERY, 0)
        with pytest.raises(
            CheckpointError, match="state 'of other' of operator 'other'"
        ) as refused:
            job.begin(1)
        assert "changelog/0/one/0-127/1-5" in str(refused.value)


def timers_only(job: Driver, batch: int) -> None:
    """A batch that the marker source planned, in which the operator changed its timers."""
    job.engine.plan(QUERY, batch, has_input=False, clock_id="c" * 32)
    epoch = job.peer().begin(QUERY, job.run_id, batch).run_epoch
    for index in (0, 1):
        job.seal(subtask_of(index), batch, attempt=10 * batch + index, epoch=epoch)
    job.commit(batch)


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        (1, r"batch 1, operator 'op': changelog/1/op\)"),
        (3, r"batch 3 is committed .*operator 'op': changelog/3/op\)"),
    ],
)
def test_a_lost_batch_in_which_only_timers_fired_is_refused_and_named(
    tmp_path: Path, lost: int, text: str
) -> None:
    """Without input, too: the next manifest tells of an older batch that it had changelogs."""
    with driver(tmp_path) as job:
        run(job, 0)
        timers_only(job, 1)
        run(job, 2)
        timers_only(job, 3)
    job.root.storage.delete_tree(job.root.path(layout.batch_folder(lost)))
    with driver(tmp_path, strict=True) as job:
        for batch in range(4):
            has_input = batch % 2 == 0
            clock_id = "" if has_input else "c" * 32
            job.engine.plan(QUERY, batch, has_input=has_input, clock_id=clock_id)
        with pytest.raises(CheckpointError, match=text):
            job.begin(4)


def test_a_batch_without_input_that_an_operator_missed_goes_on_without_its_manifest(
    tmp_path: Path,
) -> None:
    """Nothing tells that there were changelogs: of an older batch, which cannot run again."""
    with driver(tmp_path) as job:
        run(job, 0)
        job.engine.plan(QUERY, 1, has_input=False, clock_id="c" * 32)
        job.peer().begin(QUERY, job.run_id, 1)
        job.commit(1)
        run(job, 2)
    job.root.storage.delete_tree(job.root.path(layout.batch_folder(1)))
    with driver(tmp_path, strict=True) as job:
        job.engine.plan(QUERY, 0)
        job.engine.plan(QUERY, 1, has_input=False, clock_id="c" * 32)
        job.engine.plan(QUERY, 2)
        job.begin(3)
        assert tokens(job.root.manifest(1)) == []
