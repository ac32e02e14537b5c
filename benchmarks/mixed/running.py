"""The job's process as the asking process sees it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from benchmarks.streaming.dataset import Dataset

_END_TIMEOUT_S = 60.0
_LOG_TAIL = 4000


class RunningJob:
    """One process of `benchmarks.mixed.job`, until the block is left; its folder goes with it."""

    def __init__(self, kind: str, dataset: Dataset, work: Path, *, warm_up: int, port: int) -> None:
        work.mkdir()
        self._kind = kind
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
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "benchmarks.mixed.job", kind),
                    *(str(part) for pair in arguments.items() for part in pair),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # A scheduling group of its own, as redis-server and state servers have.
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        shutil.rmtree(self._work, ignore_errors=True)

    def wait_warm(self) -> None:
        """Returns when the batches of the warm-up are behind it."""
        self.read()

    def finish(self) -> dict[str, Any]:
        """Ends the supply; answers all batches when the last is readable."""
        assert self._process.stdin is not None
        self._process.stdin.write("finish\n")
        self._process.stdin.flush()
        return self.read()

    def read(self) -> dict[str, Any]:
        """The next line of the process."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            tail = self._log.read_text()[-_LOG_TAIL:]
            raise RuntimeError(f"the job of {self._kind} ended; its log ends with:\n{tail}")
        answer: dict[str, Any] = json.loads(line)
        return answer
