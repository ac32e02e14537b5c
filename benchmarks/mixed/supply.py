"""Batches for a job that never lacks any: copies of a dataset's, given as they are taken."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING

from benchmarks.streaming.dataset import FILES_PER_BATCH

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.streaming.dataset import Dataset

_AHEAD = 2
_KEPT = 8
_POLL_S = 0.05


class Supply:
    """Keeps some batches ahead of a streaming query, until told to stop.

    Batch `n` holds what the dataset's batch `n % batches` holds. A batch appears as a whole: its
    folder is renamed into `folder`, whose subfolders the query reads. What was taken long ago is
    removed, so that listing costs the query as much at the end as at the beginning.
    """

    def __init__(self, dataset: Dataset, folder: Path, checkpoint: Path) -> None:
        self.given = 0
        """Batches given so far."""
        self._dataset = dataset
        self._folder = folder
        self._prepared = folder.with_name(f"{folder.name}-next")
        self._offsets = checkpoint / "offsets"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._give_on, name="supply")

    @property
    def pattern(self) -> Path:
        """What the query is to read."""
        return self._folder / "*"

    def start(self) -> None:
        """Gives the first batches, then goes on by itself."""
        self._folder.mkdir()
        self._give_up_to(_AHEAD)
        self._thread.start()

    def stop(self) -> None:
        """Returns when no further batch is given; idempotent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _give_on(self) -> None:
        while not self._stop.wait(_POLL_S):
            self._give_up_to(self._begun() + _AHEAD)

    def _begun(self) -> int:
        """Batches the query has begun."""
        try:
            names = [path.name for path in self._offsets.iterdir()]
        except FileNotFoundError:
            return 0
        return max((int(name) + 1 for name in names if name.isdecimal()), default=0)

    def _give_up_to(self, batches: int) -> None:
        while self.given < batches:
            number = self.given
            self._prepared.mkdir()
            for part in range(FILES_PER_BATCH):
                source = f"{number % self._dataset.batches:04}-{part}.parquet"
                path = self._prepared / f"{number:06}-{part}.parquet"
                shutil.copyfile(self._dataset.folder / source, path)
                os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
            self._prepared.rename(self._folder / f"{number:06}")
            self.given += 1
            if number >= _KEPT:
                shutil.rmtree(self._folder / f"{number - _KEPT:06}")
