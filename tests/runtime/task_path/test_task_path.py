"""How much of the product a task of a plain function passes through."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

MOST_FILES: Final = 40
MOST_CALLS: Final = 440
MOST_CHANGES: Final = 234

# The parts that a function has only if it asks for them.
_OPTIONAL_PARTS = re.compile(
    r"^  \S*(/timers|/windows?|/operator_states?|/aggregates|/vectorised|/stateless"
    r"|broadcast|side_outputs|hooks|/config/)",
    re.MULTILINE,
)


def test_a_steady_batch_of_a_plain_function_enters_at_most_40_files(tmp_path: Path) -> None:
    """The limits may fall; a change that raises them must say what the new steps are for.

    The state server of a worker belongs to the JVM above it, so a process named `java` starts the
    worker.
    """
    java = tmp_path / "java"
    java.symlink_to(Path(sys.executable).resolve())
    start = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    worker = [sys.executable, "-m", "tests.runtime.task_path.steady_batch"]
    ended = subprocess.run(
        [java, "-c", start, *worker],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    path = ended.stdout

    counts = re.match(r"(\d+) files, (\d+) calls, (\d+) changes of file\n", path)
    assert counts is not None, path
    files, calls, changes = map(int, counts.groups())
    assert not _OPTIONAL_PARTS.findall(path), path
    assert files <= MOST_FILES, path
    assert calls <= MOST_CALLS, path
    assert changes <= MOST_CHANGES, path
