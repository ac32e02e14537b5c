"""Dashboard of the state of a running PySpark job: `make demo`.

The script starts examples/temperature_job.py in its own process. The dashboard queries the state of
all sensors concurrently, once per second. Ctrl-C stops both.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from queryable_state.client import (
    QueryableStateClient,
    QueryableStateError,
    ReducingState,
    UnknownKeyOrNamespaceError,
    UnknownStateError,
    ValueState,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

JOB_SCRIPT = Path(__file__).with_name("temperature_job.py")
SENSORS = [f"sensor_{number}" for number in range(1, 13)]
START_TIMEOUT_S = 180.0
WEB_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Row:
    """Query results of one sensor in one round."""

    sensor: str
    last: float | None
    maximum: float | None
    batch: int | None


async def read_sensor(client: QueryableStateClient, job_id: str, sensor: str) -> Row:
    """Reads both states of one sensor; a value is None if the job has not seen the sensor yet."""
    last, maximum = await asyncio.gather(
        client.get_kv_state(job_id, "lastTemperature", sensor),
        client.get_kv_state(job_id, "maxTemperature", sensor),
        return_exceptions=True,
    )
    for answer in (last, maximum):
        if isinstance(answer, BaseException) and not isinstance(answer, UnknownKeyOrNamespaceError):
            raise answer
    return Row(
        sensor,
        last.value() if isinstance(last, ValueState) else None,
        maximum.get() if isinstance(maximum, ReducingState) else None,
        last.info.version if isinstance(last, ValueState) else None,
    )


def dashboard_of(rows: list[Row], took_ms: float, alerts: list[str]) -> Group:
    """Renders the results of one round."""
    table = Table(title=f"{2 * len(rows)} queries in {took_ms:.1f} ms")
    table.add_column("sensor")
    for column in ("lastTemperature", "maxTemperature", "batch"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row.sensor,
            *(("-" if cell is None else f"{cell:.2f}") for cell in (row.last, row.maximum)),
            "-" if row.batch is None else str(row.batch),
        )
    return Group(table, *(f"alert: {alert}" for alert in alerts[-4:]))


@contextlib.contextmanager
def running_job(log: IO[bytes], arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the job in its own process group and stops it at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, str(JOB_SCRIPT), "--web", "on", *arguments],
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=30)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def job_started(process: subprocess.Popen[bytes], log: Path) -> tuple[str, str]:
    """Waits until the job prints its id and the HOST:PORT of its proxy; returns both."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        for line in log.read_text(errors="replace").splitlines():
            if line.startswith("JOB "):
                _, job_id, address = line.split()
                return job_id, address
        if process.poll() is not None:
            raise SystemExit(f"the job ended with code {process.returncode}; its log: {log}")
        time.sleep(0.1)
    raise SystemExit(f"the job did not start within {START_TIMEOUT_S:.0f} s; its log: {log}")


def web_address(log: Path) -> str:
    """The URL of REST and the page, which the job prints; empty if it did not."""
    deadline = time.monotonic() + WEB_TIMEOUT_S
    while time.monotonic() < deadline:
        for line in log.read_text(errors="replace").splitlines():
            if line.startswith("WEB "):
                return line.removeprefix("WEB ")
        time.sleep(0.1)
    return ""


def alerts_in(log: Path) -> list[str]:
    """The alerts the job printed."""
    lines = log.read_text(errors="replace").splitlines()
    return [line for line in lines if line.startswith("Row(sensor=")]


async def watch(job_id: str, address: str, log: Path, seconds: float, console: Console) -> None:
    """Queries once per second, for `seconds` after the first value (0: until Ctrl-C)."""
    host, port = address.rsplit(":", 1)
    ends = time.monotonic() + START_TIMEOUT_S
    has_values = False
    screen = (
        Live(console=console, auto_refresh=False)
        if console.is_terminal
        else contextlib.nullcontext(None)
    )
    with screen as live:
        async with QueryableStateClient(host, int(port)) as client:
            while time.monotonic() < ends:
                began = time.perf_counter()
                try:
                    rows = await asyncio.gather(
                        *(read_sensor(client, job_id, sensor) for sensor in SENSORS)
                    )
                except UnknownStateError:
                    console.print("waiting for the first batch ...")
                except QueryableStateError as error:
                    console.print(f"{error.reason_name}: {error}")
                else:
                    took_ms = (time.perf_counter() - began) * 1000
                    if not has_values and any(row.batch is not None for row in rows):
                        has_values = True
                        ends = time.monotonic() + seconds if seconds else float("inf")
                    dashboard = dashboard_of(rows, took_ms, alerts_in(log))
                    if live is None:
                        console.print(dashboard)
                    else:
                        live.update(dashboard, refresh=True)
                await asyncio.sleep(1)
    if not has_values:
        raise SystemExit(f"no value within {START_TIMEOUT_S:.0f} s; the log of the job: {log}")


def demo(seconds: float, job_arguments: list[str]) -> None:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="temperature-") as folder:
        log = Path(folder, "job.log")
        with log.open("wb") as output, running_job(output, job_arguments) as process:
            console.print("starting the job (Spark takes some seconds) ...")
            try:
                show(*job_started(process, log), log, seconds, console)
            except SystemExit:
                console.print(log.read_text(errors="replace"), markup=False, highlight=False)
                raise


def show(job_id: str, address: str, log: Path, seconds: float, console: Console) -> None:
    """Says where the job answers, and watches it."""
    console.print(f"job [bold]{job_id}[/bold] answers on {address}.")
    if page := web_address(log):
        console.print(f"Its page is [bold]{page}[/bold].")
    console.print("Try, meanwhile:")
    console.print(
        "  grpcurl -plaintext -d "
        """'{"job": "temperature", "state_name": "lastTemperature", """
        f""""key_json": "\\"sensor_1\\""}}' """
        f"{address} queryable_state.v1.QueryableState/GetKvState",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    asyncio.run(watch(job_id, address, log, seconds, console))


def main() -> None:
    parser = argparse.ArgumentParser(description="Watch the state of a running PySpark job.")
    parser.add_argument(
        "--seconds", type=float, default=0, help="run time after the first value; 0: until Ctrl-C"
    )
    options, job_arguments = parser.parse_known_args()
    # SIGTERM and a closed terminal end the loop like Ctrl-C; then `running_job` stops the job.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        demo(options.seconds, job_arguments)


if __name__ == "__main__":
    main()
