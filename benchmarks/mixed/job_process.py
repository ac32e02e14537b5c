"""The process of a job, as the client process drives it."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.child_process import LineProcess

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from benchmarks.streaming.dataset import Dataset

_LOG_TAIL = 4000


class JobProcess(LineProcess):
    """One process of `benchmarks.mixed.job`; its folder is deleted when it ends."""

    def __init__(
        self,
        kind: str,
        dataset: Dataset,
        work: Path,
        *,
        warm_up: int,
        port: int,
        web: bool = False,
    ) -> None:
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
                    *(["--web"] if web else []),
                ],
                own_session=True,
                stderr=log,
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        shutil.rmtree(self._work, ignore_errors=True)

    def wait_warm(self) -> None:
        """Returns when the batches of the warm-up are done."""
        self.read()

    def finish(self) -> dict[str, Any]:
        """Stops the supply; returns all batches once the last one is readable."""
        return self.command("finish")

    def reason_of_end(self) -> str:
        return f"its log ends with:\n{self._log.read_text()[-_LOG_TAIL:]}"
