"""Names, keys and values with characters that a terminal or an encoding does not take."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from typing import TYPE_CHECKING

import pytest
from tests.waiting import DEADLINE_S

from queryable_state.cli.tables import message_text, table
from queryable_state.client import InvalidRequestError
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from tests.cli.conftest import Terminal

    from queryable_state.server.testing.cluster import InProcessJob

HOSTILE = "\x1b[2J\nerrors: none\u202e"
ESCAPED = r"\x1b[2J\nerrors: none\u202e"


def test_a_table_has_a_line_a_row_whatever_is_in_it() -> None:
    assert table(("name",), [(HOSTILE,)]) == ["name", ESCAPED]


def test_a_message_of_many_lines_moves_no_cursor() -> None:
    assert message_text("one\n\ttwo\x1b[2J") == "one\n\ttwo\\x1b[2J"


async def test_a_name_cannot_forge_what_a_command_says(
    terminal: Terminal, cluster: InProcessCluster
) -> None:
    job = cluster.job(HOSTILE, declare(HOSTILE, "string", "string"))
    await job.run(0, {HOSTILE: {"k": HOSTILE}})
    for command in (
        ("jobs",),
        ("states", "--job", HOSTILE),
        ("status", HOSTILE),
        ("errors", HOSTILE),
        ("top", HOSTILE, "--once"),
    ):
        printed = (await terminal.run(*command)).out
        assert ESCAPED in printed, command
        assert "\x1b" not in printed
        assert "\nerrors: none" not in printed
    shown = await terminal.run("get", HOSTILE, "k")
    assert "\x1b" not in shown.out


async def test_an_encoding_without_a_character_shows_its_escape(
    terminal: Terminal, job: InProcessJob
) -> None:
    await job.run(2, {"seen": {"é": ["☃"]}})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "queryable_state.cli", "get", "seen", "é"),
        *("--server", terminal.address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    async with asyncio.timeout(DEADLINE_S):
        printed, said = await process.communicate()
    assert (process.returncode, said) == (0, b"")
    assert printed.split()[:2] == [b"value", rb"\u2603"]


async def test_names_that_are_no_text_are_refused(terminal: Terminal) -> None:
    """Python has such strings of arguments in other encodings."""
    broken = os.fsdecode(b"caf\xe9")
    for command in (("get", broken, "k"), ("get", "last", "k", "--job", broken), ("top", broken)):
        with pytest.raises(InvalidRequestError, match="caf"):
            await terminal.run(*command)


async def test_top_has_a_line_of_the_terminal_for_each_of_its_lines(
    terminal: Terminal, job: InProcessJob
) -> None:
    """What wraps would push the health out of sight."""
    columns = 40
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "queryable_state.cli", "top", "sensors"),
        *("--server", terminal.address),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=theirs,
        env={name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")},
    )
    os.close(theirs)
    screen = b""
    async with asyncio.timeout(DEADLINE_S):
        while screen.count(b"\x1b[2J") < 2:
            screen += await asyncio.to_thread(os.read, ours, 65_536)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
    os.close(ours)
    frame = screen.decode().split("\x1b[H\x1b[2J")[1]
    lines = frame.split("\r\n")
    assert re.match(r"sensors: [A-Z]+ at ", lines[0])
    assert max(map(len, lines)) == columns, lines
