"""Who holds an executor's folder, and when the watched process counts as ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.state_server.base.parent_process import ParentProcess, start_ticks
from queryable_state.server.state_server.base.server_directory import (
    ServerAddresses,
    ServerDirectory,
)
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ADDRESSES = ServerAddresses(server_id="s", pid=1, query="h:1", proxy="h:2", backend="h:3")

HOLDER = """
import sys
from pathlib import Path
from queryable_state.server.state_server.base.server_directory import ServerDirectory
with ServerDirectory(Path(sys.argv[1])).holding():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_a_folder_is_held_by_one_server_at_a_time(tmp_path: Path) -> None:
    directory = ServerDirectory(tmp_path / "executor")
    assert not directory.is_held()
    with directory.holding():
        assert directory.is_held()
        with (
            pytest.raises(RetryLaterError, match="another state server holds"),
            ServerDirectory(directory.path).holding(timeout_s=0),
        ):
            pass
        assert directory.is_held()
    assert not directory.is_held()


def test_what_an_earlier_server_published_is_gone_once_the_folder_is_held(tmp_path: Path) -> None:
    directory = ServerDirectory(tmp_path)
    with directory.holding():
        directory.publish(ADDRESSES)
        assert directory.addresses() == ADDRESSES
    with directory.holding() as killed:
        assert killed == ADDRESSES
        assert directory.addresses() is None
    with directory.holding() as killed:
        assert killed is None


def test_a_server_starts_although_the_killed_one_left_addresses_that_cannot_be_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "server.json").write_text("{")
    with ServerDirectory(tmp_path).holding() as killed:
        assert killed is None


def test_a_killed_holder_that_is_still_a_zombie_holds_nothing(tmp_path: Path) -> None:
    directory = ServerDirectory(tmp_path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert directory.is_held()
        holder.kill()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        os.kill(holder.pid, 0)  # a zombie: a probe by pid takes it for alive
        assert not directory.is_held()
    finally:
        holder.kill()
        holder.communicate()


def test_an_unreadable_server_json_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_text("{")
    with pytest.raises(CorruptDataError, match=r"server\.json.*remove it"):
        ServerDirectory(tmp_path).addresses()


async def test_a_watched_process_has_ended_when_it_is_killed(
    sleeper: subprocess.Popen[bytes],
) -> None:
    """Also while it is a zombie, and whatever else gets its pid."""
    watched = ParentProcess(sleeper.pid, start_ticks(sleeper.pid))
    assert not watched.has_ended()
    waiting = asyncio.create_task(watched.wait())
    sleeper.send_signal(signal.SIGKILL)
    await asyncio.wait_for(waiting, 10)
    assert watched.has_ended()
    watched.close()
    watched.close()


async def test_a_process_gone_before_it_is_watched_has_ended(
    sleeper: subprocess.Popen[bytes],
) -> None:
    sleeper.kill()
    sleeper.communicate()
    watched = ParentProcess(sleeper.pid)
    assert watched.has_ended()
    await watched.wait()


async def test_another_process_under_the_same_pid_is_not_the_watched_one(
    sleeper: subprocess.Popen[bytes],
) -> None:
    watched = ParentProcess(sleeper.pid, start_ticks(sleeper.pid) + 1)
    assert watched.has_ended()
    await watched.wait()


def test_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    """Another user could send tasks, and with them the job's secret, to a server of his."""
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(0o777)
    with pytest.raises(InvalidRequestError, match="only this user can write"):
        ServerDirectory(path).make()


def test_a_link_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidRequestError, match="only this user can write"):
        ServerDirectory(tmp_path / "link").make()
