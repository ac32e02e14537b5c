"""The job's process as the asking process sees it."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.line_process import LineProcess

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.streaming.dataset import Dataset

_LOG_TAIL = 4000


class RunningJob(LineProcess):
    """One process of `benchmarks.mixed.job`, until the block is left; its folder goes with it."""

    def __init__(self, kind: str, dataset: Dataset, work: Path, *, warm_up: int, port: int) -> None:
        work.mkdir()
        self._work = work
        self._log = work / "stderr"
        arguments = {
            "--data": dataset.folder,
            "--batches": dataset.batches,
            "--rows-per-batch": dataset.rows_per_batch,
            "--keys": dataset.keys,
            "--work": work,
            "--warm-up": warm_up,
            "--port": port,
        }
        with self._log.open("w") as log:
            super().__init__(
                f"the job of {kind}",
                [
                    *(sys.executable, "-m", "benchmarks.mixed.job", kind),
                    *(str(part) for pair in arguments.items() for part in pair),
                ],
                end_timeout_s=60,
                own_session=True,
                stderr=log,
            )

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        shutil.rmtree(self._work, ignore_errors=True)

    def wait_warm(self) -> None:
        """Returns when the batches of the warm-up are behind it."""
        self.read()

    def finish(self) -> dict[str, Any]:
        """Ends the supply; answers all batches when the last is readable."""
        return self.command("finish")

    def last_words(self) -> str:
        return f"its log ends with:\n{self._log.read_text()[-_LOG_TAIL:]}"
