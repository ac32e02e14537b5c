"""Archives of fixtures."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def unpack(path: Path, folder: Path) -> None:
    """Unpacks an archive into a folder."""
    with tarfile.open(path) as archive:
        # Python has no filters before 3.11.4.
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:
            archive.extractall(folder)
