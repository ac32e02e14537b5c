"""Programs of Spark that tests kill: what they leave behind goes with the test's own folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def temporary_files_in(folder: Path) -> dict[str, str]:
    """Environment of a driver whose temporary files, Python's and its JVM's, are in a folder.

    A driver that is killed removes none of them.
    """
    folder.mkdir(exist_ok=True)
    return {"TMPDIR": str(folder), "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={folder}"}
