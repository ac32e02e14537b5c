"""Data files of a store's last snapshot, kept so that its next one downloads only new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage_errors import translating

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from queryable_state.server.native_state.files.rocksdb.snapshot_metadata import DataFile


class Downloads:
    """Hard links to downloaded files, by the unique names that the job gave them."""

    def __init__(self, folder: Path) -> None:
        with translating(str(folder), "make"):
            folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def link(self, file: DataFile, target: Path) -> bool:
        """Makes `target` a link to a kept file; False if it is not kept."""
        source = self._folder / _name(file)
        try:
            if source.stat().st_size != file.size_bytes:
                return False
            target.hardlink_to(source)
        except FileNotFoundError:
            return False
        return True

    def keep(self, file: DataFile, downloaded: Path) -> None:
        """Keeps a downloaded file."""
        with translating(str(self._folder), "fill"):
            kept = self._folder / _name(file)
            kept.unlink(missing_ok=True)
            kept.hardlink_to(downloaded)

    def remove_others(self, files: Iterable[DataFile]) -> None:
        """Removes all kept files but these."""
        names = {_name(file) for file in files}
        for kept in self._folder.iterdir():
            if kept.name not in names:
                kept.unlink(missing_ok=True)


def _name(file: DataFile) -> str:
    return file.path.rsplit("/", 1)[-1]
