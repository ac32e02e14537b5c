"""The walk of deploy/spark-submit/README.md: every command as printed, on a cluster it starts."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.docs.pages import ROOT, blocks, commands
from tests.standalone.conftest import PAGE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.standalone.conftest import Packed

pytestmark = [pytest.mark.standalone, pytest.mark.timeout(1000)]

_FIRST = "## 2."
"""The section that the shell begins with; the fixture `packed` has run the one before it."""


def _sections() -> dict[str, list[str]]:
    """The commands of each section of the page, by heading."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    found: dict[str, list[str]] = {}
    for block in blocks(PAGE):
        if block.language == "console":
            heading = next(line for line in reversed(lines[: block.line]) if line.startswith("## "))
            found.setdefault(heading, []).extend(commands(block))
    return found


def _isolated(command: list[str]) -> list[str]:
    """The command in a network and a process namespace of its own, if this user may make them.

    There the page's ports are free, and no process outlives the command.
    """
    prefix = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if shutil.which("unshare") and shutil.which("ip"):
        allowed = subprocess.run([*prefix, "true"], check=False, capture_output=True)
        if allowed.returncode == 0:
            return [*prefix, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command]
    return command


def test_every_command_of_the_page_runs_as_printed(packed: Packed, tmp_path: Path) -> None:
    script = ["set -eu"]
    for heading, lines in _sections().items():
        if heading >= _FIRST:
            script += [f'echo "TIME $(date +%s.%N) {heading}"', *lines]
    script.append('echo "TIME $(date +%s.%N) end"')
    file = tmp_path / "walk.sh"
    file.write_text("\n".join(script) + "\n")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")
    }
    process = subprocess.Popen(
        _isolated(["bash", str(file)]),
        cwd=ROOT,
        env=environment | {"HOME": str(packed.home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        _kill(process)
        output, _ = process.communicate()
        pytest.fail(f"the walk does not end:\n{output[-3000:]}\n{_logs(packed.home)}")
    finally:
        _kill(process)
    assert process.returncode == 0, f"{output[-3000:]}\n{_logs(packed.home)}"
    assert output.count("customer_1") >= 2, output
    assert "refused without a token" in output, output
    _report(output, packed.seconds)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kills the shell with all that it started, also if the test itself is cut off."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _report(output: str, packing_s: float) -> None:
    """Prints what each section took."""
    times = [line.split(" ", 2)[1:] for line in output.splitlines() if line.startswith("TIME ")]
    print(f"{packing_s:6.1f} s  ## 1.")  # noqa: T201 - shown by pytest -s
    for (start, heading), (end, _) in itertools.pairwise(times):
        print(f"{float(end) - float(start):6.1f} s  {heading}")  # noqa: T201


def _logs(home: Path) -> str:
    """The ends of the logs that the page's commands write."""
    return "\n".join(
        f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}"
        for log in sorted((home / "qs").glob("*.log"))
    )
