"""A checkpoint of Spark's, written once more batch by batch, as its query would."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.native_state.archives import unpack
from tests.native_state.files.conftest import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSION = re.compile(r"\.?([0-9]+)(?:_[^.]+)?\.(changelog|zip|delta|snapshot)(\.crc)?")
_BATCH = re.compile(r"\.?([0-9]+)(\.crc)?")


class ReplayedQuery:
    """Copies the files of a checkpoint that Spark wrote into `root`, up to a batch."""

    def __init__(self, source: Path, root: Path) -> None:
        self.root = root
        self._source = source
        self.newest = -1
        for path in self._files():
            if self._batch_of(path) is None:
                self._copy(path)

    @classmethod
    def of_fixture(cls, name: str, folder: Path) -> ReplayedQuery:
        """Of a checkpoint in the fixtures here or of `files`; nothing is committed yet."""
        own = Path(__file__).parent / "fixtures" / f"{name}.tar.xz"
        unpack(own if own.exists() else FIXTURES / own.name, folder / "whole")
        return cls(folder / "whole", folder / "checkpoint")

    @property
    def last_batch(self) -> int:
        """The last batch that Spark committed."""
        return max(int(path.name) for path in (self._source / "commits").glob("[0-9]*"))

    def begin(self, batch: int) -> None:
        """Writes everything of a batch and those before it, but its commit."""
        for path in self._files():
            of_batch = self._batch_of(path)
            if of_batch is not None and of_batch <= batch and path.parent.name != "commits":
                self._copy(path)

    def commit(self, batch: int) -> None:
        """Commits a batch and those before it."""
        self.begin(batch)
        for each in range(self.newest + 1, batch + 1):
            if (self._source / "commits" / str(each)).exists():
                self._copy(self._source / "commits" / str(each))
        self.newest = max(self.newest, batch)

    def state_files(self, *suffixes: str) -> list[Path]:
        """The files of stores with one of these suffixes, that are there now."""
        return sorted(
            path
            for path in (self.root / "state").rglob("*")
            if path.suffix in suffixes and not path.name.startswith(".")
        )

    def _files(self) -> Iterator[Path]:
        return (path for path in self._source.rglob("*") if path.is_file())

    def _batch_of(self, path: Path) -> int | None:
        """The batch that wrote a file; None for files that were there from the start."""
        if path.parent.name in ("commits", "offsets"):
            match = _BATCH.fullmatch(path.name)
            return int(match[1]) if match else None
        match = _VERSION.fullmatch(path.name)
        return int(match[1]) - 1 if match else None

    def _copy(self, path: Path) -> None:
        target = self.root / path.relative_to(self._source)
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        # Spark renames its files into place.
        temporary = target.with_name(f".{target.name}.tmp")
        shutil.copyfile(path, temporary)
        temporary.replace(target)
