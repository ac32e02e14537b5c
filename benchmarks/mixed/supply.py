"""An endless supply of batches for a streaming query: copies of a dataset's batches."""

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
    """Keeps some batches ahead of a streaming query until it is stopped.

    Batch `n` is a copy of the dataset's batch `n % batches`. A batch appears atomically: its folder
    is renamed into `folder`, whose subfolders the query reads. Old batches are deleted, so that
    listing the folder costs the query the same during the whole run.
    """

    def __init__(self, dataset: Dataset, folder: Path, checkpoint: Path) -> None:
        self.supplied = 0
        """Batches supplied so far."""
        self._dataset = dataset
        self._folder = folder
        self._prepared = folder.with_name(f"{folder.name}-next")
        self._offsets = checkpoint / "offsets"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supply")

    @property
    def pattern(self) -> Path:
        """The path pattern that the query reads."""
        return self._folder / "*"

    def start(self) -> None:
        """Supplies the first batches and starts the thread that supplies the rest."""
        self._folder.mkdir()
        self._supply(_AHEAD)
        self._thread.start()

    def stop(self) -> None:
        """Stops supplying and waits for the thread; idempotent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_POLL_S):
            self._supply(self._begun() + _AHEAD)

    def _begun(self) -> int:
        """The number of batches that the query has begun."""
        try:
            names = [path.name for path in self._offsets.iterdir()]
        except FileNotFoundError:
            return 0
        return max((int(name) + 1 for name in names if name.isdecimal()), default=0)

    def _supply(self, batches: int) -> None:
        while self.supplied < batches:
            number = self.supplied
            self._prepared.mkdir()
            for part in range(FILES_PER_BATCH):
                source = f"{number % self._dataset.batches:04}-{part}.parquet"
                path = self._prepared / f"{number:06}-{part}.parquet"
                shutil.copyfile(self._dataset.folder / source, path)
                os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
            self._prepared.rename(self._folder / f"{number:06}")
            self.supplied += 1
            if number >= _KEPT:
                shutil.rmtree(self._folder / f"{number - _KEPT:06}")
