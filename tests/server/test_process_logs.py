"""The log of a process: bounded, with times, levels and logger names, and all that it prints."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.settings.shared_settings import LogSettings
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import logging, os, sys
from pathlib import Path
from queryable_state.server.process.logs import log_to_file
from queryable_state.server.settings.shared_settings import LogSettings
log_to_file(Path(sys.argv[1]), LogSettings(log_level="WARNING", log_file_bytes=2000, log_files=2))
log = logging.getLogger("some.logger")
for number in range(200):
    log.info("left out")
    log.warning("line %d", number)
os.write(2, b"printed by a library\\n")
"""


def test_a_log_rotates_and_takes_what_libraries_print(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("ab") as output:
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(log)], stdout=output, stderr=output, check=True
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "server.log", "server.log.1", "server.log.2",
    ]  # fmt: skip
    assert all(path.stat().st_size <= 2100 for path in tmp_path.iterdir())
    lines = log.read_text().splitlines()
    assert lines[-1] == "printed by a library"
    assert "WARNING some.logger: line 199" in lines[-2]
    assert "left out" not in log.read_text()


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="LOUD"):
        LogSettings(log_level="LOUD")
