"""The command as a whole: its process, its exit codes, and what it needs installed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.waiting import DEADLINE_S

from queryable_state.cli import main
from queryable_state.cli.exit_codes import CONFIGURATION, REFUSED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cli.conftest import Terminal

    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


# What a base install has not; shtab is of the extra for completion.
_OF_EXTRAS = (
    "fsspec", "grpc_health", "grpc_reflection", "psutil", "pyarrow", "pyspark", "rich", "rocksdict",
    "s3fs", "shtab", "uvloop",
)  # fmt: skip

_BASE_INSTALL = f"""
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {_OF_EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
from queryable_state.cli import main
sys.exit(main())
"""


async def test_the_process_ends_as_the_answer_is(terminal: Terminal) -> None:
    found = await _run("get", "last", "sensor_1", "--server", terminal.address)
    assert found.returncode == 0
    assert found.stdout.splitlines()[1] == "sensor_1  0.5"
    missing = await _run("get", "last", "nobody", "--server", terminal.address)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == "queryable-state: nothing is stored under key 'nobody'\n"
    refused = await _run("get", "lost", "sensor_1", "--server", terminal.address)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("queryable-state: no queryable state 'lost'")


async def test_the_base_install_asks_and_says_which_extra_serves(terminal: Terminal) -> None:
    found = await _run("scan", "last", "--server", terminal.address, code=_BASE_INSTALL)
    assert found.returncode == 0
    assert "30 keys" in found.stdout
    for command, extra in (
        (("proxy", "--coordinator", "127.0.0.1:1"), "[server]"),
        (("serve", "--checkpoint", "s3://nowhere"), "[server]"),
        (("completion", "bash"), "[cli]"),
    ):
        refused = await _run(*command, code=_BASE_INSTALL, QUERYABLE_STATE_SECRET="s")
        assert refused.returncode == (REFUSED if command[0] == "completion" else CONFIGURATION)
        assert f"pip install 'spark-queryable-state{extra}'" in refused.stderr
        assert "Traceback" not in refused.stderr


def test_nobody_there_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--server", "127.0.0.1:1", "--timeout", "0.2"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("queryable-state: ")
    assert captured.err.count("\n") == 1
    assert "127.0.0.1:1" in captured.err


def test_help_and_what_serves_load_no_grpc() -> None:
    """What serves sets what gRPC reads when it is first imported."""
    code = (
        "import sys; from queryable_state.cli import parser; parser();"
        "loaded = {name.partition('.')[0] for name in sys.modules};"
        "assert not loaded & {'grpc', 'rocksdict', 'pyspark', 'pyarrow', 'uvloop', 'shtab'}, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S)


async def test_who_reads_no_further_is_not_complained_to(
    terminal: Terminal, job: InProcessJob
) -> None:
    """As `| head` does; on either side of the pipe nothing is said."""
    await job.run(2, {"last": {f"key_{number}": 0.5 for number in range(20_000)}})
    process = await asyncio.create_subprocess_exec(
        *_command("scan", "last", "--server", terminal.address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.timeout(DEADLINE_S):
        await process.stdout.readline()
        process.stdout._transport.close()  # type: ignore[attr-defined]
        error = await process.stderr.read()
        assert await process.wait() == 141
    assert error == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
async def test_what_cannot_be_written_is_said_in_one_line(terminal: Terminal) -> None:
    for command in (("scan", "last"), ("get", "last", "sensor_1", "--json")):
        full = await _run_in_shell(">/dev/full", *command, "--server", terminal.address)
        assert full.returncode == 2
        assert full.stderr.startswith("queryable-state: ")
        assert full.stderr.count("\n") == 1


async def test_who_closes_standard_output_gets_the_exit_code(terminal: Terminal) -> None:
    for command in (("scan", "last"), ("get", "last", "sensor_1", "--json")):
        closed = await _run_in_shell(">&-", *command, "--server", terminal.address)
        assert (closed.returncode, closed.stderr) == (0, "")


async def test_an_interrupt_ends_it_without_a_word(
    terminal: Terminal, cluster: InProcessCluster, job: InProcessJob
) -> None:
    def waits() -> bool:
        stores = [server.table.job(job.query_id) for server in cluster.servers]
        return any(known is not None and len(known.waiting) for known in stores)

    process = await asyncio.create_subprocess_exec(
        *_command("get", "last", "sensor_1", "--server", terminal.address, "--at-least", "9"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    async with asyncio.timeout(DEADLINE_S):
        while not waits():  # noqa: ASYNC110 - caused by another process
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        error = await process.stderr.read()
        assert await process.wait() == 130
    assert error == b""


def test_an_interrupt_while_it_loads_says_nothing_either() -> None:
    code = """
import signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("queryable_state.server"):
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from queryable_state.cli import main
sys.exit(main(["jobs"]))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=DEADLINE_S)
    assert (ended.returncode, ended.stderr) == (130, b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_shells_get_every_command_and_option(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("mget", "explain", "states", "checkpoints", "one-cut", "page-token"):
        assert word in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = """
complete_words() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    $(complete -p queryable-state | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
    echo "${COMPREPLY[@]}"
}
complete_words queryable-state sc
complete_words queryable-state scan --pa
"""
    done = subprocess.run(
        ["bash", "-c", script + ask], capture_output=True, text=True, check=True, timeout=DEADLINE_S
    )
    assert done.stdout.split() == ["scan", "--page-token"]


def _command(*arguments: str, code: str = "") -> list[str]:
    start = ["-c", code] if code else ["-m", "queryable_state.cli"]
    return [sys.executable, *start, *arguments]


async def _run_in_shell(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    shell = f'exec "$0" "$@" {redirection}'
    return await _ended(arguments, "sh", "-c", shell, *_command(*arguments))


async def _run(
    *arguments: str, code: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, while the servers of the test answer here."""
    return await _ended(arguments, *_command(*arguments, code=code), env=os.environ | environment)


async def _ended(
    arguments: tuple[str, ...], *command: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=env
    )
    async with asyncio.timeout(DEADLINE_S):
        out, error = await process.communicate()
    assert process.returncode is not None
    return subprocess.CompletedProcess(arguments, process.returncode, out.decode(), error.decode())
