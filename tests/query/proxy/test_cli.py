"""The command `queryable-state proxy`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from tests.waiting import DEADLINE_S

from queryable_state.cli import main
from queryable_state.cli.exit_codes import CONFIGURATION, REFUSED
from queryable_state.client import QueryableStateClient
from queryable_state.server.cli.driver_arguments import SECRET_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


# What a later start may find in order; everything else is a wrong option or setting.
NOT_YET = (
    "/no/such/root/_endpoint does not exist",
    "the scheme 's4'",
    "no coordinator answers at 127.0.0.1:1",
)


@pytest.mark.parametrize(
    ("arguments", "secret", "text"),
    [
        ([], "s", "give --endpoint with the job's state root, or --coordinator HOST:PORT"),
        (["--coordinator", "a:b"], "s", "--coordinator 'a:b': 'b' is not a port"),
        (["--coordinator", "http://a"], "s", "leave out the scheme"),
        (["--endpoint", "/no/such/root"], "", "/no/such/root/_endpoint does not exist"),
        (["--endpoint", "s4://bucket/root"], "", "the scheme 's4'"),
        (["--coordinator", "a", "--advertise", "0.0.0.0"], "s", "nobody can connect"),
        (
            ["--coordinator", "a", "--host", "a:1"],
            "s",
            "--host is 'a:1' (flag): the host",
        ),
        (["--coordinator", "127.0.0.1:6123"], "", SECRET_VARIABLE),
        (["--coordinator", "127.0.0.1:6123", "--secret-file", "/no/such/file"], "s", "/no/such"),
        (["--coordinator", "127.0.0.1:6123", "--port", "many"], "s", "is not a port"),
        (["--coordinator", "a", "--tls-certificate", "/no/such.pem"], "s", "/no/such.pem"),
        (
            ["--coordinator", "127.0.0.1:1", "--wait-for-driver", "--access-file", "/no/such.toml"],
            "s",
            "/no/such.toml",
        ),
        (["--coordinator", "127.0.0.1:1"], "s", "no coordinator answers at 127.0.0.1:1"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(
    arguments: list[str],
    secret: str,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, secret)
    monkeypatch.setenv("GRPC_EXPERIMENTS", "")
    may_pass = text in NOT_YET
    assert main(["proxy", *arguments]) == (REFUSED if may_pass else CONFIGURATION)
    error = capsys.readouterr().err
    assert text in error
    assert "Traceback" not in error


async def test_the_command_serves_until_it_is_told_to_stop(
    cluster: InProcessCluster, job: InProcessJob, tmp_path: Path
) -> None:
    """As a process of its own, with the secret from a file."""
    secret_file = tmp_path / "secret"
    secret_file.write_text(cluster.coordinator.secret + "\n")
    process = await _start(cluster, "--secret-file", str(secret_file), "--lame-duck", "0")
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        line = (await process.stdout.readline()).decode()
    assert line.startswith("proxy at 127.0.0.1:")
    port = int(line.rpartition(":")[2])
    async with QueryableStateClient("127.0.0.1", port, timeout_s=DEADLINE_S) as client:
        assert (await client.get_kv_state("sensors", "last", "sensor_7")).value() == 7.0
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(DEADLINE_S):
        assert await process.wait() == 0


async def test_a_wrong_secret_ends_the_command_at_once(
    cluster: InProcessCluster, job: InProcessJob, tmp_path: Path
) -> None:
    secret_file = tmp_path / "secret"
    secret_file.write_text("guessed")
    process = await _start(cluster, "--secret-file", str(secret_file))
    async with asyncio.timeout(DEADLINE_S):
        _, error = await process.communicate()
    assert process.returncode == 2
    assert b"secret" in error


async def _start(cluster: InProcessCluster, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import sys; from queryable_state.cli import main; sys.exit(main())",
        "proxy",
        "--coordinator",
        cluster.coordinator.address,
        "--port",
        "0",
        *arguments,
        env={name: value for name, value in os.environ.items() if name != SECRET_VARIABLE},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
