"""The one server process of an executor: how it starts and when it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.state_server.executor import Executor, addresses_of, answers
from tests.waiting import DEADLINE_S, until

from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.serving.listen_settings import ANY_PORTS, ServerPorts
from queryable_state.server.settings.shared_settings import LogSettings
from queryable_state.server.state_server.base.parent_process import start_ticks
from queryable_state.server.state_server.base.server_directory import ServerDirectory
from queryable_state.server.state_server.launch import ensure_server
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.server.testing import InProcessCoordinator, in_process_coordinator
from queryable_state.wire.errors import InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def coordinator() -> Iterator[InProcessCoordinator]:
    settings = CoordinatorSettings(strict=False, ports="0", stop_timeout_s=2.0)
    with in_process_coordinator(settings=settings) as coordinator:
        yield coordinator


@pytest.fixture
def executor(coordinator: InProcessCoordinator, tmp_path: Path) -> Iterator[Executor]:
    executor = Executor(coordinator, tmp_path / f"executor-{tmp_path.name}")
    yield executor
    executor.end()


def _waits_for(fd: int) -> bool:
    """Whether somebody waits for the lock on an open file."""
    inode = f":{os.fstat(fd).st_ino} "
    return any(
        "->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines()
    )


def test_a_live_server_is_found_without_its_settings(executor: Executor) -> None:
    def settings() -> StateServerSettings:
        raise AssertionError("made although a server lives")

    started = executor.ensure()
    assert ensure_server(executor.directory.path, settings) == started


def test_workers_that_start_together_get_one_server_which_outlives_them(
    executor: Executor, coordinator: InProcessCoordinator
) -> None:
    workers = [executor.worker() for _ in range(4)]
    found = [addresses_of(worker) for worker in workers]
    assert all(addresses == found[0] for addresses in found)
    for worker in workers:
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
    addresses = executor.ensure()
    assert asdict(addresses) == found[0]
    assert addresses.proxy in coordinator.coordinator.proxy_addresses()
    assert answers(addresses)
    log = executor.directory.log.read_text()
    for address in (addresses.query, addresses.proxy, addresses.backend):
        assert address in log
    assert executor.settings.secret not in log
    assert (
        executor.settings.secret.encode() not in Path(f"/proc/{addresses.pid}/cmdline").read_bytes()
    )


def test_the_server_ends_with_the_executors_jvm(executor: Executor) -> None:
    executor.ensure()
    executor.jvm.kill()
    until(lambda: not executor.directory.is_held())
    assert executor.directory.addresses() is None
    assert not executor.directory.stores.exists()


def test_a_spawner_killed_before_the_server_is_up_leaves_one_to_be_found(
    executor: Executor,
) -> None:
    worker = executor.worker()
    until(executor.directory.log.exists)
    worker.kill()
    addresses = executor.ensure()
    assert answers(addresses)
    assert executor.ensure() == addresses


def test_a_killed_server_is_followed_by_a_new_one_without_what_it_left(
    executor: Executor, coordinator: InProcessCoordinator
) -> None:
    """Also while it is a zombie: this process started it and has not taken its exit code."""
    first = executor.ensure()
    leftover = executor.directory.stores / "leftover"
    leftover.mkdir(parents=True)
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: not executor.directory.is_held())
    assert executor.directory.addresses() == first
    second = executor.ensure()
    assert second.server_id != first.server_id
    assert answers(second)
    assert not leftover.exists()
    assert first.proxy not in coordinator.coordinator.proxy_addresses()
    assert not Path(f"/proc/{first.pid}").exists(), "the zombie was not reaped"


def test_a_killed_server_is_followed_at_its_own_ports_although_earlier_ones_are_free(
    executor: Executor,
) -> None:
    """Clients that know the address of this server alone find the new one."""
    with contextlib.ExitStack() as stack:
        places = [
            [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
            for _ in range(4)
        ]
        query, frames, proxy, tasks = (
            ",".join(str(listener.getsockname()[1]) for listener in place) for place in places
        )
        executor.settings = replace(
            executor.settings,
            ports=ServerPorts(
                server_ports=query,
                server_frame_ports="",
                proxy_ports=proxy,
                proxy_frame_ports=frames,
                task_ports=tasks,
                metrics_ports="",
            ),
        )
        # The first place is another server's, which ends later.
        for _, later in places:
            later.close()
        first = executor.ensure()
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: not executor.directory.is_held())
    second = executor.ensure()
    assert second.server_id != first.server_id
    assert (second.query, second.proxy, second.backend) == (first.query, first.proxy, first.backend)
    assert second.query.endswith(query.rpartition(",")[2])


def test_sigterm_drains_and_leaves_the_coordinator(
    executor: Executor, coordinator: InProcessCoordinator
) -> None:
    executor.settings = replace(executor.settings, lame_duck_s=0.2)
    addresses = executor.ensure()
    os.kill(addresses.pid, signal.SIGTERM)
    until(lambda: not executor.directory.is_held())
    assert addresses.proxy not in coordinator.coordinator.proxy_addresses()
    until(lambda: not executor.directory.path.exists())


def test_settings_no_server_can_run_with_are_not_tried_again(
    executor: Executor,
) -> None:
    """A job fails at once, and says which port is taken: no process is started to find out."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        executor.settings = replace(
            executor.settings, ports=replace(ANY_PORTS, proxy_ports=str(port))
        )
        with pytest.raises(
            InvalidRequestError,
            match=rf"proxy_ports is '{port}'.*range",
        ):
            executor.ensure()
        assert not executor.directory.log.exists()


