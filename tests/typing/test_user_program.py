"""What mypy --strict knows of a user's program: the types of states, and of what queries return."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM = Path(__file__).with_name("user_program.py")


@pytest.fixture(scope="module")
def findings(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> dict[int, list[str]]:
    """The types and errors that mypy --strict reports, by line of the program."""
    folder = tmp_path_factory.mktemp("mypy")
    # What mypy knows of the packages stays for the next run; there is no cache if pytest has none.
    kept = getattr(pytestconfig, "cache", None)
    cache = folder / "cache" if kept is None else kept.mkdir("mypy")
    # A copy elsewhere is checked as a user's file is: against the installed package.
    program = folder / "program.py"
    program.write_text(_PROGRAM.read_text())
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    result = subprocess.run(
        [*command, "--show-error-codes", f"--cache-dir={cache}", str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert not result.stderr, result.stderr
    found: dict[int, list[str]] = {}
    for line in result.stdout.splitlines():
        match = re.fullmatch(r"program\.py:(\d+): (note|error): (.*)", line)
        assert match, line
        if match[2] == "error":
            found.setdefault(int(match[1]), []).append("error: " + match[3].split("[")[-1][:-1])
        elif revealed := re.fullmatch(r'Revealed type is "(.*)"', match[3]):
            found.setdefault(int(match[1]), []).append(_short(revealed[1]))
    return found


def _short(revealed: str) -> str:
    """A revealed type without modules and marks of inference."""
    return re.sub(r"(?:\w+\.)+(?=\w)", "", revealed).replace("?", "")


def _expected() -> Iterator[tuple[int, str]]:
    for number, line in enumerate(_PROGRAM.read_text().splitlines(), 1):
        code, _, comment = line.partition("  # ")
        if "reveal_type(" in code or comment.startswith("error: "):
            yield number, comment


def test_every_line_has_the_type_that_stands_behind_it(findings: dict[int, list[str]]) -> None:
    assert findings == {line: [expected] for line, expected in _expected()}
