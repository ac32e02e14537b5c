"""Bars of long work on a terminal, and nothing of them elsewhere."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import sys
from typing import TYPE_CHECKING

from tests.waiting import DEADLINE_S

from queryable_state.cli.progress import ProgressBar

if TYPE_CHECKING:
    from tests.cli.conftest import Terminal


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_is_one_line_that_is_removed_at_the_end() -> None:
    stream = _Tty()
    with ProgressBar("loading", stream=stream) as bar:
        bar.show(0, 0)
        bar.show(1, 4, "of 4 MiB")
        bar.show(1, 4, "of 4 MiB")
        bar.show(9, 4)
    drawn = stream.getvalue().split("\r\x1b[K")
    assert drawn == [
        "",
        "loading",
        f"loading [{'#' * 7}{' ' * 23}]  25 % of 4 MiB",
        f"loading [{'#' * 30}] 100 %",
        "",
    ]


def test_nothing_is_drawn_into_a_file() -> None:
    stream = io.StringIO()
    with ProgressBar("loading", stream=stream) as bar:
        bar.show(1, 4)
    assert stream.getvalue() == ""


async def test_a_scan_into_a_file_shows_a_bar_on_the_terminal(terminal: Terminal) -> None:
    command = ["scan", "last", "--json", "--server", terminal.address]
    near, far = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", "import sys; from queryable_state.cli import main; sys.exit(main())"),
            *command,
            stdout=asyncio.subprocess.PIPE,
            stderr=far,
        )
        os.close(far)
        async with asyncio.timeout(DEADLINE_S):
            out, _ = await process.communicate()
        drawn = os.read(near, 1 << 16).decode()
    finally:
        os.close(near)
    assert process.returncode == 0
    assert len(json.loads(out)["keys"]) == 30
    assert f"reading [{'#' * 30}] 100 % 30 keys" in drawn
    assert drawn.endswith("\r\x1b[K")
    piped = await terminal.run("scan", "last", "--json")
    assert len(piped.json["keys"]) == 30