def test_what_a_killed_server_of_an_ended_jvm_left_goes_with_the_next_server(
    executor: Executor, tmp_path: Path
) -> None:
    """Nothing goes that a live process, a server or a person may still want."""
    ticks = start_ticks(os.getpid())
    abandoned = [tmp_path / f"queryable-state-local-1-{os.getpid()}-{ticks + 1}"]
    held, living, foreign, other = kept = [
        tmp_path / f"queryable-state-local-2-{os.getpid()}-{ticks + 1}",
        tmp_path / f"queryable-state-local-1-{os.getpid()}-{ticks}",
        tmp_path / f"queryable-state-local-3-{os.getpid()}-{ticks + 1}",
        tmp_path / "queryable-state-abc",
    ]
    for path in (*abandoned, *kept):
        (path / "stores" / "1").mkdir(parents=True)
        (path / "server.log").touch()
        (path / "server.json").touch()
    (foreign / "notes.txt").touch()
    with ServerDirectory(held).holding():
        executor.ensure()
        assert not any(path.exists() for path in abandoned)
        assert all((path / "stores" / "1").exists() for path in (held, living, other))
        assert (foreign / "notes.txt").exists()


def test_a_folder_removed_under_a_waiting_spawner_is_made_anew(tmp_path: Path) -> None:
    directory = ServerDirectory(tmp_path / "executor")
    entered = threading.Event()

    def spawn() -> None:
        with ServerDirectory(directory.path).spawning():
            assert not directory.remove(), "a server starts there"
            entered.set()

    directory.make()
    spawner = threading.Thread(target=spawn)
    with (directory.path / "spawn.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        spawner.start()
        until(lambda: _waits_for(lock.fileno()))
        shutil.rmtree(directory.path)
    spawner.join(DEADLINE_S)
    assert entered.is_set()
    assert directory.remove()
    assert not directory.path.exists()
    assert not directory.remove()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    settings = StateServerSettings(
        coordinator_address="127.0.0.1:1",
        secret="s",
        executor_id="e",
        directory=str(tmp_path / "e"),
        ports=ANY_PORTS,
        coordinator_timeout_s=0.0,
    )
    with pytest.raises(RetryLaterError, match=r"no coordinator answers at 127\.0\.0\.1:1"):
        ensure_server(tmp_path / "e", settings, timeout_s=DEADLINE_S)


def test_logs_in_a_folder_of_their_own_stay_when_the_server_has_ended(
    coordinator: InProcessCoordinator,
    executor: Executor,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    logs = tmp_path / "logs"
    executor.settings = replace(executor.settings, logs=LogSettings(log_dir=str(logs)))
    addresses = executor.ensure()
    [log] = logs.iterdir()
    assert log.name == f"state-server-{executor.settings.executor_id}-{addresses.pid}.log"
    soft, hard = psutil.Process(addresses.pid).rlimit(psutil.RLIMIT_NOFILE)
    assert soft >= min(hard, 32_768), "strangers could take the descriptors of the stores"
    # Where to look stands in the driver's log.
    assert any(str(log) in message for message in caplog.messages)
    os.kill(addresses.pid, signal.SIGTERM)
    until(lambda: not executor.directory.path.exists())
    text = log.read_text()
    assert "INFO queryable_state.server.state_server.process: ready" in text
    assert "queryable_state.server.state_server.server: stopped" in text
