"""What jobs leave in their folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.layout import ENDPOINT

if TYPE_CHECKING:
    from pathlib import Path


def entries_of(folder: Path) -> list[Path]:
    """What is in a folder, but for the address of the running driver."""
    return sorted(path for path in folder.iterdir() if path.name != ENDPOINT)


def files_of(folder: Path) -> list[Path]:
    """All files below a folder, but for the address of the running driver."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ENDPOINT)
