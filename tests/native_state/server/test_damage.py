"""Files that are damaged when a server starts, and what a killed server leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.native_state.server.conftest import client_of, everything
from tests.native_state.server.replay import ReplayedQuery

from queryable_state.server.checkpoint_server import state_folder
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queryable_state.server.native_state.server.native_server import NativeServer

    Serve = Callable[..., NativeServer]


def truncate(path: Path) -> None:
    """Cuts a file in half, without its checksum file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("suffix", [".zip", ".sst"])
async def test_older_snapshots_and_changes_stand_in_for_a_damaged_one(
    suffix: str, query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(9)
    async with serving(query.root) as server, client_of(server) as client:
        whole = await everything(client)
    for path in query.state_files(suffix):
        if suffix == ".sst" or path.stem == "9":
            truncate(path)
    async with serving(query.root) as server, client_of(server) as client:
        assert await everything(client) == whole


async def test_a_damaged_snapshot_without_changes_is_named(serving: Serve, tmp_path: Path) -> None:
    query = ReplayedQuery.of_fixture("aggregation-rocksdb-zips", tmp_path)
    query.commit(5)
    newest = next(path for path in query.state_files(".zip") if path.stem == "6")
    truncate(newest)
    with pytest.raises(CorruptDataError, match=str(newest)):
        await serving(query.root).__aenter__()


async def test_a_damaged_commit_is_named(query: ReplayedQuery, serving: Serve) -> None:
    query.commit(3)
    (query.root / "commits" / "3").write_text("v9\n{}")
    (query.root / "commits" / ".3.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match=r"commits/3 has version 9"):
        await serving(query.root).__aenter__()


@pytest.mark.parametrize(
    ("lost", "says"),
    [
        ("state/0/1/4.changelog", r"state/0/1/4.changelog is lost: batch 3 is committed.*2"),
        ("state/0/0/_metadata/schema", r"_metadata/schema is lost: batch 3 is committed"),
        ("offsets/3", r"offsets/3 is lost: batch 3 is committed"),
    ],
)
@pytest.mark.parametrize("follow", [False, True])
async def test_a_lost_file_of_a_committed_batch_is_named_as_lost(
    lost: str, says: str, query: ReplayedQuery, serving: Serve, *, follow: bool
) -> None:
    """It is not awaited: the job wrote it before the commit, and will not write it again."""
    query.commit(3)
    (query.root / lost).unlink()
    with pytest.raises(CorruptDataError, match=says):
        await serving(query.root, follow=follow).__aenter__()


async def test_an_empty_folder_in_the_state_is_left_out(
    query: ReplayedQuery, serving: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    query.commit(3)
    async with serving(query.root) as server, client_of(server) as client:
        whole = await everything(client)
    (query.root / "state" / "7").mkdir()
    async with serving(query.root) as server, client_of(server) as client:
        assert await everything(client) == whole
    assert "state/7 is empty" in caplog.text


async def test_the_next_server_removes_what_a_killed_one_left(
    query: ReplayedQuery, serving: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_folder, "_STARTING_S", 0.0)
    query.commit(9)
    served = tmp_path / "served"
    served.mkdir()
    killed = subprocess.Popen(  # noqa: ASYNC220 - its start is waited for below
        [
            *(sys.executable, "-m", "queryable_state.cli", "serve", "--web", "off"),
            *("--spark-checkpoint", str(query.root), "--directory", str(served)),
            *("--port", "0", "--frame-port", "0"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert killed.stdout is not None
    assert b" at 127.0.0.1:" in killed.stdout.readline()
    [left] = served.iterdir()
    async with serving(query.root):
        assert left.exists()
        assert len(list(served.iterdir())) == 2
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    async with serving(query.root) as server, client_of(server) as client:
        assert not left.exists()
        assert await everything(client)
    assert list(served.iterdir()) == []
