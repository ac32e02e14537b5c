"""Completion of the names of jobs and states."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from queryable_state.cli import main
from queryable_state.server.testing.cluster import declare

if TYPE_CHECKING:
    from tests.cli.conftest import Terminal

    from queryable_state.server.testing.cluster import InProcessCluster


async def _names(terminal: Terminal, kind: str, line: str) -> list[str]:
    arguments = ["completion", "bash", "--names", kind, "--line", line]
    assert await asyncio.to_thread(main, arguments) == 0
    return terminal.printed().split()


async def test_names_come_from_the_server_of_the_line(
    terminal: Terminal, cluster: InProcessCluster
) -> None:
    line = f"queryable-state get --server {terminal.address} "
    assert await _names(terminal, "jobs", line) == ["sensors"]
    assert await _names(terminal, "states", line) == ["counts", "last", "seen", "trips"]
    other = cluster.job("other", declare("speed", "string", "double"))
    await other.run(0, {"speed": {"a": 1.0}})
    assert "speed" not in await _names(terminal, "states", f"{line} --job=sensors 'op")
    hot = f"queryable-state hotkeys other --server={terminal.address} "
    assert await _names(terminal, "states", hot) == ["speed"]


@pytest.mark.parametrize("command", ["status", "errors", "top", "hotkeys"])
def test_the_job_of_a_command_is_completed(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert f"_queryable_state_{command}_pos_0_COMPGEN=_queryable_state_jobs" in script


async def test_a_name_that_the_shell_would_expand_is_left_out(
    terminal: Terminal, cluster: InProcessCluster
) -> None:
    for name in ("$(touch x)", "two words", "a;b"):
        await cluster.job(name, declare("state_" + name[:1], "string", "double")).run(0, {})
    found = await _names(terminal, "jobs", f"queryable-state jobs --server {terminal.address}")
    assert found == ["sensors"]


@pytest.mark.parametrize(
    "line",
    [
        "queryable-state get --server localhost:1 ",
        "queryable-state get --server http://[",
        'queryable-state get --token-file /nowhere "',
        "",
    ],
)
def test_a_failure_is_silent_and_quick(
    line: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUERYABLE_STATE_SERVER", "localhost:1")
    begun_s = time.monotonic()
    assert main(["completion", "zsh", "--names", "jobs", "--line", line]) == 0
    assert time.monotonic() - begun_s < 10
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = """
queryable-state() { [[ $4 == jobs ]] && echo sensors || printf '%s\\n' last lost seen; }
complete_words() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
    $(complete -p queryable-state | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
    echo "${COMPREPLY[@]}"
}
complete_words queryable-state get l
complete_words queryable-state scan --job s
complete_words queryable-state hotkeys se
"""
    done = subprocess.run(
        ["bash", "-c", script + ask], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.splitlines() == ["last lost", "sensors", "sensors"]
