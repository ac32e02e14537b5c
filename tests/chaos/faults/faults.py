"""What happens to processes and connections. A fault returns what it did, when it is over."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import time
from typing import TYPE_CHECKING

import psutil
from tests.chaos.processes import StuckError, is_alive, kill, until
from tests.chaos.site import newest_batch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.site import Site

_PIDFD_GETFD = 438
_SINK_TRIES = 60


def kill_server(site: Site) -> str:
    """kill -9 of a state server; its executor lives, and the next task starts another."""
    server = site.a_server()
    kill(server.pid)
    return str(server)


def kill_both_servers(site: Site) -> str:
    """kill -9 of every state server at once."""
    site.a_server()
    servers = site.servers()
    kill(*(server.pid for server in servers))
    return ", ".join(map(str, servers))


def kill_executor(site: Site) -> str:
    """kill -9 of an executor; its state server ends with it."""
    site.wait(site.executors, 60, "no executor is up")
    executor = site.chance.choice(site.executors())
    kill(executor.pid)
    return f"executor {executor.pid}"


def kill_driver(site: Site) -> str:
    """kill -9 of the driver's Python process, of its JVM or of both; then started again."""
    python, jvm = site.chance.choice([(True, False), (False, True), (True, True)])
    site.driver.kill(python=python, jvm=jvm)
    site.driver.start()
    return "driver: " + " and ".join(["Python"] * python + ["JVM"] * jvm)


def kill_starting_driver(site: Site) -> str:
    """kill -9 of the driver, and again while the next one starts."""
    site.driver.kill(python=True, jvm=True)
    site.driver.start()
    after_s = site.chance.uniform(1.0, 6.0)
    time.sleep(after_s)
    site.driver.kill(python=True, jvm=True)
    site.driver.start()
    return f"driver, and the next one after {after_s:.1f} s"


def pause_server(site: Site) -> str:
    """SIGSTOP of a state server for longer than its lease, then SIGCONT."""
    server = site.a_server()
    pause_s = site.lease_s + site.chance.uniform(0.3, 2.5)
    _pause(server.pid, pause_s)
    return f"{server} for {pause_s:.1f} s"


def stutter_server(site: Site) -> str:
    """Delays: a state server stops again and again, each time for less than its lease."""
    server = site.a_server()
    pauses = [site.chance.uniform(0.05, 0.8) for _ in range(site.chance.randrange(3, 8))]
    for pause_s in pauses:
        _pause(server.pid, pause_s)
        time.sleep(site.chance.uniform(0.02, 0.2))
    return f"{server}: {len(pauses)} times, {sum(pauses):.1f} s in all"


def _pause(pid: int, seconds: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)


def cut_off_server(site: Site) -> str:
    """A state server loses the coordinator for longer than its lease; tasks still reach it."""
    server = site.a_server()
    seconds = site.lease_s + site.chance.uniform(0.3, 2.5)
    site.relay.cut_off(server.pid)
    try:
        time.sleep(seconds)
    finally:
        site.relay.cut_off(None)
    return f"{server} for {seconds:.1f} s"


def hold_up_server(site: Site) -> str:
    """What a state server and the coordinator say to each other arrives late."""
    server = site.a_server()
    seconds = site.chance.uniform(0.3, site.lease_s + 1.5)
    site.relay.hold_up(server.pid)
    try:
        time.sleep(seconds)
    finally:
        site.relay.hold_up(None)
    return f"{server} for {seconds:.1f} s"


def drop_connections(site: Site) -> str:
    """The connections of tasks and coordinator to a state server are dropped, again and again."""
    server = site.a_server()
    port = int(server.backend.rpartition(":")[2])
    dropped, ends_at_s = 0, time.monotonic() + site.chance.uniform(1.0, 3.0)
    while time.monotonic() < ends_at_s:
        dropped += _drop(server.pid, port)
        time.sleep(site.chance.uniform(0.02, 0.25))
    return f"{server}: {dropped} connections"


def _drop(pid: int, port: int) -> int:
    """Shuts down the established connections a process has accepted at a port."""
    try:
        connections = psutil.Process(pid).net_connections(kind="tcp")
        process = os.pidfd_open(pid)
    except (psutil.Error, OSError):
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    dropped = 0
    try:
        for connection in connections:
            if connection.laddr.port != port or connection.status != psutil.CONN_ESTABLISHED:
                continue
            copy = libc.syscall(_PIDFD_GETFD, process, connection.fd, 0)
            if copy < 0:
                continue
            with socket.socket(fileno=copy) as ours, contextlib.suppress(OSError):
                # The number may be another file's by now: of a socket this fails, or is as good.
                ours.shutdown(socket.SHUT_RDWR)
                dropped += 1
    finally:
        os.close(process)
    return dropped


def kill_between_commits(site: Site) -> str:
    """kill -9 of the driver after the file sink has committed a batch and before Spark has.

    The driver is stopped as soon as the sink's own log has a batch, and killed if Spark's log has
    it not; else it goes on, and the next batch is tried.
    """
    assert site.output is not None, "only a round with a file sink has two commits"
    log = site.output / "_spark_metadata"
    for _ in range(_SINK_TRIES):
        site.wait(site.driver.running, 90, "the driver is not up")
        running = site.driver.running()
        if running is None:
            continue
        batch = newest_batch(log) + 1
        entry, committed = log / str(batch), site.spark / "commits" / str(batch)
        _spin_until_there(entry, running.jvm_pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.jvm_pid, signal.SIGSTOP)
            if entry.exists() and not committed.exists():
                site.driver.kill(python=True, jvm=True)
                if committed.exists():
                    # It was renamed between the look and the stop's effect.
                    site.driver.start()
                    continue
                site.driver.start()
                return f"driver, batch {batch} in the sink's log alone"
            os.kill(running.jvm_pid, signal.SIGCONT)
        # Not each batch: what was stopped has to catch up.
        time.sleep(0.2)
    raise StuckError(f"the driver was never met between its two commits in {_SINK_TRIES} tries")


def _spin_until_there(path: Path, pid: int) -> None:
    ends_at_s = time.monotonic() + 30
    name = str(path)
    while not os.path.exists(name):  # noqa: PTH110 - a third of the time of Path.exists
        if time.monotonic() > ends_at_s or not is_alive(pid):
            return
        time.sleep(0.0002)


def wait_gone(pids: list[int]) -> None:
    """Returns once these processes have ended."""
    until(lambda: not any(map(is_alive, pids)), 30, "killed processes have not ended")
